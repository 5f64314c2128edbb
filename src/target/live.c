/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How memory of another process is read, and why this way:
 *
 * - process_vm_readv() is preferred to /proc/PID/mem, and not only because it takes many pieces a
 *   call. It refuses what must not be touched from outside: pages without read permission (reading
 *   one through /proc/PID/mem uses FOLL_FORCE and would populate page tables of reserved address
 *   space) and device mappings (there /proc/PID/mem calls the driver's vm_operations.access,
 *   NVIDIA's driver has one, and reading a device register can have an effect). Where
 *   process_vm_readv() is not allowed (seccomp policies of older container engines), the fall-back
 *   looks at the map first and leaves such mappings out itself.
 *
 * - process_vm_readv() takes a pid, which may later name another process, or the same process after
 *   execve(). An open /proc/PID/mem is tied to the address space that the process had when the file
 *   was opened, and reading from it gives 0 bytes as soon as that address space is gone. So each
 *   transfer is followed by a check whether the old address space still lives; if so, the pid
 *   cannot have been reused and execve() cannot have happened before the transfer.
 */
#include "target/live.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/readers.h"
#include "target/task.h"

#define PAGE 4096u
#define RUN_PAGES 4u /* read together; more is seldom wanted and costs page faults here */
#define RUN_SIZE (RUN_PAGES * PAGE)
#define CACHE_SETS 128u
#define CACHE_WAYS 8u
#define TOGETHER_BYTES (1u << 20) /* less is copied before another thread wakes up */
#define CACHE_SIZE ((size_t)CACHE_SETS * CACHE_WAYS * RUN_SIZE) /* 16 MiB */

/* How old the map may be before an address that is not in it is looked up again. */
#define MAPS_AGE_NS (50 * VT_NS_PER_MS)

#ifndef IOV_MAX
#define IOV_MAX 1024
#endif

/* User space ends below this on x86-64, with five-level page tables too. */
#define ADDRESS_END (UINT64_C(1) << 63)

/*
 * 16 KiB of the target that start at a multiple of 16 KiB. valid has a bit for each page that is
 * there.
 */
struct run {
	uint64_t base;
	uint32_t valid;
	uint64_t used; /* clock of the last use, for replacement */
};

struct vt_live {
	struct vt_memsrc plain; /* first, so that its address is ours */
	struct vt_memsrc cached;
	pid_t tid; /* a thread that has the memory; mostly the pid */
	pid_t pid;
	int mem_fd;
	int task_dir;
	bool writable;
	bool use_mem;               /* process_vm_readv() is refused here */
	struct vt_readers *readers; /* NULL: none */
	struct vt_maps maps;        /* for use_mem only; read when needed */
	uint64_t maps_ns;           /* when; 0: not yet */
	struct run runs[CACHE_SETS][CACHE_WAYS];
	uint8_t *cache;
	uint64_t clock;
	/* Of one call of readv: too large for the stack, which "ulimit -s" may have made small. */
	struct iovec local[IOV_MAX], remote[IOV_MAX];
	struct vt_memvec missing[IOV_MAX];
};

static struct vt_live *live_of_plain(struct vt_memsrc *src)
{
	return (struct vt_live *)(void *)((char *)src - offsetof(struct vt_live, plain));
}

static struct vt_live *live_of_cached(struct vt_memsrc *src)
{
	return (struct vt_live *)(void *)((char *)src - offsetof(struct vt_live, cached));
}

static bool is_user_range(uint64_t addr, size_t len)
{
	return addr < ADDRESS_END && len <= ADDRESS_END - addr;
}

/*
 * False once the memory that mem_fd is tied to is gone (exit or execve): then a read gives 0 bytes.
 * While it lives, address 0, which is never mapped, gives EIO.
 */
static bool has_memory(int mem_fd)
{
	char byte;

	return pread(mem_fd, &byte, 1, 0) != 0;
}

static void forget_maps(struct vt_live *live)
{
	vt_maps_deinit(&live->maps);
	live->maps_ns = 0;
}

/*
 * The part of [addr, addr + len) from addr on that may be read through /proc/PID/mem; see the top
 * of the file.
 */
static size_t harmless_in_maps(const struct vt_live *live, uint64_t addr, size_t len)
{
	size_t n = 0;

	while (n < len) {
		const struct vt_map_entry *entry = vt_maps_find(&live->maps, addr + n);

		if (!entry || !(entry->flags & VT_MAP_READ))
			break;
		if (!strncmp(entry->path, "/dev/", 5) &&
		    strncmp(entry->path, "/dev/shm/", 9) != 0 &&
		    strncmp(entry->path, "/dev/zero", 9) != 0)
			break;

		uint64_t rest = entry->end - (addr + n);

		n = rest < len - n ? n + (size_t)rest : len;
	}
	return n;
}

/*
 * The same, with a map that is recent enough. A running target may have mapped more, but many bad
 * pointers must not cost much.
 */
static size_t harmless_part(struct vt_live *live, uint64_t addr, size_t len)
{
	size_t n = live->maps_ns ? harmless_in_maps(live, addr, len) : 0;

	if (n == 0 && (!live->maps_ns || vt_now_ns() - live->maps_ns > MAPS_AGE_NS)) {
		forget_maps(live);
		vt_error_destroy(vt_maps_init(&live->maps, live->pid));
		live->maps_ns = vt_now_ns();
		n = harmless_in_maps(live, addr, len);
	}
	return n;
}

/*
 * Bytes read from addr on, maybe fewer than len; -EFAULT when not even the first, or another
 * negative errno.
 */
static ssize_t read_mem_file(struct vt_live *live, uint64_t addr, void *buf, size_t len)
{
	size_t want = harmless_part(live, addr, len);
	ssize_t got;

	if (want == 0)
		return has_memory(live->mem_fd) ? -EFAULT : -ESRCH;
	do
		got = pread(live->mem_fd, buf, want, (off_t)addr);
	while (got < 0 && errno == EINTR);
	if (got > 0)
		return got;
	if (got == 0)
		return -ESRCH;
	return errno == EIO ? -EFAULT : -errno;
}

/*
 * One transfer of at most IOV_MAX pieces: bytes moved, maybe fewer than asked for, or a negative
 * errno (-EFAULT when nothing could be moved). -ENOSYS when the method is not available here.
 */
static ssize_t transfer(struct vt_live *live, const struct iovec *local, const struct iovec *remote,
			size_t n)
{
	ssize_t got = process_vm_readv(live->tid, local, n, remote, n, 0);
	int errnum = got < 0 ? errno : 0;

	if (errnum && errnum != EFAULT)
		return errnum == EPERM || errnum == EACCES ? -ENOSYS : -errnum;
	if (!has_memory(live->mem_fd))
		return -ESRCH;
	return errnum ? -errnum : got;
}

/* The same contract as read_mem_file(). */
static ssize_t read_some(struct vt_live *live, uint64_t addr, void *buf, size_t len)
{
	if (!live->use_mem) {
		struct iovec local = { .iov_base = buf, .iov_len = len };
		struct iovec remote = { .iov_base = (void *)(uintptr_t)addr, .iov_len = len };
		ssize_t got = transfer(live, &local, &remote, 1);

		if (got != -ENOSYS)
			return got == 0 ? -EFAULT : got;
		live->use_mem = true;
	}
	return read_mem_file(live, addr, buf, len);
}

/*
 * As read_some(), but stops exactly at the first bad page. The manual page of process_vm_readv()
 * promises no transfer finer than a whole piece, so when a piece fails at once its first page is
 * tried alone.
 */
static ssize_t read_exact(struct vt_live *live, uint64_t addr, void *buf, size_t len)
{
	size_t done = 0;
	size_t step = len;

	while (done < len) {
		size_t want = step < len - done ? step : len - done;
		ssize_t got = read_some(live, addr + done, (char *)buf + done, want);

		if (got == -EFAULT) {
			size_t to_page_end = PAGE - (size_t)((addr + done) % PAGE);

			if (want <= to_page_end)
				return done ? (ssize_t)done : -EFAULT;
			step = to_page_end;
			continue;
		}
		if (got < 0)
			return got;
		done += (size_t)got;
		step = step < PAGE ? PAGE : step;
	}
	return (ssize_t)done;
}

static int read_plain(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_live *live = live_of_plain(src);

	if (len == 0)
		return 0;
	if (!is_user_range(addr, len)) {
		src->fault_addr = addr < ADDRESS_END ? ADDRESS_END : addr;
		return -EFAULT;
	}

	ssize_t got = read_exact(live, addr, buf, len);

	if (got == (ssize_t)len)
		return 0;
	if (got >= 0 || got == -EFAULT) {
		src->fault_addr = addr + (got > 0 ? (uint64_t)got : 0);
		return -EFAULT;
	}
	return (int)got;
}

/*
 * The pieces of one call of process_vm_readv(), from vec[0] on: how many, or 0 when vec[0] must be
 * refused.
 */
static size_t gather(const struct vt_memvec *vec, size_t n, struct iovec *local,
		     struct iovec *remote)
{
	size_t count = 0;
	size_t bytes = 0;

	while (count < n && count < IOV_MAX && is_user_range(vec[count].addr, vec[count].len)) {
		/* More than MAX_RW_COUNT (2 GiB less a page) in a call is cut off by the kernel. */
		if (count > 0 && vec[count].len > INT_MAX / 2 - bytes)
			break;
		bytes += vec[count].len < INT_MAX / 2 ? vec[count].len : INT_MAX / 2;
		local[count] =
			(struct iovec){ .iov_base = vec[count].buf, .iov_len = vec[count].len };
		remote[count] = (struct iovec){ .iov_base = (void *)(uintptr_t)vec[count].addr,
						.iov_len = vec[count].len };
		count++;
	}
	return count;
}

/* Reads the pieces one by one after a transfer that stopped early. 0 or a negative errno. */
static int read_singly(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		int ret = read_plain(src, vec[i].addr, vec[i].buf, vec[i].len);

		if (ret)
			return ret;
	}
	return 0;
}

/* False: not all of it was read, or sharing does not pay. */
static bool read_together(struct vt_live *live, const struct vt_memvec *vec, size_t n)
{
	size_t bytes = 0;

	for (size_t i = 0; i < n; i++) {
		if (!is_user_range(vec[i].addr, vec[i].len))
			return false;
		bytes += vec[i].len;
	}
	return bytes >= TOGETHER_BYTES && vt_readers_copy(live->readers, live->tid, vec, n) &&
	       has_memory(live->mem_fd);
}

static int readv_plain(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n)
{
	struct vt_live *live = live_of_plain(src);

	/* When it fails, the code below finds out why, and how much can be read. */
	if (live->readers && !live->use_mem && read_together(live, vec, n))
		return 0;
	while (n > 0 && !live->use_mem) {
		size_t count = gather(vec, n, live->local, live->remote);
		size_t whole = 0;
		ssize_t got;

		if (count == 0)
			break;
		got = transfer(live, live->local, live->remote, count);
		if (got == -ENOSYS) {
			live->use_mem = true;
			break;
		}
		if (got < 0 && got != -EFAULT)
			return (int)got;
		for (size_t left = got > 0 ? (size_t)got : 0;
		     whole < count && vec[whole].len <= left; whole++)
			left -= vec[whole].len;
		vec += whole;
		n -= whole;
		if (whole < count) {
			/*
			 * Stopped inside this piece: read it again alone, which finds the first bad
			 * address if there is one.
			 */
			int ret = read_singly(src, vec, 1);

			if (ret)
				return ret;
			vec++;
			n--;
		}
	}
	return read_singly(src, vec, n);
}

static uint8_t *run_data(struct vt_live *live, const struct run *run)
{
	return live->cache + (size_t)(run - &live->runs[0][0]) * RUN_SIZE;
}

/* The run for base: the cached one, or (emptied) the least recently used one of its set. */
static struct run *run_for(struct vt_live *live, uint64_t base)
{
	/* Fibonacci hashing spreads neighbours and multiples of large powers of two alike. */
	struct run *set = live->runs[(base / RUN_SIZE * UINT64_C(0x9e3779b97f4a7c15)) >> 57];
	struct run *oldest = set;

	_Static_assert(CACHE_SETS == 128, "the shift above keeps 7 bits");
	for (struct run *run = set; run < set + CACHE_WAYS; run++) {
		if (run->valid && run->base == base) {
			run->used = ++live->clock;
			return run;
		}
		if (run->used < oldest->used)
			oldest = run;
	}
	*oldest = (struct run){ .base = base, .used = ++live->clock };
	return oldest;
}

/*
 * Reads the page that holds addr and as many after it as possible; then those before it. 0 or a
 * negative errno.
 */
static int fill_run(struct vt_live *live, struct run *run, uint64_t addr)
{
	uint8_t *data = run_data(live, run);
	size_t page = (size_t)(addr - run->base) / PAGE;
	/* With luck the whole run is readable: one call. */
	ssize_t got = run->valid ? -EFAULT : read_some(live, run->base, data, RUN_SIZE);
	size_t first = 0;

	if (got < (ssize_t)((page + 1) * PAGE)) {
		if (got > 0)
			run->valid |= (1u << ((size_t)got / PAGE)) - 1;
		else if (got < 0 && got != -EFAULT)
			return (int)got;
		first = page;
		got = read_exact(live, run->base + page * PAGE, data + page * PAGE,
				 RUN_SIZE - page * PAGE);
		if (got < 0)
			return (int)got;
	}
	for (size_t i = first; (i + 1 - first) * PAGE <= (size_t)got; i++)
		run->valid |= 1u << i;
	return run->valid & 1u << page ? 0 : -EFAULT;
}

/*
 * A pointer to the byte at addr and how many bytes follow it in the cache; NULL and *ret on
 * failure.
 */
static const uint8_t *cached_bytes(struct vt_live *live, uint64_t addr, bool fill, size_t *n,
				   int *ret)
{
	uint64_t base = addr & ~(uint64_t)(RUN_SIZE - 1);
	struct run *run = run_for(live, base);
	size_t at = (size_t)(addr - base);
	size_t page = at / PAGE;

	*ret = 0;
	if (!(run->valid & 1u << page)) {
		*ret = fill ? fill_run(live, run, addr) : -EFAULT;
		if (*ret)
			return NULL;
	}
	while (page < RUN_PAGES && run->valid & 1u << page)
		page++;
	*n = page * PAGE - at;
	return run_data(live, run) + at;
}

static bool has_cache(struct vt_live *live)
{
	if (live->cache)
		return true;

	/* Address space only: pages appear as they are filled. */
	void *p = mmap(NULL, CACHE_SIZE, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return false;
	live->cache = p;
	return true;
}

/* From the plain source, with its failure carried over. */
static int read_uncached(struct vt_live *live, uint64_t addr, void *buf, size_t len)
{
	int ret = read_plain(&live->plain, addr, buf, len);

	if (ret)
		live->cached.fault_addr = live->plain.fault_addr;
	return ret;
}

static int read_cached(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct vt_live *live = live_of_cached(src);

	/* A large read would only flush the cache. */
	if (len >= RUN_SIZE || !is_user_range(addr, len) || !has_cache(live))
		return read_uncached(live, addr, buf, len);
	while (len > 0) {
		size_t n;
		int ret;
		const uint8_t *p = cached_bytes(live, addr, true, &n, &ret);

		if (!p) {
			src->fault_addr = addr;
			return ret;
		}
		n = n < len ? n : len;
		memcpy(buf, p, n);
		addr += n;
		buf = (char *)buf + n;
		len -= n;
	}
	return 0;
}

/* True when all of the piece is in the cache; it is copied then. */
static bool copy_if_cached(struct vt_live *live, const struct vt_memvec *piece)
{
	uint64_t base = piece->addr & ~(uint64_t)(RUN_SIZE - 1);
	const struct run *set = live->runs[(base / RUN_SIZE * UINT64_C(0x9e3779b97f4a7c15)) >> 57];
	size_t at = (size_t)(piece->addr - base);

	if (!live->cache || piece->len == 0 || piece->len > RUN_SIZE - at)
		return false;
	for (const struct run *run = set; run < set + CACHE_WAYS; run++) {
		if (!run->valid || run->base != base)
			continue;
		for (size_t page = at / PAGE; page <= (at + piece->len - 1) / PAGE; page++)
			if (!(run->valid & 1u << page))
				return false;
		memcpy(piece->buf, run_data(live, run) + at, piece->len);
		return true;
	}
	return false;
}

/* What is not cached goes to the process in bulk and does not enter the cache. */
static int readv_cached(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n)
{
	struct vt_live *live = live_of_cached(src);
	struct vt_memvec *missing = live->missing;
	size_t n_missing = 0;

	for (size_t i = 0; i < n; i++) {
		if (!copy_if_cached(live, &vec[i]))
			missing[n_missing++] = vec[i];
		if (n_missing < IOV_MAX && i + 1 < n)
			continue;

		int ret = readv_plain(&live->plain, missing, n_missing);

		if (ret) {
			src->fault_addr = live->plain.fault_addr;
			return ret;
		}
		n_missing = 0;
	}
	return 0;
}

static const struct vt_memsrc_ops plain_ops = { .read = read_plain, .readv = readv_plain };
static const struct vt_memsrc_ops cached_ops = { .read = read_cached, .readv = readv_cached };

struct vt_error *vt_live_create(pid_t pid, struct vt_live **ret)
{
	pid_t tid = vt_proc_view(pid);
	int fd = vt_task_open(pid, tid, "mem", O_RDWR);
	bool writable = fd >= 0;

	if (fd == -EACCES || fd == -EPERM || fd == -EROFS)
		fd = vt_task_open(pid, tid, "mem", O_RDONLY);
	if (fd < 0)
		return vt_task_error(-fd, pid, "memory");
	if (!has_memory(fd)) {
		close(fd);
		return vt_task_error(ESRCH, pid, "memory");
	}

	int task_dir = vt_task_dir(pid);

	if (task_dir < 0) {
		close(fd);
		return vt_task_error(-task_dir, pid, "threads");
	}

	struct vt_live *live = calloc(1, sizeof(*live));

	if (!live) {
		close(task_dir);
		close(fd);
		return &vt_enomem;
	}
	live->plain.ops = &plain_ops;
	live->cached.ops = &cached_ops;
	live->pid = pid;
	live->tid = tid;
	live->mem_fd = fd;
	live->task_dir = task_dir;
	live->writable = writable;
	*ret = live;
	return NULL;
}

void vt_live_destroy(struct vt_live *live)
{
	if (!live)
		return;
	vt_readers_destroy(live->readers);
	if (live->cache)
		munmap(live->cache, CACHE_SIZE);
	vt_maps_deinit(&live->maps);
	close(live->task_dir);
	close(live->mem_fd);
	free(live);
}

struct vt_memsrc *vt_live_source(struct vt_live *live)
{
	return &live->plain;
}

struct vt_memsrc *vt_live_cached_source(struct vt_live *live)
{
	return &live->cached;
}

void vt_live_drop_cache(struct vt_live *live)
{
	memset(live->runs, 0, sizeof(live->runs));
	forget_maps(live);
}

pid_t vt_live_tid(const struct vt_live *live)
{
	return live->tid;
}

int vt_live_task_dir(const struct vt_live *live)
{
	return live->task_dir;
}

bool vt_live_read_together(struct vt_live *live, unsigned int n)
{
	if (!live->readers)
		live->readers = vt_readers_create(n);
	return live->readers != NULL;
}

void vt_live_wait_killably(struct vt_live *live)
{
	(void)has_memory(live->mem_fd);
}

void vt_live_set_coherent(struct vt_live *live, bool coherent)
{
	live->plain.coherent = coherent;
	live->cached.coherent = coherent;
}

struct vt_error *vt_live_write(struct vt_live *live, uint64_t addr, const void *buf, size_t len)
{
	if (!live->writable)
		return vt_error_create(VT_ERR_PERMISSION,
				       "not permitted to write to the memory of process %d",
				       (int)live->pid);
	if (!is_user_range(addr, len))
		return vt_error_create_fault(addr, "the address cannot be written");
	vt_live_drop_cache(live);
	while (len > 0) {
		ssize_t n = pwrite(live->mem_fd, buf, len, (off_t)addr);

		if (n < 0 && errno == EINTR)
			continue;
		if (n == 0)
			return vt_task_error(ESRCH, live->pid, "memory");
		/*
		 * Apart from unmapped pages: Linux 6.12 can be configured (proc_mem.force_override)
		 * to refuse read-only pages.
		 */
		if (n < 0 && (errno == EIO || errno == EFAULT))
			return vt_error_create_fault(
				addr, "the address cannot be written (not mapped, or read-only and "
				      "the kernel forbids to write there through /proc/PID/mem)");
		if (n < 0)
			return vt_error_create_os(errno, "cannot write to the memory of process %d",
						  (int)live->pid);
		addr += (uint64_t)n;
		buf = (const char *)buf + n;
		len -= (size_t)n;
	}
	return NULL;
}

struct vt_error *vt_mem_error(const struct vt_memsrc *src, int ret, const char *what)
{
	switch (ret) {
	case -ENOMEM:
		return &vt_enomem;
	case -ESRCH:
		return vt_error_create(VT_ERR_GONE, "the process ended while %s was read", what);
	case -EFAULT:
		return vt_error_create_fault(src->fault_addr,
					     "cannot read %s: nothing readable at address 0x%llx",
					     what, (unsigned long long)src->fault_addr);
	case -EPERM:
	case -EACCES:
		return vt_error_create(VT_ERR_PERMISSION, "not permitted to read %s", what);
	default:
		return vt_error_create_os(-ret, "cannot read %s", what);
	}
}
