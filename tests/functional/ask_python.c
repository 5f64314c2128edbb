/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ask_python PID WAIT_MS [MUTEX | watch]: has the helper take the GIL of a process to ask PyTorch,
 * whoever holds it: without what the report looks at before, except with "watch". Waits so long and
 * prints what came back in one line. With the address of a mutex (of GPU 0) it asks for the blocks,
 * else for the counters of none. For report_official.py.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inject/inject.h"
#include "walk/python/ask.h"
#include "walk/torch/told.h"

static void print_told(struct vt_helper *helper)
{
	void (*release)(struct vt_block_rec * blocks, size_t n) = NULL;
	struct vt_torch_device_result result;
	struct vt_block_rec *blocks = NULL;
	size_t n = 0;

	VT_ERROR struct vt_error *err = vt_helper_take_told(helper, &blocks, &n, &release);

	if (err) {
		puts(err->message);
		return;
	}
	vt_torch_judge(blocks, n, 0, &vt_helper_shared(helper)->asked.before[0],
		       &vt_helper_shared(helper)->asked.after[0], &result);
	printf("%zu blocks, %" PRIu64 " of GPU 0, result %d%s%s\n", n, result.blocks, result.result,
	       result.why[0] ? ": " : "", result.why);
	release(blocks, n);
}

struct session {
	struct vt_proc proc;
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_live *live;
	struct vt_python py;
	struct vt_helper *helper;
};

static struct vt_error *ask(struct session *s, pid_t pid, uint64_t wait_ns, uint64_t mutex,
			    bool watch)
{
	struct vt_inject_options options = { .budget_ns = 20 * VT_NS_PER_S };
	struct vt_inject_timing timing = { 0 };
	struct vt_ask_pytorch_args args = {
		.python.gil_wait_ns = wait_ns,
		.mutex_wait_ns = wait_ns,
		.max_blocks = 20000,
		.n_devices = 1,
		.only_stats = !mutex,
		.mutexes = { mutex },
	};

	VT_TRY(vt_proc_init(&s->proc, pid));
	VT_TRY(vt_maps_init(&s->maps, pid));
	VT_TRY(vt_modules_init(&s->modules, pid, &s->maps));
	VT_TRY(vt_live_create(pid, &s->live));
	VT_TRY(vt_python_find(&s->py, &s->modules, s->live));
	VT_TRY(vt_python_imports(&s->py, &s->modules, &args.python.imports));
	if (watch)
		VT_TRY(vt_python_watch_gil(&s->py, vt_live_source(s->live), wait_ns));
	VT_TRY(vt_helper_create(&s->proc, &s->modules, s->live, &options, &timing, &s->helper));
	vt_helper_shared(s->helper)->args.ask_pytorch = args;
	VT_TRY(vt_helper_call(s->helper, VT_OP_ASK_PYTORCH, vt_now_ns() + wait_ns));
	print_told(s->helper);
	return NULL;
}

int main(int argc, char **argv)
{
	struct session s = { 0 };

	if (argc < 3 || argc > 4)
		return 64;

	struct vt_error *err = ask(&s, atoi(argv[1]), (uint64_t)atoi(argv[2]) * VT_NS_PER_MS,
				   argc > 3 ? strtoull(argv[3], NULL, 0) : 0,
				   argc > 3 && !strcmp(argv[3], "watch"));

	if (err)
		puts(err->message);
	vt_error_destroy(err);
	vt_helper_destroy(s.helper);
	vt_python_deinit(&s.py);
	vt_live_destroy(s.live);
	vt_modules_deinit(&s.modules);
	vt_maps_deinit(&s.maps);
	vt_proc_deinit(&s.proc);
	return 0;
}
