/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core file (ELF, of any architecture of target/arch) as data: written by the kernel, by gdb's
 * gcore, or by cuda-gdb. Everything in it is hostile: the file bounds sizes, constants bound
 * counts, and what does not make sense is left out. The file is read piece by piece and never as a
 * whole.
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
#include "target/arch/arch.h"
#include "vramtap/mem.h"

struct vt_modules;

/* A range of memory and the part of it that is in the file: its first `filled` bytes. */
struct vt_core_segment {
	uint64_t start, end;
	uint64_t offset; /* in the file */
	uint64_t filled;
	uint32_t flags; /* PF_* */
};

struct vt_core_thread {
	pid_t tid;
	int signal; /* that the thread was about to get, 0 none */
	struct vt_regs regs;
	bool have_info; /* the next three are known */
	int info_signal, info_code;
	uint64_t info_address; /* of the failed access, for SIGSEGV and similar signals */
};

/* A mapped file (NT_FILE). */
struct vt_core_mapping {
	uint64_t start, end, offset;
	const char *path; /* hostile */
};

struct vt_core_page; /* of the cache */

#define VT_CORE_MAX_AUXV 64

struct vt_core {
	const struct vt_arch *arch;
	uint64_t size;                           /* of the file */
	uint64_t missing_bytes;                  /* that the file lacks: it is truncated */
	uint64_t read_bytes;                     /* of the file, so far */
	VT_VEC(struct vt_core_segment) segments; /* sorted, disjoint */
	/* in the file's order: the kernel puts the one that got the signal first */
	VT_VEC(struct vt_core_thread) threads;
	VT_VEC(struct vt_core_mapping) mappings; /* sorted, disjoint */
	pid_t pid;
	uid_t uid;
	bool by_kernel; /* name is the main thread's; with gdb: the executable's */
	char name[17];  /* hostile */
	char args[81];  /* the beginning of the command line; hostile */
	struct {
		uint64_t type, value;
	} auxv[VT_CORE_MAX_AUXV];
	size_t n_auxv;
	struct vt_arena arena; /* owns the paths */
	/* private: */
	int fd;
	struct timespec written; /* mtime when it was opened */
	struct vt_core_page *cache;
	struct vt_memsrc raw, whole;
	struct vt_modules *modules;
};

/*
 * Opens a core and reads its headers and notes. VT_ERR_PERMISSION, VT_ERR_OS; VT_ERR_FORMAT when
 * the file is not the core of a process of one of these architectures: the message says what it is
 * and, where possible, what to do (compressed cores, cores of a GPU alone).
 */
struct vt_error *vt_core_open(const char *path, struct vt_core **ret);

/* The same for an open file, which it takes over; path is for messages. */
struct vt_error *vt_core_open_fd(int fd, const char *path, struct vt_core **ret);

void vt_core_close(struct vt_core *core);

/*
 * Whether the file was written to since it was opened: then the data read from it may come from
 * more than one process.
 */
bool vt_core_changed(const struct vt_core *core);

/* A value of the auxiliary vector, 0 when it is not there. */
uint64_t vt_core_auxv(const struct vt_core *core, uint64_t type);

/*
 * The map of its memory: segments and mapped files, as far as the core names them. A core from gdb
 * leaves out what gdb did not dump, and does not say whether that is code. The program headers in
 * memory tell; without them it counts as possible code. maps must be zeroed.
 */
struct vt_error *vt_core_maps(struct vt_core *core, struct vt_maps *maps);

/* Only what is in the core. */
struct vt_memsrc *vt_core_raw_source(struct vt_core *core);

/*
 * Also has what the process cannot have changed (code, constants): the kernel does not write it
 * into a core, so it is read from the files of the modules. The caller sets the modules for this;
 * NULL: none.
 */
struct vt_memsrc *vt_core_source(struct vt_core *core);
void vt_core_set_modules(struct vt_core *core, struct vt_modules *modules);

#endif
