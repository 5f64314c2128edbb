/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator walk inside the target. Everything that takes time (memory for the walk, the map of
 * readable memory) is done before the device's mutex is taken, and work on copies is done after it
 * was released.
 *
 * With the mutex the allocator cannot change, so its memory is read through pointers, but only
 * where /proc/self/maps has anonymous readable memory: a wrong layout then gives wrong bytes, which
 * the walk's invariants reject, never a fault. (File mappings are left out because a truncated file
 * raises SIGBUS, and device files because reading a device's registers is not harmless.) Without
 * the mutex the kernel does every read.
 */
#include "vramtap/freestanding.h"

#include "map.h"
#include "ops.h"
#include "walk/torch/torch.h"
#include "walk/torch/abi.h"

#define RANGES_MAX 32768
#define TEXT_SIZE 65536
#define PIECES 256 /* of one process_vm_readv() */
#define LOCK_PAUSE_NS UINT64_C(20000)
#define LOCK_ATTEMPTS 3 /* each time the allocator had outgrown the scratch memory */
#define COUNT_ATTEMPTS 50
#define COUNT_PAUSE_NS UINT64_C(50000)
#define ROOM_SLACK 1024 /* records that a device may gain between the count and the lock */
#define EBUSY_ 16

/* From linux/mman.h and linux/fcntl.h; the C library's counterparts are not available here. */
#define MAP_POPULATE_ 0x8000
#define MADV_POPULATE_WRITE_ 23 /* Linux 5.14 */
#define OPEN_READ_CLOEXEC 02000000
#define AT_CWD (-100)

struct range {
	uint64_t start, end;
};

/* The target's memory as the walk sees it. */
struct self {
	struct vt_memsrc src;
	struct range *ranges;
	uint32_t n_ranges;
	uint32_t last; /* where the last hit was */
	int refreshed;
	char *text;
};

struct op {
	struct vt_helper_shared *shared;
	struct vt_torch_walk_args args;
	struct self pointers;    /* with the mutex */
	struct vt_memsrc kernel; /* without */
	struct vt_torch_scratch scratch;
	struct sink {
		struct vt_torch_sink base;
		struct vt_block_rec *recs;
		uint64_t n, capacity;
		int was_full;
	} sink;
};

typedef int mutex_fn(void *mutex);

/* ---- what may be touched ---- */

static const char *parse_hex(const char *at, uint64_t *value)
{
	*value = 0;
	for (;; at++) {
		char c = *at;
		int digit = c >= '0' && c <= '9' ? c - '0' :
			    c >= 'a' && c <= 'f' ? c - 'a' + 10 :
						   -1;

		if (digit < 0)
			return at;
		*value = *value << 4 | (uint64_t)digit;
	}
}

static const char *skip_word(const char *at)
{
	while (*at && *at != ' ')
		at++;
	while (*at == ' ')
		at++;
	return at;
}

/* The name is empty, "[heap]" or one given by PR_SET_VMA. */
static int is_anonymous(const char *name)
{
	static const char *const names[] = { "[heap]", "[anon:" };

	if (!*name)
		return 1;
	for (unsigned int i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		unsigned int k = 0;

		while (names[i][k] && names[i][k] == name[k])
			k++;
		if (!names[i][k])
			return 1;
	}
	return 0;
}

/* start-end perms offset dev inode name */
static void take_line(struct self *self, const char *line)
{
	uint64_t start, end;
	const char *at = parse_hex(line, &start);

	if (*at != '-')
		return;
	at = parse_hex(at + 1, &end);
	if (at[0] != ' ' || at[1] != 'r' || start >= end)
		return;
	at = skip_word(skip_word(skip_word(at + 1)));
	if (at[0] != '0' || (at[1] && at[1] != ' ') || !is_anonymous(skip_word(at)))
		return;
	if (self->n_ranges && self->ranges[self->n_ranges - 1].end == start)
		self->ranges[self->n_ranges - 1].end = end;
	else if (self->n_ranges < RANGES_MAX)
		self->ranges[self->n_ranges++] = (struct range){ start, end };
}

/* Fills the ranges again; on failure there are none, and the kernel does every read. */
static void read_ranges(struct self *self)
{
	long fd = vt_sys4(SYS_openat, AT_CWD, (long)"/proc/self/maps", OPEN_READ_CLOEXEC, 0);
	uint64_t used = 0;

	self->n_ranges = 0;
	self->last = 0;
	if (fd < 0)
		return;
	for (;;) {
		long n = vt_sys4(SYS_read, fd, (long)self->text + (long)used,
				 (long)(TEXT_SIZE - 1 - used), 0);
		uint64_t line = 0;

		if (n == -4 /* EINTR */)
			continue;
		if (n <= 0)
			break;
		used += (uint64_t)n;
		for (uint64_t i = 0; i < used; i++) {
			if (self->text[i] != '\n')
				continue;
			self->text[i] = '\0';
			take_line(self, self->text + line);
			line = i + 1;
		}
		if (!line && used == TEXT_SIZE - 1)
			break; /* no line is this long */
		for (uint64_t i = line; i < used; i++)
			self->text[i - line] = self->text[i];
		used -= line;
	}
	vt_sys2(SYS_close, fd, 0);
}

static int in_range(const struct range *range, uint64_t addr, uint64_t len)
{
	return addr >= range->start && addr < range->end && len <= range->end - addr;
}

static int find_range(struct self *self, uint64_t addr, uint64_t len)
{
	uint32_t from = 0, to = self->n_ranges;

	while (from < to) {
		uint32_t middle = from + (to - from) / 2;

		if (addr >= self->ranges[middle].end)
			from = middle + 1;
		else
			to = middle;
	}
	self->last = from < self->n_ranges ? from : 0;
	return self->n_ranges && in_range(&self->ranges[self->last], addr, len);
}

/* ---- memory sources ---- */

static const void *pointer_direct(struct vt_memsrc *src, uint64_t addr, size_t len)
{
	struct self *self = (struct self *)src;

	if (self->n_ranges && in_range(&self->ranges[self->last], addr, len))
		return (const void *)addr;
	if (find_range(self, addr, len))
		return (const void *)addr;
	if (self->refreshed)
		return NULL;
	/*
	 * It may be mapped since the ranges were read. Only once, so that wrong addresses do not
	 * make us slow.
	 */
	self->refreshed = 1;
	read_ranges(self);
	return find_range(self, addr, len) ? (const void *)addr : NULL;
}

static int kernel_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	int ret = vt_sys_peek(addr, buf, len);

	if (ret)
		src->fault_addr = addr;
	return ret;
}

static int kernel_readv(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n)
{
	struct {
		void *base;
		uint64_t len;
	} to[PIECES], from[PIECES];
	long pid = vt_sys0(SYS_getpid);

	while (n) {
		size_t some = n < PIECES ? n : PIECES;
		uint64_t total = 0;
		long got;

		for (size_t i = 0; i < some; i++) {
			to[i].base = vec[i].buf;
			from[i].base = (void *)vec[i].addr;
			to[i].len = from[i].len = vec[i].len;
			total += vec[i].len;
		}
		got = vt_sys6(SYS_process_vm_readv, pid, (long)to, (long)some, (long)from,
			      (long)some, 0);
		if (got < 0 || (uint64_t)got != total) {
			src->fault_addr = vec[0].addr;
			return got < 0 ? (int)got : -14 /* EFAULT */;
		}
		vec += some;
		n -= some;
	}
	return 0;
}

static int pointer_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	const void *p = pointer_direct(src, addr, len);

	if (!p)
		return kernel_read(src, addr, buf, len);
	__builtin_memcpy(buf, p, len);
	return 0;
}

static const struct vt_memsrc_ops pointer_ops = { .read = pointer_read, .direct = pointer_direct };
static const struct vt_memsrc_ops kernel_ops = { .read = kernel_read, .readv = kernel_readv };

/* ---- the device's mutex ---- */

enum lock { LOCKED, HELD, CANNOT };

static enum lock take_mutex(struct op *op, uint64_t dca)
{
	mutex_fn *trylock = (mutex_fn *)op->shared->imports.mutex_trylock;
	uint64_t deadline = vt_sys_now_ns() + op->args.lock_deadline_ns;
	uint32_t kind;

	if (!trylock || !op->shared->imports.mutex_unlock ||
	    kernel_read(&op->kernel, dca + op->args.layout.mutex + VT_MUTEX_KIND, &kind,
			sizeof(kind)) ||
	    kind != VT_MUTEX_RECURSIVE)
		return CANNOT;
	for (;;) {
		int ret = trylock((void *)(dca + op->args.layout.mutex));

		if (!ret)
			return LOCKED;
		if (ret != EBUSY_)
			return CANNOT;
		if (vt_sys_now_ns() >= deadline)
			return HELD;
		vt_sys_sleep_ns(LOCK_PAUSE_NS);
	}
}

static void give_mutex(struct op *op, uint64_t dca)
{
	mutex_fn *unlock = (mutex_fn *)op->shared->imports.mutex_unlock;

	unlock((void *)(dca + op->args.layout.mutex));
}

/* ---- one device ---- */

static struct vt_block_rec *reserve(struct vt_torch_sink *base, uint64_t n)
{
	struct sink *sink = (struct sink *)base;

	if (n > sink->capacity - sink->n) {
		sink->was_full = 1;
		return NULL;
	}
	return sink->recs + sink->n;
}

/*
 * Scratch memory for at least so many blocks, with its pages present, so that no page fault happens
 * under the mutex.
 */
static int make_scratch(struct op *op, uint64_t n_blocks)
{
	uint64_t size;

	if (n_blocks > op->args.max_blocks)
		n_blocks = op->args.max_blocks;
	size = vt_torch_scratch_size(n_blocks);
	if (op->scratch.base && op->scratch.size >= size)
		return 1;
	vt_helper_unmap(op->scratch.base, op->scratch.size);
	op->scratch.base = vt_helper_map(size, MAP_POPULATE_);
	op->scratch.size = op->scratch.base ? size : 0;
	return op->scratch.base != NULL;
}

static void touch_room(struct op *op, uint64_t n_blocks)
{
	uint64_t from = (uint64_t)(op->sink.recs + op->sink.n) & ~UINT64_C(4095);
	uint64_t to =
		(uint64_t)(op->sink.recs + op->sink.n) + n_blocks * sizeof(struct vt_block_rec);
	uint64_t end = (uint64_t)(op->sink.recs + op->sink.capacity);

	if (to > end)
		to = end;
	/* best effort: without it, the records' pages appear while they are written */
	if (to > from)
		vt_sys4(SYS_madvise, (long)from, (long)(to - from), MADV_POPULATE_WRITE_, 0);
}

/*
 * How many blocks the device has, -1 when it is not a device. Without the mutex: a change during
 * the count needs another try.
 */
static int64_t count_blocks(struct op *op, uint64_t dca)
{
	int64_t n = -1;

	for (int i = 0; i < COUNT_ATTEMPTS && n < 0; i++) {
		if (i)
			vt_sys_sleep_ns(COUNT_PAUSE_NS);
		n = vt_torch_count_blocks(&op->kernel, &op->args.layout, dca);
	}
	return n;
}

static void walk_device(struct op *op, uint64_t dca, int device,
			struct vt_torch_device_result *result)
{
	const struct vt_torch_layout *layout = &op->args.layout;
	struct vt_torch_walk_limits limits = { .max_blocks = op->args.max_blocks,
					       .now_ns = vt_sys_now_ns };
	struct vt_memsrc *src = &op->kernel;
	struct vt_torch_walk *walk;
	int64_t n = count_blocks(op, dca);
	enum lock lock = CANNOT;

	for (int i = 0; i < LOCK_ATTEMPTS; i++) {
		uint64_t want = (n > 0 ? (uint64_t)n + (uint64_t)n / 8 : 0) + ROOM_SLACK;

		/*
		 * Locking writes, so only into what is surely a mutex. The walk reports what is
		 * wrong, also with the memory.
		 */
		if (!make_scratch(op, want) || n < 0)
			break;
		touch_room(op, want);
		read_ranges(&op->pointers);
		op->pointers.refreshed = 0;
		lock = take_mutex(op, dca);
		if (lock != LOCKED)
			break;
		n = vt_torch_count_blocks(&op->pointers.src, layout, dca);
		if (n <= (int64_t)want || (uint64_t)n > op->args.max_blocks ||
		    i + 1 == LOCK_ATTEMPTS)
			break;
		give_mutex(op, dca);
		lock = CANNOT;
	}
	result->lock = lock == LOCKED ? VT_LOCK_TAKEN :
		       lock == HELD   ? VT_LOCK_HELD_BY :
					VT_LOCK_NONE;
	if (lock == LOCKED)
		src = &op->pointers.src;
	else
		result->owner_tid = vt_torch_mutex_owner(src, layout, dca);
	limits.deadline_ns = vt_sys_now_ns() + op->args.walk_deadline_ns;
	walk = vt_torch_walk_read(src, layout, dca, device, &limits, &op->scratch, result);
	if (lock == LOCKED)
		give_mutex(op, dca);
	if (walk)
		vt_torch_walk_finish(walk, &op->sink.base);
	op->sink.n += result->blocks;
}

/* ---- the operation ---- */

/* Bytes for the records of all devices, as they are now and with some slack. */
static uint64_t room_wanted(struct op *op, const uint64_t *dcas, int n)
{
	uint64_t blocks = 0;

	for (int i = 0; i < n; i++) {
		int64_t count = count_blocks(op, dcas[i]);
		uint64_t some =
			(count > 0 ? (uint64_t)count + (uint64_t)count / 8 : 0) + ROOM_SLACK;

		blocks += some < op->args.max_blocks ? some : op->args.max_blocks;
	}
	return blocks * sizeof(struct vt_block_rec);
}

static uint32_t walk_all(struct op *op, uint64_t room_size)
{
	struct vt_torch_walk_answer *answer = &op->shared->torch;
	uint64_t dcas[VT_TORCH_MAX_DEVICES], start = vt_sys_now_ns(), wanted;
	int n = vt_torch_devices(&op->kernel, &op->args.layout, op->args.allocator, dcas);

	if (n < 0) {
		vt_helper_say_why(op->shared, "the allocator's list of devices cannot be read",
				  NULL);
		return VT_HELPER_FAILED;
	}
	wanted = room_wanted(op, dcas, n);
	if (wanted > room_size) {
		op->shared->room_needed = wanted;
		return VT_HELPER_NO_ROOM;
	}
	for (int i = 0; i < n; i++) {
		walk_device(op, dcas[i], i, &answer->devices[i]);
		if (op->sink.was_full) {
			op->shared->room_needed = wanted * 2;
			return VT_HELPER_NO_ROOM;
		}
		answer->n_devices = i + 1;
	}
	answer->n_blocks = op->sink.n;
	answer->total_ns = vt_sys_now_ns() - start;
	return VT_HELPER_OK;
}

uint32_t vt_helper_op_torch_walk(struct vt_helper_shared *shared, void *room, uint64_t room_size)
{
	struct op op;
	uint32_t status;

	memset(&op, 0, sizeof(op));
	memset(&shared->torch, 0, sizeof(shared->torch));
	op.shared = shared;
	op.args = shared->args.torch_walk;
	op.kernel.ops = &kernel_ops;
	op.pointers.src = (struct vt_memsrc){ .ops = &pointer_ops, .coherent = true };
	op.sink.base.reserve = reserve;
	op.sink.recs = room;
	op.sink.capacity = room_size / sizeof(struct vt_block_rec);
	shared->torch.blocks_offset = (uint64_t)room - (uint64_t)shared;
	if (!vt_is_object(op.args.allocator) || !op.args.max_blocks) {
		vt_helper_say_why(shared, "no allocator or no blocks asked for", NULL);
		return VT_HELPER_BAD_ARGS;
	}
	op.pointers.ranges = vt_helper_map(RANGES_MAX * sizeof(struct range) + TEXT_SIZE, 0);
	if (!op.pointers.ranges) {
		vt_helper_say_why(shared, "the target has no memory left for the walk", NULL);
		return VT_HELPER_FAILED;
	}
	op.pointers.text = (char *)(op.pointers.ranges + RANGES_MAX);
	status = walk_all(&op, room_size);
	vt_helper_unmap(op.scratch.base, op.scratch.size);
	vt_helper_unmap(op.pointers.ranges, RANGES_MAX * sizeof(struct range) + TEXT_SIZE);
	return status;
}
