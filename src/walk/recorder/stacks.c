/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/recorder/stacks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "target/live.h"
#include "walk/python/object.h"

enum {
	BATCH = 512, /* stacks read at once; below IOV_MAX of Linux */
	MAX_STACK_WORDS = 2 * VT_RECORDER_MAX_PYTHON + VT_RECORDER_MAX_NATIVE,
};
#define MAX_TRACES 262144
#define MAX_WORDS (UINT64_C(8) << 20) /* of all traces: 64 MiB */
#define MAX_PLACES 262144             /* in Python code; in native code */

struct reader {
	struct vt_memsrc *src;
	struct vt_recorder_stacks *s;
	struct vt_recorder_array codes, stacks, words;
};

__attribute__((format(printf, 3, 4))) static void spoil(struct vt_recorder_stacks *s,
							struct vt_recorder_trace *trace,
							const char *format, ...)
{
	va_list args;

	trace->invalid = true;
	trace->n_python = trace->n_native = 0;
	if (s->why[0])
		return;
	va_start(args, format);
	vsnprintf(s->why, sizeof(s->why), format, args);
	va_end(args);
}

bool vt_recorder_stacks_want(struct vt_recorder_stacks *stacks, uint32_t id, uint32_t *trace)
{
	const uint64_t *known = vt_map_get(&stacks->trace_of, id);
	struct vt_recorder_trace *added;

	*trace = known ? (uint32_t)*known : VT_RECORDER_NO_TRACE;
	if (known)
		return true;
	if (stacks->traces.n == MAX_TRACES) {
		stacks->cut = true;
		return true;
	}
	added = vt_vec_append(&stacks->traces);
	if (!added || !vt_map_put(&stacks->trace_of, id, stacks->traces.n - 1))
		return false;
	*added = (struct vt_recorder_trace){ .id = id };
	*trace = (uint32_t)stacks->traces.n - 1;
	return true;
}

/* ---- reading ---- */

/* Sets bad[i] for pieces that cannot be read. Returns an errno only if the target is gone. */
static int read_pieces(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n, bool *bad)
{
	memset(bad, 0, n * sizeof(*bad));
	if (!n || !vt_mem_readv(src, vec, n))
		return 0;
	for (size_t i = 0; i < n; i++) {
		int ret = vt_mem_read(src, vec[i].addr, vec[i].buf, vec[i].len);

		if (ret == -ESRCH)
			return ret;
		bad[i] = ret != 0;
	}
	return 0;
}

static bool is_array(const struct vt_recorder_array *a, uint64_t size)
{
	uint64_t bytes, end;

	return a->n <= a->room && !__builtin_mul_overflow(a->n, size, &bytes) &&
	       !__builtin_add_overflow(a->addr, bytes, &end);
}

/* The stacks' fields, checked; a bad stack's are all 0. */
static struct vt_error *read_stacks(struct reader *r, struct vt_recorder_trace *traces, size_t n,
				    struct vt_recorder_stack stacks[BATCH])
{
	struct vt_memvec vec[BATCH];
	size_t which[BATCH], n_vec = 0;
	bool bad[BATCH];
	int ret;

	memset(stacks, 0, n * sizeof(*stacks));
	for (size_t i = 0; i < n; i++) {
		if (traces[i].id >= r->stacks.n || traces[i].id == VT_RECORDER_NO_STACK) {
			spoil(r->s, &traces[i], "there is no stack %" PRIu32, traces[i].id);
			continue;
		}
		which[n_vec] = i;
		vec[n_vec++] = (struct vt_memvec){ r->stacks.addr + traces[i].id * sizeof(*stacks),
						   &stacks[i], sizeof(*stacks) };
	}
	ret = read_pieces(r->src, vec, n_vec, bad);
	if (ret)
		return vt_mem_error(r->src, ret, "the recorder's stacks");
	for (size_t k = 0; k < n_vec; k++) {
		struct vt_recorder_trace *trace = &traces[which[k]];
		struct vt_recorder_stack *stack = &stacks[which[k]];
		uint64_t words = (uint64_t)stack->n_words_python + stack->n_native;

		if (bad[k])
			spoil(r->s, trace, "stack %" PRIu32 " cannot be read", trace->id);
		else if (stack->n_python > VT_RECORDER_MAX_PYTHON ||
			 stack->n_native > VT_RECORDER_MAX_NATIVE ||
			 stack->n_words_python < stack->n_python ||
			 stack->n_words_python > 2 * stack->n_python || stack->first > r->words.n ||
			 words > r->words.n - stack->first)
			spoil(r->s, trace, "stack %" PRIu32 " has frames that are not there",
			      trace->id);
		else
			continue;
		memset(stack, 0, sizeof(*stack));
	}
	return NULL;
}

static struct vt_error *number_code(struct reader *r, uint64_t code, uint32_t *index)
{
	const uint64_t *known = vt_map_get(&r->s->codes_of, code);

	if (!known) {
		uint64_t *added = vt_vec_append(&r->s->code_ids);

		if (!added || !vt_map_put(&r->s->codes_of, code, r->s->code_ids.n - 1))
			return &vt_enomem;
		*added = code;
		known = vt_map_get(&r->s->codes_of, code);
	}
	*index = (uint32_t)*known;
	return NULL;
}

static struct vt_error *number_python(struct reader *r, uint64_t code, int32_t lasti,
				      uint32_t *index)
{
	uint32_t number;
	uint64_t key;
	const uint64_t *known;

	VT_TRY(number_code(r, code, &number));
	key = (uint64_t)number << 32 | (uint32_t)lasti;
	known = vt_map_get(&r->s->python_of, key);
	if (!known) {
		struct vt_python_place *place = vt_vec_append(&r->s->python);
		uint32_t *code_of = vt_vec_append(&r->s->code_of);

		if (!place || !code_of || !vt_map_put(&r->s->python_of, key, r->s->python.n - 1))
			return &vt_enomem;
		*place = (struct vt_python_place){ .lasti = lasti };
		*code_of = number;
		known = vt_map_get(&r->s->python_of, key);
	}
	*index = (uint32_t)*known;
	return NULL;
}

static struct vt_error *number_native(struct reader *r, uint64_t pc, uint32_t *index)
{
	const uint64_t *known = vt_map_get(&r->s->native_of, pc);

	if (!known) {
		uint64_t *added = vt_vec_append(&r->s->native);

		if (!added || !vt_map_put(&r->s->native_of, pc, r->s->native.n - 1))
			return &vt_enomem;
		*added = pc;
		known = vt_map_get(&r->s->native_of, pc);
	}
	*index = (uint32_t)*known;
	return NULL;
}

/* A frame of one word or two; returns how many, 0 if it is invalid. */
static unsigned int decode_python(const struct reader *r, const uint64_t *words, unsigned int left,
				  uint64_t *code, int32_t *lasti)
{
	uint16_t low = (uint16_t)words[0];

	*code = words[0] >> 16;
	if (*code >= r->codes.n)
		return 0;
	if (low != VT_RECORDER_LASTI_WIDE) {
		*lasti = low * 2;
		return 1;
	}
	if (left < 2 || (words[1] > INT32_MAX && words[1] != UINT64_MAX))
		return 0;
	*lasti = (int32_t)words[1]; /* UINT64_MAX is -1: not started */
	return 2;
}

static struct vt_error *decode(struct reader *r, struct vt_recorder_trace *trace,
			       const struct vt_recorder_stack *stack, const uint64_t *words)
{
	unsigned int at = 0, n_words = stack->n_words_python;

	trace->frames = vt_arena_alloc(&r->s->arena, ((size_t)stack->n_python + stack->n_native +
						      1) * sizeof(*trace->frames));
	if (!trace->frames)
		return &vt_enomem;
	for (unsigned int i = 0; i < stack->n_python; i++) {
		uint64_t code;
		int32_t lasti;
		unsigned int used =
			at < n_words ? decode_python(r, words + at, n_words - at, &code, &lasti) :
				       0;

		if (!used) {
			spoil(r->s, trace, "stack %" PRIu32 " has a Python frame that is none",
			      trace->id);
			return NULL;
		}
		at += used;
		VT_TRY(number_python(r, code, lasti, &trace->frames[i]));
	}
	if (at != n_words) {
		spoil(r->s, trace, "stack %" PRIu32 " has more than its Python frames", trace->id);
		return NULL;
	}
	for (unsigned int i = 0; i < stack->n_native; i++)
		VT_TRY(number_native(r, words[n_words + i], &trace->frames[stack->n_python + i]));
	trace->n_python = stack->n_python;
	trace->n_native = stack->n_native;
	trace->flags = stack->flags;
	return NULL;
}

static struct vt_error *read_words(struct reader *r, struct vt_recorder_trace *traces, size_t n,
				   const struct vt_recorder_stack stacks[BATCH],
				   uint64_t (*words)[MAX_STACK_WORDS])
{
	struct vt_memvec vec[BATCH];
	size_t which[BATCH], n_vec = 0;
	bool bad[BATCH];
	int ret;

	for (size_t i = 0; i < n; i++) {
		size_t n_words = (size_t)stacks[i].n_words_python + stacks[i].n_native;

		if (traces[i].invalid)
			continue;
		r->s->n_words += n_words;
		if (r->s->n_words > MAX_WORDS || r->s->python.n > MAX_PLACES ||
		    r->s->native.n > MAX_PLACES) {
			r->s->cut = true;
			spoil(r->s, &traces[i], "there are too many different backtraces");
			continue;
		}
		if (n_words) {
			which[n_vec] = i;
			vec[n_vec++] = (struct vt_memvec){ r->words.addr + stacks[i].first *
										   sizeof(uint64_t),
							   words[i], n_words * sizeof(uint64_t) };
		}
	}
	ret = read_pieces(r->src, vec, n_vec, bad);
	if (ret)
		return vt_mem_error(r->src, ret, "the recorder's stacks");
	for (size_t k = 0; k < n_vec; k++)
		if (bad[k])
			spoil(r->s, &traces[which[k]],
			      "the frames of stack %" PRIu32 " cannot be read",
			      traces[which[k]].id);
	for (size_t i = 0; i < n; i++)
		if (!traces[i].invalid)
			VT_TRY(decode(r, &traces[i], &stacks[i], words[i]));
	return NULL;
}

static struct vt_error *read_batches(struct reader *r)
{
	VT_FREE struct vt_recorder_stack *stacks = malloc(BATCH * sizeof(*stacks));
	VT_FREE uint64_t(*words)[MAX_STACK_WORDS] = malloc(BATCH * sizeof(*words));

	if (!stacks || !words)
		return &vt_enomem;
	for (size_t first = 0; first < r->s->traces.n; first += BATCH) {
		struct vt_recorder_trace *traces = r->s->traces.data + first;
		size_t n = r->s->traces.n - first < BATCH ? r->s->traces.n - first : BATCH;

		VT_TRY(read_stacks(r, traces, n, stacks));
		VT_TRY(read_words(r, traces, n, stacks, words));
	}
	return NULL;
}

/* Unreadable ones are all 0: no object is at that address. */
static struct vt_error *read_codes(struct reader *r)
{
	struct vt_recorder_stacks *s = r->s;

	if (!vt_vec_reserve(&s->codes, s->code_ids.n))
		return &vt_enomem;
	s->codes.n = s->code_ids.n;
	for (size_t first = 0; first < s->codes.n; first += BATCH) {
		size_t n = s->codes.n - first < BATCH ? s->codes.n - first : BATCH;
		struct vt_memvec vec[BATCH];
		bool bad[BATCH];
		int ret;

		for (size_t i = 0; i < n; i++)
			vec[i] = (struct vt_memvec){ r->codes.addr + s->code_ids.data[first + i] *
									     sizeof(*s->codes.data),
						     &s->codes.data[first + i],
						     sizeof(*s->codes.data) };
		ret = read_pieces(r->src, vec, n, bad);
		if (ret)
			return vt_mem_error(r->src, ret, "the recorder's code objects");
		for (size_t i = 0; i < n; i++)
			if (bad[i])
				s->codes.data[first + i] = (struct vt_recorder_code){ 0 };
	}
	for (size_t i = 0; i < s->python.n; i++)
		s->python.data[i].code = s->codes.data[s->code_of.data[i]].object;
	return NULL;
}

static void spoil_all(struct vt_recorder_stacks *s, const char *why)
{
	for (size_t i = 0; i < s->traces.n; i++)
		spoil(s, &s->traces.data[i], "%s", why);
}

static struct vt_error *read_all(struct reader *r, uint64_t head_addr)
{
	struct {
		struct vt_recorder_array codes, stacks, words;
	} arrays;
	int ret = vt_mem_read(r->src, head_addr + offsetof(struct vt_recorder_head, codes), &arrays,
			      sizeof(arrays));

	_Static_assert(offsetof(struct vt_recorder_head, words) -
				       offsetof(struct vt_recorder_head, codes) ==
			       2 * sizeof(struct vt_recorder_array),
		       "they follow each other");
	if (ret == -ESRCH)
		return vt_mem_error(r->src, ret, "the recorder's stacks");
	r->codes = arrays.codes;
	r->stacks = arrays.stacks;
	r->words = arrays.words;
	if (ret || !is_array(&r->codes, sizeof(struct vt_recorder_code)) ||
	    r->codes.n > UINT32_MAX || !is_array(&r->stacks, sizeof(struct vt_recorder_stack)) ||
	    !is_array(&r->words, sizeof(uint64_t))) {
		spoil_all(r->s, "the tables of stacks make no sense");
		return NULL;
	}
	VT_TRY(read_batches(r));
	return read_codes(r);
}

struct vt_error *vt_recorder_stacks_read(struct vt_memsrc *src, uint64_t head_addr,
					 struct vt_recorder_stacks *stacks)
{
	struct reader r = { .src = src, .s = stacks };

	VT_TRY(read_all(&r, head_addr));
	for (size_t i = 0; i < stacks->traces.n; i++)
		stacks->n_invalid += stacks->traces.data[i].invalid;
	return NULL;
}

void vt_recorder_stacks_deinit(struct vt_recorder_stacks *stacks)
{
	vt_vec_deinit(&stacks->traces);
	vt_vec_deinit(&stacks->python);
	vt_vec_deinit(&stacks->code_of);
	vt_vec_deinit(&stacks->codes);
	vt_vec_deinit(&stacks->native);
	vt_vec_deinit(&stacks->code_ids);
	vt_map_deinit(&stacks->trace_of);
	vt_map_deinit(&stacks->codes_of);
	vt_map_deinit(&stacks->python_of);
	vt_map_deinit(&stacks->native_of);
	vt_arena_deinit(&stacks->arena);
	*stacks = (struct vt_recorder_stacks){ 0 };
}

/* ---- code objects ---- */

/*
 * Whether the object was not freed: one that was may look as before. Its allocator (pymalloc, or
 * glibc's malloc) has put a pointer, or 0, in place of the reference count, which is never 0 and
 * has 32 bits. CPython 3.14 has flags in the upper 16 bits of that word. A free-threaded build
 * frees with both its counts at 0 (Include/object.h: ob_ref_local, ob_ref_shared).
 */
static bool is_alive(const struct vt_python_layout *layout, const struct vt_py_view *view)
{
	uint64_t word;
	uint32_t local;

	if (!layout->free_threaded) {
		memcpy(&word, view->bytes, sizeof(word));
		return (uint32_t)word != 0 && (word >> 32 & 0xffff) == 0;
	}
	memcpy(&local, view->bytes + 12, sizeof(local));
	memcpy(&word, view->bytes + 16, sizeof(word));
	return local != 0 || word >> 2 != 0;
}

/*
 * What the recorder has of a str: vt_recorder_text() of a compact ASCII one, else its length.
 * False: it cannot be read.
 */
static bool read_text(const struct vt_python_layout *layout, struct vt_memsrc *src, uint64_t str,
		      uint64_t *text)
{
	uint32_t is_ascii = layout->at[VT_PY_STATE_COMPACT] | layout->at[VT_PY_STATE_ASCII];
	uint64_t length, last = 0, data = str + layout->at[VT_PY_UNICODE_ASCII_DATA];
	int32_t state;

	if (vt_py_field_u64(src, layout, str, VT_PY_UNICODE_LENGTH, &length) ||
	    vt_py_field_i32(src, layout, str, VT_PY_UNICODE_STATE, &state) ||
	    !vt_py_has(layout, VT_PY_UNICODE_ASCII_DATA))
		return false;
	*text = length;
	if (((uint32_t)state & is_ascii) != is_ascii)
		return true;
	if (length < sizeof(last) ? vt_mem_read(src, data, &last, (size_t)length) :
				    vt_mem_read_u64(src, data + length - sizeof(last), &last))
		return false;
	*text = vt_recorder_text(length, last);
	return true;
}

/* All of its words may be the same although it is another one: see struct vt_recorder_code. */
static bool has_version(const struct vt_python_layout *layout, struct vt_memsrc *src,
			const struct vt_py_view *view, const struct vt_recorder_code *code)
{
	uint32_t at = vt_py_code_version_at(layout), version;
	uint64_t name, filename;

	if (!code->version)
		return true;
	if (at != VT_PY_NONE) {
		if (at > view->size - sizeof(version))
			return false;
		memcpy(&version, view->bytes + at, sizeof(version));
		return version == code->version;
	}
	return read_text(layout, src, code->name, &name) &&
	       read_text(layout, src, code->filename, &filename) &&
	       vt_recorder_texts(name, filename) == code->version;
}

static bool is_unchanged(const struct vt_python *py, struct vt_memsrc *src,
			 const struct vt_recorder_code *code)
{
	const struct vt_python_layout *layout = py->layout;
	enum vt_py_field qualname = vt_py_has(layout, VT_PY_CODE_QUALNAME) ? VT_PY_CODE_QUALNAME :
									     VT_PY_CODE_NAME;
	struct vt_py_view view;

	return code->object &&
	       !vt_py_view_read(src, layout, code->object, VT_PY_CODE_NAME,
				VT_PY_CODE_FIRSTTRACEABLE, &view) &&
	       view.size >= 24 && is_alive(layout, &view) &&
	       vt_py_view_u64(&view, layout, VT_PY_CODE_FILENAME) == code->filename &&
	       vt_py_view_u64(&view, layout, VT_PY_CODE_NAME) == code->name &&
	       vt_py_view_u64(&view, layout, qualname) == code->qualname &&
	       vt_py_view_u64(&view, layout, VT_PY_CODE_LINETABLE) == code->linetable &&
	       vt_py_view_i32(&view, layout, VT_PY_CODE_FIRSTLINENO) ==
		       (int32_t)code->firstlineno &&
	       has_version(layout, src, &view, code);
}

struct vt_error *vt_recorder_stacks_name(struct vt_recorder_stacks *stacks, struct vt_python *py,
					 struct vt_memsrc *src, struct vt_memsrc *names_src)
{
	VT_FREE bool *gone = calloc(stacks->codes.n + 1, sizeof(*gone));

	if (!gone)
		return &vt_enomem;
	for (size_t i = 0; i < stacks->codes.n; i++)
		gone[i] = !is_unchanged(py, src, &stacks->codes.data[i]);
	VT_TRY(vt_python_name_places(py, names_src, stacks->python.data, stacks->python.n));
	for (size_t i = 0; i < stacks->codes.n; i++) {
		gone[i] = gone[i] ||
			  (!src->coherent && !is_unchanged(py, src, &stacks->codes.data[i]));
		stacks->n_gone += gone[i];
	}
	for (size_t i = 0; i < stacks->python.n; i++)
		if (gone[stacks->code_of.data[i]])
			stacks->python.data[i].valid = false;
	return NULL;
}
