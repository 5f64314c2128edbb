/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper inside the target: takes one request at a time from the shared file, until it is told
 * to quit or the tool gives no more signs of life. It runs on the thread that the stub started,
 * which ends when this returns.
 */
#include "vramtap/freestanding.h"

#include <linux/futex.h>

#include "context.h"
#include "ops.h"

#define NS_PER_MS UINT64_C(1000000)

/*
 * Entered by the stub (it is the library's entry point); mapped is how much of the file is mapped
 * at shared. 0 when it was told to quit, 1 when the tool gave no more signs of life.
 */
uint32_t vt_helper_main(struct vt_helper_shared *shared, uint64_t mapped);

/* The length of one sleep: the helper notices within this time that the tool is gone. */
#define SLICE_NS (100 * NS_PER_MS)

typedef uint32_t helper_op(struct vt_helper_shared *shared, uint64_t mapped);

static uint32_t op_cuda(struct vt_helper_shared *shared, uint64_t mapped)
{
	(void)mapped;
	return vt_helper_op_cuda(shared);
}

static uint32_t op_cuda_pools(struct vt_helper_shared *shared, uint64_t mapped)
{
	(void)mapped;
	return vt_helper_op_cuda_pools(shared);
}

/*
 * The room for records behind the head. The tool may have grown the file beyond what was mapped
 * here.
 */
static uint64_t room_size(const struct vt_helper_shared *shared, uint64_t mapped)
{
	uint64_t size = shared->file_size;

	if (size > mapped)
		size = mapped;
	return size < VT_HELPER_ROOM_OFFSET ? 0 : size - VT_HELPER_ROOM_OFFSET;
}

static uint32_t op_ask_pytorch(struct vt_helper_shared *shared, uint64_t mapped)
{
	vt_helper_spare_captures(shared);
	return vt_helper_op_ask_pytorch(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
					room_size(shared, mapped));
}

static uint32_t op_ask_flight(struct vt_helper_shared *shared, uint64_t mapped)
{
	return vt_helper_op_ask_flight(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
				       room_size(shared, mapped));
}

static uint32_t op_ask_jax(struct vt_helper_shared *shared, uint64_t mapped)
{
	return vt_helper_op_ask_jax(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
				    room_size(shared, mapped));
}

static uint32_t op_ask_owners(struct vt_helper_shared *shared, uint64_t mapped)
{
	return vt_helper_op_ask_owners(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
				       room_size(shared, mapped));
}

static uint32_t op_torch_walk(struct vt_helper_shared *shared, uint64_t mapped)
{
	return vt_helper_op_torch_walk(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
				       room_size(shared, mapped));
}

static uint32_t op_ranges(struct vt_helper_shared *shared, uint64_t mapped)
{
	return vt_helper_op_ranges(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
				   room_size(shared, mapped));
}

static uint32_t op_limits(struct vt_helper_shared *shared, uint64_t mapped)
{
	(void)mapped;
	return vt_helper_op_limits(shared);
}

static uint32_t op_streams(struct vt_helper_shared *shared, uint64_t mapped)
{
	return vt_helper_op_streams(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
				    room_size(shared, mapped));
}

static uint32_t op_relieve(struct vt_helper_shared *shared, uint64_t mapped)
{
	(void)mapped;
	return vt_helper_op_relieve(shared);
}

static uint32_t op_load_recorder(struct vt_helper_shared *shared, uint64_t mapped)
{
	vt_helper_spare_captures(shared); /* libraries' constructors run */
	return vt_helper_op_load_recorder(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
					  room_size(shared, mapped));
}

static uint32_t op_call_recorder(struct vt_helper_shared *shared, uint64_t mapped)
{
	vt_helper_spare_captures(shared);
	return vt_helper_op_call_recorder(shared, (char *)shared + VT_HELPER_ROOM_OFFSET,
					  room_size(shared, mapped));
}

static helper_op *const *find_op(uint32_t op)
{
	static helper_op *const ops[] = {
		[VT_OP_CUDA] = op_cuda,
		[VT_OP_TORCH_WALK] = op_torch_walk,
		[VT_OP_CUDA_POOLS] = op_cuda_pools,
		[VT_OP_ASK_PYTORCH] = op_ask_pytorch,
		[VT_OP_ASK_FLIGHT] = op_ask_flight,
		[VT_OP_ASK_OWNERS] = op_ask_owners,
		[VT_OP_ASK_JAX] = op_ask_jax,
		[VT_OP_LOAD_RECORDER] = op_load_recorder,
		[VT_OP_CALL_RECORDER] = op_call_recorder,
		[VT_OP_RANGES] = op_ranges,
		[VT_OP_LIMITS] = op_limits,
		[VT_OP_RELIEVE] = op_relieve,
		[VT_OP_STREAMS] = op_streams,
	};

	return op < sizeof(ops) / sizeof(ops[0]) && ops[op] ? &ops[op] : NULL;
}

/*
 * When the heartbeat was seen to change, by our clock: the tool's clock may differ (time
 * namespaces).
 */
struct watch {
	uint64_t heartbeat, seen_ns;
};

/* Whether the tool has died, or has forgotten us. */
static int tool_is_gone(const struct vt_helper_shared *shared, struct watch *watch)
{
	uint64_t now = vt_sys_now_ns();
	uint64_t heartbeat = __atomic_load_n(&shared->heartbeat_ns, __ATOMIC_ACQUIRE);

	if (heartbeat != watch->heartbeat)
		*watch = (struct watch){ heartbeat, now };
	return now - watch->seen_ns > shared->patience_ns;
}

/* Waits for a request other than the last one; 0 when the tool is gone. */
static int wait_for_request(struct vt_helper_shared *shared, struct watch *watch, uint32_t last,
			    uint32_t *seq)
{
	struct vt_sys_timespec slice = { 0, (int64_t)SLICE_NS };

	for (;;) {
		*seq = __atomic_load_n(&shared->request_seq, __ATOMIC_ACQUIRE);
		if (*seq != last)
			return 1;
		if (tool_is_gone(shared, watch))
			return 0;

		long ret = vt_sys6(SYS_futex, (long)&shared->request_seq, FUTEX_WAIT, last,
				   (long)&slice, 0, 0);

		/* A filter that forbids this call must not make us spin. */
		if (ret && ret != -110 /* ETIMEDOUT */ && ret != -11 /* EAGAIN */ &&
		    ret != -4 /* EINTR */)
			vt_sys_sleep_ns(NS_PER_MS);
	}
}

static void answer(struct vt_helper_shared *shared, uint32_t seq, uint32_t status)
{
	shared->status = status;
	__atomic_store_n(&shared->done_seq, seq, __ATOMIC_RELEASE);
	vt_sys4(SYS_futex, (long)&shared->done_seq, FUTEX_WAKE, INT32_MAX, 0);
}

uint32_t vt_helper_main(struct vt_helper_shared *shared, uint64_t mapped)
{
	struct watch watch = { shared->heartbeat_ns, vt_sys_now_ns() };
	uint32_t last = 0;
	uint32_t seq;

	shared->abi = VT_HELPER_ABI;
	shared->helper_tid = (uint32_t)vt_sys0(SYS_gettid);
	__atomic_store_n(&shared->magic, VT_HELPER_MAGIC, __ATOMIC_RELEASE);
	while (wait_for_request(shared, &watch, last, &seq)) {
		uint32_t op = shared->op;
		helper_op *const *run = find_op(op);

		if (op == VT_OP_QUIT) {
			answer(shared, seq, VT_HELPER_OK);
			return 0;
		}
		shared->why[0] = 0;
		answer(shared, seq, run ? (*run)(shared, mapped) : VT_HELPER_BAD_ARGS);
		last = seq;
	}
	return 1;
}
