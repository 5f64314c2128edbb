/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which streams have unfinished work: VT_OP_STREAMS. Measured with the driver 580.159.04, also
 * while a kernel hangs and other threads wait for the device:
 *
 * - cuStreamIsCapturing() and cuStreamQuery() take 1 to 30 us and wait for nothing.
 * - cuStreamIsCapturing() is harmless on any stream. cuStreamQuery() on a stream that captures
 *   spoils the capture, whatever the mode of the thread. On another stream it does so only if the
 *   thread has not said that it may ask (vt_helper_spare_captures()).
 *
 * So a stream is asked for a capture first; the tool keeps all other threads from running, so that
 * none begins in between.
 */
#include "vramtap/freestanding.h"

#include "context.h"
#include "ops.h"
#include "vramtap/driver_abi.h"

#define PTR(field, type) ((type *)shared->imports.field)

typedef CUresult capturing_fn(CUstream stream, CUstreamCaptureStatus *status);
typedef CUresult query_fn(CUstream stream);

static int may_go_on(const struct vt_helper_shared *shared)
{
	return __atomic_load_n(&shared->args.streams.go, __ATOMIC_SEQ_CST) != 0;
}

static void set_asking(struct vt_helper_shared *shared, uint32_t asking)
{
	__atomic_store_n(&shared->args.streams.asking, asking, __ATOMIC_SEQ_CST);
}

static void tell(struct vt_stream_rec *rec, enum vt_asked_stream state, CUresult err)
{
	rec->error = (int32_t)err;
	__atomic_store_n(&rec->state, state, __ATOMIC_RELEASE);
}

/*
 * While a stream that the default one waits for captures, the default one cannot be asked (906).
 * 0: it may not be asked for work.
 */
static int is_free(const struct vt_helper_shared *shared, struct vt_stream_rec *rec)
{
	CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
	CUresult err = PTR(cuStreamIsCapturing, capturing_fn)((CUstream)rec->handle, &status);

	if (err == CUDA_SUCCESS && status == CU_STREAM_CAPTURE_STATUS_NONE)
		return 1;
	if (err == CUDA_SUCCESS || err == CUDA_ERROR_STREAM_CAPTURE_IMPLICIT)
		tell(rec, VT_STREAM_CAPTURING, CUDA_SUCCESS);
	else
		tell(rec, VT_STREAM_FAILED, err);
	return 0;
}

static void ask_for_work(const struct vt_helper_shared *shared, struct vt_stream_rec *rec)
{
	CUresult err = PTR(cuStreamQuery, query_fn)((CUstream)rec->handle);

	if (err == CUDA_SUCCESS)
		tell(rec, VT_STREAM_IDLE, err);
	else if (err == CUDA_ERROR_NOT_READY)
		tell(rec, VT_STREAM_BUSY, CUDA_SUCCESS);
	else
		tell(rec, VT_STREAM_FAILED, err);
}

static void ask(struct vt_helper_shared *shared, struct vt_stream_rec *rec)
{
	if (!is_free(shared, rec))
		return;
	set_asking(shared, 1);
	if (may_go_on(shared))
		ask_for_work(shared, rec);
	set_asking(shared, 0);
}

/* All of one device, with its primary context; returns how many these are. */
static uint64_t ask_device(struct vt_helper_shared *shared, struct vt_stream_rec *recs, uint64_t n)
{
	int ordinal = recs[0].device, device = 0;
	int borrowed = vt_helper_borrow_context_of(shared, ordinal, &device);
	uint64_t i = 0;

	for (; i < n && recs[i].device == ordinal; i++) {
		if (!borrowed)
			tell(&recs[i], VT_STREAM_NO_CONTEXT, CUDA_SUCCESS);
		else if (may_go_on(shared))
			ask(shared, &recs[i]);
	}
	if (borrowed)
		vt_helper_return_context(shared, device);
	return i;
}

uint32_t vt_helper_op_streams(struct vt_helper_shared *shared, void *room, uint64_t room_size)
{
	struct vt_stream_rec *recs = room;
	uint64_t n = shared->args.streams.n;

	if (n > room_size / sizeof(*recs))
		return VT_HELPER_BAD_ARGS;
	if (!shared->imports.cuStreamIsCapturing || !shared->imports.cuStreamQuery) {
		vt_helper_say_why(shared, "this driver cannot be asked for a capture", NULL);
		return VT_HELPER_FAILED;
	}
	if (!vt_helper_spare_captures(shared)) {
		vt_helper_say_why(
			shared, "asking could break a CUDA graph that a thread is capturing", NULL);
		return VT_HELPER_FAILED;
	}
	for (uint64_t i = 0; i < n && may_go_on(shared);)
		i += ask_device(shared, recs + i, n - i);
	return VT_HELPER_OK;
}
