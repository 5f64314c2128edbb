/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as metrics: what triage found, by code, and what each process holds. vramtap-triage(1)
 * lists the families; a test keeps both in step. All series have the label job_id, so that the
 * files of several jobs on one machine do not collide.
 */
#include "job/prometheus/prometheus.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "job/internal.h"
#include "job/job.h"
#include "job/json/json.h"
#include "job/lines.h"
#include "prometheus/prometheus.h"

#define COMMAND "triage"

struct put {
	struct vt_prom prom;
	const struct vt_job *job;
};

/* Its name in the batch system, else that of the process that started it. */
static void share_job_id(struct put *p)
{
	const struct vt_member *launcher = NULL, *first = NULL;
	char text[64] = "";

	for (size_t i = 0; i < p->job->members.n; i++) {
		const struct vt_member *m = &p->job->members.data[i];

		if (!m->label.in_job)
			continue;
		if (m->label.job && *m->label.job) {
			vt_prom_label(&p->prom, "job_id", m->label.job);
			vt_prom_share(&p->prom);
			return;
		}
		first = first ? first : m;
		if (m->label.role == VT_ROLE_LAUNCHER &&
		    (!launcher || m->label.pid < launcher->label.pid))
			launcher = m;
	}
	if (launcher || first)
		snprintf(text, sizeof(text), "%s %d", launcher ? "launcher" : "pid",
			 (int)(launcher ? launcher : first)->label.pid);
	vt_prom_label(&p->prom, "job_id", text);
	vt_prom_share(&p->prom);
}

/* ---- the look itself ---- */

static void put_build(struct put *p)
{
	vt_prom_build(&p->prom, COMMAND, p->job->tool_version);
}

static void put_when(struct put *p)
{
	vt_prom_when(&p->prom, COMMAND, &p->job->when);
}

static void put_complete(struct put *p)
{
	vt_prom_complete(&p->prom, COMMAND, p->job->completeness == VT_COMPLETE);
}

static void put_skew(struct put *p)
{
	if (p->job->skew_ms >= 0)
		vt_prom_seconds(&p->prom, p->job->skew_ms / 1e3);
}

/* ---- what was found ---- */

static bool is_rank(const struct vt_member *m)
{
	return m->label.in_job && m->label.role == VT_ROLE_RANK;
}

static const char *state_of(enum vt_job_state state)
{
	const char *name = vt_job_state_name(state);

	return name ? name : "undecided";
}

static void put_ranks(struct put *p)
{
	uint64_t n[VT_N_STATES] = { 0 };

	for (size_t i = 0; i < p->job->members.n; i++)
		n[p->job->members.data[i].state] += is_rank(&p->job->members.data[i]);
	for (size_t state = 0; state < VT_N_STATES; state++) {
		vt_prom_label(&p->prom, "state", state_of((enum vt_job_state)state));
		vt_prom_uint(&p->prom, n[state]);
	}
}

static void put_world_size(struct put *p)
{
	int most = 0;

	for (size_t i = 0; i < p->job->members.n; i++) {
		const struct vt_member *m = &p->job->members.data[i];

		if (is_rank(m) && m->label.world_size > most)
			most = m->label.world_size;
	}
	if (most)
		vt_prom_int(&p->prom, most);
}

static void put_roles(struct put *p)
{
	uint64_t n[VT_N_ROLES] = { 0 };

	for (size_t i = 0; i < p->job->members.n; i++)
		n[p->job->members.data[i].label.role] += p->job->members.data[i].label.in_job;
	for (size_t role = 0; role < VT_N_ROLES; role++) {
		vt_prom_label(&p->prom, "role", vt_role_name((enum vt_role)role));
		vt_prom_uint(&p->prom, n[role]);
	}
}

/* All codes, so that an alert on one of them never lacks its series. */
static void put_codes(struct put *p, bool alarms)
{
	bool found[VT_N_FINDINGS] = { false };

	for (size_t i = 0; i < p->job->verdicts.n; i++)
		if (p->job->verdicts.data[i].alarm || !alarms)
			found[p->job->verdicts.data[i].code] = true;
	for (size_t code = 0; code < VT_N_FINDINGS; code++) {
		vt_prom_label(&p->prom, "code", vt_finding_name((enum vt_finding)code));
		vt_prom_bool(&p->prom, found[code]);
	}
}

static void put_verdicts(struct put *p)
{
	put_codes(p, false);
}

static void put_alarms(struct put *p)
{
	put_codes(p, true);
}

enum { NOT_STUCK, LIKELY_STUCK, SURELY_STUCK, N_STUCK };

/* What a chain says of its members; the surest of all chains counts. */
static void mark(const struct put *p, const struct vt_job_chain *chain, unsigned char *stuck)
{
	unsigned char how = chain->doubt == VT_DOUBT_NONE ? SURELY_STUCK : LIKELY_STUCK;

	for (size_t i = 0; i < chain->n_links; i++) {
		const struct vt_member_set *set = &chain->links[i].members;

		for (size_t j = 0; j < set->n; j++)
			if (stuck[set->members[j]] < how &&
			    is_rank(&p->job->members.data[set->members[j]]))
				stuck[set->members[j]] = how;
	}
}

static void put_stuck(struct put *p)
{
	VT_FREE unsigned char *stuck = calloc(p->job->members.n + 1, 1);
	uint64_t n[N_STUCK] = { 0 };

	if (!stuck) {
		p->prom.failed = true;
		return;
	}
	for (size_t i = 0; i < p->job->chains.n; i++)
		mark(p, &p->job->chains.data[i], stuck);
	for (size_t i = 0; i < p->job->members.n; i++)
		n[stuck[i]]++;
	vt_prom_label(&p->prom, "certain", "true");
	vt_prom_uint(&p->prom, n[SURELY_STUCK]);
	vt_prom_label(&p->prom, "certain", "false");
	vt_prom_uint(&p->prom, n[LIKELY_STUCK]);
}

/* ---- devices ---- */

static void put_device_bytes(struct put *p, uint64_t (*of)(const struct vt_job_device *device))
{
	for (size_t i = 0; i < p->job->devices.n && i < VT_PROM_MAX_PROCESSES; i++) {
		const struct vt_job_device *d = &p->job->devices.data[i];

		if (!d->known)
			continue;
		vt_prom_label(&p->prom, "host", d->host);
		vt_prom_label(&p->prom, "device", d->name);
		vt_prom_label(&p->prom, "uuid", d->uuid);
		vt_prom_uint(&p->prom, of(d));
	}
}

static uint64_t total_of(const struct vt_job_device *device)
{
	return device->total;
}

static uint64_t free_of(const struct vt_job_device *device)
{
	return device->free_bytes;
}

static uint64_t outside_of(const struct vt_job_device *device)
{
	return device->outside;
}

/* ---- each process ---- */

static size_t n_listed(const struct put *p)
{
	return p->job->members.n < VT_PROM_MAX_PROCESSES ? p->job->members.n :
							   VT_PROM_MAX_PROCESSES;
}

static void put_omitted(struct put *p)
{
	vt_prom_uint(&p->prom, p->job->members.n - n_listed(p));
}

static void label_member(struct put *p, const struct vt_member *m)
{
	vt_prom_label(&p->prom, "host", m->label.host);
	vt_prom_label_known(&p->prom, "pid", m->label.pid);
	vt_prom_label_known(&p->prom, "rank", is_rank(m) ? m->label.rank : -1);
}

/* The ranks come first: if there are too many, others are left out. */
static void put_members(struct put *p, void (*put)(struct put *p, const struct vt_member *m))
{
	for (size_t i = 0; i < n_listed(p); i++) {
		label_member(p, &p->job->members.data[i]);
		put(p, &p->job->members.data[i]);
		vt_prom_none(&p->prom);
	}
}

static void put_member_identity(struct put *p, const struct vt_member *m)
{
	vt_prom_label(&p->prom, "role", vt_role_name(m->label.role));
	vt_prom_label(&p->prom, "in_job", m->label.in_job ? "true" : "false");
	vt_prom_label_known(&p->prom, "local_rank", m->label.local_rank);
	vt_prom_label(&p->prom, "name", m->label.name);
	vt_prom_label(&p->prom, "pod", m->label.pod);
	vt_prom_label(&p->prom, "container", m->label.container);
	vt_prom_uint(&p->prom, 1);
}

static void put_member_state(struct put *p, const struct vt_member *m)
{
	vt_prom_label(&p->prom, "state", state_of(m->state));
	vt_prom_uint(&p->prom, 1);
}

static void put_member_outlier(struct put *p, const struct vt_member *m)
{
	vt_prom_bool(&p->prom, m->outlier);
}

static void put_member_stopped(struct put *p, const struct vt_member *m)
{
	vt_prom_seconds(&p->prom, m->stopped_ms / 1e3);
}

static void put_member_retries(struct put *p, const struct vt_member *m)
{
	if (m->requests.known)
		vt_prom_uint(&p->prom, m->requests.retries);
}

static void put_member_failed(struct put *p, const struct vt_member *m)
{
	if (m->requests.known)
		vt_prom_uint(&p->prom, m->requests.failed);
}

static void put_member_owners(struct put *p, const struct vt_member *m)
{
	if (m->owners.state != VT_OWNERS_READ)
		return;
	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		vt_prom_none(&p->prom);
		label_member(p, m);
		vt_prom_label(&p->prom, "category", vt_category_code((enum vt_category)i));
		vt_prom_uint(&p->prom, m->owners.bytes[i]);
	}
}

/* ---- what each holds of each device ---- */

static void label_memory(struct put *p, const struct vt_member *m,
			 const struct vt_job_memory *memory)
{
	vt_prom_none(&p->prom);
	label_member(p, m);
	vt_prom_label_known(&p->prom, "ordinal", memory->ordinal);
	vt_prom_label(&p->prom, "uuid", memory->uuid);
}

static void put_memories(struct put *p,
			 bool (*of)(const struct vt_job_memory *memory, uint64_t *bytes))
{
	for (size_t i = 0; i < n_listed(p); i++) {
		const struct vt_member *m = &p->job->members.data[i];

		for (size_t j = 0; j < m->memory.n; j++) {
			uint64_t bytes;

			if (!of(&m->memory.data[j], &bytes))
				continue;
			label_memory(p, m, &m->memory.data[j]);
			vt_prom_uint(&p->prom, bytes);
		}
	}
}

static bool counted_of(const struct vt_job_memory *memory, uint64_t *bytes)
{
	*bytes = memory->counted_bytes;
	return memory->counted;
}

static bool reserved_of(const struct vt_job_memory *memory, uint64_t *bytes)
{
	*bytes = memory->reserved;
	return memory->known;
}

static bool allocated_of(const struct vt_job_memory *memory, uint64_t *bytes)
{
	*bytes = memory->allocated;
	return memory->known;
}

static bool cached_of(const struct vt_job_memory *memory, uint64_t *bytes)
{
	*bytes = memory->cached;
	return memory->known;
}

static void put_line(struct put *p, const char *line, uint64_t bytes)
{
	vt_prom_label(&p->prom, "line", line);
	vt_prom_uint(&p->prom, bytes);
}

static void put_ledger_of(struct put *p, const struct vt_member *m,
			  const struct vt_job_memory *memory)
{
	uint64_t found = vt_job_memory_found(memory);

	for (unsigned int i = 0; i < VT_N_CLAIMERS; i++) {
		label_memory(p, m, memory);
		put_line(p, vt_claimer_name(i), memory->claimed[i]);
	}
	for (unsigned int kind = 0; kind < VT_N_RANGE_KINDS; kind++) {
		label_memory(p, m, memory);
		put_line(p, vt_job_kind_name(kind), memory->kinds[kind]);
	}
	if (!memory->counted || memory->counted_bytes < found)
		return;
	label_memory(p, m, memory);
	put_line(p, "rest", memory->counted_bytes - found);
}

static void put_ledgers(struct put *p)
{
	for (size_t i = 0; i < n_listed(p); i++) {
		const struct vt_member *m = &p->job->members.data[i];

		for (size_t j = 0; j < m->memory.n; j++)
			if (m->memory.data[j].ledger_known)
				put_ledger_of(p, m, &m->memory.data[j]);
	}
}

/* ---- all of it ---- */

static const struct {
	struct vt_prom_family family;
	/* one of these */
	void (*put)(struct put *p);
	uint64_t (*device)(const struct vt_job_device *device);
	void (*member)(struct put *p, const struct vt_member *m);
	bool (*memory)(const struct vt_job_memory *memory, uint64_t *bytes);
} families[] = {
	{ { VT_PROM_BUILD }, .put = put_build },
	{ { VT_PROM_WHEN }, .put = put_when },
	{ { VT_PROM_COMPLETE }, .put = put_complete },
	{ { "vramtap_job_skew_seconds", "gauge",
	    "Time between the first and the last stop of a process of the job" },
	  .put = put_skew },
	{ { "vramtap_job_ranks", "gauge", "Ranks of the job that were found, by what they do" },
	  .put = put_ranks },
	{ { "vramtap_job_world_size", "gauge", "Ranks that the job should have" },
	  .put = put_world_size },
	{ { "vramtap_job_processes", "gauge", "Processes of the job, by role" }, .put = put_roles },
	{ { "vramtap_job_verdict", "gauge", "1 for each code that is among the verdicts" },
	  .put = put_verdicts },
	{ { "vramtap_job_alarm", "gauge", "1 for each code with a verdict that is an alarm" },
	  .put = put_alarms },
	{ { "vramtap_job_stuck_ranks", "gauge",
	    "Ranks in chains of causes: those that hold up others, and those that wait for them" },
	  .put = put_stuck },
	{ { "vramtap_job_device_memory_size_bytes", "gauge", "Memory of a device of the job" },
	  .device = total_of },
	{ { "vramtap_job_device_memory_free_bytes", "gauge", "Free memory of a device of the job" },
	  .device = free_of },
	{ { "vramtap_job_device_memory_outside_bytes", "gauge",
	    "Used memory of a device that no process of the job holds, as far as is known" },
	  .device = outside_of },
	{ { "vramtap_job_omitted_processes", "gauge",
	    "Processes of the job that have no series for lack of room" },
	  .put = put_omitted },
	{ { "vramtap_job_process_info", "gauge",
	    "A process of the job, or (in_job false) one that uses its devices" },
	  .member = put_member_identity },
	{ { "vramtap_job_process_state", "gauge", "1 for what a process does" },
	  .member = put_member_state },
	{ { "vramtap_job_process_outlier", "gauge", "Whether a verdict says that it differs" },
	  .member = put_member_outlier },
	{ { "vramtap_job_process_stopped_seconds", "gauge",
	    "How long the threads of a process were stopped to be read" },
	  .member = put_member_stopped },
	{ { "vramtap_job_process_memory_bytes", "gauge",
	    "Device memory of a process, by the kernel driver's count" },
	  .memory = counted_of },
	{ { "vramtap_job_process_pytorch_reserved_bytes", "gauge",
	    "Device memory that PyTorch has reserved in a process" },
	  .memory = reserved_of },
	{ { "vramtap_job_process_pytorch_allocated_bytes", "gauge",
	    "Device memory that is in use by PyTorch in a process" },
	  .memory = allocated_of },
	{ { "vramtap_job_process_pytorch_cached_bytes", "gauge",
	    "Device memory that PyTorch has reserved and does not use in a process" },
	  .memory = cached_of },
	{ { "vramtap_job_process_ledger_bytes", "gauge",
	    "Memory of a process by line of the driver's list" },
	  .put = put_ledgers },
	{ { "vramtap_job_process_owner_bytes", "gauge",
	    "Memory that is in use by PyTorch in a process, by category of its owner" },
	  .member = put_member_owners },
	{ { "vramtap_job_process_allocation_retries_total", "counter",
	    "Requests that PyTorch met only after it had given back what it cached" },
	  .member = put_member_retries },
	{ { "vramtap_job_process_out_of_memory_errors_total", "counter",
	    "Requests for memory that failed in PyTorch" },
	  .member = put_member_failed },
};

struct vt_error *vt_write_job_prometheus(const void *what, const struct vt_writer_options *options,
					 FILE *out)
{
	struct put p = { .job = what };

	(void)options; /* those are for people */
	vt_prom_init(&p.prom, out);
	share_job_id(&p);
	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		vt_prom_family(&p.prom, &families[i].family);
		if (families[i].put)
			families[i].put(&p);
		else if (families[i].device)
			put_device_bytes(&p, families[i].device);
		else if (families[i].member)
			put_members(&p, families[i].member);
		else
			put_memories(&p, families[i].memory);
	}
	return vt_prom_finish(&p.prom);
}
