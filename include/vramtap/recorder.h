/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface between the tool and the recorder. The recorder is a library that the tool makes
 * the target load (with dlopen, because C++ exceptions must be able to pass through its frames). It
 * stays loaded, and is idle when it is off. While it is on, PyTorch's allocator is entered through
 * a copy of its virtual table, and the driver's calls are seen through CUPTI. Each allocation
 * leaves a record with the backtrace of its thread. The recorder sends no messages: the tool reads
 * the records from outside, without stopping a thread or running code, also from a core.
 *
 * The tool finds the recorder by the name of its mapping, and in it the exported object
 * vt_recorder. Its first part (struct vt_recorder_head up to and including the hooks) is the same
 * in all versions, so any later vramtap can take the hooks out.
 *
 * To the tool, everything it reads here is hostile: it checks bounds, looks ids up, and follows
 * nothing for ever.
 */
#ifndef VRAMTAP_RECORDER_H
#define VRAMTAP_RECORDER_H

#include <stdbool.h>
#include <stdint.h>

#include "vramtap/launches.h"

#define VT_RECORDER_MAGIC UINT64_C(0x4443455241525655) /* "UVRARECD" */
#define VT_RECORDER_ABI 2
/* of the memory file it is loaded from, + "-" + 16 digits of its build id */
#define VT_RECORDER_FILE_NAME "vramtap-recorder"

/* ---- hooks ---- */

/*
 * A word of the target that the recorder changed: pointers only, never code. To take it out,
 * `original` is written back if the word is still `ours`.
 */
struct vt_recorder_hook {
	uint64_t where; /* 0: unused */
	uint64_t original;
	uint64_t ours;
	uint32_t kind; /* enum vt_recorder_hook_kind */
	uint32_t pad;
};

enum vt_recorder_hook_kind {
	VT_HOOK_VTABLE = 1, /* the word at `where` is the vptr of PyTorch's allocator object */
	VT_HOOK_GOT = 2,    /* an entry of a library's global offset table */
};

#define VT_RECORDER_MAX_HOOKS 512

enum vt_recorder_state_value {
	VT_RECORDER_OFF = 0,
	VT_RECORDER_ON = 1,
};

/* ---- frames ---- */

/*
 * A recorded stack is an array of 64-bit words: n_python Python frames, then n_native return
 * addresses, each innermost first. A Python frame is one word or two:
 *	code << 16 | lasti         code: index of the code object in the table of code objects;
 *	                           lasti: byte offset / 2, below 0xffff
 *	code << 16 | 0xffff, lasti a frame with a large or odd offset: the second word is the byte
 *	                           offset itself
 * where lasti is what PyFrame_GetLasti() returns (-1, not started: second form with UINT64_MAX).
 */
#define VT_RECORDER_LASTI_WIDE 0xffff

/*
 * A code object as it was when it was first seen. It may be freed, and its memory reused for
 * another one: it is still the same object when all of these words are the same. They are words of
 * the object: pointers to co_filename, co_name, co_qualname (co_name before 3.11) and the line
 * table; co_firstlineno.
 */
struct vt_recorder_code {
	uint64_t object;
	uint64_t filename, name, qualname, linetable;
	uint64_t firstlineno;
	/*
	 * Other objects may reuse all of these addresses. So there is one more word: from 3.12 on
	 * co_version, which differs for each code object; before that, vt_recorder_text() of the
	 * name and of the file's name. 0: not known.
	 */
	uint64_t version;
};

/*
 * Distinguishes short texts (compact ASCII str): the length and the last 8 bytes, as a
 * little-endian number.
 */
static inline uint64_t vt_recorder_text(uint64_t length, uint64_t last_bytes)
{
	return (last_bytes ^ length << 56) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t vt_recorder_texts(uint64_t name, uint64_t filename)
{
	return (name << 23 | name >> 41) ^ filename;
}

/* A stack in the table of stacks. Its words follow each other in the array of words. */
struct vt_recorder_stack {
	uint64_t hash;
	uint64_t first;          /* index of its first word in the array of words */
	uint16_t n_python;       /* frames */
	uint16_t n_words_python; /* words they take */
	uint16_t n_native;       /* frames and words */
	uint16_t flags;          /* enum vt_recorder_stack_flags */
};

enum vt_recorder_stack_flags {
	VT_STACK_PYTHON_CUT = 1 << 0, /* there were more frames */
	VT_STACK_NATIVE_CUT = 1 << 1,
	/*
	 * unwinding ended before the thread's outermost frame: no call frame information, unknown
	 * stack
	 */
	VT_STACK_NATIVE_LOST = 1 << 2,
	/* the thread has no Python thread state, or Python frames were not asked for */
	VT_STACK_NO_PYTHON = 1 << 3,
	/*
	 * some frame lacked call frame information and the frame pointer was followed: frames may
	 * be missing
	 */
	VT_STACK_NATIVE_GUESS = 1 << 4,
};

#define VT_RECORDER_MAX_PYTHON 128 /* frames of a stack; the innermost are kept */
#define VT_RECORDER_MAX_NATIVE 128

#define VT_RECORDER_NO_STACK 0 /* index 0 of the table of stacks: no room, or not wanted */

/* An array in the target's memory that only grows (until the recorder is switched off). */
struct vt_recorder_array {
	uint64_t addr; /* fixed while the recorder is on */
	uint64_t n;    /* elements that are valid; grows, written after the elements */
	uint64_t room; /* elements that there is memory for */
	uint64_t max;  /* elements that there is address space for */
};

/* ---- records ---- */

/*
 * A live block of PyTorch's allocator, or a formerly live one: frees are not seen; the next block
 * at that address takes its place.
 */
struct vt_recorder_block {
	uint64_t addr;
	uint64_t size; /* bytes asked for */
	/*
	 * VT_RECORDER_TICK_NS since start_ns, modulo 2^32: they come round after 208 days. Coarse
	 * clock: up to 10 ms late.
	 */
	uint32_t time;
	uint32_t serial; /* time and serial of a shard's records are never the same twice */
	uint32_t stack;  /* index in the table of stacks; VT_RECORDER_NO_STACK */
	uint32_t tid;    /* in the target's own pid namespace */
};

/*
 * The same in 24 bytes, as it is in a table. Written under the shard's lock. The check reveals a
 * record that was read while it was written. The stamp (time, then serial) distinguishes one record
 * that was read twice from two records of the same address: each is larger than the one before,
 * but for its high bits, which are not stored.
 *
 * What fits: PyTorch's blocks are at multiples of 512, CUDA's addresses below 2^48; 16 million
 * stacks; 4 TiB (larger: as if of 4 TiB less a byte); the kernel's largest thread id is below 2^22.
 */
struct vt_recorder_packed {
	uint64_t addr_stack;  /* from the high end: address / 256, 40 bits, 0: empty; stack, 24 */
	uint64_t size_tid;    /* size, 42; thread id, 22 */
	uint64_t stamp_check; /* stamp, 48; check, 16 */
};

#define VT_RECORDER_TICK_NS (UINT64_C(1) << 22)
#define VT_RECORDER_SIZE_BITS 48 /* no allocation is larger */
#define VT_RECORDER_ADDR_UNIT 256
#define VT_RECORDER_STACK_BITS 24
#define VT_RECORDER_TID_BITS 22
#define VT_RECORDER_CHECK_BITS 16
#define VT_RECORDER_SERIAL_BITS 16
#define VT_RECORDER_MAX_PACKED ((UINT64_C(1) << (64 - VT_RECORDER_TID_BITS)) - 1)

static inline uint64_t vt_recorder_low(uint64_t word, unsigned int bits)
{
	return word & ((UINT64_C(1) << bits) - 1);
}

static inline bool vt_recorder_can_pack(uint64_t addr)
{
	return addr && !(addr % VT_RECORDER_ADDR_UNIT) && !(addr >> 48);
}

static inline uint16_t vt_recorder_packed_check(const struct vt_recorder_packed *packed)
{
	uint64_t h = packed->addr_stack * UINT64_C(0x9e3779b97f4a7c15) ^
		     packed->size_tid * UINT64_C(0xc2b2ae3d27d4eb4f) ^
		     (packed->stamp_check >> VT_RECORDER_CHECK_BITS) * UINT64_C(0x165667b19e3779f9);

	h ^= h >> 32;
	return (uint16_t)(h ^ h >> 16);
}

static inline uint64_t vt_recorder_packed_addr(const struct vt_recorder_packed *packed)
{
	return (packed->addr_stack >> VT_RECORDER_STACK_BITS) * VT_RECORDER_ADDR_UNIT;
}

static inline uint64_t vt_recorder_packed_size(const struct vt_recorder_packed *packed)
{
	return packed->size_tid >> VT_RECORDER_TID_BITS;
}

static inline struct vt_recorder_packed vt_recorder_pack(const struct vt_recorder_block *block)
{
	uint64_t size = block->size < VT_RECORDER_MAX_PACKED ? block->size : VT_RECORDER_MAX_PACKED;
	uint64_t stamp = (uint64_t)block->time << VT_RECORDER_SERIAL_BITS |
			 vt_recorder_low(block->serial, VT_RECORDER_SERIAL_BITS);
	struct vt_recorder_packed packed = {
		.addr_stack = block->addr / VT_RECORDER_ADDR_UNIT << VT_RECORDER_STACK_BITS |
			      vt_recorder_low(block->stack, VT_RECORDER_STACK_BITS),
		.size_tid = size << VT_RECORDER_TID_BITS |
			    vt_recorder_low(block->tid, VT_RECORDER_TID_BITS),
		.stamp_check = stamp << VT_RECORDER_CHECK_BITS,
	};

	packed.stamp_check |= vt_recorder_packed_check(&packed);
	return packed;
}

static inline bool vt_recorder_is_whole(const struct vt_recorder_packed *packed)
{
	return vt_recorder_low(packed->stamp_check, VT_RECORDER_CHECK_BITS) ==
	       vt_recorder_packed_check(packed);
}

static inline struct vt_recorder_block vt_recorder_unpack(const struct vt_recorder_packed *packed)
{
	uint64_t stamp = packed->stamp_check >> VT_RECORDER_CHECK_BITS;

	return (struct vt_recorder_block){
		.addr = vt_recorder_packed_addr(packed),
		.size = vt_recorder_packed_size(packed),
		.time = (uint32_t)(stamp >> VT_RECORDER_SERIAL_BITS),
		.serial = (uint32_t)vt_recorder_low(stamp, VT_RECORDER_SERIAL_BITS),
		.stack = (uint32_t)vt_recorder_low(packed->addr_stack, VT_RECORDER_STACK_BITS),
		.tid = (uint32_t)vt_recorder_low(packed->size_tid, VT_RECORDER_TID_BITS),
	};
}

static inline uint16_t vt_recorder_block_check(uint64_t addr, uint64_t size, uint32_t time,
					       uint32_t serial, uint32_t stack, uint32_t tid)
{
	uint64_t h = addr * UINT64_C(0x9e3779b97f4a7c15) ^ size * UINT64_C(0xc2b2ae3d27d4eb4f);

	h ^= ((uint64_t)time << 32 | serial) * UINT64_C(0x165667b19e3779f9);
	h ^= ((uint64_t)stack << 32 | tid) * UINT64_C(0xd6e8feb86659fd93);
	h ^= h >> 32;
	return (uint16_t)(h ^ h >> 16);
}

/*
 * One of the hash tables of blocks. The shard of an address is the low bits of vt_recorder_hash();
 * in it open addressing, linear probing from ((hash >> 32) * capacity) >> 32 onwards, wrapping. A
 * new record goes to an empty slot or replaces the record of its address; anything else that moves
 * records (a larger table, a removal) raises `resizes` before and after.
 */
struct vt_recorder_shard {
	uint32_t lock; /* tid of the thread that has it, 0 none; VT_RECORDER_LOCK_STUCK */
	/* odd while records move; a copy is whole if it was even and did not change */
	uint32_t resizes;
	uint64_t table; /* struct vt_recorder_packed[capacity]; 0: none */
	uint32_t capacity;
	uint32_t count;
	uint64_t stamp; /* of the last record: ticks since start_ns, all of them, then the serial */
	uint64_t allocations; /* seen here, recorded or not */
	uint64_t evicted;     /* records dropped for lack of room */
	uint64_t doomed; /* address whose record is invalid, or VT_RECORDER_ALL_DOOMED; 0 none */
	uint64_t sample; /* as sample_now, for the records of this shard */
};

#define VT_RECORDER_SHARDS 64 /* 64 bytes each */
/* added to a lock whose owner did not run for long: no thread waits for it */
#define VT_RECORDER_LOCK_STUCK UINT32_C(0x80000000)
#define VT_RECORDER_ALL_DOOMED 1

static inline uint64_t vt_recorder_hash(uint64_t addr)
{
	addr = (addr ^ addr >> 32) * UINT64_C(0x9e3779b97f4a7c15);
	addr = (addr ^ addr >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	return addr ^ addr >> 32;
}

/* Which driver function allocated. */
enum vt_recorder_driver_kind {
	VT_DRIVER_DEVICE = 1,  /* cuMemAlloc, cuMemAllocPitch */
	VT_DRIVER_ASYNC = 2,   /* cuMemAllocAsync, cuMemAllocFromPoolAsync */
	VT_DRIVER_VMM = 3,     /* cuMemMap: mapped device memory; addr is the virtual address */
	VT_DRIVER_MANAGED = 4, /* cuMemAllocManaged */
	VT_DRIVER_HOST = 5,    /* cuMemAllocHost, cuMemHostAlloc; not cuMemHostRegister */
};

/*
 * A live allocation of the driver. This includes those of PyTorch's allocator (its segments), which
 * the tool recognises by their address.
 */
struct vt_recorder_driver_block {
	uint64_t addr; /* 0: empty slot */
	uint64_t size;
	uint64_t stream;
	uint32_t time; /* as in struct vt_recorder_block */
	uint32_t serial;
	uint32_t stack;
	uint32_t tid;
	int16_t device; /* -1 unknown */
	uint16_t kind;  /* enum vt_recorder_driver_kind */
	uint32_t check; /* vt_recorder_block_check(addr, size, time, serial, stack, tid) */
};

/* ---- out of memory ---- */

enum vt_recorder_oom_kind {
	VT_OOM_PYTORCH = 1, /* c10::OutOfMemoryError passes through an allocator's entry */
	/* a driver call outside PyTorch's allocator returned CUDA_ERROR_OUT_OF_MEMORY */
	VT_OOM_DRIVER = 2,
};

struct vt_recorder_oom {
	uint32_t seq; /* of this event, from 1; written last */
	uint32_t kind;
	uint64_t requested;               /* bytes */
	uint64_t time_ns;                 /* CLOCK_MONOTONIC */
	uint64_t free_bytes, total_bytes; /* of the current device, then; 0 0: not queried */
	uint64_t waited_ns; /* how long the thread waited, 1: not at all; 0: it still waits */
	uint32_t stack;
	uint32_t tid;
	int32_t device;  /* -1 unknown */
	int32_t error;   /* of the driver call */
	uint64_t thrown; /* the exception object: there while the thread waits; 0: none */
};

/*
 * c10::Error: the virtual table, then its message as std::string, whose first word is the address
 * of a NUL-terminated text in both of libstdc++'s layouts.
 */
#define VT_OOM_THROWN_TEXT 8

#define VT_RECORDER_MAX_OOMS 16 /* the last ones: event seq is at (seq - 1) % 16 */

/*
 * A thread that waits for the watcher sleeps so long each time. This length identifies the thread,
 * which holds no lock.
 */
#define VT_RECORDER_WAIT_NS 2000003

/*
 * The trap: while a watcher gives signs of life, a thread that runs out of memory waits for it.
 * Words that the tool writes are marked "tool:".
 */
struct vt_recorder_trap {
	uint32_t armed;     /* tool: 1 a thread that runs out of memory waits for the watcher */
	uint32_t heartbeat; /* tool: changes at least every 100 ms while the watcher lives */
	uint32_t raised;    /* seq of the last event */
	uint32_t taken;     /* tool: seq of the last event that the watcher has dealt with */
	/* tool: how long a thread waits at most; not at all after 500 ms without a heartbeat */
	uint32_t patience_ms;
	uint32_t pad;
	struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS];
};

/* ---- control ---- */

/*
 * Where CPython keeps the data about frames: offsets in bytes, of walk/python/layout.h;
 * VT_RECORDER_NONE: there is none.
 */
#define VT_RECORDER_NONE UINT32_MAX
struct vt_recorder_python {
	/* address of PyGILState_GetThisThreadState; 0: no Python frames */
	uint64_t get_this_tstate;
	uint64_t is_finalizing; /* of Py_IsFinalizing or, before 3.13, _Py_IsFinalizing */
	uint64_t code_type;     /* of PyCode_Type */
	uint32_t tstate_frame, tstate_cframe, cframe_frame; /* tstate_frame, or the other two */
	uint32_t frame_previous, frame_code, frame_instr, frame_lasti, frame_owner;
	uint32_t owner_generator;
	uint32_t owner_shim; /* frames whose owner is this or above are not Python functions */
	uint32_t code_tags;  /* bits in frame_code outside the address; or VT_RECORDER_NONE */
	uint32_t lasti_scale;
	uint32_t code_filename, code_name, code_qualname, code_linetable, code_firstlineno,
		code_bytecode;
	uint32_t code_firsttraceable; /* 3.11 on; in units of two bytes */
	uint32_t code_version;        /* 3.12 on */
	uint32_t object_type;
	uint32_t str_length, str_state, str_data; /* data: of a compact ASCII str */
	uint32_t str_is_ascii;                    /* bits of state that such a str has */
	uint32_t frame_tlbc, code_tlbc;           /* free-threaded 3.14 */
	uint32_t pad;
};

/*
 * Functions of the target that the recorder may call, and facts about its C library. 0: not there.
 */
struct vt_recorder_imports {
	uint64_t clock_gettime;
	uint64_t dl_iterate_phdr;
	uint64_t cuMemGetInfo;
	uint64_t cuCtxGetDevice;
	uint64_t cuCtxGetCurrent;
	uint64_t cuStreamIsCapturing;
	uint64_t cuFuncGetName, cuKernelGetName; /* since CUDA 12.3 */
	uint64_t unwind_get_cfa;                 /* _Unwind_GetCFA of libgcc_s */
	uint64_t errno_location;                 /* __errno_location of libc */
	/* of the main thread, as it is now: it may grow downwards */
	uint64_t main_stack_low, main_stack_high;
	uint64_t pthread_tid; /* offset of the thread's id from its thread pointer */
};

/* The entries of PyTorch's virtual table that allocate, by their parameters and result. */
enum vt_recorder_slot {
	/* DataPtr allocate(size_t): returned in memory, its first word is the address */
	VT_SLOT_ALLOCATE,
	VT_SLOT_RAW_ALLOC,             /* void *raw_alloc(size_t) */
	VT_SLOT_RAW_ALLOC_WITH_STREAM, /* void *raw_alloc_with_stream(size_t, cudaStream_t) */
	/* DataPtr allocateWithAddress(size_t, void *), of 2.13 on: as allocate */
	VT_SLOT_ALLOCATE_WITH_ADDRESS,
	VT_N_SLOTS
};
#define VT_RECORDER_MAX_VTABLE 128 /* copied words, starting two before the vptr's target */

struct vt_recorder_torch {
	/* address of the allocator object, whose first word is the vptr; 0: none */
	uint64_t object;
	uint64_t vptr;    /* that the tool saw there */
	uint32_t n_words; /* of the table from vptr on */
	/* index from vptr, VT_RECORDER_NONE: this release has no such entry */
	uint32_t slots[VT_N_SLOTS];
};

/* CUPTI's functions in the target, 0 all: not there (then the GOT entries, if any, are used). */
struct vt_recorder_cupti {
	uint64_t cuptiSubscribe;
	uint64_t cuptiUnsubscribe;
	uint64_t cuptiEnableCallback;
	uint64_t dlopen; /* for VT_RECORD_LOAD_CUPTI: of the C library, and the file to load */
	char path[256];
};

/*
 * A global offset table entry to patch, and the function of the driver or the runtime that it
 * stands for.
 */
struct vt_recorder_got {
	uint64_t where;
	uint64_t value;    /* that the tool saw there */
	uint64_t original; /* what to call: value, or the future target of a lazy binding */
	/* enum vt_recorder_call of recorder_calls.h: it allocates, frees or launches */
	uint32_t function;
	uint32_t pad;
};

struct vt_recorder_config {
	uint32_t python;    /* take Python frames */
	uint32_t native;    /* take return addresses */
	uint32_t driver;    /* record the driver's allocations too */
	uint32_t use_cupti; /* for the tool: whether CUPTI was asked for */
	uint32_t launches;  /* follow launches */
	uint32_t pad;
	uint64_t max_memory; /* bytes, of everything that the recorder maps */
	/* 0: every allocation; else one per so many bytes, and all larger ones */
	uint64_t sample_bytes;
	struct vt_recorder_imports imports;
	struct vt_recorder_python python_layout;
	struct vt_recorder_torch torch;
	struct vt_recorder_cupti cupti;
	uint64_t got; /* struct vt_recorder_got[n_got], in memory that lives during the call */
	uint64_t n_got;
};

enum vt_recorder_op {
	/* arg: struct vt_recorder_config; VT_RECORDER_BUSY when it is on already */
	VT_RECORD_ON = 1,
	VT_RECORD_OFF = 2, /* arg NULL; hooks out, tables freed, once no thread can use them */
	/* arg: struct vt_recorder_config: hooks PyTorch too, if it was loaded after VT_RECORD_ON */
	VT_RECORD_TORCH = 3,
	/* arg: struct vt_recorder_config: makes the loader load cupti.path; records nothing yet */
	VT_RECORD_LOAD_CUPTI = 4,
	/*
	 * arg: struct vt_recorder_config: the driver's calls too, if VT_RECORD_ON could not see
	 * them
	 */
	VT_RECORD_DRIVER = 5,
	/*
	 * arg: struct vt_recorder_config: launches through more words, of libraries that were
	 * loaded after VT_RECORD_ON
	 */
	VT_RECORD_LAUNCHES = 6,
};

enum vt_recorder_status {
	VT_RECORDER_OK = 0,
	VT_RECORDER_BUSY = 1,    /* on already; or off already */
	VT_RECORDER_CHANGED = 2, /* the vptr is not what the tool saw: nothing was done */
	VT_RECORDER_NO_MEMORY = 3,
	VT_RECORDER_BAD = 4, /* arguments make no sense */
	/*
	 * a thread is stopped inside the recorder: hooks are out, memory is kept; another off, or
	 * on, tries again
	 */
	VT_RECORDER_IN_USE = 5,
	VT_RECORDER_OLD_KERNEL = 6, /* on: no MADV_WIPEONFORK (Linux 4.14) */
};

enum vt_recorder_driver_method {
	VT_DRIVER_NOT = 0, /* not recorded */
	VT_DRIVER_CUPTI = 1,
	VT_DRIVER_GOT = 2,
};

/*
 * vt_recorder, exported by the library. Written by the recorder (the trap: by the tool as well).
 */
struct vt_recorder_head {
	uint64_t magic;
	uint32_t abi;
	uint32_t size;  /* of struct vt_recorder_head */
	uint32_t state; /* enum vt_recorder_state_value: hooks are in */
	uint32_t n_hooks;
	struct vt_recorder_hook hooks[VT_RECORDER_MAX_HOOKS];
	/* up to here the same in all versions */
	uint32_t python, native; /* as configured */
	uint32_t driver_method;  /* enum vt_recorder_driver_method */
	int32_t cupti_error;     /* CUptiResult of the failure: 39 another subscriber; 0 none */
	uint32_t generation;     /* how often it was switched on */
	uint32_t pad;
	/*
	 * address of a uint32_t: 1 while it is on; 0 in a child of the process that switched it on,
	 * where nothing is recorded
	 */
	uint64_t live;
	uint64_t start_ns; /* CLOCK_MONOTONIC when it was switched on */
	uint64_t max_memory;
	uint64_t memory;       /* bytes mapped now */
	uint64_t sample_bytes; /* as configured */
	uint64_t sample_now;   /* raised for lack of room; 0: every allocation */
	struct vt_recorder_config config;
	/* counters; since it was switched on */
	uint64_t driver_allocations, driver_frees;
	/*
	 * PyTorch's allocations without a record for another reason than sampling; not counted in
	 * their shard
	 */
	uint64_t lost;
	uint64_t driver_lost;    /* allocations of the driver for which there was no room */
	uint64_t stacks_dropped; /* records whose stack found no room */
	/* tables */
	struct vt_recorder_array codes;  /* struct vt_recorder_code */
	struct vt_recorder_array stacks; /* struct vt_recorder_stack; [0] is empty */
	struct vt_recorder_array words;  /* uint64_t */
	struct vt_recorder_shard shards[VT_RECORDER_SHARDS];
	struct {
		uint32_t lock, serial;
		uint64_t table; /* struct vt_recorder_driver_block[capacity] */
		uint32_t capacity, count;
		uint32_t resizes, pad;
	} driver;
	struct vt_recorder_trap trap;
	struct vt_recorder_launches launches;
};

/*
 * How many allocations returned from PyTorch's allocator since the recorder was switched on,
 * recorded or not.
 */
static inline uint64_t vt_recorder_torch_allocations(const struct vt_recorder_head *head)
{
	uint64_t n = head->lost;

	for (unsigned int i = 0; i < VT_RECORDER_SHARDS; i++)
		n += head->shards[i].allocations;
	return n;
}

/*
 * The library's only entry for the tool, which is the entry point in its ELF header; runs on the
 * helper's thread. Returns enum vt_recorder_status.
 */
typedef uint32_t vt_recorder_control_fn(uint32_t op, void *arg);

#endif
