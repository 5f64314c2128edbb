/* SPDX-License-Identifier: Apache-2.0 */
#include "record/run_gate.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/str.h"
#include "base/exit.h"
#include "inject/recorder/gate.h"
#include "record/loaded.h"
#include "record/run_oom.h"

/* At the gate: less than the patience of the process (VT_GATE_PATIENCE_MS). */
#define GATE_BUDGET_NS (4 * VT_NS_PER_S)
/* Later, while the process runs. */
#define LATER_BUDGET_NS (5 * VT_NS_PER_S)
#define FIRST_LOOK_MS 100
#define LAST_LOOK_MS 5000
/*
 * How often the driver's calls are searched again if there is a CUDA runtime: they may not be
 * visible through it.
 */
#define DRIVER_TRIES 5

static void say(const struct vt_run_gate *gate, const struct vt_record_target *target,
		const char *text)
{
	const char *command = target->process.proc.name;
	struct vt_str line = { 0 };

	if (gate->quiet)
		return;
	vt_str_addf(&line, "vramtap: ");
	vt_str_add_escaped(&line, command, strlen(command));
	vt_str_addf(&line, " (%d) ", (int)target->process.proc.pid);
	vt_str_add_escaped(&line, text, strlen(text));
	fprintf(stderr, "%s\n", vt_str_get(&line));
	vt_str_deinit(&line);
}

static void say_recorded(const struct vt_run_gate *gate, const struct vt_record_target *target,
			 bool caught)
{
	bool later = gate->request.driver && !target->head->driver_method;
	const char *driver = later ? "not all of its libraries are loaded yet" : target->no_driver;
	char text[512];

	if (!gate->request.driver)
		driver = "";
	snprintf(
		text, sizeof(text),
		"is recorded from its first allocation on; vramtap report %d shows what it holds%s%s%s%s",
		(int)target->process.proc.pid, caught ? "; out-of-memory errors are saved" : "",
		*driver ? " (driver: " : "", driver, *driver ? ")" : "");
	say(gate, target, text);
}

static struct vt_error *forget_run(int fd)
{
	uint32_t status;

	return vt_gate_call(fd, VT_GATE_FORGET, NULL, vt_now_ns() + GATE_BUDGET_NS, &status);
}

static struct vt_error *record_at_gate(const struct vt_run_gate *gate,
				       struct vt_record_target *target, pid_t pid, int fd)
{
	VT_TRY(vt_record_open(target, pid, GATE_BUDGET_NS));
	target->gate = fd;
	vt_fault_point("run.gate");
	VT_TRY(vt_record_on(target, &gate->request));
	return gate->children ? NULL : forget_run(fd);
}

/* What is still not recorded, though it should be. */
struct missing {
	bool torch;
	bool driver;
};

static struct missing what_is_missing(const struct vt_run_gate *gate,
				      const struct vt_record_target *target)
{
	return (struct missing){
		.torch = !target->head->config.torch.object,
		.driver = gate->request.driver && !target->head->driver_method,
	};
}

/* Before the process goes on: its first allocation may be too large. */
static void catch_errors(const struct vt_run_gate *gate, const struct vt_record_target *target,
			 struct vt_run_oom *oom)
{
	struct vt_error *err;

	__atomic_add_fetch(gate->processes, 1, __ATOMIC_RELAXED);
	oom->ended = !oom->pattern;
	err = oom->ended ? NULL : vt_run_oom_begin(oom, target);
	if (!err)
		return;
	err = vt_error_prefix(err, "process %d: errors are not caught",
			      (int)target->process.proc.pid);
	vt_exit_with(err);
	vt_error_destroy(err);
	vt_run_oom_end(oom);
}

/* True: it is recorded. */
static bool pass(const struct vt_run_gate *gate, pid_t pid, int fd, struct missing *missing,
		 struct vt_run_oom *oom)
{
	VT_FREE struct vt_record_target *target = calloc(1, sizeof(*target));
	struct vt_error *err = target ? record_at_gate(gate, target, pid, fd) : &vt_enomem;
	bool ok = !err;

	if (ok)
		catch_errors(gate, target, oom);
	vt_gate_go(fd);
	close(fd);
	if (err) {
		err = vt_error_prefix(err, "process %d is not recorded", (int)pid);
		vt_exit_with(err);
		vt_error_destroy(err);
	} else {
		*missing = what_is_missing(gate, target);
		say_recorded(gate, target, !oom->ended);
	}
	if (target)
		vt_record_close(target);
	return ok;
}

/* What has been loaded since. If another tool has switched recording off, nothing is missing. */
static void add_missing_hooks(const struct vt_run_gate *gate, pid_t pid, struct missing *missing)
{
	VT_FREE struct vt_record_target *target = calloc(1, sizeof(*target));
	struct vt_error *err = target ? vt_record_open(target, pid, LATER_BUDGET_NS) : &vt_enomem;

	if (!err && !vt_record_is_on(target)) {
		*missing = (struct missing){ false, false };
	} else if (!err) {
		err = vt_record_on(target, &gate->request);
		*missing = what_is_missing(gate, target);
	}
	vt_error_destroy(err);
	if (target)
		vt_record_close(target);
}

/* Waits that long; false: vramtap run has ended. */
static bool pause_for(const struct vt_run_gate *gate, int ms)
{
	struct pollfd life = { .fd = gate->life, .events = POLLIN };

	return poll(&life, 1, ms) == 0;
}

static void add_what_was_loaded(const struct vt_run_gate *gate, pid_t pid, struct missing *missing,
				int *tries)
{
	bool torch = missing->torch && vt_record_has_library(pid, "libc10_cuda");
	bool driver = missing->driver && *tries > 0 && vt_record_has_library(pid, "libcudart");

	if (!torch && !driver)
		return;
	*tries -= driver;
	add_missing_hooks(gate, pid, missing);
}

int vt_run_gate(const struct vt_run_gate *gate, pid_t pid, int fd)
{
	struct vt_run_oom oom = { .pattern = gate->on_oom, .processes = gate->processes };
	struct missing missing = { false, false };
	int tries = DRIVER_TRIES, ms = FIRST_LOOK_MS;
	uint64_t next = vt_now_ns() + FIRST_LOOK_MS * VT_NS_PER_MS;
	bool goes_on = true;

	if (!pass(gate, pid, fd, &missing, &oom))
		return 1;
	while (goes_on && (missing.torch || missing.driver || !oom.ended)) {
		goes_on = pause_for(gate, oom.ended ? ms : VT_CATCH_POLL_MS) && !kill(pid, 0);
		/* What has happened until the end is saved all the same. */
		vt_run_oom_look(&oom);
		if (!goes_on || vt_now_ns() < next || (!missing.torch && !missing.driver))
			continue;
		add_what_was_loaded(gate, pid, &missing, &tries);
		ms = ms < LAST_LOOK_MS ? ms * 2 : ms;
		next = vt_now_ns() + (uint64_t)ms * VT_NS_PER_MS;
	}
	vt_run_oom_end(&oom);
	return 0;
}
