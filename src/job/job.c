/* SPDX-License-Identifier: Apache-2.0 */
/* A job and its interned parts. Texts, frames, stacks and doings are found by hash. */
#include "job/internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash.h"

void vt_job_init(struct vt_job *job)
{
	*job = (struct vt_job){ .tool_version = "", .skew_ms = -1, .seed = vt_hash_seed() };
}

void vt_member_deinit(struct vt_member *member)
{
	vt_vec_deinit(&member->threads);
	vt_vec_deinit(&member->memory);
	vt_vec_deinit(&member->sites);
	vt_vec_deinit(&member->collectives.groups);
	vt_vec_deinit(&member->kernels.list);
	vt_vec_deinit(&member->kernels.raised);
	vt_str_deinit(&member->page);
}

void vt_ras_deinit(struct vt_ras *ras)
{
	for (size_t i = 0; i < ras->groups.n; i++)
		vt_vec_deinit(&ras->groups.data[i].ranks);
	vt_vec_deinit(&ras->groups);
	vt_vec_deinit(&ras->lines);
}

void vt_job_usage_deinit(struct vt_job_usage *usage)
{
	vt_model_usage_deinit(&usage->usage);
	vt_model_faults_deinit(&usage->faults);
}

void vt_job_deinit(struct vt_job *job)
{
	for (size_t i = 0; i < job->ras.n; i++)
		vt_ras_deinit(&job->ras.data[i]);
	vt_vec_deinit(&job->ras);
	for (size_t i = 0; i < job->usages.n; i++)
		vt_job_usage_deinit(&job->usages.data[i]);
	vt_vec_deinit(&job->usages);
	for (size_t i = 0; i < job->members.n; i++)
		vt_member_deinit(&job->members.data[i]);
	vt_vec_deinit(&job->frames);
	vt_vec_deinit(&job->stacks);
	vt_vec_deinit(&job->doings);
	vt_vec_deinit(&job->members);
	vt_vec_deinit(&job->diags);
	vt_vec_deinit(&job->tree);
	vt_vec_deinit(&job->devices);
	vt_vec_deinit(&job->faults);
	vt_vec_deinit(&job->verdicts);
	vt_vec_deinit(&job->chains);
	free(job->seen);
	vt_vec_deinit(&job->texts);
	vt_index_deinit(&job->by_text);
	vt_index_deinit(&job->by_frame);
	vt_index_deinit(&job->by_stack);
	vt_index_deinit(&job->by_doing);
	vt_arena_deinit(&job->arena);
}

/* An address identifies an interned text. */
static uint64_t mix_text(uint64_t hash, const char *text)
{
	return vt_hash_mix(hash, (uintptr_t)text);
}

static const char *add_text(struct vt_job *job, uint64_t hash, const char *text, size_t n)
{
	const char *copy = vt_arena_strndup(&job->arena, text, n);
	const char **added = copy ? vt_vec_append(&job->texts) : NULL;

	if (!added || !vt_index_put(&job->by_text, hash, job->texts.n - 1)) {
		job->failed = true;
		return NULL;
	}
	*added = copy;
	return copy;
}

const char *vt_job_text(struct vt_job *job, const char *text, size_t n)
{
	uint64_t hash = vt_hash_bytes(job->seed, text, n);
	uint32_t number;

	for (size_t at = vt_index_first(&job->by_text, hash);
	     vt_index_next(&job->by_text, hash, &at, &number);) {
		const char *have = job->texts.data[number];

		if (!strncmp(have, text, n) && !have[n])
			return have;
	}
	return add_text(job, hash, text, n);
}

const char *vt_job_copy(struct vt_job *job, const char *text)
{
	return text ? vt_job_text(job, text, strlen(text)) : NULL;
}

bool vt_job_intern_collectives(struct vt_job *job, struct vt_model_collectives *collectives)
{
	collectives->why = vt_job_copy(job, collectives->why);
	for (size_t i = 0; i < collectives->groups.n; i++) {
		struct vt_model_process_group *g = &collectives->groups.data[i];

		g->name = vt_job_copy(job, g->name);
		g->description = vt_job_copy(job, g->description);
		g->ranks = vt_job_copy(job, g->ranks);
		g->operation = vt_job_copy(job, g->operation);
		g->oldest.name = vt_job_copy(job, g->oldest.name);
		g->oldest.input = vt_job_copy(job, g->oldest.input);
	}
	return !job->failed;
}

/* ---- parts that are interned by index ---- */

static uint32_t put_index(struct vt_job *job, struct vt_index *index, uint64_t hash, size_t number)
{
	if (vt_index_put(index, hash, number))
		return (uint32_t)number;
	job->failed = true;
	return VT_NO_INDEX;
}

bool vt_job_same_frame(const struct vt_job_frame *a, const struct vt_job_frame *b)
{
	return a->kind == b->kind && a->function == b->function && a->file == b->file &&
	       a->line == b->line && a->module == b->module && a->program == b->program;
}

uint32_t vt_job_intern_frame(struct vt_job *job, const struct vt_job_frame *frame)
{
	uint64_t key = mix_text(mix_text(mix_text(job->seed, frame->function), frame->file),
				frame->module);
	struct vt_job_frame *added;
	uint32_t number;

	key = vt_hash_mix(key, (uint64_t)(uint32_t)frame->line << 2 |
				       (uint64_t)frame->program << 1 |
				       (frame->kind == VT_FRAME_PYTHON));
	for (size_t at = vt_index_first(&job->by_frame, key);
	     vt_index_next(&job->by_frame, key, &at, &number);)
		if (vt_job_same_frame(&job->frames.data[number], frame))
			return number;
	added = vt_vec_append(&job->frames);
	if (!added) {
		job->failed = true;
		return VT_NO_INDEX;
	}
	*added = *frame;
	return put_index(job, &job->by_frame, key, job->frames.n - 1);
}

static bool has_python(const struct vt_job *job, const uint32_t *frames, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (job->frames.data[frames[i]].kind == VT_FRAME_PYTHON)
			return true;
	return false;
}

uint32_t vt_job_intern_stack(struct vt_job *job, const uint32_t *frames, size_t n)
{
	uint64_t key = vt_hash_bytes(job->seed, frames, n * sizeof(*frames));
	struct vt_job_stack *added;
	uint32_t *copy, number;

	for (size_t at = vt_index_first(&job->by_stack, key);
	     vt_index_next(&job->by_stack, key, &at, &number);) {
		const struct vt_job_stack *have = &job->stacks.data[number];

		if (have->n == n && (!n || !memcmp(have->frames, frames, n * sizeof(*frames))))
			return number;
	}
	copy = vt_arena_alloc(&job->arena, (n + 1) * sizeof(*copy));
	added = copy ? vt_vec_append(&job->stacks) : NULL;
	if (!added) {
		job->failed = true;
		return VT_NO_INDEX;
	}
	if (n)
		memcpy(copy, frames, n * sizeof(*copy));
	*added = (struct vt_job_stack){ .frames = copy,
					.n = n,
					.has_python = has_python(job, frames, n) };
	return put_index(job, &job->by_stack, key, job->stacks.n - 1);
}

static bool same_doing(const struct vt_job_doing *a, const struct vt_job_doing *b)
{
	return a->name == b->name && a->stack == b->stack && a->state == b->state &&
	       a->is_main == b->is_main && a->idle == b->idle && a->has_python == b->has_python &&
	       a->deadlock == b->deadlock && a->gil == b->gil &&
	       a->verdict.code == b->verdict.code && a->verdict.purpose == b->verdict.purpose &&
	       a->verdict.function == b->verdict.function &&
	       a->verdict.for_function == b->verdict.for_function &&
	       a->waits.code == b->waits.code && a->waits.call == b->waits.call &&
	       a->waits.shared == b->waits.shared && a->kernel == b->kernel;
}

uint32_t vt_job_intern_doing(struct vt_job *job, const struct vt_job_doing *doing)
{
	const char *const texts[] = {
		doing->name,       doing->verdict.function, doing->verdict.for_function,
		doing->waits.call, doing->waits.shared,     doing->kernel
	};
	uint64_t key = vt_hash_mix(job->seed, (uint64_t)doing->verdict.code << 16 |
						      (uint64_t)doing->verdict.purpose << 8 |
						      (uint64_t)doing->waits.code);
	struct vt_job_doing *added;
	uint32_t number;

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		key = mix_text(key, texts[i]);
	key = vt_hash_mix(key, (uint64_t)doing->stack << 16 | (uint64_t)(uint8_t)doing->state << 8 |
				       (uint64_t)(uint8_t)(doing->gil + 1) << 4 |
				       (uint64_t)doing->is_main << 3 | (uint64_t)doing->idle << 2 |
				       (uint64_t)doing->has_python << 1 | doing->deadlock);
	for (size_t at = vt_index_first(&job->by_doing, key);
	     vt_index_next(&job->by_doing, key, &at, &number);) {
		struct vt_job_doing *known = &job->doings.data[number];

		if (!same_doing(known, doing))
			continue;
		if (known->waits.detail != doing->waits.detail)
			known->waits.detail = known->waits.shared;
		return number;
	}
	added = vt_vec_append(&job->doings);
	if (!added) {
		job->failed = true;
		return VT_NO_INDEX;
	}
	*added = *doing;
	return put_index(job, &job->by_doing, key, job->doings.n - 1);
}

/* ---- members ---- */

struct vt_member *vt_job_new_member(struct vt_job *job)
{
	struct vt_member *member = vt_vec_append(&job->members);

	if (!member) {
		job->failed = true;
		return NULL;
	}
	*member = (struct vt_member){
		.label = { .host = "",
			   .system = "",
			   .name = "",
			   .command = "",
			   .role = VT_ROLE_OTHER,
			   .rank = -1,
			   .local_rank = -1,
			   .world_size = -1,
			   .worker = -1,
			   .container = "",
			   .pod = "",
			   .job = "",
			   .in_job = true },
		.completeness = VT_NOTHING,
		.process_state = '?',
		.moved = -1,
		.tracer_name = "",
		.place = VT_NO_PLACE,
	};
	return member;
}

const char *vt_job_system(const struct vt_label *label)
{
	return *label->system ? label->system : label->host;
}

struct vt_ras *vt_job_new_ras(struct vt_job *job)
{
	struct vt_ras *ras = vt_vec_append(&job->ras);

	if (!ras) {
		job->failed = true;
		return NULL;
	}
	*ras = (struct vt_ras){ .host = "", .address = "", .version = "" };
	return ras;
}

void vt_job_drop_ras(struct vt_job *job, size_t index)
{
	vt_ras_deinit(&job->ras.data[index]);
	memmove(&job->ras.data[index], &job->ras.data[index + 1],
		(--job->ras.n - index) * sizeof(*job->ras.data));
}

struct vt_ras_group *vt_ras_new_group(struct vt_job *job, struct vt_ras *ras)
{
	struct vt_ras_group *group = vt_vec_append(&ras->groups);

	if (!group) {
		job->failed = true;
		return NULL;
	}
	*group = (struct vt_ras_group){ .communicator = "", .size = -1, .what = "", .moved = -1 };
	return group;
}

const struct vt_job_doing *vt_job_main_doing(const struct vt_job *job,
					     const struct vt_member *member)
{
	for (size_t i = 0; i < member->threads.n; i++) {
		const struct vt_job_doing *doing = &job->doings.data[member->threads.data[i].doing];

		if (doing->is_main)
			return doing;
	}
	return NULL;
}

void vt_job_diag(struct vt_job *job, enum vt_diag_level level, const char *code, const char *format,
		 ...)
{
	VT_FREE char *formatted = NULL;
	struct vt_diag *diag = NULL;
	const char *text = NULL;
	va_list args;

	va_start(args, format);
	if (vasprintf(&formatted, format, args) < 0)
		formatted = NULL;
	va_end(args);
	if (formatted)
		text = vt_job_text(job, formatted, strlen(formatted));
	if (text)
		diag = vt_vec_append(&job->diags);
	if (!diag) {
		job->failed = true;
		return;
	}
	*diag = (struct vt_diag){
		.level = level, .stage = VT_STAGE_JOB, .code = code, .text = text
	};
}

void vt_job_miss(struct vt_job *job, const char *why)
{
	vt_job_diag(job, VT_DIAG_MISSING, "not-read", "%s", why);
}

const char *vt_role_name(enum vt_role role)
{
	static const char *const names[VT_N_ROLES] = {
		[VT_ROLE_RANK] = "rank",
		[VT_ROLE_LOADER] = "loader",
		[VT_ROLE_CHECKPOINT] = "checkpoint",
		[VT_ROLE_LAUNCHER] = "launcher",
		[VT_ROLE_OTHER] = "other",
	};

	return (unsigned int)role < VT_N_ROLES ? names[role] : "unknown";
}
