/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of a core. Its file is read with pread(), a page at a time, into a small cache. It is
 * never mapped: if a mapped file is truncated during the read, zeros appear (base/sigbus.h), and
 * these could pass for data.
 */
#include <elf.h>
#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/core/internal.h"
#include "target/elfsym.h"

#define PAGE 4096u
#define CACHE_BITS 12 /* 16 MiB when all slots are used */
#define CACHE_SIZE (sizeof(struct vt_core_page) << CACHE_BITS)
#define DIRECT_READ (4 * PAGE) /* longer reads bypass the cache */

struct vt_core_page {
	uint64_t number; /* in the file, from 1; 0: empty */
	uint32_t filled; /* the file may end in it */
	uint8_t data[PAGE];
};

/* ---- the file ---- */

/* Bytes read, fewer than len where the file ends; -1 when it cannot be read. */
static ssize_t read_some(struct vt_core *core, uint64_t offset, void *buf, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t got =
			pread(core->fd, (char *)buf + done, len - done, (off_t)(offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	core->read_bytes += done;
	return (ssize_t)done;
}

static const struct vt_core_page *page_at(struct vt_core *core, uint64_t number)
{
	/* Fibonacci hashing. */
	struct vt_core_page *page =
		&core->cache[number * UINT64_C(0x9e3779b97f4a7c15) >> (64 - CACHE_BITS)];

	if (page->number != number + 1) {
		ssize_t got = read_some(core, number * PAGE, page->data, PAGE);

		page->number = got < 0 ? 0 : number + 1;
		page->filled = got < 0 ? 0 : (uint32_t)got;
	}
	return page;
}

bool vt_core_read_file(struct vt_core *core, uint64_t offset, void *buf, size_t len)
{
	if (offset > core->size || len > core->size - offset)
		return false;
	if (len > DIRECT_READ)
		return read_some(core, offset, buf, len) == (ssize_t)len;
	while (len > 0) {
		const struct vt_core_page *page = page_at(core, offset / PAGE);
		size_t in = (size_t)(offset % PAGE);
		size_t n = len < PAGE - in ? len : PAGE - in;

		if (in + n > page->filled)
			return false;
		memcpy(buf, page->data + in, n);
		offset += n;
		buf = (char *)buf + n;
		len -= n;
	}
	return true;
}

/* ---- the memory in it ---- */

static const struct vt_core_segment *segment_at(const struct vt_core *core, uint64_t addr)
{
	size_t low = 0, high = core->segments.n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (core->segments.data[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < core->segments.n && core->segments.data[low].start <= addr ?
		       &core->segments.data[low] :
		       NULL;
}

/*
 * Copies into buf what the core has of the len bytes at addr, up to the first gap. Returns how
 * many.
 */
static size_t read_segment(struct vt_core *core, uint64_t addr, void *buf, size_t len)
{
	const struct vt_core_segment *segment = segment_at(core, addr);
	uint64_t at = segment ? addr - segment->start : 0;
	size_t n;

	if (!segment || at >= segment->filled)
		return 0;
	n = segment->filled - at < len ? (size_t)(segment->filled - at) : len;
	return vt_core_read_file(core, segment->offset + at, buf, n) ? n : 0;
}

static struct vt_core *core_of_raw(struct vt_memsrc *src)
{
	return (struct vt_core *)(void *)((char *)src - offsetof(struct vt_core, raw));
}

static struct vt_core *core_of_whole(struct vt_memsrc *src)
{
	return (struct vt_core *)(void *)((char *)src - offsetof(struct vt_core, whole));
}

static int read_raw(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	for (size_t done = 0; done < len;) {
		size_t n =
			read_segment(core_of_raw(src), addr + done, (char *)buf + done, len - done);

		if (n == 0) {
			src->fault_addr = addr + done;
			return -EFAULT;
		}
		done += n;
	}
	return 0;
}

/* ---- and in the files of its modules ---- */

/*
 * How many of the len bytes from addr on the process has from the file: those of a segment that the
 * program headers make read-only. (A segment that they make writable may have been changed, even if
 * it is read-only by now: relocations.)
 */
static size_t read_module(struct vt_core *core, uint64_t addr, void *buf, size_t len)
{
	struct vt_module *module = core->modules ? vt_modules_find(core->modules, addr) : NULL;
	VT_ERROR struct vt_error *err = NULL;
	uint64_t offset, room;
	ssize_t got;

	if (!module)
		return 0;
	err = vt_module_open(core->modules, module);
	if (err || module->fd < 0 ||
	    !vt_module_constant(module, addr - module->bias, &offset, &room))
		return 0;
	do
		got = pread(module->fd, buf, room < len ? (size_t)room : len, (off_t)offset);
	while (got < 0 && errno == EINTR);
	return got > 0 ? (size_t)got : 0;
}

static int read_whole(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_core *core = core_of_whole(src);

	for (size_t done = 0; done < len;) {
		size_t n = read_segment(core, addr + done, (char *)buf + done, len - done);

		if (n == 0)
			n = read_module(core, addr + done, (char *)buf + done, len - done);
		if (n == 0) {
			src->fault_addr = addr + done;
			return -EFAULT;
		}
		done += n;
	}
	return 0;
}

static const struct vt_memsrc_ops raw_ops = { .read = read_raw };
static const struct vt_memsrc_ops whole_ops = { .read = read_whole };

struct vt_error *vt_core_memory_init(struct vt_core *core)
{
	core->raw = (struct vt_memsrc){ .ops = &raw_ops, .coherent = true };
	core->whole = (struct vt_memsrc){ .ops = &whole_ops, .coherent = true };
	core->cache =
		mmap(NULL, CACHE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (core->cache == MAP_FAILED)
		core->cache = NULL;
	return core->cache ? NULL : &vt_enomem;
}

void vt_core_memory_deinit(struct vt_core *core)
{
	if (core->cache)
		munmap(core->cache, CACHE_SIZE);
	core->cache = NULL;
}

struct vt_memsrc *vt_core_raw_source(struct vt_core *core)
{
	return &core->raw;
}

struct vt_memsrc *vt_core_source(struct vt_core *core)
{
	return &core->whole;
}

void vt_core_set_modules(struct vt_core *core, struct vt_modules *modules)
{
	core->modules = modules;
}
