/* SPDX-License-Identifier: Apache-2.0 */
#include "model/kernels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/format.h"
#include "model/cxxname.h"

#define MAX_NAME 120 /* bytes of a kernel's name in a sentence */

void vt_model_kernels_deinit(struct vt_model_kernels *kernels)
{
	vt_vec_deinit(&kernels->kernels);
	vt_vec_deinit(&kernels->places);
	vt_vec_deinit(&kernels->raised);
}

const char *vt_kernels_state_name(unsigned int state)
{
#define NAME(name, text) [VT_KERNELS_##name] = (text),
	static const char *const names[] = { VT_KERNELS_STATES(NAME) };
#undef NAME

	return state < VT_N_KERNELS_STATES ? names[state] : NULL;
}

static int by_kernel_and_pc(const void *a, const void *b)
{
	const struct vt_model_kernel_place *x = a, *y = b;

	if (x->kernel != y->kernel)
		return x->kernel < y->kernel ? -1 : 1;
	return (x->pc > y->pc) - (x->pc < y->pc);
}

static int by_kernel_and_threads(const void *a, const void *b)
{
	const struct vt_model_kernel_place *x = a, *y = b;

	if (x->kernel != y->kernel || x->threads == y->threads)
		return by_kernel_and_pc(a, b);
	return x->threads > y->threads ? -1 : 1;
}

static void join(struct vt_model_kernels *kernels)
{
	struct vt_model_kernel_place *places = kernels->places.data;
	size_t n = 0;

	for (size_t i = 0; i < kernels->places.n; i++) {
		if (n && places[n - 1].kernel == places[i].kernel &&
		    places[n - 1].pc == places[i].pc)
			places[n - 1].threads += places[i].threads;
		else
			places[n++] = places[i];
	}
	kernels->places.n = n;
}

/* Instructions behind this are of other functions. No kernel has more code. */
#define MAX_CODE (UINT64_C(16) << 20)

static void keep_largest(struct vt_model_kernels *kernels)
{
	struct vt_model_kernel_place *places = kernels->places.data;
	size_t n = 0;

	for (size_t i = 0; i < kernels->places.n; i++) {
		struct vt_model_kernel_place place = places[i];
		struct vt_model_kernel *kernel = &kernels->kernels.data[place.kernel];

		kernel->threads += place.threads;
		if (kernel->n_places == VT_KERNELS_MAX_PLACES) {
			kernel->more_places++;
			continue;
		}
		if (!kernel->n_places++)
			kernel->first_place = n;
		place.have_offset = kernel->have_begin && place.pc >= kernel->begin &&
				    place.pc - kernel->begin < MAX_CODE;
		place.offset = place.have_offset ? place.pc - kernel->begin : 0;
		places[n++] = place;
	}
	kernels->places.n = n;
}

void vt_model_kernels_finish(struct vt_model_kernels *kernels)
{
	if (!kernels->places.n)
		return;
	qsort(kernels->places.data, kernels->places.n, sizeof(*kernels->places.data),
	      by_kernel_and_pc);
	join(kernels);
	qsort(kernels->places.data, kernels->places.n, sizeof(*kernels->places.data),
	      by_kernel_and_threads);
	keep_largest(kernels);
}

/* Each is below 2^32, so only the product of three may be too large; no device has such a grid. */
static uint64_t product(const uint32_t dim[3])
{
	uint64_t xy = (uint64_t)dim[0] * dim[1], all;

	return __builtin_mul_overflow(xy, (uint64_t)dim[2], &all) ? 0 : all;
}

uint64_t vt_kernel_blocks(const struct vt_model_kernel *kernel)
{
	return product(kernel->grid_dim);
}

uint64_t vt_kernel_block_threads(const struct vt_model_kernel *kernel)
{
	return product(kernel->block_dim);
}

static bool are_on_one_device(const struct vt_model_kernels *kernels)
{
	for (size_t i = 1; i < kernels->kernels.n; i++)
		if (kernels->kernels.data[i].device != kernels->kernels.data[0].device)
			return false;
	return true;
}

static void say_size(struct vt_str *text, const struct vt_model_kernel *kernel)
{
	uint64_t blocks = vt_kernel_blocks(kernel), threads = vt_kernel_block_threads(kernel);
	char number[VT_NUM_MAX];

	if (!blocks || !threads)
		return;
	vt_str_addf(text, " (%s block%s of ", vt_format_count(number, blocks),
		    blocks == 1 ? "" : "s");
	vt_str_addf(text, "%s thread%s)", vt_format_count(number, threads),
		    threads == 1 ? "" : "s");
}

static void say_name(struct vt_str *text, const struct vt_model_kernel *kernel)
{
	struct vt_str name = { 0 };

	vt_cxx_short_name(&name, kernel->name, strlen(kernel->name), "…");
	vt_str_addf(text, "%.*s%s", MAX_NAME, vt_str_get(&name), name.n > MAX_NAME ? "…" : "");
	text->failed |= name.failed;
	vt_str_deinit(&name);
}

/* It waits for those that it has launched. */
static bool sleeps(const struct vt_model_kernel *kernel)
{
	return !strcmp(kernel->status, "Sleeping");
}

/* Of those that run, the one on most of the device, NULL none; and how many there are. */
static const struct vt_model_kernel *largest(const struct vt_model_kernels *kernels, size_t *n)
{
	const struct vt_model_kernel *found = NULL;

	for (size_t i = 0; i < kernels->kernels.n; i++) {
		const struct vt_model_kernel *kernel = &kernels->kernels.data[i];

		if (sleeps(kernel))
			continue;
		++*n;
		if (!found || kernel->sms > found->sms)
			found = kernel;
	}
	return found;
}

void vt_kernels_say(struct vt_str *text, const struct vt_model_kernels *kernels)
{
	const struct vt_model_kernel *first;
	size_t n = kernels->more;
	char number[VT_NUM_MAX];

	if (kernels->state != VT_KERNELS_TOLD)
		return;
	first = largest(kernels, &n);
	if (!first)
		return;
	if (n == 1) {
		say_name(text, first);
		vt_str_addf(text, " runs on GPU %d", first->device);
		say_size(text, first);
		return;
	}
	vt_str_addf(text, "%s kernels run on ", vt_format_count(number, n));
	if (are_on_one_device(kernels))
		vt_str_addf(text, "GPU %d, one of them ", first->device);
	else
		vt_str_add(text, "GPUs, one of them ");
	say_name(text, first);
	say_size(text, first);
}

/* "40", "(16, 32)" */
static void add_dim(struct vt_str *text, const uint32_t dim[3])
{
	int n = dim[2] > 1 ? 3 : dim[1] > 1 ? 2 : 1;

	vt_str_add(text, n > 1 ? "(" : "");
	for (int i = 0; i < n; i++)
		vt_str_addf(text, "%s%" PRIu32, i ? ", " : "", dim[i]);
	vt_str_add(text, n > 1 ? ")" : "");
}

void vt_kernel_add_shape(struct vt_str *text, const uint32_t grid[3], const uint32_t block[3])
{
	if (!grid[0])
		return;
	vt_str_add(text, "<<<");
	add_dim(text, grid);
	vt_str_add(text, ", ");
	add_dim(text, block);
	vt_str_add(text, ">>>");
}
