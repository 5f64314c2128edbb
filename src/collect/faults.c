/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of the devices while the process ran, from the kernel's log. The driver logs the number of
 * a process as the machine's first pid namespace has it; from another one, whose fault it was
 * cannot be told.
 */
#include "collect/faults.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/collect.h"
#include "collect/usage.h"

#define MAX_XIDS 64
#define US_PER_S UINT64_C(1000000)
/* A process uses no device in its first moments; clocks and ticks are not exact. */
#define START_US (US_PER_S / 2)
#define SUSPENDED_US US_PER_S
/* The inode of the first time namespace of a machine (PROC_TIME_INIT_INO, Linux 5.6). */
#define FIRST_TIME_NAMESPACE 0xEFFFFFFAu

static uint64_t clock_us(clockid_t clock)
{
	return vt_clock_ns(clock) / VT_NS_PER_US;
}

static uint64_t less(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* /proc counts the time of a suspended machine, the log does not. */
struct vt_fault_begin vt_faults_begin(uint64_t ticks, const struct vt_fault_log *log)
{
	uint64_t hz = (uint64_t)sysconf(_SC_CLK_TCK), boot_us = log->boot_us,
		 suspended_us = less(boot_us, log->now_us),
		 start_us = ticks / hz * US_PER_S + ticks % hz * US_PER_S / hz,
		 began_us = less(log->now_us, less(boot_us, start_us)),
		 from_us = less(began_us, log->drift_us + START_US),
		 unsure_us = suspended_us > SUSPENDED_US ? suspended_us + log->drift_us : 0;

	return (struct vt_fault_begin){
		.from_us = from_us,
		.surely_us = from_us + unsure_us,
		.after_us = began_us + log->drift_us + unsure_us,
	};
}

/* ---- the log as a whole ---- */

static bool has_own_time(void)
{
	struct stat st;

	return !stat("/proc/self/ns/time", &st) && st.st_ino != FIRST_TIME_NAMESPACE;
}

void vt_faults_say_state(struct vt_fault_list *list, const struct vt_fault_log *log,
			 uint64_t from_us)
{
	struct vt_model_faults *faults = list->faults;
	const char *why = NULL;

	faults->why = "";
	faults->state = VT_FAULTS_READ;
	if (log->lost || !log->begun || log->begin_us > from_us)
		faults->state = VT_FAULTS_CUT;
	if (log->error == EPERM || log->error == EACCES)
		why = "the kernel's log may not be read (kernel.dmesg_restrict; it needs CAP_SYSLOG)";
	else if (log->error == ENOENT)
		why = "there is no /dev/kmsg here, as in most containers";
	else if (log->error == ENODEV)
		why = "/dev/kmsg is not the kernel's log here";
	else if (log->error)
		why = vt_arena_printf(list->arena, "/dev/kmsg: %s", strerror(log->error));
	else if (has_own_time())
		why = "the log's times cannot be compared in a time namespace";
	if (!why)
		return;
	faults->state = VT_FAULTS_REFUSED;
	faults->why = why;
}

/* ---- whose it is ---- */

/*
 * The device, or the instance of it that the process uses; NULL: it uses neither, or that is not
 * known.
 */
static const struct vt_model_gpu *used_gpu(const struct vt_model_usage *usage,
					   const struct vt_xid *xid)
{
	const struct vt_model_gpu *found = NULL;
	size_t whole = 0;

	for (size_t i = 0; i < usage->gpus.n; i++) {
		const struct vt_model_gpu *gpu = &usage->gpus.data[i];

		whole += gpu->parent < 0;
		if (vt_xid_is_at(xid, gpu->pci) && (gpu->is_ours || !gpu->ours_known) &&
		    (!found || gpu->is_ours))
			found = gpu;
	}
	return found && (found->is_ours || whole == 1) ? found : NULL;
}

static enum vt_fault_owner owner_of(const struct vt_collect *c, const struct vt_xid *xid,
				    const struct vt_fault_begin *begin)
{
	const struct vt_model_process *process = &c->model->process;

	/* Of no process, and so perhaps of before this one, and of before the device was reset. */
	if (!xid->pid)
		return xid->at_us >= begin->after_us ? VT_FAULT_NOBODYS : VT_FAULT_UNKNOWN;
	if (!vt_usage_is_first_namespace())
		return VT_FAULT_UNKNOWN;
	if (xid->pid != process->pid)
		return VT_FAULT_OTHERS;
	return xid->at_us >= begin->surely_us ? VT_FAULT_OURS : VT_FAULT_UNKNOWN;
}

/* ---- what is kept ---- */

static struct timespec time_of(const struct vt_xid *xid)
{
	uint64_t us = less(clock_us(CLOCK_REALTIME), less(clock_us(CLOCK_MONOTONIC), xid->at_us));

	return (struct timespec){ .tv_sec = (time_t)(us / US_PER_S),
				  .tv_nsec = (long)(us % US_PER_S * 1000) };
}

static struct vt_model_xid *find_same(struct vt_model_faults *faults, const struct vt_xid *xid,
				      enum vt_fault_owner owner, const char *pci)
{
	for (size_t i = 0; i < faults->xids.n; i++) {
		struct vt_model_xid *same = &faults->xids.data[i];

		if (same->code == xid->code && same->pid == xid->pid && same->owner == owner &&
		    !strcmp(same->pci, pci))
			return same;
	}
	return NULL;
}

static const char *text_of(const struct vt_fault_list *to, const char *text)
{
	const char *copy = vt_arena_strdup(to->arena, text);

	return copy ? copy : "";
}

static struct vt_model_xid *make(const struct vt_fault_list *list, const struct vt_xid *xid,
				 enum vt_fault_owner owner, const char *pci)
{
	struct vt_model_faults *faults = list->faults;
	struct vt_model_xid *made = faults->xids.n < MAX_XIDS ? vt_vec_append(&faults->xids) : NULL;

	if (!made) {
		faults->state = VT_FAULTS_CUT;
		return NULL;
	}
	*made = (struct vt_model_xid){
		.code = xid->code,
		.owner = owner,
		.pid = xid->pid,
		.name = text_of(list, xid->name),
		.pci = text_of(list, pci),
		.first = time_of(xid),
	};
	return made;
}

void vt_faults_add(struct vt_fault_list *list, const struct vt_xid *xid, enum vt_fault_owner owner,
		   int device)
{
	struct vt_model_xid *to;
	char pci[32];

	snprintf(pci, sizeof(pci), "%04X:%02X:%02X", xid->domain, xid->bus, xid->slot);
	to = find_same(list->faults, xid, owner, pci);
	if (!to)
		to = make(list, xid, owner, pci);
	if (!to)
		return;
	to->n++;
	to->device = device;
	to->last = time_of(xid);
	to->text = text_of(list, xid->text);
}

static void choose(const struct vt_collect *c, const struct vt_fault_log *log,
		   const struct vt_fault_begin *begin, struct vt_fault_list *list)
{
	for (size_t i = 0; i < log->xids.n; i++) {
		const struct vt_xid *xid = &log->xids.data[i];
		const struct vt_model_gpu *gpu = used_gpu(&c->model->usage, xid);
		enum vt_fault_owner owner = owner_of(c, xid, begin);

		if (xid->at_us >= begin->from_us && (owner == VT_FAULT_OURS || gpu))
			vt_faults_add(list, xid, owner, gpu ? gpu->ordinal : -1);
	}
}

void vt_collect_faults(struct vt_collect *c)
{
	struct vt_fault_list list = { .arena = &c->model->arena, .faults = &c->model->faults };
	const struct vt_fault_log *log = c->options->fault_log;
	struct vt_fault_log own = { 0 };
	uint64_t start_ns = vt_now_ns();
	struct vt_fault_begin begin;

	if ((!c->target.live && !c->target.held) || !c->model->process.uses_cuda)
		return;
	if (!log) {
		vt_fault_log_read(&own, start_ns + VT_FAULTS_READ_NS);
		log = &own;
	}
	begin = vt_faults_begin(c->target.proc.start_ticks, log);
	vt_faults_say_state(&list, log, begin.from_us);
	if (c->model->faults.state != VT_FAULTS_REFUSED)
		choose(c, log, &begin, &list);
	vt_fault_log_deinit(&own);
	c->model->faults.ms = (double)(vt_now_ns() - start_ns) / VT_NS_PER_MS;
}
