/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "explain/merge.h"

static const struct vt_module *find_interpreter(const struct vt_native_stack *native)
{
	for (size_t i = 0; i < native->frames.n; i++)
		if (vt_merge_role(&native->frames.data[i], NULL) == VT_MERGE_EVALUATOR)
			return native->frames.data[i].module;
	return NULL;
}

/*
 * The index of each native place in the model's frames: inlined functions come before the function
 * that contains them.
 */
static bool find_places(struct vt_recorded_places *places, const struct vt_native_stack *native,
			struct vt_arena *arena)
{
	const struct vt_module *interpreter = find_interpreter(native);
	uint32_t *first = vt_arena_alloc(arena, (native->frames.n + 1) * sizeof(*first));
	uint8_t *roles = vt_arena_alloc(arena, native->frames.n + 1);
	size_t at = places->n_python;

	if (!first || !roles)
		return false;
	for (size_t i = 0; i < native->frames.n; i++) {
		first[i] = (uint32_t)at;
		roles[i] = (uint8_t)vt_merge_role(&native->frames.data[i], interpreter);
		while (at + 1 < places->n && places->frames[at].inlined)
			at++;
		at++;
	}
	first[native->frames.n] = (uint32_t)at;
	places->first = first;
	places->roles = roles;
	return at == places->n;
}

bool vt_recorded_places_init(struct vt_recorded_places *places,
			     const struct vt_python_thread *python,
			     const struct vt_native_stack *native, struct vt_arena *arena)
{
	struct vt_model_stack python_stack, native_stack;

	/* Apart, so that nothing is put between, and nothing left out. */
	if (!vt_merge_stacks(NULL, python, &python_stack, arena) ||
	    !vt_merge_stacks(native, NULL, &native_stack, arena))
		return false;
	*places = (struct vt_recorded_places){ .n = python_stack.n_frames + native_stack.n_frames };
	if (places->n >= UINT32_MAX)
		return false;
	places->n_python = python_stack.n_frames;
	places->frames = vt_arena_alloc(arena, (places->n + 1) * sizeof(*places->frames));
	if (!places->frames)
		return false;
	if (python_stack.n_frames)
		memcpy(places->frames, python_stack.frames,
		       python_stack.n_frames * sizeof(*places->frames));
	if (native_stack.n_frames)
		memcpy(places->frames + places->n_python, native_stack.frames,
		       native_stack.n_frames * sizeof(*places->frames));
	return find_places(places, native, arena);
}

struct merge {
	const struct vt_recorded_places *places;
	const uint32_t *native;
	size_t n_native;
	uint32_t *frames; /* with room for all */
	size_t n;
};

static enum vt_merge_role role(const struct merge *m, size_t i)
{
	return (enum vt_merge_role)m->places->roles[m->native[i]];
}

static void add_native(struct merge *m, size_t i)
{
	for (uint32_t f = m->places->first[m->native[i]]; f < m->places->first[m->native[i] + 1];
	     f++)
		m->frames[m->n++] = f;
}

static void add_python(struct merge *m, const uint32_t *python, size_t n)
{
	for (size_t i = 0; i < n; i++)
		m->frames[m->n++] = python[i];
}

/*
 * The index after the outermost native frame that is not startup code of the program or the thread.
 */
static size_t find_end(const struct merge *m)
{
	size_t end = m->n_native;

	while (end > 0 &&
	       (role(m, end - 1) == VT_MERGE_STARTUP || role(m, end - 1) == VT_MERGE_INTERPRETER))
		end--;
	return end > 0 && role(m, end - 1) == VT_MERGE_EVALUATOR ? end : m->n_native;
}

static size_t count_evaluators(const struct merge *m, size_t *first, size_t *last)
{
	size_t n = 0;

	*first = *last = m->n_native;
	for (size_t i = 0; i < m->n_native; i++) {
		if (role(m, i) != VT_MERGE_EVALUATOR)
			continue;
		if (n++ == 0)
			*first = i;
		*last = i;
	}
	return n;
}

static size_t count_frames(const struct merge *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->n_native; i++)
		n += m->places->first[m->native[i] + 1] - m->places->first[m->native[i]];
	return n;
}

static void merge(struct merge *m, const uint32_t *python, size_t n_python,
		  struct vt_model_trace *trace)
{
	size_t first, last, n = count_evaluators(m, &first, &last),
			    end = n ? find_end(m) : m->n_native, k = 0;

	for (size_t i = 0; i < end; i++) {
		if (n_python && role(m, i) == VT_MERGE_EVALUATOR) {
			/*
			 * As many evaluators as Python frames: one for each. Else the innermost
			 * evaluator has all.
			 */
			size_t take = n == n_python ? 1 : i == first ? n_python : 0;

			add_python(m, python + k, take);
			k += take;
		} else if (!n_python || role(m, i) != VT_MERGE_INTERPRETER) {
			trace->merge_uncertain |= n_python && n != n_python && i > first &&
						  i < last;
			add_native(m, i);
		}
	}
	trace->merge_uncertain |= k < n_python && m->n_native;
	add_python(m, python + k, n_python - k);
}

bool vt_merge_recorded(const struct vt_recorded_places *places, const uint32_t *python,
		       size_t n_python, const uint32_t *native, size_t n_native,
		       struct vt_model_trace *trace, struct vt_arena *arena)
{
	struct merge m = { .places = places, .native = native, .n_native = n_native };

	m.frames = vt_arena_alloc(arena, (count_frames(&m) + n_python) * sizeof(*m.frames));
	if (!m.frames)
		return false;
	merge(&m, python, n_python, trace);
	trace->frames = m.frames;
	trace->n_frames = m.n;
	return true;
}
