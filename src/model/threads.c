/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads with equal stacks (and local variables, where these were read) become one group; the
 * groups are ordered by how much they tell.
 */
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "model/account.h"

static uint64_t mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 32;
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3); /* FNV-1a */
	return mix(hash, 1);
}

/*
 * Where a frame without a name is. The offset in a named native function is left out: threads
 * that wait at different instructions of one function are doing the same thing.
 */
static uint64_t frame_code(const struct vt_model_frame *f)
{
	if (f->function || f->kind == VT_FRAME_PYTHON)
		return 0;
	return f->module ? f->module_offset : f->pc;
}

/* For the same reason the line counts in Python only. */
static int frame_line(const struct vt_model_frame *f)
{
	return f->kind == VT_FRAME_PYTHON ? f->line : 0;
}

static uint64_t hash_stack(const struct vt_model_stack *stack)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (size_t i = 0; i < stack->n_frames; i++) {
		const struct vt_model_frame *f = &stack->frames[i];

		hash = mix_text(hash, f->function);
		hash = mix_text(hash, f->file);
		hash = mix_text(hash, f->module);
		hash = mix(hash,
			   (uint64_t)(uint32_t)frame_line(f) << 1 | (f->kind == VT_FRAME_PYTHON));
		hash = mix(hash, frame_code(f));
	}
	return hash;
}

/* Apart from the stack's own hash, which says where threads are, not with which values. */
static uint64_t hash_locals(uint64_t hash, const struct vt_model_stack *stack)
{
	for (size_t i = 0; i < stack->n_frames; i++) {
		const struct vt_model_frame *f = &stack->frames[i];

		for (size_t l = 0; f->locals && l < f->n_locals; l++) {
			hash = mix_text(hash, f->locals[l].name);
			hash = mix_text(hash, f->locals[l].value);
		}
	}
	return hash;
}

static bool same_locals(const struct vt_model_frame *a, const struct vt_model_frame *b)
{
	if (!a->locals || !b->locals)
		return a->locals == b->locals;
	if (a->n_locals != b->n_locals || a->locals_cut != b->locals_cut)
		return false;
	for (size_t i = 0; i < a->n_locals; i++)
		if (!vt_same_text(a->locals[i].name, b->locals[i].name) ||
		    !vt_same_text(a->locals[i].value, b->locals[i].value))
			return false;
	return true;
}

static bool same_frame(const struct vt_model_frame *a, const struct vt_model_frame *b)
{
	return a->kind == b->kind && frame_line(a) == frame_line(b) &&
	       frame_code(a) == frame_code(b) && vt_same_text(a->function, b->function) &&
	       vt_same_text(a->file, b->file) && vt_same_text(a->module, b->module) &&
	       same_locals(a, b);
}

static bool same_stack(const struct vt_model_stack *a, const struct vt_model_stack *b)
{
	if (a->n_frames != b->n_frames || a->truncated != b->truncated ||
	    !vt_same_text(a->why, b->why))
		return false;
	for (size_t i = 0; i < a->n_frames; i++)
		if (!same_frame(&a->frames[i], &b->frames[i]))
			return false;
	return true;
}

/* In the kernel, where no signal reaches it. */
static bool is_stuck(const struct vt_model_thread *t)
{
	return t->state == 'D';
}

/*
 * The main thread is what people ask about: it is never counted as idle; nor is one that holds up
 * others or hangs.
 */
static bool is_idle(const struct vt_model_thread *t)
{
	return t->idle && !t->is_main && t->gil != 1 && !is_stuck(t) && !t->deadlock;
}

/* Words about a whole group must hold for each of its threads. */
static bool belongs(const struct vt_model_thread *a, const struct vt_model_thread *b)
{
	return !a->is_main && !b->is_main && a->gil != 1 && b->gil != 1 &&
	       is_idle(a) == is_idle(b) && is_stuck(a) == is_stuck(b) &&
	       a->deadlock == b->deadlock && a->taken == b->taken &&
	       a->has_python == b->has_python && vt_verdict_equal(&a->verdict, &b->verdict) &&
	       same_stack(&a->stack, &b->stack);
}

/* Threads that belong together have equal hashes. */
static uint64_t hash_thread(const struct vt_model_thread *t)
{
	uint64_t hash = mix(t->stack.hash, (uint64_t)t->taken << 4 | (uint64_t)t->deadlock << 3 |
						   (uint64_t)is_stuck(t) << 2 |
						   (uint64_t)is_idle(t) << 1 | t->has_python);

	hash = mix(hash, vt_verdict_hash(&t->verdict));
	hash = mix_text(hash, t->stack.why);
	hash = hash_locals(hash, &t->stack);
	return t->is_main || t->gil == 1 ? mix(hash, (uint64_t)t->tid) : hash;
}

enum rank { RANK_MAIN, RANK_GIL, RANK_DEADLOCK, RANK_VERDICT, RANK_PYTHON, RANK_NATIVE, RANK_IDLE };

static enum rank rank_of(const struct vt_model_thread *t)
{
	if (t->is_main)
		return RANK_MAIN;
	if (t->gil == 1)
		return RANK_GIL;
	if (is_idle(t))
		return RANK_IDLE;
	if (t->deadlock)
		return RANK_DEADLOCK;
	if (t->verdict.code || is_stuck(t))
		return RANK_VERDICT;
	return t->has_python || t->stack.has_python ? RANK_PYTHON : RANK_NATIVE;
}

struct sort_entry {
	struct vt_model_thread_group group;
	enum rank rank;
	size_t old;
};

static int compare_groups(const void *pa, const void *pb)
{
	const struct sort_entry *a = pa, *b = pb;

	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	return a->old < b->old ? -1 : a->old > b->old;
}

/* entries and new_index have room for all groups. */
static void reorder_groups(struct vt_model *model, struct sort_entry *entries, size_t *new_index)
{
	size_t n = model->thread_groups.n;

	for (size_t i = 0; i < n; i++) {
		const struct vt_model_thread_group *g = &model->thread_groups.data[i];

		entries[i] = (struct sort_entry){
			.group = *g,
			.rank = rank_of(&model->threads.data[g->first_thread]),
			.old = i,
		};
	}
	qsort(entries, n, sizeof(*entries), compare_groups);
	for (size_t i = 0; i < n; i++) {
		model->thread_groups.data[i] = entries[i].group;
		new_index[entries[i].old] = i;
	}
	for (size_t i = 0; i < model->threads.n; i++)
		model->threads.data[i].group = new_index[model->threads.data[i].group];
}

static bool sort_groups(struct vt_model *model)
{
	struct sort_entry *entries = calloc(model->thread_groups.n + 1, sizeof(*entries));
	size_t *new_index = calloc(model->thread_groups.n + 1, sizeof(*new_index));
	bool ok = entries && new_index;

	if (ok)
		reorder_groups(model, entries, new_index);
	free(entries);
	free(new_index);
	return ok;
}

/* The group of thread i, or a new one. last[g] is the last thread of group g. */
static bool group_thread(struct vt_model *model, struct vt_map *by_hash, size_t *last, size_t i)
{
	struct vt_model_thread *t = &model->threads.data[i];
	uint64_t key = hash_thread(t), *found;

	/* A key in use by threads that differ is stepped over. */
	while ((found = vt_map_get(by_hash, key))) {
		struct vt_model_thread_group *g = &model->thread_groups.data[*found];

		if (belongs(&model->threads.data[g->first_thread], t)) {
			t->group = (size_t)*found;
			model->threads.data[last[t->group]].next_in_group = i;
			last[t->group] = i;
			g->n_threads++;
			return true;
		}
		key = mix(key, 2);
	}

	struct vt_model_thread_group *g = vt_vec_append(&model->thread_groups);

	if (!g)
		return false;
	*g = (struct vt_model_thread_group){ .first_thread = i,
					     .n_threads = 1,
					     .idle = is_idle(t) };
	t->group = model->thread_groups.n - 1;
	last[t->group] = i;
	return vt_map_put(by_hash, key, t->group);
}

bool vt_group_threads(struct vt_model *model)
{
	size_t *last = calloc(model->threads.n + 1, sizeof(*last));
	struct vt_map by_hash = { 0 };
	bool ok = last != NULL;

	for (size_t i = 0; i < model->threads.n; i++) {
		struct vt_model_thread *t = &model->threads.data[i];

		t->next_in_group = VT_NO_THREAD;
		t->stack.hash = hash_stack(&t->stack);
		ok = ok && group_thread(model, &by_hash, last, i);
	}
	for (size_t i = 0; i < model->tasks.tasks.n; i++) {
		struct vt_model_stack *stack = &model->tasks.tasks.data[i].stack;

		stack->hash = hash_stack(stack);
	}
	vt_map_deinit(&by_hash);
	free(last);
	ok = ok && sort_groups(model);
	if (!ok)
		model->thread_groups.n = 0; /* writers then show every thread by itself */
	return ok;
}

const struct vt_model_thread *vt_model_gil_holder(const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++)
		if (model->threads.data[i].gil == 1)
			return &model->threads.data[i];
	return NULL;
}

bool vt_model_gil_is_free(const struct vt_model *model)
{
	bool known = false, python = false;

	/* If read at different moments, it could contradict the threads that wait for it. */
	if (!model->stacks_coherent || model->gil_holder_missing || vt_model_gil_holder(model))
		return false;
	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];

		if (t->has_python && t->gil < 0)
			return false;
		known |= t->gil == 0;
		python |= t->has_python;
	}
	return known && python;
}
