/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core file (ELF, x86-64) as data: of the kernel, of gdb's gcore, or of cuda-gdb. Everything in it is hostile: sizes are bounded
 * by the file, counts by constants, and what does not make sense is left out. It is read piece by piece and never as a whole.
 */
#ifndef VT_TARGET_CORE_CORE_H
#define VT_TARGET_CORE_CORE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "target/maps.h"
#include "target/regs.h"
#include "vramtap/mem.h"

struct vt_modules;

/* A range of memory and the part of it that is in the file: its first `filled` bytes. */
struct vt_core_segment {
	uint64_t start, end;
	uint64_t offset; /* in the file */
	uint64_t filled;
	uint32_t flags;  /* PF_* */
};

struct vt_core_thread {
	pid_t tid;
	int signal;     /* that it was about to get, 0 none */
	struct vt_regs regs;
	bool have_info; /* the next three are known */
	int info_signal, info_code;
	uint64_t info_address; /* of the access that failed, for SIGSEGV and the like */
};

/* A mapped file (NT_FILE). */
struct vt_core_mapping {
	uint64_t start, end, offset;
	const char *path; /* hostile */
};

struct vt_core_page; /* of the cache */

#define VT_CORE_MAX_AUXV 64

struct vt_core {
	uint64_t size;          /* of the file */
	uint64_t missing_bytes; /* that should be in the file and are not: it is cut short */
	uint64_t read_bytes;    /* of the file, so far */
	VT_VEC(struct vt_core_segment) segments; /* sorted, disjoint */
	VT_VEC(struct vt_core_thread) threads;   /* in the file's order: the kernel puts the one that got the signal first */
	VT_VEC(struct vt_core_mapping) mappings; /* sorted, disjoint */
	pid_t pid;
	uid_t uid;
	bool by_kernel; /* it wrote the core, so that name is the main thread's; gdb has the executable's */
	char name[17]; /* hostile */
	char args[81]; /* the beginning of the command line; hostile */
	struct {
		uint64_t type, value;
	} auxv[VT_CORE_MAX_AUXV];
	size_t n_auxv;
	struct vt_arena arena; /* owns the paths */
	/* private: */
	int fd;
	struct timespec written; /* when it was last, at the time when it was opened */
	struct vt_core_page *cache;
	struct vt_memsrc raw, whole;
	struct vt_modules *modules;
};

/*
 * Opens a core and reads its headers and notes. VT_ERR_PERMISSION, VT_ERR_OS; VT_ERR_FORMAT for what is no core of an x86-64
 * process: the message says what it is, and what to do where something can be done (compressed cores, cores of a GPU alone).
 */
struct vt_error *vt_core_open(const char *path, struct vt_core **ret);

/* The same of an open file, which it takes over; path is for messages. */
struct vt_error *vt_core_open_fd(int fd, const char *path, struct vt_core **ret);

void vt_core_close(struct vt_core *core);

/* Whether the file has been written to since it was opened: then nothing that was read of it need be of one process. */
bool vt_core_changed(const struct vt_core *core);

/* A value of the auxiliary vector, 0 when it is not there. */
uint64_t vt_core_auxv(const struct vt_core *core, uint64_t type);

/*
 * The map of its memory: segments and mapped files, so far as the core names them. The core of gdb leaves out what it has not
 * dumped, and does not say whether that is code: the program headers in memory do, or else it may be. maps must be zeroed.
 */
struct vt_error *vt_core_maps(struct vt_core *core, struct vt_maps *maps);

/* Only what is in the core. */
struct vt_memsrc *vt_core_raw_source(struct vt_core *core);

/*
 * And what the process cannot have changed (code, constants) from the files of its modules, which the kernel does not write into
 * a core. For that the caller sets the modules; NULL: none.
 */
struct vt_memsrc *vt_core_source(struct vt_core *core);
void vt_core_set_modules(struct vt_core *core, struct vt_modules *modules);

#endif
