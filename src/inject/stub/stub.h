/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stub: about 1.5 KiB of constant code that a borrowed thread of the target runs. This file
 * defines what the stub, its assembler part and the tool share.
 *
 * The stub uses two pieces of memory. The block, on the borrowed thread's own stack below what the
 * thread uses, holds every register and all parameters: once the thread was sent to the stub, it
 * needs nothing else from us. The region is private memory that the stub maps for itself: the
 * control page (through which the tool and the helper's thread communicate until the shared file is
 * mapped), the area for extended state and a scratch stack.
 */
#ifndef VT_INJECT_STUB_STUB_H
#define VT_INJECT_STUB_STUB_H

#include "inject/arch/frame.h"

/* Entries, in bytes from the start of the stub. */
#define VT_STUB_BORROWED 0
#define VT_STUB_THREAD 16

/* The region. The scratch stack is the rest above: 188 KiB; only touched pages cost memory. */
#define VT_REGION_SIZE 0x40000
#define VT_REGION_XSAVE 0x1000
#define VT_XSAVE_MAX 0xc000
/* top of the 16 KiB stack of the thread that maps the file, above the XSAVE area */
#define VT_REGION_FILE_STACK 0x11000

/* For the assembler: offsets in struct vt_stub_block and struct vt_stub_control. */
#define VT_BLOCK_REGION VT_FRAME_SIZE
#define VT_BLOCK_BLOCKED_MASK (VT_FRAME_SIZE + 8)
#define VT_BLOCK_RESTART (VT_FRAME_SIZE + 24)
#define VT_CONTROL_BORROWER_DONE 16
#define VT_CONTROL_FILE_BUSY 32

/*
 * CLONE_VM | CLONE_FS | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_CHILD_CLEARTID; not
 * CLONE_FILES
 */
#define VT_FILE_THREAD_FLAGS 0x250b00

#ifndef __ASSEMBLER__
#include <stddef.h>
#include <stdint.h>

enum vt_stub_state {
	VT_STUB_EMPTY = 0,
	VT_STUB_READY = 1,   /* fd of the thread file_tid is the memory file to fill */
	VT_STUB_RUNNING = 2, /* everything is mapped, the library is entered */
	VT_STUB_NO_FILE = 3, /* memfd_create, or starting the thread for it, failed: error */
	VT_STUB_NO_MAP = 4,  /* mmap failed: error */
	VT_STUB_GAVE_UP = 5, /* no command came within patience_ns */
	VT_STUB_MAPPED = 6,  /* everything is mapped, the file's thread is about to end */
};

enum vt_stub_command {
	VT_STUB_WAIT = 0,
	VT_STUB_GO = 1,
	VT_STUB_CLOSED = 2, /* by the stub: a later GO is ignored; by the tool: no GO comes */
	VT_STUB_SEEN = 3,   /* the tool has read the reason of a failure */
};

/* One mapping of the memory file; size 0: none. */
struct vt_stub_piece {
	uint64_t addr;
	uint64_t size;
	uint64_t offset;
	uint32_t prot;
	uint32_t flags;
};

enum { VT_PIECE_TEXT, VT_PIECE_DATA, VT_PIECE_SESSION, VT_N_PIECES };

struct vt_stub_control {
	uint64_t nonce; /* distinguishes this session's page from other data at that address */
	uint32_t state;
	uint32_t command;
	uint32_t borrower_done; /* the borrowed thread has left the region */
	int32_t fd;
	int32_t error;      /* positive errno, see state */
	int32_t file_tid;   /* the thread that has fd, in the target's pid namespace */
	uint32_t file_busy; /* the kernel clears it when that thread has ended and left its stack */
	uint64_t region;
	uint64_t patience_ns;
	uint64_t begin_ns, end_ns; /* CLOCK_MONOTONIC: stub entered, about to leave it */
	/* the target's C library */
	uint64_t pthread_create;
	uint64_t pthread_attr_init;
	uint64_t pthread_attr_setdetachstate;
	uint64_t pthread_attr_setstacksize;
	uint64_t errno_location;
	uint64_t thread;     /* VT_STUB_THREAD of the stub */
	uint64_t stack_size; /* of the helper's thread */
	/* of the library: uint32_t (struct vt_helper_shared *, uint64_t mapped_size) */
	uint64_t entry;
	uint64_t stop_again; /* the process was stopped, and is stopped again if the tool dies */
	struct vt_stub_piece pieces[VT_N_PIECES];
	char file_name[40];
};

/* How the interrupted system call of the thread continues. */
enum vt_stub_restart {
	VT_RESTART_NONE = 0,   /* it had ended: its result stands */
	VT_RESTART_SYS = 1,    /* ERESTARTSYS: a handler without SA_RESTART makes it EINTR */
	VT_RESTART_NOINTR = 2, /* ERESTARTNOINTR: always restarted */
	VT_RESTART_NOHAND = 3, /* ERESTARTNOHAND: any handler makes it EINTR */
	/* ERESTART_RESTARTBLOCK: restart_syscall(2) knows the rest of the time */
	VT_RESTART_BLOCK = 4,
};

/* The stub is entered with the stack pointer at its block. */
struct vt_stub_block {
	struct vt_stub_frame frame; /* the registers of the thread: inject/arch/frame.h */
	uint64_t region;
	uint64_t blocked_mask; /* signals, while the thread is ours */
	uint64_t signal_mask;  /* the thread's own */
	uint64_t restart;      /* enum vt_stub_restart */
	/* Written by the stub when it failed: the tool usually still finds it here. */
	uint64_t failed_nonce; /* control.nonce */
	/* positive: mmap's errno; negative: -(what pthread_create returned) */
	int64_t failed_errno;
	struct vt_stub_control control;
};

_Static_assert(offsetof(struct vt_stub_block, region) == VT_BLOCK_REGION, "entry.S");
_Static_assert(offsetof(struct vt_stub_block, blocked_mask) == VT_BLOCK_BLOCKED_MASK, "entry.S");
_Static_assert(offsetof(struct vt_stub_block, restart) == VT_BLOCK_RESTART, "entry.S");
_Static_assert(offsetof(struct vt_stub_control, borrower_done) == VT_CONTROL_BORROWER_DONE,
	       "entry.S");
_Static_assert(offsetof(struct vt_stub_control, file_busy) == VT_CONTROL_FILE_BUSY, "entry.S");
_Static_assert(VT_REGION_FILE_STACK - VT_REGION_XSAVE - VT_XSAVE_MAX >= 0x4000, "room for a stack");
_Static_assert(sizeof(struct vt_stub_control) % 8 == 0, "copied by words");
_Static_assert(sizeof(struct vt_stub_control) <= VT_REGION_XSAVE, "one page");
#endif

#endif
