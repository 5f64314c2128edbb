/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who uses a device: the job's own ranks first, those with like figures together; then its other
 * processes, then those outside it. None is left out without a word.
 */
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/internal.h"
#include "job/text/text.h"

#define MAX_OTHERS 8 /* processes that are no ranks, and strangers, each */
#define MAX_SETS 8   /* of ranks with like figures */
#define SET_COLUMNS 40

/* What is said of a holder: the driver's count, or PyTorch's. */
struct figure {
	uint64_t bytes, pytorch;
	bool known, pytorch_known;
};

static struct figure figure_of(const struct vt_job *job, const struct vt_job_device *d,
			       size_t holder, bool counted)
{
	const struct vt_member *m = &job->members.data[d->holders.members[holder]];
	const struct vt_job_held *held = &d->held[holder];
	const struct vt_job_memory *memory =
		held->memory == VT_NO_MEMORY ? NULL : &m->memory.data[held->memory];
	struct figure f = { .pytorch_known = memory && memory->known };

	f.pytorch = f.pytorch_known ? memory->reserved : 0;
	f.known = counted ? held->counted : f.pytorch_known;
	f.bytes = counted ? held->bytes : f.pytorch;
	return f;
}

/* As they are printed. */
static void add_figure(const struct figure *f, bool counted, struct vt_str *text)
{
	char size[VT_NUM_MAX];

	vt_str_addf(text, " %s", f->known ? vt_format_size(size, f->bytes) : "?");
	if (counted && f->pytorch_known)
		vt_str_addf(text, " (PyTorch %s)", vt_format_size(size, f->pytorch));
}

static bool reads_as(uint64_t a, uint64_t b)
{
	char x[VT_NUM_MAX], y[VT_NUM_MAX];

	return !strcmp(vt_format_size(x, a), vt_format_size(y, b));
}

static bool looks_like(const struct figure *a, const struct figure *b, bool counted)
{
	if (a->known != b->known || (a->known && !reads_as(a->bytes, b->bytes)))
		return false;
	return !counted || (a->pytorch_known == b->pytorch_known &&
			    (!a->pytorch_known || reads_as(a->pytorch, b->pytorch)));
}

struct writing {
	const struct vt_job *job;
	const struct vt_job_device *d;
	bool counted;
	struct vt_str *text;
	bool *said; /* of each holder */
};

static const struct vt_member *member_of(const struct writing *w, size_t holder)
{
	return &w->job->members.data[w->d->holders.members[holder]];
}

static bool is_rank(const struct writing *w, size_t holder)
{
	const struct vt_label *label = &member_of(w, holder)->label;

	return label->role == VT_ROLE_RANK && label->rank >= 0 && label->in_job;
}

/* "ranks 0-3 80.0 MiB": all ranks whose figures look like this one's. */
static bool add_ranks(struct writing *w, size_t first)
{
	struct figure figure = figure_of(w->job, w->d, first, w->counted);
	struct vt_job_indices like = { 0 };
	struct vt_member_set set;
	bool ok = true;

	for (size_t i = first; i < w->d->holders.n && ok; i++) {
		struct figure f = figure_of(w->job, w->d, i, w->counted);

		if (w->said[i] || !is_rank(w, i) || !looks_like(&figure, &f, w->counted))
			continue;
		w->said[i] = true;
		ok = vt_job_indices_add(&like, w->d->holders.members[i]);
	}
	vt_job_indices_sort(&like);
	set = (struct vt_member_set){ .members = like.data, .n = like.n };
	vt_str_addf(w->text, "%s%s ", w->text->n ? ", " : "", like.n > 1 ? "ranks" : "rank");
	vt_job_add_set(w->job, &set, SET_COLUMNS, w->text);
	add_figure(&figure, w->counted, w->text);
	if (ok && like.n > 1)
		vt_str_add(w->text, " each");
	free(like.data);
	return ok;
}

static void add_other(struct writing *w, size_t holder)
{
	const struct vt_member *m = member_of(w, holder);
	struct vt_member_set set = { .members = &w->d->holders.members[holder], .n = 1 };
	struct figure figure = figure_of(w->job, w->d, holder, w->counted);

	w->said[holder] = true;
	vt_str_add(w->text, w->text->n ? ", " : "");
	vt_job_add_set(w->job, &set, SET_COLUMNS, w->text);
	if ((m->label.role == VT_ROLE_OTHER || !m->label.in_job) && *m->label.name)
		vt_str_addf(w->text, " (%.32s%s)", m->label.name,
			    m->label.in_job ? "" : ", outside the job");
	add_figure(&figure, w->counted, w->text);
}

/* "3 more processes outside the job 1.20 GiB" */
static void add_rest(struct writing *w, bool in_job)
{
	uint64_t sum = 0;
	bool known = true;
	size_t n = 0;
	char size[VT_NUM_MAX], count[VT_NUM_MAX];

	for (size_t i = 0; i < w->d->holders.n; i++) {
		struct figure f = figure_of(w->job, w->d, i, w->counted);

		if (w->said[i] || member_of(w, i)->label.in_job != in_job)
			continue;
		n++;
		known &= f.known;
		sum += f.bytes;
	}
	if (n)
		vt_str_addf(w->text, ", %s more%s %s%s", vt_format_count(count, n),
			    in_job ? "" : " outside the job", sum ? vt_format_size(size, sum) : "?",
			    known || !sum ? "" : " and more");
}

static bool add_holders(struct writing *w)
{
	size_t sets = 0;
	bool ok = true;

	for (size_t i = 0; i < w->d->holders.n && sets < MAX_SETS && ok; i++)
		if (!w->said[i] && is_rank(w, i)) {
			ok = add_ranks(w, i);
			sets++;
		}
	for (int in_job = 1; in_job >= 0; in_job--) {
		size_t others = 0;

		for (size_t i = 0; i < w->d->holders.n && others < MAX_OTHERS; i++) {
			if (w->said[i] || is_rank(w, i) || member_of(w, i)->label.in_job != in_job)
				continue;
			add_other(w, i);
			others++;
		}
		add_rest(w, in_job);
	}
	return ok;
}

/* ---- no member of the job, not even one outside it ---- */

/* "pid 4711 (python, gone) 2.00 GiB": no member of the job, not even one outside it. */
static void add_stranger(const struct vt_model_counted *p, struct vt_str *text)
{
	static const char *const lives[VT_N_LIVES] = {
		[VT_LIFE_ZOMBIE] = "has ended",
		[VT_LIFE_GONE] = "gone",
	};
	const char *life = lives[p->life];
	char size[VT_NUM_MAX];

	vt_str_addf(text, "pid %d", (int)p->pid);
	if (*p->name || life)
		vt_str_addf(text, " (%.32s%s%s)", p->name, *p->name && life ? ", " : "",
			    life ? life : "");
	vt_str_addf(text, " %s", p->bytes_known ? vt_format_size(size, p->bytes) : "?");
}

static bool is_holder(const struct vt_job *job, const struct vt_job_device *d,
		      const struct vt_model_counted *p)
{
	for (size_t i = 0; i < d->holders.n && p->life != VT_LIFE_UNKNOWN; i++)
		if (d->held[i].listed &&
		    job->members.data[d->holders.members[i]].label.pid == p->pid)
			return true;
	return false;
}

static void add_strangers(const struct vt_job *job, const struct vt_job_device *d,
			  struct vt_str *text)
{
	size_t n = 0;
	char count[VT_NUM_MAX];

	for (size_t i = 0; d->gpu && i < d->gpu->n; i++) {
		const struct vt_model_counted *p = &d->usage->processes.data[d->gpu->first + i];

		if (is_holder(job, d, p))
			continue;
		if (n++ >= MAX_OTHERS)
			continue;
		vt_str_add(text, text->n ? ", " : "");
		add_stranger(p, text);
	}
	if (n > MAX_OTHERS)
		vt_str_addf(text, ", %s more", vt_format_count(count, n - MAX_OTHERS));
}

/* "nobody 300 MiB": used, and in no process's count */
static void add_nobody(const struct vt_job_device *d, struct vt_str *text)
{
	char size[VT_NUM_MAX];

	if (!d->gpu || !d->gpu->rest_known || d->gpu->rest_bytes <= 0)
		return;
	vt_str_addf(text, "%s%s %s", text->n ? ", " : "",
		    d->usage->whole ? "no process" : "no process seen from there",
		    vt_format_size(size, (uint64_t)d->gpu->rest_bytes));
}

bool vt_text_job_holders(const struct vt_job *job, const struct vt_job_device *d, bool counted,
			 struct vt_str *text)
{
	struct writing w = { .job = job, .d = d, .counted = counted, .text = text };
	bool ok;

	w.said = calloc(d->holders.n + 1, sizeof(*w.said));
	ok = w.said && add_holders(&w);
	free(w.said);
	add_strangers(job, d, text);
	add_nobody(d, text);
	return ok;
}
