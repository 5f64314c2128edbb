/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery of the layout by signature, on synthetic allocators: no version is told to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/walk/torch/torch_image.h"
#include "inject/cuda_imports.h"
#include "walk/torch/find.h"
#include "walk/torch/table.h"

static void find_version(struct image *image, const char *version, struct vt_torch_found *found)
{
	memset(found, 0, sizeof(*found));
	snprintf(found->version, sizeof(found->version), "%s", version);
	vt_torch_find_layout(&image->maps, &image->src, image->allocator, found);
}

static void find(struct image *image, struct vt_torch_found *found)
{
	find_version(image, "", found);
}

/*
 * What was found is right; with a row of the table, or where all is to be seen, all was found.
 * Whether a pending free is among the samples is a matter of luck.
 */
static void assert_layout(const struct image *image, const struct vt_torch_found *found, bool all)
{
	struct vt_torch_layout truth;

	image_layout(image, &truth);
	assert_string_equal(found->why, "");
	assert_string_equal(found->differs, "");
	assert_int_equal(found->backend, VT_TORCH_NATIVE);
	assert_int_equal(found->allocator, image->allocator);
	for (enum vt_torch_field field = 0; field < VT_TORCH_N_FIELDS; field++) {
		uint32_t ours = vt_torch_field_get(&found->layout, field),
			 theirs = vt_torch_field_get(&truth, field);

		if (found->how[field] == VT_TORCH_HOW_NOT &&
		    (!all || (field == VT_TORCH_BLOCK_EVENT_COUNT && !found->row)))
			continue;
		if (field == VT_TORCH_BLOCK_SIZE_OF && !found->row)
			assert_in_range(ours, theirs, theirs + 15);
		else if (ours != theirs)
			fail_msg("%s.%s: %u is not %u", vt_torch_field_class(field),
				 vt_torch_field_name(field), ours, theirs);
	}
	if (found->how[VT_TORCH_GRAPH_POOLS] != VT_TORCH_HOW_NOT)
		assert_int_equal(found->layout.cuda_events, truth.cuda_events);
}

struct sink {
	struct vt_torch_sink base;
	struct vt_block_rec recs[1000];
};

static struct vt_block_rec *reserve(struct vt_torch_sink *sink, uint64_t n)
{
	return n <= 1000 ? ((struct sink *)sink)->recs : NULL;
}

/* The walk, which has the last word, gets every block of the image with what was found. */
static void assert_blocks(struct image *image, const struct vt_torch_found *found)
{
	struct vt_torch_walk_limits limits = { .max_blocks = 1000 };
	struct sink *sink = calloc(1, sizeof(*sink));
	size_t n = 0;

	sink->base.reserve = reserve;
	for (int device = 0; device < image->n_devices; device++) {
		struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(1000) };
		struct vt_torch_device_result result = { 0 };

		scratch.base = calloc(1, scratch.size);
		vt_torch_walk_device(&image->src, &found->layout, image->dcas[device], device,
				     &limits, &scratch, &sink->base, &result);
		free(scratch.base);
		assert_string_equal(result.why, "");
		assert_int_equal(result.result, VT_WALK_COMPLETE);
		n += result.blocks;
		for (uint64_t i = 0; i < result.blocks; i++) {
			size_t at = 0;

			while (at < image->n_blocks &&
			       image->blocks[at].object != sink->recs[i].object)
				at++;
			assert_true(at < image->n_blocks);
			if (found->how[VT_TORCH_BLOCK_CONTEXT] == VT_TORCH_HOW_NOT)
				sink->recs[i].context = image->blocks[at].rec.context;
			assert_memory_equal(&sink->recs[i], &image->blocks[at].rec,
					    sizeof(sink->recs[i]));
		}
	}
	assert_int_equal(n, image->n_blocks);
	free(sink);
}

/*
 * With blocks to look at, every offset is found, also of a release that no table knows, and of
 * every one without a table.
 */
static void test_every_release(void **state)
{
	static const char *const names[] = {
		[IMAGE_2_0] = "2.0",           [IMAGE_2_2] = "2.2",
		[IMAGE_2_6] = "2.5 to 2.7",    [IMAGE_2_10] = "2.10",
		[IMAGE_2_11] = "2.11",         [IMAGE_2_14] = "2.13 to 2.15",
		[IMAGE_2_15] = "2.13 to 2.15", [IMAGE_FUTURE] = "no known release",
	};

	(void)state;
	for (int release = 0; release < IMAGE_RELEASES; release++) {
		for (int run = 0; run < 4; run++) {
			bool hidden = run % 2, known = !hidden && release != IMAGE_FUTURE;
			struct vt_torch_found found;
			struct image image;

			vt_torch_hide_row(hidden ? "all" : NULL);
			image_init(&image, (enum image_release)release, 2, 400, false);
			image_fill(&image, 9, 400, run / 2 * 4);
			image_finish(&image);
			find(&image, &found);
			assert_layout(&image, &found, known || run / 2);
			assert_string_equal(found.layout.name,
					    known ? names[release] : "no known release");
			assert_int_equal(!found.row, !known);
			assert_true(image.reads < 6000);
			assert_blocks(&image, &found);
			image_deinit(&image);
		}
	}
}

/*
 * Initialised, and nothing allocated yet. The block layout then follows from the pools, in a known
 * release.
 */
static void test_no_blocks(void **state)
{
	(void)state;
	for (int release = 0; release < IMAGE_FUTURE; release++) {
		struct vt_torch_found found;
		struct image image;

		image_init(&image, (enum image_release)release, 3, 1, false);
		image_finish(&image);
		find(&image, &found);
		assert_layout(&image, &found, true);
		image_deinit(&image);
	}
}

/*
 * In an unknown release it does not: that there is no block is all that is known. Should there be
 * one, it is not read.
 */
static void test_no_blocks_of_an_unknown_release(void **state)
{
	static const struct image_spec spec[] = { { 2 << 20, 1, VT_BLOCK_CACHED } };
	struct vt_torch_walk_limits limits = { .max_blocks = 1000 };
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(1000) };
	struct vt_torch_device_result result = { 0 };
	struct sink *sink = calloc(1, sizeof(*sink));
	struct vt_torch_found found;
	struct image image;

	(void)state;
	sink->base.reserve = reserve;
	scratch.base = calloc(1, scratch.size);
	image_init(&image, IMAGE_FUTURE, 1, 10, false);
	find(&image, &found);
	assert_layout(&image, &found, false);
	assert_null(found.row);
	assert_int_equal(found.layout.block.size_of, 0);
	assert_blocks(&image, &found);
	image_add_segment(&image, 0, 0x7f0000000000, 0, false, spec, 1);
	image_finish(&image);
	vt_torch_walk_device(&image.src, &found.layout, image.dcas[0], 0, &limits, &scratch,
			     &sink->base, &result);
	assert_int_equal(result.result, VT_WALK_REFUSED);
	assert_non_null(strstr(result.why, "is not known"));
	free(scratch.base);
	free(sink);
	image_deinit(&image);
}

/* ---- releases to come ---- */

static uint32_t next_random(uint32_t *seed)
{
	return (*seed = *seed * 1103515245 + 12345) >> 16;
}

/* The fields of a Block in some order, with gaps, each aligned to its width. */
static void arrange(struct vt_torch_block_layout *l, uint32_t seed)
{
	struct {
		uint16_t *offset;
		uint16_t width;
	} parts[] = {
		{ &l->device, 8 },         { &l->stream_uses, 40 }, { &l->size, 8 },
		{ &l->requested_size, 8 }, { &l->pool, 8 },         { &l->ptr, 8 },
		{ &l->allocated, 8 },      { &l->prev, 8 },         { &l->next, 8 },
		{ &l->event_count, 8 },    { &l->context, 32 },     { &l->expandable_segment, 8 },
	};
	size_t n = sizeof(parts) / sizeof(parts[0]);
	uint16_t at = 0;

	for (size_t i = n - 1; i > 0; i--) {
		size_t other = next_random(&seed) % (i + 1);
		uint16_t *offset = parts[i].offset, width = parts[i].width;

		parts[i] = parts[other];
		parts[other].offset = offset;
		parts[other].width = width;
	}
	for (size_t i = 0; i < n; i++) {
		if (next_random(&seed) % 4 == 0 && at < 48)
			at += 8; /* a new member */
		*parts[i].offset = at;
		at += parts[i].width;
	}
	l->stream = l->stream_uses; /* in front of stream_uses, as ever */
	l->stream_uses += 8;
	l->mapped = l->allocated + 1;
	l->size_of = at;
}

/* Whatever the order of the fields, they are found by what is in them. */
static void test_any_order(void **state)
{
	size_t missing = 0;

	(void)state;
	for (uint32_t seed = 0; seed < 100; seed++) {
		struct vt_torch_found found;
		struct image image;

		image_init(&image, seed % 2 ? IMAGE_2_15 : IMAGE_FUTURE, 2, 400, false);
		arrange(&image.block, seed);
		image_fill(&image, seed, 400, 2);
		image_finish(&image);
		find(&image, &found);
		assert_layout(&image, &found, false);
		assert_null(found.row);
		assert_blocks(&image, &found);
		for (enum vt_torch_field field = 0; field < VT_TORCH_N_FIELDS; field++)
			missing += found.how[field] == VT_TORCH_HOW_NOT &&
				   field != VT_TORCH_BLOCK_EVENT_COUNT;
		image_deinit(&image);
	}
	/* where by chance nothing is unmapped or recorded among the samples */
	assert_true(missing < 20);
}

/*
 * Whatever else is in a Block: small numbers, minus ones, addresses of code, and of objects that
 * are no Blocks.
 */
static void test_new_members(void **state)
{
	(void)state;
	for (uint64_t seed = 0; seed < 40; seed++) {
		struct vt_torch_found found;
		struct image image;

		image_init(&image, IMAGE_FUTURE, 2, 300, false);
		image_fill(&image, seed, 300, 2);
		image_finish(&image);
		for (size_t i = 0; i < image.n_blocks; i++) {
			/* BLOCK_SHIFTED leaves three words free before size */
			uint64_t words[] = { seed % 5,   i % 7,         UINT64_MAX,    UINT32_MAX,
					     image.code, image.control, image.dcas[0], 1 };

			for (uint64_t w = 0; w < 3; w++)
				image_poke64(&image,
					     image_block_field(&image, i, (uint16_t)(48 + 8 * w)),
					     words[(seed + w * 3) % 8]);
		}
		find(&image, &found);
		assert_layout(&image, &found, true);
		assert_blocks(&image, &found);
		image_deinit(&image);
	}
}

/*
 * Padding has what the memory had before: a 1 is no flag where nothing is allocated, half an
 * address no count of events.
 */
static void test_padding(void **state)
{
	static const uint64_t garbage[] = { 1 << 16, UINT64_C(0x55c0) << 32,
					    UINT64_C(0x7f1b55c0) << 16, 3 << 16 };

	(void)state;
	for (int release = IMAGE_2_2; release < IMAGE_FUTURE; release++) {
		struct image_spec specs[32];
		struct image image;

		image_init(&image, (enum image_release)release, 2, 200, false);
		for (int i = 0; i < 32; i++)
			specs[i] =
				(struct image_spec){ 2 << 20, 0,
						     i % 2 ? VT_BLOCK_UNMAPPED : VT_BLOCK_CACHED };
		for (int pool = 0; pool < 4; pool++) {
			specs[0].state = pool ? VT_BLOCK_CACHED : VT_BLOCK_AWAITING_FREE;
			image_add_segment(&image, pool,
					  UINT64_C(0x7f0000000000) + ((uint64_t)pool << 36), 0,
					  true, specs, 32);
		}
		image_finish(&image);
		for (size_t i = 0; i < image.n_blocks; i++) {
			uint64_t at = image_block_field(&image, i, image.block.allocated),
				 word = image_peek64(&image, at);
			struct vt_torch_found found;

			image_poke64(&image, at, word | garbage[(i + 1) % 4]);
			find(&image, &found);
			assert_layout(&image, &found, false);
			assert_non_null(found.row);
			image_poke64(&image, at, word);
		}
		image_deinit(&image);
	}
}

/*
 * Hardly a block is allocated, nearly all await their free, each with one event: a flag that no
 * sample has, and a 1 that all have.
 */
static void test_hardly_any_allocated(void **state)
{
	(void)state;
	for (int run = 0; run < 20 * IMAGE_RELEASES; run++) {
		struct image_spec specs[120];
		struct vt_torch_found found;
		struct image image;

		image_init(&image, (enum image_release)(run % IMAGE_RELEASES), 2, 400, false);
		for (int i = 0; i < 120; i++)
			specs[i] = (struct image_spec){ 2 << 20, 1 << 20,
							i == run / 2 ? VT_BLOCK_ALLOCATED :
								       VT_BLOCK_AWAITING_FREE };
		for (int pool = 0; pool < 3; pool += 2)
			image_add_segment(&image, pool,
					  UINT64_C(0x7f0000000000) + ((uint64_t)pool << 36), 0,
					  false, specs, 120);
		image_finish(&image);
		find(&image, &found);
		assert_layout(&image, &found, false);
		assert_blocks(&image, &found);
		image_deinit(&image);
	}
}

struct few {
	struct image_spec specs[4];
	size_t n;
	bool expandable;
	uint64_t stream;
};

/*
 * So few blocks that not every field can be told by what is in it. What is found is right, or
 * nothing is.
 */
static void test_few_blocks(void **state)
{
	static const struct few cases[] = {
		{ { { 2 << 20, 2 << 20, VT_BLOCK_ALLOCATED } }, 1, false, 0 },
		{ { { 2 << 20, 1000, VT_BLOCK_ALLOCATED } }, 1, false, 0x5500000040 },
		{ { { 20 << 20, 0, VT_BLOCK_CACHED } }, 1, false, 0 },
		{ { { 512, 512, VT_BLOCK_ALLOCATED }, { (2 << 20) - 512, 0, VT_BLOCK_CACHED } },
		  2,
		  false,
		  0 },
		{ { { 512, 1, VT_BLOCK_AWAITING_FREE }, { (2 << 20) - 512, 0, VT_BLOCK_CACHED } },
		  2,
		  false,
		  0 },
		{ { { 512, 512, VT_BLOCK_ALLOCATED },
		    { 512, 512, VT_BLOCK_ALLOCATED },
		    { 1024, 1024, VT_BLOCK_ALLOCATED } },
		  3,
		  false,
		  0 },
		{ { { 2 << 20, 9, VT_BLOCK_ALLOCATED },
		    { UINT64_C(1) << 36, 0, VT_BLOCK_UNMAPPED } },
		  2,
		  true,
		  0 },
		{ { { 2 << 20, 0, VT_BLOCK_CACHED }, { UINT64_C(1) << 36, 0, VT_BLOCK_UNMAPPED } },
		  2,
		  true,
		  0x5500000040 },
	};

	(void)state;
	for (int release = 0; release < IMAGE_RELEASES; release++) {
		for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
			const struct few *c = &cases[i];
			struct vt_torch_found found;
			struct image image;

			if (c->expandable && release == IMAGE_2_0)
				continue;
			vt_torch_hide_row("all");
			image_init(&image, (enum image_release)release, 1, 10, false);
			image_add_segment(&image, (int)(c->specs[0].size < 2 << 20), 0x7f0000000000,
					  c->stream, c->expandable, c->specs, c->n);
			image_finish(&image);
			find(&image, &found);
			assert_layout(&image, &found, false);
			assert_blocks(&image, &found);
			vt_torch_hide_row(NULL);
			find(&image, &found);
			assert_layout(&image, &found, release != IMAGE_FUTURE);
			image_deinit(&image);
		}
	}
}

/* The version says another release than what is found: that is not hidden. */
static void test_differs(void **state)
{
	static const struct {
		enum image_release release;
		const char *version, *differs;
	} cases[] = {
		{ IMAGE_2_15, "2.15.0+cu132", "" },
		{ IMAGE_2_15, "2.15.7", "" },
		{ IMAGE_2_15, "2.11.0+cu130", "large_blocks is 1064, not 1024" },
		{ IMAGE_2_11, "2.10.0+cu128", "Block.size is 56, not 48; and " },
		{ IMAGE_FUTURE, "2.15.0", "device_allocator is 23000, not 22584" },
		/* not known, or not an official release: nothing is expected */
		{ IMAGE_FUTURE, "2.16.0", "" },
		{ IMAGE_2_15, "2.11.0a0+git0123456", "" },
		{ IMAGE_2_15, "2.1", "" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_torch_found found;
		struct image image;

		image_init(&image, cases[i].release, 1, 100, false);
		image_fill(&image, 9, 100, 0);
		image_finish(&image);
		find_version(&image, cases[i].version, &found);
		assert_int_equal(found.backend, VT_TORCH_NATIVE);
		if (cases[i].differs[0] ? !strstr(found.differs, cases[i].differs) :
					  found.differs[0] != 0)
			fail_msg("case %zu: '%s'", i, found.differs);
		assert_blocks(&image, &found); /* it is what was found that counts */
		image_deinit(&image);
	}
}

/*
 * The release is called as its version says where several have the same layout; a build for another
 * CUDA is no other release.
 */
static void test_rows(void **state)
{
	struct vt_torch_found found;
	struct image image;
	size_t n;
	const struct vt_torch_row *rows = vt_torch_rows(&n);

	(void)state;
	image_init(&image, IMAGE_2_15, 1, 100, false);
	image_fill(&image, 9, 100, 0);
	image_finish(&image);
	find_version(&image, "2.14.1+cu130", &found);
	assert_string_equal(found.row->release, "2.14");
	assert_true(vt_torch_hide_row("2.14"));
	find_version(&image, "2.14.1+cu130", &found);
	assert_non_null(found.row);
	assert_string_not_equal(found.row->release, "2.14");
	assert_string_equal(found.differs, "");
	assert_false(vt_torch_hide_row("2.99"));
	vt_torch_hide_row(NULL);
	for (size_t i = 0; i < n; i++)
		assert_false(vt_torch_is_hidden(&rows[i]));
	image_deinit(&image);
}

/* Only the second device has a private pool. */
static void test_private_pool_of_one_device(void **state)
{
	static const struct image_spec spec[] = { { 2 << 20, 1, VT_BLOCK_CACHED } };
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_15, 2, 10, false);
	image_add_segment(&image, image_add_private(&image, 1, 0, 9), 0x7f0000000000, 0, false,
			  spec, 1);
	image_finish(&image);
	find(&image, &found);
	assert_layout(&image, &found, true);
	image_deinit(&image);
}

static void test_backends(void **state)
{
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 0, 1, false);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_UNUSED);
	image_set_backend(&image, IMAGE_ASYNC);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_ASYNC);
	image_set_backend(&image, IMAGE_PLUGGABLE);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_PLUGGABLE);
	/*
	 * a class that nobody knows and no devices in it: not a reason to say that nothing is
	 * allocated
	 */
	image_poke64(&image, image.allocator, 0);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_UNKNOWN);
	assert_string_not_equal(found.why, "");
	image_deinit(&image);
}

/* Blocks are handed out, but where the devices are is not found: that is not "unused". */
static void test_not_unused(void **state)
{
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, 1, false);
	image_finish(&image);
	/* the vector is gone; a table of handed-out blocks has an element */
	image_poke64(&image, image.allocator + 22584, 0);
	memcpy((void *)(uintptr_t)(image.allocator + 4352),
	       (void *)(uintptr_t)(image.dcas[0] + 1264), 32);
	image_poke64(&image, image.allocator + 4352 + 8, 7);
	*(uint8_t *)(uintptr_t)(image.allocator + 4352 + 16) = 61;
	image_poke64(&image, image.allocator + 4352 + 24, 1);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_UNKNOWN);
	image_deinit(&image);
}

struct damage {
	uint64_t offset; /* in the device's allocator */
	uint64_t value;
	const char *why;
};

static void test_refusals(void **state)
{
	static const struct damage damages[] = {
		{ 16, 2, "no vector" },          /* the mutex is not recursive */
		{ 1024 + 24, 0x1234, "pool" },   /* the first set is none */
		{ 1024 + 96, 1, "pool" },        /* the first pool is small */
		{ 1024 + 104, 0x1000, "owner" }, /* ... is a private one */
		{ 1264 + 16, 0, "hash table" },  /* no active_blocks */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct vt_torch_found found;
		struct image image;

		image_init(&image, IMAGE_2_11, 1, 100, false);
		image_fill(&image, 9, 100, 0);
		image_finish(&image);
		image_poke64(&image, image.dcas[0] + damages[i].offset, damages[i].value);
		find(&image, &found);
		assert_int_equal(found.backend, VT_TORCH_UNKNOWN);
		if (!strstr(found.why, damages[i].why))
			fail_msg("damage %zu: '%s'", i, found.why);
		image_deinit(&image);
	}
}

/* Blocks that look like none, in whatever arrangement: the pools alone are no reason to believe. */
static void test_strange_blocks(void **state)
{
	static const struct {
		uint16_t field;
		uint64_t value;
		const char *why;
	} cases[] = {
		{ 72, 0x1000, "names their pool" },
		{ 36, 0, "stream_uses" },
		{ 56, 0x4141, "addresses and sizes" },
		{ 80, 0x7f0000000000, "addresses and sizes" },
		{ 88, 0x0707, "allocated" },
		{ 96, 0x5500000041, "neighbours of the blocks" },
		{ 8, 3, "stream" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_torch_found found;
		struct image image;

		image_init(&image, IMAGE_2_11, 1, 100, false);
		image_fill(&image, 9, 100, 0);
		image_finish(&image);
		for (size_t b = 0; b < image.n_blocks; b++)
			image_poke64(&image, image_block_field(&image, b, cases[i].field),
				     cases[i].value);
		find(&image, &found);
		if (found.backend != VT_TORCH_UNKNOWN || !strstr(found.why, cases[i].why))
			fail_msg("case %zu: backend %d, '%s'", i, (int)found.backend, found.why);
		image_deinit(&image);
	}
}

static void test_random_damage(void **state)
{
	struct image image;
	uint8_t *copy;

	(void)state;
	image_init(&image, IMAGE_2_14, 2, 200, false);
	image_fill(&image, 7, 200, 2);
	image_finish(&image);
	copy = malloc(image.used);
	memcpy(copy, image.base, image.used);
	srand(1);
	for (int round = 0; round < 600; round++) {
		struct vt_torch_found found;

		for (int i = 0; i < 10; i++) {
			size_t at = rand() % 2 ? (size_t)rand() % image.used :
						 image.dcas[0] - (uint64_t)(uintptr_t)image.base +
							 (size_t)rand() % 6400;

			image.base[at] = (uint8_t)rand();
		}
		find(&image, &found);
		assert_true(found.backend == VT_TORCH_NATIVE || found.why[0] ||
			    found.backend != VT_TORCH_UNKNOWN);
		memcpy(image.base, copy, image.used);
	}
	free(copy);
	image_deinit(&image);
}

/* The process that runs this test has no CUDA, but a C library. */
static void test_imports(void **state)
{
	struct vt_helper_imports imports;
	struct vt_modules modules = { 0 };
	struct vt_maps maps = { 0 };
	/* not a sanitizer's function of that name */
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

	(void)state;
	assert_non_null(libc);
	assert_null(vt_maps_init(&maps, getpid()));
	assert_null(vt_modules_init(&modules, getpid(), &maps));
	vt_cuda_imports(&modules, &imports);
	assert_int_equal(imports.mutex_trylock,
			 (uint64_t)(uintptr_t)dlsym(libc, "pthread_mutex_trylock"));
	assert_int_equal(imports.mutex_unlock,
			 (uint64_t)(uintptr_t)dlsym(libc, "pthread_mutex_unlock"));
	dlclose(libc);
	assert_int_equal(imports.cuMemGetInfo, 0);
	assert_int_equal(imports.cudaMemGetInfo, 0);
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
}

/* This process has no PyTorch either. */
static void test_absent(void **state)
{
	struct vt_modules modules = { 0 };
	struct vt_maps maps = { 0 };
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 0, 1, false);
	assert_null(vt_maps_init(&maps, getpid()));
	assert_null(vt_modules_init(&modules, getpid(), &maps));
	assert_null(vt_torch_find(&modules, &maps, &image.src, &found));
	assert_int_equal(found.backend, VT_TORCH_ABSENT);
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
	image_deinit(&image);
}

static int show_rows(void **state)
{
	(void)state;
	return vt_torch_hide_row(NULL) ? 0 : -1;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_every_release, show_rows),
		cmocka_unit_test_setup(test_no_blocks, show_rows),
		cmocka_unit_test_setup(test_no_blocks_of_an_unknown_release, show_rows),
		cmocka_unit_test_setup(test_any_order, show_rows),
		cmocka_unit_test_setup(test_new_members, show_rows),
		cmocka_unit_test_setup(test_padding, show_rows),
		cmocka_unit_test_setup(test_hardly_any_allocated, show_rows),
		cmocka_unit_test_setup(test_few_blocks, show_rows),
		cmocka_unit_test_setup(test_differs, show_rows),
		cmocka_unit_test_setup(test_rows, show_rows),
		cmocka_unit_test_setup(test_private_pool_of_one_device, show_rows),
		cmocka_unit_test_setup(test_backends, show_rows),
		cmocka_unit_test_setup(test_not_unused, show_rows),
		cmocka_unit_test_setup(test_refusals, show_rows),
		cmocka_unit_test_setup(test_strange_blocks, show_rows),
		cmocka_unit_test_setup(test_random_damage, show_rows),
		cmocka_unit_test_setup(test_imports, show_rows),
		cmocka_unit_test_setup(test_absent, show_rows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
