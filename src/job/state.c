/* SPDX-License-Identifier: Apache-2.0 */
/* What each member does, in one word, out of the verdict of its main thread (explain/verdicts.c) and the names in its stack. */
#include <string.h>

#include "base/str.h"
#include "job/parts.h"

/* The first that fits the verdict decides. */
static const struct {
	const char *verdict;
	enum vt_job_state state;
} by_verdict[] = {
	{ "ran out of GPU memory*", VT_STATE_OOM },
	{ "waits for a DataLoader worker", VT_STATE_LOADER },
	{ "waits for another rank (TCPStore)", VT_STATE_STORE },
	{ "waits for a collective*", VT_STATE_COLLECTIVE },
	/* It starts one, and does not wait in it. */
	{ "in cu*Launch*", VT_STATE_DEVICE },
	{ "in cu*EventRecord*", VT_STATE_DEVICE },
	{ "in cu*EventCreate*", VT_STATE_DEVICE },
	{ "in cu*StreamWaitEvent*", VT_STATE_DEVICE },
	{ "in cu*StreamIsCapturing*", VT_STATE_DEVICE },
	{ "in cu*StreamGetCaptureInfo*", VT_STATE_DEVICE },
	{ "in cu*etDevice*", VT_STATE_DEVICE },
	{ "in *, for torch.distributed.*", VT_STATE_COLLECTIVE },
	{ "in *, for a collective", VT_STATE_COLLECTIVE },
	{ "in *, for nccl*", VT_STATE_COLLECTIVE },
	{ "in nccl*", VT_STATE_COLLECTIVE },
	{ "in *, for the caching allocator*", VT_STATE_ALLOCATOR },
	{ "in cu*", VT_STATE_DEVICE },
	{ "waits for the GIL*", VT_STATE_LOCK },
	{ "waits for a lock*", VT_STATE_LOCK },
	{ "waits for the dynamic loader's lock", VT_STATE_LOCK },
	{ "waits for a Python lock", VT_STATE_LOCK },
	{ "idle *", VT_STATE_IDLE },
};

#define N_BY_VERDICT (sizeof(by_verdict) / sizeof(by_verdict[0]))

/* Places where a process is for others whatever the innermost frames say. */
static const struct {
	const char *function, *file;
	enum vt_job_state state;
} by_frame[] = {
	{ "*rendezvous*", "*/torch/distributed/rendezvous.py", VT_STATE_STORE },
	{ "_store_based_barrier", "*/torch/distributed/distributed_c10d.py", VT_STATE_STORE },
	{ "init_process_group", "*/torch/distributed/distributed_c10d.py", VT_STATE_STORE },
	{ "*", "*/torch/distributed/distributed_c10d.py", VT_STATE_COLLECTIVE },
	{ "wait_tensor", "*/torch/distributed/_functional_collectives.py", VT_STATE_COLLECTIVE },
};

#define N_BY_FRAME (sizeof(by_frame) / sizeof(by_frame[0]))

/* Functions of distributed_c10d.py that every rank passes without the others. */
static const char *const no_collectives[] = {
	"get_*", "is_*", "_get_*", "new_group", "_check_*", "_rank_not_in_group", "__*__"
};

static bool is_collective(const char *function)
{
	for (size_t i = 0; i < sizeof(no_collectives) / sizeof(no_collectives[0]); i++)
		if (vt_glob(no_collectives[i], function))
			return false;
	return true;
}

static enum vt_job_state state_of_frame(const struct vt_job_frame *f)
{
	if (f->kind != VT_FRAME_PYTHON || !f->function || !f->file)
		return VT_STATE_UNDECIDED;
	for (size_t i = 0; i < N_BY_FRAME; i++)
		if (vt_glob(by_frame[i].file, f->file) && vt_glob(by_frame[i].function, f->function))
			return by_frame[i].state == VT_STATE_COLLECTIVE && !is_collective(f->function) ? VT_STATE_UNDECIDED
												       : by_frame[i].state;
	return VT_STATE_UNDECIDED;
}

static const struct vt_job_frame *frame_at(const struct vt_job *job, const struct vt_job_stack *stack, size_t i)
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

static enum vt_job_state state_of_verdict(const char *verdict)
{
	for (size_t i = 0; verdict && i < N_BY_VERDICT; i++)
		if (vt_glob(by_verdict[i].verdict, verdict))
			return by_verdict[i].state;
	return VT_STATE_UNDECIDED;
}

/*
 * In the driver a thread may be in state D for an instant, and often is: what is known of that says more. Frames of a collective do
 * not say that it waits there: it may pickle. Without any frames nobody knows where it is.
 */
enum vt_job_state vt_job_state_of(const struct vt_job *job, const struct vt_job_doing *doing)
{
	enum vt_job_state state = state_of_verdict(doing->verdict);

	if (doing->deadlock)
		return VT_STATE_LOCK;
	if (state == VT_STATE_UNDECIDED && doing->state != 'R')
		state = state_of_stack(job, &job->stacks.data[doing->stack]);
	if (doing->state == 'D' && (state == VT_STATE_UNDECIDED || state == VT_STATE_IDLE))
		return VT_STATE_STUCK;
	if (state != VT_STATE_UNDECIDED || (!job->stacks.data[doing->stack].n && !doing->verdict))
		return state;
	if (doing->state == 'R')
		return VT_STATE_RUNS;
	return doing->verdict || doing->waits || doing->state == 'S' ? VT_STATE_WAITS : VT_STATE_UNDECIDED;
}

const struct vt_job_doing *vt_job_telling_doing(const struct vt_job *job, const struct vt_member *member)
{
	const struct vt_job_doing *main_doing = vt_job_main_doing(job, member);

	if (!main_doing || !main_doing->verdict || !vt_glob("in backward, waits*", main_doing->verdict))
		return main_doing;
	for (size_t i = 0; i < member->threads.n; i++) {
		const struct vt_job_doing *doing = &job->doings.data[member->threads.data[i].doing];

		if (!doing->is_main && !doing->idle && vt_glob("pt_autograd_*", doing->name))
			return doing;
	}
	return main_doing;
}

/* Of the whole process; undecided when its threads have to say it. */
static enum vt_job_state state_of_process(const struct vt_member *member)
{
	if (member->core)
		return VT_STATE_CRASHED;
	if (member->process_state == 'T')
		return VT_STATE_STOPPED;
	/* Another vramtap lets go of it at once. */
	if (member->process_state == 't' && strcmp(member->tracer_name, "vramtap") != 0)
		return VT_STATE_TRACED;
	if (member->process_state == 'Z' || member->process_state == 'X' || (!member->threads.n && member->error))
		return VT_STATE_GONE;
	return member->requests.waits ? VT_STATE_OOM : VT_STATE_UNDECIDED;
}

/* ---- where, and in which collective ---- */

/* The innermost frame of the program, else the innermost Python frame, else the innermost that has a name. */
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

/* The text of pattern behind its first n characters, to the end of the verdict. */
static const char *behind(const char *verdict, const char *words)
{
	const char *found = verdict ? strstr(verdict, words) : NULL;

	return found && found[strlen(words)] ? found + strlen(words) : NULL;
}

/* The outermost function of PyTorch's that is a collective: the one that the program called. */
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

	if (!operation)
		operation = behind(doing->verdict, ", for torch.distributed.");
	if (!operation && doing->verdict && !strncmp(doing->verdict, "in nccl", 7))
		operation = doing->verdict + 3;
	return operation;
}

/* NCCL's own threads look into collectives all the time: of others than the main thread only what Python called counts. */
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
		member->place = doing ? place_of(job, &job->stacks.data[doing->stack]) : VT_NO_PLACE;
		if (!doing)
			continue;
		if (member->state == VT_STATE_UNDECIDED)
			member->state = vt_job_state_of(job, doing);
		/* It came out of it: it has waited for a disk, say. */
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

static const char *const state_words[] = { ['R'] = "runs",
					   ['S'] = "sleeps",
					   ['D'] = "in uninterruptible sleep in the kernel",
					   ['T'] = "stopped by a signal",
					   ['t'] = "stopped by a debugger",
					   ['Z'] = "has ended" };

const char *vt_job_does(const struct vt_job_doing *doing)
{
	unsigned char state = (unsigned char)doing->state;

	if (doing->verdict)
		return doing->verdict;
	if (doing->waits && state != 'R')
		return doing->waits;
	return state < sizeof(state_words) / sizeof(state_words[0]) && state_words[state] ? state_words[state] : "unknown";
}
