/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One look at all processes. The kernel driver is asked meanwhile, by a process of our own. What is
 * read of every process of the machine is small, and read by several threads; the rest is read only
 * of those that use CUDA.
 */
#include "ps/ps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parallel.h"
#include "collect/collect.h"
#include "collect/usage.h"
#include "collect/watchdog.h"
#include "explain/wait.h"
#include "target/arch/native.h"
#include "target/proc.h"

enum { THREADS = 7, GRAIN = 16, MAX_ROWS = 4096, MAX_GPUS_OF_ONE = 128, MAX_COMMAND = 256 };

#define ANSWER_NS (1 * VT_NS_PER_S)
/* All of it takes a fraction of a second, but what is read may block in the kernel. */
#define WATCH_NS (15 * VT_NS_PER_S)

struct look {
	struct vt_ps *ps;
	struct vt_processes processes;
	bool *denied; /* of each process: its files may not be read */
	size_t self;
	uid_t uid; /* ours: nobody keeps its own processes from it */
};

static const char *copy(struct vt_ps *ps, const char *text, size_t most)
{
	const char *dup = text ? vt_arena_strndup(&ps->arena, text, strnlen(text, most)) : NULL;

	return dup ? dup : "";
}

/* ---- which processes use CUDA ---- */

static bool may_not_look(pid_t pid)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);

	VT_CLOSE int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd < 0 && (errno == EACCES || errno == EPERM);
}

static void detect(void *arg, size_t first, size_t end)
{
	struct look *look = arg;

	for (size_t i = first; i < end; i++) {
		const struct vt_process *p = &look->processes.list.data[i];

		if (p->kernel_thread)
			continue;
		if (vt_process_gpu(&look->processes, i, NULL) == VT_GPU_NONE && p->state != 'Z' &&
		    p->uid != look->uid)
			look->denied[i] = may_not_look(p->pid);
	}
}

/* This program, and what it started. */
static bool is_ours(const struct look *look, size_t i)
{
	return i == look->self || vt_processes_descends(&look->processes, i, look->self);
}

static bool is_counted(const struct vt_ps *ps, pid_t pid)
{
	for (size_t i = 0; i < ps->usage.processes.n; i++)
		if (ps->usage.processes.data[i].pid == pid &&
		    ps->usage.processes.data[i].life != VT_LIFE_UNKNOWN)
			return true;
	return false;
}

/* ---- a row ---- */

static struct vt_ps_row *add_row(struct vt_ps *ps, pid_t pid)
{
	struct vt_ps_row *row = ps->rows.n < MAX_ROWS ? vt_vec_append(&ps->rows) : NULL;

	ps->dropped += ps->rows.n == MAX_ROWS && !row;
	if (row)
		*row = (struct vt_ps_row){
			.pid = pid,
			.user = "",
			.name = "",
			.command = "",
			.container = "",
			.pod = "",
			.job = "",
			.wchan = "",
			.rank = { -1, -1, -1, -1 },
			.uptime_s = -1,
			.still_s = -1,
			.state = '?',
			.life = VT_LIFE_THERE,
		};
	return row;
}

/* NVML has one line for each device. */
static bool add_counts(struct vt_ps *ps, struct vt_ps_row *row)
{
	uint32_t gpus[MAX_GPUS_OF_ONE], *kept;

	for (size_t i = 0; i < ps->usage.processes.n; i++) {
		const struct vt_model_counted *p = &ps->usage.processes.data[i];

		if (p->pid != row->pid || p->life == VT_LIFE_UNKNOWN ||
		    row->n_gpus == MAX_GPUS_OF_ONE)
			continue;
		row->bytes_known = p->bytes_known && (row->bytes_known || !row->counted);
		row->counted = true;
		row->life = p->life;
		row->bytes += p->bytes;
		gpus[row->n_gpus++] = p->gpu;
	}
	if (!row->n_gpus)
		return true;
	kept = vt_arena_alloc(&ps->arena, row->n_gpus * sizeof(*kept));
	if (kept)
		memcpy(kept, gpus, row->n_gpus * sizeof(*kept));
	row->gpus = kept;
	return kept;
}

static void read_main_thread(struct vt_ps *ps, struct vt_ps_row *row)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, row->pid, row->pid);

	if (err)
		return;
	row->state = info.state;
	if (info.syscall_known && info.in_syscall && info.syscall_nr >= 0)
		row->syscall = vt_arch_syscall(VT_NATIVE, info.syscall_nr);
	if (info.state != 'R')
		row->wchan = copy(ps, info.wchan, sizeof(info.wchan));
}

static void read_identity(struct vt_ps *ps, struct vt_ps_row *row)
{
	struct vt_proc proc = { 0 };
	VT_ERROR struct vt_error *err = vt_proc_init(&proc, row->pid);
	struct vt_launch launch = { .rank = { -1, -1, -1, -1 } };

	if (!err) {
		row->ppid = proc.ppid;
		row->own_pid = proc.ns_pid == proc.pid ? 0 : proc.ns_pid;
		row->start_ticks = proc.start_ticks;
		row->uid = proc.uid;
		row->user = copy(ps, proc.user, 64);
		row->name = copy(ps, proc.name, sizeof(proc.name));
		row->command = copy(ps, proc.cmdline, MAX_COMMAND);
		row->container = copy(ps, proc.container, 64);
		row->uptime_s = proc.uptime_s;
		row->tracer = proc.tracer;
		vt_launch_read(row->pid, &ps->arena, &launch);
		row->rank = launch.rank;
		row->pod = launch.pod;
		row->job = launch.job;
		row->launch_known = launch.known;
	}
	vt_proc_deinit(&proc);
}

/* Its memory may not be touched: what is left is in its stat file. */
static void take_stat(struct vt_ps *ps, struct vt_ps_row *row, const struct vt_process *p)
{
	row->ppid = p->ppid;
	row->start_ticks = p->start_ticks;
	row->uid = p->uid;
	row->name = copy(ps, p->name, sizeof(p->name));
	row->state = p->state;
}

static bool add_process(struct look *look, size_t i)
{
	const struct vt_process *p = &look->processes.list.data[i];
	struct vt_ps_row *row = add_row(look->ps, p->pid);

	if (!row)
		return look->ps->rows.n == MAX_ROWS;
	row->use = vt_process_gpu(&look->processes, i, &row->minors);
	take_stat(look->ps, row, p);
	row->torch.state = p->blocks                    ? VT_PS_TORCH_LATE :
			   look->denied[i]              ? VT_PS_TORCH_DENIED :
			   !row->use && p->state == 'Z' ? VT_PS_TORCH_NONE :
							  VT_PS_TORCH_KNOWN; /* until it is read */
	if (!p->blocks) {
		read_identity(look->ps, row);
		read_main_thread(look->ps, row);
	}
	return add_counts(look->ps, row);
}

/* Memory whose owner is no process here: it ended, or is in another pid namespace. */
static bool add_others(struct look *look)
{
	struct vt_ps *ps = look->ps;

	for (size_t i = 0; i < ps->usage.processes.n; i++) {
		const struct vt_model_counted *p = &ps->usage.processes.data[i];
		bool foreign = p->life == VT_LIFE_UNKNOWN, known = false;
		struct vt_ps_row *row;
		uint32_t *gpu;

		for (size_t k = 0; k < ps->rows.n && !foreign; k++)
			known = known || ps->rows.data[k].pid == p->pid;
		if (known)
			continue;
		row = add_row(ps, foreign ? 0 : p->pid);
		if (!row)
			return ps->rows.n == MAX_ROWS;
		row->torch.state =
			p->life == VT_LIFE_GONE || p->life == VT_LIFE_ZOMBIE ?
				VT_PS_TORCH_GONE :
				VT_PS_TORCH_DENIED; /* it is hidden from us, or foreign */
		row->name = p->name;
		row->command = p->command;
		row->user = p->user;
		if (!foreign) {
			if (!add_counts(ps, row))
				return false;
			continue;
		}
		gpu = vt_arena_alloc(&ps->arena, sizeof(*gpu));
		if (!gpu)
			return false;
		*gpu = p->gpu;
		row->gpus = gpu;
		row->n_gpus = 1;
		row->counted = true;
		row->life = p->life;
		row->bytes_known = p->bytes_known;
		row->bytes = p->bytes;
	}
	return true;
}

static struct vt_error *add_rows(struct look *look)
{
	for (size_t i = 0; i < look->processes.list.n; i++) {
		const struct vt_process *p = &look->processes.list.data[i];

		if (is_ours(look, i) || p->kernel_thread)
			continue;
		if (vt_process_gpu(&look->processes, i, NULL) == VT_GPU_NONE &&
		    !is_counted(look->ps, p->pid)) {
			look->ps->unseen += look->denied[i];
			continue;
		}
		if (!add_process(look, i))
			return &vt_enomem;
	}
	return add_others(look) ? NULL : &vt_enomem;
}

/* ---- PyTorch ---- */

/* Only its number can tell: files of a hidden process are not there, either. */
static void end_if_gone(struct vt_ps_row *row)
{
	enum vt_counted_life life;

	if (row->torch.state != VT_PS_TORCH_GONE)
		return;
	life = vt_usage_life_of(row->pid);
	if (life != VT_LIFE_GONE && life != VT_LIFE_ZOMBIE)
		row->torch.state = VT_PS_TORCH_LATE;
	else if (row->counted)
		row->life = life;
}

static void read_torch(struct vt_ps *ps)
{
	VT_FREE pid_t *pids = calloc(ps->rows.n + 1, sizeof(*pids));
	VT_FREE struct vt_ps_totals *totals = calloc(ps->rows.n + 1, sizeof(*totals));

	for (size_t i = 0; pids && i < ps->rows.n; i++)
		pids[i] = ps->rows.data[i].torch.state == VT_PS_TORCH_KNOWN ? ps->rows.data[i].pid :
									      0;
	if (pids && totals)
		(void)vt_ps_read_torch(pids, ps->rows.n, totals);
	for (size_t i = 0; i < ps->rows.n; i++) {
		if (pids && totals && pids[i]) {
			ps->rows.data[i].torch = totals[i];
			end_if_gone(&ps->rows.data[i]);
		} else if (ps->rows.data[i].torch.state == VT_PS_TORCH_KNOWN) {
			ps->rows.data[i].torch.state = VT_PS_TORCH_LATE;
		}
	}
}

static const struct vt_ps_row *parent_of(const struct vt_ps *ps, const struct vt_ps_row *row)
{
	for (size_t i = 0; i < ps->rows.n; i++)
		if (ps->rows.data[i].pid && ps->rows.data[i].pid == row->ppid)
			return &ps->rows.data[i];
	return NULL;
}

bool vt_ps_all_counted(const struct vt_ps *ps)
{
	if (ps->usage.state != VT_COUNTED_READ || ps->usage.foreign)
		return false;
	for (size_t i = 0; i < ps->usage.gpus.n; i++)
		if (!ps->usage.gpus.data[i].processes_known && !ps->usage.gpus.data[i].divided)
			return false;
	return ps->usage.gpus.n > 0;
}

/*
 * fork() copies the allocator, but not what it holds: a loader worker is not the owner of its
 * parent's memory. The parent may have ended; then the driver's count tells.
 */
static void find_forked(struct vt_ps *ps)
{
	bool counted = vt_ps_all_counted(ps);

	for (size_t i = 0; i < ps->rows.n; i++) {
		struct vt_ps_row *row = &ps->rows.data[i];
		const struct vt_ps_row *parent = parent_of(ps, row);

		if (row->counted || row->torch.state != VT_PS_TORCH_KNOWN || !row->torch.object)
			continue;
		if (((parent && row->torch.object == parent->torch.object) || counted) &&
		    !vt_proc_has_driver_thread(row->pid))
			row->torch.state = VT_PS_TORCH_INHERITED;
	}
}

static void find_idle(struct vt_ps *ps)
{
	bool counted = vt_ps_all_counted(ps);

	for (size_t i = 0; i < ps->rows.n; i++) {
		struct vt_ps_row *row = &ps->rows.data[i];
		bool torch = row->torch.state == VT_PS_TORCH_KNOWN && row->torch.reserved;

		if (row->counted || torch)
			continue;
		row->holds_nothing = row->torch.state == VT_PS_TORCH_INHERITED ||
				     (counted && row->use == VT_GPU_LIBRARY);
		ps->idle += row->holds_nothing;
	}
}

/* ---- since the looks before ---- */

static bool count_switches(pid_t pid, uint64_t *switches)
{
	char path[64], line[256];
	int found = 0;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)pid);

	VT_FCLOSE FILE *file = fopen(path, "re");

	*switches = 0;
	while (file && found < 2 && fgets(line, sizeof(line), file)) {
		const char *at = strstr(line, "voluntary_ctxt_switches:");

		if (!at)
			continue;
		*switches += strtoull(strchr(at, ':') + 1, NULL, 10);
		found++;
	}
	return found == 2;
}

static void remember(struct vt_ps *ps, struct vt_ps_memory *memory)
{
	uint64_t now = vt_now_ns();

	for (size_t i = 0; i < memory->seen.n; i++)
		memory->seen.data[i].there = false;
	for (size_t i = 0; i < ps->rows.n; i++) {
		struct vt_ps_row *row = &ps->rows.data[i];
		struct vt_ps_seen *seen = NULL;
		uint64_t switches;

		if (!row->pid || row->state == 'R' || !count_switches(row->pid, &switches))
			continue;
		for (size_t k = 0; k < memory->seen.n && !seen; k++)
			if (memory->seen.data[k].pid == row->pid &&
			    memory->seen.data[k].start_ticks == row->start_ticks)
				seen = &memory->seen.data[k];
		if (seen && seen->switches == switches) {
			row->still_s = (double)(now - seen->since_ns) / VT_NS_PER_S;
			seen->there = true;
			continue;
		}
		if (!seen)
			seen = vt_vec_append(&memory->seen);
		if (seen)
			*seen = (struct vt_ps_seen){ .pid = row->pid,
						     .start_ticks = row->start_ticks,
						     .switches = switches,
						     .since_ns = now,
						     .there = true };
	}
	for (size_t i = memory->seen.n; i-- > 0;)
		if (!memory->seen.data[i].there)
			memory->seen.data[i] = memory->seen.data[--memory->seen.n];
}

void vt_ps_memory_deinit(struct vt_ps_memory *memory)
{
	vt_vec_deinit(&memory->seen);
}

/* ---- the end ---- */

static uint64_t size_of(const struct vt_ps_row *row)
{
	uint64_t torch = row->torch.state == VT_PS_TORCH_KNOWN ? row->torch.reserved : 0;

	return row->bytes > torch ? row->bytes : torch;
}

static int by_device_and_size(const void *pa, const void *pb)
{
	const struct vt_ps_row *a = pa, *b = pb;
	uint32_t gpu_a = a->n_gpus ? a->gpus[0] : UINT32_MAX,
		 gpu_b = b->n_gpus ? b->gpus[0] : UINT32_MAX;

	if (gpu_a != gpu_b)
		return gpu_a < gpu_b ? -1 : 1;
	if (size_of(a) != size_of(b))
		return size_of(a) > size_of(b) ? -1 : 1;
	return a->pid < b->pid ? -1 : a->pid > b->pid;
}

static void judge(struct vt_ps *ps)
{
	size_t known = 0, denied = 0;

	for (size_t i = 0; i < ps->rows.n; i++) {
		const struct vt_ps_row *row = &ps->rows.data[i];
		bool is_known = vt_ps_torch_is_known(&row->torch) ||
				row->torch.state == VT_PS_TORCH_GONE;

		if (!is_known || (row->counted && !row->bytes_known))
			ps->completeness = VT_PARTIAL;
		known += is_known;
		denied += row->torch.state == VT_PS_TORCH_DENIED;
	}
	if (ps->dropped || ps->usage.state != VT_COUNTED_READ ||
	    (ps->unseen && !vt_ps_all_counted(ps)))
		ps->completeness = VT_PARTIAL;
	/* Not even the kernel driver told anything. */
	ps->denied = ps->usage.state != VT_COUNTED_READ && !known && (denied || ps->unseen);
}

static struct vt_error *look_at_all(struct look *look, struct vt_usage *asker, uint64_t until_ns)
{
	struct vt_ps *ps = look->ps;

	VT_TRY(vt_processes_init(&look->processes));
	ps->n_processes = look->processes.list.n;
	look->self = vt_processes_find(&look->processes, getpid());
	look->denied = calloc(look->processes.list.n + 1, sizeof(*look->denied));
	if (!look->denied)
		return &vt_enomem;
	vt_parallel(THREADS, look->processes.list.n, GRAIN, detect, look);
	vt_collect_count(asker, until_ns, NULL, 0, &ps->arena, &ps->usage);
	VT_TRY(add_rows(look));
	return NULL;
}

struct vt_error *vt_ps_init(struct vt_ps *ps, struct vt_ps_memory *memory)
{
	struct look look = { .ps = ps, .uid = geteuid() };
	struct vt_model model = { 0 };
	uint64_t start = vt_now_ns();
	struct vt_usage *asker = vt_usage_start(0, false);
	struct vt_error *err;

	ps->tool_version = PACKAGE_VERSION;
	clock_gettime(CLOCK_REALTIME, &ps->when);
	model.when = ps->when;
	vt_collect_where(&model, true);
	ps->where = model.where;
	ps->where.host = copy(ps, model.where.host, 256);
	ps->where.zone = copy(ps, model.where.zone, 32);
	vt_arena_deinit(&model.arena);
	vt_watchdog_arm(WATCH_NS, 0, "processes are read");
	err = look_at_all(&look, asker, start + ANSWER_NS);
	vt_usage_stop(asker);
	if (!err) {
		read_torch(ps);
		find_forked(ps);
		find_idle(ps);
		if (memory)
			remember(ps, memory);
		if (ps->rows.n)
			qsort(ps->rows.data, ps->rows.n, sizeof(*ps->rows.data),
			      by_device_and_size);
		judge(ps);
	}
	vt_watchdog_disarm();
	vt_processes_deinit(&look.processes);
	free(look.denied);
	ps->ms = (double)(vt_now_ns() - start) / VT_NS_PER_MS;
	return err;
}

void vt_ps_deinit(struct vt_ps *ps)
{
	vt_model_usage_deinit(&ps->usage);
	vt_vec_deinit(&ps->rows);
	vt_arena_deinit(&ps->arena);
	*ps = (struct vt_ps){ 0 };
}

/* ---- names ---- */

const char *vt_ps_torch_name(unsigned int state)
{
	static const char *const names[] = {
		[VT_PS_TORCH_NONE] = "none",           [VT_PS_TORCH_KNOWN] = "known",
		[VT_PS_TORCH_INHERITED] = "inherited", [VT_PS_TORCH_ASYNC] = "cuda-malloc-async",
		[VT_PS_TORCH_REFUSED] = "refused",     [VT_PS_TORCH_DENIED] = "not-permitted",
		[VT_PS_TORCH_LATE] = "late",           [VT_PS_TORCH_GONE] = "gone",
	};

	return names[state < VT_N_PS_TORCH ? state : VT_PS_TORCH_REFUSED];
}

bool vt_ps_torch_is_known(const struct vt_ps_totals *totals)
{
	return totals->state < VT_PS_TORCH_ASYNC;
}

const char *vt_ps_state_name(const struct vt_ps_row *row)
{
	static const struct {
		char state;
		const char *name;
	} names[] = {
		{ 'R', "running" },         { 'S', "sleeping" }, { 'I', "sleeping" },
		{ 'D', "uninterruptible" }, { 'T', "stopped" },  { 't', "traced" },
		{ 'Z', "zombie" },          { 'X', "gone" },
	};

	if (row->life == VT_LIFE_GONE)
		return "gone";
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].state == row->state)
			return names[i].name;
	return "unknown";
}

const char *vt_ps_gpu_name(char buf[VT_PS_GPU_MAX], const struct vt_ps *ps, uint32_t gpu)
{
	const struct vt_model_gpu *gpus = ps->usage.gpus.data;
	uint32_t whole = gpus[gpu].parent >= 0 ? (uint32_t)gpus[gpu].parent : gpu, number = 0,
		 instance = 0;

	for (uint32_t i = 0; i < whole; i++)
		number += gpus[i].parent < 0;
	for (uint32_t i = 0; i < gpu; i++)
		instance += gpus[i].parent == (int)whole;
	if (whole == gpu)
		snprintf(buf, VT_PS_GPU_MAX, "%u", number);
	else
		snprintf(buf, VT_PS_GPU_MAX, "%u:%u", number, instance);
	return buf;
}
