/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pinned host memory: allocators of every form built by hand, byte for byte, and then damaged in
 * every way.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "unit/walk/torch/pinned_image.h"
#include "walk/torch/pinned.h"

static void image_list(struct image *image, struct vt_pinned_result *result)
{
	struct vt_pinned_limits limits = { .max_blocks = BLOCKS_MAX,
					   .deadline_ns = vt_now_ns() + 20 * VT_NS_PER_S,
					   .max_passes = 30,
					   .maps_now = maps_now,
					   .arg = image };

	vt_pinned_read(&image->src, image->object, &limits, result);
}

static void assert_listed(struct image *image, bool stats)
{
	struct vt_pinned_result result;

	image_list(image, &result);
	assert_string_equal(result.why, "");
	assert_int_equal(result.result, VT_WALK_COMPLETE);
	assert_int_equal(result.n_blocks, image->n);
	if (image->n)
		assert_memory_equal(result.blocks, image->expected,
				    image->n * sizeof(result.blocks[0]));
	assert_int_equal(result.have_stats, stats);
	free(result.blocks);
}

static void assert_refused(struct image *image, const char *why)
{
	struct vt_pinned_result result;

	image_list(image, &result);
	assert_string_equal(result.why, why);
	assert_int_equal(result.result, VT_WALK_REFUSED);
	assert_null(result.blocks);
	assert_int_equal(result.n_blocks, 0);
}

/* ---- tests ---- */

static void test_every_form(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 7, 300 };

	(void)state;
	for (int form = 0; form < FORMS; form++) {
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
			struct image image;

			image_init(&image, (enum form)form, sizes[i], 0);
			assert_listed(&image, forms[form].stats && sizes[i]);
			image.src.coherent = false;
			assert_listed(&image, forms[form].stats && sizes[i]);
			image_deinit(&image);
		}
	}
}

static void test_private_pools(void **state)
{
	(void)state;
	for (int form = POOLS; form <= FUTURE; form++) {
		for (size_t n_private = 1; n_private <= 20; n_private += 19) {
			struct image image;

			image_init(&image, (enum form)form, 20, n_private);
			assert_listed(&image, true);
			image_deinit(&image);
		}
	}
}

/* Neighbouring blocks far apart and close to each other are read alike. */
static void test_scattered(void **state)
{
	struct image image;

	(void)state;
	image_init(&image, STATS, 0, 0);
	for (size_t i = 0; i < 50; i++) {
		take(&image, i % 5 * 700, 16);
		add_block(&image, MEMORY + (i << 22), 4096, i % 3, false);
	}
	put_pool(&image, 0, image.object + forms[STATS].tables, 0, 50);
	put_stat(image.object + forms[STATS].stats, 50);
	put_stat(image.object + forms[STATS].stats + 32, image.sum);
	assert_listed(&image, true);
	image_deinit(&image);
}

enum target { OBJECT, SET, MAP, SLOT, BLOCK };

struct lie {
	enum form form;
	enum target what;
	int32_t offset; /* of a word; from it on, so that the lies below are one line each */
	uint64_t value;
	const char *why;
};

static uint64_t target_addr(const struct image *image, enum target what)
{
	switch (what) {
	case OBJECT:
		return image->object;
	case SET:
		return image->tables[0];
	case MAP:
		return image->tables[0] + (forms[image->form].unordered ? 56 : 32);
	case SLOT:
		return image->entries;
	default:
		return image->blocks[3];
	}
}

static const char disagree[] = "the tables of blocks do not agree";
static const char few[] = "a hash table has fewer elements than it counts";
static const char many[] = "a hash table has more elements than it counts";
static const char totals[] = "the allocator's own totals differ";

static void test_lies(void **state)
{
	static const struct lie lies[] = {
		{ STATS, SET, 24, 19, disagree }, /* count */
		{ STATS, MAP, 24, 19, disagree },
		{ STATS, SET, 0, 0x7000, "a hash table cannot be read" }, /* slots */
		{ STATS, MAP, 0, 0x7000, "a hash table cannot be read" },
		{ STATS, SET, 8, 3, "no tables of blocks in it" },   /* fewer slots than elements */
		{ STATS, SET, 16, 0, "no tables of blocks in it" },  /* shift, max_lookups, load */
		{ STATS, SET, -24, 1, "no tables of blocks in it" }, /* a recursive mutex */
		{ STATS, SLOT, 0, 0xff, few },
		/* the slot after it is empty */
		{ STATS, SLOT, 16, 0, "what should be a block is none" },
		{ STATS, SLOT, 8, 0, "what should be a block is none" },
		{ STATS, SLOT, 8, 12345, "what should be a block is none" },
		{ STATS, BLOCK, 40, 0, "a block has an impossible size" },
		{ STATS, BLOCK, 40, UINT64_MAX, "a block has an impossible size" },
		{ STATS, BLOCK, 40, UINT64_C(1) << 23, "two blocks overlap" },
		{ STATS, BLOCK, 40, 4, totals },
		{ STATS, BLOCK, 48, MEMORY, "a block has another address than in the table" },
		{ STATS, BLOCK, 56, 2, "a block has an impossible state" },
		{ STATS, BLOCK, 64, UINT64_C(1) << 40, "a block has an impossible state" },
		{ STATS, BLOCK, 88, 0, "a block has an impossible state" }, /* its set of streams */
		{ STATS, OBJECT, 424, 18, totals },
		{ STATS, OBJECT, 456, 18, totals },
		{ POOLS, OBJECT, 128, 0x7000, totals }, /* graph_pools_ somewhere else */
		{ UNORDERED, SET, 24, 19, disagree },
		{ UNORDERED, SET, 32, 0, "no tables of blocks in it" }, /* maximum load */
		{ UNORDERED, SET, 16, 0x7000, few },
		{ UNORDERED, SET, 16, 0x7001, "no tables of blocks in it" },
		{ UNORDERED, SLOT, 0, 0, few },
		{ UNORDERED, SLOT, 8, 1, "what should be a block is none" },
		{ UNORDERED, BLOCK, 0, 0, "a block has an impossible size" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++) {
		const struct lie *lie = &lies[i];
		struct image image;
		uint64_t addr;

		image_init(&image, lie->form, 20, lie->form == POOLS ? 5 : 0);
		addr = target_addr(&image, lie->what) + (uint64_t)(int64_t)lie->offset;
		poke(addr, lie->value);
		assert_refused(&image, lie->why);
		/* while it runs, what stays wrong is wrong */
		image.src.coherent = false;
		assert_refused(&image, lie->why);
		image_deinit(&image);
	}
}

static void test_lists_that_do_not_end(void **state)
{
	struct image image;
	uint64_t first;

	(void)state;
	image_init(&image, UNORDERED, 20, 0);
	first = image.entries;
	poke(first, first); /* the first node follows itself */
	assert_refused(&image, many);
	image_deinit(&image);
}

static void test_tables_that_disagree(void **state)
{
	struct image image;

	(void)state;
	/* a block twice in the set */
	image_init(&image, PLAIN, 20, 0);
	poke(image.entries + 8, peek(image.entries + 2 * 16 + 8));
	assert_refused(&image, "a block is in its table twice");
	image_deinit(&image);
	/* one more than the table counts */
	image_init(&image, PLAIN, 20, 0);
	poke(image.entries + 16, 0);
	poke(image.entries + 24, take(&image, 104, 16));
	assert_refused(&image, many);
	image_deinit(&image);
	/* a block twice in the map */
	image_init(&image, PLAIN, 20, 0);
	poke(peek(image.tables[0] + 32) + 16, peek(peek(image.tables[0] + 32) + 2 * 24 + 16));
	assert_refused(&image, disagree);
	image_deinit(&image);
	/* one block in two pools: it is counted twice, and overlaps with itself */
	image_init(&image, POOLS, 20, 5);
	put_pool(&image, 1, image.tables[1], 0, 5);
	assert_refused(&image, "two blocks overlap");
	image_deinit(&image);
}

static void test_memory_map(void **state)
{
	struct image image;

	(void)state;
	image_init(&image, STATS, 20, 0);
	image.map.flags = VT_MAP_READ; /* pinned memory can be written to */
	assert_refused(&image, "a block is not in memory");
	image.map.flags = VT_MAP_READ | VT_MAP_WRITE;
	image.map.end = MEMORY + (10 << 22);
	assert_refused(&image, "a block is not in memory");
	image.maps.entries.n = 0;
	assert_refused(&image, "a block is not in memory");
	image_deinit(&image);
}

/* Whoever has the lock may have changed the tables already, and the totals not yet. */
static void test_lock_held(void **state)
{
	struct vt_pinned_result result;
	struct image image;

	(void)state;
	image_init(&image, STATS, 20, 0);
	poke(image.tables[0] - 40, 1);
	poke(image.tables[0] - 32, 4711 | UINT64_C(1) << 32);
	poke(image.object + forms[STATS].stats, 21);
	image_list(&image, &result);
	assert_int_equal(result.result, VT_WALK_COMPLETE);
	assert_int_equal(result.owner_tid, 4711);
	assert_false(result.have_stats);
	free(result.blocks);
	image_deinit(&image);
}

static void test_bounds(void **state)
{
	struct vt_pinned_limits limits = { .max_blocks = 10,
					   .deadline_ns = vt_now_ns() + 20 * VT_NS_PER_S,
					   .max_passes = 3 };
	struct vt_pinned_result result;

	(void)state;
	for (int form = 0; form < FORMS; form++) {
		struct image image;

		image_init(&image, (enum form)form, 20, 0);
		limits.max_blocks = 10;
		limits.deadline_ns = vt_now_ns() + 20 * VT_NS_PER_S;
		vt_pinned_read(&image.src, image.object, &limits, &result);
		assert_int_equal(result.result, VT_WALK_TRUNCATED);
		assert_string_equal(result.why, "more blocks than are read");
		assert_null(result.blocks);
		limits.max_blocks = 100;
		limits.deadline_ns = 1;
		image.src.coherent = false;
		vt_pinned_read(&image.src, image.object, &limits, &result);
		assert_int_equal(result.result, VT_WALK_TRUNCATED);
		assert_null(result.blocks);
		image_deinit(&image);
	}
}

/* ---- a target that runs ---- */

static void flip_state(struct image *image)
{
	poke_byte(image->blocks[5] + forms[image->form].allocated, image->reads % 3 == 0);
}

static void change_count(struct image *image)
{
	put_stat(image->object + forms[image->form].stats, 20 + image->reads % 5);
}

static void settle_later(struct image *image)
{
	if (image->reads < 60)
		change_count(image);
	else
		put_stat(image->object + forms[image->form].stats, 20);
}

static void test_changing(void **state)
{
	struct vt_pinned_result result;
	struct image image;

	(void)state;
	/* blocks come and go: there is no message about them */
	image_init(&image, STATS, 20, 0);
	image.src.coherent = false;
	image.after_read = change_count;
	image_list(&image, &result);
	assert_int_equal(result.result, VT_WALK_UNSTABLE);
	assert_false(result.same_blocks);
	free(result.blocks);
	/* until they do not */
	image.reads = 0;
	image.after_read = settle_later;
	poke_byte(image.blocks[5] + forms[STATS].allocated,
		  image.expected[5].state == VT_BLOCK_ALLOCATED);
	assert_listed(&image, true);
	assert_true(image.reads > 60);
	image_deinit(&image);
	/* the blocks stay, and are taken and given back all the time */
	image_init(&image, STATS, 21, 0);
	image.src.coherent = false;
	image.after_read = flip_state;
	image_list(&image, &result);
	if (result.result == VT_WALK_UNSTABLE)
		assert_true(result.same_blocks);
	assert_int_equal(result.n_blocks, 21);
	free(result.blocks);
	image_deinit(&image);
}

/* ---- damage at random ---- */

static void assert_sound(const struct image *image, const struct vt_pinned_result *result)
{
	uint64_t end = 0;

	assert_true(result->result <= VT_WALK_TRUNCATED);
	assert_true(result->n_blocks <= BLOCKS_MAX);
	for (size_t i = 0; i < result->n_blocks; i++) {
		const struct vt_pinned_block *b = &result->blocks[i];

		assert_true(b->addr >= end && b->addr >= image->map.start &&
			    b->addr + b->size <= image->map.end);
		assert_true(b->size && b->state <= VT_BLOCK_CACHED);
		end = b->addr + b->size;
	}
}

static void test_random_damage(void **state)
{
	uint64_t random = 88172645463325252;
	unsigned int complete = 0;

	(void)state;
	for (int form = 0; form < FORMS; form++) {
		struct image image;
		uint8_t *good;

		image_init(&image, (enum form)form, 40, forms[form].graph_pools ? 8 : 0);
		good = malloc(image.used);
		assert_non_null(good);
		memcpy(good, image.heap, image.used);
		for (int round = 0; round < 3000; round++) {
			struct vt_pinned_result result;
			unsigned int n = 1 + (unsigned int)round % 4;

			while (n-- > 0) {
				random ^= random << 13;
				random ^= random >> 7;
				random ^= random << 17;
				size_t at = (random >> 8) % (image.used - 8) / 8 * 8;

				/* a bit, a byte, or an address of something else */
				if (random % 3 == 0)
					image.heap[at + (random >> 40) % 8] ^=
						(uint8_t)(1 << (random >> 48) % 8);
				else if (random % 3 == 1)
					image.heap[at + (random >> 40) % 8] =
						(uint8_t)(random >> 56);
				else
					poke((uintptr_t)(image.heap + at),
					     (uintptr_t)image.heap +
						     (random >> 32) % image.used / 8 * 8);
			}
			image.src.coherent = round % 5 != 0;
			image_list(&image, &result);
			assert_sound(&image, &result);
			complete += result.result == VT_WALK_COMPLETE;
			free(result.blocks);
			memcpy(image.heap, good, image.used);
		}
		free(good);
		image_deinit(&image);
	}
	assert_true(complete > 1000); /* much of the memory is of no importance */
}

/* ---- finding it ---- */

struct code {
	struct image image;
	uint64_t text, object, implementation, wrapper;
};

/* An object whose class has that mangled name. */
static uint64_t make_object(struct image *image, const char *name, uint64_t member)
{
	uint64_t text = take(image, strlen(name) + 1 + 128, 8), info = take(image, 24, 8),
		 vtable = take(image, 64, 8);
	uint64_t object = take(image, 64, 64);

	memcpy((void *)(uintptr_t)text, name, strlen(name));
	poke(info + 8, text);
	poke(vtable + 8, info);
	poke(object, vtable + 16);
	poke(object + 8, member);
	return object;
}

static void code_init(struct code *code)
{
	image_init(&code->image, PLAIN, 3, 0);
	code->text = take(&code->image, 4096, 64);
	code->implementation = make_object(
		&code->image, "N2at4cuda12_GLOBAL__N_128CUDACachingHostAllocatorImplE", 0);
	code->object = make_object(&code->image,
				   "N2at4cuda12_GLOBAL__N_124CUDACachingHostAllocatorE",
				   code->implementation);
	code->wrapper = make_object(&code->image, "N2at4cuda24CUDAHostAllocatorWrapperE", 0);
}

/* lea or mov target(%rip),%rax */
static uint64_t put_reference(uint64_t at, uint8_t opcode, uint64_t target)
{
	int32_t distance = (int32_t)(int64_t)(target - at - 7);

	poke_byte(at, 0x48);
	poke_byte(at + 1, opcode);
	poke_byte(at + 2, 0x05);
	memcpy((void *)(uintptr_t)(at + 3), &distance, 4);
	return at + 7;
}

static void assert_found(struct code *code, uint64_t function, enum vt_pinned_state state,
			 uint64_t object)
{
	struct vt_pinned_found found;
	uint64_t functions[] = { 0, function };

	assert_int_equal(vt_pinned_find_in_code(&code->image.src, functions, 2, &found),
			 state != VT_PINNED_UNKNOWN);
	assert_int_equal(found.state, state);
	if (state == VT_PINNED_FOUND)
		assert_int_equal(found.object, object);
}

static void test_find(void **state)
{
	uint64_t array, pointer, callee, at;
	struct image old;
	struct code code;
	int32_t distance;

	(void)state;
	code_init(&code);
	array = take(&code.image, 256, 16);
	pointer = take(&code.image, 16, 16);
	/* nothing but other code */
	memset((void *)(uintptr_t)code.text, 0x48, 200);
	assert_found(&code, code.text, VT_PINNED_UNKNOWN, 0);
	assert_found(&code, 0x7000, VT_PINNED_UNKNOWN, 0);
	/* since 2.8: movsbq %dil,%rdi; lea array(%rip),%rax; mov (%rax,%rdi,8),%rax; ret */
	poke(array, code.wrapper);
	poke(array + 8, code.object);
	memcpy((void *)(uintptr_t)code.text, "\x48\x0f\xbe\xff", 4);
	at = put_reference(code.text + 4, 0x8d, array);
	memcpy((void *)(uintptr_t)at, "\x48\x8b\x04\xf8\xc3", 5);
	assert_found(&code, code.text, VT_PINNED_FOUND, code.implementation);
	/* not registered yet, or an object of another class */
	poke(array + 8, 0);
	assert_found(&code, code.text, VT_PINNED_UNKNOWN, 0);
	poke(array + 8, code.image.object);
	assert_found(&code, code.text, VT_PINNED_UNKNOWN, 0);
	/* up to 2.7: lea object(%rip),%rax; ret. Or its only member. */
	put_reference(code.text, 0x8d, code.object);
	assert_found(&code, code.text, VT_PINNED_FOUND, code.implementation);
	put_reference(code.text, 0x8b, code.object + 8);
	assert_found(&code, code.text, VT_PINNED_FOUND, code.implementation);
	/* the member is something else */
	poke(code.object + 8, code.wrapper);
	put_reference(code.text, 0x8d, code.object);
	assert_found(&code, code.text, VT_PINNED_UNKNOWN, 0);
	/* up to 2.3: the wrapper, and a call of a function that returns a pointer */
	callee = code.text + 1024;
	put_reference(callee, 0x8b, pointer);
	distance = (int32_t)(int64_t)(callee - (code.text + 5));
	poke_byte(code.text, 0xe8);
	memcpy((void *)(uintptr_t)(code.text + 1), &distance, 4);
	memset((void *)(uintptr_t)(code.text + 5), 0x90, 40);
	/* nothing tells which pointer that is */
	assert_found(&code, code.text, VT_PINNED_UNKNOWN, 0);
	put_reference(code.text + 10, 0x8d, code.wrapper);
	assert_found(&code, code.text, VT_PINNED_UNUSED, 0);
	poke(pointer, code.wrapper);
	assert_found(&code, code.text, VT_PINNED_UNKNOWN, 0);
	/* an allocator of that form in the same memory */
	old = code.image;
	old.form = UNORDERED;
	old.object = take(&old, forms[UNORDERED].object_size, 64);
	put_pool(&old, 0, old.object + forms[UNORDERED].tables, 0, 0);
	poke(pointer, old.object);
	assert_found(&code, code.text, VT_PINNED_FOUND, old.object);
	image_deinit(&code.image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_form),
		cmocka_unit_test(test_private_pools),
		cmocka_unit_test(test_scattered),
		cmocka_unit_test(test_lies),
		cmocka_unit_test(test_lists_that_do_not_end),
		cmocka_unit_test(test_tables_that_disagree),
		cmocka_unit_test(test_memory_map),
		cmocka_unit_test(test_lock_held),
		cmocka_unit_test(test_bounds),
		cmocka_unit_test(test_changing),
		cmocka_unit_test(test_random_damage),
		cmocka_unit_test(test_find),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
