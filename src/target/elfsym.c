/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The image of a module is the file on disk, mapped lazily (libtorch_cpu.so has 450 MB; only the
 * pages that a look-up touches are read). When no file can be opened, the image is what the target
 * has mapped of it, at its file offsets. Nothing in an image is trusted: every access goes through
 * bytes_at(), and the size of the image bounds every loop.
 */
#include "target/elfsym.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/arch/native.h"
#include "target/buildid.h"
#include "target/proc.h"

/*
 * For modules without a file: how large an image may be, and how much is copied out of the target
 * for all of them. Each gets at most two thirds of what is left, so that something remains for the
 * last.
 */
#define MAX_MEMORY_IMAGE (UINT64_C(1) << 32)
#define MAX_COPIED (UINT64_C(192) * 1024 * 1024)
#define MISSING_PAGE_COST 32
#define COPY_STEP (256u * 1024)

#define MAX_FILE_SIZE (UINT64_C(1) << 40)
#define MAX_PHDRS 1024
#define MAX_DYNAMIC 4096
#define RELOCATION_GROUPS 16
#define RELOCATION_GROUP 128
#define LEAST_DYNAMIC 8 /* that identify a file; every library has twice as many */
#define PAGE UINT64_C(4096)

static const char deleted_suffix[] = " (deleted)";

/* Finding the modules. */

static bool is_vdso(const struct vt_map_entry *entry)
{
	return !strcmp(entry->path, "[vdso]");
}

static bool is_same_file(const struct vt_map_entry *a, const struct vt_map_entry *b)
{
	return a->inode && a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor;
}

/*
 * The entry after the last one of the module that starts at entry i. Zeroed data (.bss), guard
 * pages and holes between segments are anonymous and belong to the module when more of the file
 * follows. A second copy of the same file right behind it (dlmopen, or a reader of symbol tables)
 * shows by its offset, which goes back to 0.
 */
static size_t end_of_module(const struct vt_maps *maps, size_t i)
{
	const struct vt_map_entry *first = &maps->entries.data[i];
	const struct vt_map_entry *last = first;
	size_t end = i + 1;

	for (size_t k = i + 1; k < maps->entries.n; k++) {
		const struct vt_map_entry *entry = &maps->entries.data[k];

		if (!is_same_file(entry, first)) {
			if (entry->inode || entry->path[0] == '/')
				break;
			continue;
		}
		if (entry->offset == 0 && last->offset > 0)
			break;
		last = entry;
		end = k + 1;
	}
	return end;
}

/* A copy of the path without " (deleted)". */
static const char *module_path(struct vt_modules *modules, const char *path, bool *deleted)
{
	size_t n = strlen(path);
	size_t tail = sizeof(deleted_suffix) - 1;

	*deleted = n > tail && !strcmp(path + n - tail, deleted_suffix);
	return *deleted ? vt_arena_strndup(&modules->arena, path, n - tail) : path;
}

static struct vt_error *add_module(struct vt_modules *modules, size_t first, size_t end)
{
	const struct vt_map_entry *entries = modules->maps->entries.data;
	bool deleted;
	const char *path = module_path(modules, entries[first].path, &deleted);
	struct vt_module *module = path ? vt_vec_append(&modules->modules) : NULL;

	if (!module)
		return &vt_enomem;
	*module = (struct vt_module){
		.path = path,
		.start = entries[first].start,
		.end = entries[end - 1].end,
		.deleted = deleted,
		.fd = -1,
	};
	return NULL;
}

static struct vt_error *find_modules(struct vt_modules *modules)
{
	const struct vt_maps *maps = modules->maps;

	for (size_t i = 0, end; i < maps->entries.n; i = end) {
		const struct vt_map_entry *entry = &maps->entries.data[i];
		bool executable = false;

		end = i + 1;
		if (entry->path[0] == '/' && entry->inode)
			end = end_of_module(maps, i);
		else if (!is_vdso(entry))
			continue;
		for (size_t k = i; k < end; k++)
			executable |= (maps->entries.data[k].flags & VT_MAP_EXEC) &&
				      (k == i || is_same_file(entry, &maps->entries.data[k]));
		if (executable)
			VT_TRY(add_module(modules, i, end));
	}
	return NULL;
}

struct vt_error *vt_modules_init_files(struct vt_modules *modules, struct vt_files *files,
				       const struct vt_maps *maps)
{
	struct vt_modules fresh = {
		.maps = maps, .files = files, .arch = VT_NATIVE, .budget = MAX_COPIED
	};
	struct vt_error *err = find_modules(&fresh);

	if (err)
		vt_modules_deinit(&fresh);
	else
		*modules = fresh;
	return err;
}

struct vt_error *vt_modules_init(struct vt_modules *modules, pid_t pid, const struct vt_maps *maps)
{
	struct vt_files *files;

	VT_TRY(vt_files_live_create(pid, &files));

	struct vt_error *err = vt_modules_init_files(modules, files, maps);

	if (err) {
		vt_files_destroy(files);
		return err;
	}
	modules->pid = pid;
	modules->owned_files = files;
	return NULL;
}

static void close_module(struct vt_module *module)
{
	if (module->image)
		munmap((void *)(uintptr_t)module->image, module->image_size);
	if (module->fd >= 0)
		close(module->fd);
	module->image = NULL;
	module->image_size = 0;
	module->fd = -1;
}

void vt_modules_deinit(struct vt_modules *modules)
{
	for (size_t i = 0; i < modules->modules.n; i++)
		close_module(&modules->modules.data[i]);
	vt_vec_deinit(&modules->modules);
	vt_arena_deinit(&modules->arena);
	vt_files_destroy(modules->owned_files);
	modules->owned_files = NULL;
}

struct vt_module *vt_modules_find(struct vt_modules *modules, uint64_t addr)
{
	size_t low = 0, high = modules->modules.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (modules->modules.data[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == modules->modules.n || addr < modules->modules.data[low].start)
		return NULL;
	return &modules->modules.data[low];
}

static bool has_prefix(const struct vt_module *module, const char *prefix)
{
	const char *slash = strrchr(module->path, '/');
	const char *name = slash ? slash + 1 : module->path;

	return !strncmp(name, prefix, strlen(prefix));
}

struct vt_module *vt_modules_by_name(struct vt_modules *modules, const char *prefix, size_t *index)
{
	for (size_t i = *index; i < modules->modules.n; i++) {
		if (has_prefix(&modules->modules.data[i], prefix)) {
			*index = i + 1;
			return &modules->modules.data[i];
		}
	}
	*index = modules->modules.n;
	return NULL;
}

/* Reading an image. */

/* len bytes at this offset of the file, or NULL. */
static const void *bytes_at(const struct vt_module *module, uint64_t offset, uint64_t len)
{
	if (offset > module->image_size || len > module->image_size - offset)
		return NULL;
	return module->image + offset;
}

/*
 * A copy of the n-th program header; false when there is none. Copies, since files may be laid out
 * unaligned.
 */
static bool program_header(const struct vt_module *module, unsigned int n, Elf64_Phdr *phdr)
{
	const Elf64_Ehdr *ehdr = bytes_at(module, 0, sizeof(*ehdr));

	if (!ehdr || ehdr->e_phentsize != sizeof(*phdr) || n >= ehdr->e_phnum || n >= MAX_PHDRS ||
	    ehdr->e_phoff > module->image_size)
		return false;

	const void *p = bytes_at(module, ehdr->e_phoff + n * sizeof(*phdr), sizeof(*phdr));

	if (p)
		memcpy(phdr, p, sizeof(*phdr));
	return p;
}

static bool is_elf64(const struct vt_module *module, const struct vt_arch *arch)
{
	const Elf64_Ehdr *ehdr = bytes_at(module, 0, sizeof(*ehdr));

	return ehdr && !memcmp(ehdr->e_ident, ELFMAG, SELFMAG) &&
	       ehdr->e_ident[EI_CLASS] == ELFCLASS64 && ehdr->e_ident[EI_DATA] == ELFDATA2LSB &&
	       ehdr->e_machine == arch->abi.machine &&
	       (ehdr->e_type == ET_DYN || ehdr->e_type == ET_EXEC);
}

/*
 * The offset in the file of an address in the file, with at least one byte behind it; false when it
 * has none.
 */
static bool offset_of(const struct vt_module *module, uint64_t vaddr, uint64_t *offset)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; program_header(module, i, &phdr); i++) {
		if (phdr.p_type == PT_LOAD && vaddr >= phdr.p_vaddr &&
		    vaddr - phdr.p_vaddr < phdr.p_filesz && phdr.p_offset <= module->image_size) {
			*offset = phdr.p_offset + (vaddr - phdr.p_vaddr);
			return *offset < module->image_size;
		}
	}
	return false;
}

bool vt_module_constant(const struct vt_module *module, uint64_t vaddr, uint64_t *offset,
			uint64_t *room)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; program_header(module, i, &phdr); i++) {
		/* Whole pages are mapped: what the file has around the segment, too. */
		uint64_t before = phdr.p_vaddr % PAGE, start = phdr.p_vaddr - before;
		uint64_t size = before + phdr.p_filesz;

		if (phdr.p_type != PT_LOAD || phdr.p_flags & PF_W || vaddr < start ||
		    phdr.p_offset > module->image_size || phdr.p_filesz > module->image_size ||
		    phdr.p_offset < before)
			continue;
		if (phdr.p_memsz == phdr.p_filesz)
			size += -size % PAGE;
		if (vaddr - start >= size)
			continue;
		*offset = phdr.p_offset - before + (vaddr - start);
		*room = size - (vaddr - start);
		return true;
	}
	return false;
}

/*
 * Which PT_LOAD segment this mapping shows; false when none. The loader maps whole pages, of
 * whatever size, so a page of the file in which two segments meet is mapped twice and only the
 * flags tell which is which.
 */
static bool find_segment(const struct vt_module *module, const struct vt_map_entry *entry,
			 Elf64_Phdr *found)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; program_header(module, i, &phdr); i++) {
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) ||
		    phdr.p_filesz > module->image_size)
			continue;
		if (phdr.p_offset <= entry->offset + (entry->end - entry->start - 1) &&
		    entry->offset < phdr.p_offset + phdr.p_filesz) {
			*found = phdr;
			return true;
		}
	}
	return false;
}

/* bias from the executable mapping of the module that shows an executable segment. */
static bool find_bias(const struct vt_maps *maps, struct vt_module *module)
{
	const struct vt_map_entry *entry = vt_maps_find(maps, module->start),
				  *end = maps->entries.data + maps->entries.n;

	for (; entry && entry < end; entry++) {
		Elf64_Phdr phdr;

		if (!(entry->flags & VT_MAP_EXEC) || (!entry->inode && !is_vdso(entry)))
			continue;
		if (entry->start >= module->end)
			break;
		if (!find_segment(module, entry, &phdr))
			continue;
		/*
		 * entry->start shows offset entry->offset, which has address p_vaddr + (offset -
		 * p_offset) in the file.
		 */
		module->bias = entry->start - (phdr.p_vaddr + (entry->offset - phdr.p_offset));
		return module->bias % PAGE == 0;
	}
	return false;
}

static void find_build_id(struct vt_module *module)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; !module->build_id_len && program_header(module, i, &phdr); i++) {
		const uint8_t *notes = phdr.p_type == PT_NOTE ?
					       bytes_at(module, phdr.p_offset, phdr.p_filesz) :
					       NULL;

		/* Notes with 8-byte alignment (.note.gnu.property) have a segment of their own. */
		if (notes)
			module->build_id_len = vt_build_id_in_notes(
				notes, phdr.p_filesz, phdr.p_align == 8 ? 8 : 4, module->build_id);
	}
}

/* Opening a module. */

static bool map_file(struct vt_module *module, int fd)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size <= 0 ||
	    (uint64_t)st.st_size > MAX_FILE_SIZE)
		return false;

	void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);

	if (p == MAP_FAILED)
		return false;
	module->image = p;
	module->image_size = (uint64_t)st.st_size;
	return true;
}

/* Whether the file that was opened is the right one; if so the module has it. */
static bool try_file(struct vt_modules *modules, struct vt_module *module,
		     const struct vt_map_entry *entry, int fd)
{
	module->fd = fd;
	if (fd >= 0 && map_file(module, fd)) {
		if (is_elf64(module, modules->arch))
			find_build_id(module);
		if (modules->files->ops->accepts(modules->files, module, entry))
			return true;
	}
	close_module(module);
	module->build_id_len = 0;
	return false;
}

static bool open_file(struct vt_modules *modules, struct vt_module *module,
		      const struct vt_map_entry *entry)
{
	for (unsigned int n = 0;; n++) {
		int fd = modules->files->ops->candidate(modules->files, module, entry, n);

		if (fd == VT_FILES_END)
			return false;
		if (try_file(modules, module, entry, fd))
			return true;
	}
}

/* The index in maps of the module's first mapping. */
static const struct vt_map_entry *first_entry(const struct vt_modules *modules,
					      const struct vt_module *module)
{
	return vt_maps_find(modules->maps, module->start);
}

/*
 * Whether an image from memory includes this mapping of the module. Code is large and not needed.
 */
static bool is_wanted(const struct vt_map_entry *entry, const struct vt_map_entry *first)
{
	uint64_t len = entry->end - entry->start;

	if (entry != first && !is_same_file(entry, first))
		return false;
	if ((entry->flags & VT_MAP_EXEC) && entry->offset > 0)
		return false;
	return entry->offset < MAX_MEMORY_IMAGE && len <= MAX_MEMORY_IMAGE - entry->offset;
}

/*
 * Copies through a buffer: what cannot be read stays zero and untouched, so it takes no memory. In
 * a core that may be all but the first page of a library with hundreds of megabytes. Unreadable
 * parts count against the budget too, so that the copying is bounded.
 */
static void copy_mapping(struct vt_memsrc *src, uint64_t addr, uint8_t *to, uint64_t len,
			 uint8_t *buffer, size_t step, uint64_t *budget)
{
	while (len > 0) {
		size_t n = len < step ? (size_t)len : step;

		if (*budget < n)
			return;
		if (!vt_mem_read(src, addr, buffer, n)) {
			memcpy(to, buffer, n);
			*budget -= n;
		} else if (step > PAGE) {
			copy_mapping(src, addr, to, n, buffer, PAGE, budget);
		} else {
			*budget -= MISSING_PAGE_COST;
		}
		addr += n;
		to += n;
		len -= n;
	}
}

/* The image as far as the target has mapped it. What is not there stays zero. */
static bool image_from_memory(struct vt_modules *modules, struct vt_module *module)
{
	VT_FREE uint8_t *buffer = malloc(COPY_STEP);
	const struct vt_map_entry *first = first_entry(modules, module);
	const struct vt_map_entry *all_end = modules->maps->entries.data + modules->maps->entries.n;
	const struct vt_map_entry *entry;
	struct vt_memsrc *memory = modules->files->ops->memory(modules->files);
	uint64_t size = 0, share = modules->budget / 3 * 2, budget = share;
	uint8_t *image;

	for (entry = first; entry < all_end && entry->start < module->end; entry++)
		if (is_wanted(entry, first) && entry->offset + (entry->end - entry->start) > size)
			size = entry->offset + (entry->end - entry->start);
	if (size == 0 || !memory || !buffer)
		return false;
	/* Mostly a hole: pages appear as they are filled. */
	image = mmap(NULL, size, PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	for (entry = first; image != MAP_FAILED && entry < all_end && entry->start < module->end;
	     entry++) {
		uint64_t len = entry->end - entry->start;

		if (is_wanted(entry, first))
			copy_mapping(memory, entry->start, image + entry->offset, len, buffer,
				     COPY_STEP, &budget);
	}
	if (image == MAP_FAILED)
		return false;
	modules->budget -= share - budget;
	module->image = image;
	module->image_size = size;
	return true;
}

struct vt_error *vt_module_open(struct vt_modules *modules, struct vt_module *module)
{
	const struct vt_map_entry *entry = first_entry(modules, module);

	if (module->opened) {
		if (module->image)
			return NULL;
		if (module->bad)
			return vt_error_create(VT_ERR_FORMAT,
					       "%s: not an ELF file for %s, or damaged",
					       module->path, modules->arch->name);
		return vt_error_create(VT_ERR_NOTFOUND, "%s: cannot be opened", module->path);
	}
	if (!entry)
		return vt_error_create(VT_ERR_NOTFOUND, "%s: not mapped", module->path);
	module->opened = true;
	if ((is_vdso(entry) || !open_file(modules, module, entry)) &&
	    !image_from_memory(modules, module))
		return vt_module_open(modules, module);
	if (!is_elf64(module, modules->arch) || !find_bias(modules->maps, module)) {
		close_module(module);
		module->build_id_len = 0;
		module->bad = true;
		return vt_module_open(modules, module);
	}
	if (module->fd < 0)
		find_build_id(module);
	return NULL;
}

bool vt_module_lacks_file(const struct vt_modules *modules, const struct vt_module *module)
{
	return !modules->pid && module->file < VT_FILE_UNCHECKED;
}

/* Looking symbols up. */

/* The tables of .dynamic that a look-up needs, as offsets in the file; 0 when absent. */
struct dynamic {
	uint64_t symtab;
	uint64_t strtab;
	uint64_t strsz;
	uint64_t gnu_hash;
	uint64_t hash;
	uint64_t versym;
};

/*
 * glibc's loader adds the bias to addresses in .dynamic, so that an image from memory may hold
 * either; in a file they are addresses of the file.
 */
static bool table_at(const struct vt_module *module, uint64_t value, uint64_t *offset)
{
	if (offset_of(module, value, offset))
		return true;
	return module->fd < 0 && value > module->bias &&
	       offset_of(module, value - module->bias, offset);
}

static bool find_phdr(const struct vt_module *module, uint32_t type, Elf64_Phdr *phdr)
{
	for (unsigned int i = 0; program_header(module, i, phdr); i++)
		if (phdr->p_type == type)
			return true;
	return false;
}

static bool read_dynamic(const struct vt_module *module, struct dynamic *dynamic)
{
	Elf64_Phdr phdr;

	*dynamic = (struct dynamic){ 0 };
	if (!find_phdr(module, PT_DYNAMIC, &phdr))
		return false;
	for (uint64_t i = 0; i < phdr.p_filesz / sizeof(Elf64_Dyn) && i < MAX_DYNAMIC; i++) {
		const void *p = phdr.p_offset <= module->image_size ?
					bytes_at(module, phdr.p_offset + i * sizeof(Elf64_Dyn),
						 sizeof(Elf64_Dyn)) :
					NULL;
		Elf64_Dyn dyn;
		uint64_t *table = NULL;

		if (!p)
			break;
		memcpy(&dyn, p, sizeof(dyn));
		switch (dyn.d_tag) {
		case DT_NULL:
			i = MAX_DYNAMIC;
			break;
		case DT_STRSZ:
			dynamic->strsz = dyn.d_un.d_val;
			break;
		case DT_SYMTAB:
			table = &dynamic->symtab;
			break;
		case DT_STRTAB:
			table = &dynamic->strtab;
			break;
		case DT_GNU_HASH:
			table = &dynamic->gnu_hash;
			break;
		case DT_HASH:
			table = &dynamic->hash;
			break;
		case DT_VERSYM:
			table = &dynamic->versym;
			break;
		}
		if (table && !table_at(module, dyn.d_un.d_ptr, table))
			*table = 0;
	}
	return dynamic->symtab && dynamic->strtab && (dynamic->gnu_hash || dynamic->hash);
}

/* glibc's loader adds the bias to some of the addresses in place, and keeps DT_DEBUG for itself. */
static bool same_entry(const Elf64_Dyn *file, const Elf64_Dyn *memory, uint64_t bias)
{
	return file->d_tag == memory->d_tag &&
	       (file->d_tag == DT_DEBUG || file->d_un.d_val == memory->d_un.d_val ||
		file->d_un.d_val + bias == memory->d_un.d_val);
}

/* `n` relocations, from number first on: those of addresses that do not change any more. */
static enum vt_comparison same_relocations(const struct vt_module *module,
					   const struct vt_arch *arch, uint64_t table,
					   uint64_t first, uint64_t n, const Elf64_Phdr *relro,
					   struct vt_memsrc *memory)
{
	for (uint64_t i = first; i < first + n; i++) {
		const void *p =
			bytes_at(module, table + i * sizeof(Elf64_Rela), sizeof(Elf64_Rela));
		Elf64_Rela rela;
		uint64_t value;

		if (!p)
			return VT_DIFFERENT;
		memcpy(&rela, p, sizeof(rela));
		if (ELF64_R_TYPE(rela.r_info) != arch->relative || rela.r_offset < relro->p_vaddr ||
		    rela.r_offset - relro->p_vaddr >= relro->p_memsz)
			continue;
		if (vt_mem_read_u64(memory, rela.r_offset + module->bias, &value))
			return VT_NOT_THERE;
		if (value != module->bias + (uint64_t)rela.r_addend)
			return VT_DIFFERENT;
	}
	return VT_SAME;
}

/*
 * Addresses of the file that the loader has put into memory, mostly those of functions: another
 * build has different ones. A sample from the whole table.
 */
static enum vt_comparison same_addresses(const struct vt_module *module, const struct vt_arch *arch,
					 uint64_t table, uint64_t size, struct vt_memsrc *memory)
{
	uint64_t n = size / sizeof(Elf64_Rela), offset;
	Elf64_Phdr relro;

	/* Without any, nothing can differ; the tables must do. */
	if (!n || !find_phdr(module, PT_GNU_RELRO, &relro))
		return VT_SAME;
	if (!offset_of(module, table, &offset) || size > module->image_size)
		return VT_DIFFERENT;
	for (uint64_t group = 0; group < RELOCATION_GROUPS; group++) {
		uint64_t first = n / RELOCATION_GROUPS * group;
		uint64_t some = n - first < RELOCATION_GROUP ? n - first : RELOCATION_GROUP;
		enum vt_comparison result =
			same_relocations(module, arch, offset, first, some, &relro, memory);

		if (result != VT_SAME)
			return result;
	}
	return VT_SAME;
}

enum vt_comparison vt_module_same_tables(struct vt_module *module, const struct vt_arch *arch,
					 const struct vt_maps *maps, struct vt_memsrc *memory)
{
	uint64_t relocations = 0, size = 0;
	unsigned int same = 0;
	Elf64_Phdr phdr;

	if (!is_elf64(module, arch) || !find_bias(maps, module) ||
	    !find_phdr(module, PT_DYNAMIC, &phdr) || phdr.p_offset > module->image_size)
		return VT_DIFFERENT;
	for (uint64_t i = 0; i < phdr.p_filesz / sizeof(Elf64_Dyn) && i < MAX_DYNAMIC; i++) {
		const void *p =
			bytes_at(module, phdr.p_offset + i * sizeof(Elf64_Dyn), sizeof(Elf64_Dyn));
		Elf64_Dyn ours, theirs;

		if (!p)
			return VT_DIFFERENT;
		if (vt_mem_read(memory, phdr.p_vaddr + module->bias + i * sizeof(theirs), &theirs,
				sizeof(theirs)))
			return VT_NOT_THERE;
		memcpy(&ours, p, sizeof(ours));
		if (!same_entry(&ours, &theirs, module->bias))
			return VT_DIFFERENT;
		if (ours.d_tag == DT_NULL)
			break;
		if (ours.d_tag == DT_RELA)
			relocations = ours.d_un.d_val;
		if (ours.d_tag == DT_RELASZ)
			size = ours.d_un.d_val;
		same++;
	}
	return same >= LEAST_DYNAMIC ? same_addresses(module, arch, relocations, size, memory) :
				       VT_DIFFERENT;
}

static bool read_u32(const struct vt_module *module, uint64_t offset, uint64_t index,
		     uint32_t *value)
{
	const void *p = offset <= module->image_size && index <= module->image_size ?
				bytes_at(module, offset + index * sizeof(*value), sizeof(*value)) :
				NULL;

	if (p)
		memcpy(value, p, sizeof(*value));
	return p;
}

/* Candidates for one name while its hash chain is followed. */
struct lookup {
	const struct vt_module *module;
	const struct dynamic *dynamic;
	const char *name;
	size_t name_size; /* with the NUL */
	uint64_t addr;    /* result; 0 while nothing was found */
	/* the result is an old version (foo@VER, not foo@@VER), a newer one is better */
	bool hidden;
};

/* Looks at symbol number index; true when the search is over. */
static bool try_symbol(struct lookup *lookup, uint64_t index)
{
	const struct vt_module *module = lookup->module;
	const struct dynamic *dynamic = lookup->dynamic;
	Elf64_Sym sym;
	const void *p = bytes_at(module, dynamic->symtab + index * sizeof(sym), sizeof(sym));
	const char *name;

	if (!p)
		return true;
	memcpy(&sym, p, sizeof(sym));
	if (dynamic->strsz &&
	    (sym.st_name >= dynamic->strsz || lookup->name_size > dynamic->strsz - sym.st_name))
		return false;
	name = bytes_at(module, dynamic->strtab + sym.st_name, lookup->name_size);
	if (!name || memcmp(name, lookup->name, lookup->name_size) != 0 ||
	    sym.st_shndx == SHN_UNDEF)
		return false;
	/*
	 * The address of an indirect function is its resolver's; that of a thread-local symbol is
	 * an offset.
	 */
	if (ELF64_ST_TYPE(sym.st_info) == STT_GNU_IFUNC || ELF64_ST_TYPE(sym.st_info) == STT_TLS)
		return false;

	const void *version = dynamic->versym ? bytes_at(module, dynamic->versym + index * 2, 2) :
						NULL;
	uint16_t versym = 1;

	if (version)
		memcpy(&versym, version, sizeof(versym));
	if (versym & 0x8000 && lookup->addr)
		return false;
	lookup->addr = sym.st_value + (sym.st_shndx == SHN_ABS ? 0 : module->bias);
	lookup->hidden = versym & 0x8000;
	return !lookup->hidden;
}

static uint32_t gnu_hash(const char *name)
{
	uint32_t h = 5381;

	for (const unsigned char *p = (const unsigned char *)name; *p; p++)
		h = h * 33 + *p;
	return h;
}

/*
 * DT_GNU_HASH: nbuckets, first symbol, number of 64-bit bloom words, bloom shift; the bloom filter;
 * the buckets (first symbol of each chain); a hash for each symbol, whose lowest bit ends the
 * chain.
 */
static void lookup_gnu(struct lookup *lookup)
{
	const struct vt_module *module = lookup->module;
	uint64_t table = lookup->dynamic->gnu_hash;
	uint32_t n_buckets, first, n_bloom, symbol, hash, want = gnu_hash(lookup->name);
	uint64_t buckets, chains;

	if (!read_u32(module, table, 0, &n_buckets) || !read_u32(module, table, 1, &first) ||
	    !read_u32(module, table, 2, &n_bloom) || n_buckets == 0)
		return;
	buckets = table + 16 + (uint64_t)n_bloom * 8;
	chains = buckets + (uint64_t)n_buckets * 4;
	if (!read_u32(module, buckets, want % n_buckets, &symbol) || symbol < first)
		return;
	for (;; symbol++) {
		if (!read_u32(module, chains, symbol - first, &hash))
			return;
		if ((hash | 1) == (want | 1) && try_symbol(lookup, symbol))
			return;
		if (hash & 1 || symbol == UINT32_MAX)
			return;
	}
}

static uint32_t sysv_hash(const char *name)
{
	uint32_t h = 0;

	for (const unsigned char *p = (const unsigned char *)name; *p; p++) {
		uint32_t top;

		h = (h << 4) + *p;
		top = h & 0xf0000000u;
		h = (h ^ top >> 24) & ~top;
	}
	return h;
}

/*
 * DT_HASH: nbuckets, number of symbols, the buckets (first symbol), for each symbol the next one; 0
 * ends a chain.
 */
static void lookup_sysv(struct lookup *lookup)
{
	const struct vt_module *module = lookup->module;
	uint64_t table = lookup->dynamic->hash;
	uint32_t n_buckets, n_symbols, symbol;

	if (!read_u32(module, table, 0, &n_buckets) || !read_u32(module, table, 1, &n_symbols) ||
	    n_buckets == 0)
		return;
	if (!read_u32(module, table, 2 + sysv_hash(lookup->name) % n_buckets, &symbol))
		return;
	/* A damaged table may have a cycle: no chain is longer than there are symbols. */
	for (uint32_t hops = 0; symbol != 0 && hops < n_symbols; hops++) {
		if (try_symbol(lookup, symbol))
			return;
		if (!read_u32(module, table, 2 + (uint64_t)n_buckets + symbol, &symbol))
			return;
	}
}

struct vt_error *vt_module_dynsyms(struct vt_modules *modules, struct vt_module *module,
				   const char *const *names, size_t n, uint64_t *addrs)
{
	struct dynamic dynamic;

	memset(addrs, 0, n * sizeof(*addrs));
	VT_TRY(vt_module_open(modules, module));
	if (!read_dynamic(module, &dynamic))
		return vt_error_create(VT_ERR_FORMAT, "%s: no table of dynamic symbols",
				       module->path);
	for (size_t i = 0; i < n; i++) {
		struct lookup lookup = {
			.module = module,
			.dynamic = &dynamic,
			.name = names[i],
			.name_size = strlen(names[i]) + 1,
		};

		if (dynamic.gnu_hash)
			lookup_gnu(&lookup);
		else
			lookup_sysv(&lookup);
		addrs[i] = lookup.addr;
	}
	return NULL;
}

uint64_t vt_modules_symbol(struct vt_modules *modules, const char *prefix, const char *name)
{
	size_t index = 0;
	struct vt_module *module;

	while ((module = vt_modules_by_name(modules, prefix ? prefix : "", &index))) {
		uint64_t addr;
		struct vt_error *err = vt_module_dynsyms(modules, module, &name, 1, &addr);

		vt_error_destroy(err);
		if (!err && addr)
			return addr;
	}
	return 0;
}
