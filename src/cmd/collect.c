/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/collect.h"

#include <string.h>

#include "base/clock.h"
#include "cmd/progress.h"
#include "cmd/watchdog.h"
#include "inject/inject.h"

/* How long a second vramtap waits for the first one to finish. */
#define LOCK_WAIT_NS (10 * VT_NS_PER_S)

const char *vt_collect_copy(struct vt_collect *c, const char *text, size_t size)
{
	const char *dup = vt_arena_strndup(&c->model->arena, text, strnlen(text, size));

	return dup ? dup : "";
}

void vt_collect_diag_error(struct vt_collect *c, enum vt_diag_level level, const char *stage, const char *what,
			   struct vt_error *err)
{
	vt_model_diag(c->model, level, stage, vt_error_code_name(err->code), "%s: %s", what, err->message);
	vt_error_destroy(err);
}

/* Kinds of process of which nothing can be learned. */
static struct vt_error *refuse_hopeless(const struct vt_proc *proc)
{
	if (proc->kernel_thread)
		return vt_error_create(VT_ERR_UNSUPPORTED, "%d (%s) is a kernel thread: it has no memory of its own to read",
				       proc->pid, proc->name);
	if (proc->state == 'Z' || proc->state == 'X')
		return vt_error_create(VT_ERR_GONE,
				       "%d (%s) is a zombie: it has ended, only its parent %d has not collected it yet",
				       proc->pid, proc->name, proc->ppid);
	return NULL;
}

/* Turns a bare "not permitted" into what is in the way and how to move it. */
static struct vt_error *explain_permission(struct vt_collect *c, struct vt_error *err)
{
	if (!err || err->code != VT_ERR_PERMISSION)
		return err;

	char *why = vt_proc_why_not_permitted(&c->proc, &c->model->arena);

	if (!why)
		return err;
	vt_error_destroy(err);
	return vt_error_create(VT_ERR_PERMISSION, "not permitted to look into %d (%s): %s", c->proc.pid, c->proc.name, why);
}

/* Everything here takes milliseconds, but a lock of the process's memory map may be in the way. */
#define OPEN_NS (60 * VT_NS_PER_S)

static struct vt_error *read_target(struct vt_collect *c, pid_t pid)
{
	VT_TRY(vt_proc_init(&c->proc, pid));
	vt_collect_identity(c);
	VT_TRY(refuse_hopeless(&c->proc));
	VT_TRY(explain_permission(c, vt_live_create(pid, &c->live)));
	VT_TRY(explain_permission(c, vt_maps_init(&c->maps, pid)));
	return vt_modules_init(&c->modules, pid, &c->maps);
}

static struct vt_error *open_target(struct vt_collect *c, pid_t pid)
{
	vt_watchdog_arm(OPEN_NS, pid, "its memory map is read");

	struct vt_error *err = read_target(c, pid);

	vt_watchdog_disarm();
	return err;
}

static struct vt_error *lock_target(struct vt_collect *c, uint64_t wait_ns)
{
	vt_progress("waiting for another vramtap to finish with this process");
	return vt_inject_lock(c->proc.pid, vt_now_ns() + wait_ns, &c->lock_fd);
}

static struct vt_error *collect_report(struct vt_collect *c, pid_t pid)
{
	VT_TRY(open_target(c, pid));
	if (!c->options->no_stop) /* without ptrace nobody is in our way, nor we in theirs */
		VT_TRY(lock_target(c, LOCK_WAIT_NS));
	vt_collect_find_torch(c);
	if (!c->options->read_only)
		vt_progress("getting inside the process");
	vt_collect_inside(c);
	vt_collect_say_backend(c);
	vt_progress("reading the stacks");
	vt_collect_outside_prepare(c);
	vt_collect_threads(c);
	if (c->options->no_stop)
		vt_progress("waiting for a moment when the allocator does not change");
	vt_collect_outside_finish(c);
	vt_collect_pinned(c);
	return NULL;
}

static struct vt_error *collect_stacks(struct vt_collect *c, pid_t pid)
{
	c->stacks_only = true;
	VT_TRY(open_target(c, pid));
	if (!c->options->no_stop)
		VT_TRY(lock_target(c, c->options->budget_ns));
	vt_progress("reading the stacks");
	vt_collect_threads(c);
	return NULL;
}

static struct vt_error *run_stages(pid_t pid, const struct vt_collect_options *options, struct vt_model *model,
				   struct vt_error *(*stages)(struct vt_collect *c, pid_t pid))
{
	struct vt_collect c = { .options = options, .model = model, .start_ns = vt_now_ns(), .lock_fd = -1 };

	model->tool_version = PACKAGE_VERSION;
	model->view = options->view;
	model->no_stop = options->no_stop;
	clock_gettime(CLOCK_REALTIME, &model->when);
	vt_progress("reading the process");

	struct vt_error *err = stages(&c, pid);

	if (!err && !vt_proc_is_alive(&c.proc))
		vt_model_diag(model, VT_DIAG_MISSING, "process", "gone", "the process ended while it was being looked at");
	if (c.lock_fd >= 0)
		close(c.lock_fd);
	vt_modules_deinit(&c.modules);
	vt_maps_deinit(&c.maps);
	vt_live_destroy(c.live);
	vt_proc_deinit(&c.proc);
	if (err)
		return err;
	model->timing.total_ms = (double)(vt_now_ns() - c.start_ns) / VT_NS_PER_MS;
	vt_model_account(model); /* out of memory it is partial, and says so */
	return NULL;
}

struct vt_error *vt_collect_process(pid_t pid, const struct vt_collect_options *options, struct vt_model *model)
{
	return run_stages(pid, options, model, collect_report);
}

struct vt_error *vt_collect_stacks(pid_t pid, const struct vt_collect_options *options, struct vt_model *model)
{
	return run_stages(pid, options, model, collect_stacks);
}
