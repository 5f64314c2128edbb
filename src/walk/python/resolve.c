/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names and lines of captured frames. The target may run: code objects do not change while they are
 * in use.
 */
#include <inttypes.h>
#include <stdio.h>

#include "base/map.h"
#include "target/live.h"
#include "walk/python/internal.h"
#include "walk/python/line.h"
#include "walk/python/object.h"

#define MAX_LINE_TABLE (4u << 20)    /* bytes of one table */
#define MAX_LINE_TABLES (256u << 20) /* bytes of all tables */
#define MAX_NAMES (64u << 20)        /* bytes of all names */
/* code objects; programs have some hundred on their stacks */
#define MAX_CODES 100000
/* bytes of decoded line tables: some seconds */
#define MAX_DECODED (UINT64_C(4) << 30)

/* What is known about one code object. */
struct code {
	const char *function, *name, *file;
	const uint8_t *table;
	size_t table_size;
	int first_line;
	int32_t first_traceable; /* byte offset; a frame before it has not begun, for CPython */
	bool valid;
};

struct resolve {
	struct vt_python *py;
	struct vt_memsrc *src;
	struct vt_map codes;   /* address → index in code */
	struct vt_map lines;   /* index << 32 | lasti → line */
	struct vt_map strings; /* address → const char * */
	VT_VEC(struct code) code;
	struct vt_arena tables;
	size_t table_bytes, name_bytes;
	uint64_t decoded; /* decoded bytes of tables */
	bool gone;        /* the target ended */
	bool out_of_memory;
};

static void resolve_deinit(struct resolve *r)
{
	vt_map_deinit(&r->codes);
	vt_map_deinit(&r->lines);
	vt_map_deinit(&r->strings);
	vt_vec_deinit(&r->code);
	vt_arena_deinit(&r->tables);
}

/* The text of a str, or NULL. */
static const char *read_name(struct resolve *r, uint64_t object)
{
	const uint64_t *known = vt_map_get(&r->strings, object);
	char text[VT_PY_STR_MAX + 1];

	if (known)
		return (const char *)(uintptr_t)*known;
	if (!object || r->name_bytes > MAX_NAMES)
		return NULL;

	int length = vt_py_str_read(r->py, r->src, object, text);

	r->gone |= length == -ESRCH;
	if (length < 0)
		return NULL;

	const char *copy = vt_arena_strndup(&r->py->arena, text, (size_t)length);

	r->name_bytes += (size_t)length + 1;
	r->out_of_memory |= !copy || !vt_map_put(&r->strings, object, (uint64_t)(uintptr_t)copy);
	return copy;
}

/* The bytes object with the line table. A code without one keeps line 0. */
static void read_table(struct resolve *r, uint64_t object, struct code *code)
{
	const struct vt_python_layout *layout = r->py->layout;
	uint64_t size;

	if (!vt_py_is(r->py, r->src, object, VT_PYTHON_BYTES) ||
	    vt_py_field_u64(r->src, layout, object, VT_PY_OBJECT_SIZE, &size))
		return;
	if (size > MAX_LINE_TABLE || size > MAX_LINE_TABLES - r->table_bytes)
		return;

	uint8_t *table = vt_arena_alloc(&r->tables, size + 1);

	if (!table) {
		r->out_of_memory = true;
		return;
	}
	r->table_bytes += size;
	if (size && vt_mem_read(r->src, object + layout->at[VT_PY_BYTES_DATA], table, size))
		return;
	code->table = table;
	code->table_size = size;
}

static void read_code(struct resolve *r, uint64_t addr, struct code *code)
{
	const struct vt_python_layout *layout = r->py->layout;
	struct vt_py_view view;
	int ret = vt_py_view_read(r->src, layout, addr, VT_PY_CODE_NAME, VT_PY_CODE_FIRSTTRACEABLE,
				  &view);

	r->gone |= ret == -ESRCH;
	if (ret || !vt_py_is(r->py, r->src, addr, VT_PYTHON_CODE))
		return;
	code->valid = true;
	code->first_line = vt_py_view_i32(&view, layout, VT_PY_CODE_FIRSTLINENO);

	int32_t first = vt_py_view_i32(&view, layout, VT_PY_CODE_FIRSTTRACEABLE);

	code->first_traceable = first > 0 && first < INT32_MAX / 2 ? first * 2 : 0;
	code->file = read_name(r, vt_py_view_u64(&view, layout, VT_PY_CODE_FILENAME));
	if (vt_py_has(layout, VT_PY_CODE_QUALNAME))
		code->function = read_name(r, vt_py_view_u64(&view, layout, VT_PY_CODE_QUALNAME));
	code->name = read_name(r, vt_py_view_u64(&view, layout, VT_PY_CODE_NAME));
	if (!code->function)
		code->function = code->name;
	read_table(r, vt_py_view_u64(&view, layout, VT_PY_CODE_LINETABLE), code);
}

/* The index of a code object in r->code, or -1 when out of memory. */
static int64_t find_code(struct resolve *r, uint64_t addr)
{
	const uint64_t *known = vt_map_get(&r->codes, addr);

	if (known)
		return (int64_t)*known;

	struct code code = { 0 };

	if (r->code.n < MAX_CODES)
		read_code(r, addr, &code);

	struct code *added = vt_vec_append(&r->code);

	if (!added || !vt_map_put(&r->codes, addr, r->code.n - 1)) {
		r->out_of_memory = true;
		return -1;
	}
	*added = code;
	return (int64_t)r->code.n - 1;
}

/* Deep recursion has thousands of frames at one place: each place is decoded once. */
static int find_line(struct resolve *r, int64_t index, int32_t lasti)
{
	const struct code *code = &r->code.data[index];
	uint64_t key = (uint64_t)index << 32 | (uint32_t)lasti;
	const uint64_t *known = vt_map_get(&r->lines, key);

	if (known)
		return (int)*known;
	if (!code->table || r->decoded > MAX_DECODED)
		return 0;
	r->decoded += code->table_size;

	int line = vt_python_line(r->py->layout->lines, code->table, code->table_size,
				  code->first_line, lasti);

	r->out_of_memory |= !vt_map_put(&r->lines, key, (uint64_t)line);
	return line;
}

/* ---- names of local variables ---- */

/* The tuple of a code object with the name of a slot, and the slot's index in it. 0: none. */
static uint64_t names_of_slot(struct resolve *r, uint64_t code, uint32_t *slot)
{
	static const enum vt_py_field three[] = { VT_PY_CODE_VARNAMES, VT_PY_CODE_CELLVARS,
						  VT_PY_CODE_FREEVARS };
	const struct vt_python_layout *layout = r->py->layout;
	uint64_t tuple, size;

	if (vt_py_has(layout, VT_PY_CODE_LOCALSNAMES))
		return vt_py_field_u64(r->src, layout, code, VT_PY_CODE_LOCALSNAMES, &tuple) ?
			       0 :
			       tuple;
	for (size_t i = 0; i < 3; i++) {
		if (vt_py_field_u64(r->src, layout, code, three[i], &tuple) ||
		    vt_py_field_u64(r->src, layout, tuple, VT_PY_OBJECT_SIZE, &size))
			return 0;
		if (*slot < size)
			return tuple;
		*slot -= (uint32_t)size;
	}
	return 0;
}

static void name_locals(struct resolve *r, const struct vt_python_frame *frame)
{
	/* Ours, in our arena: constant for all others. */
	struct vt_python_locals *locals = (struct vt_python_locals *)(uintptr_t)frame->locals;

	for (uint32_t i = 0; locals && i < locals->n; i++) {
		uint32_t slot = locals->items[i].slot;
		uint64_t tuple = names_of_slot(r, frame->code, &slot), name;

		if (!tuple ||
		    vt_mem_read_u64(r->src, tuple + r->py->layout->at[VT_PY_TUPLE_ITEMS] + slot * 8,
				    &name))
			name = 0;
		locals->items[i].name = read_name(r, name);
		if (!locals->items[i].name)
			locals->items[i].name = "?";
	}
}

/* ---- threads ---- */

/*
 * From 3.11 on CPython hides a frame before its first traceable instruction: it is still making its
 * cells or its generator.
 */
static bool has_begun(const struct vt_python *py, const struct vt_python_frame *frame,
		      const struct code *code)
{
	return !vt_py_has(py->layout, VT_PY_FRAME_INSTR) || frame->generator ||
	       frame->lasti >= code->first_traceable;
}

/*
 * Hides a frame that has not begun (frames.data[i], about to be dropped; n frames are kept so far).
 * If it began a call of the evaluator, the frame inside it does so in its place, unless that has an
 * evaluator call of its own.
 */
static bool may_hide(const struct vt_python_thread *thread, size_t i, size_t n)
{
	return !thread->frames.data[i].entry || (n && !thread->frames.data[n - 1].entry);
}

static void resolve_thread(struct resolve *r, struct vt_python_thread *thread)
{
	size_t n = 0;

	for (size_t i = 0; i < thread->frames.n && !r->out_of_memory; i++) {
		struct vt_python_frame frame = thread->frames.data[i];
		int64_t index = find_code(r, frame.code);

		if (index < 0)
			return;

		const struct code *code = &r->code.data[index];

		if (!code->valid && !r->gone) {
			/* Whatever this is, its caller is not trusted either. */
			thread->truncated = true;
			snprintf(thread->why, sizeof(thread->why),
				 "the frame at 0x%" PRIx64 " has no code object", frame.frame);
			break;
		}
		if (code->valid && !has_begun(r->py, &frame, code) && may_hide(thread, i, n)) {
			if (frame.entry)
				thread->frames.data[n - 1].entry = true;
			continue;
		}
		frame.function = code->function;
		frame.name = code->name;
		frame.file = code->file;
		if (!frame.line)
			frame.line = find_line(r, index, frame.lasti);
		name_locals(r, &frame);
		thread->frames.data[n++] = frame;
	}
	if (!r->out_of_memory)
		thread->frames.n = n;
}

struct vt_error *vt_python_resolve(struct vt_python *py, struct vt_memsrc *src)
{
	struct resolve r = { .py = py, .src = src };

	for (size_t i = 0; i < py->threads.n && !r.out_of_memory && !r.gone; i++)
		resolve_thread(&r, &py->threads.data[i]);

	struct vt_error *err = NULL;

	if (r.out_of_memory)
		err = &vt_enomem;
	else if (r.gone)
		err = vt_mem_error(src, -ESRCH, "Python's code objects");
	resolve_deinit(&r);
	return err;
}

bool vt_python_frame_at(struct vt_python *py, struct vt_memsrc *src, uint64_t addr,
			struct vt_python_frame *frame)
{
	struct resolve r = { .py = py, .src = src };
	struct vt_py_frame_info info;
	int64_t index = -1;

	if (addr && !vt_py_frame_read(py, src, addr, &info) && !info.shim)
		index = find_code(&r, info.frame.code);
	if (index >= 0 && r.code.data[index].valid) {
		*frame = info.frame;
		frame->function = r.code.data[index].function;
		frame->name = r.code.data[index].name;
		frame->file = r.code.data[index].file;
		if (!frame->line)
			frame->line = find_line(&r, index, frame->lasti);
	} else {
		index = -1;
	}
	resolve_deinit(&r);
	return index >= 0;
}
