/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the asker says of NVML's answer: nothing of it is believed. With the asker itself it is
 * tested in tests/functional/usage.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "usage/usage.h"

#define NUMBER 7
#define GIB (UINT64_C(1) << 30)

static struct vt_usage_record state(void)
{
	return (struct vt_usage_record){
		.kind = VT_USAGE_STATE, .number = NUMBER, .at_ns = 1000, .name = "580.159.04"
	};
}

static struct vt_usage_record device(uint32_t index)
{
	return (struct vt_usage_record){
		.kind = VT_USAGE_DEVICE,
		.number = NUMBER,
		.device = index,
		.parent = VT_USAGE_NONE,
		.minor = index,
		.gi = VT_USAGE_NONE,
		.ci = VT_USAGE_NONE,
		.flags = VT_USAGE_HAS_MEMORY | VT_USAGE_HAS_RESERVED | VT_USAGE_HAS_PROCESSES,
		.total_bytes = 80 * GIB,
		.used_bytes = 40 * GIB,
		.reserved_bytes = GIB,
		.uuid = "GPU-00000000-1111-2222-3333-444444444444",
		.pci = "00000000:01:00.0",
		.name = "NVIDIA H100",
	};
}

static struct vt_usage_record process(uint32_t on, uint32_t pid, uint64_t bytes, uint32_t kind)
{
	return (struct vt_usage_record){
		.kind = VT_USAGE_PROCESS,
		.number = NUMBER,
		.device = on,
		.pid = pid,
		.bytes = bytes,
		.gi = VT_USAGE_NONE,
		.ci = VT_USAGE_NONE,
		.flags = VT_USAGE_HAS_BYTES | kind,
	};
}

static struct vt_usage_record end(void)
{
	return (struct vt_usage_record){ .kind = VT_USAGE_END, .number = NUMBER, .at_ns = 2000 };
}

/* The last one has to be the one that ends the answer. */
static void add(struct vt_usage_reading *reading, const struct vt_usage_record *records, size_t n)
{
	for (size_t i = 0; i < n; i++)
		assert_int_equal(vt_usage_reading_add(reading, &records[i], NUMBER), i + 1 < n);
}

#define ADD(reading, ...)                                       \
	add(reading, (struct vt_usage_record[]){ __VA_ARGS__ }, \
	    sizeof((struct vt_usage_record[]){ __VA_ARGS__ }) / sizeof(struct vt_usage_record))

static void test_an_answer(void **arg)
{
	struct vt_usage_reading r = { 0 };

	(void)arg;
	ADD(&r, state(), device(0), process(0, 10, 30 * GIB, VT_USAGE_COMPUTE),
	    process(0, 11, 5 * GIB, VT_USAGE_COMPUTE), process(0, 11, 5 * GIB, VT_USAGE_GRAPHICS),
	    device(1), end());
	assert_int_equal(r.outcome, VT_USAGE_COMPLETE);
	assert_string_equal(r.driver, "580.159.04");
	assert_int_equal(r.begin_ns, 1000);
	assert_int_equal(r.end_ns, 2000);
	assert_int_equal(r.devices.n, 2);
	assert_int_equal(r.devices.data[0].total_bytes, 79 * GIB); /* as CUDA has it */
	assert_int_equal(r.devices.data[0].used_bytes, 40 * GIB);
	assert_int_equal(r.processes.n, 2); /* compute and graphics are one number */
	assert_int_equal(r.processes.data[1].bytes, 5 * GIB);
	assert_int_equal(r.processes.data[1].kinds, VT_USAGE_COMPUTE | VT_USAGE_GRAPHICS);
	vt_usage_reading_deinit(&r);
}

static void test_unknown_sizes(void **arg)
{
	struct vt_usage_record p = process(0, 10, 0, VT_USAGE_COMPUTE), d = device(0);
	struct vt_usage_reading r = { 0 };

	(void)arg;
	p.flags &= ~VT_USAGE_HAS_BYTES;
	d.flags &= ~(VT_USAGE_HAS_MEMORY | VT_USAGE_HAS_RESERVED);
	ADD(&r, state(), d, p, end());
	assert_int_equal(r.outcome, VT_USAGE_COMPLETE);
	assert_false(r.processes.data[0].bytes_known);
	assert_false(r.devices.data[0].memory_known);
	assert_int_equal(r.devices.data[0].total_bytes, 0);
	vt_usage_reading_deinit(&r);
}

static void test_instances(void **arg)
{
	struct vt_usage_record whole = device(0), instance = device(1);
	struct vt_usage_reading r = { 0 };

	(void)arg;
	whole.flags = VT_USAGE_HAS_MEMORY | VT_USAGE_MIG_MODE;
	instance.flags |= VT_USAGE_IS_MIG;
	instance.parent = 0;
	instance.gi = 1;
	instance.ci = 0;
	ADD(&r, state(), whole, instance, process(1, 10, GIB, VT_USAGE_COMPUTE), end());
	assert_int_equal(r.outcome, VT_USAGE_COMPLETE);
	assert_true(r.devices.data[0].mig_mode);
	assert_false(r.devices.data[0].processes_known);
	assert_int_equal(r.devices.data[1].parent, 0);
	vt_usage_reading_deinit(&r);
}

static void test_failed(void **arg)
{
	struct vt_usage_record s = state(), e = end();
	struct vt_usage_reading r = { 0 }, list = { 0 };

	(void)arg;
	s.state = VT_USAGE_FAILED;
	s.error = 18;
	ADD(&r, s, end());
	assert_int_equal(r.outcome, VT_USAGE_COMPLETE);
	assert_int_equal(r.state, VT_USAGE_FAILED);
	assert_int_equal(r.error, 18);
	vt_usage_reading_deinit(&r);

	e.error = 999; /* of the list of devices */
	ADD(&list, state(), e);
	assert_int_equal(list.state, VT_USAGE_FAILED);
	assert_int_equal(list.error, 999);
	vt_usage_reading_deinit(&list);
}

static void expect_nonsense(const struct vt_usage_record *records, size_t n)
{
	struct vt_usage_reading r = { 0 };

	add(&r, records, n);
	assert_int_equal(r.outcome, VT_USAGE_NONSENSE);
	assert_non_null(r.what);
	assert_int_equal(r.devices.n + r.processes.n, 0);
	vt_usage_reading_deinit(&r);
}

#define NONSENSE(...)                                                       \
	expect_nonsense((struct vt_usage_record[]){ __VA_ARGS__ },          \
			sizeof((struct vt_usage_record[]){ __VA_ARGS__ }) / \
				sizeof(struct vt_usage_record))

static void test_nonsense_of_devices(void **arg)
{
	struct vt_usage_record d;

	(void)arg;
#define CHANGED(field, value) (d = device(0), d.field = (value), d)
	NONSENSE(state(), CHANGED(device, 1));
	NONSENSE(state(), CHANGED(device, UINT32_MAX));
	NONSENSE(state(), CHANGED(total_bytes, 0));
	NONSENSE(state(), CHANGED(total_bytes, UINT64_MAX));
	NONSENSE(state(), CHANGED(used_bytes, 81 * GIB));
	NONSENSE(state(), CHANGED(used_bytes, 80 * GIB)); /* none is left for the reserved */
	NONSENSE(state(), CHANGED(reserved_bytes, UINT64_MAX));
	NONSENSE(state(), CHANGED(parent, 0));
	NONSENSE(state(), CHANGED(minor, 1u << 20));
	NONSENSE(state(), CHANGED(gi, 64));
	NONSENSE(state(), CHANGED(uuid[3], '\n'));
	NONSENSE(state(), CHANGED(name[0], '\033'));
	NONSENSE(state(), CHANGED(kind, VT_N_USAGE_RECORDS));
	NONSENSE(state(), CHANGED(number, NUMBER + 1));
	NONSENSE(state(), CHANGED(flags, VT_USAGE_IS_MIG));
#undef CHANGED
	d = device(0);
	memset(d.pci, 'x', sizeof(d.pci)); /* without an end */
	NONSENSE(state(), d);
	d = device(1);
	d.flags |= VT_USAGE_IS_MIG;
	d.parent = 0; /* is not divided */
	NONSENSE(state(), device(0), d);
}

static void test_nonsense_of_processes(void **arg)
{
	(void)arg;
	NONSENSE(state(), device(0), process(1, 10, GIB, VT_USAGE_COMPUTE));
	NONSENSE(state(), device(0), process(0, 0, GIB, VT_USAGE_COMPUTE));
	NONSENSE(state(), device(0), process(0, 4194305, GIB, VT_USAGE_COMPUTE));
	NONSENSE(state(), device(0), process(0, 10, 81 * GIB, VT_USAGE_COMPUTE));
	NONSENSE(state(), device(0), process(0, 10, UINT64_MAX, VT_USAGE_COMPUTE));
	NONSENSE(state(), device(0), process(0, 10, 60 * GIB, VT_USAGE_COMPUTE),
		 process(0, 11, 60 * GIB, VT_USAGE_COMPUTE), end());
}

static void test_too_many(void **arg)
{
	struct vt_usage_record r = state();
	struct vt_usage_reading reading = { 0 };

	(void)arg;
	assert_true(vt_usage_reading_add(&reading, &r, NUMBER));
	r = device(0);
	assert_true(vt_usage_reading_add(&reading, &r, NUMBER));
	for (uint32_t i = 0; i < VT_USAGE_MAX_PROCESSES; i++) {
		r = process(0, i + 1, 1, VT_USAGE_COMPUTE);
		assert_true(vt_usage_reading_add(&reading, &r, NUMBER));
	}
	r = process(0, VT_USAGE_MAX_PROCESSES + 1, 1, VT_USAGE_COMPUTE);
	assert_false(vt_usage_reading_add(&reading, &r, NUMBER));
	assert_int_equal(reading.outcome, VT_USAGE_NONSENSE);
	vt_usage_reading_deinit(&reading);
}

static void test_nonsense_of_the_whole(void **arg)
{
	struct vt_usage_record r = state();

	(void)arg;
	r.state = VT_N_USAGE_STATES;
	NONSENSE(r);
	r = state();
	memset(r.name, '5', sizeof(r.name));
	NONSENSE(r);
	r = end();
	r.at_ns = 999; /* before the begin */
	NONSENSE(state(), r);
	NONSENSE(end()); /* nothing was said */
}

/* What random bytes say is bounded. */
static void test_random(void **arg)
{
	struct vt_usage_reading reading;
	unsigned int seed = 1;

	(void)arg;
	for (int round = 0; round < 20000; round++) {
		reading = (struct vt_usage_reading){ 0 };
		for (int i = 0; i < 8; i++) {
			struct vt_usage_record all[] = { state(), device((uint32_t)i / 2),
							 process(0, 10, GIB, VT_USAGE_COMPUTE),
							 end() };
			struct vt_usage_record r = all[rand_r(&seed) % 4];
			unsigned char *bytes = (unsigned char *)&r;

			for (int k = rand_r(&seed) % 4; k > 0; k--)
				bytes[(size_t)rand_r(&seed) % 88] = (unsigned char)rand_r(&seed);
			if (!vt_usage_reading_add(&reading, &r, NUMBER))
				break;
		}
		for (size_t i = 0; i < reading.devices.n; i++)
			assert_true(reading.devices.data[i].used_bytes <=
				    reading.devices.data[i].total_bytes);
		for (size_t i = 0; i < reading.processes.n; i++)
			assert_true(reading.processes.data[i].device < reading.devices.n &&
				    reading.processes.data[i].pid > 0);
		vt_usage_reading_deinit(&reading);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_an_answer),
		cmocka_unit_test(test_unknown_sizes),
		cmocka_unit_test(test_instances),
		cmocka_unit_test(test_failed),
		cmocka_unit_test(test_nonsense_of_devices),
		cmocka_unit_test(test_nonsense_of_processes),
		cmocka_unit_test(test_too_many),
		cmocka_unit_test(test_nonsense_of_the_whole),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
