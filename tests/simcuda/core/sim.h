/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The simulated device. libcuda.so.1 (driver/) and libcudart.so.N (runtime/) are two thin faces of
 * what is declared here; libsimcuda.so holds the state.
 *
 * Functions return CUresult numbers; cudaError_t uses the same numbers for everything used here.
 * No CUDA header is needed: the types of the ABI are integers and pointers, and the few
 * structures that cross it are written by offset (checked against NVIDIA's headers by abi_check.c).
 */
#ifndef SIM_H
#define SIM_H

#include <stddef.h>
#include <stdint.h>

#include "../simcuda_ctl.h"

enum {
	SIM_OK = 0,
	SIM_EINVAL = 1,
	SIM_ENOMEM = 2,
	SIM_ENOTINIT = 3,
	SIM_EBADDEVICE = 101,
	SIM_EBADCTX = 201,
	SIM_EBADHANDLE = 400,
	SIM_ENOTFOUND = 500,
	SIM_ENOTREADY = 600,
	SIM_EPEERENABLED = 704,
	SIM_EUNSUPPORTED = 801,
};

#define SIM_MAX_DEVICES 16
#define SIM_PAGE (2ull << 20)        /* physical memory comes in 2 MiB pages, as on real devices */
#define SIM_POOL_BLOCK (32ull << 20) /* memory pools grow by this */
#define SIM_DRIVER_VERSION 13020

/* ---- ctl.c: knobs, faults, waiting ---- */

struct sim_config {
	int devices;
	uint64_t mem_bytes;   /* per device */
	uint64_t ctx_bytes;   /* what an active context costs */
	uint64_t other_bytes; /* what "other processes" hold */
	int trace;
};
extern struct sim_config sim_config;

/* Every API function calls this first. Not zero: return that error at once. */
int sim_enter(const char *function);
int sim_hung(int device);
uint64_t sim_now_ns(void);

/*
 * Wait, asleep, while busy(arg) is true. busy may set *until_ns to the time at which it is worth
 * looking again; sim_progress() wakes all that wait.
 */
void sim_wait_while(int (*busy)(void *arg, uint64_t *until_ns), void *arg);
void sim_progress(void);

void sim_count_context(void);
void sim_delay_query(void);
void sim_count_query(int of_capturing);

/* ---- others.c ---- */

/* What other processes hold of a device, and what this one holds, for the others. */
uint64_t sim_others_hold(int device);
/* With those that have this file, too; NULL or "": there is none. */
void sim_share(const char *path);
void sim_others_tell(int device, uint64_t used);
void sim_lock(void);
void sim_unlock(void);

/* ---- cupti.c: callbacks, and the library that the driver loads ---- */

/*
 * A call of the driver, from its beginning to its end; params: its arguments as CUPTI's parameter
 * structs have them.
 */
struct sim_call {
	unsigned cbid; /* CUpti_driver_api_trace_cbid */
	const char *name;
	const void *params;
	uint64_t data; /* the subscriber's */
	uint32_t id;
};

void sim_call_begin(struct sim_call *call, unsigned cbid, const char *name, const void *params);
int sim_call_end(struct sim_call *call, int result); /* returns the result */
int sim_cupti_subscribe(void **handle, void *callback, void *user);
int sim_cupti_unsubscribe(void *handle);
int sim_cupti_enable(uint32_t enable, void *handle, int domain, uint32_t cbid);
int sim_cupti_enable_domain(uint32_t enable, void *handle, int domain);
/* Around cuInit; within it sim_inject() loads what CUDA_INJECTION64_PATH names, once. */
void sim_init_begin(void);
void sim_init_end(void);
void sim_inject(void);

/* ---- device.c ---- */

int sim_init(void); /* cuInit: other driver calls fail before it; the runtime does it by itself */
int sim_ready(void);
int sim_check_device(int device);
void sim_device_name(int device, char *buf, size_t len);
void sim_device_pci(int device, char *buf, size_t len);
void sim_device_uuid(int device, uint8_t uuid[16]);
int sim_device_attr(int attr, int device); /* CUdevice_attribute numbers; 0 when unknown */

/* ---- context.c ---- */

struct sim_ctx;
int sim_ctx_primary_state(int device, unsigned *flags, int *active);
int sim_ctx_primary_retain(int device, struct sim_ctx **ctx);
int sim_ctx_primary_release(int device);
int sim_ctx_primary_reset(int device);
int sim_ctx_primary_flags(int device, unsigned flags);
int sim_ctx_create(int device, unsigned flags, struct sim_ctx **ctx);
int sim_ctx_destroy(struct sim_ctx *ctx);
int sim_ctx_push(struct sim_ctx *ctx);
int sim_ctx_pop(struct sim_ctx **ctx);
int sim_ctx_set(struct sim_ctx *ctx);
struct sim_ctx *sim_ctx_current(void);
int sim_ctx_valid(const struct sim_ctx *ctx);
int sim_ctx_device(const struct sim_ctx *ctx);
unsigned sim_ctx_flags(const struct sim_ctx *ctx);
uint64_t sim_ctx_id(const struct sim_ctx *ctx);
struct sim_ctx *sim_ctx_primary_of(int device); /* NULL when it is not active */
#define SIM_LIMITS 3 /* stack of a thread, FIFO of printf(), heap of malloc() */
int sim_ctx_limit(int device, int limit, size_t *value);
int sim_ctx_set_limit(int device, int limit, size_t value);

/* ---- memory.c ---- */

enum sim_kind {
	SIM_DEVICE = 1, /* cudaMalloc */
	SIM_MANAGED,
	SIM_DATA,     /* a variable of a module */
	SIM_ARRAY,    /* has no address of its own */
	SIM_ASYNC,    /* cudaMallocAsync */
	SIM_GRAPH,    /* the same while a graph is captured */
	SIM_HOST,     /* pinned host memory that we allocated */
	SIM_HOSTREG,  /* the caller's own, registered */
	SIM_RESERVED, /* address space of the VMM calls */
};

struct sim_range {
	uint64_t base, size;
	enum sim_kind kind;
	int device;
	uint64_t id;
	/* small chunk, struct sim_map list (SIM_RESERVED), pool (SIM_ASYNC, SIM_GRAPH) */
	void *owner;
};

/* The caller holds the lock for those that end in _locked. */
int sim_budget_take_locked(int device, uint64_t bytes);
void sim_budget_give_locked(int device, uint64_t bytes);
struct sim_range *sim_range_find_locked(uint64_t addr);
struct sim_range *sim_range_from_locked(uint64_t addr); /* the first that begins there or later */
int sim_range_add_locked(uint64_t base, uint64_t size, enum sim_kind kind, int device, void *owner,
			 struct sim_range **range);
void sim_range_del_locked(struct sim_range *range);

int sim_mem_info(int device, uint64_t *free_bytes, uint64_t *total);
int sim_mem_alloc(int device, uint64_t size, enum sim_kind kind, uint64_t *addr);
int sim_mem_free(uint64_t addr);
int sim_mem_is_device(uint64_t addr);
int sim_host_alloc(uint64_t size, int device, uint64_t *addr);
int sim_host_free(uint64_t addr);
int sim_host_register(uint64_t addr, uint64_t size, int device);
int sim_host_unregister(uint64_t addr);

struct sim_where {                       /* what the driver knows about an address */
	uint64_t base, size;             /* the allocation, or the mapped chunk */
	uint64_t range_base, range_size; /* the same, or the whole reservation */
	enum sim_kind kind;
	int device, mapped;
	uint64_t id;
	uint64_t mapping_base, mapping_size, block; /* the memory behind it, and its number */
	void *pool;
	unsigned handle_types; /* by which it can be shared */
};
int sim_where(uint64_t addr, struct sim_where *where);

/* Copies move no data: a host destination of a device source is zeroed, so that it is defined. */
void sim_copy(void *dst, const void *src, uint64_t size);

/* ---- vmm.c ---- */

struct sim_handle;
int sim_vmm_reserve(uint64_t size, uint64_t align, uint64_t hint, uint64_t *addr);
int sim_vmm_unreserve(uint64_t addr, uint64_t size);
int sim_vmm_create(int device, uint64_t size, const void *prop, struct sim_handle **handle);
int sim_vmm_release(struct sim_handle *handle);
int sim_vmm_map(uint64_t addr, uint64_t size, uint64_t offset, struct sim_handle *handle);
int sim_vmm_unmap(uint64_t addr, uint64_t size);
int sim_vmm_access(uint64_t addr, uint64_t size, unsigned flags);
int sim_vmm_access_get(uint64_t addr, unsigned long long *flags);
int sim_vmm_retain(uint64_t addr, struct sim_handle **handle);
int sim_vmm_prop(struct sim_handle *handle, void *prop);
int sim_vmm_where_locked(struct sim_range *range, uint64_t addr, struct sim_where *where);

/* ---- pool.c ---- */

struct sim_pool;
struct sim_pool *sim_pool_default(int device);
struct sim_pool *sim_pool_current(int device);
void sim_pool_set_current(int device, struct sim_pool *pool);
struct sim_pool *sim_pool_of_graphs(int device);
int sim_pool_device(const struct sim_pool *pool);
uint64_t sim_pool_block(const struct sim_pool *pool, uint64_t addr,
			uint64_t *base); /* its number */
int sim_pool_destroy(struct sim_pool *pool);
uint64_t sim_pool_used_blocks(struct sim_pool *pool);
int sim_pool_valid(const struct sim_pool *pool);
int sim_pool_create(int device, struct sim_pool **pool);
int sim_pool_alloc(struct sim_pool *pool, uint64_t size, uint64_t *addr);
int sim_pool_free(uint64_t addr);
int sim_pool_trim(struct sim_pool *pool, uint64_t keep);
int sim_pool_get(struct sim_pool *pool, int attr, void *value);
int sim_pool_set(struct sim_pool *pool, int attr, const void *value);

/*
 * ---- calls.c: calls of the driver that its subscriber sees, whether made through it or by the
 * runtime ----
 */

int sim_call_mem_alloc(int device, uint64_t size, enum sim_kind kind, uint64_t *addr);
int sim_call_mem_free(uint64_t addr);
int sim_call_host_alloc(uint64_t size, int device, uint64_t *addr);
int sim_call_host_free(uint64_t addr);
int sim_call_pool_alloc(struct sim_pool *pool, uint64_t size, void *stream, uint64_t *addr);
int sim_call_pool_free(uint64_t addr, void *stream);
int sim_call_primary_reset(int device);

/* ---- stream.c ---- */

struct sim_stream;
struct sim_event;
struct sim_graph;
/* NULL, 1 and 2 are the default streams of the device. */
struct sim_stream *sim_stream_get(void *handle, int device);
int sim_stream_create(int device, unsigned flags, int priority, struct sim_stream **stream);
int sim_stream_destroy(struct sim_stream *stream);
int sim_stream_device(const struct sim_stream *stream);
int sim_stream_priority(const struct sim_stream *stream);
uint64_t sim_stream_id(const struct sim_stream *stream); /* no other one of the process has it */
/* As measured on a real one: asked of a stream that captures, it spoils the capture. */
int sim_stream_query(struct sim_stream *stream);
void sim_stream_wait_idle(struct sim_stream *stream);
void sim_device_wait_idle(int device);
void sim_free_waits(int device, int change); /* a thread begins to wait in a free, or ends */
int sim_free_is_waiting(int device);
void sim_stream_work(struct sim_stream *stream);              /* a kernel, a copy, a memset */
void sim_stream_spin(struct sim_stream *stream, uint64_t ns); /* a kernel that takes a while */
int sim_stream_host_fn(struct sim_stream *stream, void (*fn)(void *), void *arg);
int sim_stream_wait_event(struct sim_stream *stream, struct sim_event *event);
/* values.c. compare: CU_STREAM_WAIT_VALUE_... without CU_STREAM_WAIT_VALUE_FLUSH */
int sim_stream_write_value(struct sim_stream *stream, uint64_t addr, uint64_t value,
			   unsigned width);
int sim_stream_wait_value(struct sim_stream *stream, uint64_t addr, uint64_t value, unsigned width,
			  unsigned compare);

int sim_event_create(unsigned flags, int device, struct sim_event **event);
int sim_event_destroy(struct sim_event *event);
int sim_event_record(struct sim_event *event, struct sim_stream *stream);
int sim_event_record_device(struct sim_event *event, int device);
int sim_event_query(struct sim_event *event);
int sim_event_wait(struct sim_event *event);
int sim_event_elapsed(struct sim_event *start, struct sim_event *end, float *ms);

/* ---- capture.c ---- */

struct sim_capture {             /* part of a stream */
	struct sim_graph *graph; /* NULL: not capturing */
	uint64_t id;
};
enum sim_capture_mode { SIM_CAPTURE_GLOBAL, SIM_CAPTURE_THREAD, SIM_CAPTURE_RELAXED };
struct sim_capture *sim_stream_capture(struct sim_stream *stream);
void sim_streams_leave_capture(const struct sim_graph *graph); /* all of its streams */
int sim_capture_begin(struct sim_stream *stream, struct sim_graph *graph, int mode);
int sim_capture_end(struct sim_stream *stream, struct sim_graph **graph);
void sim_capture_node(struct sim_stream *stream);
void sim_capture_spoil(struct sim_graph *graph);
void sim_capture_exchange_mode(int *mode); /* this thread's */
/*
 * At the entry of what is "potentially unsafe": 900 where it is forbidden to this thread, and then
 * the captures that forbid it are spoilt.
 */
int sim_capture_unsafe(void);
int sim_graph_valid(const struct sim_graph *graph);
size_t sim_graph_nodes(const struct sim_graph *graph);
int sim_graph_create(struct sim_graph **graph);
int sim_graph_destroy(struct sim_graph *graph);
int sim_graph_instantiate(struct sim_graph *graph, struct sim_graph **exec);

/* ---- errors.c ---- */

const char *sim_error_name(int error);    /* the driver's spelling: CUDA_ERROR_... */
const char *sim_error_name_rt(int error); /* the runtime's: cudaError... */
const char *sim_error_text(int error);

#endif
