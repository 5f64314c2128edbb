/* SPDX-License-Identifier: Apache-2.0 */
/* Sets of members, and their text: "0-2,4-7", "workers 0-7 of rank 3", "pid 4711@node3". */
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "job/internal.h"
#include "base/width.h"

bool vt_job_indices_add(struct vt_job_indices *indices, uint32_t index)
{
	uint32_t *added;

	if (indices->n && indices->data[indices->n - 1] == index)
		return true;
	added = vt_vec_append(indices);
	if (added)
		*added = index;
	return added;
}

static int compare_indices(const void *pa, const void *pb)
{
	uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;

	return a < b ? -1 : a > b;
}

void vt_job_indices_sort(struct vt_job_indices *indices)
{
	if (indices->n)
		qsort(indices->data, indices->n, sizeof(*indices->data), compare_indices);
}

struct vt_member_set vt_job_set(struct vt_job *job, const struct vt_job_indices *indices)
{
	struct vt_member_set set = { 0 };

	set.members = vt_arena_alloc(&job->arena, (indices->n + 1) * sizeof(*set.members));
	if (!set.members) {
		job->failed = true;
		return (struct vt_member_set){ 0 };
	}
	if (indices->n)
		memcpy(set.members, indices->data, indices->n * sizeof(*set.members));
	set.n = indices->n;
	return set;
}

struct writing {
	const struct vt_job *job;
	const struct vt_member_set *set;
	size_t columns;
	struct vt_str *out;
	struct vt_str item;
	bool full;
	const char *before; /* the ranks, which are not alone: "rank ", "ranks " */
};

/* The item, if there is room for it, and for dots unless it is the last. */
static void put_item(struct writing *w, const char *separator, bool last)
{
	size_t used = w->out->n ? (size_t)vt_width(w->out->data, w->out->n) : 0;
	size_t needed = (size_t)vt_width(vt_str_get(&w->item), w->item.n) + strlen(separator) +
			(last ? 0 : strlen(",..."));

	w->out->failed |= w->item.failed;
	if (w->full)
		return;
	if (used && used + needed > w->columns) {
		vt_str_add(w->out, ",…");
		w->full = true;
		return;
	}
	if (used)
		vt_str_add(w->out, separator);
	vt_str_addn(w->out, vt_str_get(&w->item), w->item.n);
}

static const struct vt_label *label_at(const struct writing *w, size_t i)
{
	return &w->job->members.data[w->set->members[i]].label;
}

/* Processes outside the job that use its devices have ranks of another job. */
static bool is_rank(const struct vt_label *label)
{
	return label->role == VT_ROLE_RANK && label->rank >= 0 && label->in_job;
}

static void add_range(struct vt_str *item, int first, int last, const char *one, const char *many)
{
	if (last > first)
		vt_str_addf(item, "%s%d-%d", many, first, last);
	else
		vt_str_addf(item, "%s%d", one, first);
}

static void set_range(struct vt_str *item, int first, int last, const char *one, const char *many)
{
	vt_str_clear(item);
	add_range(item, first, last, one, many);
}

/*
 * Adds the ranks from i on; returns the index after them. A rank that occurs twice (two jobs) is
 * written once.
 */
static size_t put_ranks(struct writing *w, size_t i)
{
	while (i < w->set->n && is_rank(label_at(w, i))) {
		int first = label_at(w, i)->rank, last = first;

		for (; i < w->set->n && is_rank(label_at(w, i)) && label_at(w, i)->rank <= last + 1;
		     i++)
			last = label_at(w, i)->rank;
		set_range(&w->item, first, last, w->before, w->before);
		w->before = "";
		put_item(w, ",", i == w->set->n);
	}
	return i;
}

static bool is_worker(const struct vt_label *label)
{
	return label->role == VT_ROLE_LOADER && label->worker >= 0 && label->in_job;
}

static bool is_next_worker(const struct vt_label *before, const struct vt_label *label)
{
	return is_worker(label) && label->rank == before->rank &&
	       label->worker <= before->worker + 1 && label->worker >= before->worker;
}

/* Workers with consecutive numbers of one rank, or the same workers of consecutive ranks. */
struct run {
	int first, last;           /* workers */
	int first_rank, last_rank; /* -1 unknown */
	size_t end;
};

static struct run run_at(const struct writing *w, size_t i)
{
	const struct vt_label *first = label_at(w, i), *last = first;

	for (i++; i < w->set->n && is_next_worker(last, label_at(w, i)); i++)
		last = label_at(w, i);
	return (struct run){ .first = first->worker,
			     .last = last->worker,
			     .first_rank = first->rank,
			     .last_rank = first->rank,
			     .end = i };
}

static bool continues(const struct run *run, const struct run *next)
{
	return run->first_rank >= 0 && next->first_rank == run->last_rank + 1 &&
	       next->first == run->first && next->last == run->last;
}

/* "workers 3-5 of rank 2", "worker 1 of ranks 0-7" */
static size_t put_workers(struct writing *w, size_t i)
{
	struct run run = run_at(w, i);

	while (run.end < w->set->n && is_worker(label_at(w, run.end))) {
		struct run next = run_at(w, run.end);

		if (!continues(&run, &next))
			break;
		run.last_rank = next.last_rank;
		run.end = next.end;
	}
	set_range(&w->item, run.first, run.last, "worker ", "workers ");
	if (run.first_rank >= 0)
		add_range(&w->item, run.first_rank, run.last_rank, " of rank ", " of ranks ");
	put_item(w, ", ", run.end == w->set->n);
	return run.end;
}

static size_t put_process(struct writing *w, size_t i)
{
	const struct vt_label *label = label_at(w, i);

	vt_str_clear(&w->item);
	vt_str_addf(&w->item, "pid %d@%.64s", (int)label->pid, label->host);
	put_item(w, ", ", i + 1 == w->set->n);
	return i + 1;
}

static size_t count_ranks(const struct vt_job *job, const struct vt_member_set *set)
{
	size_t n = 0;

	for (size_t i = 0; i < set->n; i++)
		n += is_rank(&job->members.data[set->members[i]].label);
	return n;
}

bool vt_job_are_ranks(const struct vt_job *job, const struct vt_member_set *set)
{
	return set->n && count_ranks(job, set) == set->n;
}

void vt_job_add_set(const struct vt_job *job, const struct vt_member_set *set, size_t columns,
		    struct vt_str *out)
{
	size_t ranks = count_ranks(job, set);
	struct vt_str text = { 0 };
	struct writing w = { .job = job,
			     .set = set,
			     .columns = columns,
			     .out = &text,
			     .before = ranks == set->n ? "" :
				       ranks > 1       ? "ranks " :
							 "rank " };

	for (size_t i = 0; i < set->n && !w.full;) {
		if (is_rank(label_at(&w, i)))
			i = put_ranks(&w, i);
		else
			i = is_worker(label_at(&w, i)) ? put_workers(&w, i) : put_process(&w, i);
	}
	out->failed |= text.failed;
	vt_str_addn(out, vt_str_get(&text), text.n);
	vt_str_deinit(&text);
	vt_str_deinit(&w.item);
}
