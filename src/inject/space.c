/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the stub goes. A text segment ends somewhere inside its last page, and the rest of that
 * page is zeros. (The mapping shows the rest of the file's page, but linkers pad it; the code
 * checks what is really mapped.) Nothing of the program ever executes or reads these bytes. glibc's
 * libc and ld.so have 3.8 KiB each.
 *
 * The stub never crosses a page: the kernel copies a write to another process page by page, so even
 * a writer that is killed leaves either zeros or the whole stub.
 */
#include "inject/space.h"

#include <elf.h>
#include <string.h>

#include "base/page.h"
#include "base/random.h"

/* Pages may be larger; but linkers pad no more than this. */
#define PAGE UINT64_C(4096)
#define ALIGN 64u

/* A gap behind the last function: some processors prefetch and decode past its end. */
#define GAP 16u

static bool program_header(const struct vt_module *module, unsigned int i, Elf64_Phdr *phdr)
{
	Elf64_Ehdr ehdr;

	if (module->image_size < sizeof(ehdr))
		return false;
	memcpy(&ehdr, module->image, sizeof(ehdr));
	if (i >= ehdr.e_phnum || ehdr.e_phentsize != sizeof(*phdr) ||
	    ehdr.e_phoff > module->image_size ||
	    (i + 1) * sizeof(*phdr) > module->image_size - ehdr.e_phoff)
		return false;
	memcpy(phdr, module->image + ehdr.e_phoff + i * sizeof(*phdr), sizeof(*phdr));
	return true;
}

/*
 * The address behind the last byte of the text segment that this mapping shows the end of; 0 when
 * it does not.
 */
static uint64_t end_of_text(const struct vt_module *module, const struct vt_map_entry *entry)
{
	Elf64_Phdr phdr;

	for (unsigned int i = 0; program_header(module, i, &phdr); i++) {
		if (phdr.p_type != PT_LOAD || !(phdr.p_flags & PF_X) || (phdr.p_flags & PF_W) ||
		    phdr.p_filesz == 0)
			continue;

		uint64_t end = module->bias + phdr.p_vaddr + phdr.p_filesz;

		if (end > entry->start && end < entry->end && entry->end - end < vt_page_size())
			return end;
	}
	return 0;
}

/* Space in the page with the end of the code; prefers the same bytes to zeros. */
static uint64_t space_in_page(const uint8_t *page, uint64_t base, uint64_t from,
			      const uint8_t *stub, size_t size, bool *present)
{
	uint64_t first = (from + GAP + ALIGN - 1) & ~(uint64_t)(ALIGN - 1);
	uint64_t zeros = 0;

	for (uint64_t at = first; at + size <= base + PAGE; at += ALIGN) {
		const uint8_t *p = page + (at - base);

		if (!memcmp(p, stub, size)) {
			*present = true;
			return at;
		}
		/* All zeros: the first is, and each equals the one before it. */
		if (!zeros && !p[0] && !memcmp(p, p + 1, size - 1))
			zeros = at;
	}
	*present = false;
	return zeros;
}

static uint64_t space_in_entry(struct vt_modules *modules, struct vt_live *live,
			       const struct vt_map_entry *entry, const uint8_t *stub, size_t size,
			       bool *present)
{
	struct vt_module *module = vt_modules_find(modules, entry->start);
	VT_ERROR struct vt_error *err = NULL;
	uint8_t page[PAGE];
	uint64_t end, base;

	if (!module || (err = vt_module_open(modules, module)))
		return 0;
	end = end_of_text(module, entry);
	base = end & ~(PAGE - 1);
	if (!end || vt_mem_read(vt_live_source(live), base, page, sizeof(page)))
		return 0;
	return space_in_page(page, base, end, stub, size, present);
}

static bool is_private_text(const struct vt_map_entry *entry)
{
	unsigned int want = VT_MAP_READ | VT_MAP_EXEC;

	return (entry->flags & (want | VT_MAP_WRITE | VT_MAP_SHARED)) == want && entry->inode &&
	       entry->end - entry->start >= PAGE;
}

/* In which modules to look, best first; "" is every module. */
static const char *const preferred[] = { "libc.so.6", "libc-2.",    "ld-linux", "ld-2.",
					 "libm.so.6", "libpthread", "" };

static bool has_prefix(struct vt_modules *modules, const struct vt_map_entry *entry,
		       const char *prefix)
{
	const struct vt_module *module = vt_modules_find(modules, entry->start);
	const char *slash = module ? strrchr(module->path, '/') : NULL;

	return slash && !strncmp(slash + 1, prefix, strlen(prefix));
}

struct vt_error *vt_space_for_stub(struct vt_modules *modules, struct vt_live *live,
				   const uint8_t *stub, size_t size, uint64_t *addr, bool *present)
{
	for (size_t p = 0; p < sizeof(preferred) / sizeof(preferred[0]); p++) {
		for (size_t i = 0; i < modules->maps->entries.n; i++) {
			const struct vt_map_entry *entry = &modules->maps->entries.data[i];
			uint64_t found;

			if (!is_private_text(entry) || !has_prefix(modules, entry, preferred[p]))
				continue;
			found = space_in_entry(modules, live, entry, stub, size, present);
			if (found) {
				*addr = found;
				return NULL;
			}
		}
	}
	return vt_error_create(VT_ERR_UNSUPPORTED,
			       "no module of the process has %zu unused bytes behind its code",
			       size);
}

/*
 * Unused room on either side, so that no mapping of the target grows into ours or is merged with
 * it.
 */
#define MARGIN (UINT64_C(1) << 20)

static bool is_free(const struct vt_maps *maps, uint64_t start, uint64_t end)
{
	for (size_t i = 0; i < maps->entries.n; i++)
		if (start < maps->entries.data[i].end && maps->entries.data[i].start < end)
			return false;
	return true;
}

/* The main thread's stack is near the end. Kernels for aarch64 differ: from 2^36 to 2^48 bytes. */
uint64_t vt_space_end(const struct vt_maps *maps)
{
	uint64_t last = UINT64_C(1) << 36, end = last;

	for (size_t i = 0; i < maps->entries.n; i++) {
		/* The kernel's half: [vsyscall] of x86-64. */
		if (maps->entries.data[i].end > last && !(maps->entries.data[i].start >> 63))
			last = maps->entries.data[i].end;
	}
	while (end < last)
		end *= 2;
	return end;
}

/*
 * Between 1/8 and 5/8 of the addresses (16 TiB and 80 TiB where they have 47 bits): far from the
 * program, the heap, the stacks and the kernel's own choice for mappings, and far from CUDA's
 * reservations, which are at both ends of the lower 128 TiB that 4-level page tables provide.
 */
struct vt_error *vt_space_for_region(const struct vt_maps *maps, uint64_t size, uint64_t *addr)
{
	uint64_t end = vt_space_end(maps);

	for (int tries = 0; tries < 100; tries++) {
		uint64_t random;

		if (!vt_random(&random, sizeof(random)))
			return vt_error_create(VT_ERR_OS, "cannot get random numbers");

		uint64_t at = end / 8 + (random % (end / 2) & ~(vt_page_size() - 1));

		if (is_free(maps, at - MARGIN, at + size + MARGIN)) {
			*addr = at;
			return NULL;
		}
	}
	return vt_error_create(VT_ERR_UNSUPPORTED,
			       "the process has no %llu MiB of unused address space",
			       (unsigned long long)(size >> 20));
}
