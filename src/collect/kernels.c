/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What runs on the devices, if the user wants to know it: the CUDA debugger is attached for a
 * moment, when nothing of ours is left in the process. Before that it must run and nothing else may
 * trace it; afterwards it must run again, unless the debugger is still at work.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/progress.h"
#include "collect/collect.h"
#include "kernels/kernels.h"
#include "target/let_go.h"

/*
 * A thread in uninterruptible sleep takes no stop: the debugger would wait for it, and what it has
 * sent would stop the process later. Most such sleeps are over at once.
 */
#define DISK_NS (500 * VT_NS_PER_MS)
/* For the kernel to let all threads go, once their tracer has ended. */
#define FREE_NS VT_NS_PER_S
#define LOOK_NS (5 * VT_NS_PER_MS)
#define LEAST_NS (200 * VT_NS_PER_MS) /* no debugger answers in less */
#define SHOWN_LINE 200                /* bytes of the debugger's last line */

/* Its threads together. */
struct threads {
	pid_t tracer;      /* of any; 0 none */
	pid_t sleeper;     /* one in uninterruptible sleep; 0 none */
	bool stopped;      /* by a signal */
	bool stop_to_come; /* such a signal waits for a thread */
	bool unknown;      /* they could not be read: it has ended */
	bool drivers;      /* there is one of CUDA's driver: "cuda-EvtHandlr" */
};

static char state_of(const char *status)
{
	static const char key[] = "\nState:\t";
	const char *at = strstr(status, key);

	return at ? at[sizeof(key) - 1] : '?';
}

static void look_at_thread(pid_t tid, struct threads *all)
{
	char status[VT_MAX_STATUS];
	uint64_t tracer = 0, own = 0, shared = 0;

	if (!vt_status_read(tid, status, sizeof(status)))
		return;
	if (vt_status_field(status, "\nTracerPid:", 10, &tracer) && tracer)
		all->tracer = (pid_t)tracer;
	/* PTRACE_ATTACH sends it to a thread, kill() to the process: whichever takes it first. */
	vt_status_field(status, "\nSigPnd:", 16, &own);
	vt_status_field(status, "\nShdPnd:", 16, &shared);
	all->stop_to_come |= (own | shared) >> (SIGSTOP - 1) & 1;
	if (state_of(status) == 'D')
		all->sleeper = tid;
	all->stopped |= state_of(status) == 'T';
}

static struct threads look_at_threads(pid_t pid)
{
	struct vt_thread_list list = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_list_init(&list, pid);
	struct threads all = { .unknown = err };

	for (size_t i = 0; !err && i < list.threads.n; i++) {
		look_at_thread(list.threads.data[i].tid, &all);
		all.drivers |= !strncmp(list.threads.data[i].name, "cuda", 4);
	}
	vt_thread_list_deinit(&list);
	return all;
}

/* ---- before ---- */

static const char *name_of(pid_t pid, char name[64])
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, pid, pid);

	snprintf(name, 64, "%s", err ? "?" : info.name);
	return name;
}

/* NULL: it may be debugged. */
static const char *why_not(struct vt_collect *c)
{
	pid_t pid = c->target.proc.pid;
	uint64_t until_ns = vt_now_ns() + DISK_NS;
	struct threads all = look_at_threads(pid);
	const char *why;
	char name[64];

	while (all.sleeper && !vt_deadline_passed(until_ns)) {
		vt_sleep_ns(LOOK_NS);
		all = look_at_threads(pid);
	}
	if (all.unknown || !vt_proc_is_alive(&c->target.proc))
		return "the process has ended";
	if (all.tracer)
		return vt_arena_printf(&c->model->arena,
				       "%d (%s) already traces the process, and only one can",
				       (int)all.tracer, name_of(all.tracer, name));
	if (all.stopped)
		return "the process is stopped by a signal";
	if (all.sleeper)
		return vt_arena_printf(
			&c->model->arena,
			"thread %d is in uninterruptible sleep, and a debugger would wait for it",
			(int)all.sleeper);
	if (!c->model->process.uses_cuda)
		return "the process has not loaded the CUDA driver";
	why = vt_collect_why_no_driver(c, all.drivers);
	return why ? why : vt_collect_why_debugger_misses(c);
}

/* ---- afterwards ---- */

/*
 * PTRACE_ATTACH stops by SIGSTOP, which stays if the tracer ends before it was taken; SIGCONT takes
 * it back from all threads. It ran before, so this is nobody else's stop.
 */
static void let_it_run(struct vt_collect *c, const struct vt_debugger_run *run)
{
	pid_t pid = c->target.proc.pid;
	uint64_t until_ns = vt_now_ns() + FREE_NS;
	struct threads all = look_at_threads(pid);

	while (run->end != VT_DEBUGGER_RUNS && all.tracer && !vt_deadline_passed(until_ns)) {
		vt_sleep_ns(LOOK_NS);
		all = look_at_threads(pid);
	}
	if (all.unknown || !vt_proc_is_alive(&c->target.proc))
		return;
	if (run->end == VT_DEBUGGER_RUNS) {
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "debugger-holds",
			"the debugger (%d) is still at work, and may hold the process: ending it could end the process, so it is left alone",
			(int)run->pid);
	} else if (all.tracer) {
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "debugger-holds",
			      "%d still traces the process", (int)all.tracer);
	} else if (!all.stopped && !all.stop_to_come) {
		return;
	} else if (run->end == VT_DEBUGGER_EXITED) {
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "left-stopped",
			"the process is stopped since the debugger has ended; kill -CONT %d lets it go on",
			(int)pid);
	} else if (!kill(pid, SIGCONT)) {
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_CUDA, "continued",
			"the debugger has died, and left the process stopped: vramtap has continued it");
	}
}

static const char *why_nothing(struct vt_collect *c, const struct vt_debugger_run *run,
			       const char *last)
{
	const char *colon = last ? ": " : "", *name = vt_base_name(c->model->kernels.debugger);

	if (!last)
		last = "";
	if (run->end == VT_DEBUGGER_RUNS)
		return vt_arena_printf(&c->model->arena, "%s has not answered after %.1f s%s%.*s",
				       name, c->model->kernels.took_ms / 1000, colon, SHOWN_LINE,
				       last);
	if (run->end == VT_DEBUGGER_DIED)
		return vt_arena_printf(&c->model->arena, "%s has died of signal %d (%s)%s%.*s",
				       name, run->status, strsignal(run->status), colon, SHOWN_LINE,
				       last);
	if (*last)
		return vt_arena_printf(&c->model->arena, "%s says: %.*s", name, SHOWN_LINE, last);
	return vt_arena_printf(&c->model->arena, "%s ended with status %d, and said nothing", name,
			       run->status);
}

/* In spite of why_not(): the process may have set TMPDIR after its start. */
static void say_missed(struct vt_collect *c, const char *said)
{
	if (strstr(said, "Timed out waiting for the CUDA API"))
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "debugger-missed",
			"the debugger did not reach the CUDA driver in the process, which may hang in its next call of CUDA until cuda-gdb is attached once more, with the TMPDIR of the process");
}

/* It may have told the kernels before. */
static void judge(struct vt_collect *c, const struct vt_debugger_run *run)
{
	struct vt_model_kernels *kernels = &c->model->kernels;

	if (kernels->state == VT_KERNELS_FAILED && run->end == VT_DEBUGGER_RUNS)
		kernels->state = VT_KERNELS_LATE;
	if (kernels->state != VT_KERNELS_TOLD && kernels->state != VT_KERNELS_NONE) {
		kernels->why = why_nothing(c, run, kernels->why);
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "kernels-unknown",
			      "what runs on the GPU is not known: %s",
			      kernels->why ? kernels->why : "out of memory");
	} else if (run->cut || run->end != VT_DEBUGGER_EXITED) {
		vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, "kernels-cut",
			      "what the debugger says of kernels is not whole: %s",
			      run->cut ? "it is too long" : why_nothing(c, run, NULL));
	}
}

static void ask(struct vt_collect *c, uint64_t deadline_ns)
{
	struct vt_model_kernels *kernels = &c->model->kernels;
	struct vt_debugger_run run = { 0 };
	uint64_t begin_ns = vt_now_ns();
	struct vt_error *err;

	vt_progress("asking the CUDA debugger");
	err = vt_debugger_run(kernels->debugger, c->target.proc.pid, deadline_ns, &run);
	kernels->took_ms = (double)(vt_now_ns() - begin_ns) / VT_NS_PER_MS;
	if (!err &&
	    !vt_kernels_parse(kernels, &c->model->arena, vt_str_get(&run.said), run.said.n, false))
		err = &vt_enomem;
	let_it_run(c, &run);
	say_missed(c, vt_str_get(&run.said));
	if (err) {
		kernels->state = VT_KERNELS_FAILED;
		kernels->why = vt_collect_copy(c, err->message, SHOWN_LINE);
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_CUDA,
				      "what runs on the GPU is not known", err);
	} else {
		judge(c, &run);
	}
	vt_debugger_run_deinit(&run);
	if (kernels->state == VT_KERNELS_TOLD)
		vt_collect_kernels_source(c);
}

static void refuse(struct vt_collect *c, enum vt_kernels_state state, const char *code,
		   const char *why)
{
	c->model->kernels.state = state;
	c->model->kernels.why = why;
	vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_CUDA, code,
		      "what runs on the GPU is not known: %s", why ? why : "out of memory");
}

/* Of several processes each has its time. 0: this one is not asked. */
static uint64_t find_limit(const struct vt_collect *c)
{
	const struct vt_collect_together *together = c->options->together;

	if (!c->options->kernels_ns)
		return 0;
	if (!together)
		return UINT64_MAX;
	return c->model->process.uses_cuda ? together->debug(together->arg) : 0;
}

static const char *why_not_now(struct vt_collect *c, const struct vt_subject *subject,
			       uint64_t limit_ns)
{
	const char *why = why_not(c);

	if (!why)
		why = vt_collect_why_it_goes_on(c, subject);
	if (!why && limit_ns - LEAST_NS < vt_now_ns())
		why = "no time is left for it";
	return why;
}

void vt_collect_kernels(struct vt_collect *c, const struct vt_subject *subject)
{
	uint64_t limit_ns = find_limit(c), own_ns;
	VT_ERROR struct vt_error *err = NULL;
	const char *why;

	if (!limit_ns)
		return;
	err = vt_debugger_find(&c->model->arena, &c->model->kernels.debugger);
	if (err) {
		refuse(c, VT_KERNELS_NO_DEBUGGER, "no-debugger",
		       vt_collect_copy(c, err->message, strlen(err->message)));
		return;
	}
	why = why_not_now(c, subject, limit_ns);
	if (why) {
		refuse(c, VT_KERNELS_REFUSED, "debugger-refused", why);
		return;
	}
	own_ns = vt_now_ns() + c->options->kernels_ns;
	ask(c, own_ns < limit_ns ? own_ns : limit_ns);
}
