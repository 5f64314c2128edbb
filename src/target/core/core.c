/* SPDX-License-Identifier: Apache-2.0 */
#include "target/core/core.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/regular.h"
#include "target/core/internal.h"

/*
 * Each mapping has a segment; vm.max_map_count is 65,530 by default, and some sites raise it to a
 * million or so.
 */
#define MAX_SEGMENTS (4u * 1024 * 1024)
#define MAX_NOTE_SEGMENTS 16
#define EM_CUDA_GPU 190 /* EM_CUDA */

/* ---- what it is ---- */

static const struct {
	uint8_t magic[6];
	uint8_t n;
	const char *name, *command;
} packed[] = {
	{ { 0x28, 0xb5, 0x2f, 0xfd }, 4, "zstd", "zstd -d" },
	{ { 0x04, 0x22, 0x4d, 0x18 }, 4, "lz4", "lz4 -d" },
	{ { 0xfd, '7', 'z', 'X', 'Z', 0 }, 6, "xz", "xz -dk" },
	{ { 0x1f, 0x8b }, 2, "gzip", "gzip -dk" },
};

static struct vt_error *refuse_packed(const uint8_t *start, size_t n, const char *path)
{
	for (size_t i = 0; i < sizeof(packed) / sizeof(packed[0]); i++)
		if (n >= packed[i].n && !memcmp(start, packed[i].magic, packed[i].n))
			return vt_error_create(
				VT_ERR_FORMAT,
				"%s is compressed (%s): unpack it first, with %s, or write it out with: coredumpctl "
				"dump PID --output=FILE",
				path, packed[i].name, packed[i].command);
	return NULL;
}

/* Cores of other kinds, each with advice for the user. */
static struct vt_error *refuse_other(const Elf64_Ehdr *ehdr, size_t n, const char *path)
{
	if (n < sizeof(*ehdr) || memcmp(ehdr->e_ident, ELFMAG, SELFMAG) != 0)
		return vt_error_create(VT_ERR_FORMAT, "%s is not a core file", path);
	/* The fields up to e_machine are at the same place in both classes. */
	if (ehdr->e_machine == EM_CUDA_GPU)
		return vt_error_create(
			VT_ERR_FORMAT,
			"%s is the core of a GPU, without the memory of the process: a core of the process itself is "
			"needed, from gcore, generate-core-file in cuda-gdb, or the kernel",
			path);
	if (ehdr->e_ident[EI_CLASS] != ELFCLASS64 || ehdr->e_ident[EI_DATA] != ELFDATA2LSB ||
	    !vt_arch_of(ehdr->e_machine))
		return vt_error_create(
			VT_ERR_FORMAT,
			"%s is not of an x86-64 or aarch64 process (class %d, machine %d)", path,
			ehdr->e_ident[EI_CLASS], ehdr->e_machine);
	if (ehdr->e_type != ET_CORE)
		return vt_error_create(VT_ERR_FORMAT, "%s is a program or a library, not a core",
				       path);
	if (ehdr->e_phentsize != sizeof(Elf64_Phdr))
		return vt_error_create(VT_ERR_FORMAT,
				       "%s is damaged: its headers do not make sense", path);
	return NULL;
}

/* ---- segments ---- */

/*
 * With 65,535 segments and more the number is in the first section header (the ELF specification's
 * PN_XNUM).
 */
static uint64_t count_headers(struct vt_core *core, const Elf64_Ehdr *ehdr)
{
	Elf64_Shdr first;

	if (ehdr->e_phnum != PN_XNUM)
		return ehdr->e_phnum;
	if (ehdr->e_shentsize != sizeof(first) ||
	    !vt_core_read_file(core, ehdr->e_shoff, &first, sizeof(first)))
		return 0;
	return first.sh_info;
}

static uint64_t bytes_there(const struct vt_core *core, uint64_t offset, uint64_t len)
{
	if (offset >= core->size)
		return 0;
	return len < core->size - offset ? len : core->size - offset;
}

/* The headers of a damaged core may have any sizes. */
static void add_missing(struct vt_core *core, uint64_t n)
{
	core->missing_bytes = n < UINT64_MAX - core->missing_bytes ? core->missing_bytes + n :
								     UINT64_MAX;
}

static bool add_segment(struct vt_core *core, const Elf64_Phdr *phdr)
{
	uint64_t filled = phdr->p_filesz < phdr->p_memsz ? phdr->p_filesz : phdr->p_memsz;
	struct vt_core_segment *segment;

	if (phdr->p_memsz == 0 || phdr->p_memsz > UINT64_MAX - phdr->p_vaddr ||
	    filled > UINT64_MAX - phdr->p_offset)
		return true;
	segment = vt_vec_append(&core->segments);
	if (!segment)
		return false;
	*segment = (struct vt_core_segment){
		.start = phdr->p_vaddr,
		.end = phdr->p_vaddr + phdr->p_memsz,
		.offset = phdr->p_offset,
		.filled = bytes_there(core, phdr->p_offset, filled),
		.flags = phdr->p_flags,
	};
	add_missing(core, filled - segment->filled);
	return true;
}

static int compare_segments(const void *a, const void *b)
{
	const struct vt_core_segment *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Where segments overlap, the first counts. Only a damaged core has such segments. */
static void sort_segments(struct vt_core *core)
{
	size_t kept = 0;

	if (core->segments.n > 1)
		qsort(core->segments.data, core->segments.n, sizeof(*core->segments.data),
		      compare_segments);
	for (size_t i = 0; i < core->segments.n; i++)
		if (kept == 0 || core->segments.data[i].start >= core->segments.data[kept - 1].end)
			core->segments.data[kept++] = core->segments.data[i];
	core->segments.n = kept;
}

struct notes {
	struct {
		uint64_t offset, size;
	} parts[MAX_NOTE_SEGMENTS];
	size_t n;
	bool cut;
};

static struct vt_error *read_headers(struct vt_core *core, const Elf64_Ehdr *ehdr,
				     struct notes *notes, const char *path)
{
	uint64_t n = count_headers(core, ehdr);

	if (n > MAX_SEGMENTS)
		return vt_error_create(VT_ERR_FORMAT, "%s has more than %u segments", path,
				       MAX_SEGMENTS);
	for (uint64_t i = 0; i < n; i++) {
		Elf64_Phdr phdr;

		if (ehdr->e_phoff > core->size ||
		    !vt_core_read_file(core, ehdr->e_phoff + i * sizeof(phdr), &phdr, sizeof(phdr)))
			return vt_error_create(VT_ERR_FORMAT,
					       "%s is cut short: even its headers are incomplete",
					       path);
		if (phdr.p_type == PT_LOAD && !add_segment(core, &phdr))
			return &vt_enomem;
		if (phdr.p_type == PT_NOTE && notes->n < MAX_NOTE_SEGMENTS) {
			notes->parts[notes->n].offset = phdr.p_offset;
			notes->parts[notes->n].size =
				bytes_there(core, phdr.p_offset, phdr.p_filesz);
			notes->cut |= phdr.p_filesz > notes->parts[notes->n].size;
			add_missing(core, phdr.p_filesz - notes->parts[notes->n++].size);
		}
	}
	sort_segments(core);
	return NULL;
}

static int compare_mappings(const void *a, const void *b)
{
	const struct vt_core_mapping *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void sort_mappings(struct vt_core *core)
{
	size_t kept = 0;

	if (core->mappings.n > 1)
		qsort(core->mappings.data, core->mappings.n, sizeof(*core->mappings.data),
		      compare_mappings);
	for (size_t i = 0; i < core->mappings.n; i++)
		if (kept == 0 || core->mappings.data[i].start >= core->mappings.data[kept - 1].end)
			core->mappings.data[kept++] = core->mappings.data[i];
	core->mappings.n = kept;
}

static struct vt_error *read_core(struct vt_core *core, const char *path)
{
	Elf64_Ehdr ehdr = { 0 };
	struct notes notes = { 0 };
	size_t n = core->size < sizeof(ehdr) ? (size_t)core->size : sizeof(ehdr);

	if (!vt_core_read_file(core, 0, &ehdr, n))
		return vt_error_create(VT_ERR_OS, "%s cannot be read", path);
	VT_TRY(refuse_packed((const uint8_t *)&ehdr, n, path));
	VT_TRY(refuse_other(&ehdr, n, path));
	core->arch = vt_arch_of(ehdr.e_machine);
	VT_TRY(read_headers(core, &ehdr, &notes, path));
	for (size_t i = 0; i < notes.n; i++)
		if (!vt_core_notes(core, notes.parts[i].offset, notes.parts[i].size))
			return &vt_enomem;
	sort_mappings(core);
	if (core->threads.n > 0)
		return NULL;
	if (notes.cut)
		return vt_error_create(VT_ERR_FORMAT,
				       "%s is cut short: it lacks %llu bytes, including the notes "
				       "that list its threads and files; was the disk full, or the "
				       "size limited (ulimit -c)?",
				       path, (unsigned long long)core->missing_bytes);
	return vt_error_create(VT_ERR_FORMAT, "%s is a core without threads", path);
}

struct vt_error *vt_core_open_fd(int fd, const char *path, struct vt_core **ret)
{
	struct vt_core *core = calloc(1, sizeof(*core));
	struct vt_error *err;
	struct stat st;

	if (!core) {
		close(fd);
		return &vt_enomem;
	}
	core->fd = fd;
	if (fstat(fd, &st))
		err = vt_error_create_os(errno, "%s cannot be read", path);
	else
		err = vt_core_memory_init(core);
	if (!err) {
		core->size = (uint64_t)st.st_size;
		core->written = st.st_mtim;
		err = read_core(core, path);
	}
	if (err)
		vt_core_close(core);
	else
		*ret = core;
	return err;
}

struct vt_error *vt_core_open(const char *path, struct vt_core **ret)
{
	int fd = vt_open_regular(path), errnum = errno;
	struct stat st;

	if (fd >= 0)
		return vt_core_open_fd(fd, path, ret);
	if (stat(path, &st))
		return vt_error_create_os(errno, "%s cannot be opened", path);
	if (!S_ISREG(st.st_mode))
		return vt_error_create(VT_ERR_FORMAT, "%s is not a regular file", path);
	if (errnum == EACCES || errnum == EPERM)
		return vt_error_create(
			VT_ERR_PERMISSION,
			"not permitted to read %s: it belongs to user %u; run this as that user, or as root",
			path, (unsigned int)st.st_uid);
	return vt_error_create_os(errnum, "%s cannot be opened", path);
}

bool vt_core_changed(const struct vt_core *core)
{
	struct stat st;

	return fstat(core->fd, &st) || (uint64_t)st.st_size != core->size ||
	       st.st_mtim.tv_sec != core->written.tv_sec ||
	       st.st_mtim.tv_nsec != core->written.tv_nsec;
}

void vt_core_close(struct vt_core *core)
{
	if (!core)
		return;
	vt_core_memory_deinit(core);
	vt_vec_deinit(&core->segments);
	vt_vec_deinit(&core->threads);
	vt_vec_deinit(&core->mappings);
	vt_arena_deinit(&core->arena);
	close(core->fd);
	free(core);
}

uint64_t vt_core_auxv(const struct vt_core *core, uint64_t type)
{
	for (size_t i = 0; i < core->n_auxv; i++)
		if (core->auxv[i].type == type)
			return core->auxv[i].value;
	return 0;
}
