/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/recorder/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "target/live.h"

#define AHEAD_TICKS (UINT32_C(1) << 20) /* 73 min: nothing is read for that long */
#define ATTEMPTS 8                      /* at a table that changes */
#define BETWEEN_NS (100 * VT_NS_PER_US)
#define CHUNK_SLOTS 16384 /* of 24 or 48 bytes */
#define MAX_REREADS 4096  /* of single slots, in one pass */
#define REREADS 3         /* of one slot */

/* ---- the head ---- */

static enum vt_recorder_found judge_head(struct vt_memsrc *src, const struct vt_recorder_head *head)
{
	uint32_t live;

	if (head->magic != VT_RECORDER_MAGIC)
		return VT_RECORDER_DAMAGED;
	if (head->abi != VT_RECORDER_ABI)
		return VT_RECORDER_FOREIGN;
	if (head->size != sizeof(*head) || head->state > VT_RECORDER_ON)
		return VT_RECORDER_DAMAGED;
	if (head->state == VT_RECORDER_OFF)
		return VT_RECORDER_IS_OFF;
	if (vt_mem_read_u32(src, head->live, &live))
		return VT_RECORDER_DAMAGED;
	return live ? VT_RECORDER_IS_ON : VT_RECORDER_INHERITED;
}

struct vt_error *vt_recorder_head_read(struct vt_memsrc *src, uint64_t addr,
				       struct vt_recorder_head *head, enum vt_recorder_found *found)
{
	const size_t common = offsetof(struct vt_recorder_head, python);
	int ret;

	memset(head, 0, sizeof(*head));
	if (!addr) {
		*found = VT_RECORDER_NOT_THERE;
		return NULL;
	}
	/* Another version's may be shorter. */
	ret = vt_mem_read(src, addr, head, common);
	if (!ret && head->abi == VT_RECORDER_ABI)
		ret = vt_mem_read(src, addr, head, sizeof(*head));
	if (ret)
		return vt_mem_error(src, ret, "the recorder");
	*found = judge_head(src, head);
	return NULL;
}

bool vt_recorder_is_same_time(const struct vt_recorder_head *a, const struct vt_recorder_head *b)
{
	return a->state == VT_RECORDER_ON && b->state == VT_RECORDER_ON &&
	       a->generation == b->generation && a->start_ns == b->start_ns;
}

uint64_t vt_recorder_newest(const struct vt_recorder_head *head)
{
	uint64_t newest = 0;

	for (size_t i = 0; i < VT_RECORDER_SHARDS; i++)
		newest = head->shards[i].stamp > newest ? head->shards[i].stamp : newest;
	return newest >> VT_RECORDER_SERIAL_BITS;
}

uint64_t vt_recorder_newer(uint64_t newest, uint32_t ticks)
{
	uint32_t ahead = ticks - (uint32_t)newest;

	/* Before they come round there are no others; afterwards, much later is long ago. */
	if (newest <= UINT32_MAX && ticks > newest)
		return ticks;
	return ahead < AHEAD_TICKS ? newest + ahead : newest;
}

uint64_t vt_recorder_time_ns(const struct vt_recorder_head *head, uint32_t ticks, uint64_t now_ns)
{
	uint64_t now = now_ns > head->start_ns ? (now_ns - head->start_ns) / VT_RECORDER_TICK_NS :
						 0;
	uint32_t ago = (uint32_t)now - ticks;

	/*
	 * A time slightly ahead of ours is new, not very old: it comes from after the moment of the
	 * question.
	 */
	if (ago > UINT32_MAX - AHEAD_TICKS || (ago > UINT32_MAX / 2 && now < UINT32_MAX / 2))
		return head->start_ns + (now + (uint32_t)-ago) * VT_RECORDER_TICK_NS;
	return head->start_ns + (now - (ago > now ? now : ago)) * VT_RECORDER_TICK_NS;
}

/* ---- tables ---- */

/* One table that is read, slot by slot. */
struct table {
	uint64_t addr;
	uint32_t capacity;
	size_t size; /* of a slot */
	/* What to do with a slot that is not empty. */
	bool (*is_empty)(const void *slot);
	bool (*is_sound)(const void *slot);
	bool (*keep)(void *pass, const void *slot); /* false: out of memory here */
	void *pass;
	size_t *n_damaged;
};

struct reader {
	struct vt_memsrc *src;
	uint8_t *chunk;
	uint64_t room;  /* bytes of tables that may still be read */
	size_t rereads; /* that are left */
};

/* A slot that was being written is sound when it is read again. */
static bool read_again(struct reader *r, const struct table *t, uint64_t addr, uint8_t *slot)
{
	for (int i = 0; i < REREADS && r->rereads && !r->src->coherent; i++, r->rereads--)
		if (!vt_mem_read(r->src, addr, slot, t->size) &&
		    (t->is_empty(slot) || t->is_sound(slot)))
			return true;
	return false;
}

static int take_slots(struct reader *r, const struct table *t, uint64_t addr, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint8_t *slot = r->chunk + i * t->size;

		if (t->is_empty(slot))
			continue;
		if (!t->is_sound(slot) && !read_again(r, t, addr + i * t->size, slot)) {
			(*t->n_damaged)++;
			continue;
		}
		if (!t->is_empty(slot) && !t->keep(t->pass, slot))
			return -ENOMEM;
	}
	return 0;
}

/* 0, -ENOMEM (here), or why it cannot be read. */
static int read_table(struct reader *r, const struct table *t)
{
	uint64_t size = (uint64_t)t->capacity * t->size, end;

	if (size > r->room || __builtin_add_overflow(t->addr, size, &end))
		return -EINVAL;
	r->room -= size;
	for (uint32_t first = 0; first < t->capacity; first += CHUNK_SLOTS) {
		size_t n = t->capacity - first < CHUNK_SLOTS ? t->capacity - first : CHUNK_SLOTS;
		uint64_t addr = t->addr + (uint64_t)first * t->size;
		int ret = vt_mem_read(r->src, addr, r->chunk, n * t->size);

		if (!ret)
			ret = take_slots(r, t, addr, n);
		if (ret)
			return ret;
	}
	return 0;
}

static bool reader_init(struct reader *r, struct vt_memsrc *src)
{
	*r = (struct reader){ .src = src, .room = VT_RECORDER_MAX_TABLES, .rereads = MAX_REREADS };
	r->chunk = malloc(CHUNK_SLOTS * sizeof(struct vt_recorder_driver_block));
	return r->chunk;
}

/* ---- PyTorch's blocks ---- */

static bool block_is_empty(const void *slot)
{
	return !vt_recorder_packed_addr(slot);
}

static bool block_is_sound(const void *slot)
{
	return vt_recorder_is_whole(slot);
}

static bool keep_block(void *arg, const void *slot)
{
	struct vt_recorder_pass *pass = arg;
	struct vt_recorder_block *added = vt_vec_append(&pass->blocks);

	if (added)
		*added = vt_recorder_unpack(slot);
	return added;
}

static bool is_same_shard(const struct vt_recorder_shard *a, const struct vt_recorder_shard *b)
{
	return a->resizes == b->resizes && a->table == b->table && a->capacity == b->capacity;
}

/* The recorder could not remove a record that is no longer of its address. */
static int drop_doomed(struct vt_recorder_pass *pass, size_t first,
		       const struct vt_recorder_shard *shard)
{
	if (shard->doomed == VT_RECORDER_ALL_DOOMED) {
		pass->blocks.n = first;
		return -ESTALE;
	}
	for (size_t i = first; shard->doomed && i < pass->blocks.n; i++)
		if (pass->blocks.data[i].addr == shard->doomed)
			pass->blocks.data[i--] = pass->blocks.data[--pass->blocks.n];
	return 0;
}

/* One pass; *steady: its table was the same before and after. */
static int read_shard_once(struct reader *r, uint64_t addr, struct vt_recorder_pass *pass,
			   bool *steady)
{
	struct vt_recorder_shard before, after;
	struct table table = { .size = sizeof(struct vt_recorder_packed),
			       .is_empty = block_is_empty,
			       .is_sound = block_is_sound,
			       .keep = keep_block,
			       .pass = pass,
			       .n_damaged = &pass->n_damaged };
	size_t first = pass->blocks.n;
	int ret = vt_mem_read(r->src, addr, &before, sizeof(before));

	*steady = false;
	if (ret || before.resizes & 1)
		return ret;
	table.addr = before.table;
	table.capacity = before.table ? before.capacity : 0;
	ret = read_table(r, &table);
	if (ret == -ENOMEM || ret == -ESRCH)
		return ret;
	if (vt_mem_read(r->src, addr, &after, sizeof(after)))
		return -EFAULT;
	*steady = is_same_shard(&before, &after);
	/* A table that was freed since cannot be read: that is not a failure yet. */
	if (!*steady || ret)
		return *steady ? ret : 0;
	pass->evicted += after.evicted;
	pass->allocations += after.allocations;
	pass->sample = after.sample > pass->sample ? after.sample : pass->sample;
	return drop_doomed(pass, first, &after);
}

static int read_shard(struct reader *r, uint64_t addr, struct vt_recorder_pass *pass)
{
	size_t n = pass->blocks.n, n_damaged = pass->n_damaged;
	uint64_t room = r->room;
	bool steady;

	for (int i = 0; i < ATTEMPTS; i++) {
		int ret = read_shard_once(r, addr, pass, &steady);

		if (ret || steady)
			return ret;
		pass->blocks.n = n;
		pass->n_damaged = n_damaged;
		r->room = room;
		if (r->src->coherent)
			return -EFAULT; /* it died while it changed this table */
		vt_sleep_ns(BETWEEN_NS);
	}
	return -EAGAIN;
}

struct vt_error *vt_recorder_pass_read(struct vt_memsrc *src, uint64_t head_addr,
				       struct vt_recorder_pass *pass)
{
	struct reader r;
	int ret = 0;

	if (!reader_init(&r, src))
		return &vt_enomem;
	for (size_t i = 0; i < VT_RECORDER_SHARDS && ret != -ENOMEM && ret != -ESRCH; i++) {
		ret = read_shard(&r,
				 head_addr + offsetof(struct vt_recorder_head, shards) +
					 i * sizeof(struct vt_recorder_shard),
				 pass);
		pass->n_unread += ret != 0;
	}
	free(r.chunk);
	if (ret == -ENOMEM)
		return &vt_enomem;
	return ret == -ESRCH ? vt_mem_error(src, ret, "the recorder's tables") : NULL;
}

void vt_recorder_pass_deinit(struct vt_recorder_pass *pass)
{
	vt_vec_deinit(&pass->blocks);
	*pass = (struct vt_recorder_pass){ 0 };
}

/* ---- the driver's ---- */

static bool driver_is_empty(const void *slot)
{
	return !((const struct vt_recorder_driver_block *)slot)->addr;
}

static bool driver_is_sound(const void *slot)
{
	const struct vt_recorder_driver_block *b = slot;

	return b->check ==
	       vt_recorder_block_check(b->addr, b->size, b->time, b->serial, b->stack, b->tid);
}

static bool keep_driver(void *arg, const void *slot)
{
	struct vt_recorder_driver_pass *pass = arg;
	struct vt_recorder_driver_block *added = vt_vec_append(&pass->blocks);

	if (added)
		memcpy(added, slot, sizeof(*added));
	return added;
}

/* As it is in the head. */
struct driver_table {
	uint32_t lock, serial;
	uint64_t table;
	uint32_t capacity, count;
	uint32_t resizes, pad;
};
_Static_assert(sizeof(struct driver_table) == sizeof(((struct vt_recorder_head *)NULL)->driver),
	       "the same");

static int read_driver_once(struct reader *r, uint64_t addr, struct vt_recorder_driver_pass *pass,
			    bool *steady)
{
	struct driver_table before, after;
	struct table table = { .size = sizeof(struct vt_recorder_driver_block),
			       .is_empty = driver_is_empty,
			       .is_sound = driver_is_sound,
			       .keep = keep_driver,
			       .pass = pass,
			       .n_damaged = &pass->n_damaged };
	int ret = vt_mem_read(r->src, addr, &before, sizeof(before));

	*steady = false;
	if (ret || before.resizes & 1)
		return ret;
	table.addr = before.table;
	table.capacity = before.table ? before.capacity : 0;
	ret = read_table(r, &table);
	if (ret == -ENOMEM || ret == -ESRCH)
		return ret;
	if (vt_mem_read(r->src, addr, &after, sizeof(after)))
		return -EFAULT;
	/*
	 * Frees are recorded here, too: an entry that moved when one was removed may have been
	 * missed.
	 */
	*steady = before.resizes == after.resizes && before.table == after.table &&
		  before.capacity == after.capacity && before.serial == after.serial &&
		  before.count == after.count;
	return *steady ? ret : 0;
}

struct vt_error *vt_recorder_driver_read(struct vt_memsrc *src, uint64_t head_addr,
					 struct vt_recorder_driver_pass *pass)
{
	uint64_t addr = head_addr + offsetof(struct vt_recorder_head, driver);
	struct reader r;
	bool steady = false;
	int ret = 0;

	if (!reader_init(&r, src))
		return &vt_enomem;
	for (int i = 0; i < ATTEMPTS && !steady && !ret; i++) {
		pass->blocks.n = 0;
		pass->n_damaged = 0;
		r.room = VT_RECORDER_MAX_TABLES;
		if (i > 0)
			vt_sleep_ns(BETWEEN_NS);
		ret = read_driver_once(&r, addr, pass, &steady);
	}
	free(r.chunk);
	pass->unread = ret != 0;
	pass->moving = !ret && !steady;
	if (ret == -ENOMEM)
		return &vt_enomem;
	return ret == -ESRCH ? vt_mem_error(src, ret, "the recorder's tables") : NULL;
}

void vt_recorder_driver_deinit(struct vt_recorder_driver_pass *pass)
{
	vt_vec_deinit(&pass->blocks);
	*pass = (struct vt_recorder_driver_pass){ 0 };
}

/* ---- out of memory ---- */

size_t vt_recorder_ooms(const struct vt_recorder_head *head,
			struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS])
{
	uint32_t last = head->trap.raised;
	size_t n = 0;

	/* seq is written last, and begins at 1. */
	for (uint32_t back = VT_RECORDER_MAX_OOMS; back-- > 0;) {
		uint32_t seq = last - back;
		const struct vt_recorder_oom *oom =
			&head->trap.ooms[(seq - 1) % VT_RECORDER_MAX_OOMS];

		if (last >= back + 1 && oom->seq == seq &&
		    (oom->kind == VT_OOM_PYTORCH || oom->kind == VT_OOM_DRIVER))
			ooms[n++] = *oom;
	}
	return n;
}

bool vt_recorder_kept(struct vt_memsrc *src, uint64_t head_addr, pid_t tids[VT_RECORDER_MAX_OOMS],
		      size_t *n)
{
	VT_FREE struct vt_recorder_head *head = malloc(sizeof(*head));
	struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS];
	enum vt_recorder_found found;
	VT_ERROR struct vt_error *err = head ? vt_recorder_head_read(src, head_addr, head, &found) :
					       NULL;
	size_t n_ooms;

	if (!head || err || found != VT_RECORDER_IS_ON)
		return false;
	n_ooms = vt_recorder_ooms(head, ooms);
	*n = 0;
	for (size_t i = 0; i < n_ooms; i++)
		if (!ooms[i].waited_ns)
			tids[(*n)++] = (pid_t)ooms[i].tid;
	return true;
}
