/* SPDX-License-Identifier: Apache-2.0 */
/* Our own pages, made and left untouched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "target/maps.h"
#include "target/resident.h"

#define PAGE ((size_t)4096)
#define N_PAGES 100000 /* more than are read together */

static uint8_t *area, *shared;
static uint8_t untouched[64 * PAGE], of_file[64 * PAGE] = { 1 };
static pid_t child;
static struct vt_maps maps;

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

static int setup(void **state)
{
	(void)state;
	area = mmap(NULL, N_PAGES * PAGE, PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	shared = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(area, MAP_FAILED);
	assert_ptr_not_equal(shared, MAP_FAILED);
	madvise(area, N_PAGES * PAGE, MADV_NOHUGEPAGE);
	for (size_t i = 10; i < 20; i++)
		area[i * PAGE] = 1;
	area[50000 * PAGE] = 1;
	area[(N_PAGES - 1) * PAGE] = 1;
	shared[0] = 1;
	of_file[33 * PAGE] = 2;
	child = fork();
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	succeed(vt_maps_init(&maps, child));
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	vt_maps_deinit(&maps);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	munmap(area, N_PAGES * PAGE);
	munmap(shared, 16 * PAGE);
	return 0;
}

/* How many of the n pages at p are in ranges. */
static size_t count(const struct vt_resident *resident, const uint8_t *p, size_t n)
{
	uint64_t start = (uintptr_t)p, end = start + n * PAGE;
	size_t pages = 0;

	for (size_t i = 0; i < resident->ranges.n; i++) {
		struct vt_range range = resident->ranges.data[i];

		if (range.start < start)
			range.start = start;
		if (range.end > end)
			range.end = end;
		if (range.start < range.end)
			pages += (range.end - range.start) / PAGE;
	}
	return pages;
}

/*
 * ASan's shadow is one: some terabytes of address space. Kernels without CONFIG_ANON_VMA_NAME show
 * it as any other private memory.
 */
static bool reserves_too_much(void)
{
	for (size_t i = 0; i < maps.entries.n; i++)
		if (maps.entries.data[i].end - maps.entries.data[i].start > UINT64_C(256) << 30)
			return true;
	return false;
}

static void only_pages_that_were_changed_are_in_ranges(void **state)
{
	struct vt_resident resident;
	uint64_t bytes = 0;

	(void)state;
	succeed(vt_resident_init(&resident, child, &maps, UINT64_C(1) << 32));
	assert_int_equal(count(&resident, area, N_PAGES), 12);
	assert_int_equal(count(&resident, area + 10 * PAGE, 10), 10);
	assert_int_equal(count(&resident, area + 50000 * PAGE, 1), 1);
	assert_int_equal(count(&resident, area + (N_PAGES - 1) * PAGE, 1), 1);
	assert_int_equal(count(&resident, shared, 16), 0);
	assert_in_range(count(&resident, untouched, 64), 0, 1); /* its first page has others, too */
	assert_in_range(count(&resident, of_file, 64), 1, 5);
	for (size_t i = 0; i < resident.ranges.n; i++) {
		assert_true(resident.ranges.data[i].start < resident.ranges.data[i].end);
		if (i)
			assert_true(resident.ranges.data[i - 1].end <
				    resident.ranges.data[i].start);
		bytes += resident.ranges.data[i].end - resident.ranges.data[i].start;
	}
	assert_int_equal(resident.bytes, bytes);
	if (!reserves_too_much())
		assert_false(resident.cut);
	vt_resident_deinit(&resident);
}

static void reading_makes_no_page_resident(void **state)
{
	struct vt_resident first, second;

	(void)state;
	succeed(vt_resident_init(&first, child, &maps, UINT64_C(1) << 32));
	succeed(vt_resident_init(&second, child, &maps, UINT64_C(1) << 32));
	assert_int_equal(first.bytes, second.bytes);
	vt_resident_deinit(&first);
	vt_resident_deinit(&second);
}

static void the_bound_is_kept(void **state)
{
	struct vt_resident resident;

	(void)state;
	succeed(vt_resident_init(&resident, child, &maps, 3 * PAGE));
	assert_int_equal(resident.bytes, 3 * PAGE);
	assert_true(resident.cut);
	vt_resident_deinit(&resident);
}

static void a_core_has_whole_mappings(void **state)
{
	struct vt_resident resident;

	(void)state;
	succeed(vt_resident_init_all(&resident, &maps, UINT64_C(1) << 40));
	assert_int_equal(count(&resident, area, N_PAGES), N_PAGES);
	assert_int_equal(count(&resident, shared, 16), 0);
	vt_resident_deinit(&resident);
}

static void a_process_that_ended_is_an_error(void **state)
{
	struct vt_resident resident;
	struct vt_error *err;

	(void)state;
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	err = vt_resident_init(&resident, child, &maps, 4096);
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_GONE);
	vt_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(only_pages_that_were_changed_are_in_ranges),
		cmocka_unit_test(reading_makes_no_page_resident),
		cmocka_unit_test(the_bound_is_kept),
		cmocka_unit_test(a_core_has_whole_mappings),
		cmocka_unit_test(a_process_that_ended_is_an_error),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
