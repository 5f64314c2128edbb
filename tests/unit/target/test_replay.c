/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rehearsal and its replay over a memory that changes in between, loses pages, and counts how
 * often it is asked.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "target/replay.h"

#define PAGE 4096u
#define PAGES 32
#define BASE UINT64_C(0x7f0000000000)

/* PAGES pages at BASE; every word of page i is content + i. */
struct fake {
	struct vt_memsrc src; /* first */
	uint64_t content;
	bool gone[PAGES];
	int ret; /* what every read gives; 0: works */
	int calls, pages;
	bool has_direct;
	uint64_t page[PAGE / sizeof(uint64_t)];
};

static int read_fake(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct fake *fake = (struct fake *)(void *)src;

	fake->calls++;
	fake->pages += (int)((len + PAGE - 1) / PAGE);
	if (fake->ret)
		return fake->ret;
	for (size_t i = 0; i < len; i++) {
		uint64_t page = (addr + i - BASE) / PAGE;
		uint64_t word = fake->content + page;

		if (addr + i < BASE || page >= PAGES || fake->gone[page]) {
			src->fault_addr = addr + i;
			return -EFAULT;
		}
		((uint8_t *)buf)[i] = ((uint8_t *)&word)[(addr + i) % 8];
	}
	return 0;
}

/* One call, whatever the number of pieces. */
static int readv_fake(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n)
{
	struct fake *fake = (struct fake *)(void *)src;
	int calls = fake->calls, ret = 0;

	for (size_t i = 0; i < n && !ret; i++)
		ret = read_fake(src, vec[i].addr, vec[i].buf, vec[i].len);
	fake->calls = calls + 1;
	return ret;
}

/* Page 3 only. */
static const void *direct_fake(struct vt_memsrc *src, uint64_t addr, size_t len)
{
	struct fake *fake = (struct fake *)(void *)src;

	if (!fake->has_direct || addr < BASE + 3 * PAGE || addr + len > BASE + 4 * PAGE)
		return NULL;
	for (size_t i = 0; i < PAGE / sizeof(uint64_t); i++)
		fake->page[i] = fake->content + 3;
	return (const uint8_t *)fake->page + (addr - (BASE + 3 * PAGE));
}

static const struct vt_memsrc_ops fake_ops = { .read = read_fake,
					       .readv = readv_fake,
					       .direct = direct_fake };

static struct vt_replay *create(struct fake *fake, size_t max_pages)
{
	struct vt_replay *replay = NULL;

	*fake = (struct fake){ .src.ops = &fake_ops, .content = 1000 };
	assert_null(vt_replay_create(&fake->src, max_pages, &replay));
	return replay;
}

static uint64_t word(struct vt_replay *replay, unsigned int page)
{
	uint64_t value;

	assert_int_equal(vt_mem_read_u64(vt_replay_source(replay), BASE + page * PAGE + 8, &value),
			 0);
	return value;
}

static void replay_is_one_read(void **state)
{
	struct fake fake;
	struct vt_replay *replay = create(&fake, 100);
	(void)state;

	/* Not in order, some twice, one that crosses into the next page. */
	assert_int_equal(word(replay, 20), 1020);
	assert_int_equal(word(replay, 3), 1003);
	assert_int_equal(word(replay, 21), 1021);
	assert_int_equal(word(replay, 3), 1003);
	assert_int_equal(fake.calls, 3);
	assert_null(vt_mem_direct(vt_replay_source(replay), BASE + 4 * PAGE, 8));

	uint8_t both[16];

	assert_int_equal(vt_mem_read(vt_replay_source(replay), BASE + 4 * PAGE - 8, both, 16), 0);
	assert_int_equal(both[0], 1003 & 0xff);
	assert_int_equal(both[8], 1004 & 0xff);

	vt_replay_arrange(replay);
	fake.content = 2000;
	fake.calls = fake.pages = 0;
	vt_replay_refresh(replay, NULL);
	assert_int_equal(fake.calls, 1);
	assert_int_equal(fake.pages, 4);
	for (unsigned int i = 0; i < 2; i++) {
		assert_int_equal(word(replay, 3 + i), 2003 + i);
		assert_int_equal(word(replay, 20 + i), 2020 + i);
	}
	assert_int_equal(fake.calls, 1);
	/* What was not rehearsed is there all the same. */
	assert_int_equal(word(replay, 9), 2009);
	assert_int_equal(fake.calls, 2);

	const uint64_t *direct = vt_mem_direct(vt_replay_source(replay), BASE + 20 * PAGE, PAGE);

	assert_non_null(direct);
	assert_int_equal(direct[511], 2020);
	assert_null(vt_mem_direct(vt_replay_source(replay), BASE + 20 * PAGE + 8, PAGE));
	assert_null(vt_mem_direct(vt_replay_source(replay), BASE + 20 * PAGE, SIZE_MAX));
	vt_replay_destroy(replay);
}

static void pages_come_and_go(void **state)
{
	struct fake fake;
	struct vt_replay *replay = create(&fake, 100);
	uint64_t value;
	(void)state;

	fake.gone[7] = true;
	assert_int_equal(vt_mem_read_u64(vt_replay_source(replay), BASE + 7 * PAGE + 16, &value),
			 -EFAULT);
	assert_int_equal(vt_replay_source(replay)->fault_addr, BASE + 7 * PAGE + 16);
	for (unsigned int i = 0; i < 30; i++)
		if (i != 7)
			assert_int_equal(word(replay, i), 1000 + i);
	vt_replay_arrange(replay);
	fake.content = 2000;
	fake.gone[7] = false;
	/* Two pieces, and both lose something. */
	fake.gone[2] = fake.gone[11] = true;
	vt_replay_refresh(replay, NULL);
	for (unsigned int i = 0; i < 30; i++) {
		if (!fake.gone[i])
			assert_int_equal(word(replay, i), 2000 + i);
		else
			assert_int_equal(vt_mem_read_u64(vt_replay_source(replay), BASE + i * PAGE,
							 &value),
					 -EFAULT);
	}
	vt_replay_destroy(replay);
}

static void no_more_than_it_may_keep(void **state)
{
	struct fake fake;
	struct vt_replay *replay = create(&fake, 4);
	(void)state;

	for (unsigned int i = 0; i < PAGES; i++)
		assert_int_equal(word(replay, i), 1000 + i);
	vt_replay_arrange(replay);
	fake.content = 2000;
	vt_replay_refresh(replay, NULL);
	for (unsigned int i = 0; i < PAGES; i++)
		assert_int_equal(word(replay, i), 2000 + i);
	vt_replay_destroy(replay);
}

static void copies_are_not_read_again(void **state)
{
	struct fake fake, copies = { .src.ops = &fake_ops, .content = 3000, .has_direct = true };
	struct vt_replay *replay = create(&fake, 100);
	(void)state;

	for (unsigned int i = 2; i < 5; i++)
		assert_int_equal(word(replay, i), 1000 + i);
	vt_replay_arrange(replay);
	fake.content = 2000;
	fake.calls = fake.pages = 0;
	vt_replay_refresh(replay, &copies.src);
	assert_int_equal(fake.pages, 2);
	assert_int_equal(word(replay, 2), 2002);
	assert_int_equal(word(replay, 3), 3003);
	assert_int_equal(word(replay, 4), 2004);
	vt_replay_destroy(replay);
}

static void target_is_gone(void **state)
{
	struct fake fake;
	struct vt_replay *replay = create(&fake, 100);
	uint64_t value;
	(void)state;

	for (unsigned int i = 0; i < 20; i += 2)
		assert_int_equal(word(replay, i), 1000 + i);
	vt_replay_arrange(replay);
	fake.ret = -ESRCH;
	vt_replay_refresh(replay, NULL);
	for (unsigned int i = 0; i < 20; i++)
		assert_int_equal(vt_mem_read_u64(vt_replay_source(replay), BASE + i * PAGE, &value),
				 -ESRCH);
	/* Nothing rehearsed, nothing to refresh. */
	vt_replay_destroy(replay);
	replay = create(&fake, 100);
	vt_replay_arrange(replay);
	vt_replay_refresh(replay, NULL);
	assert_int_equal(fake.calls, 0);
	vt_replay_destroy(replay);
	vt_replay_destroy(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replay_is_one_read),
		cmocka_unit_test(pages_come_and_go),
		cmocka_unit_test(no_more_than_it_may_keep),
		cmocka_unit_test(copies_are_not_read_again),
		cmocka_unit_test(target_is_gone),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
