/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the tool and the helper. All communication goes through one memory file
 * that the helper's thread creates and both map. It begins with the helper's image (which the tool
 * writes); the shared part follows: this header, then room for the helper's answers.
 *
 * Life of a session: the borrowed thread starts the helper's thread, the helper's thread maps the
 * file and waits; the tool writes one request at a time (args, then an increased `request_seq`) and
 * wakes it; the helper answers (results, then `done_seq` = the request's number). No side waits for
 * ever: the helper's thread ends when it is told to quit, or when the tool's heartbeat stops for
 * patience_ns; the tool gives up a request at its own deadline and completes the report without it.
 */
#ifndef VRAMTAP_HELPER_ABI_H
#define VRAMTAP_HELPER_ABI_H

#include <stdint.h>

#include "vramtap/recorder.h"
#include "vramtap/ranges.h"
#include "vramtap/relieve.h"
#include "vramtap/torch.h"

#define VT_HELPER_MAGIC UINT64_C(0x5041544d41525655) /* "UVRAMTAP" */
#define VT_HELPER_ABI 10
/* of the memory file the library is loaded from, + "-" + build id */
#define VT_HELPER_FILE_NAME "vramtap-helper"

enum vt_helper_op {
	VT_OP_NONE = 0,
	VT_OP_QUIT = 1,          /* end the thread and unmap everything */
	VT_OP_CUDA = 2,          /* devices, contexts, cudaMemGetInfo */
	VT_OP_TORCH_WALK = 3,    /* every block of the native allocator */
	VT_OP_CUDA_POOLS = 4,    /* the driver's memory pools */
	VT_OP_ASK_PYTORCH = 5,   /* the allocator's blocks, from PyTorch through the interpreter */
	VT_OP_LOAD_RECORDER = 6, /* makes the target load the recorder (recorder.h) */
	VT_OP_CALL_RECORDER = 7, /* calls its vt_recorder_control() */
	/* the contents of PyTorch's flight recorder, through the interpreter */
	VT_OP_ASK_FLIGHT = 8,
	/* what holds the tensors, through the interpreter */
	VT_OP_ASK_OWNERS = 9,
	VT_OP_RANGES = 10,  /* every allocation that the driver knows of */
	VT_OP_ASK_JAX = 11, /* the memory profile of JAX, through the interpreter */
	VT_OP_LIMITS = 12,  /* limits of the contexts; it can wait for other threads */
	VT_OP_RELIEVE = 13, /* gives memory back; only ever by vramtap relieve */
	VT_OP_STREAMS = 14, /* which streams have unfinished work; all other threads stand still */
};

enum vt_helper_status {
	VT_HELPER_OK = 0,
	/* the answer needs room_needed bytes; grow the file and ask again */
	VT_HELPER_NO_ROOM = 1,
	VT_HELPER_BAD_ARGS = 2,
	VT_HELPER_FAILED = 3,
};

/*
 * Addresses in the target of the functions that the helper may call; 0 where the target lacks them.
 * The tool resolves them.
 */
struct vt_helper_imports {
	uint64_t mutex_trylock; /* libc: pthread_mutex_trylock, pthread_mutex_unlock */
	uint64_t mutex_unlock;
	/* driver */
	uint64_t cuDriverGetVersion;
	uint64_t cuDeviceGetCount;
	uint64_t cuDeviceGet;
	uint64_t cuDeviceGetName;
	uint64_t cuDeviceTotalMem;
	uint64_t cuDeviceGetUuid;
	uint64_t cuDevicePrimaryCtxGetState;
	uint64_t cuDevicePrimaryCtxRetain;
	uint64_t cuDevicePrimaryCtxRelease;
	uint64_t cuCtxPushCurrent;
	uint64_t cuCtxPopCurrent;
	uint64_t cuMemGetInfo;
	uint64_t cuDeviceGetDefaultMemPool; /* this and the next two: CUDA 11.2 on */
	uint64_t cuDeviceGetMemPool;
	uint64_t cuMemPoolGetAttribute;
	uint64_t cuThreadExchangeStreamCaptureMode; /* CUDA 10.1 on */
	uint64_t cuMemGetAddressRange;
	uint64_t cuPointerGetAttribute;
	uint64_t cuPointerGetAttributes;
	uint64_t cuDeviceGetGraphMemAttribute; /* CUDA 11.4 on */
	uint64_t cuDeviceGetAttribute;
	uint64_t cuCtxGetLimit;
	uint64_t cuStreamIsCapturing; /* CUDA 10.0 on */
	uint64_t cuStreamQuery;
	uint64_t cuCtxRecordEvent; /* CUDA 12.5 on */
	uint64_t cuEventCreate;
	uint64_t cuEventQuery;
	uint64_t cuEventDestroy;
	/* runtime */
	uint64_t cudaMemGetInfo;
	uint64_t cudaRuntimeGetVersion;
};

/*
 * The same for the interpreter; the names are CPython's own, of 3.10 to 3.14. All are needed.
 * PyUnicode_Type is a type, not a function.
 */
#define VT_PYTHON_IMPORTS(X)       \
	X(PyBool_FromLong)         \
	X(PyBytes_AsString)        \
	X(PyBytes_Size)            \
	X(PyCFunction_GetFlags)    \
	X(PyDict_GetItemString)    \
	X(PyDict_GetItemWithError) \
	X(PyDict_Next)             \
	X(PyErr_Clear)             \
	X(PyErr_Occurred)          \
	X(PyGC_Disable)            \
	X(PyGC_Enable)             \
	X(PyGILState_Ensure)       \
	X(PyGILState_Release)      \
	X(PyImport_GetModuleDict)  \
	X(PyList_GetItem)          \
	X(PyList_Size)             \
	X(PyLong_AsLongLong)       \
	X(PyLong_FromLong)         \
	X(PyModule_GetDict)        \
	X(PyObject_CallObject)     \
	X(PyObject_IsTrue)         \
	X(PyObject_Type)           \
	X(PyTuple_GetItem)         \
	X(PyTuple_New)             \
	X(PyTuple_SetItem)         \
	X(PyUnicode_AsUTF8)        \
	X(PyUnicode_FromString)    \
	X(PyUnicode_Type)          \
	X(Py_DecRef)               \
	X(Py_IncRef)               \
	X(Py_IsFinalizing)         \
	X(Py_IsInitialized)

struct vt_python_imports {
#define VT_PYTHON_IMPORT(name) uint64_t name;
	VT_PYTHON_IMPORTS(VT_PYTHON_IMPORT)
#undef VT_PYTHON_IMPORT
};

/*
 * More of them, for the owners of tensors. PyUnstable_GC_VisitObjects(), PyFrame_GetVar() and
 * PyType_GetDict() are new in 3.12; what older releases have instead raises audit events, or keeps
 * a frame's variables alive. The last ones are types, not functions.
 */
#define VT_PYTHON_OWNER_IMPORTS(X)       \
	X(PyCode_GetCellvars)            \
	X(PyCode_GetFreevars)            \
	X(PyCode_GetVarnames)            \
	X(PyFrame_GetBack)               \
	X(PyFrame_GetCode)               \
	X(PyFrame_GetLineNumber)         \
	X(PyFrame_GetVar)                \
	X(PyInterpreterState_Main)       \
	X(PyInterpreterState_ThreadHead) \
	X(PyObject_GenericGetAttr)       \
	X(PyObject_GenericGetDict)       \
	X(PyObject_Repr)                 \
	X(PyThreadState_GetFrame)        \
	X(PyThreadState_Next)            \
	X(PyTuple_Size)                  \
	X(PyType_GetDict)                \
	X(PyType_GetFlags)               \
	X(PyType_GetName)                \
	X(PyType_GetSlot)                \
	X(PyType_IsSubtype)              \
	X(PyUnstable_GC_VisitObjects)    \
	X(PyDict_Type)                   \
	X(PyFrozenSet_Type)              \
	X(PyGetSetDescr_Type)            \
	X(PyList_Type)                   \
	X(PyLong_Type)                   \
	X(PyMethodDescr_Type)            \
	X(PyModule_Type)                 \
	X(PySet_Type)                    \
	X(PyTuple_Type)                  \
	X(PyType_Type)

struct vt_python_owner_imports {
#define VT_PYTHON_IMPORT(name) uint64_t name;
	VT_PYTHON_OWNER_IMPORTS(VT_PYTHON_IMPORT)
#undef VT_PYTHON_IMPORT
};

struct vt_cuda_device {
	int32_t ordinal;
	uint8_t context_active; /* the primary context exists: only then is memory asked for */
	uint8_t have_memory;
	uint8_t memory_from; /* 0 cudaMemGetInfo, 1 cuMemGetInfo */
	uint8_t pad;
	uint64_t free_bytes;
	uint64_t total_bytes; /* from cudaMemGetInfo; !have_memory: from cuDeviceTotalMem, or 0 */
	uint64_t context;     /* CUcontext of the primary context, 0 when not active */
	int32_t error;        /* CUresult or cudaError_t of the call that failed, 0 when none */
	int32_t pad2;
	uint64_t call_ns; /* how long the memory call took */
	char name[96];
	uint8_t uuid[16];
};

#define VT_MAX_CUDA_DEVICES 64

struct vt_cuda_answer {
	int32_t driver_version; /* 13000 for 13.0; 0 unknown */
	int32_t runtime_version;
	int32_t n_devices;
	/*
	 * CUresult of enumerating devices: 3 is "not initialized" (the target never called cuInit)
	 */
	int32_t error;
	/*
	 * Where the driver keeps a thread's current context: the word at (thread pointer +
	 * context_slot) points to data of the driver. If context_inner is not negative, that word
	 * points to a table instead, and the table's word at context_inner points to the data. The
	 * first word of the data points to the top of the thread's stack of contexts, whose first
	 * word is the CUcontext. context_slot 0: not found.
	 */
	int32_t context_slot;
	int32_t context_inner;
	struct vt_cuda_device devices[VT_MAX_CUDA_DEVICES];
};

/*
 * One of the driver's memory pools (cudaMallocAsync): CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT and so
 * on, in bytes.
 */
struct vt_cuda_pool {
	uint64_t handle; /* CUmemoryPool, 0: none, or not queried */
	uint64_t reserved, reserved_high;
	uint64_t used, used_high;
	/* 0: handle and all four are known; CUresult of the call that failed, or VT_POOL_CHANGES */
	int32_t error;
	int32_t pad;
};

#define VT_POOL_CHANGES (-1) /* it kept changing while it was queried */

/*
 * A device's own pool, and the pool that cudaMallocAsync uses if that is another one; other pools
 * cannot be found.
 */
enum { VT_POOL_DEFAULT, VT_POOL_CURRENT, VT_N_POOLS };

struct vt_cuda_pools_answer {
	int32_t n_devices;
	int32_t pad;
	struct vt_cuda_pool pools[VT_MAX_CUDA_DEVICES][VT_N_POOLS];
};

/* Addresses among which the driver's memory can be, as the target's map shows them. */
struct vt_range_area {
	uint64_t start, end; /* end is exclusive */
};

/* The areas are at the start of the room, sorted by nothing: the first are walked first. */
struct vt_ranges_args {
	uint64_t n_areas;
	uint64_t budget_ns;  /* it ends by itself after this time */
	uint64_t max_probes; /* and after so many questions of addresses */
	uint64_t max_ranges;
};

/* Pools are known by an allocation of theirs. */
struct vt_found_pool {
	int32_t device;
	int32_t pad;
	struct vt_cuda_pool pool;
};

#define VT_MAX_FOUND_POOLS 64

/* Of a device whose primary context is active. */
struct vt_device_use {
	uint8_t known; /* the other fields are set */
	uint8_t graph_known;
	uint8_t pad[6];
	uint64_t graph_used, graph_reserved; /* memory of CUDA graphs */
};

/*
 * Of a device whose primary context is active: the driver has a stack of stack_bytes for each
 * thread that can be resident.
 */
struct vt_device_limits {
	uint64_t stack_bytes; /* CU_LIMIT_STACK_SIZE */
	uint32_t multiprocessors;
	uint32_t threads; /* of each multiprocessor */
	uint8_t known;    /* the other fields are set */
	uint8_t pad[7];
};

/* More address space than this is walked in larger steps, and only once. */
#define VT_AREA_MAX (UINT64_C(64) << 30)
#define VT_AREA_PAGE (UINT64_C(2) << 20) /* the driver's */
#define VT_AREA_MAX_PAGES (VT_AREA_MAX / VT_AREA_PAGE + 1)

/* How far one area is walked. */
struct vt_area_walk {
	uint64_t at;        /* where it goes on; 0: at the start */
	uint64_t walked;    /* of a huge area: nothing before this is walked again */
	uint64_t close_end; /* up to there slot by slot: small allocations share the page */
	uint64_t misses;    /* in a row, on the way there */
	/* 0: every page is asked for; else those that look empty once more, so far apart */
	uint64_t stride;
	uint64_t page;         /* of these, the number of the next one in the area */
	uint64_t again;        /* questions for these pages */
	uint32_t found;        /* at this stride */
	uint32_t found_before; /* at the one before */
	/* a bit a page: it has something; it is near one that allocations share */
	uint8_t taken[VT_AREA_MAX_PAGES / 8 + 8];
	uint8_t near[VT_AREA_MAX_PAGES / 8 + 8];
};

/*
 * The records are behind the areas. The first fields are set while the walk goes on, so the tool
 * has what there is even if one question is never answered; asked again, the walk goes on where it
 * stopped. The tool zeroes all of it before the first request.
 */
struct vt_ranges_answer {
	uint64_t n_ranges;
	uint64_t area; /* where it goes on */
	struct vt_area_walk walk;
	/*
	 * Pages that allocations share, and pages near them that look empty, were asked for at
	 * distances up to this: a smaller allocation can be missing. Its page counts if it shares
	 * it. 0: each slot was asked for.
	 */
	uint64_t step_bytes;
	uint64_t again;  /* questions for these pages, of all areas */
	uint64_t misses; /* questions for free slots of shared pages, one by one */
	uint64_t probes; /* questions of addresses */
	uint64_t total_ns;
	uint32_t whole;         /* all areas were walked */
	uint32_t by_attributes; /* the context is broken: arrays are not found */
	int32_t range_error;    /* CUresult that says so; 0 none */
	uint32_t pad;
	uint32_t asked_pools; /* 0: that could spoil a capture */
	uint32_t n_pools;
	struct vt_found_pool pools[VT_MAX_FOUND_POOLS];
	struct vt_device_use devices[VT_MAX_CUDA_DEVICES];
};

struct vt_torch_walk_args {
	uint64_t allocator;        /* address of the NativeCachingAllocator object */
	uint64_t lock_deadline_ns; /* how long to try for each device's mutex */
	uint64_t walk_deadline_ns; /* how long one device's walk may take */
	uint64_t max_blocks;
	struct vt_torch_layout layout;
};

struct vt_torch_walk_answer {
	int32_t n_devices;
	int32_t pad;
	struct vt_torch_device_result devices[VT_TORCH_MAX_DEVICES];
	/* of the struct vt_block_rec array, from the start of the file; devices in order */
	uint64_t blocks_offset;
	uint64_t n_blocks;
	uint64_t total_ns;
};

/* For every request to the interpreter. */
struct vt_ask_python_args {
	struct vt_python_imports imports;
	uint64_t gil_wait_ns;   /* a GIL that is acquired later than this is released at once */
	int32_t stop_collector; /* until CPython 3.11 it runs inside calls too */
	int32_t pad;
};

struct vt_ask_python_answer {
	int32_t has_gil; /* the helper's thread has it now; the tool may have given up by then */
	int32_t pad;
	uint64_t waited_ns; /* for the GIL; added to what is here */
	uint64_t held_ns;   /* the GIL; likewise */
};

struct vt_ask_pytorch_args {
	struct vt_ask_python_args python;
	uint64_t mutex_wait_ns; /* how long to wait, with the GIL, for mutexes that others hold */
	uint64_t max_blocks;
	int32_t n_devices;
	int32_t only_stats; /* the counters alone */
	/* of the devices' allocators: none may be locked when PyTorch is asked */
	uint64_t mutexes[VT_TORCH_MAX_DEVICES];
};

struct vt_ask_pytorch_answer {
	int32_t n_devices;
	int32_t pad;
	/* the counters just before the blocks, and just after */
	struct vt_torch_stats before[VT_TORCH_MAX_DEVICES];
	struct vt_torch_stats after[VT_TORCH_MAX_DEVICES];
	uint64_t blocks_offset; /* of the struct vt_block_rec array, as PyTorch listed them */
	uint64_t n_blocks;
};

struct vt_ask_flight_args {
	struct vt_ask_python_args python;
	uint64_t max_bytes;  /* a longer text is not wanted */
	int32_t entries;     /* with the single operations; else the driver is not called */
	int32_t only_active; /* of these only those that are not over */
	/* of torch._C._distributed_c10d: (entries, only_active) -> JSON in bytes */
	char function[40];
	char argument[24]; /* a third one, "" none: releases without it lack this recorder */
};

struct vt_ask_flight_answer {
	uint64_t offset, size; /* of the text in the file; size is set even if it is too long */
	int32_t is_there;      /* 0: this release of PyTorch has no such function */
	int32_t entries;       /* 0: the text has no single operations */
};

#define VT_MAX_JAX_CLIENTS 8

struct vt_ask_jax_args {
	struct vt_ask_python_args python;
	uint64_t get_attribute; /* PyObject_GetAttrString() */
	uint64_t max_bytes;     /* longer profiles are not wanted */
};

struct vt_ask_jax_answer {
	uint64_t offset; /* of the profiles in the file, one behind the other (pprof's format) */
	uint64_t sizes[VT_MAX_JAX_CLIENTS];
	uint32_t n;        /* profiles */
	uint32_t is_there; /* 0: there is no JAX */
	/* Live arrays, by client: in the file behind the profiles, one word each, its object. */
	uint64_t arrays_offset;
	uint64_t n_arrays[VT_MAX_JAX_CLIENTS];
	uint32_t n_lists;   /* clients that told them */
	uint32_t host_mask; /* those whose arrays are memory of the host: bit of each client */
};

struct vt_ask_owners_args {
	struct vt_ask_python_args python;
	struct vt_python_owner_imports imports;
	uint64_t held_ns; /* the look ends after this time with the GIL, and is not whole then */
	uint64_t max_objects; /* that are remembered */
};

enum vt_asked_kind {
	VT_ASKED_TENSOR, /* to: the tensor, value: where its storage begins, number: flags */
	VT_ASKED_OBJECT, /* to: a module of PyTorch's, or (number 1) an optimizer; text: class */
	VT_ASKED_IMPORT, /* from nothing; to: an imported module, text: its name */
	/*
	 * from nothing; to: a frame, number: its line, value: its thread, text: function TAB file
	 */
	VT_ASKED_FRAME,
	VT_ASKED_GLOBAL, /* from a module; text */
	VT_ASKED_LOCAL,  /* from a frame; text */
	VT_ASKED_CHILD,  /* from a module: _modules, _parameters and _buffers; text */
	VT_ASKED_PARAMETER,
	VT_ASKED_BUFFER,
	VT_ASKED_ATTRIBUTE, /* of a module or an optimizer, but for these; text */
	VT_ASKED_FIELD,     /* an attribute of another object; text */
	VT_ASKED_ITEM,      /* of a list or tuple; number */
	VT_ASKED_KEY,       /* of a dictionary; text */
	VT_ASKED_NUMBER,    /* of a dictionary; value is the key */
	VT_ASKED_ELEMENT,   /* of a set */
	VT_ASKED_OTHER,     /* it has no name */
	VT_ASKED_STATE,     /* from an optimizer, of the parameter value */
	VT_ASKED_GRAD,      /* from a tensor to its gradient */
	VT_ASKED_INNER,     /* from a tensor to one that it consists of */
	VT_N_ASKED_KINDS
};

enum {                     /* of a tensor */
       VT_ASKED_KNOWN = 1, /* it is of PyTorch's own class: the rest is known */
       VT_ASKED_REQUIRES_GRAD = 2,
       VT_ASKED_KNOWN_LEAF = 4, /* the next flag is known */
       VT_ASKED_HAS_GRAD_FN = 8,
};

/* Something, or a reference; objects are addresses and mean nothing else. */
struct vt_asked_rec {
	uint32_t kind; /* enum vt_asked_kind */
	uint32_t number;
	uint64_t from, to;
	uint64_t value;
	/* cut if it is longer; of a tensor: its data type TAB shape TAB class */
	char text[96];
};

struct vt_ask_owners_answer {
	uint64_t offset, n;   /* of the array of records, from the start of the file */
	uint64_t n_objects;   /* that Python's collector knows, and that were looked at */
	int32_t late, full;   /* why not all was looked at */
	int32_t cut;          /* some containers were looked at in part: they have too many items */
	int32_t no_gradients; /* they were not asked for: a backward pass runs */
	int32_t without_facts; /* tensors whose storage was not told, or not asked for */
	int32_t pad;
};

/* What is known of a stream. Each word is written once, in this order. */
enum vt_asked_stream {
	VT_STREAM_UNASKED,    /* so far */
	VT_STREAM_IDLE,       /* cuStreamQuery(): all that it was given has ended */
	VT_STREAM_BUSY,       /* the same: CUDA_ERROR_NOT_READY */
	VT_STREAM_CAPTURING,  /* it takes part in a capture, and was asked nothing else */
	VT_STREAM_FAILED,     /* error is the driver's answer */
	VT_STREAM_NO_CONTEXT, /* its device has no active primary context */
	VT_N_ASKED_STREAMS
};

/* In the room; the tool fills the first two. */
struct vt_stream_rec {
	uint64_t handle; /* CUstream; CU_STREAM_LEGACY (1): the default stream of the device */
	int32_t device;  /* the driver's ordinal. Those of one device are together */
	int32_t error;   /* CUresult */
	uint32_t state;  /* enum vt_asked_stream; written last */
	uint32_t pad;
};

/*
 * The streams must be alive, and no thread but the helper's may run while a stream is asked whether
 * it has work: in a stream that begins to capture, that question would spoil the capture. So the
 * tool sets go before the request, and clears it before it lets a thread go on, whatever has become
 * of the request; nothing is asked any more then. The helper sets asking before it looks at go for
 * a question, and clears it after the answer: a tool that has cleared go and then finds asking
 * clear knows that no question is on its way.
 */
struct vt_streams_args {
	uint64_t n;      /* records in the room */
	uint32_t go;     /* the tool's */
	uint32_t asking; /* the helper's */
};

struct vt_load_recorder_args {
	uint64_t dlopen, dlerror; /* of the target's C library */
	uint64_t size; /* of the library's file, whose bytes are at the start of the room */
	/*
	 * The descriptor that the file gets, in the table of a thread that has nothing else. The
	 * path that the target's loader gets contains its number: the higher the number, the less
	 * likely a later file of the target has the same path.
	 */
	uint32_t fd;
	uint32_t pad;
	char name[40]; /* of the memory file */
};

struct vt_call_recorder_args {
	uint64_t control; /* address of vt_recorder_control() */
	uint32_t op;      /* enum vt_recorder_op */
	uint32_t pad;
	struct vt_recorder_config config; /* got: its offset in the room */
};

struct vt_recorder_answer {
	uint64_t base;   /* where it was loaded */
	uint32_t status; /* what vt_recorder_control() returned */
	uint32_t pad;
};

struct vt_relieve_args {
	struct vt_ask_python_args python;
	uint32_t what;    /* enum vt_relief */
	uint32_t dry_run; /* all but the call */
	/* enum vt_relief_word: who exchanges VT_RELIEF_OPEN decides whether it is called */
	uint32_t word;
	uint32_t asks_gpu;        /* no capture can be underway that is not seen: it may be asked */
	uint64_t gpu_wait_ns;     /* for the GPUs' work, holding nothing */
	uint64_t gpu_wait_gil_ns; /* again, with the GIL: until they are idle */
	uint64_t lock_wait_ns;
	int32_t n_devices;             /* of PyTorch's allocator; 0: there is none */
	uint32_t captures_are_counted; /* the field below is an int; else a vector */
	uint64_t mutexes[VT_TORCH_MAX_DEVICES];
	uint64_t captures[VT_TORCH_MAX_DEVICES]; /* DeviceCachingAllocator::captures_underway */
};

struct vt_relieve_answer {
	uint32_t stage;   /* enum vt_relief_stage */
	uint32_t refusal; /* enum vt_relief_refusal */
	int32_t device;   /* -1: none in particular */
	int32_t error;    /* CUresult */
	uint32_t n_contexts;
	uint32_t asked_gpu; /* the GPUs were asked whether their work ends */
	uint32_t in_driver; /* now, or since it does not answer */
	uint32_t pad;
	uint64_t gpu_wait_ns; /* what it took, in all */
	uint64_t call_ns;     /* of the call alone */
	int64_t collected;    /* objects; -1: unknown */
};

/*
 * The head of the shared part of the memory file: below, "the file" means this part. Sizes are
 * those that the tool last grew it to.
 */
struct vt_helper_shared {
	uint64_t magic;
	uint32_t abi;
	uint32_t helper_tid;
	uint64_t file_size;    /* written by the tool when it grows the file */
	uint64_t heartbeat_ns; /* CLOCK_MONOTONIC of the tool's last sign of life */
	uint64_t patience_ns;  /* the helper quits when no sign of life came for this long */
	uint32_t request_seq;  /* futex word: the helper waits for it to change */
	uint32_t done_seq;     /* futex word: the tool waits for it to change */
	uint32_t op;           /* enum vt_helper_op */
	uint32_t status;       /* enum vt_helper_status */
	uint64_t room_needed;
	char why[128];
	struct vt_helper_imports imports;
	union {
		struct vt_torch_walk_args torch_walk;
		struct vt_ask_pytorch_args ask_pytorch;
		struct vt_ask_flight_args ask_flight;
		struct vt_ask_owners_args ask_owners;
		struct vt_ask_jax_args ask_jax;
		struct vt_load_recorder_args load_recorder;
		struct vt_call_recorder_args call_recorder;
		struct vt_ranges_args ranges;
		struct vt_relieve_args relieve;
		struct vt_streams_args streams;
	} args;
	struct vt_cuda_answer cuda;
	struct vt_cuda_pools_answer pools;
	struct vt_torch_walk_answer torch;
	struct vt_ask_python_answer gil; /* of the last request that needed the GIL */
	struct vt_ask_pytorch_answer asked;
	struct vt_ask_flight_answer flight;
	struct vt_ask_owners_answer owners;
	struct vt_ask_jax_answer jax;
	struct vt_recorder_answer recorder;
	struct vt_ranges_answer ranges;
	struct vt_device_limits limits[VT_MAX_CUDA_DEVICES];
	struct vt_relieve_answer relieve;
};

/* Where the room for records starts, in bytes after the head. */
#define VT_HELPER_ROOM_OFFSET ((sizeof(struct vt_helper_shared) + 4095) / 4096 * 4096)

#endif
