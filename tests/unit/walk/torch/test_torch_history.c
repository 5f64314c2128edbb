/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch's recorded backtraces in a pretended process, sound and damaged, standing still and
 * changing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "unit/walk/python/python_image.h"
#include "walk/torch/history.h"

#define VTABLE UINT64_C(0x7f0000001000)
#define CODE UINT64_C(0x7f1000000000) /* 16 MiB of it */
#define CODE_SIZE (UINT64_C(16) << 20)
#define DEPTH 8192 /* more frames than that are not read */
#define MAX_BLOCKS 64

struct place {
	uint64_t code;
	int32_t lasti;
};

/* With the blocks of 2.11. */
static const struct vt_torch_layout layout_2_11 = {
	.block = { .size_of = 168, .size = 56, .requested_size = 64, .ptr = 80, .context = 128 },
};

struct fixture {
	struct python_image image;
	struct vt_python python;
	struct vt_map_entry entry;
	struct vt_maps maps;
	struct vt_block_rec blocks[MAX_BLOCKS];
	size_t n;
	uint64_t counter; /* in the image: how many allocations there were */
	struct vt_history_counter counters[1];
	struct vt_history_target target;
	struct vt_torch_history history;
	/* a change while it is read */
	size_t change_at;
	uint64_t change[4][2]; /* address, value */
	uint64_t other, third; /* code objects */
};

static uint64_t *word(uint64_t addr)
{
	return (uint64_t *)(uintptr_t)addr;
}

static uint64_t add_words(struct fixture *f, const uint64_t *words, size_t n)
{
	uint64_t addr = python_image_alloc(&f->image, n * sizeof(*words));

	if (n)
		memcpy(word(addr), words, n * sizeof(*words));
	return addr;
}

static void put_vector(uint64_t at, uint64_t data, size_t bytes)
{
	word(at)[0] = bytes ? data : 0;
	word(at)[1] = bytes ? data + bytes : 0;
	word(at)[2] = bytes ? data + bytes : 0;
}

static uint64_t add_context(struct fixture *f, const struct place *python, size_t n_python,
			    const uint64_t *native, size_t n_native)
{
	uint64_t context = python_image_alloc(&f->image, 80);
	uint64_t frames = python_image_alloc(&f->image, n_python * 16);

	for (size_t i = 0; i < n_python; i++) {
		word(frames)[2 * i] = python[i].code;
		/* padding */
		word(frames)[2 * i + 1] = (uint32_t)python[i].lasti |
					  UINT64_C(0xdeadbeef00000000) * (i + 1);
	}
	*word(context) = VTABLE + 16;
	put_vector(context + 8, frames, n_python * 16);
	put_vector(context + 32, add_words(f, native, n_native), n_native * 8);
	put_vector(context + 56, 0, 0);
	return context;
}

static void add_block(struct fixture *f, uint64_t context)
{
	struct vt_block_rec *rec = &f->blocks[f->n++];
	uint64_t object = python_image_alloc(&f->image, 168);

	assert_true(f->n <= MAX_BLOCKS);
	*rec = (struct vt_block_rec){
		.addr = 0x7fe000000000 + f->n * 0x10000,
		.size = 1024,
		.requested = 1000 + f->n % 20,
		.context = context,
		.object = object,
		.state = VT_BLOCK_ALLOCATED,
	};
	word(object + layout_2_11.block.ptr)[0] = rec->addr;
	word(object + layout_2_11.block.size)[0] = rec->size;
	word(object + layout_2_11.block.requested_size)[0] = rec->requested;
	word(object + layout_2_11.block.context)[0] = context;
}

static void change_now(struct python_image *image)
{
	struct fixture *f = (struct fixture *)(void *)image; /* its first member */

	if (image->reads != f->change_at)
		return;
	for (size_t i = 0; i < 4; i++)
		if (f->change[i][0])
			*word(f->change[i][0]) = f->change[i][1];
}

static const uint64_t native_a[] = { CODE + 0x10, CODE + 0x200, CODE + CODE_SIZE };
static const uint64_t native_b[] = { CODE + 0x10, CODE + 0x300 };

/*
 * Blocks 0 to 23 by turns: Python and native frames, only Python, only native, none at all; block
 * 24 was not recorded.
 */
static void fixture_init(struct fixture *f, bool coherent)
{
	memset(f, 0, sizeof(*f));
	python_image_init(&f->image, vt_python_layout_nth(0), 4 << 20);
	f->image.src.coherent = coherent;
	python_image_start(&f->image, &f->python);
	f->other = python_image_add_code(&f->image, "outer", "/y.py");
	f->third = python_image_add_code(&f->image, "third", "/y.py");
	f->entry = (struct vt_map_entry){
		.start = CODE,
		.end = CODE + CODE_SIZE,
		.flags = VT_MAP_READ | VT_MAP_EXEC,
		.path = "",
	};
	f->maps.entries.data = &f->entry;
	f->maps.entries.n = 1;
	f->counter = python_image_alloc(&f->image, 8);
	*word(f->counter) = 17;
	f->counters[0] = (struct vt_history_counter){ f->counter, 17 };

	const struct place two[] = { { f->image.code, 4 }, { f->other, 8 } },
			   one[] = { { f->other, -1 } };

	for (int i = 0; i < 6; i++) {
		add_block(f, add_context(f, two, 2, native_a, 3));
		add_block(f, add_context(f, one, 1, NULL, 0));
		add_block(f, add_context(f, NULL, 0, native_b, 2));
		add_block(f, add_context(f, NULL, 0, NULL, 0));
	}
	add_block(f, 0);
	f->target = (struct vt_history_target){
		.src = &f->image.src,
		.names_src = &f->image.src,
		.vtable = VTABLE,
		.maps = &f->maps,
		.python = &f->python,
		.layout = &layout_2_11,
		.blocks = f->blocks,
		.n_blocks = f->n,
		.counters = f->counters,
		.n_counters = 1,
		.deadline_ns = UINT64_MAX,
	};
	f->image.before_read = change_now;
	f->change_at = SIZE_MAX;
}

static void fixture_deinit(struct fixture *f)
{
	vt_torch_history_deinit(&f->history);
	vt_python_deinit(&f->python);
	python_image_deinit(&f->image);
}

static void read_all(struct fixture *f)
{
	assert_null(vt_torch_history_read(&f->target, &f->history));
	for (size_t fate = 0, n = 0; fate < VT_HISTORY_N_FATES; fate++) {
		n += f->history.n[fate];
		if (fate == VT_HISTORY_N_FATES - 1)
			assert_int_equal(n, f->n);
	}
}

static const struct vt_history_trace *trace_of(const struct fixture *f, size_t block)
{
	return f->history.fate_of[block] == VT_HISTORY_READ ?
		       &f->history.traces.data[f->history.trace_of[block]] :
		       NULL;
}

static bool has_native(const struct fixture *f, const struct vt_history_trace *t,
		       const uint64_t *native, size_t n)
{
	bool same = t->n_native == n;

	for (size_t i = 0; same && i < n; i++)
		same = f->history.native.data[t->frames[t->n_python + i]] == native[i];
	return same;
}

static bool has_python(const struct fixture *f, const struct vt_history_trace *t, uint32_t i,
		       const char *function, int line)
{
	const struct vt_python_place *place = &f->history.python.data[t->frames[i]];

	return i < t->n_python && !strcmp(place->function, function) && place->line == line;
}

static bool is_first_kind(const struct fixture *f, size_t block)
{
	const struct vt_history_trace *t = trace_of(f, block);

	return t && t->n_python == 2 && has_python(f, t, 0, "run", python_image_line(4)) &&
	       has_python(f, t, 1, "outer", python_image_line(8)) && has_native(f, t, native_a, 3);
}

static void check_sound(const struct fixture *f)
{
	for (size_t i = 0; i < 24; i += 4) {
		const struct vt_history_trace *t;

		assert_true(is_first_kind(f, i));
		t = trace_of(f, i + 1);
		assert_true(t && t->n_python == 1 && t->n_native == 0 &&
			    has_python(f, t, 0, "outer", 10));
		t = trace_of(f, i + 2);
		assert_true(t && t->n_python == 0 && has_native(f, t, native_b, 2));
		t = trace_of(f, i + 3);
		assert_true(t && t->n_python == 0 && t->n_native == 0);
	}
}

static void sound(void **state)
{
	(void)state;
	for (int coherent = 0; coherent < 2; coherent++) {
		struct fixture f;

		fixture_init(&f, coherent);
		assert_true(vt_torch_history_any(f.blocks, f.n));
		assert_false(vt_torch_history_any(f.blocks + 24, 1));
		read_all(&f);
		check_sound(&f);
		assert_int_equal(f.history.traces.n, 4);
		assert_int_equal(f.history.python.n, 3);
		assert_int_equal(f.history.native.n, 4);
		assert_int_equal(f.history.n[VT_HISTORY_READ], 24);
		assert_int_equal(f.history.n[VT_HISTORY_NONE], 1);
		assert_string_equal(f.history.why, "");
		fixture_deinit(&f);
	}
}

struct damage {
	const char *what;
	uint64_t at; /* in the context, or in its Python frames, or in its native ones */
	int in;
	uint64_t value; /* or added to what is there */
	bool add;
	enum vt_history_fate fate;
};

enum { IN_CONTEXT, IN_PYTHON, IN_NATIVE };

/* Of block 0: it alone is lost. */
static void damaged(void **state)
{
	static const struct damage damages[] = {
		{ "another type", 0, IN_CONTEXT, 8, true, VT_HISTORY_FOREIGN },
		{ "no type", 0, IN_CONTEXT, 0, false, VT_HISTORY_FOREIGN },
		{ "begins nowhere", 8, IN_CONTEXT, 0x1000, false, VT_HISTORY_INVALID },
		{ "begins at an odd address", 8, IN_CONTEXT, 1, true, VT_HISTORY_INVALID },
		{ "ends before it begins", 16, IN_CONTEXT, -(uint64_t)48, true,
		  VT_HISTORY_INVALID },
		{ "half a frame", 16, IN_CONTEXT, -(uint64_t)8, true, VT_HISTORY_INVALID },
		{ "more than its memory", 16, IN_CONTEXT, 16, true, VT_HISTORY_INVALID },
		{ "begins without an end", 24, IN_CONTEXT, 0, false, VT_HISTORY_INVALID },
		{ "native ends nowhere", 40, IN_CONTEXT, UINT64_MAX, false, VT_HISTORY_INVALID },
		{ "no vector of TorchScript frames", 64, IN_CONTEXT, 8, false, VT_HISTORY_INVALID },
		{ "no code object", 0, IN_PYTHON, 64, true, VT_HISTORY_INVALID },
		{ "code object nowhere", 16, IN_PYTHON, 8, false, VT_HISTORY_INVALID },
		{ "return address in data", 0, IN_NATIVE, VTABLE, false, VT_HISTORY_INVALID },
		{ "return address 0", 8, IN_NATIVE, 0, false, VT_HISTORY_INVALID },
		{ "return address before all code", 16, IN_NATIVE, CODE, false,
		  VT_HISTORY_INVALID },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		const struct damage *d = &damages[i];
		struct fixture f;
		uint64_t context, base[3];

		fixture_init(&f, i % 2);
		context = f.blocks[0].context;
		base[IN_CONTEXT] = context;
		base[IN_PYTHON] = word(context)[1];
		base[IN_NATIVE] = word(context)[4];
		*word(base[d->in] + d->at) = d->add ? *word(base[d->in] + d->at) + d->value :
						      d->value;
		read_all(&f);
		if (f.history.fate_of[0] != d->fate || f.history.n[VT_HISTORY_READ] != 23 ||
		    !f.history.why[0])
			fail_msg("%s: fate %u, %zu read, %s", d->what, f.history.fate_of[0],
				 f.history.n[VT_HISTORY_READ], f.history.why);
		assert_true(is_first_kind(&f, 4));
		fixture_deinit(&f);
	}
}

/* When not one but many do not hold together, none is believed. */
static void another_layout(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true);
	for (size_t i = 0; i < 24; i += 4)
		word(f.blocks[i].context)[2] += 8;
	read_all(&f);
	assert_true(f.history.refused);
	assert_int_equal(f.history.n[VT_HISTORY_READ], 0);
	assert_int_equal(f.history.n[VT_HISTORY_INVALID], 24);
	fixture_deinit(&f);
}

static void unknown(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true);
	f.target.vtable = 0;
	read_all(&f);
	assert_int_equal(f.history.n[VT_HISTORY_FOREIGN], 24);
	fixture_deinit(&f);

	fixture_init(&f, true);
	f.target.python = NULL;
	read_all(&f);
	assert_int_equal(f.history.n[VT_HISTORY_SKIPPED], 12);
	assert_int_equal(f.history.n[VT_HISTORY_READ], 12);
	fixture_deinit(&f);

	/* A layout that does not say where a block's fields are does not do to look again. */
	struct vt_torch_layout blind = layout_2_11;

	blind.block.requested_size = VT_TORCH_NO_FIELD;
	fixture_init(&f, false);
	f.target.layout = &blind;

	struct vt_error *err = vt_torch_history_read(&f.target, &f.history);

	assert_non_null(err);
	vt_error_destroy(err);
	fixture_deinit(&f);
}

static void bounds(void **state)
{
	struct fixture f;
	static uint64_t deep[DEPTH + 1];

	(void)state;
	fixture_init(&f, true);
	for (size_t i = 0; i <= DEPTH; i++)
		deep[i] = CODE + 1 + i;
	f.n = 0;
	add_block(&f, add_context(&f, NULL, 0, deep, DEPTH + 1));
	add_block(&f, add_context(&f, NULL, 0, deep, DEPTH));
	f.target.n_blocks = f.n;
	read_all(&f);
	assert_int_equal(f.history.fate_of[0], VT_HISTORY_SKIPPED);
	assert_true(has_native(&f, trace_of(&f, 1), deep, DEPTH));
	fixture_deinit(&f);

	fixture_init(&f, false);
	f.target.deadline_ns = 1;
	read_all(&f);
	assert_int_equal(f.history.n[VT_HISTORY_SKIPPED], 24);
	fixture_deinit(&f);
}

/* The last context of all ends where the memory does. */
static void at_the_edge(void **state)
{
	struct fixture f;

	(void)state;
	fixture_init(&f, true);
	f.image.used = f.image.size - 80 - 2 * sizeof(uint64_t);

	uint64_t native = python_image_alloc(&f.image, sizeof(native_b)),
		 context = python_image_alloc(&f.image, 80);

	memcpy(word(native), native_b, sizeof(native_b));
	memcpy(word(context), word(f.blocks[2].context), 80);
	put_vector(context + 32, native, sizeof(native_b));
	f.blocks[2].context = context;
	read_all(&f);
	check_sound(&f);
	fixture_deinit(&f);
}

/*
 * At any moment of the reading block 0 is freed and its memory, the context's too, is handed out
 * again from another place, or it is only freed: the result is the one or the other.
 */
static void changing(void **state)
{
	size_t changed = 0, old = 0, new = 0, reads;
	struct fixture f;

	(void)state;
	fixture_init(&f, false);
	read_all(&f);
	reads = f.image.reads;
	fixture_deinit(&f);
	for (size_t at = 1; at < 4 * reads; at++) {
		for (int how = 0; how < 3; how++) {
			const struct vt_history_trace *t;
			uint64_t context;

			fixture_init(&f, false);
			context = f.blocks[0].context;
			f.change_at = at;
			f.change[0][0] = f.counter;
			f.change[0][1] = 18;
			if (how == 0) { /* another place's, in the same memory */
				f.change[1][0] = word(context)[1];
				f.change[1][1] = f.third;
			} else if (how == 1) { /* freed */
				f.change[1][0] = f.blocks[0].object + layout_2_11.block.context;
			} else {
				/*
				 * handed out for another request, with a context that was there
				 * before
				 */
				f.change[1][0] =
					f.blocks[0].object + layout_2_11.block.requested_size;
				f.change[1][1] = 7;
			}
			read_all(&f);
			t = trace_of(&f, 0);
			changed += f.history.fate_of[0] == VT_HISTORY_CHANGED;
			old += is_first_kind(&f, 0);
			new += t &&has_python(&f, t, 0, "third", python_image_line(4)) &&
			       has_native(&f, t, native_a, 3);
			assert_true(f.history.fate_of[0] == VT_HISTORY_CHANGED ||
				    is_first_kind(&f, 0) || how == 0);
			assert_true(is_first_kind(&f, 4));
			fixture_deinit(&f);
		}
	}
	assert_true(changed > 10 && old > 10 && new > 0);
	assert_int_equal(changed + old + new, 3 * (4 * reads - 1));
}

/*
 * The context was being made when it was read first, and is whole when it is looked at again: that
 * is no damage.
 */
static void half_made(void **state)
{
	static const uint64_t at[][2] = { { 0, 0x1234 }, { 16, 8 }, { 24, 0 } };
	size_t changed = 0;

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		for (size_t when = 1; when < 300; when++) {
			struct fixture f;
			uint64_t context;

			fixture_init(&f, false);
			context = f.blocks[0].context;
			f.change_at = when;
			f.change[0][0] = f.counter;
			f.change[0][1] = 18;
			f.change[1][0] = context + at[i][0];
			f.change[1][1] = *word(context + at[i][0]);
			*word(context + at[i][0]) = at[i][1];
			read_all(&f);
			changed += f.history.fate_of[0] == VT_HISTORY_CHANGED;
			/*
			 * Before the first look it is sound, after the last one it was bad all the
			 * time.
			 */
			assert_true(f.history.fate_of[0] != VT_HISTORY_READ ||
				    is_first_kind(&f, 0));
			assert_int_equal(f.history.n[VT_HISTORY_READ] + 1,
					 f.history.fate_of[0] == VT_HISTORY_READ ? 25 : 24);
			fixture_deinit(&f);
		}
	}
	assert_true(changed > 50);
}

/* Whatever bytes there are: what is shown has code objects and return addresses. */
static void noise(void **state)
{
	(void)state;
	for (unsigned int seed = 0; seed < 400; seed++) {
		struct fixture f;
		struct vt_error *err;

		fixture_init(&f, seed % 2);
		srand(seed);
		f.counters[0].value += seed % 3;
		for (int i = 0; i < 30; i++) {
			uint64_t context = f.blocks[rand() % 24].context;
			uint64_t at = rand() % 2 ? context : word(context)[1 + 3 * (rand() % 2)];

			if (at < (uintptr_t)f.image.base ||
			    at >= (uintptr_t)f.image.base + f.image.used - 80)
				continue;
			((uint8_t *)word(at))[rand() % 80] = (uint8_t)rand();
		}
		err = vt_torch_history_read(&f.target, &f.history);
		assert_null(err);
		for (size_t i = 0; i < f.n; i++) {
			const struct vt_history_trace *t = trace_of(&f, i);

			for (uint32_t k = 0; t && k < t->n_python; k++)
				assert_true(f.history.python.data[t->frames[k]].valid);
			for (uint32_t k = 0; t && k < t->n_native; k++)
				assert_true(f.history.native.data[t->frames[t->n_python + k]] -
						    CODE - 1 <
					    CODE_SIZE);
		}
		fixture_deinit(&f);
	}
}

/* Each segment whose backtrace is missing is counted, and takes none of a block's away. */
static void test_segments(void **state)
{
	static const struct place none = { 0 };
	struct vt_torch_layout narrow = layout_2_11;
	struct fixture f;

	(void)state;
	for (int fits = 0; fits < 2; fits++) {
		fixture_init(&f, false);
		narrow.block.size_of = fits ? 168 : 144; /* no room for a second context */
		f.target.layout = &narrow;
		f.target.segments = true;
		for (size_t i = 0; i < 4; i++)
			f.blocks[i].flags |= VT_BLOCK_SEGMENT_START;
		word(f.blocks[0].object + 144)[0] = add_context(&f, &none, 0, native_b, 2);
		word(f.blocks[1].object + 144)[0] = f.counter; /* no context */
		f.blocks[3].object = 8;                        /* not readable */
		f.blocks[3].context = 0;
		read_all(&f);
		assert_int_equal(f.history.n[VT_HISTORY_READ], 23);
		assert_int_equal(f.history.n_segments[VT_HISTORY_READ], fits);
		assert_int_equal(f.history.n_segments[VT_HISTORY_FOREIGN], fits);
		assert_int_equal(f.history.n_segments[VT_HISTORY_INVALID], fits);
		assert_int_equal(f.history.n_segments[VT_HISTORY_SKIPPED], fits ? 0 : 4);
		fixture_deinit(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sound),          cmocka_unit_test(damaged),
		cmocka_unit_test(another_layout), cmocka_unit_test(unknown),
		cmocka_unit_test(bounds),         cmocka_unit_test(at_the_edge),
		cmocka_unit_test(changing),       cmocka_unit_test(half_made),
		cmocka_unit_test(noise),          cmocka_unit_test(test_segments),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
