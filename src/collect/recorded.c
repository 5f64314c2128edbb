/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The data of vramtap's recorder in the process: read from outside while the process runs, or from
 * a core. Its tables are read before the blocks are listed and after (walk/recorder/join.h says
 * why), its stacks once it is known which are wanted.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "collect/launches.h"
#include "collect/traces.h"
#include "target/grace.h"
#include "target/timens.h"
#include "walk/recorder/find.h"
#include "walk/recorder/join.h"
#include "walk/recorder/launches.h"
#include "walk/recorder/stacks.h"

/*
 * A thread may have got a block before the blocks were listed, and not have written its record yet.
 * It needs less than a microsecond of its own time for that: each thread gets that time, or sleeps,
 * before the records are read; and vramtap waits that long.
 */
#define RECORD_NS (50 * VT_NS_PER_US)
#define SETTLE_NS (20 * VT_NS_PER_MS)

struct vt_collect_recorded {
	uint64_t addr;    /* of the head; 0: no recorder */
	int64_t ahead_ns; /* of our clock; all times here are of the target's */
	bool clock_known; /* otherwise the newest record counts as now */
	struct vt_recorder_head head, head_before;
	enum vt_recorder_found found;
	struct vt_recorder_pass before, after;
	bool have_before, have_after;
	uint64_t listed_ns[VT_TORCH_MAX_DEVICES], after_ns;
	uint64_t inside_ns; /* the listing inside */
	struct vt_recorder_driver_pass driver;
	struct vt_recorder_launches_pass launches;
	struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS];
	size_t n_ooms;
	unsigned int n_unsettled; /* threads that had no processor throughout */
	uint64_t now_ns;          /* the reference of ages */
	bool looked;              /* putting the findings into the model was tried, */
	bool joined;              /* and succeeded */
	struct vt_recorder_joined records;
	struct vt_recorder_stacks stacks;
	uint32_t *of_block;
	struct vt_trace_in_set *traces;
	struct vt_map threads; /* tid → const struct thread *; 0: there is none */
	size_t n_threads;
};

static struct vt_collect_recorded *find_recorder(struct vt_collect *c)
{
	if (c->recorded)
		return c->recorded->addr ? c->recorded : NULL;
	c->recorded = calloc(1, sizeof(*c->recorded));
	if (!c->recorded)
		return NULL;
	c->recorded->addr = vt_recorder_find(&c->target.maps, c->target.mem);
	if (!c->recorded->addr)
		return NULL;
	c->recorded->clock_known = c->target.live &&
				   vt_timens_ahead(c->target.proc.pid, &c->recorded->ahead_ns);
	return c->recorded;
}

static uint64_t target_now(const struct vt_collect_recorded *r)
{
	return vt_now_ns() + (uint64_t)r->ahead_ns;
}

void vt_collect_recorded_deinit(struct vt_collect *c)
{
	struct vt_collect_recorded *r = c->recorded;

	if (!r)
		return;
	vt_recorder_pass_deinit(&r->before);
	vt_recorder_pass_deinit(&r->after);
	vt_recorder_driver_deinit(&r->driver);
	vt_recorder_launches_deinit(&r->launches);
	vt_recorder_joined_deinit(&r->records);
	vt_recorder_stacks_deinit(&r->stacks);
	vt_map_deinit(&r->threads);
	free(r->of_block);
	free(r->traces);
	free(r);
	c->recorded = NULL;
}

/* ---- the passes ---- */

/* Without it, only blocks older than the listing count, so a failure is not reported. */
void vt_collect_recorded_before(struct vt_collect *c)
{
	struct vt_collect_recorded *r = find_recorder(c);
	enum vt_recorder_found found;
	struct vt_error *err;

	if (!r)
		return;
	vt_recorder_pass_deinit(&r->before);
	err = vt_recorder_head_read(c->target.mem, r->addr, &r->head_before, &found);
	if (!err && found == VT_RECORDER_IS_ON)
		err = vt_recorder_pass_read(c->target.mem, r->addr, &r->before);
	r->have_before = !err && found == VT_RECORDER_IS_ON;
	vt_error_destroy(err);
	for (int i = 0; i < VT_TORCH_MAX_DEVICES; i++)
		r->listed_ns[i] = target_now(r);
	if (!r->inside_ns)
		r->inside_ns = r->listed_ns[0];
}

void vt_collect_recorded_inside(struct vt_collect *c)
{
	struct vt_collect_recorded *r = find_recorder(c);

	if (!r)
		return;
	r->have_before = false; /* what was read since is no longer from before the listing */
	for (int i = 0; i < VT_TORCH_MAX_DEVICES; i++)
		r->listed_ns[i] = r->inside_ns;
}

void vt_collect_recorded_listing(struct vt_collect *c, int device)
{
	if (c->recorded && device >= 0 && device < VT_TORCH_MAX_DEVICES)
		c->recorded->listed_ns[device] = target_now(c->recorded);
}

static uint64_t last_listing(const struct vt_collect_recorded *r)
{
	uint64_t last = 0;

	for (int i = 0; i < VT_TORCH_MAX_DEVICES; i++)
		last = r->listed_ns[i] > last ? r->listed_ns[i] : last;
	return last;
}

static struct vt_error *read_after(struct vt_collect *c, struct vt_collect_recorded *r)
{
	VT_TRY(vt_recorder_head_read(c->target.mem, r->addr, &r->head, &r->found));
	if (r->found != VT_RECORDER_IS_ON)
		return NULL;
	VT_TRY(vt_recorder_pass_read(c->target.mem, r->addr, &r->after));
	VT_TRY(vt_recorder_driver_read(c->target.mem, r->addr, &r->driver));
	if (r->head.config.launches)
		VT_TRY(vt_recorder_launches_read(c->target.mem, r->addr, &r->launches));
	r->n_ooms = vt_recorder_ooms(&r->head, r->ooms);
	r->have_after = true;
	return NULL;
}

void vt_collect_recorded_after(struct vt_collect *c)
{
	struct vt_collect_recorded *r = find_recorder(c);
	struct vt_error *err;

	if (!r || (r->after_ns && last_listing(r) <= r->after_ns))
		return;
	vt_recorder_pass_deinit(&r->after);
	vt_recorder_driver_deinit(&r->driver);
	vt_recorder_launches_deinit(&r->launches);
	r->have_after = false;
	r->after_ns = target_now(r);
	r->n_unsettled = c->target.live ? vt_grace_wait(c->target.proc.pid, RECORD_NS,
							vt_now_ns() + SETTLE_NS) :
					  0;
	err = read_after(c, r);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_RECORDER,
				      "the recorder's data is missing", err);
}

/* ---- times and threads ---- */

static uint64_t newest_tick(const struct vt_collect_recorded *r)
{
	uint64_t newest = vt_recorder_newest(&r->head);

	for (size_t i = 0; i < r->after.blocks.n; i++)
		newest = vt_recorder_newer(newest, r->after.blocks.data[i].time);
	for (size_t i = 0; i < r->driver.blocks.n; i++)
		newest = vt_recorder_newer(newest, r->driver.blocks.data[i].time);
	return newest;
}

/* A core has no time of its making, and the clock of another time namespace may be unknown. */
static void find_now(struct vt_collect_recorded *r)
{
	r->now_ns = r->after_ns;
	if (r->clock_known)
		return;
	r->now_ns = r->head.start_ns + newest_tick(r) * VT_RECORDER_TICK_NS;
	for (size_t i = 0; i < r->launches.streams.n; i++)
		for (size_t k = 0; k < r->launches.streams.data[i].n; k++) {
			uint64_t time = r->launches.streams.data[i].launches[k].record.time_ns;

			r->now_ns = time > r->now_ns ? time : r->now_ns;
		}
	for (size_t i = 0; i < r->n_ooms; i++)
		r->now_ns = r->ooms[i].time_ns > r->now_ns ? r->ooms[i].time_ns : r->now_ns;
}

/* The time of day at r->now_ns. */
static struct timespec real_time(const struct vt_collect_recorded *r)
{
	struct timespec now;
	int64_t ns;

	clock_gettime(CLOCK_REALTIME, &now);
	ns = now.tv_nsec - (int64_t)(target_now(r) - r->now_ns);
	now.tv_sec += ns / (int64_t)VT_NS_PER_S;
	ns %= (int64_t)VT_NS_PER_S;
	if (ns < 0) {
		now.tv_sec--;
		ns += (int64_t)VT_NS_PER_S;
	}
	now.tv_nsec = ns;
	return now;
}

static uint64_t age_of(const struct vt_collect_recorded *r, uint64_t time_ns)
{
	return r->now_ns > time_ns ? r->now_ns - time_ns : 0;
}

struct thread {
	const char *name;
	uint64_t start_ns; /* CLOCK_MONOTONIC of the target */
};

/* /proc counts from boot in ticks of 10 ms (USER_HZ), including time in suspend; records do not. */
static uint64_t suspended_ns(void)
{
	uint64_t mono = vt_now_ns();

	return vt_clock_ns(CLOCK_BOOTTIME) - mono;
}

#define PROC_TICK_NS (10 * VT_NS_PER_MS)
#define MAX_THREADS 4096 /* that are read; threads do not have more numbers than that */

/* The thread that has this number now; NULL: there is none, or none that is known. */
static const struct thread *read_thread(struct vt_collect *c, const struct vt_collect_recorded *r,
					uint32_t tid)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, c->target.proc.pid, (pid_t)tid);
	uint64_t start = info.start_ticks * PROC_TICK_NS, suspended = suspended_ns();
	struct thread *thread = err ? NULL : vt_arena_alloc(&c->model->arena, sizeof(*thread));

	if (!thread)
		return NULL;
	thread->name = vt_collect_copy(c, info.name, sizeof(info.name));
	thread->start_ns = start > suspended ? start - suspended + (uint64_t)r->ahead_ns : 0;
	return thread;
}

/*
 * In another pid namespace its numbers are other threads here; and without the clock it is unknown
 * which one is older.
 */
static const struct thread *find_thread(struct vt_collect *c, struct vt_collect_recorded *r,
					uint32_t tid)
{
	const uint64_t *known = vt_map_get(&r->threads, tid);
	const struct thread *thread;

	if (known)
		return (const struct thread *)(uintptr_t)*known;
	if (!r->clock_known || !c->target.proc.same_pid_ns || !tid || tid > INT32_MAX ||
	    r->n_threads++ >= MAX_THREADS)
		return NULL;
	thread = read_thread(c, r, tid);
	vt_map_put(&r->threads, tid, (uint64_t)(uintptr_t)thread);
	return thread;
}

/* A newer thread may have its number by now. */
static const char *name_of(struct vt_collect *c, struct vt_collect_recorded *r, uint32_t tid,
			   uint64_t time_ns)
{
	const struct thread *thread = find_thread(c, r, tid);

	return thread && thread->start_ns <= time_ns + 2 * PROC_TICK_NS ? thread->name : "";
}

static struct vt_model_record make_record(struct vt_collect *c, struct vt_collect_recorded *r,
					  uint64_t time_ns, uint32_t tid)
{
	return (struct vt_model_record){ .age_ns = age_of(r, time_ns),
					 .tid = (pid_t)tid,
					 .thread = name_of(c, r, tid, time_ns) };
}

static uint64_t time_of(const struct vt_collect_recorded *r, uint32_t ticks)
{
	return vt_recorder_time_ns(&r->head, ticks, r->now_ns);
}

/* ---- blocks ---- */

static bool join_records(struct vt_collect *c, struct vt_collect_recorded *r)
{
	static const struct vt_recorder_pass nothing;
	static const uint64_t no_times[VT_TORCH_MAX_DEVICES]; /* nothing is known to be older */
	struct vt_recorder_moment moment = {
		.before = &nothing,
		.after = &r->after,
		.head = &r->head,
		.listed_ns = r->clock_known ? r->listed_ns : no_times,
	};

	if (c->target.mem->coherent)
		moment.before = NULL;
	else if (r->have_before && vt_recorder_is_same_time(&r->head_before, &r->head))
		moment.before = &r->before;
	return vt_recorder_join(&moment, c->model->blocks, c->model->n_blocks, &r->records);
}

/* There is no record of it. Left-out blocks cannot be told from older ones. */
static enum vt_untraced why_none(const struct vt_collect_recorded *r, const struct vt_block_rec *b)
{
	uint64_t size = b->requested ? b->requested : b->size;

	if (r->after.n_unread || r->after.n_damaged)
		return VT_UNTRACED_UNREADABLE;
	if (size < r->after.sample || size < r->head.sample_now || r->after.evicted || r->head.lost)
		return VT_UNTRACED_SAMPLED;
	return VT_UNTRACED_NOT_RECORDED;
}

static bool want(struct vt_collect_recorded *r, uint32_t stack, uint32_t *trace)
{
	*trace = VT_UNTRACED(VT_UNTRACED_NO_STACK);
	if (stack == VT_RECORDER_NO_STACK)
		return true;
	if (!vt_recorder_stacks_want(&r->stacks, stack, trace))
		return false;
	if (*trace == VT_RECORDER_NO_TRACE)
		*trace = VT_UNTRACED(VT_UNTRACED_UNREADABLE);
	return true;
}

/* For each block: a trace, or why it has none; and, if it has a record, when and which thread. */
static bool find_blocks(struct vt_collect *c, struct vt_collect_recorded *r)
{
	struct vt_model *model = c->model;
	struct vt_model_record *records =
		vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*records));

	r->of_block = malloc((model->n_blocks + 1) * sizeof(*r->of_block));
	if (!records || !r->of_block)
		return false;
	for (size_t i = 0; i < model->n_blocks; i++) {
		static const enum vt_untraced why[VT_RECORD_N_FATES] = {
			[VT_RECORD_CHANGED] = VT_UNTRACED_CHANGED,
			[VT_RECORD_MISMATCH] = VT_UNTRACED_UNSEEN,
			[VT_RECORD_TWICE] = VT_UNTRACED_UNREADABLE,
		};
		uint8_t fate = r->records.fate_of[i];
		const struct vt_recorder_block *record;

		records[i] = (struct vt_model_record){ .age_ns = VT_NO_AGE, .thread = "" };
		r->of_block[i] = VT_UNTRACED(
			fate == VT_RECORD_NONE ? why_none(r, &model->blocks[i]) : why[fate]);
		if (fate != VT_RECORD_JOINED)
			continue;
		record = &r->after.blocks.data[r->records.record_of[i]];
		records[i] = make_record(c, r, time_of(r, record->time), record->tid);
		if (!want(r, record->stack, &r->of_block[i]))
			return false;
	}
	model->block_records = records;
	return true;
}

/* ---- the driver's ---- */

struct range {
	uint64_t start, end;
};

static int compare_ranges(const void *pa, const void *pb)
{
	const struct range *a = pa, *b = pb;

	return (a->start > b->start) - (a->start < b->start);
}

/* The memory that PyTorch's allocator has from the driver: its segments. False: out of memory. */
static bool find_segments(const struct vt_model *model, struct range **ranges, size_t *n)
{
	struct range *r = malloc((model->n_blocks + 1) * sizeof(*r));

	*n = 0;
	*ranges = r;
	if (!r)
		return false;
	for (size_t k = 0; k < model->allocators.n; k++) {
		const struct vt_model_allocator *a = &model->allocators.data[k];
		size_t end = a->first_block + a->n_blocks, next;

		for (size_t i = a->first_block; i < end; i = next) {
			const struct vt_block_rec *last;

			next = vt_model_segment_end(model, i, end);
			last = &model->blocks[next - 1];
			if (model->blocks[i].state != VT_BLOCK_UNMAPPED)
				r[(*n)++] = (struct range){ model->blocks[i].addr,
							    last->addr + last->size };
		}
	}
	if (*n > 1)
		qsort(r, *n, sizeof(*r), compare_ranges);
	return true;
}

/*
 * Whether it overlaps some segment: a segment is one allocation of the driver, or some mapped ones.
 */
static bool is_segment(const struct range *ranges, size_t n, uint64_t start, uint64_t size)
{
	uint64_t end = size < UINT64_MAX - start ? start + size : UINT64_MAX;
	size_t low = 0, high = n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ranges[mid].end <= start)
			low = mid + 1;
		else
			high = mid;
	}
	return low < n && ranges[low].start < end;
}

static const struct {
	enum vt_driver_kind kind;
	bool on_device;
} kinds[] = {
	[VT_DRIVER_DEVICE] = { VT_DRIVER_KIND_DEVICE, true },
	[VT_DRIVER_ASYNC] = { VT_DRIVER_KIND_ASYNC, true },
	[VT_DRIVER_VMM] = { VT_DRIVER_KIND_MAPPED, true },
	[VT_DRIVER_MANAGED] = { VT_DRIVER_KIND_MANAGED, false },
	[VT_DRIVER_HOST] = { VT_DRIVER_KIND_HOST, false },
};

static int compare_driver(const void *pa, const void *pb)
{
	const struct vt_recorder_driver_block *a = pa, *b = pb;

	return (a->addr > b->addr) - (a->addr < b->addr);
}

static bool add_driver_blocks(struct vt_collect *c, struct vt_collect_recorded *r,
			      const struct range *segments, size_t n_segments)
{
	size_t n = r->driver.blocks.n;

	if (n > 1)
		qsort(r->driver.blocks.data, n, sizeof(*r->driver.blocks.data), compare_driver);
	for (size_t i = 0; i < n; i++) {
		const struct vt_recorder_driver_block *from = &r->driver.blocks.data[i];
		bool known = from->kind < sizeof(kinds) / sizeof(kinds[0]) &&
			     kinds[from->kind].kind;
		struct vt_model_driver_block *block;

		/*
		 * An entry that was moved during the read is there twice. No address space has room
		 * for more than this.
		 */
		if (!known || !from->size || from->size >> VT_RECORDER_SIZE_BITS ||
		    (i && from->addr == r->driver.blocks.data[i - 1].addr))
			continue;
		block = vt_vec_append(&c->model->driver_blocks);
		if (!block)
			return false;
		*block = (struct vt_model_driver_block){
			.addr = from->addr,
			.size = from->size,
			.stream = from->stream,
			.device = from->device < 0 ? -1 : from->device,
			.kind = kinds[from->kind].kind,
			.on_device = kinds[from->kind].on_device,
			.of_pytorch = kinds[from->kind].on_device &&
				      is_segment(segments, n_segments, from->addr, from->size),
			.record = make_record(c, r, time_of(r, from->time), from->tid),
		};
		/* PyTorch accounts for its own segments; their stacks are not wanted. */
		block->trace = VT_UNTRACED(VT_UNTRACED_NO_STACK);
		if (!block->of_pytorch && !want(r, from->stack, &block->trace))
			return false;
	}
	return true;
}

static bool find_driver_blocks(struct vt_collect *c, struct vt_collect_recorded *r)
{
	VT_FREE struct range *segments = NULL;
	size_t n = 0;

	if (!r->driver.blocks.n)
		return true;
	return find_segments(c->model, &segments, &n) && add_driver_blocks(c, r, segments, n);
}

/* ---- out of memory ---- */

static bool find_ooms(struct vt_collect *c, struct vt_collect_recorded *r)
{
	for (size_t i = 0; i < r->n_ooms; i++) {
		const struct vt_recorder_oom *from = &r->ooms[i];
		struct vt_model_oom *oom = vt_vec_append(&c->model->ooms);

		if (!oom)
			return false;
		*oom = (struct vt_model_oom){
			.number = from->seq,
			.of_pytorch = from->kind == VT_OOM_PYTORCH,
			.requested = from->requested,
			.age_ns = age_of(r, from->time_ns),
			.free_bytes = from->free_bytes,
			.total_bytes = from->total_bytes,
			.waited_ns = from->waited_ns,
			.device = from->device < 0 ? -1 : from->device,
			.error = from->error,
			.tid = (pid_t)from->tid,
			.thread = name_of(c, r, from->tid, from->time_ns),
		};
		if (!want(r, from->stack, &oom->trace))
			return false;
	}
	return true;
}

/* ---- launches ---- */

static enum vt_launch_fate fate_of(const struct vt_recorder_launched *from,
				   const struct vt_recorder_launch_stream *stream)
{
	if (from->record.flags & VT_LAUNCH_CAPTURED)
		return VT_LAUNCH_FATE_CAPTURED;
	if (from->state == VT_LAUNCH_FAILED)
		return VT_LAUNCH_FATE_FAILED;
	if (from->number <= stream->done)
		return VT_LAUNCH_FATE_ENDED;
	return from->state == VT_LAUNCH_CALLING ? VT_LAUNCH_FATE_CALLED : VT_LAUNCH_FATE_MAY_RUN;
}

static bool make_launch(struct vt_collect *c, struct vt_collect_recorded *r,
			const struct vt_recorder_launch_stream *stream,
			const struct vt_recorder_launched *from, struct vt_model_launch *launch)
{
	static const enum vt_launched_kind kind_of[VT_N_LAUNCH_KINDS] = {
		[VT_LAUNCH_STUB] = VT_LAUNCHED_KERNEL,
		[VT_LAUNCH_HANDLE] = VT_LAUNCHED_KERNEL,
		[VT_LAUNCH_GRAPH] = VT_LAUNCHED_GRAPH,
		[VT_LAUNCH_HOST] = VT_LAUNCHED_HOST,
		[VT_LAUNCH_WAIT_VALUE] = VT_LAUNCHED_WAIT_VALUE,
		[VT_LAUNCH_WAIT_EVENT] = VT_LAUNCHED_WAIT_EVENT,
		[VT_LAUNCH_RECORD_EVENT] = VT_LAUNCHED_RECORD_EVENT,
		[VT_LAUNCH_WRITE_VALUE] = VT_LAUNCHED_WRITE_VALUE,
	};
	const struct vt_recorder_launch *record = &from->record;

	*launch = (struct vt_model_launch){
		.number = from->number,
		.kind = kind_of[record->kind],
		.fate = fate_of(from, stream),
		.age_ns = age_of(r, record->time_ns),
		.name = from->name,
		.by_address = record->kind == VT_LAUNCH_STUB || record->kind == VT_LAUNCH_HOST,
		.what = record->what,
		.value = (uint64_t)record->grid[1] << 32 | record->grid[0],
		.bits = record->block[1] == 64 ? 64 : 32,
		.compare = (enum vt_value_compare)(record->block[0] % VT_N_VALUE_COMPARES),
		.grid = { record->grid[0], record->grid[1], record->grid[2] },
		.block = { record->block[0], record->block[1], record->block[2] },
		.shared_bytes = record->shared,
		.tid = (pid_t)record->tid,
		.thread = name_of(c, r, record->tid, record->time_ns),
	};
	return want(r, record->stack, &launch->trace);
}

/*
 * The recorder knows the device only where the runtime launched a kernel. PyTorch knows that of its
 * streams; a handle is an address, so it is of one device.
 */
static int device_of(const struct vt_collect *c, const struct vt_recorder_launch_stream *from)
{
	int device = from->device < 0 ? -1 : from->device;

	if (device >= 0 || !from->handle || from->tid)
		return device;
	for (size_t i = 0; i < c->model->streams.list.n; i++) {
		const struct vt_model_stream *stream = &c->model->streams.list.data[i];

		if (stream->handle == from->handle && stream->kind == VT_STREAM_IS_POOL)
			return stream->device;
	}
	return -1;
}

/* Records of the model: the recorder's lives as long. */
static bool make_stream(struct vt_collect *c, struct vt_collect_recorded *r,
			const struct vt_recorder_launch_list *list)
{
	const struct vt_recorder_launch_stream *from = &list->stream;
	uint64_t launches = vt_recorder_stream_launches(from);
	struct vt_model_launch_stream *to = vt_vec_append(&c->model->launches.streams);

	if (!to)
		return false;
	*to = (struct vt_model_launch_stream){
		.device = device_of(c, from),
		.handle = from->handle,
		.tid = (pid_t)from->tid,
		.total = launches,
		.ended = from->done < launches ? from->done : launches,
		.may_run = list->n_unkept,
		.not_kept = list->n_unkept,
		.n = list->n,
		.launches = vt_arena_alloc(&c->model->arena, (list->n + 1) * sizeof(*to->launches)),
	};
	if (!to->launches)
		return false;
	for (size_t i = 0; i < list->n; i++) {
		struct vt_model_launch *launch = &to->launches[i];

		if (!make_launch(c, r, from, &list->launches[i], launch))
			return false;
		if (!vt_launch_may_run(launch))
			continue;
		to->may_run++;
		if (!to->oldest_ns)
			to->oldest_ns = launch->age_ns;
	}
	return true;
}

static int compare_streams(const void *pa, const void *pb)
{
	const struct vt_model_launch_stream *a = pa, *b = pb;

	if (a->oldest_ns != b->oldest_ns)
		return a->oldest_ns < b->oldest_ns ? 1 : -1;
	return (a->handle > b->handle) - (a->handle < b->handle);
}

static bool find_launches(struct vt_collect *c, struct vt_collect_recorded *r)
{
	struct vt_model_launches *launches = &c->model->launches;

	if (!r->head.config.launches || r->launches.unread)
		return true;
	for (size_t i = 0; i < r->launches.streams.n; i++)
		if (!make_stream(c, r, &r->launches.streams.data[i]))
			return false;
	if (launches->streams.n > 1)
		qsort(launches->streams.data, launches->streams.n, sizeof(*launches->streams.data),
		      compare_streams);
	launches->known = true;
	launches->total = r->launches.total;
	launches->lost = r->launches.lost;
	launches->n_words = r->launches.n_words;
	launches->whole = !r->launches.n_damaged && !r->launches.n_left;
	vt_collect_name_launches(c);
	vt_collect_launch_values(c);
	return true;
}

/* ---- all of it ---- */

static const char *driver_method(const struct vt_recorder_head *head)
{
	return head->driver_method == VT_DRIVER_CUPTI ? "CUPTI" :
	       head->driver_method == VT_DRIVER_GOT   ? "GOT" :
							NULL;
}

static void tell_recorder(struct vt_collect *c, const struct vt_collect_recorded *r)
{
	static const enum vt_recording states[] = {
		[VT_RECORDER_IS_OFF] = VT_RECORDING_OFF,
		[VT_RECORDER_IS_ON] = VT_RECORDING_ON,
		[VT_RECORDER_INHERITED] = VT_RECORDING_INHERITED,
		[VT_RECORDER_FOREIGN] = VT_RECORDING_OTHER_VERSION,
		[VT_RECORDER_DAMAGED] = VT_RECORDING_UNREADABLE,
	};
	struct vt_model_recorder *recorder = &c->model->recorder;
	const struct vt_recorder_head *head = &r->head;

	recorder->state = states[r->found];
	if (r->found != VT_RECORDER_IS_ON)
		return;
	recorder->on_ns = age_of(r, head->start_ns);
	recorder->since_last = !r->clock_known;
	if (r->clock_known)
		recorder->ages_to = real_time(r);
	recorder->python = head->python != 0;
	recorder->native = head->native != 0;
	recorder->driver = driver_method(head);
	recorder->sample_bytes = head->sample_bytes;
	recorder->sample_now_bytes = r->after.sample > head->sample_now ? r->after.sample :
									  head->sample_now;
	recorder->memory_bytes = head->memory;
	recorder->max_memory_bytes = head->max_memory;
	recorder->allocations = r->after.allocations + head->lost;
	recorder->driver_allocations = head->driver_allocations;
	recorder->driver_frees = head->driver_frees;
	recorder->lost = head->lost;
	recorder->evicted = r->after.evicted;
	recorder->stacks_dropped = head->stacks_dropped;
}

static void say_state(struct vt_collect *c, const struct vt_collect_recorded *r)
{
	if (r->found == VT_RECORDER_FOREIGN)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "other-version",
			"the recorder in the process belongs to another version of vramtap: its records are not shown");
	if (r->found == VT_RECORDER_DAMAGED)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "damaged",
			"the recorder's state in the process is inconsistent: its records are not shown");
	if (r->found == VT_RECORDER_INHERITED)
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "inherited",
			"the recorder in this process was copied from the parent by fork(): nothing is recorded here");
}

static bool is_in_recorder(const struct vt_model_thread *thread)
{
	for (size_t i = 0; i < thread->stack.n_frames; i++) {
		const struct vt_model_frame *f = &thread->stack.frames[i];

		if (f->kind == VT_FRAME_NATIVE && f->module &&
		    strstr(f->module, VT_RECORDER_FILE_NAME))
			return true;
	}
	return false;
}

/* In a core, a record that is not written yet never will be. */
static void say_who_is_in_the_middle(struct vt_collect *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->model->threads.n; i++)
		n += is_in_recorder(&c->model->threads.data[i]);
	if (n)
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "in-the-middle",
			"threads in the middle of an allocation: %zu; a block just got, of the same size as the previous one at its address, is shown with that one's backtrace",
			n);
}

static void say_what_is_missing(struct vt_collect *c, const struct vt_collect_recorded *r)
{
	struct vt_model *model = c->model;

	if (!c->target.live)
		say_who_is_in_the_middle(c);

	if (r->after.n_unread)
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "tables-unread",
			"%u of the recorder's %d tables of blocks could not be read: blocks without a backtrace may be recorded",
			r->after.n_unread, VT_RECORDER_SHARDS);
	if (r->after.n_damaged || r->driver.n_damaged)
		vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "records-damaged",
			      "%zu of the recorder's records are inconsistent and are not shown",
			      r->after.n_damaged + r->driver.n_damaged);
	if (r->driver.unread || r->driver.moving)
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "driver-unread",
			r->driver.unread ?
				"the recorder's table of the driver's allocations could not be read" :
				"the recorder's table of driver allocations kept changing during the read: some may be missing, or already freed");
	if (r->launches.unread || r->launches.n_damaged)
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "launches-unread",
			r->launches.unread ?
				"the recorder's table of launches could not be read" :
				"some of the recorder's records of launches are inconsistent and are not shown");
	if (r->stacks.n_invalid || r->records.n[VT_RECORD_TWICE])
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "stacks-damaged",
			"%zu of the recorder's stacks and %zu of its records are inconsistent and are not shown%s%s",
			r->stacks.n_invalid, r->records.n[VT_RECORD_TWICE],
			r->stacks.why[0] ? ": " : "", r->stacks.why);
	if (r->stacks.cut)
		vt_model_diag(
			model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "stacks-cut",
			"there are too many different backtraces: only the first %zu were read",
			r->stacks.traces.n - r->stacks.n_invalid);
	if (r->records.n[VT_RECORD_CHANGED])
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "blocks-changed",
			"%zu blocks were allocated or freed too close to the listing to match with a record",
			r->records.n[VT_RECORD_CHANGED]);
	if (r->records.n[VT_RECORD_MISMATCH])
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "blocks-unseen",
			"blocks without a backtrace, because they were created while recording was on but not through the allocator's functions (as when the state of a CUDA graph's pool is restored): %zu",
			r->records.n[VT_RECORD_MISMATCH]);
	if (c->target.live && !r->clock_known)
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "other-clock",
			"the clock of the process's time namespace is unknown: ages are relative to the newest record");
	if (r->n_unsettled)
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "unsettled",
			"threads ready but not running: %u; a block that one had just got is shown as older than the recording, or with the backtrace of the previous block of that size at its address",
			r->n_unsettled);
	if (r->head.lost)
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "lost",
			"allocations that left no record, beside those that sampling left out: %llu",
			(unsigned long long)r->head.lost);
	if (r->stacks.n_gone)
		vt_model_diag(
			model, VT_DIAG_NOTE, VT_STAGE_RECORDER, "code-gone",
			"functions in recorded backtraces without names, because their code objects are gone: %zu",
			r->stacks.n_gone);
}

/* Whether the recording that was read goes on; the tables are freed when it ends. */
static bool is_still_on(struct vt_collect *c, const struct vt_collect_recorded *r)
{
	VT_FREE struct vt_recorder_head *head = malloc(sizeof(*head));
	enum vt_recorder_found found;
	struct vt_error *err = head ? vt_recorder_head_read(c->target.mem, r->addr, head, &found) :
				      &vt_enomem;
	bool on = !err && found == VT_RECORDER_IS_ON && vt_recorder_is_same_time(head, &r->head);

	vt_error_destroy(err);
	return on;
}

static void forget_records(struct vt_collect *c)
{
	c->model->block_records = NULL;
	c->model->driver_blocks.n = 0;
	c->model->ooms.n = 0;
	c->model->launches.streams.n = 0;
	c->model->launches.known = false;
	c->model->recorder = (struct vt_model_recorder){ .state = VT_RECORDING_OFF };
	vt_model_diag(
		c->model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "ended",
		"recording was switched off while it was read: what was recorded is not shown");
}

static void name_stacks(struct vt_collect *c, struct vt_collect_recorded *r)
{
	struct vt_python *python = r->stacks.python.n ? vt_collect_python(c) : NULL;
	struct vt_error *err;

	if (!r->stacks.python.n)
		return;
	if (!python) {
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_RECORDER, "python",
			"the Python frames of recorded backtraces have no names: the interpreter cannot be read");
		return;
	}
	if (c->target.live)
		vt_live_drop_cache(c->target.live);
	err = vt_recorder_stacks_name(&r->stacks, python, c->target.mem, c->target.cached);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_RECORDER,
				      "names of Python frames in recorded backtraces are missing",
				      err);
	for (size_t i = 0; i < r->stacks.python.n; i++) {
		struct vt_python_place *place = &r->stacks.python.data[i];
		const struct vt_recorder_code *code =
			&r->stacks.codes.data[r->stacks.code_of.data[i]];

		if (err || place->valid)
			continue;
		place->function = vt_arena_printf(
			&c->model->arena, VT_FREED_CODE ", first line %d>", (int)code->firstlineno);
		place->file = NULL;
		place->line = 0;
	}
}

static struct vt_error *join(struct vt_collect *c, struct vt_collect_recorded *r)
{
	find_now(r);
	if (!join_records(c, r) || !find_blocks(c, r) || !find_driver_blocks(c, r) ||
	    !find_ooms(c, r) || !find_launches(c, r))
		return &vt_enomem;
	VT_TRY(vt_recorder_stacks_read(c->target.mem, r->addr, &r->stacks));
	name_stacks(c, r);
	return NULL;
}

void vt_collect_recorded_join(struct vt_collect *c)
{
	struct vt_collect_recorded *r = find_recorder(c);
	struct vt_error *err;

	if (!r || r->looked)
		return;
	r->looked = true;
	vt_collect_recorded_after(c);
	if (!r->have_after) {
		tell_recorder(c, r);
		say_state(c, r);
		if (r->have_before)
			forget_records(c);
		return;
	}
	err = join(c, r);
	tell_recorder(c, r);
	if (err) {
		forget_records(c);
		vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_RECORDER,
				      "the recorder's data is missing", err);
		return;
	}
	if (!is_still_on(c, r)) {
		forget_records(c);
		return;
	}
	say_what_is_missing(c, r);
	r->joined = true;
}

/* An inconsistent trace is none. */
static uint32_t checked(const struct vt_collect_recorded *r, uint32_t trace)
{
	return !VT_IS_UNTRACED(trace) && r->stacks.traces.data[trace].invalid ?
		       VT_UNTRACED(VT_UNTRACED_UNREADABLE) :
		       trace;
}

bool vt_collect_recorded_traces(struct vt_collect *c, struct vt_trace_set *set)
{
	struct vt_collect_recorded *r = c->recorded;

	if (!r || !r->joined)
		return true;
	r->traces = malloc((r->stacks.traces.n + 1) * sizeof(*r->traces));
	if (!r->traces)
		return false;
	for (size_t i = 0; i < r->stacks.traces.n; i++) {
		const struct vt_recorder_trace *trace = &r->stacks.traces.data[i];

		r->traces[i] = (struct vt_trace_in_set){
			.frames = trace->frames,
			.n_python = trace->n_python,
			.n_native = trace->n_native,
			.python_cut = trace->flags & VT_STACK_PYTHON_CUT,
			.native_cut = trace->flags & (VT_STACK_NATIVE_CUT | VT_STACK_NATIVE_LOST),
			.native_guess = trace->flags & VT_STACK_NATIVE_GUESS,
		};
	}
	for (size_t i = 0; i < c->model->n_blocks; i++)
		r->of_block[i] = checked(r, r->of_block[i]);
	*set = (struct vt_trace_set){
		.python = r->stacks.python.data,
		.n_python = r->stacks.python.n,
		.native = r->stacks.native.data,
		.n_native = r->stacks.native.n,
		.traces = r->traces,
		.n_traces = r->stacks.traces.n,
		.of_block = r->of_block,
	};
	return true;
}

void vt_collect_recorded_others(struct vt_collect *c, void (*number)(void *arg, uint32_t *trace),
				void *arg)
{
	struct vt_collect_recorded *r = c->recorded;

	for (size_t i = 0; r && r->joined && i < c->model->driver_blocks.n; i++) {
		struct vt_model_driver_block *block = &c->model->driver_blocks.data[i];

		block->trace = checked(r, block->trace);
		number(arg, &block->trace);
	}
	for (size_t i = 0; r && r->joined && i < c->model->ooms.n; i++) {
		struct vt_model_oom *oom = &c->model->ooms.data[i];

		oom->trace = checked(r, oom->trace);
		number(arg, &oom->trace);
	}
	for (size_t i = 0; r && r->joined && i < c->model->launches.streams.n; i++) {
		struct vt_model_launch_stream *stream = &c->model->launches.streams.data[i];

		for (size_t k = 0; k < stream->n; k++) {
			stream->launches[k].trace = checked(r, stream->launches[k].trace);
			number(arg, &stream->launches[k].trace);
		}
	}
}

/* ---- at the stop ---- */

/* If the blocks were listed inside, it has been read after that. */
static void read_after_stop(struct vt_collect *c)
{
	if (!vt_collect_blocks_told(c))
		vt_collect_recorded_after(c);
}

const struct vt_participant vt_stop_recorder = {
	.want = VT_WANT_MEMORY,
	.resumed = read_after_stop,
};
