/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams of the process, and which have unfinished work: the driver's answers of two moments,
 * each while the process stood still. Where one had, it is asked a third time at the end of further
 * looks at the process (model/again.h). Part of the model.
 *
 * A stream is known by its device and its handle, as in blocks: 0 is the default stream of the
 * device.
 */
#ifndef VT_MODEL_STREAMS_H
#define VT_MODEL_STREAMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "base/vec.h"

struct vt_model;

/* X(NAME, "name"): the code, and its name in JSON, which never changes. */
/* clang-format off */
#define VT_STREAM_KINDS(X)                                                                        \
	X(DEFAULT, "default")   /* the legacy default stream of a device */                       \
	X(POOL, "pool")         /* of PyTorch's pools: torch.cuda.Stream(), NCCL */               \
	X(EXTERNAL, "external") /* seen in blocks; whether it is still alive is not known */

#define VT_STREAM_DOINGS(X)                                                                       \
	X(NOT_ASKED, "not-asked")                                                                 \
	X(IDLE, "idle")           /* all that it was given has ended */                           \
	X(BUSY, "busy")           /* it has unfinished work */                                    \
	X(CAPTURING, "capturing") /* into a CUDA graph, or a stream that it waits for is */       \
	X(FAILED, "failed")       /* the driver answered with an error */

/* What became of one moment's question. */
#define VT_STREAMS_LOOKS(X)                                                                       \
	X(NONE, NULL)                         /* it was not to be asked, or there is no stream */ \
	X(ASKED, "asked")                                                                         \
	X(IN_DRIVER, "in-driver")             /* a thread was in the driver at each try */        \
	X(NOT_STOPPED, "not-stopped")         /* a thread could not be stopped at once */         \
	X(LATE, "late")                       /* the driver did not answer in time */             \
	X(REFUSED, "refused")                 /* the driver cannot be asked without harm */       \
	X(NO_HELPER, "no-helper")             /* our thread in the process has ended */           \
	X(NOT_INSIDE, "not-inside")           /* later: we could not get inside once more */
/* clang-format on */

#define VT_STREAM_CODE(name, text) VT_STREAM_IS_##name,
enum vt_stream_kind { VT_STREAM_KINDS(VT_STREAM_CODE) VT_N_STREAM_KINDS };
#undef VT_STREAM_CODE
#define VT_STREAM_CODE(name, text) VT_STREAM_DOES_##name,
enum vt_stream_doing { VT_STREAM_DOINGS(VT_STREAM_CODE) VT_N_STREAM_DOINGS };
#undef VT_STREAM_CODE
#define VT_STREAM_CODE(name, text) VT_STREAMS_##name,
enum vt_streams_look { VT_STREAMS_LOOKS(VT_STREAM_CODE) VT_N_STREAMS_LOOKS };
#undef VT_STREAM_CODE

enum { VT_STREAM_LATER = 2, VT_STREAM_LOOKS };

/* What all moments together say. */
/* clang-format off */
#define VT_STREAM_STATES(X)                                                                       \
	X(UNKNOWN, "unknown")     /* it was not asked, or the driver gave an error */             \
	X(IDLE, "idle")           /* each time that it was asked */                               \
	X(BUSY, "busy")           /* each time, at least twice */                                 \
	X(BUSY_ONCE, "busy-once") /* and not asked another time */                                \
	X(MOVING, "moving")       /* busy one time, idle another; or launches ended meanwhile */  \
	X(CAPTURING, "capturing") /* at least once */
/* clang-format on */
#define VT_STREAM_CODE(name, text) VT_STREAM_##name##_STATE,
enum vt_stream_state { VT_STREAM_STATES(VT_STREAM_CODE) VT_N_STREAM_STATES };
#undef VT_STREAM_CODE

struct vt_model_stream {
	int device;
	uint64_t handle; /* 0: the default stream */
	enum vt_stream_kind kind;
	int priority;        /* of a pool's: CUDA's, 0 the lowest, -1 above it */
	unsigned int number; /* in the pool of its priority */
	enum vt_stream_doing doing[VT_STREAM_LOOKS];
	int error; /* CUresult of a question that failed; 0 none */
	/* filled by account: */
	enum vt_stream_state state;
	uint64_t bytes, blocks; /* PyTorch's blocks in use that were made for this stream */
	/* PyTorch's blocks that were freed, and wait for its work; if waits_known */
	uint64_t awaiting_bytes, awaiting_blocks;
	/* Whether all its kernels are NCCL's that the recorder of launches keeps, if it has any. */
	bool nccl_known, nccl;
	/* Launches that are known to have ended between the looks (model/again.h). */
	bool ended_known;
	uint64_t ended;
};

struct vt_model_streams_look {
	enum vt_streams_look look;
	unsigned int tries; /* how often the process was stopped for it */
	double stopped_ms;  /* in all of them */
	uint64_t when_ns;   /* CLOCK_MONOTONIC; 0: it was not asked */
};

struct vt_model_streams {
	bool wanted;       /* they were to be asked: the rest means something */
	bool pool_unknown; /* PyTorch's pools were not found: only default streams are known */
	struct vt_model_streams_look looks[VT_STREAM_LOOKS];
	VT_VEC(struct vt_model_stream) list; /* by device: default, pools, external */
	/* filled by account: */
	unsigned int n_asked; /* the moments at which it was asked */
	uint64_t apart_ns;    /* from the first of them to the last; 0: there are not two */
	bool waits_known;     /* for which streams all blocks wait that await their free */
};

void vt_model_streams_deinit(struct vt_model_streams *streams);

/* From exact allocators: the streams that blocks were made for. False: out of memory. */
bool vt_model_streams_account(struct vt_model *model);

/* What the moments say together; once more when there is a later one. */
void vt_model_streams_judge(struct vt_model_streams *streams);

/* How many moments there are: two, and a third one if it was to be asked later. */
unsigned int vt_model_streams_looks(const struct vt_model_streams *streams);

/* Some have unfinished work; later, all that had it are idle. */
bool vt_model_streams_are_busy(const struct vt_model_streams *streams);
bool vt_model_streams_have_ended(const struct vt_model_streams *streams);

/* NULL: there is none. */
const struct vt_model_stream *vt_model_stream(const struct vt_model *model, int device,
					      uint64_t handle);

/*
 * The one that the recorder of launches means: device is -1 where it is not known, but a handle is
 * an address. NULL: there is none.
 */
struct vt_model_stream *vt_model_streams_of(const struct vt_model_streams *streams, int device,
					    uint64_t handle);

/* For how long the process stood still for them, in milliseconds. */
double vt_model_streams_stopped_ms(const struct vt_model *model);

/* How many are in this state. */
size_t vt_model_streams_count(const struct vt_model *model, enum vt_stream_state state);

/* The only one that had unfinished work each time that it was asked; NULL: none, or several. */
const struct vt_model_stream *vt_model_busy_stream(const struct vt_model *model);

/* All that the process is known to have on this device had nothing to do, the first two times. */
bool vt_model_streams_are_idle(const struct vt_model *model, int device);

/* "PyTorch stream 3 of GPU 0", "the default stream of GPU 0" */
void vt_stream_say(struct vt_str *text, const struct vt_model_stream *stream);

/*
 * "PyTorch stream 3 of GPU 0 has unfinished work", "2 streams have unfinished work"; nothing is
 * added when none has.
 */
void vt_streams_say(struct vt_str *text, const struct vt_model *model);

/* The error (CUresult) of a stream after which all calls in the context fail; 0 none. */
int vt_model_streams_fault(const struct vt_model *model);

const char *vt_stream_kind_name(unsigned int code);
const char *vt_stream_doing_name(unsigned int code);
const char *vt_stream_state_name(unsigned int code);
const char *vt_streams_look_name(unsigned int code); /* NULL: none */

#endif
