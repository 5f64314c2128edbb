/* SPDX-License-Identifier: Apache-2.0 */
/*
 * We do not copy contexts while the threads are stopped: those of 20,000 blocks are in some 6,000
 * pages all over the heap. A context does not change once PyTorch has put it into a Block, and
 * lives until the block is freed. So if the target runs:
 *
 * 1. We read everything: contexts, the contents of their vectors, and the names of the code
 * objects. A context has strong references to these. 2. We read each Block again: it must still be
 * the same memory with the same context. 3. If no device has made an allocation since the blocks
 * were listed, no block can have been reused, and no context can have been made in the memory of
 * another: the data is right. Else we read each block twice more: its fields, context, vectors, and
 * its fields again, in one process_vm_readv(). It reads them in this order and well under a
 * microsecond apart: less than PyTorch needs for a free and an allocation with history. All of it
 * must be as in the first read.
 */
#include "walk/torch/history.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/map.h"
#include "target/live.h"

/*
 * torch::CapturedTraceback (torch/csrc/profiler/combined_traceback.h): a vptr, then three vectors,
 * the same in 2.1 to 2.15. What follows them differs. The vector of TorchScript frames is not read.
 */
enum {
	WORD_VPTR,
	WORD_PYTHON, /* vector<PyFrame>: begin, end, end of its memory */
	WORD_NATIVE = 4,
	WORD_SCRIPT = 7,
	CONTEXT_WORDS = 10,
};
#define VPTR_OF_VTABLE 16 /* Itanium C++ ABI: offset to top and type information come first */

enum {
	/* PyFrame: code object; int lasti, with padding of any content in the upper half */
	PYTHON_WORDS = 2,
	MAX_DEPTH = 8192, /* frames of either kind */
	BATCH = 1024,     /* contexts read at once; IOV_MAX of Linux */
	MAX_BATCH_WORDS = 1 << 19,
	GROUP_PIECES = 5,              /* of one block's second look */
	GROUPS = BATCH / GROUP_PIECES, /* enough that no group is torn between two calls */
	MAX_BLOCK_SPAN = 256,
	N_LOOKS = 2,
};
#define MAX_TRACES 262144
#define MAX_WORDS (UINT64_C(4) << 20) /* of all traces: 32 MiB */
#define MAX_PLACES 131072             /* in Python code; in native code */
#define NO_TIME "time ran out"
#define UNKNOWN_LAYOUT "the layout of this release's blocks is not known well enough"

/* A block with a context, or a segment with one: the Block that begins it has two. */
struct item {
	uint32_t block;
	uint32_t trace;
	uint64_t context;
	uint64_t vectors[2]; /* where the words of the trace are in the target */
	uint8_t fate;
	bool is_segment;
};

struct reader {
	const struct vt_history_target *t;
	struct vt_torch_history *h;
	struct item *items;
	size_t n;
	/* interned traces, open addressing: index + 1 */
	uint32_t *slots;
	size_t n_slots;
	/* contents are the target's choice: it must not be able to choose collisions */
	uint64_t seed;
	uint64_t words;       /* of all traces */
	struct vt_map codes;  /* code object → number of it */
	struct vt_map python; /* number of code object << 32 | lasti → index in h->python */
	struct vt_map native; /* return address → index in h->native; NOT_CODE */
	/* scratch of one batch */
	uint64_t (*heads)[CONTEXT_WORDS];
	uint64_t *batch;
	struct vt_memvec *vec;
	bool *bad;
	/* the part of a Block that is read again */
	uint16_t span_first, span_size;
	bool has_segments; /* among the items */
};

#define NOT_CODE UINT64_MAX

bool vt_torch_history_any(const struct vt_block_rec *blocks, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (blocks[i].context)
			return true;
	return false;
}

uint64_t vt_torch_history_vtable(struct vt_modules *modules)
{
	static const char *const libraries[] = { "libtorch_cpu.so", "libtorch_python.so",
						 "libtorch.so" };
	uint64_t vtable = 0;

	for (size_t i = 0; !vtable && i < sizeof(libraries) / sizeof(libraries[0]); i++)
		vtable =
			vt_modules_symbol(modules, libraries[i], "_ZTVN5torch17CapturedTracebackE");
	return vtable;
}

/* ---- reading many pieces ---- */

/* An empty one is not read: there may be nothing. */
static struct vt_memvec make_piece(uint64_t addr, void *buf, size_t len, uint64_t context)
{
	return (struct vt_memvec){ len ? addr : context, buf, len };
}

/* Sets bad[i] for unreadable pieces. Returns an errno only when the target is gone. */
static int read_pieces(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n, bool *bad)
{
	memset(bad, 0, n * sizeof(*bad));
	for (size_t first = 0; first < n; first += BATCH) {
		size_t count = n - first < BATCH ? n - first : BATCH;

		if (!vt_mem_readv(src, vec + first, count))
			continue;
		for (size_t i = first; i < first + count; i++) {
			int ret = vt_mem_read(src, vec[i].addr, vec[i].buf, vec[i].len);

			if (ret == -ESRCH)
				return ret;
			bad[i] = ret != 0;
		}
	}
	return 0;
}

static bool no_time(const struct reader *r)
{
	return vt_deadline_passed(r->t->deadline_ns);
}

__attribute__((format(printf, 2, 3))) static void say_first(struct reader *r, const char *format,
							    ...)
{
	va_list args;

	if (r->h->why[0])
		return;
	va_start(args, format);
	vsnprintf(r->h->why, sizeof(r->h->why), format, args);
	va_end(args);
}

/* ---- traces ---- */

static uint64_t hash_words(const struct reader *r, const uint64_t *words, size_t n,
			   uint32_t n_python)
{
	uint64_t hash = r->seed ^ n_python;

	for (size_t i = 0; i < n; i++) {
		hash = (hash ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
		hash ^= hash >> 29;
	}
	return hash;
}

static size_t trace_words(const struct vt_history_trace *trace)
{
	return (size_t)trace->n_python * PYTHON_WORDS + trace->n_native;
}

/* The slot of an equal trace, or the empty one where it belongs. */
static uint32_t *find_slot(const struct reader *r, const struct vt_history_trace *trace)
{
	size_t n = trace_words(trace);
	size_t i = (size_t)hash_words(r, trace->words, n, trace->n_python);

	for (;; i++) {
		uint32_t *slot = &r->slots[i & (r->n_slots - 1)];
		const struct vt_history_trace *other = *slot ? &r->h->traces.data[*slot - 1] : NULL;

		if (!other ||
		    (other->n_python == trace->n_python && other->n_native == trace->n_native &&
		     !memcmp(other->words, trace->words, n * sizeof(*trace->words))))
			return slot;
	}
}

static bool grow_slots(struct reader *r)
{
	size_t n = r->n_slots ? r->n_slots * 2 : 1024;
	uint32_t *slots = calloc(n, sizeof(*slots));

	if (!slots)
		return false;
	free(r->slots);
	r->slots = slots;
	r->n_slots = n;
	for (size_t i = 0; i < r->h->traces.n; i++)
		*find_slot(r, &r->h->traces.data[i]) = (uint32_t)(i + 1);
	return true;
}

/* Whether a call may have come from before this address: it lies in code. */
static bool is_return_address(const struct reader *r, uint64_t pc)
{
	const struct vt_map_entry *entry = pc ? vt_maps_find(r->t->maps, pc - 1) : NULL;

	return entry && entry->flags & VT_MAP_EXEC;
}

static struct vt_error *number_native(struct reader *r, uint64_t pc, uint32_t *index)
{
	const uint64_t *known = vt_map_get(&r->native, pc);

	if (!known) {
		bool valid = is_return_address(r, pc);
		uint64_t *added = valid ? vt_vec_append(&r->h->native) : NULL;

		if (added)
			*added = pc;
		if ((valid && !added) ||
		    !vt_map_put(&r->native, pc, valid ? r->h->native.n - 1 : NOT_CODE))
			return &vt_enomem;
		known = vt_map_get(&r->native, pc);
	}
	*index = (uint32_t)*known;
	return NULL;
}

static struct vt_error *number_python(struct reader *r, uint64_t code, int32_t lasti,
				      uint32_t *index)
{
	const uint64_t *number = vt_map_get(&r->codes, code), *known;

	if (!number) {
		if (!vt_map_put(&r->codes, code, r->codes.n))
			return &vt_enomem;
		number = vt_map_get(&r->codes, code);
	}

	uint64_t key = *number << 32 | (uint32_t)lasti;

	known = vt_map_get(&r->python, key);
	if (!known) {
		struct vt_python_place *added = vt_vec_append(&r->h->python);

		if (!added || !vt_map_put(&r->python, key, r->h->python.n - 1))
			return &vt_enomem;
		*added = (struct vt_python_place){ .code = code, .lasti = lasti };
		known = vt_map_get(&r->python, key);
	}
	*index = (uint32_t)*known;
	return NULL;
}

static struct vt_error *number_frames(struct reader *r, struct vt_history_trace *trace)
{
	const uint64_t *native = trace->words + (size_t)trace->n_python * PYTHON_WORDS;

	for (uint32_t i = 0; i < trace->n_python; i++)
		VT_TRY(number_python(r, trace->words[PYTHON_WORDS * i],
				     (int32_t)trace->words[PYTHON_WORDS * i + 1],
				     &trace->frames[i]));
	for (uint32_t i = 0; i < trace->n_native; i++) {
		VT_TRY(number_native(r, native[i], &trace->frames[trace->n_python + i]));
		if (trace->frames[trace->n_python + i] == (uint32_t)NOT_CODE && !trace->invalid) {
			trace->invalid = true;
			say_first(r, "0x%" PRIx64 " is no return address", native[i]);
		}
	}
	return NULL;
}

/* A copy of a new trace. *index: MAX_TRACES when there is no room for more. */
static struct vt_error *intern(struct reader *r, const struct vt_history_trace *found,
			       uint32_t *index)
{
	size_t n = trace_words(found);

	if ((r->h->traces.n + 1) * 2 > r->n_slots && !grow_slots(r))
		return &vt_enomem;

	uint32_t *slot = find_slot(r, found);

	*index = MAX_TRACES;
	if (*slot) {
		*index = *slot - 1;
		return NULL;
	}
	if (r->h->traces.n == MAX_TRACES || r->words + n > MAX_WORDS ||
	    r->h->python.n + found->n_python > MAX_PLACES ||
	    r->h->native.n + found->n_native > MAX_PLACES)
		return NULL;

	uint64_t *words = vt_arena_alloc(&r->h->arena, n * sizeof(*words));
	uint32_t *frames = vt_arena_alloc(
		&r->h->arena, ((size_t)found->n_python + found->n_native) * sizeof(*frames));
	struct vt_history_trace *trace = words && frames ? vt_vec_append(&r->h->traces) : NULL;

	if (!trace)
		return &vt_enomem;
	memcpy(words, found->words, n * sizeof(*words));
	*trace = *found;
	trace->words = words;
	trace->frames = frames;
	r->words += n;
	*index = (uint32_t)r->h->traces.n - 1;
	*slot = *index + 1;
	return number_frames(r, trace);
}

/* ---- 1: contexts ---- */

static bool is_vector(const uint64_t *v, uint64_t element)
{
	if (!v[0])
		return !v[1] && !v[2];
	return !(v[0] & 7) && v[0] <= v[1] && v[1] <= v[2] && v[2] - v[0] < UINT64_C(1) << 32 &&
	       (v[1] - v[0]) % element == 0 && (v[2] - v[0]) % element == 0;
}

/* Whether the context can be one; the words of its two vectors. */
static bool look_at_head(struct reader *r, struct item *item, const uint64_t *head,
			 size_t n_words[2])
{
	uint64_t context = item->context;

	if (!r->t->vtable || head[WORD_VPTR] != r->t->vtable + VPTR_OF_VTABLE) {
		item->fate = VT_HISTORY_FOREIGN;
		say_first(r, "the context at 0x%" PRIx64 " has an unknown type", context);
		return false;
	}
	/* TorchScript's frames only need to be a vector: sizeof(StackEntry) differs. */
	if (!is_vector(head + WORD_PYTHON, PYTHON_WORDS * sizeof(uint64_t)) ||
	    !is_vector(head + WORD_NATIVE, sizeof(uint64_t)) ||
	    !is_vector(head + WORD_SCRIPT, sizeof(uint64_t))) {
		item->fate = VT_HISTORY_INVALID;
		say_first(r, "the context at 0x%" PRIx64 " has no lists of frames", context);
		return false;
	}
	item->vectors[0] = head[WORD_PYTHON];
	item->vectors[1] = head[WORD_NATIVE];
	n_words[0] = (head[WORD_PYTHON + 1] - head[WORD_PYTHON]) / sizeof(uint64_t);
	n_words[1] = (head[WORD_NATIVE + 1] - head[WORD_NATIVE]) / sizeof(uint64_t);
	if (n_words[0] > MAX_DEPTH * PYTHON_WORDS || n_words[1] > MAX_DEPTH) {
		item->fate = VT_HISTORY_SKIPPED;
		say_first(r, "a backtrace has more than %d frames", MAX_DEPTH);
		return false;
	}
	return true;
}

static void clear_padding(uint64_t *words, size_t n)
{
	for (size_t i = 1; i < n; i += PYTHON_WORDS)
		words[i] &= UINT32_MAX;
}

/* A batch's contexts whose vectors are being read. */
struct pending {
	struct item *items[BATCH];
	struct vt_history_trace traces[BATCH];
	size_t n, n_words;
};

static struct vt_error *read_vectors(struct reader *r, struct pending *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct vt_history_trace *trace = &p->traces[i];
		uint64_t *words = r->batch + (trace->words - r->batch);
		size_t python = (size_t)trace->n_python * PYTHON_WORDS;
		uint64_t context = p->items[i]->context;

		r->vec[2 * i] = make_piece(p->items[i]->vectors[0], words, python * sizeof(*words),
					   context);
		r->vec[2 * i + 1] = make_piece(p->items[i]->vectors[1], words + python,
					       trace->n_native * sizeof(*words), context);
	}

	int ret = read_pieces(r->t->src, r->vec, 2 * p->n, r->bad);

	if (ret)
		return vt_mem_error(r->t->src, ret, "PyTorch's recorded backtraces");
	for (size_t i = 0; i < p->n; i++) {
		struct vt_history_trace *trace = &p->traces[i];
		struct item *item = p->items[i];

		if (r->bad[2 * i] || r->bad[2 * i + 1]) {
			item->fate = VT_HISTORY_INVALID;
			say_first(r, "the frames of the context at 0x%" PRIx64 " cannot be read",
				  item->context);
			continue;
		}
		clear_padding(r->batch + (trace->words - r->batch),
			      (size_t)trace->n_python * PYTHON_WORDS);
		VT_TRY(intern(r, trace, &item->trace));
		item->fate = item->trace == MAX_TRACES ? VT_HISTORY_SKIPPED : VT_HISTORY_READ;
		if (item->trace == MAX_TRACES)
			say_first(r, "there are too many different backtraces");
	}
	p->n = p->n_words = 0;
	return NULL;
}

static struct vt_error *read_batch(struct reader *r, struct pending *p, struct item *items,
				   size_t n)
{
	for (size_t i = 0; i < n; i++)
		r->vec[i] =
			(struct vt_memvec){ items[i].context, r->heads[i], sizeof(r->heads[i]) };

	int ret = read_pieces(r->t->src, r->vec, n, r->bad);

	if (ret)
		return vt_mem_error(r->t->src, ret, "PyTorch's recorded backtraces");
	for (size_t i = 0; i < n; i++) {
		if (!r->bad[i])
			continue;
		items[i].fate = VT_HISTORY_INVALID;
		say_first(r, "the context at 0x%" PRIx64 " cannot be read", items[i].context);
	}
	for (size_t i = 0; i < n; i++) {
		size_t n_words[2];

		if (items[i].fate == VT_HISTORY_INVALID ||
		    !look_at_head(r, &items[i], r->heads[i], n_words))
			continue;
		if (p->n_words + n_words[0] + n_words[1] > MAX_BATCH_WORDS)
			VT_TRY(read_vectors(r, p));
		p->items[p->n] = &items[i];
		p->traces[p->n++] = (struct vt_history_trace){
			.words = r->batch + p->n_words,
			.n_python = (uint32_t)(n_words[0] / PYTHON_WORDS),
			.n_native = (uint32_t)n_words[1],
		};
		p->n_words += n_words[0] + n_words[1];
	}
	return read_vectors(r, p);
}

static struct vt_error *read_contexts(struct reader *r)
{
	VT_FREE struct pending *p = calloc(1, sizeof(*p));

	if (!p)
		return &vt_enomem;
	for (size_t first = 0; first < r->n; first += BATCH) {
		if (no_time(r)) {
			say_first(r, NO_TIME);
			break; /* their fate is SKIPPED */
		}
		VT_TRY(read_batch(r, p, r->items + first,
				  r->n - first < BATCH ? r->n - first : BATCH));
	}
	return NULL;
}

/* ---- code objects ---- */

static struct vt_error *name_places(struct reader *r)
{
	if (!r->t->python || !r->h->python.n)
		return NULL;
	return vt_python_name_places(r->t->python, r->t->names_src, r->h->python.data,
				     r->h->python.n);
}

/* An invalid code object spoils the traces with it. */
static void check_traces(struct reader *r)
{
	for (size_t i = 0; i < r->h->traces.n; i++) {
		struct vt_history_trace *trace = &r->h->traces.data[i];

		for (uint32_t k = 0; r->t->python && k < trace->n_python && !trace->invalid; k++) {
			const struct vt_python_place *place = &r->h->python.data[trace->frames[k]];

			trace->invalid = !place->valid;
			if (trace->invalid)
				say_first(r, "there is no code object at 0x%" PRIx64, place->code);
		}
	}
	for (size_t i = 0; i < r->n; i++) {
		struct item *item = &r->items[i];

		if (item->fate != VT_HISTORY_READ)
			continue;
		if (r->h->traces.data[item->trace].invalid)
			item->fate = VT_HISTORY_INVALID;
		else if (r->h->traces.data[item->trace].n_python && !r->t->python) {
			item->fate = VT_HISTORY_SKIPPED;
			say_first(r, "their Python frames cannot be read");
		}
	}
}

/* ---- 2 and 3: is it still so? ---- */

/* context_when_allocated is a shared_ptr; context_when_segment_allocated follows it. */
static uint16_t segment_context(const struct vt_torch_block_layout *l)
{
	return l->context == VT_TORCH_NO_FIELD ? VT_TORCH_NO_FIELD : l->context + 16;
}

/* The part of a Block that has all the fields; with that of segments, too. */
static bool find_span(struct reader *r, bool segments)
{
	const struct vt_torch_block_layout *l = &r->t->layout->block;
	const uint16_t fields[] = { l->ptr, l->size, l->requested_size, l->context,
				    segment_context(l) };
	const size_t n = sizeof(fields) / sizeof(fields[0]) - !segments;
	unsigned int first = UINT16_MAX, end = 0;

	for (size_t i = 0; i < n; i++) {
		if (fields[i] == VT_TORCH_NO_FIELD)
			return false;
		first = fields[i] < first ? fields[i] : first;
		end = fields[i] + 8u > end ? fields[i] + 8u : end;
	}
	if (end > l->size_of || end - first > MAX_BLOCK_SPAN)
		return false;
	r->span_first = (uint16_t)first;
	r->span_size = (uint16_t)(end - first);
	return true;
}

static uint64_t span_field(const struct reader *r, const uint8_t *span, uint16_t offset)
{
	uint64_t value;

	memcpy(&value, span + (offset - r->span_first), sizeof(value));
	return value;
}

static bool is_same_block(const struct reader *r, const uint8_t *span, const struct item *item)
{
	const struct vt_torch_block_layout *l = &r->t->layout->block;
	const struct vt_block_rec *rec = &r->t->blocks[item->block];

	return span_field(r, span, l->ptr) == rec->addr &&
	       span_field(r, span, l->size) == rec->size &&
	       span_field(r, span, l->requested_size) == rec->requested &&
	       span_field(r, span, l->context) == rec->context &&
	       (!item->is_segment || span_field(r, span, segment_context(l)) == item->context);
}

static struct vt_memvec span_piece(const struct reader *r, const struct item *item, uint8_t *span)
{
	return (struct vt_memvec){ r->t->blocks[item->block].object + r->span_first, span,
				   r->span_size };
}

/* A trace is not invalid or foreign if it only looked so because its block was being changed. */
static struct vt_error *look_at_blocks(struct reader *r)
{
	uint8_t *spans = (uint8_t *)r->batch;

	_Static_assert(BATCH * MAX_BLOCK_SPAN <= MAX_BATCH_WORDS * sizeof(uint64_t),
		       "a batch of spans has room");
	for (size_t first = 0; first < r->n; first += BATCH) {
		size_t n = r->n - first < BATCH ? r->n - first : BATCH;

		for (size_t i = 0; i < n; i++)
			r->vec[i] = span_piece(r, &r->items[first + i], spans + i * MAX_BLOCK_SPAN);

		int ret = read_pieces(r->t->src, r->vec, n, r->bad);

		if (ret)
			return vt_mem_error(r->t->src, ret, "PyTorch's blocks");
		for (size_t i = 0; i < n; i++)
			if (r->bad[i] ||
			    !is_same_block(r, spans + i * MAX_BLOCK_SPAN, &r->items[first + i]))
				r->items[first + i].fate = VT_HISTORY_CHANGED;
	}
	return NULL;
}

/* Whether nothing was allocated since the blocks were listed. */
static bool is_quiet(const struct reader *r)
{
	for (size_t i = 0; i < r->t->n_counters; i++) {
		uint64_t value;

		if (vt_mem_read_u64(r->t->src, r->t->counters[i].addr, &value) ||
		    (int64_t)value != r->t->counters[i].value)
			return false;
	}
	return r->t->n_counters > 0;
}

struct group {
	struct item *item;
	uint8_t *before, *after;
	uint64_t *head, *words;
};

static bool group_holds(const struct reader *r, const struct group *g)
{
	const struct vt_history_trace *trace = &r->h->traces.data[g->item->trace];
	size_t python = (size_t)trace->n_python * PYTHON_WORDS;

	clear_padding(g->words, python);
	return is_same_block(r, g->before, g->item) && is_same_block(r, g->after, g->item) &&
	       g->head[WORD_VPTR] == r->t->vtable + VPTR_OF_VTABLE &&
	       g->head[WORD_PYTHON] == g->item->vectors[0] &&
	       g->head[WORD_PYTHON + 1] == g->item->vectors[0] + python * sizeof(uint64_t) &&
	       g->head[WORD_NATIVE] == g->item->vectors[1] &&
	       g->head[WORD_NATIVE + 1] ==
		       g->item->vectors[1] + trace->n_native * sizeof(uint64_t) &&
	       !memcmp(g->words, trace->words, trace_words(trace) * sizeof(uint64_t));
}

/*
 * Gathers groups as long as there is room; returns how many, and sets *next to the first item that
 * is not among them.
 */
static size_t make_groups(struct reader *r, struct group groups[GROUPS], size_t *next)
{
	const size_t fixed = 2 * MAX_BLOCK_SPAN / sizeof(uint64_t) + CONTEXT_WORDS;
	size_t n = 0, used = 0;
	bool late = no_time(r);

	if (late)
		say_first(r, NO_TIME);
	_Static_assert(MAX_DEPTH * (PYTHON_WORDS + 1) + CONTEXT_WORDS + MAX_BLOCK_SPAN <
			       MAX_BATCH_WORDS,
		       "one has room");
	for (; *next < r->n && n < GROUPS; (*next)++) {
		struct item *item = &r->items[*next];
		const struct vt_history_trace *trace;
		size_t python;

		if (item->fate != VT_HISTORY_READ)
			continue;
		if (late) {
			item->fate = VT_HISTORY_SKIPPED;
			continue;
		}
		trace = &r->h->traces.data[item->trace];
		if (used + fixed + trace_words(trace) > MAX_BATCH_WORDS)
			break;
		python = (size_t)trace->n_python * PYTHON_WORDS;

		struct group *g = &groups[n];

		g->item = item;
		g->head = r->batch + used;
		g->words = g->head + CONTEXT_WORDS;
		g->before = (uint8_t *)(g->words + trace_words(trace));
		g->after = g->before + MAX_BLOCK_SPAN;
		used += fixed + trace_words(trace);

		struct vt_memvec *vec = r->vec + GROUP_PIECES * n++;
		uint64_t context = item->context;

		vec[0] = span_piece(r, item, g->before);
		vec[1] = (struct vt_memvec){ context, g->head, CONTEXT_WORDS * sizeof(uint64_t) };
		vec[2] = make_piece(item->vectors[0], g->words, python * sizeof(uint64_t), context);
		vec[3] = make_piece(item->vectors[1], g->words + python,
				    trace->n_native * sizeof(uint64_t), context);
		vec[4] = span_piece(r, item, g->after);
	}
	return n;
}

static struct vt_error *look_again(struct reader *r)
{
	struct group groups[GROUPS];
	size_t next = 0, n;

	while ((n = make_groups(r, groups, &next)) > 0) {
		int ret = read_pieces(r->t->src, r->vec, GROUP_PIECES * n, r->bad);

		if (ret)
			return vt_mem_error(r->t->src, ret, "PyTorch's recorded backtraces");
		for (size_t i = 0; i < n; i++) {
			bool bad = false;

			for (size_t k = 0; k < GROUP_PIECES; k++)
				bad |= r->bad[GROUP_PIECES * i + k];
			if (bad || !group_holds(r, &groups[i]))
				groups[i].item->fate = VT_HISTORY_CHANGED;
		}
	}
	return NULL;
}

static bool is_bad(const struct item *item)
{
	return item->fate == VT_HISTORY_INVALID || item->fate == VT_HISTORY_FOREIGN;
}

/* Whether it looks as bad as the first time, and in the same way. */
static bool is_still_bad(const struct reader *r, const struct item *then, const struct item *now)
{
	if (now->fate != VT_HISTORY_READ)
		return now->fate == then->fate;
	return then->trace == now->trace && r->h->traces.data[now->trace].invalid;
}

/*
 * A context that was new or gone when we read it is not damaged, if the block has one at its
 * address now.
 */
static struct vt_error *look_at_bad_again(struct reader *r)
{
	VT_FREE struct pending *p = calloc(1, sizeof(*p));
	VT_FREE struct item *again = malloc(BATCH * sizeof(*again));
	VT_FREE size_t *bad = malloc(BATCH * sizeof(*bad));

	if (!p || !again || !bad)
		return &vt_enomem;
	for (size_t next = 0; next < r->n;) {
		size_t n = 0;

		for (; next < r->n && n < BATCH; next++) {
			if (!is_bad(&r->items[next]))
				continue;
			bad[n] = next;
			again[n] = r->items[next];
			again[n++].fate = VT_HISTORY_SKIPPED;
		}
		VT_TRY(read_batch(r, p, again, n));
		for (size_t i = 0; i < n; i++)
			if (!is_still_bad(r, &r->items[bad[i]], &again[i]))
				r->items[bad[i]].fate = VT_HISTORY_CHANGED;
	}
	return NULL;
}

static struct vt_error *validate(struct reader *r)
{
	if (r->t->src->coherent)
		return NULL;
	if (!find_span(r, r->has_segments))
		return vt_error_create(VT_ERR_UNSUPPORTED, UNKNOWN_LAYOUT);
	VT_TRY(look_at_blocks(r));
	if (is_quiet(r))
		return NULL;
	for (int i = 0; i < N_LOOKS; i++) {
		VT_TRY(look_again(r));
		VT_TRY(look_at_bad_again(r));
	}
	return look_at_blocks(r);
}

/* ---- what there is to read ---- */

static bool begins_segment(const struct reader *r, size_t block)
{
	const struct vt_block_rec *b = &r->t->blocks[block];

	return r->t->segments && b->flags & VT_BLOCK_SEGMENT_START && b->object &&
	       b->state != VT_BLOCK_UNMAPPED;
}

/* A segment that is no item. */
static void spoil_segment(struct reader *r, uint32_t block, enum vt_history_fate fate,
			  const char *why)
{
	r->h->segment_fate_of[block] = (uint8_t)fate;
	r->h->n_segments[fate]++;
	say_first(r, "%s", why);
}

/* The contexts of the segments that items [first, n) of r are; those without one are left out. */
static struct vt_error *find_segments(struct reader *r, size_t first)
{
	const struct vt_torch_block_layout *l = &r->t->layout->block;
	size_t n = r->n;

	r->n = first;
	for (size_t i = first; i < n; i += BATCH) {
		size_t count = n - i < BATCH ? n - i : BATCH;

		for (size_t k = 0; k < count; k++)
			r->vec[k] = (struct vt_memvec){ r->t->blocks[r->items[i + k].block].object +
								segment_context(l),
							&r->items[i + k].context,
							sizeof(r->items[i + k].context) };

		int ret = read_pieces(r->t->src, r->vec, count, r->bad);

		if (ret)
			return vt_mem_error(r->t->src, ret, "PyTorch's blocks");
		for (size_t k = 0; k < count; k++) {
			struct item *item = &r->items[i + k];

			if (r->bad[k])
				spoil_segment(r, item->block, VT_HISTORY_INVALID,
					      "a block cannot be read");
			else if (item->context)
				r->items[r->n++] = *item;
		}
	}
	r->has_segments = r->n > first;
	return NULL;
}

static struct vt_error *find_items(struct reader *r)
{
	bool fits = find_span(r, true);
	size_t n = 0, first;

	for (size_t i = 0; i < r->t->n_blocks; i++)
		if (r->t->blocks[i].context)
			r->items[n++] = (struct item){ .block = (uint32_t)i,
						       .context = r->t->blocks[i].context,
						       .fate = VT_HISTORY_SKIPPED };
	first = n;
	for (size_t i = 0; i < r->t->n_blocks; i++) {
		if (!begins_segment(r, i))
			continue;
		if (fits)
			r->items[n++] = (struct item){ .block = (uint32_t)i,
						       .fate = VT_HISTORY_SKIPPED,
						       .is_segment = true };
		else
			spoil_segment(r, (uint32_t)i, VT_HISTORY_SKIPPED, UNKNOWN_LAYOUT);
	}
	r->n = n;
	return find_segments(r, first);
}

/* ---- all of it ---- */

static bool reader_init(struct reader *r, const struct vt_history_target *target,
			struct vt_torch_history *history)
{
	*r = (struct reader){ .t = target, .h = history, .seed = vt_now_ns() };
	history->trace_of = calloc(target->n_blocks + 1, sizeof(*history->trace_of));
	history->fate_of = calloc(target->n_blocks + 1, sizeof(*history->fate_of));
	for (size_t i = 0; i < target->n_blocks; i++)
		r->n += (target->blocks[i].context != 0) + begins_segment(r, i);
	r->items = calloc(r->n + 1, sizeof(*r->items));
	r->heads = malloc(BATCH * sizeof(*r->heads));
	r->batch = malloc(MAX_BATCH_WORDS * sizeof(*r->batch));
	r->vec = malloc(2 * BATCH * sizeof(*r->vec));
	r->bad = malloc(2 * BATCH * sizeof(*r->bad));
	if (!history->trace_of || !history->fate_of || !r->items || !r->heads || !r->batch ||
	    !r->vec || !r->bad)
		return false;
	if (target->segments) {
		history->segment_trace_of =
			calloc(target->n_blocks + 1, sizeof(*history->segment_trace_of));
		history->segment_fate_of =
			calloc(target->n_blocks + 1, sizeof(*history->segment_fate_of));
	}
	return !target->segments || (history->segment_trace_of && history->segment_fate_of);
}

static void reader_deinit(struct reader *r)
{
	free(r->items);
	free(r->slots);
	free(r->heads);
	free(r->batch);
	free(r->vec);
	free(r->bad);
	vt_map_deinit(&r->codes);
	vt_map_deinit(&r->python);
	vt_map_deinit(&r->native);
}

/*
 * Real damage affects a single context. If more than an eighth are inconsistent, our layout must be
 * wrong, and the others may look right only by chance.
 */
static bool refuse(size_t n[VT_HISTORY_N_FATES], bool anyway)
{
	bool refused = anyway || (n[VT_HISTORY_INVALID] > 1 &&
				  n[VT_HISTORY_INVALID] > n[VT_HISTORY_READ] / 8);

	if (refused) {
		n[VT_HISTORY_INVALID] += n[VT_HISTORY_READ];
		n[VT_HISTORY_READ] = 0;
	}
	return refused;
}

static void conclude(struct reader *r)
{
	struct vt_torch_history *history = r->h;

	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		bool is_segment = r->items[i].is_segment;

		(is_segment ? history->n_segments : history->n)[r->items[i].fate]++;
		n += !is_segment;
	}
	history->refused = refuse(history->n, false);
	history->segments_refused = refuse(history->n_segments, history->refused);
	for (size_t i = 0; i < r->n; i++) {
		struct item *item = &r->items[i];

		if ((item->is_segment ? history->segments_refused : history->refused) &&
		    item->fate == VT_HISTORY_READ)
			item->fate = VT_HISTORY_INVALID;
		if (item->is_segment) {
			history->segment_fate_of[item->block] = item->fate;
			history->segment_trace_of[item->block] = item->trace;
		} else {
			history->fate_of[item->block] = item->fate;
			history->trace_of[item->block] = item->trace;
		}
	}
	history->n[VT_HISTORY_NONE] = r->t->n_blocks - n;
}

struct vt_error *vt_torch_history_read(const struct vt_history_target *target,
				       struct vt_torch_history *history)
{
	struct reader r;
	struct vt_error *err = NULL;

	if (target->n_blocks > UINT32_MAX)
		return vt_error_create(VT_ERR_UNSUPPORTED, "there are too many blocks");
	if (!reader_init(&r, target, history))
		err = &vt_enomem;
	if (!err) {
		if (!target->vtable)
			say_first(&r, "PyTorch's libraries do not say what type they are of");
		err = find_items(&r);
	}
	if (!err)
		err = read_contexts(&r);
	if (!err)
		err = name_places(&r);
	if (!err) {
		check_traces(&r);
		err = validate(&r);
	}
	if (!err)
		conclude(&r);
	reader_deinit(&r);
	return err;
}

void vt_torch_history_deinit(struct vt_torch_history *history)
{
	vt_vec_deinit(&history->python);
	vt_vec_deinit(&history->native);
	vt_vec_deinit(&history->traces);
	free(history->trace_of);
	free(history->fate_of);
	free(history->segment_trace_of);
	free(history->segment_fate_of);
	vt_arena_deinit(&history->arena);
	*history = (struct vt_torch_history){ 0 };
}
