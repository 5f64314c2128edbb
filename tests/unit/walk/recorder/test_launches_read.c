/* SPDX-License-Identifier: Apache-2.0 */
/* The recorder's launches read from outside: sound, torn, and with everything wrong that can be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>

#include "unit/walk/python/python_image.h"
#include "unit/walk/recorder/recorder_image.h"
#include "walk/recorder/launches.h"

static struct {
	struct recorder_image image;
	struct vt_recorder_launch_stream *streams;
	struct vt_recorder_launch *ring;
} target;

static void put(uint64_t number, uint32_t name)
{
	struct vt_recorder_launch *l = &target.ring[(number - 1) % VT_LAUNCH_RING];

	*l = (struct vt_recorder_launch){
		.number_state = number << VT_LAUNCH_STATE_BITS | VT_LAUNCH_SUBMITTED,
		.what = number,
		.kind = VT_LAUNCH_HANDLE,
		.name = name,
	};
	l->check = vt_recorder_launch_check(l);
}

static struct vt_recorder_launch_stream *fill(uint64_t launches, uint64_t done)
{
	struct vt_recorder_launch_stream *s;

	recorder_image_init(&target.image);
	target.streams = recorder_image_at(
		recorder_image_alloc(&target.image, VT_LAUNCH_STREAMS * sizeof(*target.streams)));
	target.ring = recorder_image_at(
		recorder_image_alloc(&target.image, VT_LAUNCH_RING * sizeof(*target.ring)));
	s = &target.streams[7];
	*s = (struct vt_recorder_launch_stream){
		.key = 0x1000,
		.handle = 0x1000,
		.ring = (uintptr_t)target.ring,
		.launches_open = launches | 2 * VT_LAUNCH_OPEN,
		.done = done,
		.ready = 1,
	};
	for (uint64_t i = launches > VT_LAUNCH_RING ? launches - VT_LAUNCH_RING + 1 : 1;
	     i <= launches; i++)
		put(i, 0);
	target.image.head->launches.streams = (uintptr_t)target.streams;
	return s;
}

static void read_into(struct vt_recorder_launches_pass *pass)
{
	struct vt_error *err;

	memset(pass, 0, sizeof(*pass));
	err = vt_recorder_launches_read(&target.image.src, target.image.addr, pass);
	assert_null(err);
}

static void end(struct vt_recorder_launches_pass *pass)
{
	vt_recorder_launches_deinit(pass);
	recorder_image_deinit(&target.image);
}

/* From the first that may run on; the last ones where everything has ended. */
static void reads_what_may_run(void **state)
{
	static const struct {
		uint64_t launches, done, first, n, unkept;
	} cases[] = {
		{ 0, 0, 0, 0, 0 },
		{ 10, 4, 5, 6, 0 },
		{ 10, 10, 3, 8, 0 },
		{ 3, 3, 1, 3, 0 },
		{ 5000, 4000, 4001, 1000, 0 },
		{ 5000, 100, 5000 - VT_LAUNCH_RING + 1, VT_LAUNCH_RING, 4900 - VT_LAUNCH_RING },
		{ 10, UINT64_MAX, 3, 8, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_recorder_launches_pass pass;
		const struct vt_recorder_launch_list *list;

		fill(cases[i].launches, cases[i].done);
		read_into(&pass);
		assert_int_equal(pass.streams.n, 1);
		assert_int_equal(pass.total, cases[i].launches);
		list = &pass.streams.data[0];
		assert_int_equal(list->n, cases[i].n);
		assert_int_equal(list->n_unkept, cases[i].unkept);
		for (size_t k = 0; k < list->n; k++)
			assert_int_equal(list->launches[k].number, cases[i].first + k);
		assert_int_equal(pass.n_damaged, 0);
		end(&pass);
	}
}

static void damaged_records_are_left_out(void **state)
{
	struct vt_recorder_launches_pass pass;

	(void)state;
	fill(20, 0);
	target.ring[4].what++;
	target.ring[5].kind = 77;
	target.ring[5].check = vt_recorder_launch_check(&target.ring[5]);
	put(7 + VT_LAUNCH_RING, 0);                        /* a later one has its place by now */
	target.ring[9] = (struct vt_recorder_launch){ 0 }; /* not written yet */
	read_into(&pass);
	assert_int_equal(pass.streams.data[0].n, 16);
	assert_int_equal(pass.streams.data[0].n_unkept, 4);
	assert_int_equal(pass.n_damaged, 2);
	end(&pass);
}

static void names_are_bounded(void **state)
{
	static const uint32_t names[] = { 1, 6, 16 /* within a name */, 17, UINT32_MAX };
	struct vt_recorder_launches_pass pass;
	const struct vt_recorder_launched *l;
	char *text;

	(void)state;
	fill(5, 0);
	text = recorder_image_at(recorder_image_alloc(&target.image, 16));
	memcpy(text, "name\0another_one", 16); /* the last one without an end */
	target.image.head->launches.names = (uintptr_t)text;
	target.image.head->launches.names_n = target.image.head->launches.names_room = 16;
	for (uint64_t i = 0; i < 5; i++)
		put(i + 1, names[i]);
	read_into(&pass);
	l = pass.streams.data[0].launches;
	assert_string_equal(l[0].name, "name");
	assert_string_equal(l[1].name, "another_one");
	assert_null(l[2].name);
	assert_null(l[3].name);
	assert_null(l[4].name);
	end(&pass);
}

static void tables_that_cannot_be_read(void **state)
{
	struct vt_recorder_launches_pass pass;

	(void)state;
	fill(20, 0)->ring = 64;
	target.image.head->launches.names = 64;
	target.image.head->launches.names_n = target.image.head->launches.names_room = UINT32_MAX;
	read_into(&pass);
	assert_int_equal(pass.streams.data[0].n, 0);
	assert_int_equal(pass.streams.data[0].n_unkept, 20);
	vt_recorder_launches_deinit(&pass);
	target.image.head->launches.streams = 64;
	read_into(&pass);
	assert_true(pass.unread);
	end(&pass);
}

/* Whatever is there, reading ends and every number is within bounds. */
static void noise_does_no_harm(void **state)
{
	(void)state;
	srandom(1);
	for (int round = 0; round < 50; round++) {
		struct vt_recorder_launches_pass pass;

		fill(30, 3);
		for (int i = 0; i < 200; i++)
			((uint8_t *)target.streams)[(unsigned long)random() %
						    (VT_LAUNCH_STREAMS * sizeof(*target.streams))] =
				(uint8_t)random();
		for (int i = 0; i < 200; i++)
			((uint8_t *)target.ring)[(unsigned long)random() % 4096] =
				(uint8_t)random();
		read_into(&pass);
		for (size_t i = 0; i < pass.streams.n; i++)
			assert_true(pass.streams.data[i].n <= VT_LAUNCH_RING);
		end(&pass);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_may_run),
		cmocka_unit_test(damaged_records_are_left_out),
		cmocka_unit_test(names_are_bounded),
		cmocka_unit_test(tables_that_cannot_be_read),
		cmocka_unit_test(noise_does_no_harm),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
