/* SPDX-License-Identifier: Apache-2.0 */
#include "model/model.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define N_ELEMENTS(a) (sizeof(a) / sizeof((a)[0]))

void vt_model_init(struct vt_model *model)
{
	*model = (struct vt_model){
		.process = { .rank = -1, .local_rank = -1, .world_size = -1 },
	};
}

void vt_model_deinit(struct vt_model *model)
{
	for (size_t i = 0; i < model->devices.n; i++)
		vt_vec_deinit(&model->devices.data[i].context_threads);
	vt_model_libpools_deinit(&model->libpools);
	vt_vec_deinit(&model->jax.sites);
	vt_model_ledger_deinit(&model->ledger);
	vt_vec_deinit(&model->owners.items);
	vt_vec_deinit(&model->owners.arrays);
	vt_vec_deinit(&model->owners.jax);
	vt_vec_deinit(&model->owners.freed);
	vt_vec_deinit(&model->owners.notices);
	vt_vec_deinit(&model->devices);
	vt_model_usage_deinit(&model->usage);
	vt_model_kernels_deinit(&model->kernels);
	vt_model_streams_deinit(&model->streams);
	vt_model_faults_deinit(&model->faults);
	vt_vec_deinit(&model->allocators);
	if (model->blocks && model->blocks_release)
		model->blocks_release(model->blocks, model->n_blocks);
	vt_vec_deinit(&model->groups);
	free(model->pinned.blocks);
	vt_vec_deinit(&model->traces);
	vt_vec_deinit(&model->segment_only);
	vt_vec_deinit(&model->sites);
	vt_vec_deinit(&model->driver_blocks);
	vt_vec_deinit(&model->driver_groups);
	vt_vec_deinit(&model->ooms);
	vt_vec_deinit(&model->launches.streams);
	vt_vec_deinit(&model->collectives.groups);
	vt_vec_deinit(&model->threads);
	vt_vec_deinit(&model->tasks.tasks);
	vt_vec_deinit(&model->thread_groups);
	vt_vec_deinit(&model->again.threads);
	vt_vec_deinit(&model->growth.items);
	vt_vec_deinit(&model->growth.courses);
	vt_vec_deinit(&model->diags);
	vt_vec_deinit(&model->headlines);
	vt_vec_deinit(&model->advice.items);
	vt_vec_deinit(&model->advice.next);
	vt_arena_deinit(&model->arena);
	vt_model_init(model);
}

static bool have_diag(const struct vt_model *model, enum vt_diag_level level, const char *code,
		      const char *text)
{
	for (size_t i = 0; i < model->diags.n; i++) {
		const struct vt_diag *diag = &model->diags.data[i];

		if (diag->level == level && !strcmp(diag->code, code) && !strcmp(diag->text, text))
			return true;
	}
	return false;
}

void vt_model_diag(struct vt_model *model, enum vt_diag_level level, enum vt_stage stage,
		   const char *code, const char *format, ...)
{
	VT_FREE char *formatted = NULL;
	struct vt_diag *diag = NULL;
	char *text = NULL;
	va_list args;

	va_start(args, format);
	int n = vasprintf(&formatted, format, args);
	va_end(args);
	if (n < 0)
		formatted = NULL;
	else if (have_diag(model, level, code, formatted))
		return;
	if (formatted)
		text = vt_arena_strdup(&model->arena, formatted);
	if (text)
		diag = vt_vec_append(&model->diags);
	if (!diag) {
		model->completeness = VT_PARTIAL;
		return;
	}
	*diag = (struct vt_diag){ .level = level, .stage = stage, .code = code, .text = text };
}

/*
 * A segment's blocks follow each other without a gap, and all have its stream, pool and device.
 * What is not mapped stands alone.
 */
static bool same_segment(const struct vt_block_rec *a, const struct vt_block_rec *b)
{
	const unsigned int flags = VT_BLOCK_SMALL_POOL | VT_BLOCK_PRIVATE_POOL |
				   VT_BLOCK_EXPANDABLE;

	return !(b->flags & VT_BLOCK_SEGMENT_START) && a->addr + a->size == b->addr &&
	       a->state != VT_BLOCK_UNMAPPED && b->state != VT_BLOCK_UNMAPPED &&
	       a->stream == b->stream && a->pool == b->pool && a->device == b->device &&
	       (a->flags & flags) == (b->flags & flags);
}

size_t vt_model_segment_end(const struct vt_model *model, size_t first, size_t end)
{
	size_t i = first + 1;

	while (i < end && same_segment(&model->blocks[i - 1], &model->blocks[i]))
		i++;
	return i;
}

uint64_t vt_model_pools_reserved(const struct vt_model_device *device)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < device->n_pools; i++)
		sum += device->pools[i].reserved_bytes;
	return sum;
}

const struct vt_model_device *vt_model_device(const struct vt_model *model, int ordinal)
{
	for (size_t i = 0; i < model->devices.n; i++)
		if (model->devices.data[i].ordinal == ordinal)
			return &model->devices.data[i];
	return NULL;
}

const struct vt_model_thread *vt_model_thread(const struct vt_model *model, pid_t tid)
{
	for (size_t i = 0; i < model->threads.n; i++)
		if (model->threads.data[i].tid == tid)
			return &model->threads.data[i];
	return NULL;
}

const struct vt_model_frame *vt_model_python_frame(const struct vt_model_stack *stack)
{
	for (size_t i = 0; i < stack->n_frames; i++)
		if (stack->frames[i].kind == VT_FRAME_PYTHON)
			return &stack->frames[i];
	return NULL;
}

bool vt_model_is_telling(const struct vt_model_frame *frame)
{
	static const char *const common[] = {
		"libc.",     "libc-",   "libpthread", "ld-linux", "libstdc++",
		"libpython", "python",  "libffi",     "_ctypes",  "libtorch",
		"libc10",    "libcuda", "libnccl",    "libgomp",  "libiomp",
	};

	if (frame->kind != VT_FRAME_NATIVE || !frame->function || !*frame->function ||
	    !frame->module)
		return false;
	for (size_t i = 0; i < N_ELEMENTS(common); i++)
		if (!strncmp(frame->module, common[i], strlen(common[i])))
			return false;
	return true;
}

static const struct vt_model_trace *trace_in(const struct vt_model *model, const uint32_t *numbers,
					     size_t block)
{
	uint32_t trace = numbers ? numbers[block] : UINT32_MAX;

	return trace < model->traces.n ? &model->traces.data[trace] : NULL;
}

const struct vt_model_trace *vt_model_block_trace(const struct vt_model *model, size_t block)
{
	return trace_in(model, model->block_traces, block);
}

const struct vt_model_trace *vt_model_segment_trace(const struct vt_model *model, size_t block)
{
	uint32_t trace = model->segment_traces ? model->segment_traces[block] : UINT32_MAX;

	if (trace < model->traces.n)
		return &model->traces.data[trace];
	trace -= (uint32_t)model->traces.n;
	return trace < model->segment_only.n ? &model->segment_only.data[trace] : NULL;
}

const struct vt_model_record *vt_model_block_record(const struct vt_model *model, size_t block)
{
	const struct vt_model_record *record = model->block_records ? &model->block_records[block] :
								      NULL;

	return record && record->age_ns != VT_NO_AGE ? record : NULL;
}

static const char *name_of(const char *const *names, size_t n, unsigned int i)
{
	return i < n && names[i] ? names[i] : "unknown";
}

const char *vt_stage_name(enum vt_stage stage)
{
	static const char *const names[] = {
		[VT_STAGE_OTHER] = "other",       [VT_STAGE_PROCESS] = "process",
		[VT_STAGE_CORE] = "core",         [VT_STAGE_FILES] = "files",
		[VT_STAGE_INJECT] = "inject",     [VT_STAGE_CUDA] = "cuda",
		[VT_STAGE_TORCH] = "torch",       [VT_STAGE_LIBPOOLS] = "libpools",
		[VT_STAGE_PINNED] = "pinned",     [VT_STAGE_PYTHON] = "python",
		[VT_STAGE_RECORDER] = "recorder", [VT_STAGE_OWNERS] = "owners",
		[VT_STAGE_STACKS] = "stacks",     [VT_STAGE_WATCH] = "watch",
		[VT_STAGE_JOB] = "job",
	};

	_Static_assert(N_ELEMENTS(names) == VT_N_STAGES, "each stage has a name");
	return name_of(names, N_ELEMENTS(names), stage);
}

const char *vt_driver_kind_name(enum vt_driver_kind kind)
{
	static const char *const names[] = {
		[VT_DRIVER_KIND_OTHER] = "other",     [VT_DRIVER_KIND_DEVICE] = "device",
		[VT_DRIVER_KIND_ASYNC] = "async",     [VT_DRIVER_KIND_MAPPED] = "mapped",
		[VT_DRIVER_KIND_MANAGED] = "managed", [VT_DRIVER_KIND_HOST] = "host",
	};

	_Static_assert(N_ELEMENTS(names) == VT_N_DRIVER_KINDS, "each kind has a name");
	return name_of(names, N_ELEMENTS(names), kind);
}

const char *vt_trace_source_name(enum vt_trace_source source)
{
	static const char *const names[] = {
		[VT_TRACE_PYTORCH] = "pytorch",
		[VT_TRACE_RECORDER] = "vramtap",
	};

	return name_of(names, N_ELEMENTS(names), source);
}

const char *vt_untraced_name(enum vt_untraced why)
{
	static const char *const names[] = {
		[VT_UNTRACED_NOT_RECORDED] = "not-recorded", [VT_UNTRACED_CHANGED] = "changed",
		[VT_UNTRACED_UNREADABLE] = "unreadable",     [VT_UNTRACED_SAMPLED] = "sampled",
		[VT_UNTRACED_NO_STACK] = "no-stack",         [VT_UNTRACED_UNSEEN] = "unseen",
	};

	return name_of(names, N_ELEMENTS(names), why);
}

const char *vt_completeness_name(unsigned int c)
{
	static const char *const names[] = {
		[VT_COMPLETE] = "complete",
		[VT_PARTIAL] = "partial",
		[VT_NOTHING] = "nothing",
	};

	return name_of(names, N_ELEMENTS(names), c);
}

const char *vt_task_state_name(enum vt_task_state state)
{
	static const char *const names[VT_N_TASK_STATES] = {
		[VT_TASK_WAITING] = "waiting",
		[VT_TASK_READY] = "ready",
		[VT_TASK_RUNNING] = "running",
	};

	return names[state];
}

const char *vt_taken_name(enum vt_taken taken)
{
	static const char *const names[] = {
		[VT_TAKEN_STOPPED] = "stopped",
		[VT_TAKEN_ASLEEP] = "asleep",
		[VT_TAKEN_RUNNING] = "running",
	};

	return name_of(names, N_ELEMENTS(names), taken);
}

const char *vt_view_name(enum vt_view view)
{
	static const char *const names[] = {
		[VT_VIEW_MERGED] = "merged",
		[VT_VIEW_NATIVE] = "native",
		[VT_VIEW_PYTHON] = "python",
	};

	return name_of(names, N_ELEMENTS(names), view);
}

const char *vt_method_name(enum vt_method m)
{
	static const char *const names[] = {
		[VT_METHOD_NONE] = "none",
		[VT_METHOD_INSIDE] = "inside",
		[VT_METHOD_OUTSIDE] = "outside",
		[VT_METHOD_INTERPRETER] = "interpreter",
	};

	return name_of(names, N_ELEMENTS(names), m);
}

const char *vt_block_state_name(uint8_t state)
{
	static const char *const names[] = {
		[VT_BLOCK_ALLOCATED] = "allocated",
		[VT_BLOCK_AWAITING_FREE] = "awaiting-free",
		[VT_BLOCK_CACHED] = "cached",
		[VT_BLOCK_UNMAPPED] = "unmapped",
	};

	return name_of(names, N_ELEMENTS(names), state);
}

const char *vt_walk_result_name(uint8_t result)
{
	static const char *const names[] = {
		[VT_WALK_COMPLETE] = "complete",
		[VT_WALK_UNSTABLE] = "unstable",
		[VT_WALK_REFUSED] = "refused",
		[VT_WALK_TRUNCATED] = "truncated",
	};

	return name_of(names, N_ELEMENTS(names), result);
}

const char *vt_walk_lock_name(uint8_t lock)
{
	static const char *const names[] = {
		[VT_LOCK_NONE] = "none",
		[VT_LOCK_TAKEN] = "taken",
		[VT_LOCK_HELD_BY] = "held",
	};

	return name_of(names, N_ELEMENTS(names), lock);
}

const char *vt_oom_verdict_name(enum vt_oom_verdict verdict)
{
	static const char *const names[] = {
		[VT_OOM_UNDECIDED] = "undecided",   [VT_OOM_TOO_LARGE] = "too-large",
		[VT_OOM_LIMITED] = "limited",       [VT_OOM_ELSEWHERE] = "elsewhere",
		[VT_OOM_FRAGMENTED] = "fragmented", [VT_OOM_FULL] = "full",
	};

	return name_of(names, N_ELEMENTS(names), verdict);
}

const char *vt_consistency_name(enum vt_consistency c)
{
	static const char *const names[] = {
		[VT_CONSISTENT_LOCKED] = "locked",
		[VT_CONSISTENT_STOPPED] = "stopped",
		[VT_CONSISTENT_UNCHANGED] = "unchanged",
		[VT_CONSISTENT_REPEATED] = "repeated",
	};

	return (unsigned int)c < N_ELEMENTS(names) ? names[c] : NULL;
}

const char *vt_try_again(const struct vt_model *model)
{
	return model->core.path ? "" :
	       model->held_by   ? "; let it run for a moment and try again" :
				  "; run it again";
}

const char *vt_grown_by_name(unsigned int by)
{
	static const char *const names[VT_N_GROWN_BY] = {
		[VT_GROWN_LINE] = "line",
		[VT_GROWN_SITE] = "site",
		[VT_GROWN_SIZE] = "size",
		[VT_GROWN_OWNER] = "owner",
	};

	return names[by < VT_N_GROWN_BY ? by : VT_GROWN_SIZE];
}
