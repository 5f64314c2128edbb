/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local variables of captured frames. Their values are read while the target is stopped, because
 * the next instruction may change them; so there is little time for it.
 */

#include "base/clock.h"
#include "base/map.h"
#include "target/live.h"
#include "walk/python/internal.h"
#include "walk/python/value.h"

/*
 * The time limits. On a machine with more work than processors, some of the wall-clock time passes
 * without one instruction of ours, and the target would hardly have run either: hence the larger
 * limit for that.
 */
#define BUDGET_NS (20 * VT_NS_PER_MS)
#define WALL_BUDGET_NS (100 * VT_NS_PER_MS)
#define MAX_TEXT (16u << 20) /* bytes of all lists and values */
#define MAX_VARIABLES 4096   /* of one function; more are damage (code has some dozen) */
#define MAX_SLOTS 256        /* examined, of one frame */
#define MAX_SHOWN 64         /* of one frame that are bound and shown */
#define CHECK_EVERY 8        /* variables: damaged ones can take a millisecond each */

/* A code object's data about its variables. */
struct variables {
	uint32_t n;
	/*
	 * address of a byte for each (3.11 on); 0: the first n_plain are not cells, the others are
	 */
	uint64_t kinds;
	uint32_t n_plain;
};

struct locals {
	struct vt_python *py;
	struct vt_memsrc *src;
	struct vt_py_values values;
	struct vt_map codes; /* address → index in variables */
	VT_VEC(struct variables) variables;
	struct vt_str text;
	size_t text_bytes;
	uint64_t cpu_deadline_ns, wall_deadline_ns;
	bool out_of_memory;
};

static uint64_t cpu_time_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * VT_NS_PER_S + (uint64_t)ts.tv_nsec;
}

static bool is_over(const struct locals *l)
{
	return l->text_bytes > MAX_TEXT || cpu_time_ns() >= l->cpu_deadline_ns ||
	       vt_deadline_passed(l->wall_deadline_ns);
}

static void locals_deinit(struct locals *l)
{
	vt_py_values_deinit(&l->values);
	vt_map_deinit(&l->codes);
	vt_vec_deinit(&l->variables);
	vt_str_deinit(&l->text);
}

/* The number of names in a tuple of a code object. False when there is no such tuple. */
static bool count_names(struct locals *l, uint64_t code, enum vt_py_field field, uint32_t *n)
{
	uint64_t tuple, size;

	if (vt_py_field_u64(l->src, l->py->layout, code, field, &tuple) ||
	    vt_py_field_u64(l->src, l->py->layout, tuple, VT_PY_OBJECT_SIZE, &size) ||
	    size > MAX_VARIABLES)
		return false;
	*n = (uint32_t)size;
	return true;
}

static struct variables read_variables(struct locals *l, uint64_t code)
{
	const struct vt_python_layout *layout = l->py->layout;
	struct variables variables = { 0 };
	uint32_t plain, cells, outer, all;
	uint64_t kinds, size;

	if (!vt_py_is(l->py, l->src, code, VT_PYTHON_CODE))
		return variables;
	if (vt_py_has(layout, VT_PY_CODE_LOCALSNAMES)) {
		/* Both have the number. */
		if (count_names(l, code, VT_PY_CODE_LOCALSNAMES, &all) &&
		    !vt_py_field_u64(l->src, layout, code, VT_PY_CODE_LOCALSKINDS, &kinds) &&
		    !vt_py_field_u64(l->src, layout, kinds, VT_PY_OBJECT_SIZE, &size) &&
		    size == all)
			variables =
				(struct variables){ .n = all,
						    .kinds = kinds + layout->at[VT_PY_BYTES_DATA] };
	} else if (count_names(l, code, VT_PY_CODE_VARNAMES, &plain) &&
		   count_names(l, code, VT_PY_CODE_CELLVARS, &cells) &&
		   count_names(l, code, VT_PY_CODE_FREEVARS, &outer)) {
		variables = (struct variables){ .n = plain + cells + outer, .n_plain = plain };
	}
	return variables;
}

static const struct variables *find_variables(struct locals *l, uint64_t code)
{
	const uint64_t *known = vt_map_get(&l->codes, code);

	if (known)
		return &l->variables.data[*known];

	struct variables found = read_variables(l, code), *added = vt_vec_append(&l->variables);

	if (!added || !vt_map_put(&l->codes, code, l->variables.n - 1)) {
		l->out_of_memory = true;
		return NULL;
	}
	*added = found;
	return added;
}

/*
 * The object that a slot of the frame refers to; 0 if the variable is not bound (yet, or any
 * longer).
 */
static uint64_t slot_object(const struct vt_python_layout *layout, uint64_t slot)
{
	/* A _PyStackRef (3.14 on): an unbound one has nothing but tag bits. */
	return slot & ~(uint64_t)layout->at[VT_PY_CODE_TAGS];
}

static bool is_cell(const struct vt_python_layout *layout, const struct variables *variables,
		    uint32_t i, const uint8_t *kinds)
{
	return variables->kinds ? kinds[i] & layout->at[VT_PY_KIND_CELLS] : i >= variables->n_plain;
}

/* Adds the variable to the frame's list. False when the list is complete, or time runs out. */
static bool add_variable(struct locals *l, struct vt_python_locals *list, uint32_t i,
			 uint64_t object)
{
	if (list->n == MAX_SHOWN || (list->n && list->n % CHECK_EVERY == 0 && is_over(l))) {
		list->cut = true;
		return false;
	}
	vt_str_clear(&l->text);
	if (!vt_py_value_text(&l->values, object, &l->text)) {
		l->out_of_memory = true;
		return false;
	}
	l->text_bytes += l->text.n + 1;

	const char *value = vt_arena_strndup(&l->py->arena, vt_str_get(&l->text), l->text.n);

	l->out_of_memory |= !value;
	list->items[list->n++] = (struct vt_python_local){ .value = value, .slot = i };
	return value;
}

static void fill_list(struct locals *l, const struct variables *variables, const uint64_t *slots,
		      const uint8_t *kinds, struct vt_python_locals *list)
{
	const struct vt_python_layout *layout = l->py->layout;
	bool more = true;

	for (uint32_t i = 0; i < variables->n && more; i++) {
		uint64_t object = slot_object(layout, slots[i]);

		if (object && is_cell(layout, variables, i, kinds))
			object = vt_py_cell_value(&l->values, object);
		if (object)
			more = add_variable(l, list, i, object);
	}
}

/* Errors are only those of the target as a whole. */
static int read_frame(struct locals *l, struct vt_python_frame *frame)
{
	const struct variables *found = find_variables(l, frame->code);
	uint64_t slots[MAX_SLOTS];
	uint8_t kinds[MAX_SLOTS] = { 0 };

	if (!found)
		return 0;

	struct variables variables = *found;
	bool cut = variables.n > MAX_SLOTS;

	if (cut)
		variables.n = MAX_SLOTS;

	struct vt_python_locals *list;
	size_t size = sizeof(*list) +
		      (variables.n < MAX_SHOWN ? variables.n : MAX_SHOWN) * sizeof(list->items[0]);

	list = vt_arena_alloc(&l->py->arena, size);

	if (!list) {
		l->out_of_memory = true;
		return 0;
	}
	l->text_bytes += size;
	list->cut = cut;

	int ret = variables.n ?
			  vt_mem_read(l->src, frame->frame + l->py->layout->at[VT_PY_FRAME_LOCALS],
				      slots, variables.n * sizeof(slots[0])) :
			  0;

	if (!ret && variables.kinds && variables.n)
		ret = vt_mem_read(l->src, variables.kinds, kinds, variables.n);
	if (!ret) {
		fill_list(l, &variables, slots, kinds, list);
		frame->locals = list;
	}
	return ret == -ESRCH || ret == -EPERM ? ret : 0;
}

/* The depth-th frame of every thread. False when there were none left, or no time. */
static bool read_level(struct locals *l, size_t depth, int *ret)
{
	bool any = false;

	for (size_t i = 0; i < l->py->threads.n; i++) {
		struct vt_python_thread *thread = &l->py->threads.data[i];

		if (depth >= thread->frames.n)
			continue;
		if (is_over(l))
			return false;
		any = true;
		*ret = read_frame(l, &thread->frames.data[depth]);
		if (*ret || l->out_of_memory)
			return false;
	}
	return any;
}

static size_t count_unread(const struct vt_python *py)
{
	size_t n = 0;

	for (size_t i = 0; i < py->threads.n; i++) {
		for (size_t f = 0; f < py->threads.data[i].frames.n; f++)
			n += !py->threads.data[i].frames.data[f].locals;
	}
	return n;
}

struct vt_error *vt_py_read_locals(struct vt_python *py, struct vt_memsrc *src)
{
	struct locals l = {
		.py = py,
		.src = src,
		.values = { .py = py, .src = src },
		.cpu_deadline_ns = cpu_time_ns() + BUDGET_NS,
		.wall_deadline_ns = vt_now_ns() + WALL_BUDGET_NS,
	};
	int ret = 0;

	/* Data that changes during the read could be anything. */
	if (src->coherent && vt_py_has(py->layout, VT_PY_FRAME_LOCALS)) {
		for (size_t depth = 0; read_level(&l, depth, &ret); depth++)
			;
	}
	py->n_without_locals = count_unread(py);
	locals_deinit(&l);
	if (l.out_of_memory)
		return &vt_enomem;
	return ret ? vt_mem_error(src, ret, "Python's local variables") : NULL;
}
