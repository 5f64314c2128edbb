/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The local memory of kernels, which is a part of each context: its size follows from a limit of
 * the context. That question waits while another thread frees memory on a device that hangs. So it
 * is the last one, after the stop: only if the stacks of all threads are known, and none of them is
 * inside the driver, except where it does not matter.
 */
#include <string.h>

#include "base/clock.h"
#include "collect/collect.h"
#include "collect/driver_waits.h"
#include "inject/inject.h"

#define DEADLINE_NS (250 * VT_NS_PER_MS) /* an answer takes 0.1; a busy machine, longer */
#define MAX_AGE_NS (250 * VT_NS_PER_MS)  /* of the stacks; reading sources can take a minute */
#define DRIVER "libcuda.so"

static bool is_of_driver(const struct vt_model_frame *f)
{
	return f->kind == VT_FRAME_NATIVE && f->module &&
	       !strncmp(f->module, DRIVER, sizeof(DRIVER) - 1);
}

static bool is_of_libc(const struct vt_model_frame *f)
{
	return f->kind == VT_FRAME_NATIVE && f->module &&
	       (!strncmp(f->module, "libc.so", 7) || !strncmp(f->module, "libc-2", 6) ||
		!strncmp(f->module, "libpthread", 10));
}

/*
 * The driver's own threads: they begin in it, and sleep in a system call that libc makes. One that
 * runs a function of the program (cuLaunchHostFunc) may have come back into the driver.
 */
static bool is_drivers_own(const struct vt_model_stack *stack)
{
	size_t n = stack->n_frames;

	while (n > 0 && is_of_libc(&stack->frames[n - 1]))
		n--;
	if (n == 0 || !is_of_driver(&stack->frames[n - 1]) || !is_of_libc(&stack->frames[0]))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!is_of_driver(&stack->frames[i]) && !is_of_libc(&stack->frames[i]))
			return false;
	return true;
}

static bool is_of_runtime(const struct vt_model_frame *f)
{
	return f->kind == VT_FRAME_NATIVE && f->module && !strncmp(f->module, "libcudart", 9);
}

/* In the driver once, by a harmless function: not by a callback within it, or a namesake. */
static bool only_waits(const struct vt_model_stack *stack)
{
	size_t i = 0, n = stack->n_frames;
	bool found = false;

	while (i < n && !is_of_driver(&stack->frames[i]))
		i++;
	for (; i < n && is_of_driver(&stack->frames[i]); i++)
		found = found || vt_driver_only_waits(stack->frames[i].function);
	for (; i < n && is_of_runtime(&stack->frames[i]); i++)
		found = found || vt_driver_only_waits(stack->frames[i].function);
	for (; i < n; i++)
		if (is_of_driver(&stack->frames[i]))
			return false;
	return found;
}

bool vt_collect_may_be_in_driver(const struct vt_model_thread *t)
{
	bool in_driver = false;

	if (t->taken == VT_TAKEN_RUNNING || !t->stack.has_native || t->stack.truncated ||
	    t->stack.why)
		return true;
	for (size_t i = 0; i < t->stack.n_frames; i++)
		in_driver = in_driver || is_of_driver(&t->stack.frames[i]);
	return in_driver && !only_waits(&t->stack) &&
	       !(vt_driver_is_idle_in(t->syscall) && is_drivers_own(&t->stack));
}

static bool is_safe(const struct vt_collect *c)
{
	const struct vt_model *model = c->model;

	if (!model->threads.n || c->stop.n_escaped || !model->timing.stop_end_ns ||
	    vt_now_ns() - model->timing.stop_end_ns > MAX_AGE_NS)
		return false;
	for (size_t i = 0; i < model->threads.n; i++)
		if (vt_collect_may_be_in_driver(&model->threads.data[i]))
			return false;
	return true;
}

static void take(struct vt_model_ledger *ledger, struct vt_helper *helper)
{
	for (size_t i = 0; i < ledger->devices.n; i++) {
		struct vt_model_ledger_device *d = &ledger->devices.data[i];
		struct vt_device_limits limits; /* a copy: the target could change it */

		if (d->device < 0 || d->device >= VT_MAX_CUDA_DEVICES)
			continue;
		limits = vt_helper_shared(helper)->limits[d->device];
		d->local.known = limits.known;
		d->local.stack_bytes = limits.stack_bytes;
		d->local.multiprocessors = limits.multiprocessors;
		d->local.threads = limits.threads;
	}
}

bool vt_collect_limits_wanted(const struct vt_collect *c)
{
	return c->model->ledger.known && !c->model->ledger.by_attributes && c->helper_tid &&
	       !c->options->allow_resume && (c->options->want & VT_WANT_THREADS);
}

void vt_collect_limits(struct vt_collect *c)
{
	struct vt_error *err = NULL;

	if (!c->helper || !vt_collect_limits_wanted(c))
		return;
	if (is_safe(c)) {
		err = vt_helper_call(c->helper, VT_OP_LIMITS, vt_now_ns() + DEADLINE_NS);
		if (!err)
			take(&c->model->ledger, c->helper);
	}
	vt_error_destroy(err); /* it is a part of the rest then, as without the question */
}
