/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gives memory back with the target's own function: PyTorch's for its caches, Python's for garbage.
 *
 * PyTorch frees with cudaFree(), which waits until the device has done all that it was given, and
 * keeps the allocator's mutex for that long. On a device that hangs that is for ever, for every
 * thread that allocates. So nothing is called before the driver has said that all work of all
 * contexts is done: first without the GIL, holding nothing; and again with the GIL, when no thread
 * can launch anything from Python. cuCtxRecordEvent() is the only question that sees every stream.
 * It ends captures of graphs, so it is not asked while one is underway.
 *
 * The functions are called through the interpreter, because PyTorch turns its C++ exceptions into
 * Python's there; one that came into our frames would end the process.
 */
#include "vramtap/freestanding.h"

#include <string.h>

#include "context.h"
#include "ops.h"
#include "python.h"
#include "walk/torch/abi.h"
#include "vramtap/driver_abi.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)
#define PAUSE_NS MS
#define PAUSE_GIL_NS (100 * US)
#define LIFE_NS (500 * MS)      /* the tool gives a sign every 10 ms */
#define LIFE_GIL_NS (100 * MS)  /* the same with the GIL */
#define NOT_READY 600           /* CUDA_ERROR_NOT_READY */
#define CAPTURE_UNSUPPORTED 900 /* CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED */

/* cuda.h renames the functions to the newest version, and so do the imports. */
typedef CUresult count_fn(int *count);
typedef CUresult device_fn(CUdevice *device, int ordinal);
typedef CUresult state_fn(CUdevice device, unsigned int *flags, int *active);
typedef CUresult retain_fn(CUcontext *context, CUdevice device);
typedef CUresult release_fn(CUdevice device);
typedef CUresult push_fn(CUcontext context);
typedef CUresult pop_fn(CUcontext *context);
typedef CUresult create_fn(CUevent *event, unsigned int flags);
typedef CUresult record_fn(CUcontext context, CUevent event);
typedef CUresult event_fn(CUevent event);

#define PTR(op, field, type) ((type *)(op)->py.shared->imports.field)

struct relief_context {
	int ordinal;
	CUdevice device;
	CUcontext context;
	CUevent event;
};

struct op {
	struct vt_py py; /* first: vt_py_with_gil() gives it back */
	struct vt_relieve_args args;
	struct vt_relieve_answer *answer;
	struct relief_context contexts[VT_MAX_CUDA_DEVICES];
	uint32_t n;
	int asks_gpu;
};

static void enter(struct op *op, enum vt_relief_stage stage)
{
	__atomic_store_n(&op->answer->stage, (uint32_t)stage, __ATOMIC_RELEASE);
}

static void set_in_driver(struct op *op, uint32_t value)
{
	__atomic_store_n(&op->answer->in_driver, value, __ATOMIC_RELEASE);
}

static uint32_t refuse(struct op *op, enum vt_relief_refusal why, int device)
{
	op->answer->refusal = (uint32_t)why;
	op->answer->device = device;
	vt_helper_say_why(op->py.shared, "it was not safe", NULL);
	return VT_HELPER_FAILED;
}

static uint32_t refuse_error(struct op *op, CUresult err, int device)
{
	op->answer->error = (int32_t)err;
	return refuse(op, VT_RELIEF_DRIVER_ERROR, device);
}

/* ---- captures ---- */

static uint32_t check_captures(struct op *op)
{
	for (int i = 0; i < op->args.n_devices; i++) {
		uint64_t words[VT_CAPTURES_BYTES / 8];

		if (vt_sys_peek(op->args.captures[i], words, sizeof(words)) ||
		    vt_torch_captures_of(words, op->args.captures_are_counted))
			return refuse(op, VT_RELIEF_CAPTURE, i);
	}
	return VT_HELPER_OK;
}

/* ---- the GPUs ---- */

static int can_ask_gpu(const struct op *op)
{
	const struct vt_helper_imports *imports = &op->py.shared->imports;

	return imports->cuCtxRecordEvent && imports->cuEventCreate && imports->cuEventQuery &&
	       imports->cuEventDestroy;
}

static int has_driver(const struct op *op)
{
	const struct vt_helper_imports *imports = &op->py.shared->imports;

	return imports->cuDeviceGetCount && imports->cuDeviceGet &&
	       imports->cuDevicePrimaryCtxGetState && imports->cuDevicePrimaryCtxRetain &&
	       imports->cuDevicePrimaryCtxRelease && imports->cuCtxPushCurrent &&
	       imports->cuCtxPopCurrent;
}

static void pop(struct op *op)
{
	CUcontext popped = NULL;

	PTR(op, cuCtxPopCurrent, pop_fn)(&popped);
}

/* Keeps the primary context of a device, if the target has made it active. */
static uint32_t keep_context(struct op *op, int ordinal)
{
	struct relief_context *c = &op->contexts[op->n];
	unsigned int flags = 0;
	int active = 0;
	CUresult err;

	memset(c, 0, sizeof(*c));
	c->ordinal = ordinal;
	if (PTR(op, cuDeviceGet, device_fn)(&c->device, ordinal) != CUDA_SUCCESS)
		return VT_HELPER_OK;
	err = PTR(op, cuDevicePrimaryCtxGetState, state_fn)(c->device, &flags, &active);
	if (err != CUDA_SUCCESS)
		return refuse_error(op, err, ordinal);
	if (!active)
		return VT_HELPER_OK;
	err = PTR(op, cuDevicePrimaryCtxRetain, retain_fn)(&c->context, c->device);
	if (err != CUDA_SUCCESS)
		return refuse_error(op, err, ordinal);
	op->answer->n_contexts = ++op->n;
	if (!op->asks_gpu)
		return VT_HELPER_OK;
	err = PTR(op, cuCtxPushCurrent, push_fn)(c->context);
	if (err != CUDA_SUCCESS)
		return refuse_error(op, err, ordinal);
	err = PTR(op, cuEventCreate, create_fn)(&c->event, CU_EVENT_DISABLE_TIMING);
	pop(op);
	if (err == CUDA_SUCCESS)
		return VT_HELPER_OK;
	c->event = NULL;
	return refuse_error(op, err, ordinal);
}

static uint32_t keep_contexts(struct op *op)
{
	uint32_t status = VT_HELPER_OK;
	int n = 0;

	if (!has_driver(op) || PTR(op, cuDeviceGetCount, count_fn)(&n) != CUDA_SUCCESS)
		return VT_HELPER_OK;
	for (int i = 0; i < n && i < VT_MAX_CUDA_DEVICES && status == VT_HELPER_OK; i++)
		status = keep_context(op, i);
	return status;
}

/* An event whose work is not done is freed by the driver when it is. */
static void drop_contexts(struct op *op)
{
	for (uint32_t i = 0; i < op->n; i++) {
		struct relief_context *c = &op->contexts[i];

		if (c->event && PTR(op, cuCtxPushCurrent, push_fn)(c->context) == CUDA_SUCCESS) {
			PTR(op, cuEventDestroy, event_fn)(c->event);
			pop(op);
		}
		PTR(op, cuDevicePrimaryCtxRelease, release_fn)(c->device);
	}
	op->n = 0;
}

/*
 * All that the context was given until now: in every stream, also those that nobody knows. Without
 * the GIL a capture can begin between the check and the question, which then has ended it.
 */
static uint32_t mark(struct op *op, const struct relief_context *c)
{
	uint32_t status = check_captures(op);
	CUresult err;

	if (status != VT_HELPER_OK)
		return status;
	err = PTR(op, cuCtxRecordEvent, record_fn)(c->context, c->event);
	if ((int)err == CAPTURE_UNSUPPORTED)
		return refuse(op, VT_RELIEF_CAPTURE_BROKEN, c->ordinal);
	if (err != CUDA_SUCCESS)
		return refuse_error(op, err, c->ordinal);
	status = check_captures(op);
	return status == VT_HELPER_OK ? VT_HELPER_OK :
					refuse(op, VT_RELIEF_CAPTURE_BEGAN, op->answer->device);
}

static uint32_t wait_for(struct op *op, const struct relief_context *c, uint64_t deadline,
			 uint64_t pause_ns)
{
	for (;;) {
		CUresult err = PTR(op, cuEventQuery, event_fn)(c->event);

		if (err == CUDA_SUCCESS)
			return VT_HELPER_OK;
		if ((int)err != NOT_READY)
			return refuse_error(op, err, c->ordinal);
		if (vt_sys_now_ns() >= deadline)
			return refuse(op, VT_RELIEF_GPU_WORKS, c->ordinal);
		vt_sys_sleep_ns(pause_ns);
	}
}

static uint32_t await_gpus(struct op *op, uint64_t wait_ns, uint64_t pause_ns)
{
	uint64_t start = vt_sys_now_ns(), end = start + wait_ns;
	uint32_t status = VT_HELPER_OK;

	if (!op->asks_gpu)
		return VT_HELPER_OK;
	set_in_driver(op, 1);
	for (uint32_t i = 0; i < op->n && status == VT_HELPER_OK; i++)
		status = mark(op, &op->contexts[i]);
	for (uint32_t i = 0; i < op->n && status == VT_HELPER_OK; i++)
		status = wait_for(op, &op->contexts[i], end, pause_ns);
	op->answer->gpu_wait_ns += vt_sys_now_ns() - start;
	set_in_driver(op, 0);
	return status;
}

/* ---- the tool ---- */

static uint64_t heartbeat_of(const struct op *op)
{
	return __atomic_load_n(&op->py.shared->heartbeat_ns, __ATOMIC_ACQUIRE);
}

/* What nobody waits for any more is not begun: only a new sign of life counts. */
static int is_attended(const struct op *op, uint64_t within_ns, uint64_t pause_ns)
{
	uint64_t start = vt_sys_now_ns(), last = heartbeat_of(op);

	while (vt_sys_now_ns() - start < within_ns) {
		if (heartbeat_of(op) != last)
			return 1;
		vt_sys_sleep_ns(pause_ns);
	}
	return 0;
}

/* ---- the allocator ---- */

static int is_locked(uint64_t mutex)
{
	uint32_t lock;

	return vt_sys_peek(mutex, &lock, sizeof(lock)) != 0 || lock != 0;
}

/* A thread that holds one for long is in the driver, and we must not wait for that. */
static uint32_t check_locks(struct op *op)
{
	uint64_t start = vt_sys_now_ns();

	for (int i = 0; i < op->args.n_devices; i++)
		while (is_locked(op->args.mutexes[i])) {
			if (vt_sys_now_ns() - start > op->args.lock_wait_ns)
				return refuse(op, VT_RELIEF_LOCKED, i);
			vt_sys_sleep_ns(PAUSE_GIL_NS);
		}
	return VT_HELPER_OK;
}

static struct object *ask_plain(struct op *op, struct object *functions, const char *name)
{
	int flags;
	struct object *called = vt_py_function(&op->py, functions, name, &flags);

	return called ? vt_py_call_with(&op->py, called, NULL) : NULL;
}

/*
 * With a history PyTorch would walk this thread's stack, whose first frames no unwinder has seen.
 */
static uint32_t check_torch(struct op *op, struct object *functions)
{
	struct object *answer;
	int is_native, history;

	answer = ask_plain(op, functions, "_cuda_getAllocatorBackend");
	is_native = vt_py_is_text(&op->py, answer, "native");
	vt_py_drop(&op->py, answer);
	if (!is_native)
		return refuse(op, VT_RELIEF_NOT_NATIVE, -1);
	answer = ask_plain(op, functions, "_cuda_isHistoryEnabled");
	history = answer ? VT_PY(&op->py, PyObject_IsTrue, int_of_object_fn)(answer) : -1;
	vt_py_drop(&op->py, answer);
	return history ? refuse(op, VT_RELIEF_HISTORY, -1) : VT_HELPER_OK;
}

/* ---- the call ---- */

static const struct {
	const char *module, *function;
	int of_torch, needs_idle;
} calls[VT_N_RELIEFS] = {
	[VT_RELIEF_EMPTY_CACHE] = { "torch._C", "_cuda_emptyCache", 1, 1 },
	[VT_RELIEF_COLLECT_GARBAGE] = { "gc", "collect", 0, 0 },
	[VT_RELIEF_TRIM_PINNED] = { "torch._C", "_host_emptyCache", 1, 1 },
};

/* What the function frees, and what objects do at their end, may need a context: never a new one.
 */
static struct object *call_in_context(struct op *op, struct object *called)
{
	int pushed = op->n &&
		     PTR(op, cuCtxPushCurrent, push_fn)(op->contexts[0].context) == CUDA_SUCCESS;
	struct object *result = vt_py_call_with(&op->py, called, NULL);

	if (pushed)
		pop(op);
	return result;
}

/* From here on the tool cannot say any more that nothing was done. */
static int begin(struct op *op)
{
	uint32_t open = VT_RELIEF_OPEN;

	return __atomic_compare_exchange_n(&op->py.shared->args.relieve.word, &open,
					   VT_RELIEF_BEGUN, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

static uint32_t call(struct op *op, struct object *called)
{
	uint64_t start = vt_sys_now_ns();
	struct object *result;

	if (!begin(op))
		return refuse(op, VT_RELIEF_UNATTENDED, -1);
	enter(op, VT_RELIEF_CALLS);
	vt_py_restart_collector(&op->py);
	result = call_in_context(op, called);
	op->answer->call_ns = vt_sys_now_ns() - start;
	if (result && op->args.what == VT_RELIEF_COLLECT_GARBAGE)
		op->answer->collected = VT_PY(&op->py, PyLong_AsLongLong, value_fn)(result);
	if (!result)
		refuse(op, VT_RELIEF_RAISED, -1);
	enter(op, VT_RELIEF_RETURNED);
	if (!result)
		return VT_HELPER_FAILED;
	vt_py_drop(&op->py, result);
	return VT_HELPER_OK;
}

/* Everything that can refuse, with the GIL held; the last look comes just before the call. */
static uint32_t check_all(struct op *op, struct object *functions)
{
	uint32_t status = VT_HELPER_OK;

	if (calls[op->args.what].of_torch)
		status = check_torch(op, functions);
	if (status == VT_HELPER_OK)
		status = check_locks(op);
	if (status == VT_HELPER_OK && calls[op->args.what].needs_idle)
		status = await_gpus(op, op->args.gpu_wait_gil_ns, PAUSE_GIL_NS);
	if (status == VT_HELPER_OK && !is_attended(op, LIFE_GIL_NS, PAUSE_GIL_NS))
		status = refuse(op, VT_RELIEF_UNATTENDED, -1);
	if (status == VT_HELPER_OK)
		status = check_captures(op);
	if (status == VT_HELPER_OK)
		status = check_locks(op);
	return status;
}

static uint32_t with_gil(struct vt_py *py)
{
	struct op *op = (struct op *)py;
	struct object *functions = vt_py_module(py, calls[op->args.what].module), *called;
	uint32_t status;
	int flags;

	enter(op, VT_RELIEF_CHECKS);
	if (!functions && calls[op->args.what].of_torch)
		return refuse(op, VT_RELIEF_NO_TORCH, -1);
	called = functions ? vt_py_function(py, functions, calls[op->args.what].function, &flags) :
			     NULL;
	if (!called)
		return refuse(op, VT_RELIEF_NO_FUNCTION, -1);
	status = check_all(op, functions);
	if (status != VT_HELPER_OK || op->args.dry_run)
		return status;
	return call(op, called);
}

/* ---- the operation ---- */

static uint32_t before_gil(struct op *op)
{
	int needs_idle = calls[op->args.what].needs_idle;
	uint32_t status;

	enter(op, VT_RELIEF_ASKS_GPU);
	set_in_driver(op, 1);
	op->asks_gpu = op->args.asks_gpu && can_ask_gpu(op);
	status = op->py.shared->imports.cuDeviceGetCount &&
				 !vt_helper_spare_captures(op->py.shared) ?
			 refuse(op, VT_RELIEF_NO_MODE, -1) :
			 check_captures(op);
	if (status == VT_HELPER_OK)
		status = keep_contexts(op);
	set_in_driver(op, 0);
	if (status == VT_HELPER_OK && needs_idle && !op->n)
		status = refuse(op, VT_RELIEF_NO_CONTEXT, -1);
	if (status == VT_HELPER_OK && needs_idle && !op->asks_gpu)
		status = refuse(op, VT_RELIEF_OLD_DRIVER, -1);
	if (status == VT_HELPER_OK)
		status = await_gpus(op, op->args.gpu_wait_ns, PAUSE_NS);
	op->answer->asked_gpu = op->asks_gpu && op->n;
	if (status == VT_HELPER_OK && !is_attended(op, LIFE_NS, PAUSE_NS))
		status = refuse(op, VT_RELIEF_UNATTENDED, -1);
	return status;
}

uint32_t vt_helper_op_relieve(struct vt_helper_shared *shared)
{
	struct op op;
	uint32_t status;

	memset(&op, 0, sizeof(op));
	memset(&shared->relieve, 0, sizeof(shared->relieve));
	op.args = shared->args.relieve;
	op.answer = &shared->relieve;
	op.answer->device = -1;
	op.answer->collected = -1;
	op.py.shared = shared;
	op.py.args = op.args.python;
	if (op.args.what >= VT_N_RELIEFS || op.args.n_devices < 0 ||
	    op.args.n_devices > VT_TORCH_MAX_DEVICES ||
	    (calls[op.args.what].of_torch && !op.args.n_devices))
		return VT_HELPER_BAD_ARGS;
	status = before_gil(&op);
	if (status == VT_HELPER_OK) {
		enter(&op, VT_RELIEF_WAITS_GIL);
		status = vt_py_with_gil(&op.py, with_gil);
	}
	drop_contexts(&op);
	return status;
}
