/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The modules of a target (files mapped executable), and how single symbols are looked up in them
 * by name. Files are opened in a way that mount namespaces and deleted or replaced files do not
 * matter: for a live process through /proc/PID/map_files, then /proc/PID/root + path, each checked
 * by device and inode; for a core by name and build id (target/core/files.h). The vDSO and files
 * that cannot be opened are read from memory where possible.
 */
#ifndef VT_TARGET_ELFSYM_H
#define VT_TARGET_ELFSYM_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/vec.h"
#include "target/arch/arch.h"
#include "target/buildid.h"
#include "target/files.h"
#include "target/maps.h"

/*
 * What is known about the file behind a module. For a live process there is either the right file
 * or none.
 */
enum vt_module_file {
	VT_FILE_MISSING, /* none was found, or no search was made */
	VT_FILE_DIFFERS, /* what was found is another build: not used */
	/*
	 * what was found may be another build: the core lacks all that would tell, so it is not
	 * used
	 */
	VT_FILE_UNKNOWN,
	VT_FILE_UNCHECKED, /* used; its headers are not in the core: see vt_module_same_tables() */
	VT_FILE_ALIKE,     /* used; its build id is not in the core, its first page is the same */
	VT_FILE_NO_ID,     /* used: it has no build id, its first page is the same */
	VT_FILE_RIGHT,     /* the build id is the same */
};

struct vt_module {
	const char *path;    /* as in maps, without " (deleted)"; hostile bytes */
	uint64_t start, end; /* lowest and highest mapped address of its run of mappings */
	uint64_t bias;       /* run-time address - address in the file */
	bool deleted;
	bool bad;     /* not an ELF file that can be read */
	uint8_t file; /* enum vt_module_file */
	uint8_t build_id[VT_BUILD_ID_MAX];
	uint8_t build_id_len; /* 0: none */
	/* private: */
	int fd; /* open file, -1 not opened yet or not openable */
	bool opened;
	const uint8_t *image; /* read-only mapping of the whole file, NULL until needed */
	uint64_t image_size;
};

struct vt_modules {
	pid_t pid;                        /* of the live process; 0: a core */
	struct vt_files *files;           /* where their files are; not owned */
	struct vt_files *owned_files;     /* private */
	const struct vt_maps *maps;       /* not owned */
	const struct vt_arch *arch;       /* the native one; the caller changes it for a core */
	uint64_t debuginfod_until_ns;     /* set by the caller: until when to ask; 0: not at all */
	VT_VEC(struct vt_module) modules; /* sorted by start */
	struct vt_arena arena;
	uint64_t budget; /* private: bytes of the target that images may still copy */
};

/*
 * Finds the modules in maps, which belong to a live process; opens nothing yet. maps must outlive
 * modules.
 */
struct vt_error *vt_modules_init(struct vt_modules *modules, pid_t pid, const struct vt_maps *maps);
/* The same with files from somewhere else. files must outlive modules, too. */
struct vt_error *vt_modules_init_files(struct vt_modules *modules, struct vt_files *files,
				       const struct vt_maps *maps);
void vt_modules_deinit(struct vt_modules *modules);

/* The module that contains addr, or NULL. */
struct vt_module *vt_modules_find(struct vt_modules *modules, uint64_t addr);

/*
 * The first module (from *index on; start with 0) whose file name begins with prefix
 * ("libc10_cuda.so"), or NULL.
 */
struct vt_module *vt_modules_by_name(struct vt_modules *modules, const char *prefix, size_t *index);

/*
 * Opens the file and maps it; idempotent. Also computes bias and build_id. VT_ERR_FORMAT,
 * VT_ERR_NOTFOUND. A file descriptor for libdw can be had with dup(module->fd).
 */
struct vt_error *vt_module_open(struct vt_modules *modules, struct vt_module *module);

/*
 * For an open module: whether its file is missing here, so that only what the core has of it is
 * known (for most files one page).
 */
bool vt_module_lacks_file(const struct vt_modules *modules, const struct vt_module *module);

/*
 * The file offset of an address of the file, and how many bytes follow there, provided that the
 * target cannot have changed them: their segment is not writable. module must be open.
 */
bool vt_module_constant(const struct vt_module *module, uint64_t vaddr, uint64_t *offset,
			uint64_t *room);

enum vt_comparison { VT_SAME, VT_DIFFERENT, VT_NOT_THERE /* in the target's memory */ };

/*
 * Compares the file in module->image with the target's memory: the loader's tables (.dynamic: where
 * the symbols, strings and relocations are, and how many), and a sample of the relocated addresses.
 * Sets the bias.
 */
enum vt_comparison vt_module_same_tables(struct vt_module *module, const struct vt_arch *arch,
					 const struct vt_maps *maps, struct vt_memsrc *memory);

/*
 * Looks names up in .dynsym by the module's own hash table (GNU or SysV), not by a scan. For each
 * name i that is defined sets addrs[i] to its run-time address, else to 0. An IFUNC symbol yields
 * 0. Every offset of the file is bounded.
 */
struct vt_error *vt_module_dynsyms(struct vt_modules *modules, struct vt_module *module,
				   const char *const *names, size_t n, uint64_t *addrs);

/*
 * One name in all modules whose file name begins with prefix (NULL: every module); 0 when there is
 * none.
 */
uint64_t vt_modules_symbol(struct vt_modules *modules, const char *prefix, const char *name);

#endif
