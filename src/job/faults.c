/* SPDX-License-Identifier: Apache-2.0 */
#include "job/faults.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "job/internal.h"

#define MAX_NAME 64
#define MEMBERS_COLUMNS 60

const char *vt_job_fault_name(enum vt_job_fault_kind kind)
{
	static const char *const names[VT_N_JOB_FAULTS] = {
		[VT_JOB_XID] = "xid",
		[VT_JOB_MEMORY_ERRORS] = "memory-errors",
		[VT_JOB_ROWS_PENDING] = "rows-pending",
		[VT_JOB_THROTTLED] = "throttled",
	};

	return names[kind];
}

/* What one fault is about. */
struct about {
	struct vt_job *job;
	const struct vt_job_usage *usage;
	struct vt_job_indices members;
	const char *device; /* the name of one of them, NULL unknown */
	size_t n_devices;   /* that were found */
	const char *pci;    /* where it was, of those that were not found; NULL */
};

/* ---- whom it concerns ---- */

static bool is_ours(const struct vt_member *m, const struct vt_job_usage *usage)
{
	return m->label.in_job && !m->core && !strcmp(m->label.host, usage->host) &&
	       !strcmp(m->label.system, usage->system);
}

static void add_member(struct about *about, uint32_t member)
{
	if (!vt_job_has(about->members.data, about->members.n, member))
		about->job->failed |= !vt_job_indices_add(&about->members, member);
}

/* The pids are the machine's, and so are those of members that were seen from there. */
static void add_by_pid(struct about *about, pid_t pid)
{
	for (size_t i = 0; i < about->job->members.n; i++)
		if (about->job->members.data[i].label.pid == pid &&
		    is_ours(&about->job->members.data[i], about->usage))
			add_member(about, (uint32_t)i);
}

/* The job's devices at this place: the device (an index in usage), or instances of it. */
static bool add_device(struct about *about, size_t gpu, bool with_holders)
{
	const struct vt_model_gpu *gpus = about->usage->usage.gpus.data;
	bool found = false;

	for (size_t i = 0; i < about->job->devices.n; i++) {
		const struct vt_job_device *d = &about->job->devices.data[i];

		if (d->usage != &about->usage->usage ||
		    (d->gpu != &gpus[gpu] && d->gpu->parent != (int)gpu))
			continue;
		about->device = d->name;
		about->n_devices++;
		found = true;
		for (size_t k = 0; k < d->holders.n && with_holders; k++)
			if (about->job->members.data[d->holders.members[k]].label.in_job)
				add_member(about, d->holders.members[k]);
	}
	return found;
}

static void add_device_of(struct about *about, const struct vt_model_xid *xid)
{
	const struct vt_model_usage *usage = &about->usage->usage;

	for (size_t i = 0; i < usage->gpus.n; i++)
		if (usage->gpus.data[i].parent < 0 && vt_xid_is_on(xid, usage->gpus.data[i].pci) &&
		    add_device(about, i, xid->owner != VT_FAULT_OURS))
			return;
	about->pci = xid->pci;
}

/* ---- words ---- */

/* "GPU 2 of n1 (rank 3)", "8 GPUs of n1 (ranks 0-7)", "the GPU at 0000:1B:00 of n1" */
static void add_where(const struct about *about, struct vt_str *text)
{
	struct vt_member_set set = { .members = about->members.data, .n = about->members.n };
	size_t n = about->n_devices + (about->pci != NULL);
	char number[VT_NUM_MAX];

	if (n > 1)
		vt_str_addf(text, "%s GPUs", vt_format_count(number, n));
	else if (about->device)
		vt_str_add(text, about->device);
	else
		vt_str_addf(text, "the GPU at %s", about->pci ? about->pci : "?");
	if (*about->usage->host)
		vt_str_addf(text, " of %.*s", MAX_NAME, about->usage->host);
	if (!set.n)
		return;
	vt_str_addf(text, " (%s",
		    !vt_job_are_ranks(about->job, &set) ? "" :
		    set.n > 1                           ? "ranks " :
							  "rank ");
	vt_job_add_set(about->job, &set, MEMBERS_COLUMNS, text);
	vt_str_add(text, ")");
}

static void add_owner(const struct vt_model_xid *xid, struct vt_str *text)
{
	if (!xid->pid || xid->owner == VT_FAULT_OURS || xid->owner == VT_FAULT_NOBODYS)
		return;
	vt_str_addf(text,
		    xid->owner == VT_FAULT_OTHERS ? ", of another process, pid %d" :
						    ", of pid %d in the machine's numbers",
		    (int)xid->pid);
	if (*xid->name)
		vt_str_addf(text, " (%.*s)", MAX_NAME, xid->name);
}

static void say_xid(const struct about *about, const struct vt_job_fault *fault,
		    struct vt_str *text)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(fault->xid->code);
	char number[VT_NUM_MAX];

	vt_str_addf(text, "Xid %" PRIu32, fault->xid->code);
	if (meaning)
		vt_str_addf(text, " (%s)", meaning->name);
	vt_str_add(text, " on ");
	add_where(about, text);
	add_owner(fault->xid, text);
	if (fault->times > 1)
		vt_str_addf(text, ", %s times", vt_format_count(number, fault->times));
}

static void say_memory(const struct about *about, const struct vt_usage_health *h,
		       struct vt_str *text)
{
	char number[VT_NUM_MAX];

	add_where(about, text);
	if (h->ecc_now)
		vt_str_addf(text, ": %s uncorrected error%s of its memory since its last reset",
			    vt_format_count(number, h->ecc_now), h->ecc_now == 1 ? "" : "s");
	if (h->remap_failed)
		vt_str_addf(text, "%s remapping a row of its memory failed",
			    h->ecc_now ? "," : ":");
}

static void say_pending(const struct about *about, struct vt_str *text)
{
	add_where(about, text);
	vt_str_add(text, ": a part of its memory is replaced at the next reset");
}

static void say_slow(const struct about *about, const struct vt_usage_health *h,
		     struct vt_str *text)
{
	add_where(about, text);
	vt_str_addf(text, ": its clocks are held down by %s", vt_health_why_slow(h));
	if (h->known & VT_HEALTH_TEMPERATURE)
		vt_str_addf(text, ", %" PRIu32 " °C", h->celsius);
	if (h->known & VT_HEALTH_POWER)
		vt_str_addf(text, ", %" PRIu32 " W", h->milliwatt / 1000);
	if (!(~h->known & (VT_HEALTH_CLOCK | VT_HEALTH_CLOCK_LIMIT)))
		vt_str_addf(text, ", %" PRIu32 " of %" PRIu32 " MHz", h->sm_mhz, h->sm_mhz_limit);
}

/* ---- what there is ---- */

static void keep(struct about *about, struct vt_job_fault *fault, const struct vt_str *text)
{
	struct vt_job *job = about->job;
	struct vt_job_fault *added = text->failed ? NULL : vt_vec_append(&job->faults);

	if (!added) {
		job->failed = true;
		return;
	}
	fault->host = about->usage->host;
	fault->members = vt_job_set(job, &about->members);
	fault->text = vt_job_text(job, vt_str_get(text), text->n);
	if (!fault->text)
		fault->text = "";
	*added = *fault;
}

/* Equal ones of a host are told together; of other processes those of each. */
static bool are_alike(const struct vt_model_xid *a, const struct vt_model_xid *b)
{
	return a->code == b->code && a->owner == b->owner &&
	       (a->pid == b->pid || a->owner == VT_FAULT_OURS);
}

static bool is_first(const struct vt_model_faults *faults, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (are_alike(&faults->xids.data[i], &faults->xids.data[at]))
			return false;
	return true;
}

/* A fault of several processes on one device counts that device once. */
static bool is_on_another(const struct vt_model_faults *faults, size_t first, size_t at)
{
	for (size_t i = first; i < at; i++)
		if (are_alike(&faults->xids.data[i], &faults->xids.data[at]) &&
		    !strcmp(faults->xids.data[i].pci, faults->xids.data[at].pci))
			return false;
	return true;
}

static void add_xids(struct vt_job *job, const struct vt_job_usage *usage, size_t first)
{
	const struct vt_model_faults *faults = &usage->faults;
	struct about about = { .job = job, .usage = usage };
	struct vt_job_fault fault = { .kind = VT_JOB_XID, .xid = &faults->xids.data[first] };
	struct vt_str text = { 0 };

	for (size_t i = first; i < faults->xids.n; i++) {
		const struct vt_model_xid *xid = &faults->xids.data[i];

		if (!are_alike(xid, &faults->xids.data[first]))
			continue;
		fault.times += xid->n;
		if (xid->last.tv_sec >= fault.xid->last.tv_sec)
			fault.xid = xid;
		if (xid->owner == VT_FAULT_OURS)
			add_by_pid(&about, xid->pid);
		if (is_on_another(faults, first, i))
			add_device_of(&about, xid);
	}
	vt_job_indices_sort(&about.members);
	fault.of_device = vt_xid_is_of_device(fault.xid->code);
	fault.alarm = about.members.n &&
		      (fault.xid->owner == VT_FAULT_OURS ||
		       (fault.xid->owner == VT_FAULT_NOBODYS && fault.of_device));
	say_xid(&about, &fault, &text);
	keep(&about, &fault, &text);
	vt_str_deinit(&text);
	free(about.members.data);
}

static bool add_health(struct vt_job *job, const struct vt_job_usage *usage, size_t gpu)
{
	const struct vt_usage_health *h = &usage->usage.gpus.data[gpu].health;
	struct about about = { .job = job, .usage = usage };
	bool is[VT_N_JOB_FAULTS] = {
		[VT_JOB_MEMORY_ERRORS] = vt_health_is_bad(h),
		[VT_JOB_ROWS_PENDING] = !vt_health_is_bad(h) &&
					(h->remap_pending || h->retire_pending),
		[VT_JOB_THROTTLED] = vt_health_is_throttled(h),
	};

	for (enum vt_job_fault_kind kind = 0; kind < VT_N_JOB_FAULTS; kind++) {
		struct vt_job_fault fault = { .kind = kind, .alarm = kind != VT_JOB_ROWS_PENDING };
		struct vt_str text = { 0 };

		if (!is[kind] || (!about.n_devices && !add_device(&about, gpu, true)))
			continue;
		vt_job_indices_sort(&about.members);
		if (kind == VT_JOB_MEMORY_ERRORS)
			say_memory(&about, h, &text);
		else if (kind == VT_JOB_ROWS_PENDING)
			say_pending(&about, &text);
		else
			say_slow(&about, h, &text);
		keep(&about, &fault, &text);
		vt_str_deinit(&text);
	}
	free(about.members.data);
	return !job->failed;
}

bool vt_job_build_faults(struct vt_job *job)
{
	for (size_t u = 0; u < job->usages.n; u++) {
		const struct vt_job_usage *usage = &job->usages.data[u];

		for (size_t i = 0; i < usage->faults.xids.n; i++)
			if (is_first(&usage->faults, i))
				add_xids(job, usage, i);
		for (size_t i = 0; i < usage->usage.gpus.n; i++)
			if (usage->usage.gpus.data[i].parent < 0 && !add_health(job, usage, i))
				return false;
	}
	VT_JOB_PUT_ALARMS_FIRST(&job->faults);
	return !job->failed;
}
