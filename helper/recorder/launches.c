/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches: what each stream was last given, and up to where it is known to have ended
 * (vramtap/launches.h). All of it runs around calls of the driver and of the runtime, on their
 * threads: no lock, no system call on the usual path.
 *
 * What asks the driver (a kernel's name, whether a stream captures) may wait for one of its locks:
 * it runs outside vt_rec_enter() and vt_rec_leave(), once for each kernel, and only while captures
 * are underway. Whatever context is current is asked for inside: that is a variable of the thread.
 */
#include "driver.h"
#include "launch_names.h"

#define MASK_STREAMS (VT_LAUNCH_STREAMS - 1)
/*
 * Python frames of a launch, the innermost ones: a function of PyTorch, three of torch.nn.Module,
 * and the program's.
 */
#define MAX_FRAMES 5
#define MAX_WAITS 16 /* calls at one time that wait for a device */

#define STREAM_LEGACY 1     /* CU_STREAM_LEGACY: the same as 0 */
#define STREAM_PER_THREAD 2 /* CU_STREAM_PER_THREAD */
#define CU_STREAM_CAPTURE_STATUS_ACTIVE 1
#define COMPARE_BITS 3 /* CU_STREAM_WAIT_VALUE_FLUSH is another one */
/* CUstreamBatchMemOpType; others flush, or are barriers */
#define MEM_OP_WAIT_32 1
#define MEM_OP_WRITE_32 2
#define MEM_OP_WAIT_64 4
#define MEM_OP_WRITE_64 5
#define MAX_OPS 256
#define CUDA_ERROR_STREAM_CAPTURE_INVALIDATED 901
#define CUDA_ERROR_STREAM_CAPTURE_UNJOINED 904

/* Of a record, or of a struct of the program, whatever its members are. */
typedef uint64_t __attribute__((may_alias)) word_t;

/* ---- what the functions mean ---- */

enum what {
	LAUNCHES_REGS = 1, /* (function, grid and block as integers ...) of the driver */
	LAUNCHES_DIM3,     /* (function, dim3 grid, dim3 block, ...) of the runtime */
	LAUNCHES_CONFIG,   /* (config *, function, ...) */
	LAUNCHES_GRAPH,    /* (graph or event, stream, ...) */
	LAUNCHES_HOST,     /* (stream, function or event, ...) */
	VALUE32,           /* (stream, address, value, flags): a wait, or a write */
	VALUE64,           /* the same */
	VALUES,            /* (stream, number, CUstreamBatchMemOpParams *, flags) */
	WAITS_STREAM,      /* (stream); also a query: success says that all has ended */
	WAITS_DEVICE,      /* (); of the current context */
	BEGINS_CAPTURE,
	ENDS_CAPTURE,
	UNLOADS,
	ENDS_STREAM, /* (stream) */
};

static const struct {
	uint8_t what; /* enum what */
	uint8_t kind; /* enum vt_launch_kind */
	bool ptsz;    /* its stream 0 is the thread's own */
} calls[] = {
#define CALL(name, what, kind)                                 \
	[VT_CALL_##name - VT_N_CALLS] = { what, kind, false }, \
			  [VT_CALL_##name##_ptsz - VT_N_CALLS] = { what, kind, true }
#define ONE(name, what) [VT_CALL_##name - VT_N_CALLS] = { what, 0, false }
	CALL(cuLaunchKernel, LAUNCHES_REGS, VT_LAUNCH_HANDLE),
	CALL(cuLaunchKernelEx, LAUNCHES_CONFIG, VT_LAUNCH_HANDLE),
	CALL(cuLaunchCooperativeKernel, LAUNCHES_REGS, VT_LAUNCH_HANDLE),
	CALL(cuGraphLaunch, LAUNCHES_GRAPH, VT_LAUNCH_GRAPH),
	CALL(cuLaunchHostFunc, LAUNCHES_HOST, VT_LAUNCH_HOST),
	CALL(cuStreamWaitValue32_v2, VALUE32, VT_LAUNCH_WAIT_VALUE),
	CALL(cuStreamWaitValue64_v2, VALUE64, VT_LAUNCH_WAIT_VALUE),
	CALL(cuStreamWriteValue32_v2, VALUE32, VT_LAUNCH_WRITE_VALUE),
	CALL(cuStreamWriteValue64_v2, VALUE64, VT_LAUNCH_WRITE_VALUE),
	CALL(cuStreamBatchMemOp_v2, VALUES, VT_LAUNCH_WAIT_VALUE),
	CALL(cuStreamWaitEvent, LAUNCHES_HOST, VT_LAUNCH_WAIT_EVENT),
	CALL(cuEventRecord, LAUNCHES_GRAPH, VT_LAUNCH_RECORD_EVENT),
	CALL(cuEventRecordWithFlags, LAUNCHES_GRAPH, VT_LAUNCH_RECORD_EVENT),
	CALL(cuStreamSynchronize, WAITS_STREAM, 0),
	CALL(cuStreamQuery, WAITS_STREAM, 0),
	ONE(cuCtxSynchronize, WAITS_DEVICE),
	CALL(cuStreamBeginCapture, BEGINS_CAPTURE, 0),
	CALL(cuStreamBeginCapture_v2, BEGINS_CAPTURE, 0),
	CALL(cuStreamBeginCaptureToGraph, BEGINS_CAPTURE, 0),
	CALL(cuStreamEndCapture, ENDS_CAPTURE, 0),
	ONE(cuModuleUnload, UNLOADS),
	ONE(cuLibraryUnload, UNLOADS),
	ONE(cuStreamDestroy_v2, ENDS_STREAM),
	ONE(cuDevicePrimaryCtxRelease_v2, UNLOADS),
	CALL(cudaLaunchKernel, LAUNCHES_DIM3, VT_LAUNCH_STUB),
	CALL(__cudaLaunchKernel, LAUNCHES_DIM3, VT_LAUNCH_HANDLE),
	CALL(cudaLaunchKernelExC, LAUNCHES_CONFIG, VT_LAUNCH_STUB),
	CALL(cudaLaunchCooperativeKernel, LAUNCHES_DIM3, VT_LAUNCH_STUB),
	CALL(cudaGraphLaunch, LAUNCHES_GRAPH, VT_LAUNCH_GRAPH),
	CALL(cudaLaunchHostFunc, LAUNCHES_HOST, VT_LAUNCH_HOST),
	CALL(cudaStreamWaitEvent, LAUNCHES_HOST, VT_LAUNCH_WAIT_EVENT),
	CALL(cudaEventRecord, LAUNCHES_GRAPH, VT_LAUNCH_RECORD_EVENT),
	CALL(cudaEventRecordWithFlags, LAUNCHES_GRAPH, VT_LAUNCH_RECORD_EVENT),
	CALL(cudaStreamSynchronize, WAITS_STREAM, 0),
	CALL(cudaStreamQuery, WAITS_STREAM, 0),
	ONE(cudaDeviceSynchronize, WAITS_DEVICE),
	CALL(cudaStreamBeginCapture, BEGINS_CAPTURE, 0),
	CALL(cudaStreamBeginCaptureToGraph, BEGINS_CAPTURE, 0),
	CALL(cudaStreamEndCapture, ENDS_CAPTURE, 0),
	ONE(cudaStreamDestroy, ENDS_STREAM),
	ONE(__cudaUnregisterFatBinary, UNLOADS), /* when a library with kernels is closed */
#undef CALL
#undef ONE
};

_Static_assert(sizeof(calls) / sizeof(calls[0]) == VT_N_ALL_CALLS - VT_N_CALLS, "one each");

/* A launch as its arguments say. */
struct request {
	uint64_t what, stream;
	uint32_t grid[3], block[3], shared;
	uint8_t kind;
	uint8_t n;              /* launches of the call, numbered one after the other */
	const word_t (*ops)[6]; /* of a batch: what all of them are; NULL */
	uint32_t n_ops;
};

bool vt_rec_launch_has_more(enum vt_recorder_call which)
{
	uint8_t what = calls[which - VT_N_CALLS].what;

	return what == LAUNCHES_REGS || what == LAUNCHES_DIM3;
}

static uint64_t stream_of(uint64_t handle, bool ptsz)
{
	if (!handle)
		return ptsz ? STREAM_PER_THREAD : 0;
	return handle == STREAM_LEGACY ? 0 : handle;
}

/* CUlaunchConfig and cudaLaunchConfig_t: grid, block, shared bytes, and at 32 the stream. */
static void read_config(const uint32_t *config, struct request *r)
{
	if (!config)
		return;
	for (unsigned int i = 0; i < 3; i++) {
		r->grid[i] = config[i];
		r->block[i] = config[3 + i];
	}
	r->shared = config[6];
	r->stream = *(const uint64_t *)(config + 8);
}

/* ---- values ---- */

static void set_value(struct request *r, uint64_t address, uint64_t value, uint32_t bits,
		      uint32_t flags)
{
	r->what = address;
	r->grid[0] = (uint32_t)value;
	r->grid[1] = bits == 64 ? (uint32_t)(value >> 32) : 0;
	r->block[0] = r->kind == VT_LAUNCH_WAIT_VALUE ? flags & COMPARE_BITS : 0;
	r->block[1] = bits;
}

/*
 * One of CUstreamBatchMemOpParams: operation, address, value, flags. False: it neither waits nor
 * writes.
 */
static bool read_op(struct request *r, const word_t op[6])
{
	uint32_t what = (uint32_t)op[0];
	bool waits = what == MEM_OP_WAIT_32 || what == MEM_OP_WAIT_64;

	if (!waits && what != MEM_OP_WRITE_32 && what != MEM_OP_WRITE_64)
		return false;
	r->kind = waits ? VT_LAUNCH_WAIT_VALUE : VT_LAUNCH_WRITE_VALUE;
	set_value(r, op[1], op[2], what == MEM_OP_WAIT_64 || what == MEM_OP_WRITE_64 ? 64 : 32,
		  (uint32_t)op[3]);
	return true;
}

/* The driver takes fewer than MAX_OPS, and refuses more. */
static void read_batch(struct request *r, uint32_t n, const word_t (*ops)[6])
{
	struct request one = *r;

	r->n = 0;
	r->ops = ops;
	r->n_ops = ops && n < MAX_OPS ? n : 0;
	for (uint32_t i = 0; i < r->n_ops; i++)
		r->n += read_op(&one, ops[i]);
}

/* ---- */

static void read_arguments(unsigned int call, const uint64_t *args, const uint64_t *more,
			   struct request *r)
{
	*r = (struct request){ .kind = calls[call].kind, .what = args[0], .n = 1 };
	switch (calls[call].what) {
	case LAUNCHES_REGS:
		for (unsigned int i = 0; i < 3; i++)
			r->grid[i] = (uint32_t)args[1 + i];
		r->block[0] = (uint32_t)args[4];
		r->block[1] = (uint32_t)args[5];
		r->block[2] = (uint32_t)more[0];
		r->shared = (uint32_t)more[1];
		r->stream = more[2];
		break;
	case LAUNCHES_DIM3: /* a struct of three ints is in two registers (psABI, INTEGER) */
		for (unsigned int i = 0; i < 2; i++) {
			uint32_t *to = i ? r->block : r->grid;

			to[0] = (uint32_t)args[1 + 2 * i];
			to[1] = (uint32_t)(args[1 + 2 * i] >> 32);
			to[2] = (uint32_t)args[2 + 2 * i];
		}
		r->shared = (uint32_t)more[0];
		r->stream = more[1];
		break;
	case LAUNCHES_CONFIG:
		r->what = args[1];
		read_config((const uint32_t *)args[0], r);
		break;
	case LAUNCHES_GRAPH:
		r->stream = args[1];
		break;
	case LAUNCHES_HOST:
		r->stream = args[0];
		r->what = args[1];
		break;
	case VALUE32: /* the register's upper half may be anything (psABI) */
	case VALUE64:
		r->stream = args[0];
		set_value(r, args[1], args[2], calls[call].what == VALUE64 ? 64 : 32,
			  (uint32_t)args[3]);
		break;
	case VALUES:
		r->stream = args[0];
		read_batch(r, (uint32_t)args[1], (const word_t(*)[6])args[2]);
		break;
	default:
		break;
	}
	r->stream = stream_of(r->stream, calls[call].ptsz);
}

/* ---- what the driver is asked ---- */

static uint64_t current_context(void)
{
	int (*get)(uint64_t *) = (int (*)(uint64_t *))vt_recorder.config.imports.cuCtxGetCurrent;
	uint64_t context = 0;

	return get && !get(&context) ? context : 0;
}

static int16_t current_device(void)
{
	int (*get)(int *device) = (int (*)(int *))vt_recorder.config.imports.cuCtxGetDevice;
	int device;

	return get && !get(&device) && device >= 0 && device <= INT16_MAX ? (int16_t)device : -1;
}

/*
 * Neither changes anything, also in a capture (measured, driver 580). The legacy stream cannot
 * capture.
 */
static bool ask_capturing(uint64_t stream, const struct vt_recorder_imports *imports)
{
	int (*ask)(uint64_t, int *) = (int (*)(uint64_t, int *))imports->cuStreamIsCapturing;
	int status = 0;

	return stream && ask && !ask(stream, &status) && status == CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

/* ---- tables ---- */

/* How far each stream was when a call began that waits for its device. */
struct wait {
	uint32_t used, pad;
	uint64_t number[VT_LAUNCH_STREAMS];
};

static struct {
	struct wait *waits;
	uint32_t n_rings; /* mapped */
} tables;

static struct vt_recorder_launches *kept(void)
{
	return &vt_recorder.launches;
}

static struct vt_recorder_launch_stream *stream_at(uint64_t i)
{
	return (struct vt_recorder_launch_stream *)kept()->streams + i;
}

/* ---- streams ---- */

/*
 * The default stream is of the current context, or also of the thread; others have a handle.
 * Handles and contexts are addresses of user space.
 */
static uint64_t key_of(uint64_t handle, uint64_t context)
{
	if (handle > STREAM_PER_THREAD)
		return handle;
	if (handle == STREAM_PER_THREAD)
		return vt_recorder_hash(context ^ vt_recorder_hash(vt_rec_tid())) | UINT64_C(3)
											    << 62;
	return context | UINT64_C(1) << 63;
}

/* Of the first of these in the probe's order: the stream itself, or a free place. */
static struct vt_recorder_launch_stream *place_of(uint64_t key)
{
	uint64_t slot = vt_recorder_hash(key);

	for (unsigned int i = 0; i < VT_LAUNCH_STREAMS; i++, slot++) {
		struct vt_recorder_launch_stream *s = stream_at(slot & MASK_STREAMS);
		uint64_t seen = __atomic_load_n(&s->key, __ATOMIC_ACQUIRE);

		if (!seen || seen == key)
			return s;
	}
	return NULL;
}

static struct vt_recorder_launch_stream *if_ready(struct vt_recorder_launch_stream *s)
{
	return __atomic_load_n(&s->ready, __ATOMIC_ACQUIRE) ? s : NULL;
}

/*
 * What takes time comes before the place is taken: a launch that meets a stream which is just being
 * filled in is lost, as nothing here waits.
 */
static __attribute__((noinline)) struct vt_recorder_launch_stream *add_stream(uint64_t handle,
									      uint64_t context,
									      uint64_t key)
{
	const uint64_t size = VT_LAUNCH_RING * sizeof(struct vt_recorder_launch);
	/* Another stream may be of any device. */
	int16_t device = handle > STREAM_PER_THREAD ? -1 : current_device();
	void *ring = vt_rec_map(size);
	struct vt_recorder_launch_stream *s;
	uint64_t none = 0;

	while ((s = place_of(key)) && !__atomic_load_n(&s->key, __ATOMIC_ACQUIRE)) {
		if (!__atomic_compare_exchange_n(&s->key, &none, key, false, __ATOMIC_ACQ_REL,
						 __ATOMIC_ACQUIRE)) {
			none = 0;
			continue;
		}
		s->handle = handle;
		s->context = context;
		s->tid = handle == STREAM_PER_THREAD ? vt_rec_tid() : 0;
		s->device = device;
		s->ring = (uint64_t)ring;
		if (ring)
			__atomic_fetch_add(&tables.n_rings, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&s->ready, 1, __ATOMIC_RELEASE);
		return s;
	}
	if (ring)
		vt_rec_unmap(ring, size);
	return s ? if_ready(s) : NULL;
}

/* NULL: it has no place. */
static struct vt_recorder_launch_stream *find_stream(uint64_t handle, bool add)
{
	uint64_t context = handle > STREAM_PER_THREAD ? 0 : current_context();
	uint64_t key = key_of(handle, context);
	struct vt_recorder_launch_stream *s;

	if (handle <= STREAM_PER_THREAD && !context)
		return NULL;
	s = place_of(key);
	if (s && __atomic_load_n(&s->key, __ATOMIC_ACQUIRE) == key)
		return if_ready(s);
	if (!s || !add)
		return NULL;
	return add_stream(handle, context, key);
}

static bool must_ask_capture(const struct vt_recorder_launch_stream *s)
{
	return s->handle && (__atomic_load_n(&kept()->captures, __ATOMIC_RELAXED) ||
			     __atomic_load_n(&s->capture, __ATOMIC_RELAXED) != VT_CAPTURE_NOT);
}

static void count_capture(bool begins)
{
	uint32_t n = __atomic_load_n(&kept()->captures, __ATOMIC_RELAXED);

	while ((begins ? n < UINT32_MAX : n > 0) &&
	       !__atomic_compare_exchange_n(&kept()->captures, &n, begins ? n + 1 : n - 1, false,
					    __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

static void forget_context(struct vt_recorder_launch_stream *s)
{
	__atomic_store_n(&s->device, -1, __ATOMIC_RELAXED);
	__atomic_store_n(&s->context, 0, __ATOMIC_RELAXED);
}

static void note_context(struct vt_recorder_launch_stream *s)
{
	__atomic_store_n(&s->device, current_device(), __ATOMIC_RELAXED);
	__atomic_store_n(&s->context, current_context(), __ATOMIC_RELAXED);
}

/*
 * A capture that nobody was seen to begin: it began before the recording. A stream of which nothing
 * is known yet may be another one, of another device, with a handle that was used before.
 */
static void note_capture(struct vt_recorder_launch_stream *s, bool active)
{
	uint32_t none = 0;

	if (__atomic_load_n(&s->capture, __ATOMIC_RELAXED) == VT_CAPTURE_UNKNOWN)
		forget_context(s);
	__atomic_store_n(&s->capture, active ? VT_CAPTURE_ACTIVE : VT_CAPTURE_NOT,
			 __ATOMIC_RELAXED);
	if (active)
		__atomic_compare_exchange_n(&kept()->captures, &none, 1, false, __ATOMIC_RELAXED,
					    __ATOMIC_RELAXED);
}

/* ---- a launch ---- */

/* Words, so that a launch 2,048 later in the same place is a torn record and no undefined one. */
static void put_record(struct vt_recorder_launch *to, const struct vt_recorder_launch *from)
{
	const word_t *words = (const word_t *)from;

	for (unsigned int i = 1; i < sizeof(*from) / sizeof(word_t); i++)
		__atomic_store_n((word_t *)to + i, words[i], __ATOMIC_RELAXED);
	__atomic_store_n(&to->number_state, from->number_state, __ATOMIC_RELEASE);
}

static struct vt_recorder_launch *record_at(const struct vt_recorder_launch_stream *s,
					    uint64_t number)
{
	return s->ring ? (struct vt_recorder_launch *)s->ring + (number - 1) % VT_LAUNCH_RING :
			 NULL;
}

static uint16_t narrow(uint32_t n)
{
	return n > UINT16_MAX ? UINT16_MAX : (uint16_t)n;
}

static void put_launch(struct vt_recorder_launch_stream *s, const struct request *r,
		       uint64_t number, uint32_t name, bool captured)
{
	struct vt_recorder_launch *to = record_at(s, number);
	struct vt_recorder_launch record = {
		.number_state = number << VT_LAUNCH_STATE_BITS | VT_LAUNCH_CALLING,
		.time_ns = vt_rec_now_ns(),
		.what = r->what,
		.grid = { r->grid[0], r->grid[1], r->grid[2] },
		.block = { narrow(r->block[0]), narrow(r->block[1]), narrow(r->block[2]) },
		.kind = r->kind,
		.flags = captured ? VT_LAUNCH_CAPTURED : 0,
		.tid = vt_rec_tid(),
		.name = name,
		.shared = r->shared,
	};

	if (!to)
		return;
	record.stack = vt_rec_stack_python(MAX_FRAMES);
	record.check = vt_recorder_launch_check(&record);
	put_record(to, &record);
}

/* The generation; how many launches; the index + 1. */
static uint64_t where_of(uint64_t index, uint64_t n)
{
	return (uint64_t)vt_recorder.generation << 32 | n << 16 | (index + 1);
}

static uint64_t number_in(uint64_t where)
{
	return where >> 16 & UINT16_MAX;
}

/* The index in the table, if the recording is the same as when the call began. Inside. */
static bool same_recording(uint64_t where, uint64_t *index)
{
	*index = (where & UINT16_MAX) - 1;
	return where >> 32 == __atomic_load_n(&vt_recorder.generation, __ATOMIC_ACQUIRE);
}

struct facts {
	struct vt_recorder_launch_stream *stream; /* NULL: it has no place */
	uint32_t name;
	bool captured;
};

/* What is known already of it, with its stream. False: something must be asked first. */
static bool known_facts(const struct request *r, struct facts *facts)
{
	facts->stream = find_stream(r->stream, true);
	facts->name = 0;
	facts->captured = false;
	if (r->kind == VT_LAUNCH_HANDLE && !vt_rec_name_find(r->what, &facts->name))
		return false;
	return !facts->stream || !must_ask_capture(facts->stream);
}

/*
 * Between two stays inside; the tables may be others afterwards, so they are looked up again, and
 * the configuration is copied before. False: the recording has ended.
 */
static bool ask_facts(const struct request *r, struct facts *facts)
{
	const struct vt_recorder_imports imports = vt_recorder.config.imports;
	const uint32_t generation = vt_recorder.generation;
	struct vt_rec_kernel_name name;
	bool ask = r->kind == VT_LAUNCH_HANDLE && !vt_rec_name_find(r->what, &facts->name);

	name.epoch = vt_rec_names_epoch();
	vt_rec_leave();
	if (ask)
		vt_rec_name_ask(r->what, &imports, &name);
	facts->captured = ask_capturing(r->stream, &imports);
	if (!vt_rec_enter())
		return false;
	/* The names are those of another recording. */
	if (generation != vt_recorder.generation) {
		__atomic_fetch_add(&kept()->lost, 1, __ATOMIC_RELAXED);
		vt_rec_leave();
		return false;
	}
	if (ask)
		facts->name = vt_rec_name_keep(r->what, &name);
	facts->stream = find_stream(r->stream, true);
	if (facts->stream && facts->stream->handle)
		note_capture(facts->stream, facts->captured);
	return true;
}

/* The program may change the list meanwhile: no more are written than have a number. */
static void put_batch(struct vt_recorder_launch_stream *s, const struct request *r, uint64_t number,
		      bool captured)
{
	struct request one = *r;
	uint32_t left = r->n;

	for (uint32_t i = 0; left && i < r->n_ops; i++)
		if (read_op(&one, r->ops[i])) {
			put_launch(s, &one, number++, 0, captured);
			left--;
		}
}

static void begin_launch(const struct request *r, struct vt_rec_launch *launch)
{
	struct vt_recorder_launch_stream *s;
	struct facts facts;

	if (!r->n || !vt_rec_enter())
		return;
	if (!kept()->streams) {
		vt_rec_leave();
		return;
	}
	if (!known_facts(r, &facts) && !ask_facts(r, &facts))
		return;
	s = facts.stream;
	if (s) {
		uint64_t next = __atomic_load_n(&s->launches_open, __ATOMIC_RELAXED) + 1;

		/* It is seldom in the cache, and the additions wait for it. */
		__builtin_prefetch(record_at(s, next & (VT_LAUNCH_OPEN - 1)), 1);
		launch->number = (__atomic_add_fetch(&s->launches_open, VT_LAUNCH_OPEN + r->n,
						     __ATOMIC_SEQ_CST) &
				  (VT_LAUNCH_OPEN - 1)) -
				 r->n + 1;
		launch->where = where_of((uint64_t)(s - stream_at(0)), r->n);
		if (r->ops)
			put_batch(s, r, launch->number, facts.captured);
		else
			put_launch(s, r, launch->number, facts.name, facts.captured);
	} else if (r->stream <= STREAM_PER_THREAD && !current_context()) {
		launch->where = VT_REC_LAUNCH_LATER;
	} else {
		__atomic_fetch_add(&kept()->lost, 1, __ATOMIC_RELAXED);
	}
	vt_rec_leave();
}

/*
 * Not if a later launch has its place by now; should one take it this very moment, that one counts
 * as damaged.
 */
static void set_state(const struct vt_recorder_launch_stream *s, uint64_t number,
		      enum vt_launch_state state)
{
	struct vt_recorder_launch *record = record_at(s, number);
	uint64_t was = number << VT_LAUNCH_STATE_BITS | VT_LAUNCH_CALLING;

	if (record && __atomic_load_n(&record->number_state, __ATOMIC_RELAXED) == was)
		__atomic_store_n(&record->number_state, number << VT_LAUNCH_STATE_BITS | state,
				 __ATOMIC_RELEASE);
}

/*
 * is_of_context: the stream is known to be of the current context.
 */
static void end_launch(const struct vt_rec_launch *launch, bool is_of_context, int result)
{
	enum vt_launch_state state = result ? VT_LAUNCH_FAILED : VT_LAUNCH_SUBMITTED;
	struct vt_recorder_launch_stream *s;
	uint64_t index;

	if (!vt_rec_enter())
		return;
	if (same_recording(launch->where, &index)) {
		s = stream_at(index);
		/* The runtime gives a thread its context with the first call. */
		if (is_of_context && !__atomic_load_n(&s->context, __ATOMIC_RELAXED))
			note_context(s);
		for (uint64_t i = 0; i < number_in(launch->where); i++)
			set_state(s, launch->number + i, state);
		__atomic_fetch_sub(&s->launches_open, VT_LAUNCH_OPEN, __ATOMIC_SEQ_CST);
	}
	vt_rec_leave();
}

static void mark_captured(struct vt_recorder_launch *record, uint64_t number_state)
{
	struct vt_recorder_launch now;

	if (!record || __atomic_load_n(&record->number_state, __ATOMIC_RELAXED) != number_state)
		return;
	for (unsigned int i = 0; i < sizeof(now) / sizeof(word_t); i++)
		((word_t *)&now)[i] = __atomic_load_n((const word_t *)record + i, __ATOMIC_RELAXED);
	now.number_state = number_state;
	now.flags |= VT_LAUNCH_CAPTURED;
	now.check = vt_recorder_launch_check(&now);
	put_record(record, &now);
}

/*
 * A stream that waits for an event of a capture becomes part of the capture, with that wait: asked
 * before, it was none.
 */
static void end_event_wait(const struct vt_rec_launch *launch)
{
	struct vt_recorder_imports imports;
	struct vt_recorder_launch_stream *s;
	uint64_t index, stream = 0;

	if (!vt_rec_enter())
		return;
	imports = vt_recorder.config.imports;
	if (__atomic_load_n(&kept()->captures, __ATOMIC_RELAXED) &&
	    same_recording(launch->where, &index))
		stream = stream_at(index)->handle;
	vt_rec_leave();
	if (!ask_capturing(stream, &imports) || !vt_rec_enter())
		return;
	if (same_recording(launch->where, &index)) {
		s = stream_at(index);
		note_capture(s, true);
		mark_captured(record_at(s, launch->number),
			      launch->number << VT_LAUNCH_STATE_BITS | VT_LAUNCH_CALLING);
	}
	vt_rec_leave();
}

/*
 * The runtime refuses to launch a kernel on a stream of another device than the current one. Graphs
 * and host functions, and all of the driver's functions, take streams of any context.
 */
static bool tells_context(enum vt_recorder_call which, int result)
{
	uint8_t what = calls[which - VT_N_CALLS].what;

	return which >= VT_CALL_cudaLaunchKernel && !result &&
	       (what == LAUNCHES_DIM3 || what == LAUNCHES_CONFIG);
}

/* ---- waits ---- */

/*
 * The last launch, if all up to it have been submitted: 0 while a thread is inside one, which may
 * have its number and not yet be in the stream.
 */
static uint64_t submitted(const struct vt_recorder_launch_stream *s)
{
	uint64_t now = __atomic_load_n(&s->launches_open, __ATOMIC_SEQ_CST);

	return now < VT_LAUNCH_OPEN ? now : 0;
}

static void note_done(struct vt_recorder_launch_stream *s, uint64_t number)
{
	uint64_t done = __atomic_load_n(&s->done, __ATOMIC_RELAXED);

	while (done < number && !__atomic_compare_exchange_n(&s->done, &done, number, false,
							     __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		;
}

static void begin_wait(uint64_t stream, struct vt_rec_launch *launch)
{
	const struct vt_recorder_launch_stream *s;

	if (!vt_rec_enter())
		return;
	s = kept()->streams ? find_stream(stream, false) : NULL;
	if (s) {
		launch->number = submitted(s);
		launch->where = where_of((uint64_t)(s - stream_at(0)), 0);
	}
	vt_rec_leave();
}

static void end_wait(const struct vt_rec_launch *launch)
{
	uint64_t index;

	if (!vt_rec_enter())
		return;
	if (same_recording(launch->where, &index))
		note_done(stream_at(index), launch->number);
	vt_rec_leave();
}

/* Waits are for a context; without one that can be told, nothing is known. */
static void begin_device_wait(struct vt_rec_launch *launch)
{
	uint64_t context, i = 0;
	uint32_t none = 0;

	if (!vt_rec_enter())
		return;
	context = kept()->streams ? current_context() : 0;
	while (context && i < MAX_WAITS &&
	       !__atomic_compare_exchange_n(&tables.waits[i].used, &none, 1, false,
					    __ATOMIC_ACQUIRE, __ATOMIC_RELAXED)) {
		none = 0;
		i++;
	}
	if (context && i < MAX_WAITS) {
		for (uint64_t k = 0; k < VT_LAUNCH_STREAMS; k++) {
			const struct vt_recorder_launch_stream *s = stream_at(k);
			bool waits = __atomic_load_n(&s->ready, __ATOMIC_ACQUIRE) &&
				     __atomic_load_n(&s->context, __ATOMIC_RELAXED) == context;

			tables.waits[i].number[k] = waits ? submitted(s) : 0;
		}
		launch->where = where_of(i, 0);
	}
	vt_rec_leave();
}

static void end_device_wait(const struct vt_rec_launch *launch, int result)
{
	uint64_t index;

	if (!vt_rec_enter())
		return;
	if (same_recording(launch->where, &index)) {
		for (uint64_t k = 0; !result && k < VT_LAUNCH_STREAMS; k++)
			if (tables.waits[index].number[k])
				note_done(stream_at(k), tables.waits[index].number[k]);
		__atomic_store_n(&tables.waits[index].used, 0, __ATOMIC_RELEASE);
	}
	vt_rec_leave();
}

/* ---- other calls ---- */

static void forget_names(void)
{
	if (!vt_rec_enter())
		return;
	vt_rec_names_forget();
	vt_rec_leave();
}

/* Another stream may get its handle; whether that one captures is not known. */
static void forget_stream(uint64_t handle)
{
	struct vt_recorder_launch_stream *s;

	if (!vt_rec_enter())
		return;
	s = kept()->streams ? find_stream(handle, false) : NULL;
	if (s)
		__atomic_store_n(&s->capture, VT_CAPTURE_UNKNOWN, __ATOMIC_RELAXED);
	vt_rec_leave();
}

static void capture(bool begins)
{
	if (!vt_rec_enter())
		return;
	count_capture(begins);
	vt_rec_leave();
}

/* ---- */

void vt_rec_launch_begins(enum vt_recorder_call which, const uint64_t *args, const uint64_t *more,
			  struct vt_rec_launch *launch)
{
	unsigned int call = which - VT_N_CALLS;
	struct request request;

	*launch = (struct vt_rec_launch){ 0 };
	if (!vt_rec_is_on())
		return;
	switch (calls[call].what) {
	case WAITS_STREAM:
		begin_wait(stream_of(args[0], calls[call].ptsz), launch);
		return;
	case WAITS_DEVICE:
		begin_device_wait(launch);
		return;
	case BEGINS_CAPTURE: /* at once: another thread may use the stream before it returns */
		capture(true);
		launch->where = 1;
		return;
	case ENDS_CAPTURE:
		launch->where = 1;
		return;
	case UNLOADS:
		forget_names();
		launch->where = 1;
		return;
	case ENDS_STREAM:
		forget_stream(args[0]);
		return;
	default:
		read_arguments(call, args, more, &request);
		begin_launch(&request, launch);
	}
}

void vt_rec_launch_ended(enum vt_recorder_call which, int result,
			 const struct vt_rec_launch *launch)
{
	if (!launch->where)
		return;
	switch (calls[which - VT_N_CALLS].what) {
	case WAITS_STREAM:
		if (!result && launch->number)
			end_wait(launch);
		return;
	case WAITS_DEVICE:
		end_device_wait(launch, result);
		return;
	case BEGINS_CAPTURE:
		if (result)
			capture(false);
		return;
	case ENDS_CAPTURE: /* other errors leave captures as they are */
		if (!result || result == CUDA_ERROR_STREAM_CAPTURE_INVALIDATED ||
		    result == CUDA_ERROR_STREAM_CAPTURE_UNJOINED)
			capture(false);
		return;
	case UNLOADS: /* a name may have been asked for while it was unloaded */
		forget_names();
		return;
	default:
		if (!result && calls[which - VT_N_CALLS].kind == VT_LAUNCH_WAIT_EVENT)
			end_event_wait(launch);
		end_launch(launch, tells_context(which, result), result);
	}
}

void vt_rec_launch_late(enum vt_recorder_call which, const uint64_t *args, const uint64_t *more,
			int result)
{
	struct vt_rec_launch launch = { 0 };
	struct request request;

	if (result || !vt_rec_is_on())
		return;
	read_arguments(which - VT_N_CALLS, args, more, &request);
	begin_launch(&request, &launch);
	if (launch.where && launch.where != VT_REC_LAUNCH_LATER)
		end_launch(&launch, true, result);
}

/* ---- on and off ---- */

bool vt_rec_launches_init(void)
{
	struct vt_recorder_launches *l = kept();

	*l = (struct vt_recorder_launches){ 0 };
	tables.waits = vt_rec_map(MAX_WAITS * sizeof(*tables.waits));
	l->streams =
		(uint64_t)vt_rec_map(VT_LAUNCH_STREAMS * sizeof(struct vt_recorder_launch_stream));
	return vt_rec_names_init() && tables.waits && l->streams;
}

static void unmap(void *at, uint64_t size)
{
	if (at)
		vt_rec_unmap(at, size);
}

/* A child has not inherited the table of streams: only what was counted is known there. */
static void unmap_rings(void)
{
	const uint64_t size = VT_LAUNCH_RING * sizeof(struct vt_recorder_launch);

	if (vt_rec_is_inherited())
		while (tables.n_rings--)
			vt_rec_unmap(NULL, size);
	else
		for (uint64_t i = 0; kept()->streams && i < VT_LAUNCH_STREAMS; i++)
			unmap((void *)stream_at(i)->ring, size);
	tables.n_rings = 0;
}

void vt_rec_launches_deinit(void)
{
	struct vt_recorder_launches *l = kept();

	unmap_rings();
	vt_rec_names_deinit();
	unmap(tables.waits, MAX_WAITS * sizeof(*tables.waits));
	unmap((void *)l->streams, VT_LAUNCH_STREAMS * sizeof(struct vt_recorder_launch_stream));
	tables.waits = NULL;
	*l = (struct vt_recorder_launches){ 0 };
}
