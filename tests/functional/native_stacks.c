/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the native stacks of a process as this tool sees them, in the format of eu-stack:
 * native_stacks.py compares the two. With --time, how long each step took and how much memory was
 * used goes to standard error. With --lines, source lines and inlined functions are shown, these in
 * lines of their own before the frame that they are part of.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "target/elfsym.h"
#include "target/live.h"
#include "target/maps.h"
#include "target/session.h"
#include "target/snapshot.h"
#include "walk/native/native.h"

struct timing {
	uint64_t stopped, unwound, named, lines, start;
};

static void print_source(const char *file, int line)
{
	if (file)
		printf(" at %s:%d", file, line);
}

static void print_inlined(const struct vt_native_frame *frame)
{
	for (size_t i = 0; i < frame->n_inlined; i++) {
		const struct vt_native_source *source = &frame->inlined[i];

		printf("inlined %s", source->function ? source->function : "??");
		print_source(source->file, source->line);
		putchar('\n');
	}
}

static void print_frame(size_t n, const struct vt_native_frame *frame)
{
	print_inlined(frame);
	printf("#%-2zu 0x%016" PRIx64 "%s", n, frame->pc, frame->activation ? "    " : " - 1");
	if (frame->symbol)
		printf(" %s", frame->symbol);
	if (frame->function && (!frame->symbol || strcmp(frame->function, frame->symbol) != 0))
		printf(" [%s]", frame->function);
	if (frame->module)
		printf(" (%s+0x%" PRIx64 ")", frame->module->path, frame->module_offset);
	print_source(frame->file, frame->line);
	putchar('\n');
}

static void print_stack(const struct vt_native_stack *stack)
{
	printf("TID %d:\n", (int)stack->tid);
	for (size_t i = 0; i < stack->frames.n; i++)
		print_frame(i, &stack->frames.data[i]);
	if (stack->why[0])
		printf("why: %s\n", stack->why);
	printf("%s\n", stack->complete  ? "complete" :
		       stack->truncated ? "truncated" :
					  "incomplete");
}

static void print_times(const struct timing *t, const struct vt_session *session,
			const struct vt_native_stack *stacks)
{
	size_t frames = 0;
	char line[256];
	FILE *status = fopen("/proc/self/status", "r");

	for (size_t i = 0; i < session->threads.n; i++)
		frames += stacks[i].frames.n;
	fprintf(stderr,
		"%zu threads, %zu frames, stopped for %.1f ms, unwound in %.1f ms, named in %.1f ms, "
		"lines in %.1f ms\n",
		session->threads.n, frames,
		(double)(session->stop_end_ns - session->stop_begin_ns) / VT_NS_PER_MS,
		(double)(t->unwound - t->stopped) / VT_NS_PER_MS,
		(double)(t->named - t->unwound) / VT_NS_PER_MS,
		(double)(t->lines - t->named) / VT_NS_PER_MS);
	while (status && fgets(line, sizeof(line), status))
		if (!strncmp(line, "VmHWM", 5) || !strncmp(line, "Rss", 3) ||
		    !strncmp(line, "VmRSS", 5))
			fputs(line, stderr);
	if (status)
		fclose(status);
}

static struct vt_error *unwind(struct vt_modules *modules, const struct vt_session *session,
			       struct vt_memsrc *src, struct vt_native_stack *stacks)
{
	struct vt_unwinder *unwinder;
	struct vt_error *err = NULL;

	VT_TRY(vt_unwinder_create(modules, src, &unwinder));
	for (size_t i = 0; i < session->threads.n && !err; i++) {
		const struct vt_session_thread *thread = &session->threads.data[i];

		stacks[i].tid = thread->tid;
		if (thread->stopped)
			err = vt_unwinder_walk(unwinder, thread->tid, &thread->regs, &stacks[i]);
		else
			snprintf(stacks[i].why, sizeof(stacks[i].why), "%s", thread->why);
	}
	vt_unwinder_destroy(unwinder);
	return err;
}

static struct vt_error *find_lines(struct vt_modules *modules, struct vt_native_stack *stacks,
				   size_t n, uint64_t budget_ns, struct vt_arena *arena)
{
	struct vt_native_lines *lines;
	size_t missing;

	VT_TRY(vt_native_lines_start(modules, stacks, n, budget_ns, NULL, &lines));

	struct vt_error *err = vt_native_lines_finish(lines, arena, &missing);

	vt_native_lines_destroy(lines);
	if (!err && missing)
		fprintf(stderr, "no lines for %zu addresses\n", missing);
	return err;
}

static struct vt_error *print_stacks(pid_t pid, bool times, uint64_t lines_ns)
{
	static const struct vt_snapshot_limits limits = { .per_thread = 1024 * 1024,
							  .total = 64 * 1024 * 1024 };
	struct timing t = { .start = vt_now_ns() };
	struct vt_maps maps = { 0 };
	struct vt_modules modules = { 0 };
	struct vt_live *live = NULL;
	struct vt_session session = { 0 };
	struct vt_snapshot *snapshot = NULL;
	struct vt_arena arena = { 0 };

	VT_TRY(vt_maps_init(&maps, pid));
	VT_TRY(vt_modules_init(&modules, pid, &maps));
	VT_TRY(vt_live_create(pid, &live));
	VT_TRY(vt_snapshot_create(live, &limits, 0, &snapshot));
	VT_TRY(vt_session_stop_all(&session, pid, live, VT_NS_PER_S));

	struct vt_error *err = vt_snapshot_take(snapshot, &session, &maps);

	vt_session_resume(&session);
	if (err)
		return err;

	struct vt_native_stack *stacks = calloc(session.threads.n, sizeof(*stacks));

	if (!stacks)
		return &vt_enomem;
	t.stopped = vt_now_ns();
	err = unwind(&modules, &session, vt_snapshot_source(snapshot), stacks);
	t.unwound = vt_now_ns();
	if (!err)
		err = vt_native_symbolise(&modules, stacks, session.threads.n, &arena);
	t.named = vt_now_ns();
	if (!err && lines_ns)
		err = find_lines(&modules, stacks, session.threads.n, lines_ns, &arena);
	t.lines = vt_now_ns();
	for (size_t i = 0; !err && i < session.threads.n; i++)
		print_stack(&stacks[i]);
	if (times)
		print_times(&t, &session, stacks);
	for (size_t i = 0; i < session.threads.n; i++)
		vt_native_stack_deinit(&stacks[i]);
	free(stacks);
	vt_snapshot_destroy(snapshot);
	vt_session_deinit(&session);
	vt_live_destroy(live);
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
	vt_arena_deinit(&arena);
	return err;
}

int main(int argc, char **argv)
{
	/* Generous: what is compared is what it says, not how long it may take on this machine. */
	uint64_t lines_ns = 0;
	bool times = false;
	int i = 1;

	for (; i < argc - 1; i++) {
		times |= !strcmp(argv[i], "--time");
		if (!strcmp(argv[i], "--lines"))
			lines_ns = 60 * VT_NS_PER_S;
		if (!strncmp(argv[i], "--lines=", 8))
			lines_ns = (uint64_t)atoi(argv[i] + 8) * VT_NS_PER_MS;
	}
	if (i >= argc || atoi(argv[i]) <= 0) {
		fprintf(stderr, "usage: native_stacks [--time] [--lines[=MILLISECONDS]] PID\n");
		return 64;
	}

	VT_ERROR struct vt_error *err = print_stacks((pid_t)atoi(argv[i]), times, lines_ns);

	if (err)
		fprintf(stderr, "native_stacks: %s\n", err->message);
	return err ? 2 : 0;
}
