/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the recorder keeps of launches: for each stream the last ones, in a ring. Written on the
 * launching threads, read from outside (or from a core) while that goes on.
 *
 * A launch is written before the function is called and marked when it has returned. A stream knows
 * up to which number all of its launches have ended: a call that waits for the stream returned,
 * and began when no thread was inside a launch on it. So each launch is known to have ended, or may
 * still run; nothing in between is guessed.
 */
#ifndef VRAMTAP_LAUNCHES_H
#define VRAMTAP_LAUNCHES_H

#include <assert.h> /* static_assert, in C++ too */
#include <stdint.h>

#define VT_LAUNCH_STREAMS 256 /* a power of 2 */
/*
 * Launches kept for a stream, a power of 2. A stream takes about 1,024 launches behind a kernel
 * that does not end before the next one blocks: that kernel must still be there then.
 */
#define VT_LAUNCH_RING 2048

enum vt_launch_kind {
	VT_LAUNCH_STUB = 1,   /* what: address of the host's function that stands for the kernel */
	VT_LAUNCH_HANDLE = 2, /* what: CUfunction or CUkernel */
	VT_LAUNCH_GRAPH = 3,  /* what: the executable graph */
	VT_LAUNCH_HOST = 4,   /* what: address of a host function */
	/*
	 * what: address; grid[0], grid[1]: the value; block[0]: enum vt_launch_compare, block[1]:
	 * its bits, 32 or 64
	 */
	VT_LAUNCH_WAIT_VALUE = 5,
	VT_LAUNCH_WAIT_EVENT = 6,   /* what: the event; also the next: */
	VT_LAUNCH_RECORD_EVENT = 7, /* it waits for nothing itself */
	VT_LAUNCH_WRITE_VALUE = 8,  /* the same; as a wait, but for block[0] */
	VT_N_LAUNCH_KINDS
};

/* CU_STREAM_WAIT_VALUE_...: what is there, and the value. */
enum vt_launch_compare {
	VT_COMPARE_GEQ = 0, /* there - value >= 0, as signed integers: cyclically */
	VT_COMPARE_EQ = 1,
	VT_COMPARE_AND = 2, /* there & value != 0 */
	VT_COMPARE_NOR = 3, /* ~(there | value) != 0 */
};

enum vt_launch_state {
	VT_LAUNCH_CALLING = 0, /* the call has not returned */
	VT_LAUNCH_SUBMITTED = 1,
	VT_LAUNCH_FAILED = 2, /* the call returned an error: nothing was launched */
};
#define VT_LAUNCH_STATE_BITS 2

/* Into a graph, because the stream was capturing: it has not run. */
#define VT_LAUNCH_CAPTURED 1

struct vt_recorder_launch {
	/* number in its stream, from 1, << 2 | state; number n is at (n - 1) % VT_LAUNCH_RING */
	uint64_t number_state;
	uint64_t time_ns; /* CLOCK_MONOTONIC_COARSE */
	uint64_t what;
	uint32_t grid[3];
	uint16_t block[3];
	uint8_t kind; /* enum vt_launch_kind */
	uint8_t flags;
	uint32_t tid;
	uint32_t stack;  /* index in the table of stacks: the innermost Python frames */
	uint32_t name;   /* offset + 1 in the names, NUL-terminated; 0: none */
	uint32_t shared; /* bytes of dynamic shared memory */
	uint32_t check;  /* vt_recorder_launch_check() */
};

static_assert(sizeof(struct vt_recorder_launch) == 64, "one line of the cache");

static inline uint64_t vt_recorder_launch_mix(uint64_t sum, uint64_t word)
{
	sum ^= word;
	return (sum << 23 | sum >> 41) + sum * 5;
}

/* Over everything but the state, which changes later. */
static inline uint32_t vt_recorder_launch_check(const struct vt_recorder_launch *l)
{
	uint64_t a = l->number_state >> VT_LAUNCH_STATE_BITS, b = l->what;

	a = vt_recorder_launch_mix(a, l->time_ns);
	b = vt_recorder_launch_mix(b, (uint64_t)l->grid[0] << 32 | l->grid[1]);
	a = vt_recorder_launch_mix(a,
				   (uint64_t)l->grid[2] << 32 | (uint32_t)l->kind << 8 | l->flags);
	b = vt_recorder_launch_mix(b, (uint64_t)l->block[0] << 48 | (uint64_t)l->block[1] << 32 |
					      (uint64_t)l->block[2] << 16);
	a = vt_recorder_launch_mix(a, (uint64_t)l->tid << 32 | l->stack);
	b = vt_recorder_launch_mix(b, (uint64_t)l->name << 32 | l->shared);
	a = (a ^ (b << 31 | b >> 33)) * UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(a >> 32);
}

enum vt_launch_capture { VT_CAPTURE_UNKNOWN = 0, VT_CAPTURE_NOT = 1, VT_CAPTURE_ACTIVE = 2 };

struct vt_recorder_launch_stream {
	uint64_t key;    /* of the hash table; 0: unused */
	uint64_t handle; /* 0: the legacy default stream; 2: the default stream of a thread */
	uint64_t ring;   /* struct vt_recorder_launch[VT_LAUNCH_RING]; 0: there was no room */
	/* low 48 bits: number of the last launch; above: threads that are inside a launch */
	uint64_t launches_open;
	uint64_t done; /* all up to this number have ended */
	uint64_t context;
	uint32_t tid;    /* of handle 2 */
	int16_t device;  /* -1 unknown */
	uint8_t ready;   /* handle, context, device and tid are filled in */
	uint8_t capture; /* enum vt_launch_capture, when it was asked last */
	uint64_t pad;
};

#define VT_LAUNCH_OPEN (UINT64_C(1) << 48)

static inline uint64_t vt_recorder_stream_launches(const struct vt_recorder_launch_stream *s)
{
	return s->launches_open & (VT_LAUNCH_OPEN - 1);
}

static_assert(sizeof(struct vt_recorder_launch_stream) == 64, "one line of the cache");

struct vt_recorder_launches {
	uint64_t streams; /* struct vt_recorder_launch_stream[VT_LAUNCH_STREAMS], open addressing */
	uint64_t names;   /* char[names_room]; names_n are used */
	uint32_t names_room, names_n;
	uint32_t n_words;  /* changed words through which launches are seen */
	uint32_t n_left;   /* words that could not be changed */
	uint64_t lost;     /* launches without a place in the table of streams */
	uint32_t captures; /* stream captures known to be underway */
	uint32_t epoch;    /* raised when a module is unloaded: handles may mean other kernels */
};

#endif
