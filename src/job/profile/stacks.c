/* SPDX-License-Identifier: Apache-2.0 */
#include "job/profile/stacks.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "job/text/text.h"
#include "report/profile/formats.h"

#define SET_BYTES 1000 /* of the text that names members */

/* A job has no addresses: code without a name is told by its library. */
static uint32_t call(struct vt_profile *profile, uint32_t at, const struct vt_job_frame *f)
{
	struct vt_model_frame frame = {
		.kind = f->kind,
		.function = f->function ? f->function : "??",
		.file = f->file,
		.line = f->line,
		.module = f->module ? f->module : "",
		.build_id = "",
	};

	return vt_profile_call(profile, at, vt_profile_code(profile, &frame, false));
}

static uint32_t call_text(struct vt_profile *profile, uint32_t at, const struct vt_str *text)
{
	profile->failed |= text->failed;
	return vt_profile_call(profile, at, vt_profile_word(profile, vt_str_get(text)));
}

/* ---- the tree ---- */

/* "[ranks 0-2,4-7]" */
static uint32_t call_members(struct vt_profile *profile, uint32_t at, const struct vt_job *job,
			     const struct vt_member_set *set)
{
	struct vt_str text = { 0 };

	vt_str_add(&text, !vt_job_are_ranks(job, set) ? "[" : set->n == 1 ? "[rank " : "[ranks ");
	vt_job_add_set(job, set, SET_BYTES, &text);
	vt_str_add(&text, "]");
	at = call_text(profile, at, &text);
	vt_str_deinit(&text);
	return at;
}

/* "[waits in all_reduce]" */
static uint32_t call_doing(struct vt_profile *profile, uint32_t at, const char *does)
{
	struct vt_str text = { 0 };

	vt_str_add(&text, "[");
	vt_str_add(&text, does);
	vt_str_add(&text, "]");
	at = call_text(profile, at, &text);
	vt_str_deinit(&text);
	return at;
}

static size_t threads_of(const struct vt_job_node *node)
{
	return node->of_main ? node->members.n : node->threads;
}

/* How many threads end in each node, and in none further in; from calloc(). */
static size_t *count_ends(const struct vt_job *job)
{
	size_t *ends = calloc(job->tree.n + 1, sizeof(*ends));

	for (size_t i = 0; ends && i < job->tree.n; i++) {
		const struct vt_job_node *node = &job->tree.data[i];

		ends[i] += threads_of(node);
		if (node->parent != VT_NO_NODE)
			ends[node->parent] -= threads_of(node);
	}
	return ends;
}

static uint32_t new_group(struct vt_profile *profile, const struct vt_job_node *node)
{
	return vt_profile_group(profile,
				vt_profile_textf(profile, "%s: %s", vt_text_job_role(node->role),
						 node->of_main ? "main threads" : "other threads"),
				false);
}

static bool is_section_start(const struct vt_job *job, size_t i)
{
	const struct vt_job_node *node = &job->tree.data[i], *before = i ? node - 1 : NULL;

	return !before || node->role != before->role || node->of_main != before->of_main;
}

/* Parents come first. */
static void add_tree(struct vt_profile *profile, const struct vt_job *job)
{
	VT_FREE size_t *ends = count_ends(job);
	VT_FREE uint32_t *nodes = calloc(job->tree.n + 1, sizeof(*nodes));
	uint32_t group = 0;

	profile->failed |= !ends || !nodes;
	for (size_t i = 0; i < job->tree.n && !profile->failed; i++) {
		const struct vt_job_node *node = &job->tree.data[i];
		uint32_t at = node->parent == VT_NO_NODE ? VT_PROFILE_ROOT : nodes[node->parent];
		struct vt_profile_sample sample = { .count = ends[i] };

		if (is_section_start(job, i))
			group = new_group(profile, node);
		for (size_t k = 0; k < node->n_frames; k++)
			at = call(profile, at, &job->frames.data[node->frames[k]]);
		nodes[i] = at;
		if (!ends[i])
			continue;
		if (node->does)
			at = call_doing(profile, at, node->does);
		sample.node = call_members(profile, at, job, &node->members);
		sample.group = group;
		vt_profile_add(profile, &sample);
	}
}

/* ---- all threads ---- */

static void add_stack(struct vt_profile *profile, const struct vt_job *job, uint32_t group,
		      uint32_t doing, size_t threads)
{
	const struct vt_job_stack *stack = &job->stacks.data[job->doings.data[doing].stack];
	struct vt_profile_sample sample = { .group = group, .count = threads };
	uint32_t at = VT_PROFILE_ROOT;

	for (size_t i = stack->n; i-- > 0;)
		at = call(profile, at, &job->frames.data[stack->frames[i]]);
	if (!stack->n)
		at = vt_profile_call(profile, at, vt_profile_word(profile, "[no frames]"));
	sample.node = at;
	vt_profile_add(profile, &sample);
}

/* counts: of each doing; they are zeroed again. */
static void add_all_of(struct vt_profile *profile, const struct vt_job *job, enum vt_role role,
		       size_t *counts)
{
	bool any = false;
	uint32_t group;

	for (size_t i = 0; i < job->members.n; i++) {
		const struct vt_member *member = &job->members.data[i];

		for (size_t k = 0; member->label.role == role && k < member->threads.n; k++) {
			counts[member->threads.data[k].doing]++;
			any = true;
		}
	}
	if (!any)
		return;
	group = vt_profile_group(profile,
				 vt_profile_textf(profile, "%s: all threads, every frame",
						  vt_text_job_role(role)),
				 true);
	for (size_t i = 0; i < job->doings.n; i++) {
		if (counts[i])
			add_stack(profile, job, group, (uint32_t)i, counts[i]);
		counts[i] = 0;
	}
}

static void add_all(struct vt_profile *profile, const struct vt_job *job)
{
	VT_FREE size_t *counts = calloc(job->doings.n + 1, sizeof(*counts));

	profile->failed |= !counts;
	for (int role = 0; role < VT_N_ROLES && !profile->failed; role++)
		add_all_of(profile, job, (enum vt_role)role, counts);
}

void vt_profile_of_job(struct vt_profile *profile, const struct vt_job *job)
{
	profile->tool = vt_profile_textf(profile, "vramtap %s", job->tool_version);
	profile->name = vt_profile_textf(profile, "%zu process%s of a job", job->members.n,
					 job->members.n == 1 ? "" : "es");
	profile->when = job->when;
	profile->roots = true;
	add_tree(profile, job);
	add_all(profile, job);
}

static struct vt_error *write_as(vt_write_fn *format, const struct vt_job *job,
				 const struct vt_writer_options *options, FILE *out)
{
	struct vt_profile profile;
	struct vt_error *err;

	vt_profile_init(&profile, VT_PROFILE_THREADS);
	vt_profile_of_job(&profile, job);
	err = format(&profile, options, out);
	vt_profile_deinit(&profile);
	return err;
}

struct vt_error *vt_write_job_speedscope(const void *what, const struct vt_writer_options *options,
					 FILE *out)
{
	return write_as(vt_write_profile_speedscope, what, options, out);
}

struct vt_error *vt_write_job_folded(const void *what, const struct vt_writer_options *options,
				     FILE *out)
{
	return write_as(vt_write_profile_folded, what, options, out);
}
