/* SPDX-License-Identifier: Apache-2.0 */
/* Discovery of the layout by signature, on synthetic allocators: no version is told to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "torch_image.h"
#include "walk/cuda_imports.h"
#include "walk/torch_find.h"

static void find(struct image *image, struct vt_torch_found *found)
{
	memset(found, 0, sizeof(*found));
	vt_torch_find_layout(&image->maps, &image->src, image->allocator, found);
}

static void assert_layout(const struct image *image, const struct vt_torch_found *found)
{
	struct vt_torch_layout truth, have = found->layout;

	image_layout(image, &truth);
	assert_string_equal(found->why, "");
	assert_int_equal(found->backend, VT_TORCH_NATIVE);
	assert_int_equal(found->allocator, image->allocator);
	memset(have.name, 0, sizeof(have.name));
	assert_memory_equal(&have, &truth, sizeof(truth));
}

/* With blocks to look at, every offset is found, also of a release that no table knows. */
static void test_every_release(void **state)
{
	static const char *const names[] = {
		[IMAGE_2_0] = "2.0", [IMAGE_2_2] = "2.1 to 2.2", [IMAGE_2_6] = "2.3 to 2.9", [IMAGE_2_10] = "2.10",
		[IMAGE_2_11] = "2.11 to 2.12",
		[IMAGE_2_14] = "2.13 to 2.15", [IMAGE_2_15] = "2.13 to 2.15", [IMAGE_FUTURE] = "a release not known",
	};

	(void)state;
	for (int release = 0; release < IMAGE_RELEASES; release++) {
		for (int n_private = 0; n_private < 5; n_private += 4) {
			struct vt_torch_found found;
			struct image image;

			image_init(&image, (enum image_release)release, 2, 400, false);
			image_fill(&image, 9, 400, n_private);
			image_finish(&image);
			find(&image, &found);
			assert_layout(&image, &found);
			assert_string_equal(found.layout.name, names[release]);
			assert_true(image.reads < 1500);
			image_deinit(&image);
		}
	}
}

/* Initialised, and nothing allocated yet. The block layout then follows from the pools. */
static void test_no_blocks(void **state)
{
	(void)state;
	for (int release = 0; release < IMAGE_FUTURE; release++) {
		struct vt_torch_found found;
		struct image image;

		image_init(&image, (enum image_release)release, 3, 1, false);
		image_finish(&image);
		find(&image, &found);
		assert_layout(&image, &found);
		image_deinit(&image);
	}
}

/* Only the second device has a private pool. */
static void test_private_pool_of_one_device(void **state)
{
	static const struct image_spec spec[] = { { 2 << 20, 1, VT_BLOCK_CACHED } };
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_15, 2, 10, false);
	image_add_segment(&image, image_add_private(&image, 1, 0, 9), 0x7f0000000000, 0, false, spec, 1);
	image_finish(&image);
	find(&image, &found);
	assert_layout(&image, &found);
	image_deinit(&image);
}

static void test_backends(void **state)
{
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 0, 1, false);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_UNUSED);
	image_set_backend(&image, IMAGE_ASYNC);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_ASYNC);
	image_set_backend(&image, IMAGE_PLUGGABLE);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_PLUGGABLE);
	/* a class that nobody knows and no devices in it: not a reason to say that nothing is allocated */
	image_poke64(&image, image.allocator, 0);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_UNKNOWN);
	assert_string_not_equal(found.why, "");
	image_deinit(&image);
}

/* Blocks are handed out, but where the devices are is not found: that is not "unused". */
static void test_not_unused(void **state)
{
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, 1, false);
	image_finish(&image);
	/* the vector is gone; a table of handed-out blocks has an element */
	image_poke64(&image, image.allocator + 22584, 0);
	memcpy((void *)(uintptr_t)(image.allocator + 4352), (void *)(uintptr_t)(image.dcas[0] + 1264), 32);
	image_poke64(&image, image.allocator + 4352 + 8, 7);
	*(uint8_t *)(uintptr_t)(image.allocator + 4352 + 16) = 61;
	image_poke64(&image, image.allocator + 4352 + 24, 1);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_UNKNOWN);
	image_deinit(&image);
}

struct damage {
	uint64_t offset; /* in the device's allocator */
	uint64_t value;
	const char *why;
};

static void test_refusals(void **state)
{
	static const struct damage damages[] = {
		{ 16, 2, "no vector" },                     /* the mutex is not recursive */
		{ 1024 + 24, 0x1234, "pool" },              /* the first set is none */
		{ 1024 + 96, 1, "pool" },                   /* the first pool is small */
		{ 1024 + 104, 0x1000, "owner" },            /* ... is a private one */
		{ 1264 + 16, 0, "hash table" },             /* no active_blocks */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		struct vt_torch_found found;
		struct image image;

		image_init(&image, IMAGE_2_11, 1, 100, false);
		image_fill(&image, 9, 100, 0);
		image_finish(&image);
		image_poke64(&image, image.dcas[0] + damages[i].offset, damages[i].value);
		find(&image, &found);
		assert_int_equal(found.backend, VT_TORCH_UNKNOWN);
		if (!strstr(found.why, damages[i].why))
			fail_msg("damage %zu: '%s'", i, found.why);
		image_deinit(&image);
	}
}

/* Blocks that do not look like any: the pools alone are no reason to believe. */
static void test_strange_blocks(void **state)
{
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 1, 100, false);
	image_fill(&image, 9, 100, 0);
	image_finish(&image);
	for (size_t i = 0; i < image.n_blocks; i++)
		image_poke64(&image, image_block_field(&image, i, 72), 0x1000);
	find(&image, &found);
	assert_int_equal(found.backend, VT_TORCH_UNKNOWN);
	assert_non_null(strstr(found.why, "blocks do not look like"));
	image_deinit(&image);
}

static void test_random_damage(void **state)
{
	struct image image;
	uint8_t *copy;

	(void)state;
	image_init(&image, IMAGE_2_14, 2, 200, false);
	image_fill(&image, 7, 200, 2);
	image_finish(&image);
	copy = malloc(image.used);
	memcpy(copy, image.base, image.used);
	srand(1);
	for (int round = 0; round < 600; round++) {
		struct vt_torch_found found;

		for (int i = 0; i < 10; i++) {
			size_t at = rand() % 2 ? (size_t)rand() % image.used :
						 image.dcas[0] - (uint64_t)(uintptr_t)image.base + (size_t)rand() % 6400;

			image.base[at] = (uint8_t)rand();
		}
		find(&image, &found);
		assert_true(found.backend == VT_TORCH_NATIVE || found.why[0] || found.backend != VT_TORCH_UNKNOWN);
		memcpy(image.base, copy, image.used);
	}
	free(copy);
	image_deinit(&image);
}

/* The process that runs this test has no CUDA, but a C library. */
static void test_imports(void **state)
{
	struct vt_helper_imports imports;
	struct vt_modules modules = { 0 };
	struct vt_maps maps = { 0 };
	void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD); /* not a sanitizer's function of that name */

	(void)state;
	assert_non_null(libc);
	assert_null(vt_maps_init(&maps, getpid()));
	assert_null(vt_modules_init(&modules, getpid(), &maps));
	vt_cuda_imports(&modules, &imports);
	assert_int_equal(imports.mutex_trylock, (uint64_t)(uintptr_t)dlsym(libc, "pthread_mutex_trylock"));
	assert_int_equal(imports.mutex_unlock, (uint64_t)(uintptr_t)dlsym(libc, "pthread_mutex_unlock"));
	dlclose(libc);
	assert_int_equal(imports.cuMemGetInfo, 0);
	assert_int_equal(imports.cudaMemGetInfo, 0);
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
}

/* This process has no PyTorch either. */
static void test_absent(void **state)
{
	struct vt_modules modules = { 0 };
	struct vt_maps maps = { 0 };
	struct vt_torch_found found;
	struct image image;

	(void)state;
	image_init(&image, IMAGE_2_11, 0, 1, false);
	assert_null(vt_maps_init(&maps, getpid()));
	assert_null(vt_modules_init(&modules, getpid(), &maps));
	assert_null(vt_torch_find(&modules, &maps, &image.src, &found));
	assert_int_equal(found.backend, VT_TORCH_ABSENT);
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
	image_deinit(&image);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_release),
		cmocka_unit_test(test_no_blocks),
		cmocka_unit_test(test_private_pool_of_one_device),
		cmocka_unit_test(test_backends),
		cmocka_unit_test(test_not_unused),
		cmocka_unit_test(test_refusals),
		cmocka_unit_test(test_strange_blocks),
		cmocka_unit_test(test_random_damage),
		cmocka_unit_test(test_imports),
		cmocka_unit_test(test_absent),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
