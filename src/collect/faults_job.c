/* SPDX-License-Identifier: Apache-2.0 */
#include "collect/faults_job.h"

#include <stdlib.h>

#include "collect/faults.h"
#include "collect/usage.h"

struct reading {
	const struct vt_fault_party *parties;
	size_t n;
	const struct vt_model_usage *usage;
	const struct vt_fault_log *log;
	struct vt_fault_list list;
};

/* Of all parties: when the first one began. */
static struct vt_fault_begin begin_of_all(const struct reading *r)
{
	struct vt_fault_begin first = vt_faults_begin(r->parties[0].start_ticks, r->log);

	for (size_t i = 1; i < r->n; i++) {
		struct vt_fault_begin begin = vt_faults_begin(r->parties[i].start_ticks, r->log);

		if (begin.from_us < first.from_us)
			first = begin;
	}
	return first;
}

static const struct vt_fault_party *party_of(const struct reading *r, pid_t pid)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->parties[i].pid == pid)
			return &r->parties[i];
	return NULL;
}

/* ---- the device ---- */

/* Of the device itself, not of an instance; -1: it is not listed. */
static int gpu_at(const struct reading *r, const struct vt_xid *xid)
{
	for (size_t i = 0; i < r->usage->gpus.n; i++)
		if (r->usage->gpus.data[i].parent < 0 &&
		    vt_xid_is_at(xid, r->usage->gpus.data[i].pci))
			return (int)i;
	return -1;
}

/* The party on the device, or on an instance of it, that was there first; NULL none is known. */
static const struct vt_fault_party *first_on(const struct reading *r, int gpu)
{
	const struct vt_fault_party *first = NULL;

	for (size_t i = 0; i < r->usage->processes.n; i++) {
		const struct vt_model_counted *p = &r->usage->processes.data[i];
		const struct vt_fault_party *party =
			p->life == VT_LIFE_UNKNOWN ? NULL : party_of(r, p->pid);

		if ((p->gpu == (uint32_t)gpu || r->usage->gpus.data[p->gpu].parent == gpu) &&
		    party && (!first || party->start_ticks < first->start_ticks))
			first = party;
	}
	return first;
}

/* ---- what is kept ---- */

static void keep(struct reading *r, const struct vt_xid *xid, enum vt_fault_owner owner)
{
	vt_faults_add(&r->list, xid, owner, -1);
}

/* One that names a process of the job. */
static void look_at_ours(struct reading *r, const struct vt_xid *xid,
			 const struct vt_fault_party *party)
{
	struct vt_fault_begin begin = vt_faults_begin(party->start_ticks, r->log);

	if (xid->at_us >= begin.from_us)
		keep(r, xid, xid->at_us >= begin.surely_us ? VT_FAULT_OURS : VT_FAULT_UNKNOWN);
}

/* What is of no process may be of before the device was reset. */
static enum vt_fault_owner owner_of(const struct vt_xid *xid, const struct vt_fault_begin *begin)
{
	if (xid->pid)
		return vt_usage_is_first_namespace() ? VT_FAULT_OTHERS : VT_FAULT_UNKNOWN;
	return xid->at_us >= begin->after_us ? VT_FAULT_NOBODYS : VT_FAULT_UNKNOWN;
}

static void look_at_device(struct reading *r, const struct vt_xid *xid)
{
	int gpu = gpu_at(r, xid);
	const struct vt_fault_party *party = gpu < 0 ? NULL : first_on(r, gpu);
	struct vt_fault_begin begin;

	if (!party && (gpu >= 0 || xid->pid || !vt_xid_is_of_device(xid->code)))
		return;
	begin = party ? vt_faults_begin(party->start_ticks, r->log) : begin_of_all(r);
	if (xid->at_us >= begin.from_us)
		keep(r, xid, owner_of(xid, &begin));
}

static void choose(struct reading *r)
{
	bool numbers = vt_usage_is_first_namespace();

	for (size_t i = 0; i < r->log->xids.n; i++) {
		const struct vt_xid *xid = &r->log->xids.data[i];
		const struct vt_fault_party *party = xid->pid && numbers ? party_of(r, xid->pid) :
									   NULL;

		if (party)
			look_at_ours(r, xid, party);
		else
			look_at_device(r, xid);
	}
}

struct vt_fault_log *vt_fault_log_create(void)
{
	struct vt_fault_log *log = calloc(1, sizeof(*log));

	if (log)
		vt_fault_log_read(log, vt_now_ns() + VT_FAULTS_READ_NS);
	return log;
}

void vt_fault_log_destroy(struct vt_fault_log *log)
{
	if (log)
		vt_fault_log_deinit(log);
	free(log);
}

void vt_collect_faults_of_job(const struct vt_fault_party *parties, size_t n,
			      const struct vt_fault_log *log, const struct vt_model_usage *usage,
			      struct vt_arena *arena, struct vt_model_faults *faults)
{
	struct reading r = {
		.parties = parties,
		.n = n,
		.usage = usage,
		.log = log,
		.list = { .arena = arena, .faults = faults },
	};

	if (!n || !log)
		return;
	vt_faults_say_state(&r.list, log, begin_of_all(&r).from_us);
	if (faults->state != VT_FAULTS_REFUSED)
		choose(&r);
}
