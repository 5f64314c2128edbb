/* SPDX-License-Identifier: Apache-2.0 */
/* Profiles as jaxlib writes them, whole and damaged. For real ones see functional/ask_jax.py. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "model/jax.h"
#include "model/model.h"

struct bytes {
	uint8_t data[4096];
	size_t n;
};

static void put_number(struct bytes *to, uint64_t value)
{
	for (; value >= 0x80; value >>= 7)
		to->data[to->n++] = (uint8_t)(value | 0x80);
	to->data[to->n++] = (uint8_t)value;
}

static void put_field(struct bytes *to, uint32_t field, uint64_t value)
{
	put_number(to, field << 3);
	put_number(to, value);
}

static void put_part(struct bytes *to, uint32_t field, const void *data, size_t n)
{
	put_number(to, field << 3 | 2);
	put_number(to, n);
	memcpy(to->data + to->n, data, n);
	to->n += n;
}

static void put_label(struct bytes *sample, uint64_t key, uint64_t text)
{
	struct bytes label = { .n = 0 };

	put_field(&label, 1, key);
	put_field(&label, 2, text);
	put_part(sample, 3, label.data, label.n);
}

enum { KIND = 1, BUFFER, EXECUTABLE, DEVICE, CUDA, MAKE, ONES, OWN_FILE, JAX_FILE };

static void put_sample(struct bytes *to, uint64_t bytes, bool program, bool packed)
{
	struct bytes sample = { .n = 0 }, locations = { .n = 0 }, values = { .n = 0 };

	if (packed) {
		put_number(&locations, 1);
		put_number(&locations, 2);
		put_number(&values, 3);
		put_number(&values, bytes);
		put_part(&sample, 1, locations.data, locations.n);
		put_part(&sample, 2, values.data, values.n);
	} else {
		put_field(&sample, 1, 1);
		put_field(&sample, 1, 2);
		put_field(&sample, 2, 3);
		put_field(&sample, 2, bytes);
	}
	put_label(&sample, KIND, program ? EXECUTABLE : BUFFER);
	if (!program)
		put_label(&sample, DEVICE, CUDA);
	put_part(to, 2, sample.data, sample.n);
}

static void put_place(struct bytes *to, uint64_t id, uint64_t name, uint64_t file, uint64_t line)
{
	struct bytes location = { .n = 0 }, inner = { .n = 0 }, function = { .n = 0 };

	put_field(&inner, 1, id + 10);
	put_field(&inner, 2, line);
	put_field(&location, 1, id);
	put_part(&location, 4, inner.data, inner.n);
	put_part(to, 4, location.data, location.n);
	put_field(&function, 1, id + 10);
	put_field(&function, 2, name);
	put_field(&function, 4, file);
	put_part(to, 5, function.data, function.n);
}

static struct bytes make(void)
{
	static const char *const strings[] = {
		"",       "kind", "buffer", "executable",        "device",
		"cuda:0", "make", "ones",   "/home/me/train.py", "/x/jax/_src/numpy/lax.py"
	};
	struct bytes all = { .n = 0 };

	put_sample(&all, 1000, false, true);
	put_sample(&all, 500, true, true);
	put_sample(&all, 24, false, false); /* joins the first one */
	put_place(&all, 1, ONES, JAX_FILE, 7);
	put_place(&all, 2, MAKE, OWN_FILE, 99);
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++)
		put_part(&all, 6, strings[i], strlen(strings[i]));
	return all;
}

static bool read_profile(const struct bytes *profile, struct vt_model_jax *jax,
			 struct vt_arena *arena)
{
	struct vt_error *err = vt_jax_profile(jax, arena, profile->data, profile->n);
	bool ok = !err;

	vt_error_destroy(err);
	vt_jax_finish(jax);
	return ok;
}

static void test_reads(void **state)
{
	struct bytes profile = make();
	struct vt_model_jax jax = { 0 };
	struct vt_arena arena = { 0 };

	(void)state;
	assert_true(read_profile(&profile, &jax, &arena));
	assert_true(jax.told && !jax.cut);
	assert_int_equal(jax.sites.n, 2);
	assert_int_equal(jax.sites.data[0].bytes, 1024);
	assert_int_equal(jax.sites.data[0].count, 6);
	assert_string_equal(jax.sites.data[0].device, "cuda:0");
	assert_false(jax.sites.data[0].is_program);
	assert_int_equal(jax.sites.data[0].n_frames, 2);
	assert_int_equal(jax.sites.data[0].title, 1);
	assert_string_equal(jax.sites.data[0].frames[1].file, "/home/me/train.py");
	assert_string_equal(jax.sites.data[0].frames[1].function, "make");
	assert_int_equal(jax.sites.data[0].frames[1].line, 99);
	assert_true(jax.sites.data[1].is_program);
	assert_int_equal(jax.sites.data[1].bytes, 500);
	vt_vec_deinit(&jax.sites);
	vt_arena_deinit(&arena);
}

/* What is read of a damaged one is bounded, and is all there. */
static void test_damaged(void **state)
{
	const struct bytes whole = make();
	size_t read = 0;

	(void)state;
	srand(7);
	for (int round = 0; round < 20000; round++) {
		struct bytes profile = whole;
		struct vt_model_jax jax = { 0 };
		struct vt_arena arena = { 0 };

		for (int i = rand() % 4; i >= 0; i--)
			profile.data[(size_t)rand() % profile.n] = (uint8_t)rand();
		if (rand() % 4 == 0)
			profile.n = (size_t)rand() % profile.n;

		/* Without room behind it, so that a read too far shows. */
		uint8_t *exact = malloc(profile.n + 1);

		assert_non_null(exact);
		memcpy(exact, profile.data, profile.n);

		struct vt_error *err = vt_jax_profile(&jax, &arena, exact, profile.n);

		read += !err;
		vt_error_destroy(err);
		free(exact);
		vt_jax_finish(&jax);
		for (size_t i = 0; i < jax.sites.n; i++) {
			const struct vt_model_jax_site *site = &jax.sites.data[i];

			assert_non_null(site->device);
			assert_true(site->title <= site->n_frames);
			assert_true(i == 0 || site[-1].bytes >= site->bytes);
		}
		vt_vec_deinit(&jax.sites);
		vt_arena_deinit(&arena);
	}
	assert_true(read > 1000); /* harmless damage */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_reads),
		cmocka_unit_test(test_damaged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
