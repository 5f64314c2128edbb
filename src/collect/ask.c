/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper asks PyTorch for its blocks, through the interpreter in the process: if their layout
 * is not understood, or if the user wants it. Only after a look from outside showed that neither
 * the GIL nor the allocators' mutexes are held by a thread that hangs; see doc/SAFETY.md.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "collect/collect.h"
#include "inject/inject.h"
#include "walk/python/ask.h"
#include "walk/torch/told.h"

#define WATCH_NS VT_NS_PER_S             /* the GIL, from outside */
#define GIL_WAIT_NS (2 * VT_NS_PER_S)    /* the GIL, inside */
#define MUTEX_WAIT_NS (5 * VT_NS_PER_MS) /* the mutexes, inside, with the GIL */
#define LOCKED_NS (50 * VT_NS_PER_MS)    /* the mutexes, from outside */
/* minor release of CPython from which calls do not run the garbage collector */
#define COLLECTS_BETWEEN 12
/* PyTorch makes a dictionary per block: 300 bytes, and 0.6 µs with the GIL */
#define MAX_BLOCKS 500000
#define TRIES 4 /* if the allocator changes during the question */
#define TRY_PAUSE_NS (5 * VT_NS_PER_MS)

/*
 * Without an answer, the user must know what the helper's thread does to the process from now on.
 */
static struct vt_error *explain_silence(struct vt_helper *helper)
{
	bool has_gil = __atomic_load_n(&vt_helper_shared(helper)->gil.has_gil, __ATOMIC_ACQUIRE);

	if (has_gil)
		return vt_error_create(
			VT_ERR_TIMEOUT,
			"it did not return, and the thread \"vramtap\" in the process still holds the GIL: no Python code can run there");
	return vt_error_create(
		VT_ERR_TIMEOUT,
		"the GIL was not released; the thread \"vramtap\" in the process still waits for it, holds nothing, and ends once it gets it");
}

/* Every mutex was seen unlocked within the time. */
static struct vt_error *watch_mutexes(struct vt_memsrc *src, const struct vt_ask_pytorch_args *args)
{
	uint64_t start = vt_now_ns();

	for (int i = 0; i < args->n_devices; i++) {
		for (;;) {
			int32_t tid = vt_torch_mutex_tid(src, args->mutexes[i]);

			if (tid == 0)
				break;
			if (tid < 0)
				return vt_error_create(
					VT_ERR_FAULT,
					"the lock of PyTorch's allocator of GPU %d is unreadable",
					i);
			if (vt_now_ns() - start > LOCKED_NS)
				return vt_error_create(
					VT_ERR_BUSY,
					"thread %d holds the lock of PyTorch's allocator of GPU %d",
					(int)tid, i);
			vt_sleep_ns(VT_NS_PER_MS);
		}
	}
	return NULL;
}

struct vt_error *vt_collect_watch_allocator(struct vt_collect *c)
{
	struct vt_ask_pytorch_args args = { 0 };

	if (c->torch.allocator)
		args.n_devices = vt_torch_mutexes(vt_live_source(c->target.live),
						  c->torch.allocator, args.mutexes);
	return watch_mutexes(vt_live_source(c->target.live), &args);
}

/* Fills args, and makes sure that the question keeps no thread waiting. */
static struct vt_error *prepare(struct vt_collect *c, struct vt_python *py,
				struct vt_ask_pytorch_args *args)
{
	struct vt_memsrc *src = vt_live_source(c->target.live);

	*args = (struct vt_ask_pytorch_args){
		.mutex_wait_ns = MUTEX_WAIT_NS,
		.max_blocks = MAX_BLOCKS,
	};
	args->n_devices = vt_torch_mutexes(src, c->torch.allocator, args->mutexes);
	if (!args->n_devices)
		return vt_error_create(
			VT_ERR_NOTFOUND,
			"the locks of PyTorch's allocator were not found, so their owners are unknown");
	VT_TRY(watch_mutexes(src, args));
	return vt_collect_prepare_python(c, py, &args->python);
}

struct vt_error *vt_collect_prepare_python(struct vt_collect *c, struct vt_python *py,
					   struct vt_ask_python_args *args)
{
	args->gil_wait_ns = GIL_WAIT_NS;
	VT_TRY(vt_python_find(py, &c->target.modules, c->target.live));
	VT_TRY(vt_python_imports(py, &c->target.modules, &args->imports));
	args->stop_collector = py->minor < COLLECTS_BETWEEN;
	return vt_python_watch_gil(py, vt_live_source(c->target.live), WATCH_NS);
}

struct vt_error *vt_collect_call_python(struct vt_collect *c, struct vt_helper *helper,
					unsigned int op)
{
	struct vt_model_timing *timing = &c->model->timing;
	struct vt_error *err;

	/* The helper adds up the cost of a request that is repeated with more room. */
	vt_helper_shared(helper)->gil.waited_ns = 0;
	vt_helper_shared(helper)->gil.held_ns = 0;
	err = vt_helper_call(helper, (enum vt_helper_op)op,
			     vt_now_ns() + GIL_WAIT_NS + c->options->budget_ns);
	timing->gil_wait_ms += (double)vt_helper_shared(helper)->gil.waited_ns / VT_NS_PER_MS;
	timing->gil_held_ms += (double)vt_helper_shared(helper)->gil.held_ns / VT_NS_PER_MS;
	if (!err || err->code != VT_ERR_TIMEOUT)
		return err;
	vt_error_destroy(err);
	return explain_silence(helper);
}

static struct vt_error *call(struct vt_collect *c, struct vt_helper *helper,
			     const struct vt_ask_pytorch_args *args)
{
	vt_helper_shared(helper)->args.ask_pytorch = *args;
	return vt_collect_call_python(c, helper, VT_OP_ASK_PYTORCH);
}

/* The helper's records, checked: nothing from inside is trusted. */
static struct vt_error *judge(const struct vt_helper_shared *shared,
			      const struct vt_block_rec *recs, size_t n,
			      struct vt_torch_device_result *results, int n_devices)
{
	VT_FREE struct vt_ask_pytorch_answer *answer = malloc(sizeof(*answer));
	uint64_t done = 0;

	if (!answer)
		return &vt_enomem;
	*answer = shared->asked; /* a copy: the target could change it */
	for (int i = 0; i < n_devices; i++) {
		done += vt_torch_judge(recs + done, n - done, i, &answer->before[i],
				       &answer->after[i], &results[i]);
		results[i].walk_ns = results[i].read_ns = shared->gil.held_ns;
	}
	if (done != n)
		return vt_error_create(VT_ERR_FORMAT, "PyTorch did not list its blocks by device");
	return NULL;
}

static bool is_settled(const struct vt_torch_device_result *results, int n)
{
	for (int i = 0; i < n; i++)
		if (results[i].result == VT_WALK_UNSTABLE)
			return false;
	return true;
}

/* One question; its blocks and the verdict on them. */
struct told {
	struct vt_block_rec *blocks;
	size_t n;
	void (*release)(struct vt_block_rec *blocks, size_t n);
	struct vt_torch_device_result results[VT_TORCH_MAX_DEVICES];
};

static void forget_told(struct told *told)
{
	if (told->release)
		told->release(told->blocks, told->n);
	*told = (struct told){ 0 };
}

static struct vt_error *ask_once(struct vt_collect *c, struct vt_helper *helper,
				 const struct vt_ask_pytorch_args *args, struct told *told)
{
	struct vt_error *err;

	VT_TRY(call(c, helper, args));
	VT_TRY(vt_helper_take_told(helper, &told->blocks, &told->n, &told->release));
	err = judge(vt_helper_shared(helper), told->blocks, told->n, told->results,
		    args->n_devices);
	if (err)
		forget_told(told);
	for (int i = 0; i < args->n_devices; i++)
		told->results[i].allocator = args->mutexes[i];
	return err;
}

static void keep_told(struct vt_collect *c, const struct told *told, int n_devices)
{
	struct vt_model *model = c->model;

	model->blocks = told->blocks;
	model->n_blocks = told->n;
	model->blocks_release = told->release;
	model->torch_method = VT_METHOD_INTERPRETER;
	model->torch_state = VT_ALLOCATOR_NATIVE;
	model->timing.walk_ms = model->timing.gil_held_ms;
	vt_collect_add_allocators(c, VT_METHOD_INTERPRETER, told->results, (size_t)n_devices);
}

static struct vt_error *ask(struct vt_collect *c, struct vt_helper *helper, struct vt_python *py,
			    struct vt_ask_pytorch_args *args)
{
	struct told told = { 0 };

	VT_TRY(prepare(c, py, args));
	VT_TRY(ask_once(c, helper, args, &told));
	for (int i = 1; i < TRIES && !is_settled(told.results, args->n_devices); i++) {
		struct told again = { 0 };

		vt_sleep_ns(TRY_PAUSE_NS);

		struct vt_error *err = ask_once(c, helper, args, &again);

		if (err) { /* the rest is usable, and says that it is not exact */
			vt_error_destroy(err);
			break;
		}
		forget_told(&told);
		told = again;
	}
	keep_told(c, &told, args->n_devices);
	return NULL;
}

struct vt_error *vt_collect_ask_pytorch(struct vt_collect *c, struct vt_helper *helper,
					struct vt_ask_pytorch_args *args)
{
	struct vt_python py = { 0 };
	struct vt_error *err = ask(c, helper, &py, args);

	vt_python_deinit(&py);
	vt_live_drop_cache(c->target.live); /* the stacks are read later, and want today's */
	return err;
}

bool vt_collect_nothing_reserved(struct vt_collect *c, struct vt_helper *helper,
				 const struct vt_ask_pytorch_args *args)
{
	struct vt_ask_pytorch_args counters = *args;

	counters.only_stats = 1;

	VT_ERROR struct vt_error *err = call(c, helper, &counters);

	if (err)
		return false;
	for (size_t i = 0; i < c->model->allocators.n; i++) {
		const struct vt_model_allocator *a = &c->model->allocators.data[i];
		struct vt_torch_stat now, then = a->result.stats.reserved_bytes;

		if (a->device < 0 || a->device >= VT_TORCH_MAX_DEVICES)
			return false;
		now = vt_helper_shared(helper)->asked.before[a->device].reserved_bytes;
		if (now.current != then.current || now.allocated != then.allocated ||
		    now.freed != then.freed)
			return false;
	}
	return true;
}

void vt_collect_say_asked(struct vt_collect *c)
{
	const struct vt_model_timing *timing = &c->model->timing;

	if (c->torch.backend == VT_TORCH_UNKNOWN)
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "asked-pytorch",
			"the layout of PyTorch's allocator is not understood (%s), so PyTorch itself was asked for its "
			"blocks, through the process's Python interpreter; that held the GIL for %.1f ms",
			c->torch.why, timing->gil_held_ms);
	else
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "asked-pytorch",
			"PyTorch itself was asked for its blocks, through the process's Python interpreter; that held the "
			"GIL for %.1f ms",
			timing->gil_held_ms);
}
