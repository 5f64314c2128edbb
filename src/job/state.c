/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The state of each member, from the verdict of its main thread (explain/verdicts.c) and its stack.
 */
#include <string.h>

#include "base/str.h"
#include "job/internal.h"

static const enum vt_job_state by_verdict[VT_N_VERDICTS] = {
	[VT_VERDICT_OOM] = VT_STATE_OOM,
	[VT_VERDICT_LOADER] = VT_STATE_LOADER,
	[VT_VERDICT_STORE] = VT_STATE_STORE,
	[VT_VERDICT_COLLECTIVE_NCCL] = VT_STATE_COLLECTIVE,
	[VT_VERDICT_COLLECTIVE_GLOO] = VT_STATE_COLLECTIVE,
	[VT_VERDICT_COLLECTIVE] = VT_STATE_COLLECTIVE,
	[VT_VERDICT_GIL] = VT_STATE_LOCK,
	[VT_VERDICT_MALLOC_LOCK] = VT_STATE_LOCK,
	[VT_VERDICT_KERNEL_LOCK] = VT_STATE_LOCK,
	[VT_VERDICT_LOADER_LOCK] = VT_STATE_LOCK,
	[VT_VERDICT_PYTHON_LOCK] = VT_STATE_LOCK,
	[VT_VERDICT_PROCESS_LOCK] = VT_STATE_LOCK,
};

/* Matches a function that the thread is in: the first match decides. */
static const struct {
	const char *function;    /* pattern, NULL: any */
	enum vt_purpose purpose; /* NONE: any */
	enum vt_job_state state;
} by_function[] = {
	/* It starts a collective, and does not wait in it. */
	{ "cu*Launch*", VT_PURPOSE_NONE, VT_STATE_DEVICE },
	{ "cu*EventRecord*", VT_PURPOSE_NONE, VT_STATE_DEVICE },
	{ "cu*EventCreate*", VT_PURPOSE_NONE, VT_STATE_DEVICE },
	{ "cu*StreamWaitEvent*", VT_PURPOSE_NONE, VT_STATE_DEVICE },
	{ "cu*StreamIsCapturing*", VT_PURPOSE_NONE, VT_STATE_DEVICE },
	{ "cu*StreamGetCaptureInfo*", VT_PURPOSE_NONE, VT_STATE_DEVICE },
	{ "cu*etDevice*", VT_PURPOSE_NONE, VT_STATE_DEVICE },
	{ NULL, VT_PURPOSE_TORCH_DISTRIBUTED, VT_STATE_COLLECTIVE },
	{ NULL, VT_PURPOSE_COLLECTIVE, VT_STATE_COLLECTIVE },
	{ NULL, VT_PURPOSE_NCCL, VT_STATE_COLLECTIVE },
	{ "nccl*", VT_PURPOSE_NONE, VT_STATE_COLLECTIVE },
	{ NULL, VT_PURPOSE_EMPTY_CACHE, VT_STATE_ALLOCATOR },
	{ NULL, VT_PURPOSE_RETRY, VT_STATE_ALLOCATOR },
	{ NULL, VT_PURPOSE_ALLOCATOR, VT_STATE_ALLOCATOR },
	{ "cu*", VT_PURPOSE_NONE, VT_STATE_DEVICE },
};

#define N_BY_FUNCTION (sizeof(by_function) / sizeof(by_function[0]))

#define DISTRIBUTED "/torch/distributed/"

/* Places where a process deals with others, whatever its innermost frames are. */
static const struct {
	const char *function;
	const char *file; /* all in DISTRIBUTED */
	enum vt_job_state state;
} by_frame[] = {
	{ "*rendezvous*", "*" DISTRIBUTED "rendezvous.py", VT_STATE_STORE },
	{ "_store_based_barrier", "*" DISTRIBUTED "distributed_c10d.py", VT_STATE_STORE },
	{ "init_process_group", "*" DISTRIBUTED "distributed_c10d.py", VT_STATE_STORE },
	{ "*", "*" DISTRIBUTED "distributed_c10d.py", VT_STATE_COLLECTIVE },
	{ "wait_tensor", "*" DISTRIBUTED "_functional_collectives.py", VT_STATE_COLLECTIVE },
};

#define N_BY_FRAME (sizeof(by_frame) / sizeof(by_frame[0]))

/* Functions of distributed_c10d.py that a rank passes without waiting for the others. */
static const char *const no_collectives[] = { "get_*",     "is_*",     "_get_*",
					      "new_group", "_check_*", "_rank_not_in_group",
					      "__*__" };

static bool is_collective(const char *function)
{
	for (size_t i = 0; i < sizeof(no_collectives) / sizeof(no_collectives[0]); i++)
		if (vt_glob(no_collectives[i], function))
			return false;
	return true;
}

static enum vt_job_state state_of_frame(const struct vt_job_frame *f)
{
	/* A job has many frames, and most are elsewhere. */
	if (f->kind != VT_FRAME_PYTHON || !f->function || !f->file || !strstr(f->file, DISTRIBUTED))
		return VT_STATE_UNDECIDED;
	for (size_t i = 0; i < N_BY_FRAME; i++)
		if (vt_glob(by_frame[i].file, f->file) &&
		    vt_glob(by_frame[i].function, f->function))
			return by_frame[i].state == VT_STATE_COLLECTIVE &&
					       !is_collective(f->function) ?
				       VT_STATE_UNDECIDED :
				       by_frame[i].state;
	return VT_STATE_UNDECIDED;
}

static const struct vt_job_frame *frame_at(const struct vt_job *job,
					   const struct vt_job_stack *stack, size_t i)
{
	return &job->frames.data[stack->frames[i]];
}

static enum vt_job_state state_of_stack(const struct vt_job *job, const struct vt_job_stack *stack)
{
	for (size_t i = 0; i < stack->n; i++) {
		enum vt_job_state state = state_of_frame(frame_at(job, stack, i));

		if (state != VT_STATE_UNDECIDED)
			return state;
	}
	return VT_STATE_UNDECIDED;
}

static enum vt_job_state state_of_function(const struct vt_verdict *verdict)
{
	for (size_t i = 0; verdict->function && i < N_BY_FUNCTION; i++)
		if ((!by_function[i].function ||
		     vt_glob(by_function[i].function, verdict->function)) &&
		    (!by_function[i].purpose || by_function[i].purpose == verdict->purpose))
			return by_function[i].state;
	return VT_STATE_UNDECIDED;
}

static enum vt_job_state state_of_verdict(const struct vt_verdict *verdict)
{
	if (verdict->code == VT_VERDICT_IN_FUNCTION)
		return state_of_function(verdict);
	return vt_verdict_is_idle(verdict->code) ? VT_STATE_IDLE : by_verdict[verdict->code];
}

/*
 * A thread in the driver is often in state D for an instant: what is known about the driver call
 * says more. Frames of a collective do not prove that it waits there: it may pickle. Without frames
 * its place is unknown.
 */
enum vt_job_state vt_job_state_of(const struct vt_job *job, const struct vt_job_doing *doing)
{
	enum vt_job_state state = state_of_verdict(&doing->verdict);

	if (doing->deadlock)
		return VT_STATE_LOCK;
	if (state == VT_STATE_UNDECIDED && doing->state != 'R')
		state = state_of_stack(job, &job->stacks.data[doing->stack]);
	if (doing->state == 'D' && (state == VT_STATE_UNDECIDED || state == VT_STATE_IDLE))
		return VT_STATE_STUCK;
	if (state != VT_STATE_UNDECIDED ||
	    (!job->stacks.data[doing->stack].n && !doing->verdict.code))
		return state;
	if (doing->state == 'R')
		return VT_STATE_RUNS;
	return doing->verdict.code || doing->waits.code || doing->state == 'S' ? VT_STATE_WAITS :
										 VT_STATE_UNDECIDED;
}

const struct vt_job_doing *vt_job_telling_doing(const struct vt_job *job,
						const struct vt_member *member)
{
	const struct vt_job_doing *main_doing = vt_job_main_doing(job, member);

	if (!main_doing || main_doing->verdict.code != VT_VERDICT_BACKWARD_WAITS)
		return main_doing;
	for (size_t i = 0; i < member->threads.n; i++) {
		const struct vt_job_doing *doing = &job->doings.data[member->threads.data[i].doing];

		if (!doing->is_main && !doing->idle && vt_glob("pt_autograd_*", doing->name))
			return doing;
	}
	return main_doing;
}

/* The state of the whole process; undecided if its threads decide. */
static enum vt_job_state state_of_process(const struct vt_member *member)
{
	if (member->core)
		return VT_STATE_CRASHED;
	if (member->process_state == 'T')
		return VT_STATE_STOPPED;
	/* Another vramtap releases it at once. */
	if (member->process_state == 't' && strcmp(member->tracer_name, "vramtap") != 0)
		return VT_STATE_TRACED;
	if (member->process_state == 'Z' || member->process_state == 'X' ||
	    (!member->threads.n && member->error))
		return VT_STATE_GONE;
	return member->requests.waits ? VT_STATE_OOM : VT_STATE_UNDECIDED;
}

/* ---- the place and the collective ---- */

/*
 * The innermost frame of the program; else the innermost Python frame; else the innermost named
 * one.
 */
static uint32_t place_of(const struct vt_job *job, const struct vt_job_stack *stack)
{
	uint32_t named = VT_NO_PLACE, python = VT_NO_PLACE;

	for (size_t i = 0; i < stack->n; i++) {
		const struct vt_job_frame *f = frame_at(job, stack, i);

		if (f->program)
			return stack->frames[i];
		if (python == VT_NO_PLACE && f->kind == VT_FRAME_PYTHON)
			python = stack->frames[i];
		if (named == VT_NO_PLACE && f->function)
			named = stack->frames[i];
	}
	return python != VT_NO_PLACE ? python : named;
}

/* The outermost PyTorch function that is a collective: the one that the program called. */
static const char *operation_of_stack(const struct vt_job *job, const struct vt_job_stack *stack)
{
	const char *operation = NULL;

	for (size_t i = 0; i < stack->n; i++)
		if (state_of_frame(frame_at(job, stack, i)) == VT_STATE_COLLECTIVE)
			operation = frame_at(job, stack, i)->function;
	return operation;
}

const char *vt_job_operation_of(const struct vt_job *job, const struct vt_job_doing *doing)
{
	const char *operation = operation_of_stack(job, &job->stacks.data[doing->stack]);

	if (!operation && doing->verdict.purpose == VT_PURPOSE_TORCH_DISTRIBUTED)
		operation = doing->verdict.for_function;
	if (!operation && vt_verdict_is_in(&doing->verdict, "nccl"))
		operation = doing->verdict.function;
	return operation;
}

/*
 * NCCL's threads check collectives all the time: except in the main thread only Python's calls
 * count.
 */
bool vt_job_is_in_collective(const struct vt_job *job, const struct vt_job_doing *doing)
{
	if (doing->idle)
		return false;
	return operation_of_stack(job, &job->stacks.data[doing->stack]) ||
	       (doing->is_main && vt_job_state_of(job, doing) == VT_STATE_COLLECTIVE);
}

bool vt_job_decide_states(struct vt_job *job)
{
	for (size_t i = 0; i < job->members.n; i++) {
		struct vt_member *member = &job->members.data[i];
		const struct vt_job_doing *doing = vt_job_telling_doing(job, member);

		member->state = state_of_process(member);
		member->operation = NULL;
		member->place = doing ? place_of(job, &job->stacks.data[doing->stack]) :
					VT_NO_PLACE;
		if (!doing)
			continue;
		if (member->state == VT_STATE_UNDECIDED)
			member->state = vt_job_state_of(job, doing);
		/* It left that state: it may have waited for a disk. */
		if (member->state == VT_STATE_STUCK && member->moved == 1)
			member->state = VT_STATE_WAITS;
		if (member->state == VT_STATE_COLLECTIVE)
			member->operation = vt_job_operation_of(job, doing);
	}
	return true;
}

const char *vt_job_state_name(enum vt_job_state state)
{
	static const char *const names[VT_N_STATES] = {
		[VT_STATE_GONE] = "gone",
		[VT_STATE_CRASHED] = "crashed",
		[VT_STATE_STOPPED] = "stopped",
		[VT_STATE_TRACED] = "traced",
		[VT_STATE_OOM] = "out-of-memory",
		[VT_STATE_ALLOCATOR] = "allocator",
		[VT_STATE_COLLECTIVE] = "collective",
		[VT_STATE_STORE] = "store",
		[VT_STATE_LOADER] = "loader",
		[VT_STATE_DEVICE] = "device",
		[VT_STATE_STUCK] = "stuck",
		[VT_STATE_LOCK] = "lock",
		[VT_STATE_IDLE] = "idle",
		[VT_STATE_RUNS] = "runs",
		[VT_STATE_WAITS] = "waits",
	};

	return (unsigned int)state < VT_N_STATES ? names[state] : NULL;
}

/* For a thread about which nothing else is known. */
static const char *state_word(char state, enum vt_form form)
{
	static const struct {
		char state;
		struct vt_phrase words;
	} words[] = {
		{ 'R', { { "runs", "runs", "run" } } },
		{ 'S', { { "sleeps", "sleeps", "sleep" } } },
		{ 'D',
		  { { "in uninterruptible sleep in the kernel",
		      "is in uninterruptible sleep in the kernel",
		      "are in uninterruptible sleep in the kernel" } } },
		{ 'T',
		  { { "stopped by a signal", "is stopped by a signal",
		      "are stopped by a signal" } } },
		{ 't',
		  { { "stopped by a debugger", "is stopped by a debugger",
		      "are stopped by a debugger" } } },
		{ 'Z', { { "has ended", "has ended", "have ended" } } },
	};

	for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (words[i].state == state)
			return words[i].words.forms[form];
	return "unknown";
}

void vt_job_add_does(const struct vt_job_doing *doing, enum vt_form form, enum vt_detail detail,
		     struct vt_str *out)
{
	if (doing->verdict.code)
		vt_words_verdict(out, &doing->verdict, form);
	else if (doing->waits.code && doing->state != 'R')
		vt_words_waits(out, &doing->waits, form, detail);
	else
		vt_str_add(out, state_word(doing->state, form));
}
