/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The times that the recorder writes, and what the tool reads of them: also when the recorder is on
 * for so long that a record's time has come round.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "unit/helper/recorder_fakes.h"
#include "walk/recorder/recorder.h"

#define ADDR UINT64_C(0x7f0000000000)
#define ROUND (UINT64_C(1) << 32)

vt_recorder_control_fn vt_recorder_control;

static uint64_t now_ns;

static int fake_clock(int id, struct timespec *ts)
{
	(void)id;
	ts->tv_sec = (time_t)(now_ns / VT_NS_PER_S);
	ts->tv_nsec = (long)(now_ns % VT_NS_PER_S);
	return 0;
}

static void begin(void)
{
	struct vt_recorder_config config = fake_config();

	config.imports.clock_gettime = (uintptr_t)fake_clock;
	assert_int_equal(vt_recorder_control(VT_RECORD_ON, &config), VT_RECORDER_OK);
}

/* The record of an allocation at this time. */
static struct vt_recorder_block record_at(uint64_t ticks)
{
	const struct vt_recorder_shard *shard =
		&vt_recorder.shards[vt_recorder_hash(ADDR) % VT_RECORDER_SHARDS];
	const struct vt_recorder_packed *table;

	now_ns = vt_recorder.start_ns + ticks * VT_RECORDER_TICK_NS;
	vt_rec_block_put(ADDR, 512, 1, 0, vt_rec_now());
	table = (const struct vt_recorder_packed *)(uintptr_t)shard->table;
	for (uint32_t i = 0; i < shard->capacity; i++)
		if (vt_recorder_packed_addr(&table[i]) == ADDR)
			return vt_recorder_unpack(&table[i]);
	fail();
	return (struct vt_recorder_block){ 0 };
}

static void test_times(void **state)
{
	static const uint64_t all[] = { 0,         7,         ROUND / 2,         ROUND - 1,
					ROUND,     ROUND + 1, ROUND + ROUND / 2, 2 * ROUND - 1,
					2 * ROUND, 9 * ROUND };

	(void)state;
	begin();
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		struct vt_recorder_block first = record_at(all[i]), second = record_at(all[i]);
		uint64_t at = vt_recorder.start_ns + all[i] * VT_RECORDER_TICK_NS;

		/* Two blocks are two records, which a reader can tell apart. */
		assert_true(first.time != second.time || first.serial != second.serial);
		assert_int_equal(vt_recorder_time_ns(&vt_recorder, second.time, now_ns), at);
		assert_int_equal(vt_recorder_time_ns(&vt_recorder, second.time,
						     now_ns + 1000 * VT_RECORDER_TICK_NS),
				 at);
		assert_int_equal(vt_recorder_newest(&vt_recorder), all[i]);
		/* One that was made after the head was read; one that is much older. */
		assert_int_equal(vt_recorder_newer(all[i], (uint32_t)(all[i] + 9)), all[i] + 9);
		assert_int_equal(vt_recorder_newer(all[i], (uint32_t)(all[i] - all[i] / 4)),
				 all[i]);
	}
	assert_int_equal(vt_recorder_control(VT_RECORD_OFF, NULL), VT_RECORDER_OK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_times),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
