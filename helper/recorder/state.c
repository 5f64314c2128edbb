/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder's state: on, off; lanes.c has fork. */
#include "vramtap/freestanding.h"

#include <linux/mman.h>

#include "lanes.h"
#include "memo.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#define MADV_KEEPONFORK 19
#endif

static bool mapped; /* there may be memory to give back; true in a child as well */
static bool torch_is_in, driver_is_in, launches_are_in;

uint32_t vt_recorder_control(uint32_t op, void *arg);

/*
 * In the reverse order of start(): hooks first. May be called again when it returned
 * VT_RECORDER_IN_USE.
 */
static uint32_t stop(void)
{
	vt_rec_set_inherited(mapped && !vt_rec_wiped.ours);
	if (torch_is_in)
		vt_rec_torch_out();
	if (driver_is_in)
		vt_rec_driver_out();
	if (launches_are_in)
		vt_rec_launches_out();
	torch_is_in = driver_is_in = launches_are_in = false;
	__atomic_store_n(&vt_rec_wiped.on, 0, __ATOMIC_SEQ_CST);
	__atomic_store_n(&vt_recorder.state, VT_RECORDER_OFF, __ATOMIC_RELEASE);
	vt_rec_oom_end();
	if (!vt_rec_wait_till_empty())
		return VT_RECORDER_IN_USE;

	vt_rec_launches_deinit();
	vt_rec_driver_deinit();
	vt_rec_memos_deinit();
	vt_rec_native_deinit();
	vt_rec_python_deinit();
	vt_rec_array_deinit(&vt_recorder.codes, sizeof(struct vt_recorder_code));
	vt_rec_blocks_deinit();
	vt_rec_stacks_deinit();
	/* A thread of the parent may have been in between counting a piece and keeping it. */
	if (vt_rec_is_inherited())
		vt_recorder.memory = 0;
	vt_rec_set_inherited(false);
	mapped = false;
	vt_rec_wiped.ours = 0;
	vt_sys4(SYS_madvise, (long)&vt_rec_wiped, sizeof(vt_rec_wiped), MADV_KEEPONFORK, 0);
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
	vt_rec_learn_tid(config->imports.pthread_tid);
	head->python = config->python != 0;
	head->native = config->native != 0;
	head->driver_method = VT_DRIVER_NOT;
	head->cupti_error = 0;
	/* threads with an out-of-memory error read it */
	__atomic_store_n(&head->generation, head->generation + 1, __ATOMIC_RELEASE);
	head->live = (uint64_t)(uintptr_t)&vt_rec_wiped.on;
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

	if (vt_sys4(SYS_madvise, (long)&vt_rec_wiped, sizeof(vt_rec_wiped), MADV_WIPEONFORK, 0))
		return VT_RECORDER_OLD_KERNEL;
	vt_rec_wiped.ours = 1;
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

	if (config->launches && !vt_rec_launches_init())
		goto undo;

	/*
	 * If this call ends between these two, a later tool finds a recorder that is on without
	 * hooks: off does the rest.
	 */
	__atomic_store_n(&vt_recorder.state, VT_RECORDER_ON, __ATOMIC_RELEASE);
	__atomic_store_n(&vt_rec_wiped.on, 1, __ATOMIC_SEQ_CST);
	if (config->driver) {
		ret = vt_rec_driver_in(config);
		if (ret != VT_RECORDER_OK)
			goto undo;
		driver_is_in = true;
	}
	if (config->launches) {
		launches_are_in = true;
		vt_rec_launches_in(config);
	}
	if (config->torch.object) {
		ret = torch_in(&config->torch);
		if (ret != VT_RECORDER_OK)
			goto undo;
	}
	return VT_RECORDER_OK;
undo:
	/* The next call gives back what a stopped thread still keeps. */
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
	/* Left by an off that could not wait any longer, or by our parent process. */
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

/* The driver's library was loaded later, or the other subscriber of CUPTI has gone. */
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

/* Libraries were loaded since, perhaps the driver's. */
static uint32_t op_launches(const struct vt_recorder_config *config)
{
	struct vt_recorder_imports *imports = &vt_recorder.config.imports;

	if (!config || !config->launches || !vt_rec_is_on() || !vt_recorder.config.launches)
		return VT_RECORDER_BAD;
	imports->cuCtxGetDevice = config->imports.cuCtxGetDevice;
	imports->cuCtxGetCurrent = config->imports.cuCtxGetCurrent;
	imports->cuStreamIsCapturing = config->imports.cuStreamIsCapturing;
	imports->cuFuncGetName = config->imports.cuFuncGetName;
	imports->cuKernelGetName = config->imports.cuKernelGetName;
	vt_rec_launches_in(config);
	return VT_RECORDER_OK;
}

__attribute__((visibility("default"))) uint32_t vt_recorder_control(uint32_t op, void *arg)
{
	uint32_t ret = VT_RECORDER_BAD;

	if (__atomic_exchange_n(&vt_rec_wiped.controlled, 1, __ATOMIC_ACQUIRE))
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
	case VT_RECORD_LAUNCHES:
		ret = op_launches(arg);
		break;
	case VT_RECORD_LOAD_CUPTI:
		ret = arg ? vt_rec_cupti_load(arg) : VT_RECORDER_BAD;
		break;
	}
	__atomic_store_n(&vt_rec_wiped.controlled, 0, __ATOMIC_RELEASE);
	return ret;
}
