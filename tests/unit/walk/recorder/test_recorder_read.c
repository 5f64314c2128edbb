/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's state read from outside: sound and damaged, standing still and changing under the
 * reader's eyes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/clock.h"
#include "unit/walk/python/python_image.h"
#include "unit/walk/recorder/recorder_image.h"
#include "walk/recorder/find.h"
#include "walk/recorder/join.h"
#include "walk/recorder/stacks.h"

#define N_BLOCKS 300
#define BLOCK(i) (UINT64_C(0x7fe000000000) + (uint64_t)(i)*512)

static void fill(struct recorder_image *image)
{
	recorder_image_init(image);
	for (unsigned int i = 0; i < N_BLOCKS; i++)
		recorder_image_put(image, BLOCK(i), 100 + i, i, VT_RECORDER_NO_STACK, 4000 + i % 3);
}

/* Every record that a pass has is right, and each is there at most once; returns how many. */
static size_t check_pass(const struct vt_recorder_pass *pass)
{
	bool seen[N_BLOCKS] = { 0 };

	for (size_t k = 0; k < pass->blocks.n; k++) {
		const struct vt_recorder_block *b = &pass->blocks.data[k];
		uint64_t i = (b->addr - BLOCK(0)) / 512;

		assert_true(i < N_BLOCKS && b->addr == BLOCK(i) && !seen[i]);
		assert_int_equal(b->size, 100 + i);
		assert_int_equal(b->time, i);
		assert_int_equal(b->tid, 4000 + i % 3);
		seen[i] = true;
	}
	return pass->blocks.n;
}

/* ---- the head ---- */

static void finds_the_head(void **state)
{
	static const char *const paths[] = {
		"/memfd:vramtap-recorder-0123456789abcdef (deleted)",
		"/memfd:vramtap-recorder-0123456789abcdef",
		"/tmp/x/vramtap-recorder-0123456789abcdef.so",
		"/memfd:vramtap-helper-0123456789abcdef (deleted)",
		"/usr/lib/libc.so.6",
		"",
	};
	struct recorder_image image;

	(void)state;
	recorder_image_init(&image);
	for (size_t i = 0; i < sizeof(paths) / sizeof(paths[0]); i++) {
		struct vt_map_entry entry = {
			.start = (uintptr_t)image.base,
			.end = (uintptr_t)image.base + 65536,
			.flags = VT_MAP_READ | VT_MAP_WRITE,
			.path = paths[i],
		};
		struct vt_maps maps = { .entries = { .data = &entry, .n = 1 } };

		assert_int_equal(vt_recorder_find(&maps, &image.src), i < 3 ? image.addr : 0);
		entry.flags = VT_MAP_READ;
		assert_int_equal(vt_recorder_find(&maps, &image.src), 0);
	}
	recorder_image_deinit(&image);
}

/* Its first word may be the last one of a page; what else has the magic is none. */
static void finds_the_head_anywhere(void **state)
{
	struct recorder_image image;
	uint64_t words[2], *at;

	(void)state;
	recorder_image_init(&image);
	memcpy(words, image.head, sizeof(words));
	for (size_t offset = 4096 - 24; offset < 4096 + 24; offset += 8) {
		struct vt_map_entry entry = {
			.start = (uintptr_t)image.base,
			.end = (uintptr_t)image.base + 8192,
			.flags = VT_MAP_WRITE,
			.path = "/memfd:" VT_RECORDER_FILE_NAME "-1",
		};
		struct vt_maps maps = { .entries = { .data = &entry, .n = 1 } };

		memset(image.base, 0, 8192);
		*(uint64_t *)(void *)image.base = VT_RECORDER_MAGIC; /* without a size */
		at = (uint64_t *)(void *)(image.base + offset);
		memcpy(at, words, sizeof(words));
		assert_int_equal(vt_recorder_find(&maps, &image.src), (uintptr_t)at);
	}
	recorder_image_deinit(&image);
}

/* The idle one of an older version may come first. */
static void finds_the_one_that_is_on(void **state)
{
	struct recorder_image old, new;

	(void)state;
	recorder_image_init(&old);
	recorder_image_init(&new);
	new.other = &old.src;
	for (int on = 0; on < 2; on++) {
		struct vt_map_entry entries[] = {
			{ .start = (uintptr_t)old.base,
			  .end = (uintptr_t)old.base + 65536,
			  .flags = VT_MAP_WRITE,
			  .path = "/memfd:" VT_RECORDER_FILE_NAME "-1" },
			{ .start = (uintptr_t) new.base,
			  .end = (uintptr_t) new.base + 65536,
			  .flags = VT_MAP_WRITE,
			  .path = "/memfd:" VT_RECORDER_FILE_NAME "-2" },
		};
		struct vt_maps maps = { .entries = { .data = entries, .n = 2 } };

		old.head->state = VT_RECORDER_OFF;
		new.head->state = on ? VT_RECORDER_ON : VT_RECORDER_OFF;
		assert_int_equal(vt_recorder_find(&maps, &new.src), on ? new.addr : old.addr);
	}
	recorder_image_deinit(&old);
	recorder_image_deinit(&new);
}

static enum vt_recorder_found look(struct recorder_image *image)
{
	static struct vt_recorder_head head;
	enum vt_recorder_found found;

	assert_null(vt_recorder_head_read(&image->src, image->addr, &head, &found));
	return found;
}

static void judges_the_head(void **state)
{
	struct recorder_image image;
	static struct vt_recorder_head head;
	enum vt_recorder_found found;
	struct vt_error *err;

	(void)state;
	recorder_image_init(&image);
	assert_int_equal(look(&image), VT_RECORDER_IS_ON);
	*(uint32_t *)recorder_image_at(image.head->live) = 0;
	assert_int_equal(look(&image), VT_RECORDER_INHERITED);
	image.head->live = 8;
	assert_int_equal(look(&image), VT_RECORDER_DAMAGED);
	image.head->state = VT_RECORDER_OFF;
	assert_int_equal(look(&image), VT_RECORDER_IS_OFF);
	image.head->state = 7;
	assert_int_equal(look(&image), VT_RECORDER_DAMAGED);
	image.head->state = VT_RECORDER_OFF;
	image.head->size++;
	assert_int_equal(look(&image), VT_RECORDER_DAMAGED);
	image.head->abi++;
	assert_int_equal(look(&image), VT_RECORDER_FOREIGN);
	image.head->magic = 0;
	assert_int_equal(look(&image), VT_RECORDER_DAMAGED);
	assert_null(vt_recorder_head_read(&image.src, 0, &head, &found));
	assert_int_equal(found, VT_RECORDER_NOT_THERE);
	err = vt_recorder_head_read(&image.src, 4096, &head, &found);
	assert_non_null(err);
	vt_error_destroy(err);
	recorder_image_deinit(&image);
}

/* ---- tables ---- */

static void reads_all_records(void **state)
{
	struct recorder_image image;
	struct vt_recorder_pass pass = { 0 };

	(void)state;
	fill(&image);
	image.head->shards[3].evicted = 5;
	image.head->shards[9].evicted = 2;
	image.head->shards[9].sample = 4096;
	assert_null(vt_recorder_pass_read(&image.src, image.addr, &pass));
	assert_int_equal(check_pass(&pass), N_BLOCKS);
	assert_int_equal(pass.n_damaged + pass.n_unread, 0);
	assert_int_equal(pass.evicted, 7);
	assert_int_equal(pass.allocations, N_BLOCKS);
	assert_int_equal(pass.sample, 4096);
	vt_recorder_pass_deinit(&pass);
	recorder_image_deinit(&image);
}

static void damaged_records_are_counted(void **state)
{
	(void)state;
	for (unsigned int bit = 0; bit < 128 + VT_RECORDER_STACK_BITS; bit++) {
		struct recorder_image image;
		struct vt_recorder_pass pass = { 0 };
		struct vt_recorder_packed *slot;

		fill(&image);
		image.src.coherent = bit & 1;
		slot = recorder_image_slot(&image, BLOCK(17));
		/* Of the words with the size and the check, then of the stack. */
		*(bit < 64  ? &slot->size_tid :
		  bit < 128 ? &slot->stamp_check :
			      &slot->addr_stack) ^= UINT64_C(1) << bit % 64;
		assert_null(vt_recorder_pass_read(&image.src, image.addr, &pass));
		assert_int_equal(check_pass(&pass), N_BLOCKS - 1);
		assert_int_equal(pass.n_damaged, 1);
		vt_recorder_pass_deinit(&pass);
		recorder_image_deinit(&image);
	}
}

/* What the target does while it is read: at the arg-th read. */
struct change {
	size_t at;
	void (*make)(struct recorder_image *image);
};

static void change_now(struct recorder_image *image)
{
	const struct change *change = image->arg;

	if (image->reads == change->at)
		change->make(image);
}

static void finish_write(struct recorder_image *image)
{
	recorder_image_put(image, BLOCK(17), 117, 17, VT_RECORDER_NO_STACK, 4000 + 17 % 3);
}

/* A slot that was being written is read again. */
static void torn_record_heals(void **state)
{
	struct recorder_image image;
	struct vt_recorder_pass pass = { 0 };
	struct change change = { .make = finish_write };
	size_t shard;

	(void)state;
	fill(&image);
	image.src.coherent = false;
	shard = (size_t)(recorder_image_shard(&image, BLOCK(17)) - image.head->shards);
	recorder_image_slot(&image, BLOCK(17))->size_tid = 0;
	/* each shard: its head, its table, its head; the first look again at the slot comes here */
	change.at = 3 * shard + 3;
	image.arg = &change;
	image.after_read = change_now;
	assert_null(vt_recorder_pass_read(&image.src, image.addr, &pass));
	assert_int_equal(check_pass(&pass), N_BLOCKS);
	assert_int_equal(pass.n_damaged, 0);
	vt_recorder_pass_deinit(&pass);
	recorder_image_deinit(&image);
}

/* A larger table: the old one is gone, and has something else in it. */
static void grow_all(struct recorder_image *image)
{
	for (size_t s = 0; s < VT_RECORDER_SHARDS; s++) {
		struct vt_recorder_shard *shard = &image->head->shards[s];
		size_t size = shard->capacity * sizeof(struct vt_recorder_packed);
		uint64_t table;

		if (!shard->table)
			continue;
		table = recorder_image_alloc(image, size + 2 * sizeof(struct vt_recorder_packed));
		memcpy(recorder_image_at(table), recorder_image_at(shard->table), size);
		memset(recorder_image_at(shard->table), 0x5a, size);
		shard->table = table;
		shard->capacity += 2;
		shard->resizes += 2;
	}
}

static void tables_that_move(void **state)
{
	(void)state;
	for (size_t at = 1; at < 200; at++) {
		struct recorder_image image;
		struct vt_recorder_pass pass = { 0 };
		struct change change = { .at = at, .make = grow_all };

		fill(&image);
		image.src.coherent = false;
		image.arg = &change;
		image.after_read = change_now;
		assert_null(vt_recorder_pass_read(&image.src, image.addr, &pass));
		assert_int_equal(check_pass(&pass), N_BLOCKS);
		assert_int_equal(pass.n_damaged + pass.n_unread, 0);
		vt_recorder_pass_deinit(&pass);
		recorder_image_deinit(&image);
	}
}

static void raise_resizes(struct recorder_image *image)
{
	image->head->shards[5].resizes += 2;
}

/* A message names what cannot be read; the rest is read. */
static void shards_that_cannot_be_read(void **state)
{
	enum { MOVES, ODD, NOWHERE, HUGE, WRAPS, DOOMED, N_WAYS };

	(void)state;
	for (int way = 0; way < 2 * N_WAYS; way++) {
		struct recorder_image image;
		struct vt_recorder_pass pass = { 0 };
		struct vt_recorder_shard *shard;
		size_t lost;

		fill(&image);
		image.src.coherent = way >= N_WAYS;
		shard = &image.head->shards[5];
		lost = shard->count;
		switch (way % N_WAYS) {
		case MOVES:
			image.after_read = raise_resizes;
			break;
		case ODD:
			shard->resizes = 1;
			break;
		case NOWHERE:
			shard->table = 4096;
			break;
		case HUGE:
			shard->capacity = UINT32_MAX;
			break;
		case WRAPS:
			shard->table = UINT64_MAX - 64;
			break;
		case DOOMED:
			shard->doomed = VT_RECORDER_ALL_DOOMED;
			break;
		}
		assert_null(vt_recorder_pass_read(&image.src, image.addr, &pass));
		assert_int_equal(check_pass(&pass), N_BLOCKS - lost);
		assert_int_equal(pass.n_unread, 1);
		vt_recorder_pass_deinit(&pass);
		recorder_image_deinit(&image);
	}
}

/* Zeros, wherever it is asked. */
static int read_nothing(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	(void)src;
	(void)addr;
	memset(buf, 0, len);
	return 0;
}

/* Tables of so many bytes in all, less than a slot each; the last one has some slots more. */
static unsigned int unread_of(uint64_t bytes, uint32_t more)
{
	static const struct vt_memsrc_ops ops = { .read = read_nothing };
	struct vt_memsrc nothing = { .ops = &ops };
	struct vt_recorder_pass pass = { 0 };
	struct recorder_image image;
	unsigned int n;

	recorder_image_init(&image);
	image.other = &nothing;
	for (size_t i = 0; i < VT_RECORDER_SHARDS; i++) {
		image.head->shards[i].table = 4096;
		image.head->shards[i].capacity =
			(uint32_t)(bytes / VT_RECORDER_SHARDS / sizeof(struct vt_recorder_packed));
	}
	image.head->shards[VT_RECORDER_SHARDS - 1].capacity += more;
	assert_null(vt_recorder_pass_read(&image.src, image.addr, &pass));
	n = pass.n_unread;
	vt_recorder_pass_deinit(&pass);
	recorder_image_deinit(&image);
	return n;
}

static void large_tables(void **state)
{
	const uint64_t slot = sizeof(struct vt_recorder_packed), max = VT_RECORDER_MAX_TABLES;
	uint32_t left =
		(uint32_t)(max / slot - max / VT_RECORDER_SHARDS / slot * VT_RECORDER_SHARDS);

	(void)state;
	/* vramtap record on --max-memory=1G */
	assert_int_equal(unread_of((UINT64_C(1) << 30) / 8 * 7, 0), 0);
	assert_int_equal(unread_of(max, left), 0);
	assert_int_equal(unread_of(max, left + 1), 1);
}

static void doomed_record_is_none(void **state)
{
	struct recorder_image image;
	struct vt_recorder_pass pass = { 0 };

	(void)state;
	fill(&image);
	recorder_image_shard(&image, BLOCK(40))->doomed = BLOCK(40);
	assert_null(vt_recorder_pass_read(&image.src, image.addr, &pass));
	assert_int_equal(check_pass(&pass), N_BLOCKS - 1);
	assert_int_equal(pass.n_unread + pass.n_damaged, 0);
	for (size_t i = 0; i < pass.blocks.n; i++)
		assert_true(pass.blocks.data[i].addr != BLOCK(40));
	vt_recorder_pass_deinit(&pass);
	recorder_image_deinit(&image);
}

static void reads_the_driver(void **state)
{
	struct recorder_image image;
	struct vt_recorder_driver_pass pass = { 0 };

	(void)state;
	recorder_image_init(&image);
	assert_null(vt_recorder_driver_read(&image.src, image.addr, &pass));
	assert_true(!pass.blocks.n && !pass.unread && !pass.moving);
	for (unsigned int i = 0; i < 9; i++)
		recorder_image_put_driver(&image, BLOCK(i), 4096, VT_DRIVER_DEVICE, 0);
	recorder_image_put_driver(&image, BLOCK(9), 4096, VT_DRIVER_HOST, 0)->check ^= 1;
	assert_null(vt_recorder_driver_read(&image.src, image.addr, &pass));
	assert_int_equal(pass.blocks.n, 9);
	assert_int_equal(pass.n_damaged, 1);
	image.head->driver.capacity = UINT32_MAX;
	assert_null(vt_recorder_driver_read(&image.src, image.addr, &pass));
	assert_true(pass.unread && !pass.blocks.n);
	vt_recorder_driver_deinit(&pass);
	recorder_image_deinit(&image);
}

static void add_oom(struct vt_recorder_head *head, uint32_t seq)
{
	head->trap.ooms[(seq - 1) % VT_RECORDER_MAX_OOMS] =
		(struct vt_recorder_oom){ .seq = seq, .kind = VT_OOM_PYTORCH, .requested = seq };
	head->trap.raised = seq;
}

static void reads_the_last_ooms(void **state)
{
	static struct vt_recorder_head head;
	struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS];

	(void)state;
	assert_int_equal(vt_recorder_ooms(&head, ooms), 0);
	for (uint32_t seq = 1; seq < 40; seq++) {
		size_t want = seq < VT_RECORDER_MAX_OOMS ? seq : VT_RECORDER_MAX_OOMS;

		add_oom(&head, seq);
		assert_int_equal(vt_recorder_ooms(&head, ooms), want);
		for (size_t i = 0; i < want; i++)
			assert_int_equal(ooms[i].requested, seq - want + 1 + i);
	}
	head.trap.ooms[3].seq = 0; /* being written */
	assert_int_equal(vt_recorder_ooms(&head, ooms), VT_RECORDER_MAX_OOMS - 1);
	head.trap.raised = UINT32_MAX;
	assert_int_equal(vt_recorder_ooms(&head, ooms), 0);
}

static void knows_who_is_kept(void **state)
{
	pid_t tids[VT_RECORDER_MAX_OOMS];
	struct recorder_image image;
	size_t n = 99;

	(void)state;
	recorder_image_init(&image);
	assert_true(vt_recorder_kept(&image.src, image.addr, tids, &n));
	assert_int_equal(n, 0);
	for (uint32_t seq = 1; seq < 20; seq++) {
		struct vt_recorder_oom *oom =
			&image.head->trap.ooms[(seq - 1) % VT_RECORDER_MAX_OOMS];

		add_oom(image.head, seq);
		oom->tid = 100 + seq;
		oom->waited_ns = seq == 5 || seq == 19 ? 0 : 1;
	}
	assert_true(vt_recorder_kept(&image.src, image.addr, tids, &n));
	assert_int_equal(n, 2);
	assert_true(tids[0] == 105 && tids[1] == 119);
	image.head->state = VT_RECORDER_OFF;
	assert_false(vt_recorder_kept(&image.src, image.addr, tids, &n));
	assert_false(vt_recorder_kept(&image.src, 4096, tids, &n));
	assert_int_equal(n, 2);
	recorder_image_deinit(&image);
}

/* ---- which record is of which block ---- */

static void times_are_right(void **state)
{
	static struct vt_recorder_head head = { .start_ns = IMAGE_START_NS };
	uint64_t day = 24 * 3600 * VT_NS_PER_S, tick = VT_RECORDER_TICK_NS;

	(void)state;
	assert_int_equal(vt_recorder_time_ns(&head, 0, IMAGE_START_NS), IMAGE_START_NS);
	assert_int_equal(vt_recorder_time_ns(&head, 5, IMAGE_START_NS + 9 * tick),
			 IMAGE_START_NS + 5 * tick);
	/* Newer than now, as where the record was made after the moment that is asked for. */
	assert_int_equal(vt_recorder_time_ns(&head, 9, IMAGE_START_NS + 5 * tick),
			 IMAGE_START_NS + 9 * tick);
	assert_int_equal(vt_recorder_time_ns(&head, 9, 0), IMAGE_START_NS + 9 * tick);
	assert_int_equal(vt_recorder_time_ns(&head, (uint32_t)(200 * day / tick),
					     IMAGE_START_NS + 201 * day),
			 IMAGE_START_NS + 200 * day / tick * tick);
	/* Also when it has been on for so long that ticks have come round, or are about to. */
	for (uint64_t days = 50; days < 900; days += 50) {
		uint64_t now = days * day / tick;

		assert_int_equal(vt_recorder_time_ns(&head, (uint32_t)(now + 9),
						     IMAGE_START_NS + now * tick),
				 IMAGE_START_NS + (now + 9) * tick);
		assert_int_equal(vt_recorder_time_ns(&head, (uint32_t)(now - 9),
						     IMAGE_START_NS + now * tick),
				 IMAGE_START_NS + (now - 9) * tick);
	}
}

#define LISTED_TICKS 1000
static const struct vt_block_rec in_use = {
	.addr = BLOCK(1), .size = 512, .requested = 101, .state = VT_BLOCK_ALLOCATED
};

struct one {
	const char *what;
	uint32_t before, after; /* serials of its record, 0 none */
	uint32_t time;          /* of the one after */
	uint64_t size;          /* likewise */
	enum vt_recorder_fate fate;
};

static struct vt_recorder_pass *pass_of(struct vt_recorder_pass *pass, uint32_t serial,
					uint32_t time, uint64_t size)
{
	struct vt_recorder_block *b = serial ? vt_vec_append(&pass->blocks) : NULL;

	if (b)
		*b = (struct vt_recorder_block){
			.addr = BLOCK(1), .size = size, .serial = serial, .time = time
		};
	return pass;
}

static void joins_what_is_certain(void **state)
{
	static const struct one ones[] = {
		{ "no record", 0, 0, 0, 0, VT_RECORD_NONE },
		{ "the same before and after", 7, 7, 999, 101, VT_RECORD_JOINED },
		{ "old, the same before and after", 7, 7, 5, 101, VT_RECORD_JOINED },
		{ "new since before", 7, 8, 1001, 101, VT_RECORD_CHANGED },
		{ "new, perhaps after the listing", 0, 8, 999, 101, VT_RECORD_CHANGED },
		{ "new since before, the clock may be late", 7, 8, LISTED_TICKS - 3, 101,
		  VT_RECORD_CHANGED },
		{ "new since before, but older than the listing", 7, 8, LISTED_TICKS - 5, 101,
		  VT_RECORD_JOINED },
		{ "not seen before, but older than the listing", 0, 8, 5, 101, VT_RECORD_JOINED },
		{ "gone since", 7, 0, 0, 0, VT_RECORD_CHANGED },
		{ "of another block", 7, 7, 5, 102, VT_RECORD_MISMATCH },
	};
	static struct vt_recorder_head head = { .start_ns = IMAGE_START_NS };
	uint64_t listed_ns[VT_TORCH_MAX_DEVICES] = { IMAGE_START_NS +
						     LISTED_TICKS * VT_RECORDER_TICK_NS };

	(void)state;
	for (size_t i = 0; i < sizeof(ones) / sizeof(ones[0]); i++) {
		const struct one *one = &ones[i];
		struct vt_recorder_pass before = { 0 }, after = { 0 };
		struct vt_recorder_joined joined = { 0 };
		struct vt_recorder_moment moment = {
			.before = pass_of(&before, one->before,
					  one->after == one->before ? one->time : 5,
					  one->size ? one->size : 101),
			.after = pass_of(&after, one->after, one->time, one->size),
			.head = &head,
			.listed_ns = listed_ns,
		};

		assert_true(vt_recorder_join(&moment, &in_use, 1, &joined));
		if (joined.fate_of[0] != one->fate)
			fail_msg("%s: fate %d", one->what, joined.fate_of[0]);
		assert_int_equal(joined.n[one->fate], 1);
		vt_recorder_joined_deinit(&joined);
		vt_recorder_pass_deinit(&before);
		vt_recorder_pass_deinit(&after);
	}
}

/* A record has the largest size that fits, where the block is larger. */
static void joins_what_is_huge(void **state)
{
	static struct vt_recorder_head head = { .start_ns = IMAGE_START_NS };
	static const struct {
		uint64_t requested, recorded;
		enum vt_recorder_fate fate;
	} sizes[] = {
		{ VT_RECORDER_MAX_PACKED - 1, VT_RECORDER_MAX_PACKED, VT_RECORD_MISMATCH },
		{ VT_RECORDER_MAX_PACKED, VT_RECORDER_MAX_PACKED, VT_RECORD_JOINED },
		{ VT_RECORDER_MAX_PACKED + 1, VT_RECORDER_MAX_PACKED, VT_RECORD_JOINED },
		{ VT_RECORDER_MAX_PACKED + 1, VT_RECORDER_MAX_PACKED - 1, VT_RECORD_MISMATCH },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		struct vt_block_rec block = in_use;
		struct vt_recorder_pass after = { 0 };
		struct vt_recorder_joined joined = { 0 };
		struct vt_recorder_moment moment = {
			.after = pass_of(&after, 7, 5, sizes[i].recorded), .head = &head
		};

		block.requested = sizes[i].requested;
		assert_true(vt_recorder_join(&moment, &block, 1, &joined));
		assert_int_equal(joined.fate_of[0], sizes[i].fate);
		vt_recorder_joined_deinit(&joined);
		vt_recorder_pass_deinit(&after);
	}
}

static void joins_what_is_in_use_only(void **state)
{
	static struct vt_recorder_head head = { .start_ns = IMAGE_START_NS };

	(void)state;
	for (uint8_t block_state = VT_BLOCK_ALLOCATED; block_state <= VT_BLOCK_UNMAPPED;
	     block_state++) {
		struct vt_block_rec block = in_use;
		struct vt_recorder_pass after = { 0 };
		struct vt_recorder_joined joined = { 0 };
		struct vt_recorder_moment moment = { .after = pass_of(&after, 7, 5, 101),
						     .head = &head };
		bool wanted = block_state == VT_BLOCK_ALLOCATED ||
			      block_state == VT_BLOCK_AWAITING_FREE;

		block.state = block_state;
		assert_true(vt_recorder_join(&moment, &block, 1, &joined));
		assert_int_equal(joined.fate_of[0], wanted ? VT_RECORD_JOINED : VT_RECORD_NONE);
		vt_recorder_joined_deinit(&joined);
		/* Met twice as it moved is once; two records of one address are none. */
		pass_of(&after, 7, 5, 101);
		assert_true(vt_recorder_join(&moment, &block, 1, &joined));
		assert_int_equal(joined.fate_of[0], wanted ? VT_RECORD_JOINED : VT_RECORD_NONE);
		vt_recorder_joined_deinit(&joined);
		pass_of(&after, 8, 5, 101);
		assert_true(vt_recorder_join(&moment, &block, 1, &joined));
		assert_int_equal(joined.fate_of[0], wanted ? VT_RECORD_TWICE : VT_RECORD_NONE);
		vt_recorder_joined_deinit(&joined);
		vt_recorder_pass_deinit(&after);
	}
}

/* ---- stacks ---- */

struct stacks_fixture {
	struct python_image python_image;
	struct vt_python python;
	struct recorder_image image;
	struct vt_recorder_stacks stacks;
	uint64_t objects[3]; /* code objects */
	uint32_t ids[3];
};

static uint64_t field(const struct python_image *image, uint64_t object, enum vt_py_field which)
{
	uint64_t value;

	if (image->layout->at[which] == VT_PY_NONE)
		return 0;
	memcpy(&value, (const void *)(uintptr_t)(object + image->layout->at[which]), sizeof(value));
	return value;
}

static void set_references(struct stacks_fixture *f, uint64_t object, uint64_t word)
{
	uint32_t local = (uint32_t)word;

	if (f->python_image.layout->free_threaded)
		memcpy((void *)(uintptr_t)(object + 12), &local, sizeof(local));
	else
		memcpy((void *)(uintptr_t)object, &word, sizeof(word));
}

static uint64_t text_at(const struct python_image *image, uint64_t str)
{
	uint64_t length, last = 0, data = str + image->layout->at[VT_PY_UNICODE_ASCII_DATA];

	memcpy(&length, (const void *)(uintptr_t)(str + image->layout->at[VT_PY_UNICODE_LENGTH]),
	       sizeof(length));
	if (length < sizeof(last))
		memcpy(&last, (const void *)(uintptr_t)data, length);
	else
		memcpy(&last, (const void *)(uintptr_t)(data + length - sizeof(last)),
		       sizeof(last));
	return vt_recorder_text(length, last);
}

static bool has_version(const struct python_image *image)
{
	return vt_py_code_version_at(image->layout) != VT_PY_NONE;
}

static void put_version(const struct python_image *image, uint64_t object, uint32_t version)
{
	memcpy((void *)(uintptr_t)(object + vt_py_code_version_at(image->layout)), &version,
	       sizeof(version));
}

static void add_code(struct stacks_fixture *f, size_t i, uint64_t object)
{
	const struct python_image *python = &f->python_image;
	bool qualname = python->layout->at[VT_PY_CODE_QUALNAME] != VT_PY_NONE;
	struct vt_recorder_code code = {
		.object = object,
		.filename = field(python, object, VT_PY_CODE_FILENAME),
		.name = field(python, object, VT_PY_CODE_NAME),
		.qualname = field(python, object, qualname ? VT_PY_CODE_QUALNAME : VT_PY_CODE_NAME),
		.linetable = field(python, object, VT_PY_CODE_LINETABLE),
		.firstlineno = (uint32_t)field(python, object, VT_PY_CODE_FIRSTLINENO),
	};

	f->objects[i] = object;
	set_references(f, object, 1);
	if (has_version(python))
		put_version(python, object, 77 + (uint32_t)i);
	code.version = has_version(python) ? 77 + i :
					     vt_recorder_texts(text_at(python, code.name),
							       text_at(python, code.filename));
	assert_int_equal(recorder_image_add_code(&f->image, &code), i);
}

#define CODE_WORD(code, lasti) ((uint64_t)(code) << 16 | (lasti) / 2)
#define WIDE_WORD(code) ((uint64_t)(code) << 16 | VT_RECORDER_LASTI_WIDE)

/*
 * run, called by outer, called by third; outer alone; and native frames alone, two of them of the
 * first stack.
 */
static void fixture_init(struct stacks_fixture *f, size_t layout)
{
	const uint64_t three[] = { CODE_WORD(0, 4), WIDE_WORD(1), UINT64_MAX, CODE_WORD(2, 8),
				   0x1000,          0x2000,       0x3000 };
	const uint64_t one[] = { CODE_WORD(1, 4) }, native[] = { 0x1000, 0x4000, 0x3000 };

	memset(f, 0, sizeof(*f));
	python_image_init(&f->python_image, vt_python_layout_nth(layout), 4 << 20);
	python_image_start(&f->python_image, &f->python);
	recorder_image_init(&f->image);
	f->image.other = &f->python_image.src;
	add_code(f, 0, f->python_image.code);
	add_code(f, 1, python_image_add_code(&f->python_image, "outer", "/y.py"));
	add_code(f, 2, python_image_add_code(&f->python_image, "third", "/y.py"));
	f->ids[0] = recorder_image_add_stack(&f->image, three, 3, 4, 3);
	f->ids[1] = recorder_image_add_stack(&f->image, one, 1, 1, 0);
	f->ids[2] = recorder_image_add_stack(&f->image, native, 0, 0, 3);
}

static void fixture_deinit(struct stacks_fixture *f)
{
	vt_recorder_stacks_deinit(&f->stacks);
	vt_python_deinit(&f->python);
	python_image_deinit(&f->python_image);
	recorder_image_deinit(&f->image);
}

static void read_all(struct stacks_fixture *f)
{
	uint32_t trace;

	for (size_t i = 0; i < 3; i++) {
		assert_true(vt_recorder_stacks_want(&f->stacks, f->ids[i], &trace));
		assert_int_equal(trace, i);
		assert_true(vt_recorder_stacks_want(&f->stacks, f->ids[i], &trace));
		assert_int_equal(trace, i);
	}
	assert_null(vt_recorder_stacks_read(&f->image.src, f->image.addr, &f->stacks));
}

static void name_all(struct stacks_fixture *f)
{
	assert_null(vt_recorder_stacks_name(&f->stacks, &f->python, &f->image.src,
					    &f->python_image.src));
}

static void check_place(const struct stacks_fixture *f, size_t trace, uint32_t i,
			const char *function, int line)
{
	const struct vt_recorder_trace *t = &f->stacks.traces.data[trace];
	const struct vt_python_place *place;

	assert_true(i < t->n_python);
	place = &f->stacks.python.data[t->frames[i]];
	assert_int_equal(place->valid, function != NULL);
	if (!function)
		return;
	assert_string_equal(place->function, function);
	assert_int_equal(place->line, line);
}

static void check_native(const struct stacks_fixture *f, size_t trace, const uint64_t *native,
			 uint32_t n)
{
	const struct vt_recorder_trace *t = &f->stacks.traces.data[trace];

	assert_int_equal(t->n_native, n);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(f->stacks.native.data[t->frames[t->n_python + i]], native[i]);
}

static void stacks_are_named(void **state)
{
	(void)state;
	for (size_t layout = 0; vt_python_layout_nth(layout); layout++) {
		struct stacks_fixture f;

		fixture_init(&f, layout);
		read_all(&f);
		name_all(&f);
		assert_int_equal(f.stacks.n_invalid + f.stacks.n_gone, 0);
		assert_int_equal(f.stacks.python.n, 4);
		assert_int_equal(f.stacks.native.n, 4);
		check_place(&f, 0, 0, "run", python_image_line(4));
		check_place(&f, 0, 1, "outer", 10); /* not begun: its first line */
		check_place(&f, 0, 2, "third", python_image_line(8));
		check_place(&f, 1, 0, "outer", python_image_line(4));
		check_native(&f, 0, (const uint64_t[]){ 0x1000, 0x2000, 0x3000 }, 3);
		check_native(&f, 1, NULL, 0);
		check_native(&f, 2, (const uint64_t[]){ 0x1000, 0x4000, 0x3000 }, 3);
		fixture_deinit(&f);
	}
}

/* Another one with all its parts where the first had them. */
static void make_another(struct stacks_fixture *f, uint64_t object)
{
	const struct python_image *image = &f->python_image;
	uint64_t name = field(image, object, VT_PY_CODE_NAME);

	if (has_version(image))
		put_version(image, object, 99);
	else
		*(char *)(uintptr_t)(name + image->layout->at[VT_PY_UNICODE_ASCII_DATA]) ^= 1;
}

/*
 * A code object that was freed, or whose memory is another's, gives no name; the others keep
 * theirs.
 */
static void gone_code_has_no_name(void **state)
{
	static const enum vt_py_field fields[] = {
		VT_PY_CODE_FILENAME,    VT_PY_CODE_NAME,     VT_PY_CODE_LINETABLE,
		VT_PY_CODE_FIRSTLINENO, VT_PY_CODE_QUALNAME, VT_PY_OBJECT_TYPE,
	};

	(void)state;
	for (size_t layout = 0; vt_python_layout_nth(layout); layout++) {
		for (size_t way = 0; way < sizeof(fields) / sizeof(fields[0]) + 4; way++) {
			struct stacks_fixture f;
			size_t n = sizeof(fields) / sizeof(fields[0]);

			fixture_init(&f, layout);
			if (way < n && f.python_image.layout->at[fields[way]] == VT_PY_NONE) {
				fixture_deinit(&f);
				continue;
			}
			if (way < n)
				python_image_put_u64(
					&f.python_image, f.objects[1], fields[way],
					field(&f.python_image, f.objects[1], fields[way]) ^ 64);
			else if (way == n)
				set_references(&f, f.objects[1], 0);
			else if (way == n + 3)
				make_another(&f, f.objects[1]);
			else if (way == n + 1) /* a list of free blocks; an address is no count */
				set_references(
					&f, f.objects[1],
					f.python_image.layout->free_threaded ? 0 : 0x7f5500001000);
			else
				((struct vt_recorder_code *)recorder_image_at(
					f.image.head->codes.addr))[1]
					.object = 4096;
			read_all(&f);
			name_all(&f);
			check_place(&f, 0, 0, "run", python_image_line(4));
			check_place(&f, 0, 1, NULL, 0);
			check_place(&f, 0, 2, "third", python_image_line(8));
			check_place(&f, 1, 0, NULL, 0);
			assert_int_equal(f.stacks.n_invalid, 0);
			fixture_deinit(&f);
		}
	}
}

static struct stacks_fixture *changing;

static void free_code(struct recorder_image *image)
{
	(void)image;
	set_references(changing, changing->objects[1], 0);
}

static size_t layout_with_version(void)
{
	size_t layout = 0;

	while (vt_py_code_version_at(vt_python_layout_nth(layout)) == VT_PY_NONE)
		layout++;
	return layout;
}

/* It may be freed at any moment while its names are read. */
static void code_freed_meanwhile(void **state)
{
	(void)state;
	for (size_t at = 1; at < 40; at++) {
		struct stacks_fixture f;
		struct change change = { .at = at, .make = free_code };

		/* one read shows whether an object is the same */
		fixture_init(&f, layout_with_version());
		f.image.src.coherent = false;
		read_all(&f);
		changing = &f;
		f.image.reads = 0;
		f.image.arg = &change;
		f.image.after_read = change_now;
		/* The names come by way of the image, too, so that all reads are counted. */
		assert_null(
			vt_recorder_stacks_name(&f.stacks, &f.python, &f.image.src, &f.image.src));
		check_place(&f, 0, 0, "run", python_image_line(4));
		/* The last three reads are the last looks at the three objects. */
		check_place(&f, 0, 1, at < f.image.reads - 1 ? NULL : "outer", 10);
		fixture_deinit(&f);
	}
}

static void damaged_stacks_are_left_out(void **state)
{
	enum {
		NO_SUCH,
		TOO_DEEP,
		TOO_MANY_WORDS,
		TOO_FEW_WORDS,
		PAST_END,
		HUGE_FIRST,
		NO_CODE,
		HALF_WIDE,
		WIDE_LASTI,
		ARRAY,
		UNMAPPED,
		N_WAYS
	};

	(void)state;
	for (int way = 0; way < N_WAYS; way++) {
		struct stacks_fixture f;
		struct vt_recorder_stack *stack;
		uint64_t *words;
		bool all = way == ARRAY;

		fixture_init(&f, 0);
		stack = (struct vt_recorder_stack *)recorder_image_at(f.image.head->stacks.addr) +
			f.ids[0];
		words = (uint64_t *)recorder_image_at(f.image.head->words.addr) + stack->first;
		switch (way) {
		case NO_SUCH:
			f.ids[0] = 77;
			break;
		case TOO_DEEP:
			stack->n_native = VT_RECORDER_MAX_NATIVE + 1;
			break;
		case TOO_MANY_WORDS:
			stack->n_words_python = 6;
			break;
		case TOO_FEW_WORDS:
			stack->n_words_python = 2;
			break;
		case PAST_END:
			stack->first = f.image.head->words.n - 3;
			break;
		case HUGE_FIRST:
			stack->first = UINT64_MAX - 2;
			break;
		case NO_CODE:
			words[0] = CODE_WORD(3, 4);
			break;
		case HALF_WIDE:
			words[3] = WIDE_WORD(2);
			break;
		case WIDE_LASTI:
			words[2] = UINT64_MAX - 1;
			break;
		case ARRAY:
			f.image.head->stacks.n = UINT64_MAX / 8;
			f.image.head->stacks.room = UINT64_MAX / 8;
			break;
		case UNMAPPED:
			stack->first = 0;
			f.image.head->words.addr = 4096;
			all = true;
			break;
		}
		read_all(&f);
		name_all(&f);
		assert_true(f.stacks.traces.data[0].invalid);
		assert_int_equal(
			f.stacks.traces.data[0].n_python + f.stacks.traces.data[0].n_native, 0);
		assert_true(f.stacks.why[0]);
		assert_int_equal(f.stacks.n_invalid, all ? 3 : 1);
		if (!all)
			check_place(&f, 1, 0, "outer", python_image_line(4));
		fixture_deinit(&f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_the_head),
		cmocka_unit_test(finds_the_head_anywhere),
		cmocka_unit_test(finds_the_one_that_is_on),
		cmocka_unit_test(judges_the_head),
		cmocka_unit_test(reads_all_records),
		cmocka_unit_test(damaged_records_are_counted),
		cmocka_unit_test(torn_record_heals),
		cmocka_unit_test(tables_that_move),
		cmocka_unit_test(shards_that_cannot_be_read),
		cmocka_unit_test(large_tables),
		cmocka_unit_test(doomed_record_is_none),
		cmocka_unit_test(reads_the_driver),
		cmocka_unit_test(reads_the_last_ooms),
		cmocka_unit_test(knows_who_is_kept),
		cmocka_unit_test(times_are_right),
		cmocka_unit_test(joins_what_is_certain),
		cmocka_unit_test(joins_what_is_huge),
		cmocka_unit_test(joins_what_is_in_use_only),
		cmocka_unit_test(stacks_are_named),
		cmocka_unit_test(gone_code_has_no_name),
		cmocka_unit_test(code_freed_meanwhile),
		cmocka_unit_test(damaged_stacks_are_left_out),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
