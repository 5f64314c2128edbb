/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's state: on, off, fork. Who may touch what the recorder has mapped, and how off knows that nobody does any more:
 *
 * A thread raises `inside` of its lane, then looks whether the recorder is on (vt_rec_enter()); off clears `on`, then looks at all
 * lanes. All four are sequentially consistent, so at least one of the two sees the other: either the thread sees that it is off and
 * touches nothing, or off sees that it is inside, and waits. A lane that was 0 once after `on` was cleared has nobody inside for
 * good: who comes later sees that it is off, and whether it raises the lane for a moment does not matter. Only then is memory
 * given back, so no lock is needed for it, and no reader of the tables needs one on account of off. A thread that was
 * interrupted before vt_rec_enter() and goes on when the recorder is on again is one that enters now; one that is inside keeps off,
 * and so the next on, waiting. All that lies in memory that is never given back: these two pages, vt_recorder, the code.
 *
 * fork(): the kernel gives the child zeros in place of these pages (MADV_WIPEONFORK, Linux 4.14), so there it is off with nobody
 * inside; the tables are not inherited (MADV_DONTFORK). A kernel that does not have it is refused: comparing process ids instead
 * would be a system call for each allocation.
 */
#include "vramtap/freestanding.h"

#include <linux/mman.h>

#include "parts.h"

#define PAGE 4096
#define LANES (PAGE / 64)
#define OFF_PATIENCE_NS UINT64_C(1000000000)
#define CLOCK_COARSE 6 /* CLOCK_MONOTONIC_COARSE */

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif

__attribute__((visibility("default")))
struct vt_recorder_head vt_recorder = { .magic = VT_RECORDER_MAGIC, .abi = VT_RECORDER_ABI, .size = sizeof(vt_recorder) };

/* Threads share a lane when their ids are equal modulo LANES; each lane is a cache line. */
struct lane {
	uint64_t inside; /* how many times threads have entered and not left */
	uint64_t random;
	uint64_t pad[6];
};

/* Whole pages, of memory without a file: that part of .bss is such. Zeros in a child. */
static struct {
	uint32_t on;
	uint32_t ours; /* this process has mapped what there is */
	uint32_t controlled; /* a control call is running */
	char pad[PAGE - 12];
	struct lane lanes[LANES];
} wiped __attribute__((aligned(PAGE)));

static uint64_t tid_offset; /* imports.pthread_tid, if that is right; threads that have not entered read it */
static bool mapped; /* there may be something to give back; true in a child as well */
static bool inherited;
static bool torch_is_in, driver_is_in;

uint32_t vt_recorder_control(uint32_t op, void *arg);

bool vt_rec_is_on(void)
{
	return __atomic_load_n(&wiped.on, __ATOMIC_RELAXED);
}

bool vt_rec_is_inherited(void)
{
	return inherited;
}

static uint32_t word_of_thread(uint64_t offset)
{
	uint32_t word;

	__asm__ volatile("movl %%fs:(%1), %0" : "=r"(word) : "r"(offset));
	return word;
}

uint32_t vt_rec_tid(void)
{
	uint64_t offset = __atomic_load_n(&tid_offset, __ATOMIC_RELAXED);
	uint32_t tid = offset ? word_of_thread(offset) : 0;

	/* 0 would be a lock that nobody has. */
	return tid ? tid : (uint32_t)vt_sys0(SYS_gettid);
}

/* What the tool says of the C library is tried on this thread, of which the kernel tells the truth. */
static void learn_tid_offset(uint64_t offset)
{
	/* The thread pointer points to a structure of the C library's of more than 2 KiB. */
	if (offset && offset < 2048 && !(offset % 4) && word_of_thread(offset) == (uint32_t)vt_sys0(SYS_gettid))
		__atomic_store_n(&tid_offset, offset, __ATOMIC_RELAXED);
}

static struct lane *lane_here(void)
{
	return &wiped.lanes[vt_rec_tid() % LANES];
}

bool vt_rec_enter(void)
{
	struct lane *lane;

	if (!vt_rec_is_on())
		return false;
	lane = lane_here();
	__atomic_fetch_add(&lane->inside, 1, __ATOMIC_SEQ_CST);
	if (__atomic_load_n(&wiped.on, __ATOMIC_SEQ_CST))
		return true;
	__atomic_fetch_sub(&lane->inside, 1, __ATOMIC_RELEASE);
	return false;
}

void vt_rec_leave(void)
{
	__atomic_fetch_sub(&lane_here()->inside, 1, __ATOMIC_RELEASE);
}

uint64_t vt_rec_random(void)
{
	uint64_t *random = &lane_here()->random;
	uint64_t n = __atomic_load_n(random, __ATOMIC_RELAXED) + 1;

	/* Two threads of a lane may get the same number: chance has no memory. */
	__atomic_store_n(random, n, __ATOMIC_RELAXED);
	return vt_recorder_hash(n + (uint64_t)(uintptr_t)random * UINT64_C(0x9e3779b97f4a7c15));
}

static uint64_t coarse_ns(void)
{
	int (*clock)(int, struct vt_sys_timespec *) =
		(int (*)(int, struct vt_sys_timespec *))(uintptr_t)vt_recorder.config.imports.clock_gettime;
	struct vt_sys_timespec ts = { 0, 0 };

	if (clock)
		clock(CLOCK_COARSE, &ts);
	else
		vt_sys2(SYS_clock_gettime, CLOCK_COARSE, (long)&ts);
	return (uint64_t)ts.sec * UINT64_C(1000000000) + (uint64_t)ts.nsec;
}

uint32_t vt_rec_now(void)
{
	uint64_t now = coarse_ns(), ticks;

	/* The coarse clock may be behind the one that start_ns is of. */
	if (now < vt_recorder.start_ns)
		return 0;
	ticks = (now - vt_recorder.start_ns) / VT_RECORDER_TICK_NS;
	return ticks > UINT32_MAX ? UINT32_MAX : (uint32_t)ticks;
}

static bool wait_till_empty(void)
{
	uint64_t begin = vt_sys_now_ns();
	uint32_t rounds = 0;

	for (unsigned int i = 0; i < LANES; i++)
		while (__atomic_load_n(&wiped.lanes[i].inside, __ATOMIC_SEQ_CST)) {
			if (vt_sys_now_ns() - begin > OFF_PATIENCE_NS)
				return false;
			if (rounds++ < 100)
				vt_sys0(SYS_sched_yield);
			else
				vt_sys_sleep_ns(200 * 1000);
		}
	return true;
}

/* In the order against that of start(): hooks first. May be called again when it returned VT_RECORDER_IN_USE. */
static uint32_t stop(void)
{
	inherited = mapped && !wiped.ours;
	if (torch_is_in)
		vt_rec_torch_out();
	if (driver_is_in)
		vt_rec_driver_out();
	torch_is_in = driver_is_in = false;
	__atomic_store_n(&wiped.on, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&vt_recorder.state, VT_RECORDER_OFF, __ATOMIC_RELEASE);
	vt_rec_oom_end();
	if (!wait_till_empty())
		return VT_RECORDER_IN_USE;

	vt_rec_driver_deinit();
	vt_rec_native_deinit();
	vt_rec_python_deinit();
	vt_rec_array_deinit(&vt_recorder.codes, sizeof(struct vt_recorder_code));
	vt_rec_blocks_deinit();
	vt_rec_stacks_deinit();
	inherited = false;
	mapped = false;
	wiped.ours = 0;
	vt_sys4(SYS_madvise, (long)&wiped, sizeof(wiped), MADV_KEEPONFORK, 0);
	return VT_RECORDER_OK;
}

static uint32_t torch_in(const struct vt_recorder_torch *torch)
{
	uint32_t ret;

	vt_recorder.config.torch = *torch;
	ret = vt_rec_torch_in(&vt_recorder.config.torch);
	torch_is_in = ret == VT_RECORDER_OK;
	return ret;
}

static void reset(const struct vt_recorder_config *config)
{
	struct vt_recorder_head *head = &vt_recorder;

	head->config = *config;
	learn_tid_offset(config->imports.pthread_tid);
	head->python = config->python != 0;
	head->native = config->native != 0;
	head->driver_method = VT_DRIVER_NOT;
	head->cupti_error = 0;
	__atomic_store_n(&head->generation, head->generation + 1, __ATOMIC_RELEASE); /* threads with an out-of-memory error read it */
	head->live = (uint64_t)(uintptr_t)&wiped.on;
	head->start_ns = vt_sys_now_ns();
	head->max_memory = config->max_memory;
	head->sample_bytes = config->sample_bytes;
	head->sample_now = config->sample_bytes;
	head->driver_allocations = head->driver_frees = 0;
	head->lost = head->driver_lost = head->stacks_dropped = 0;
}

static uint32_t start(const struct vt_recorder_config *config)
{
	uint32_t ret;

	if (vt_sys4(SYS_madvise, (long)&wiped, sizeof(wiped), MADV_WIPEONFORK, 0))
		return VT_RECORDER_OLD_KERNEL;
	wiped.ours = 1;
	mapped = true;
	reset(config);
	vt_rec_oom_begin();

	ret = VT_RECORDER_NO_MEMORY;
	if (!vt_rec_stacks_init())
		goto undo;
	vt_rec_blocks_init();
	if (config->python && !vt_rec_python_init(config))
		goto undo;
	if (config->native && !vt_rec_native_init(config))
		goto undo;

	/* The tool that dies between these two finds a recorder that is on and has no hooks: off does the rest. */
	__atomic_store_n(&vt_recorder.state, VT_RECORDER_ON, __ATOMIC_RELEASE);
	__atomic_store_n(&wiped.on, 1, __ATOMIC_SEQ_CST);
	if (config->driver) {
		ret = vt_rec_driver_in(config);
		if (ret != VT_RECORDER_OK)
			goto undo;
		driver_is_in = true;
	}
	if (config->torch.object) {
		ret = torch_in(&config->torch);
		if (ret != VT_RECORDER_OK)
			goto undo;
	}
	return VT_RECORDER_OK;
undo:
	/* What a thread that stands still keeps is given back by the next call. */
	stop();
	return ret;
}

static bool makes_sense(const struct vt_recorder_config *config)
{
	return config && config->max_memory && config->max_memory < UINT64_C(1) << 46;
}

static uint32_t op_on(const struct vt_recorder_config *config)
{
	if (!makes_sense(config))
		return VT_RECORDER_BAD;
	if (vt_rec_is_on())
		return VT_RECORDER_BUSY;
	/* Left by an off that could not wait any longer, or by the process that we are a child of. */
	if (mapped && stop() != VT_RECORDER_OK)
		return VT_RECORDER_IN_USE;
	return start(config);
}

static uint32_t op_torch(const struct vt_recorder_config *config)
{
	if (!config || !config->torch.object || !vt_rec_is_on())
		return VT_RECORDER_BAD;
	if (torch_is_in)
		return VT_RECORDER_BUSY;
	return torch_in(&config->torch);
}

/* The driver's library came later, or whoever was subscribed to CUPTI has gone. */
static uint32_t op_driver(const struct vt_recorder_config *config)
{
	uint32_t ret;

	if (!config || !config->driver || !vt_rec_is_on())
		return VT_RECORDER_BAD;
	if (vt_recorder.driver_method)
		return VT_RECORDER_BUSY;
	vt_recorder.config.driver = config->driver;
	vt_recorder.config.cupti = config->cupti;
	vt_recorder.config.imports.cuMemGetInfo = config->imports.cuMemGetInfo;
	vt_recorder.config.imports.cuCtxGetDevice = config->imports.cuCtxGetDevice;
	ret = vt_rec_driver_in(config);
	driver_is_in = driver_is_in || ret == VT_RECORDER_OK;
	return ret;
}

__attribute__((visibility("default"))) uint32_t vt_recorder_control(uint32_t op, void *arg)
{
	uint32_t ret = VT_RECORDER_BAD;

	if (__atomic_exchange_n(&wiped.controlled, 1, __ATOMIC_ACQUIRE))
		return VT_RECORDER_IN_USE;
	switch (op) {
	case VT_RECORD_ON:
		ret = op_on(arg);
		break;
	case VT_RECORD_OFF:
		ret = mapped ? stop() : VT_RECORDER_BUSY;
		break;
	case VT_RECORD_TORCH:
		ret = op_torch(arg);
		break;
	case VT_RECORD_DRIVER:
		ret = op_driver(arg);
		break;
	case VT_RECORD_LOAD_CUPTI:
		ret = arg ? vt_rec_cupti_load(arg) : VT_RECORDER_BAD;
		break;
	}
	__atomic_store_n(&wiped.controlled, 0, __ATOMIC_RELEASE);
	return ret;
}
