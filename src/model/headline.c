/* SPDX-License-Identifier: Apache-2.0 */
/* The answer in a few lines: only what is known, the worst first. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "model/account.h"
#include "model/notices.h"
#include "model/place.h"
#include "model/stream_deadlock.h"
#include "model/stream_waits.h"
#include "model/words.h"
#include "base/format.h"

#define MAX_OF_A_KIND 2 /* devices named one by one; more would push the evidence off the screen */
#define MAX_RINGS 4
#define MAX_RING 6   /* threads of a deadlock that are named */
#define MAX_NAME 120 /* bytes of a target's name in a sentence */

struct headlines {
	struct vt_model *model;
	bool failed;
};

__attribute__((format(printf, 4, 5))) static void add(struct headlines *h, const char *code,
						      bool alarm, const char *format, ...)
{
	struct vt_model_headline *headline = NULL;
	va_list args;

	va_start(args, format);

	char *text = vt_arena_vprintf(&h->model->arena, format, args);

	va_end(args);
	if (text)
		headline = vt_vec_append(&h->model->headlines);
	if (!headline) {
		h->failed = true;
		return;
	}
	*headline = (struct vt_model_headline){ .code = code, .alarm = alarm, .text = text };
}

#define THREAD_MAX (MAX_NAME + 32)

/* "4711 (python3)", or the number alone where there is no name. */
static const char *describe_thread(char buf[THREAD_MAX], pid_t tid, const char *name)
{
	if (name && *name)
		snprintf(buf, THREAD_MAX, "%d (%.*s)", (int)tid, MAX_NAME, name);
	else
		snprintf(buf, THREAD_MAX, "%d", (int)tid);
	return buf;
}

/* What a thread of a deadlock waits for: behind the words comes the thread that it waits for. */
static void add_what_it_waits_for(struct vt_str *text, const struct vt_model_thread *t,
				  const char *other)
{
	if (t->verdict.code == VT_VERDICT_GIL)
		vt_str_addf(text, "waits for the GIL that %s holds", other);
	else if (t->waits.code == VT_WAITS_LOCK_HELD)
		vt_str_addf(text, "waits for a lock that %s holds", other);
	else if (t->waits.code == VT_WAITS_JOIN)
		vt_str_addf(text, "waits for the end of %s", other);
	else
		vt_str_addf(text, "waits for %s", other);
}

/*
 * "deadlock: 4711 (python3) waits for a lock that 4730 (loader) holds; 4730 waits for the GIL that
 * 4711 holds"
 */
static void add_deadlock(struct headlines *h, const struct vt_model_thread *first)
{
	const struct vt_model_thread *t = first, *next;
	struct vt_str ring = { 0 };
	char thread[THREAD_MAX];
	size_t n = 0;

	for (; t && (t != first || n == 0) && n < MAX_RING; n++, t = next) {
		next = vt_model_thread(h->model, t->waits_for);
		if (n)
			vt_str_addf(&ring, "; %d ", (int)t->tid);
		else
			vt_str_addf(&ring, "%s ", describe_thread(thread, t->tid, t->name));
		/* Each thread's name is there where the thread is first named. */
		add_what_it_waits_for(&ring, t,
				      describe_thread(thread, t->waits_for,
						      next && next != first ? next->name : NULL));
	}
	if (n == 1)
		add(h, "deadlock", true,
		    "deadlock: thread %s waits for a lock that it already holds",
		    describe_thread(thread, first->tid, first->name));
	else
		add(h, "deadlock", true, "deadlock: %s%s", vt_str_get(&ring),
		    n == MAX_RING && t != first ? "; …" : "");
	if (ring.failed)
		h->failed = true;
	vt_str_deinit(&ring);
}

/*
 * Of each ring once: from its thread with the lowest index, which is the main thread when that is
 * in it.
 */
static bool is_first_of_ring(const struct vt_model *model, const struct vt_model_thread *first)
{
	const struct vt_model_thread *t = vt_model_thread(model, first->waits_for);

	for (size_t n = 0; t && t != first && n < model->threads.n; n++) {
		if (t < first)
			return false;
		t = vt_model_thread(model, t->waits_for);
	}
	return t == first;
}

static void add_deadlocks(struct headlines *h)
{
	int shown = 0;

	for (size_t i = 0; i < h->model->threads.n && shown < MAX_RINGS; i++) {
		const struct vt_model_thread *t = &h->model->threads.data[i];

		if (!t->deadlock || !is_first_of_ring(h->model, t))
			continue;
		add_deadlock(h, t);
		shown++;
	}
}

/* " (train.py:88 train_step)": where in the program, or "". */
static void describe_frame(char *buf, size_t size, const struct vt_model_frame *f)
{
	buf[0] = '\0';
	if (!f || !f->function)
		return;
	if (f->file && f->line > 0)
		snprintf(buf, size, " (%.*s:%d %.*s)", MAX_NAME, vt_base_name(f->file), f->line,
			 MAX_NAME, f->function);
	else
		snprintf(buf, size, " (%.*s)", MAX_NAME, f->function);
}

static void describe_place(char *buf, size_t size, const struct vt_model_stack *stack)
{
	describe_frame(buf, size, vt_place_telling(stack));
}

/* "stream 0x1000 waits for a value at 0x7f00 (a.py:3 f) that only stream 0x2000 writes" */
static void add_stream_wait(struct headlines *h, struct vt_str *text,
			    const struct vt_model_launch_stream *s)
{
	char place[MAX_NAME * 3];

	vt_launch_stream_say(text, h->model, s);
	vt_str_addf(text, " waits for %s %#" PRIx64,
		    s->stuck->kind == VT_LAUNCHED_WAIT_VALUE ? "a value at" : "event",
		    s->stuck->what);
	describe_frame(place, sizeof(place), vt_model_trace_title(h->model, s->stuck->trace));
	vt_str_addf(text, "%s that only ", place);
	vt_launch_stream_say(text, h->model, vt_stream_waited_for(h->model, s));
	vt_str_add(text, s->ends_it->kind == VT_LAUNCHED_WRITE_VALUE ? " writes" : " records");
	describe_frame(place, sizeof(place), vt_model_trace_title(h->model, s->ends_it->trace));
	vt_str_add(text, place);
}

/* Likely: a thread, another process or a GPU that is a peer could still write the value. */
static void add_stream_deadlocks(struct headlines *h)
{
	const struct vt_model_launch_stream *first, *s;
	size_t i = 0, shown = 0;

	while (shown++ < MAX_RINGS && (first = vt_next_stream_deadlock(h->model, &i))) {
		struct vt_str text = { 0 };
		size_t n = 0;

		for (s = first; n < MAX_RING && (!n || s != first); n++) {
			vt_str_add(&text, n ? "; " : "");
			add_stream_wait(h, &text, s);
			s = vt_stream_waited_for(h->model, s);
		}
		add(h, "stream-deadlock", true,
		    "likely a deadlock between streams, as what would end each wait comes after one of them: %s%s",
		    vt_str_get(&text), s != first ? "; …" : "");
		h->failed |= text.failed;
		vt_str_deinit(&text);
	}
}

/*
 * What a thread does, as the end of a sentence: "is in cudaStreamSynchronize", "waits for futex …";
 * "" unknown.
 */
static void describe_doing(struct headlines *h, char *buf, size_t size,
			   const struct vt_model_thread *t)
{
	struct vt_str text = { 0 };

	if (t->verdict.code)
		vt_words_verdict(&text, &t->verdict, VT_FORM_ONE);
	else if (t->state == 'D')
		vt_str_add(&text, "in uninterruptible sleep in the kernel");
	else if (t->waits.code)
		vt_words_waits(&text, &t->waits, VT_FORM_ONE, VT_DETAIL_ALL);
	else if (t->state == 'R')
		vt_str_add(&text, "is running");
	else if (t->syscall)
		vt_str_addf(&text, "is in %s", t->syscall);
	snprintf(buf, size, "%.*s", MAX_NAME, vt_str_get(&text));
	h->failed |= text.failed;
	vt_str_deinit(&text);
}

/* ---- the devices ---- */

/* "Xid 31 (GPU memory page fault) on GPU 0, 2 min ago" */
static void describe_xid(struct headlines *h, struct vt_str *text, const struct vt_model_xid *xid)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(xid->code);
	char age[VT_NUM_MAX];

	vt_str_addf(text, "Xid %" PRIu32, xid->code);
	if (meaning)
		vt_str_addf(text, " (%s)", meaning->name);
	if (xid->device >= 0)
		vt_str_addf(text, " on GPU %d", xid->device);
	if (xid->last.tv_sec && h->model->when.tv_sec >= xid->last.tv_sec)
		vt_str_addf(text, ", %s ago",
			    vt_format_age(age, (double)(h->model->when.tv_sec - xid->last.tv_sec)));
}

static void add_context_lost(struct headlines *h)
{
	const struct vt_model_xid *xid;
	enum vt_context_lost lost = vt_model_context_lost(h->model, &xid);
	struct vt_str text = { 0 };

	if (xid)
		describe_xid(h, &text, xid);
	else
		vt_str_add(&text, "the driver answers no more as to a healthy process");
	if (lost == VT_CONTEXT_LOST)
		add(h, "context-lost", true, "this process has lost its CUDA context: %s",
		    vt_str_get(&text));
	else if (lost == VT_CONTEXT_LIKELY_LOST)
		add(h, "context-lost", true, "this process has likely lost its CUDA context: %s",
		    vt_str_get(&text));
	h->failed |= text.failed;
	vt_str_deinit(&text);
}

/* What the device itself has; of a fault that was another process's the list below tells. */
static void add_gpu_faults(struct headlines *h)
{
	int shown = 0;

	for (size_t i = h->model->faults.xids.n; i > 0 && shown < MAX_OF_A_KIND; i--) {
		const struct vt_model_xid *xid = &h->model->faults.xids.data[i - 1];
		struct vt_str text = { 0 };

		if (!vt_xid_is_of_device(xid->code) || xid->owner == VT_FAULT_OTHERS ||
		    xid->owner == VT_FAULT_UNKNOWN)
			continue;
		describe_xid(h, &text, xid);
		add(h, "gpu-fault", true, "the device has a fault: %s", vt_str_get(&text));
		h->failed |= text.failed;
		vt_str_deinit(&text);
		shown++;
	}
}

/* What it says of itself. */
static void add_health(struct headlines *h)
{
	const struct vt_model_usage *usage = &h->model->usage;
	int device, shown = 0;

	for (size_t i = 0; i < usage->gpus.n && shown < MAX_OF_A_KIND; i++) {
		const struct vt_usage_health *health = &usage->gpus.data[i].health;
		char name[32] = "the device", count[VT_NUM_MAX];

		if (!vt_model_gpu_is_used(usage, i, &device))
			continue;
		if (device >= 0)
			snprintf(name, sizeof(name), "GPU %d", device);
		if (health->remap_failed)
			add(h, "gpu-fault", true,
			    "%s has a fault: a row of its memory could not be remapped", name);
		else if (health->ecc_now)
			add(h, "gpu-fault", true,
			    "%s has a fault: %s uncorrected error%s of its memory since the last reset",
			    name, vt_format_count(count, health->ecc_now),
			    health->ecc_now == 1 ? "" : "s");
		if (vt_health_is_throttled(health))
			add(h, "throttled", true,
			    "%s is slow: the hardware holds its clocks down, for %s", name,
			    vt_health_why_slow(health));
		shown += vt_health_is_bad(health) || vt_health_is_throttled(health);
	}
}

/* ---- the process and its main thread ---- */

static void add_process(struct headlines *h)
{
	const struct vt_model_process *p = &h->model->process;
	const char *tracer = p->tracer_name && *p->tracer_name ? p->tracer_name : "?";

	if (p->state == 'Z' || p->state == 'X')
		add(h, "zombie", true,
		    "the process has ended (zombie): its parent has not reaped it yet");
	else if (p->tracer > 0 && !h->model->held_by)
		add(h, "traced", true, "the process is traced by %.*s (pid %d)", MAX_NAME, tracer,
		    (int)p->tracer);
	else if (p->state == 'T')
		add(h, "stopped", true,
		    "the process is stopped by a signal; kill -CONT %d lets it go on", (int)p->pid);
}

/* "killed by SIGSEGV at address 0x10, in thread 4711 (python3)" */
static void add_signal(struct headlines *h)
{
	const struct vt_model_core *core = &h->model->core;
	const struct vt_model_thread *t = vt_model_thread(h->model, core->signal_tid);
	char address[40] = "", thread[THREAD_MAX], place[MAX_NAME * 3] = "";

	if (!core->signal)
		return;
	if (core->have_address)
		snprintf(address, sizeof(address), " at address 0x%" PRIx64, core->address);
	if (t)
		describe_place(place, sizeof(place), &t->stack);
	add(h, "signal", true, "%s %s%s, in %s%s%s", core->killed ? "killed by" : "stopped at",
	    core->signal_name, address, t && t->is_main ? "the main thread" : "thread ",
	    t && t->is_main ? "" : describe_thread(thread, core->signal_tid, t ? t->name : NULL),
	    place);
}

/*
 * Threads that wait for the device or for another rank: where a process hangs whose main thread
 * looks well.
 */
static bool waits_for_device(const struct vt_model_thread *t)
{
	switch (t->verdict.code) {
	case VT_VERDICT_IN_FUNCTION:
		return vt_verdict_is_in(&t->verdict, "cu") || vt_verdict_is_in(&t->verdict, "nccl");
	case VT_VERDICT_COLLECTIVE_NCCL:
	case VT_VERDICT_COLLECTIVE_GLOO:
	case VT_VERDICT_COLLECTIVE:
	case VT_VERDICT_STORE:
		return true;
	default:
		return false;
	}
}

/*
 * What the debugger has seen, or nothing. Kernels of a lost context are where the device stopped;
 * cuda-gdb calls them active (seen after a trap).
 */
static void say_kernels(const struct vt_model *model, struct vt_str *text)
{
	if (vt_model_has_lost_context(model))
		return;
	if (model->kernels.state == VT_KERNELS_NONE)
		vt_str_add(text, "no kernel of this process runs on the GPU");
	vt_kernels_say(text, &model->kernels);
}

/*
 * Which stream has work: behind the kernels, if these are known. Never that a kernel is in it: the
 * debugger does not tell, and it may wait for the kernel of a stream that is not known.
 */
static void say_streams(const struct vt_model *model, struct vt_str *text)
{
	const struct vt_model_kernels *kernels = &model->kernels;
	const struct vt_model_stream *busy = vt_model_busy_stream(model);
	bool only = kernels->kernels.n + kernels->more == 1 && busy &&
		    kernels->kernels.data[0].device == busy->device;

	if (vt_model_has_lost_context(model) || kernels->state == VT_KERNELS_NONE)
		return;
	if (kernels->state != VT_KERNELS_TOLD) {
		vt_streams_say(text, model);
	} else if (only) {
		vt_str_add(text, "; ");
		vt_streams_say(text, model);
	}
}

/*
 * "; spin_until runs on GPU 0 (40 blocks of 128 threads)": behind the wait of the main thread, what
 * the debugger has seen a moment later; "" not known.
 */
static const char *what_it_awaits(struct headlines *h, const struct vt_model_thread *t)
{
	struct vt_str text = { 0 };
	const char *copy;

	if (!waits_for_device(t))
		return "";
	say_kernels(h->model, &text);
	say_streams(h->model, &text);
	copy = text.n ? vt_arena_printf(&h->model->arena, "; %s", vt_str_get(&text)) : "";
	h->failed |= text.failed || !copy;
	vt_str_deinit(&text);
	return copy ? copy : "";
}

static void add_main_thread(struct headlines *h)
{
	char doing[MAX_NAME * 2], place[MAX_NAME * 3];

	for (size_t i = 0; i < h->model->threads.n; i++) {
		const struct vt_model_thread *t = &h->model->threads.data[i];

		if (!t->is_main)
			continue;
		describe_doing(h, doing, sizeof(doing), t);
		describe_place(place, sizeof(place), &t->stack);
		if (doing[0])
			add(h, "main-thread", t->state == 'D', "main thread %s%s%s", doing, place,
			    what_it_awaits(h, t));
		return;
	}
}

static bool does_main_wait_for_device(const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++)
		if (model->threads.data[i].is_main)
			return waits_for_device(&model->threads.data[i]);
	return false;
}

/* The line of a main thread that waits for the device has it. */
static void add_kernels(struct headlines *h)
{
	const struct vt_model_kernels *kernels = &h->model->kernels;
	struct vt_str text = { 0 };

	for (size_t i = 0; i < kernels->raised.n && i < MAX_OF_A_KIND; i++)
		add(h, "kernel-exception", true, "exception on the GPU: %.*s", MAX_NAME,
		    kernels->raised.data[i]);
	if (does_main_wait_for_device(h->model))
		return;
	say_kernels(h->model, &text);
	if (text.n)
		add(h, "kernels", false, "%s", vt_str_get(&text));
	h->failed |= text.failed;
	vt_str_deinit(&text);
}

/* ---- the device against the host ---- */

/* A kernel of NCCL's, which is on the device until all ranks have come: since 2.19, and before. */
static bool is_of_nccl(const struct vt_model_kernel *kernel)
{
	return !strncmp(kernel->name, "ncclDevKernel", 13) ||
	       !strncmp(kernel->name, "ncclKernel", 10);
}

/*
 * The group whose oldest operation is on the device: by the flight recorder, if that knows, else
 * the only one that has an operation; NULL: neither.
 */
static const struct vt_model_process_group *group_on_device(const struct vt_model *model)
{
	const struct vt_model_process_group *started = NULL, *only = NULL;
	size_t n = 0;

	for (size_t i = 0; i < model->collectives.groups.n; i++) {
		const struct vt_model_process_group *group = &model->collectives.groups.data[i];

		if (strcmp(group->backend, "nccl") != 0 || !group->n_pending)
			continue;
		n++;
		only = group;
		if (group->oldest.started == 1 &&
		    (!started || group->oldest.age_ms > started->oldest.age_ms))
			started = group;
	}
	return started ? started : n == 1 && only->oldest.started < 0 ? only : NULL;
}

/* It waits there for the other ranks, as it does for an instant in each step: no alarm. */
static void add_collective_kernel(struct headlines *h)
{
	const struct vt_model_kernels *kernels = &h->model->kernels;
	const struct vt_model_process_group *group = group_on_device(h->model);

	if (vt_model_has_lost_context(h->model))
		return;
	for (size_t i = 0; i < kernels->kernels.n; i++) {
		const struct vt_model_kernel *kernel = &kernels->kernels.data[i];

		if (!is_of_nccl(kernel))
			continue;
		if (group)
			add(h, "collective-kernel", false,
			    "GPU %d is in a collective of NCCL, which waits for other ranks: %.*s of group %.*s, called %.1f s before",
			    kernel->device, MAX_NAME,
			    group->oldest.name ? group->oldest.name : "an operation", MAX_NAME,
			    group->description && *group->description ? group->description :
									group->name,
			    (double)group->oldest.age_ms / 1000);
		else
			add(h, "collective-kernel", false,
			    "GPU %d is in a collective of NCCL, which waits for other ranks",
			    kernel->device);
		return;
	}
}

#define IDLE_PERCENT 5  /* of the last moment, at most: nothing runs */
#define BUSY_PERCENT 50 /* at least: somebody's work runs */

/* A thread that computes in Python, NULL none. */
static const struct vt_model_thread *python_at_work(const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];

		if (t->state == 'R' && t->has_python && !t->idle && !t->syscall &&
		    !waits_for_device(t))
			return t;
	}
	return NULL;
}

static bool is_of_others(const struct vt_model *model, const struct vt_model_gpu *gpu)
{
	const struct vt_model_usage *usage = &model->usage;

	for (size_t i = gpu->first; i < gpu->first + gpu->n && i < usage->processes.n; i++)
		if (!usage->processes.data[i].ours)
			return true;
	return false;
}

/*
 * A device without any work of this process, both times and by NVML in the moment before, while
 * Python computes; or one that is busy with the work of others, while this process does nothing.
 */
static void add_idle_device(struct headlines *h, const struct vt_model_gpu *gpu)
{
	const struct vt_model_thread *t = python_at_work(h->model);
	char place[MAX_NAME * 3] = "", thread[THREAD_MAX];

	if (gpu->ordinal < 0 || gpu->parent >= 0 || !(gpu->health.known & VT_HEALTH_UTILISATION) ||
	    !vt_model_streams_are_idle(h->model, gpu->ordinal))
		return;
	if (gpu->health.busy_percent <= IDLE_PERCENT && t) {
		describe_place(place, sizeof(place), &t->stack);
		add(h, "host-bound", false, "GPU %d has nothing to do while %s%s computes%s",
		    gpu->ordinal, t->is_main ? "the main thread" : "thread ",
		    t->is_main ? "" : describe_thread(thread, t->tid, t->name), place);
	} else if (gpu->health.busy_percent >= BUSY_PERCENT && !t && gpu->processes_known &&
		   is_of_others(h->model, gpu)) {
		add(h, "busy-with-others", false,
		    "GPU %d is busy (%u %%) while all streams of this process that can be asked are idle: others use it, or a stream that is not known",
		    gpu->ordinal, gpu->health.busy_percent);
	}
}

static void add_idle_devices(struct headlines *h)
{
	const struct vt_model_usage *usage = &h->model->usage;

	if (vt_model_has_lost_context(h->model))
		return;
	for (size_t i = 0; i < usage->gpus.n; i++)
		add_idle_device(h, &usage->gpus.data[i]);
}

/* The owner of an allocator's lock has a line of its own. */
static bool holds_lock(const struct vt_model *model, pid_t tid)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].result.lock == VT_LOCK_HELD_BY &&
		    model->allocators.data[i].result.owner_tid == tid)
			return true;
	return false;
}

static void add_device_waits(struct headlines *h)
{
	const struct vt_model *model = h->model;
	int shown = 0;

	for (size_t i = 0; i < model->thread_groups.n && shown < MAX_OF_A_KIND; i++) {
		const struct vt_model_thread_group *g = &model->thread_groups.data[i];
		const struct vt_model_thread *t = &model->threads.data[g->first_thread];
		char doing[MAX_NAME * 2], place[MAX_NAME * 3], count[VT_NUM_MAX],
			thread[THREAD_MAX];

		if (t->is_main || g->idle || !waits_for_device(t) ||
		    (g->n_threads == 1 && (t->gil == 1 || holds_lock(model, t->tid))))
			continue;
		describe_doing(h, doing, sizeof(doing), t);
		describe_place(place, sizeof(place), &t->stack);
		if (g->n_threads == 1)
			add(h, "device-wait", t->state == 'D', "thread %s %s%s",
			    describe_thread(thread, t->tid, t->name), doing, place);
		else
			add(h, "device-wait", t->state == 'D',
			    "%s threads, one of them %s: each %s%s",
			    vt_format_count(count, g->n_threads),
			    describe_thread(thread, t->tid, t->name), doing, place);
		shown++;
	}
}

static size_t count_gil_waiters(const struct vt_model *model, pid_t holder)
{
	size_t n = 0;

	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_thread *t = &model->threads.data[i];

		n += t->waits_for == holder && t->verdict.code == VT_VERDICT_GIL;
	}
	return n;
}

/* The main thread as holder is worth a line only if others want the GIL. */
static void add_gil(struct headlines *h)
{
	for (size_t i = 0; i < h->model->threads.n; i++) {
		const struct vt_model_thread *t = &h->model->threads.data[i];
		char doing[MAX_NAME * 2], waiters[64] = "", count[VT_NUM_MAX], thread[THREAD_MAX];
		size_t n;

		if (t->gil != 1)
			continue;
		n = count_gil_waiters(h->model, t->tid);
		if (n > 0)
			snprintf(waiters, sizeof(waiters), "; %s thread%s for it",
				 vt_format_count(count, n), n == 1 ? " waits" : "s wait");
		describe_doing(h, doing, sizeof(doing), t);
		if (!t->is_main)
			add(h, "gil-held", false, "the GIL is held by thread %s%s%s%s",
			    describe_thread(thread, t->tid, t->name), doing[0] ? ", which " : "",
			    doing, waiters);
		else if (n > 0)
			add(h, "gil-held", false, "main thread holds the GIL%s", waiters);
		return;
	}
}

/* ---- memory ---- */

static void add_locks(struct headlines *h)
{
	int shown = 0;

	for (size_t i = 0; i < h->model->allocators.n && shown < MAX_OF_A_KIND; i++) {
		const struct vt_model_allocator *a = &h->model->allocators.data[i];
		const struct vt_model_thread *t = vt_model_thread(h->model, a->result.owner_tid);
		const char *name = a->owner_name;
		char doing[MAX_NAME * 2] = "", thread[THREAD_MAX];

		if ((!name || !*name) && t)
			name = t->name;
		if (a->result.lock != VT_LOCK_HELD_BY || a->result.owner_tid <= 0)
			continue;
		if (t)
			describe_doing(h, doing, sizeof(doing), t);
		/* A thread that runs gives it back: each allocation takes the lock for a moment. */
		add(h, "lock-held", !t || t->state != 'R',
		    "the allocator's lock of GPU %d is held by thread %s%s%s", a->device,
		    describe_thread(thread, a->result.owner_tid, name), doing[0] ? ", which " : "",
		    doing);
		shown++;
	}
}

static void add_ooms(struct headlines *h)
{
	int shown = 0;

	for (size_t i = 0; i < h->model->allocators.n && shown < MAX_OF_A_KIND; i++) {
		const struct vt_model_allocator *a = &h->model->allocators.data[i];
		char count[VT_NUM_MAX];

		if (!a->exact || !a->result.have_stats || a->result.stats.num_ooms <= 0)
			continue;
		add(h, "out-of-memory", true, "PyTorch counts %s out-of-memory error%s on GPU %d",
		    vt_format_count(count, (uint64_t)a->result.stats.num_ooms),
		    a->result.stats.num_ooms == 1 ? "" : "s", a->device);
		shown++;
	}
}

/* ", by train_step train.py:88": where the request was made, or "". */
static void describe_request(char *buf, size_t size, const struct vt_model *model,
			     const struct vt_model_oom *oom)
{
	const struct vt_model_frame *f = vt_oom_place(model, oom);
	const char *file = f && f->file ? f->file : f ? f->module : NULL;

	buf[0] = '\0';
	if (!f)
		return;
	if (file && f->line > 0)
		snprintf(buf, size, " by %.*s (%.*s:%d)", MAX_NAME,
			 f->function ? f->function : "??", MAX_NAME, vt_base_name(file), f->line);
	else if (file)
		snprintf(buf, size, " by %.*s (%.*s)", MAX_NAME, f->function ? f->function : "??",
			 MAX_NAME, vt_base_name(file));
	else if (f->function)
		snprintf(buf, size, " by %.*s", MAX_NAME, f->function);
}

static void add_request(struct headlines *h, const struct vt_model_oom *oom, uint32_t more)
{
	char requested[VT_NUM_MAX], place[MAX_NAME * 2 + 32], device[48] = "", others[64] = "",
							      thread[THREAD_MAX];

	describe_request(place, sizeof(place), h->model, oom);
	if (oom->device >= 0)
		snprintf(device, sizeof(device), " on GPU %d", oom->device);
	if (more)
		snprintf(others, sizeof(others), "; %" PRIu32 " more request%s failed at that time",
			 more, more == 1 ? "" : "s");
	add(h, "caught", true, "out of memory: %s asked for%s%s, in thread %s%s",
	    vt_format_size(requested, oom->requested), device, place,
	    describe_thread(thread, oom->tid, oom->thread), others);
}

/* Why it failed, in a sentence. */
static void add_verdict(struct headlines *h, const struct vt_model_caught *c)
{
	char needed[VT_NUM_MAX], free_text[VT_NUM_MAX], cached[VT_NUM_MAX], blocks[VT_NUM_MAX],
		largest[VT_NUM_MAX], held[VT_NUM_MAX], others[VT_NUM_MAX + 32] = "",
									   number[VT_NUM_MAX];

	vt_format_size(needed, c->needed_bytes);
	vt_format_size(free_text, c->oom->free_bytes);
	vt_format_size(cached, c->holes.bytes);
	vt_format_count(blocks, c->holes.blocks);
	vt_format_size(largest, c->largest_hole);
	vt_format_size(held, c->held_bytes);
	if (c->others_known)
		snprintf(others, sizeof(others), ", others hold %s",
			 vt_format_size(number, c->others_bytes));
	switch (c->verdict) {
	case VT_OOM_UNDECIDED:
		return;
	case VT_OOM_TOO_LARGE:
		add(h, "too-large", true, "the whole device has no more than %s",
		    vt_format_size(number, c->oom->total_bytes));
		return;
	case VT_OOM_LIMITED:
		if (c->limit_bytes) {
			add(h, "limited", true,
			    "limited: PyTorch may use %s of the device (set_per_process_memory_fraction), and has %s in use and %s "
			    "cached; %s were free",
			    vt_format_size(number, c->limit_bytes), held, cached, free_text);
			return;
		}
		if (c->message) {
			add(h, "limited", true,
			    "%s were free on the device, and PyTorch has no limit of its own: the driver refused it",
			    free_text);
			return;
		}
		add(h, "limited", true,
		    "%s were free on the device: PyTorch may not use as much (set_per_process_memory_fraction), or the driver "
		    "refused it",
		    free_text);
		return;
	case VT_OOM_ELSEWHERE:
		add(h, "elsewhere", true,
		    "PyTorch has a free block that is large enough, but keeps it for another stream, for a private pool, or unsplit "
		    "(max_split_size_mb); %s free on the device",
		    free_text);
		return;
	case VT_OOM_FRAGMENTED:
		add(h, "fragmented", true,
		    "fragmented: %s cached in %s free blocks, the largest %s; %s free on the device; in use: %s%s",
		    cached, blocks, largest, free_text, held, others);
		return;
	case VT_OOM_FULL:
		add(h, "full", true,
		    "full: PyTorch has %s in use%s; %s cached and %s free on the device are less than the %s needed",
		    held, others, cached, free_text, needed);
		return;
	}
}

static void add_caught(struct headlines *h)
{
	const struct vt_model_caught *c = &h->model->caught;

	if (!c->oom)
		return;
	add_request(h, c->oom, c->last - c->first);
	add_verdict(h, c);
}

/*
 * The exact allocator with the least free memory on its device that comes after `after` in that
 * order, or NULL.
 */
static const struct vt_model_allocator *next_fullest(const struct vt_model *model,
						     const struct vt_model_allocator *after,
						     uint64_t *free_bytes)
{
	const struct vt_model_allocator *best = NULL;
	uint64_t floor = after ? *free_bytes : 0;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];
		const struct vt_model_device *d = vt_model_device(model, a->device);

		if (!a->exact || a->reserved_bytes == 0 || !d || !d->have_memory)
			continue;
		if (after && (d->free_bytes < floor || (d->free_bytes == floor && a <= after)))
			continue;
		if (!best || d->free_bytes < *free_bytes) {
			best = a;
			*free_bytes = d->free_bytes;
		}
	}
	return best;
}

static void add_memory_line(struct headlines *h, const struct vt_model_allocator *a,
			    const struct vt_model_device *d)
{
	char in_use[VT_NUM_MAX], free_text[VT_NUM_MAX], cached[VT_NUM_MAX], largest[VT_NUM_MAX];
	/* A warm cache is PyTorch's own reserve: what it caches it need not ask the device for. */
	bool nearly_full = d->free_bytes + a->cached_bytes < d->total_bytes / 50;

	vt_format_size(in_use, a->allocated_bytes);
	vt_format_size(free_text, d->free_bytes);
	vt_format_size(cached, a->cached_bytes);
	vt_format_size(largest, a->largest_cached);
	if (a->cached_bytes == 0)
		add(h, "memory", nearly_full, "GPU %d: %s free; PyTorch uses %s and caches nothing",
		    a->device, free_text, in_use);
	else
		add(h, "memory", nearly_full,
		    "GPU %d: %s free; PyTorch uses %s and caches %s, largest hole %s", a->device,
		    free_text, in_use, cached, largest);
}

static void add_memory(struct headlines *h)
{
	const struct vt_model_allocator *a = NULL;
	uint64_t free_bytes = 0;

	for (int shown = 0; shown < MAX_OF_A_KIND; shown++) {
		a = next_fullest(h->model, a, &free_bytes);
		if (!a)
			return;
		add_memory_line(h, a, vt_model_device(h->model, a->device));
	}
}

/* The driver's pools hold most of what this process has on the device. */
static bool is_in_pools(const struct vt_model *model, const struct vt_model_device *d)
{
	const struct vt_model_ledger_device *l = vt_model_ledger_device(model, d->ordinal);
	uint64_t reserved = vt_model_pools_reserved(d);

	return reserved > 0 && (!l || reserved >= l->found_bytes - l->found_bytes / 2);
}

/* Where PyTorch's memory is the driver's: the device with the least free memory. */
static void add_pools(struct headlines *h)
{
	const struct vt_model_device *least = NULL;
	uint64_t used_bytes = 0;
	char free_text[VT_NUM_MAX], used[VT_NUM_MAX], kept[VT_NUM_MAX];

	for (size_t i = 0; i < h->model->devices.n && h->model->allocators.n == 0; i++) {
		const struct vt_model_device *d = &h->model->devices.data[i];

		if (d->have_memory && is_in_pools(h->model, d) &&
		    (!least || d->free_bytes < least->free_bytes))
			least = d;
	}
	if (!least)
		return;

	for (size_t i = 0; i < least->n_pools; i++)
		used_bytes += least->pools[i].used_bytes;
	add(h, "memory", least->free_bytes < least->total_bytes / 50,
	    "GPU %d: %s free; cudaMallocAsync uses %s and the driver's pool keeps %s",
	    least->ordinal, vt_format_size(free_text, least->free_bytes),
	    vt_format_size(used, used_bytes),
	    vt_format_size(kept, vt_model_pools_reserved(least) - used_bytes));
}

/*
 * What processes that have ended hold of the devices of this one: nothing frees it while something
 * of them remains (a child that shares it, a driver's thread).
 */
static void add_ended(struct headlines *h)
{
	const struct vt_model_usage *usage = &h->model->usage;
	char size[VT_NUM_MAX];
	uint64_t bytes = 0;
	size_t n = 0;

	for (size_t i = 0; i < usage->processes.n; i++) {
		const struct vt_model_counted *p = &usage->processes.data[i];

		if ((p->life != VT_LIFE_ZOMBIE && p->life != VT_LIFE_GONE) ||
		    !usage->gpus.data[p->gpu].is_ours)
			continue;
		bytes += p->bytes;
		n++;
	}
	if (n)
		add(h, "ended-holders", true,
		    "%s of its devices: held by %zu process%s that %s ended",
		    vt_format_size(size, bytes), n, n == 1 ? "" : "es", n == 1 ? "has" : "have");
}

/* "; XLA uses 3.1 GiB and caches 12.7 GiB, largest hole 12.0 GiB" of the library with the most. */
static bool add_libpool(struct headlines *h, const struct vt_model_ledger_device *l,
			const struct vt_model_device *d)
{
	char free_text[VT_NUM_MAX], used[VT_NUM_MAX], cached[VT_NUM_MAX], hole[VT_NUM_MAX];
	unsigned int most = 0;
	struct vt_libpool_sum sum;
	uint64_t bytes;

	for (unsigned int kind = 1; kind < VT_N_LIBPOOL_KINDS; kind++)
		if (l->claimed[VT_CLAIMER_LIBPOOLS + kind].bytes >
		    l->claimed[VT_CLAIMER_LIBPOOLS + most].bytes)
			most = kind;
	bytes = l->claimed[VT_CLAIMER_LIBPOOLS + most].bytes;
	sum = vt_libpool_sum(h->model, l->device, most, VT_LIBPOOLS_CLAIMED);
	if (bytes < l->found_bytes / 2 || !vt_libpool_sum_is_whole(&sum, bytes))
		return false;
	vt_format_size(hole, sum.largest_free);
	add(h, "memory", d->free_bytes < d->total_bytes / 50,
	    "GPU %d: %s free; %s uses %s and caches %s%s%s", l->device,
	    vt_format_size(free_text, d->free_bytes), vt_libpool_library(most),
	    vt_format_size(used, sum.used), vt_format_size(cached, bytes - sum.used),
	    sum.largest_free ? ", largest hole " : "", sum.largest_free ? hole : "");
	return true;
}

/* The same for a process in which other libraries allocate. */
static void add_ledger(struct headlines *h)
{
	const struct vt_model_ledger_device *least = NULL;
	char free_text[VT_NUM_MAX], found[VT_NUM_MAX], largest[VT_NUM_MAX];
	uint64_t free_bytes = 0, most = 0;

	for (size_t i = 0; i < h->model->ledger.devices.n && h->model->allocators.n == 0; i++) {
		const struct vt_model_ledger_device *l = &h->model->ledger.devices.data[i];
		const struct vt_model_device *d = vt_model_device(h->model, l->device);

		if (!d || !d->have_memory || !l->found_bytes || is_in_pools(h->model, d) ||
		    (least && d->free_bytes >= free_bytes))
			continue;
		least = l;
		free_bytes = d->free_bytes;
	}
	if (!least || add_libpool(h, least, vt_model_device(h->model, least->device)))
		return;
	for (int i = 0; i < VT_N_CLAIMERS; i++)
		if (least->claimed[i].largest > most)
			most = least->claimed[i].largest;
	for (int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		if (vt_range_is_of_device((uint8_t)kind) && least->kinds[kind].largest > most)
			most = least->kinds[kind].largest;
	add(h, "memory", free_bytes < vt_model_device(h->model, least->device)->total_bytes / 50,
	    "GPU %d: %s free; this process has allocated %s, the largest piece %s", least->device,
	    vt_format_size(free_text, free_bytes), vt_format_size(found, least->found_bytes),
	    vt_format_size(largest, most));
}

/* Pinned host memory that nothing uses and nothing else can have: worth a line from here on. */
#define MUCH_PINNED (UINT64_C(1) << 30)

static void add_pinned(struct headlines *h)
{
	const struct vt_model_pinned *p = &h->model->pinned;
	const struct vt_model_amount *cached = &p->states[VT_BLOCK_CACHED];
	char size[VT_NUM_MAX], total[VT_NUM_MAX];

	if (!p->exact || cached->bytes < MUCH_PINNED)
		return;
	add(h, "pinned-cached", false,
	    "%s of host memory is pinned, cached by PyTorch and not in use (of %s pinned)",
	    vt_format_size(size, cached->bytes), vt_format_size(total, p->total.bytes));
}

static void add_notices(struct headlines *h)
{
	const struct vt_model_owners *owners = &h->model->owners;

	for (size_t i = 0; i < owners->notices.n; i++) {
		const struct vt_model_notice *notice = &owners->notices.data[i];
		struct vt_str text = { 0 };

		vt_notice_words(&text, notice);
		add(h, vt_notice_code((enum vt_notice)notice->code), vt_notice_is_alarm(notice),
		    "%s", vt_str_get(&text));
		h->failed |= text.failed;
		vt_str_deinit(&text);
	}
}

bool vt_make_headlines(struct vt_model *model)
{
	struct headlines h = { .model = model };

	add_context_lost(&h);
	add_gpu_faults(&h);
	add_health(&h);
	add_caught(&h);
	add_process(&h);
	add_signal(&h);
	add_deadlocks(&h);
	add_stream_deadlocks(&h);
	add_main_thread(&h);
	add_kernels(&h);
	add_collective_kernel(&h);
	add_idle_devices(&h);
	add_locks(&h);
	add_device_waits(&h);
	add_memory(&h);
	add_pools(&h);
	add_ended(&h);
	add_ledger(&h);
	add_ooms(&h);
	add_notices(&h);
	add_pinned(&h);
	add_gil(&h);
	return !h.failed;
}
