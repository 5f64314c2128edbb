/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The walk of the driver's ranges, done in this process: the driver is made of functions of this
 * test, which answer from a book. What the walk finds must be what is in the book.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "ops.h"

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)
#define MAX_BOOK 200000
#define ROOM (MAX_BOOK * sizeof(struct vt_range_rec) + 65536)

enum {
	INVALID_VALUE = 1,
	NOT_FOUND = 500,
	FAULTED = 700,
	CAPTURE = 900,
};

/* ---- the driver ---- */

static struct vt_range_rec book[MAX_BOOK]; /* sorted */
static size_t n_book;
static int faulted, capturing, relaxed, spoilt, no_mapping_attributes, devices;
static int errors_together; /* attributes asked in one question, with an error; else zeros */
static int depth;           /* of the stack of contexts */
static uint64_t asked;
static uint64_t pool_reserved = 96 * MIB;

static const struct vt_range_rec *lookup(uint64_t at)
{
	size_t lo = 0, hi = n_book;

	asked++;
	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (book[mid].start + book[mid].size <= at)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo < n_book && book[lo].start <= at ? &book[lo] : NULL;
}

static int address_range(uint64_t *base, size_t *size, uint64_t at)
{
	const struct vt_range_rec *r = lookup(at);

	assert_int_equal(depth, 1);
	if (faulted)
		return FAULTED;
	if (!r)
		return NOT_FOUND;
	*base = r->kind == VT_RANGE_ARRAY ? 0 : r->start;
	*size = r->size;
	return 0;
}

static uint64_t reservation(const struct vt_range_rec *r, int size)
{
	return size ? 280 * GIB : r->start / (280 * GIB) * (280 * GIB);
}

static int attribute(void *value, int which, uint64_t at)
{
	const struct vt_range_rec *r = lookup(at);
	int whole = r && (r->kind == VT_RANGE_MAPPED || r->kind == VT_RANGE_POOL ||
			  r->kind == VT_RANGE_GRAPH);
	int in_context = r && !whole;
	uint64_t v;

	if (!r || (which >= 18 && no_mapping_attributes))
		return INVALID_VALUE;
	v = which == 1  ? (uint64_t)in_context * 0x1234 :
	    which == 2  ? (r->kind == VT_RANGE_HOST ? 1u : 2u) :
	    which == 8  ? r->kind == VT_RANGE_MANAGED :
	    which == 9  ? (uint64_t)r->device :
	    which == 10 ? r->kind == VT_RANGE_DEVICE :
	    which == 11 ? (whole ? reservation(r, 0) : r->start) :
	    which == 12 ? (whole ? reservation(r, 1) : r->size) :
	    which == 14 ? r->exportable :
	    which == 17 ? r->pool :
	    which == 18 ? (r->physical ? r->physical : r->size) :
	    which == 19 ? (r->mapping ? r->mapping : r->start) :
	    which == 20 ? r->block :
			  0;
	memcpy(value, &v, which == 2 || (which >= 8 && which <= 10) ? 4 : 8);
	return 0;
}

/* "Success" and zeros for what is no pointer of CUDA's. */
static int attributes(unsigned int n, const int *which, void **values, uint64_t at)
{
	if (errors_together)
		return faulted ? FAULTED : INVALID_VALUE;
	for (unsigned int i = 0; i < n; i++) {
		if (which[i] >= 18 && no_mapping_attributes)
			return INVALID_VALUE;
		attribute(values[i], which[i], at);
	}
	return 0;
}

static int count(int *n)
{
	*n = devices;
	return 0;
}

static int get(int *device, int ordinal)
{
	*device = ordinal;
	return 0;
}

static int state(int device, unsigned int *flags, int *active)
{
	*flags = 0;
	*active = device < devices;
	return 0;
}

static int retain(void **context, int device)
{
	*context = (void *)(uintptr_t)(0x1000 + device);
	return 0;
}

static int release(int device)
{
	return device < devices ? 0 : INVALID_VALUE;
}

static int push(void *context)
{
	(void)context;
	depth++;
	return 0;
}

static int pop(void **context)
{
	*context = NULL;
	depth--;
	return 0;
}

static int exchange(int *mode)
{
	relaxed = *mode == 2;
	*mode = 0;
	return 0;
}

static int pool_attribute(void *pool, int which, void *value)
{
	uint64_t v = which <= 6 ? pool_reserved : 48 * MIB;

	(void)pool;
	if (capturing && !relaxed) {
		spoilt = 1;
		return CAPTURE;
	}
	memcpy(value, &v, sizeof(v));
	return 0;
}

static int graph_attribute(int device, int which, uint64_t *value)
{
	(void)device;
	*value = which < 2 ? 32 * MIB : 64 * MIB;
	return 0;
}

/* ---- the book ---- */

#define A (UINT64_C(0x7f0000000000))
#define B (A + 40 * GIB)
#define POOLS (UINT64_C(0x500000000000) / (280 * GIB) * (280 * GIB))

static struct vt_range_rec *add(uint8_t kind, uint64_t start, uint64_t size)
{
	struct vt_range_rec *r = &book[n_book++];

	assert_true(n_book < MAX_BOOK);
	*r = (struct vt_range_rec){ .kind = kind, .start = start, .size = size };
	if (vt_range_has_mapping(kind)) {
		r->mapping = start / (2 * MIB) * (2 * MIB);
		r->physical = (start + size + 2 * MIB - 1) / (2 * MIB) * (2 * MIB) - r->mapping;
		r->block = r->mapping / (2 * MIB);
	}
	if (kind == VT_RANGE_POOL)
		r->pool = 0xb001;
	return r;
}

static int by_start(const void *a, const void *b)
{
	const struct vt_range_rec *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

static void write_book(void)
{
	n_book = 0;
	add(VT_RANGE_DEVICE, A, 64 * MIB);
	add(VT_RANGE_DEVICE, A + 64 * MIB, 3 * MIB + 1);
	/* a page of small ones with holes, also at its start; the next page, too */
	for (uint64_t at = A + 70 * MIB; at < A + 72 * MIB; at += 15 * KIB)
		add(VT_RANGE_DEVICE, at, 1000);
	add(VT_RANGE_DEVICE, A + 73 * MIB, 400000);
	add(VT_RANGE_DEVICE, A + 75 * MIB + 512, 300000);
	add(VT_RANGE_DATA, A + 80 * MIB, 12);
	add(VT_RANGE_DATA, A + 80 * MIB + 512, 300);
	add(VT_RANGE_MAPPED, A + GIB, 20 * MIB)->exportable = 1;
	add(VT_RANGE_MAPPED, A + GIB + 20 * MIB, 20 * MIB);
	add(VT_RANGE_MAPPED, A + 2 * GIB, 20 * MIB)->block = (A + GIB) / (2 * MIB);
	add(VT_RANGE_ARRAY, A + 3 * GIB, 64 * MIB);
	add(VT_RANGE_MANAGED, B, 16 * MIB);
	add(VT_RANGE_HOST, B + 64 * MIB, 5000);
	add(VT_RANGE_HOST, B + 64 * MIB + 8192, 5000);
	add(VT_RANGE_POOL, POOLS, 48 * MIB);
	add(VT_RANGE_POOL, POOLS + 48 * MIB, 1000);
	add(VT_RANGE_POOL, POOLS + 100 * GIB, 32 * MIB);
	add(VT_RANGE_POOL, POOLS + 200 * GIB - 6 * MIB, 2 * MIB);
	add(VT_RANGE_POOL, POOLS + 200 * GIB, 2 * MIB);
	qsort(book, n_book, sizeof(*book), by_start);
}

static const struct vt_range_area areas[] = {
	{ A - 4096, A + 10 * GIB },        { B - 8192, B + 16 * MIB },
	{ B + 64 * MIB, B + 65 * MIB },    { POOLS, POOLS + 280 * GIB },
	{ UINT64_C(1) << 63, UINT64_MAX }, /* never asked */
};

struct file {
	struct vt_helper_shared shared;
	char room[ROOM];
};

static struct file *file;

#define FN(f) (uint64_t)(uintptr_t)(f)

static void prepare(uint64_t budget_ns)
{
	struct vt_helper_imports *imports = &file->shared.imports;

	*imports = (struct vt_helper_imports){
		.cuDeviceGetCount = FN(count),
		.cuDeviceGet = FN(get),
		.cuDevicePrimaryCtxGetState = FN(state),
		.cuDevicePrimaryCtxRetain = FN(retain),
		.cuDevicePrimaryCtxRelease = FN(release),
		.cuCtxPushCurrent = FN(push),
		.cuCtxPopCurrent = FN(pop),
		.cuMemPoolGetAttribute = FN(pool_attribute),
		.cuThreadExchangeStreamCaptureMode = FN(exchange),
		.cuMemGetAddressRange = FN(address_range),
		.cuPointerGetAttribute = FN(attribute),
		.cuPointerGetAttributes = FN(attributes),
		.cuDeviceGetGraphMemAttribute = FN(graph_attribute),
	};
	memset(&file->shared.ranges, 0, sizeof(file->shared.ranges));
	memset(file->room, 0xee, 1 << 20);
	memcpy(file->room, areas, sizeof(areas));
	file->shared.args.ranges =
		(struct vt_ranges_args){ .n_areas = sizeof(areas) / sizeof(areas[0]),
					 .budget_ns = budget_ns,
					 .max_probes = 10000000,
					 .max_ranges = MAX_BOOK };
}

static uint32_t walk(uint64_t room)
{
	return vt_helper_op_ranges(&file->shared, file->room, room);
}

static const struct vt_range_rec *found(void)
{
	return (const struct vt_range_rec *)(file->room + sizeof(areas));
}

static int setup(void **test)
{
	(void)test;
	faulted = capturing = relaxed = spoilt = no_mapping_attributes = errors_together = depth =
		0;
	devices = 1;
	asked = 0;
	if (!file)
		file = calloc(1, sizeof(*file));
	write_book();
	prepare(10 * VT_NS_PER_S);
	return !file;
}

/* Found and book are equal in all that the kind has. */
static void assert_book(const struct vt_range_rec *list, uint64_t n)
{
	struct vt_range_rec *sorted = calloc(n + 1, sizeof(*sorted));

	memcpy(sorted, list, n * sizeof(*sorted));
	qsort(sorted, n, sizeof(*sorted), by_start);
	for (size_t i = 0; i < n && i < n_book; i++) {
		assert_int_equal(sorted[i].start, book[i].start);
		assert_int_equal(sorted[i].kind, book[i].kind);
		assert_int_equal(sorted[i].size, book[i].size);
		assert_int_equal(sorted[i].physical, book[i].physical);
		assert_int_equal(sorted[i].mapping, book[i].mapping);
		assert_int_equal(sorted[i].block, book[i].block);
		assert_int_equal(sorted[i].pool, book[i].pool);
		assert_int_equal(sorted[i].device, book[i].device);
		assert_int_equal(sorted[i].exportable, book[i].exportable);
	}
	assert_int_equal(n, n_book);
	free(sorted);
}

/* ---- tests ---- */

static void test_all_kinds(void **test)
{
	const struct vt_ranges_answer *answer = &file->shared.ranges;

	(void)test;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(answer->whole, 1);
	assert_book(found(), answer->n_ranges);
	assert_int_equal(answer->n_pools, 1);
	assert_int_equal(answer->pools[0].pool.handle, 0xb001);
	assert_int_equal(answer->pools[0].pool.reserved, pool_reserved);
	assert_int_equal(answer->pools[0].pool.used, 48 * MIB);
	assert_int_equal(answer->devices[0].graph_reserved, 64 * MIB);
	assert_int_equal(depth, 0);
	/* 280 GiB in steps of 2 MiB would be 143,360 questions alone. */
	assert_in_range(answer->probes, 1000, 90000);
}

/*
 * An allocation of a graph lies in blocks of 32 MiB; it can fill its block, but so can a mapping in
 * a reservation of its own.
 */
static void test_graphs(void **test)
{
	struct vt_range_rec *r;

	(void)test;
	for (uint64_t i = 0; i < 3; i++) {
		r = add(i < 2 ? VT_RANGE_GRAPH : VT_RANGE_MAPPED, A + 4 * GIB + i * 64 * MIB,
			i ? 32 * MIB : 48 * MIB);
		r->mapping = r->start;
		r->physical = 32 * MIB;
		r->exportable = i == 2;
	}
	qsort(book, n_book, sizeof(*book), by_start);
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_book(found(), file->shared.ranges.n_ranges);
}

/* The context of a process whose kernel faulted answers 700; the attributes of pointers answer. */
static void test_after_a_fault(void **test)
{
	(void)test;
	faulted = 1;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(file->shared.ranges.by_attributes, 1);
	assert_int_equal(file->shared.ranges.range_error, 700);
	/* That it is an array cannot be told. Of a pool a mapping is found; here, all of it. */
	for (size_t i = 0; i < n_book; i++)
		if (book[i].kind == VT_RANGE_ARRAY)
			book[i].kind = VT_RANGE_DATA;
	assert_book(found(), file->shared.ranges.n_ranges);
}

/* A driver before CUDA 12.1 lacks the attributes of mappings. */
static void test_old_driver(void **test)
{
	(void)test;
	no_mapping_attributes = 1;
	for (size_t i = 0; i < n_book; i++)
		if (vt_range_has_mapping(book[i].kind))
			book[i].mapping = book[i].physical = book[i].block = 0;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	for (size_t i = 0; i < n_book; i++)
		if (book[i].kind == VT_RANGE_MAPPED)
			book[i].exportable = found()[0].exportable * 0;
	assert_book(found(), file->shared.ranges.n_ranges);
}

/* The second device's memory is found even if its context is not the current one. */
static void test_several_devices(void **test)
{
	(void)test;
	devices = 2;
	for (size_t i = 0; i < n_book; i += 2)
		book[i].device = 1;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(file->shared.ranges.whole, 1);
	assert_book(found(), file->shared.ranges.n_ranges);
	assert_int_equal(file->shared.ranges.devices[1].known, 1);
}

/* It goes on where it stopped: for lack of room, and of time. */
static void test_resumes(void **test)
{
	uint64_t room = sizeof(areas) + 3 * sizeof(struct vt_range_rec);
	int calls = 0;

	(void)test;
	while (walk(room) == VT_HELPER_NO_ROOM) {
		assert_true(file->shared.room_needed > room);
		room += 7 * sizeof(struct vt_range_rec);
		assert_true(calls++ < 100);
	}
	assert_true(calls > 3);
	assert_book(found(), file->shared.ranges.n_ranges);

	prepare(1); /* each look at the clock ends a request */
	for (calls = 0; !file->shared.ranges.whole; calls++) {
		assert_int_equal(walk(ROOM), VT_HELPER_OK);
		assert_true(calls < 1000);
	}
	assert_true(calls > 10);
	assert_book(found(), file->shared.ranges.n_ranges);
}

static void test_bounds(void **test)
{
	(void)test;
	file->shared.args.ranges.max_probes = 500;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(file->shared.ranges.whole, 0);
	assert_true(file->shared.ranges.probes <= 501);
	prepare(10 * VT_NS_PER_S);
	file->shared.args.ranges.max_ranges = 5;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(file->shared.ranges.n_ranges, 5);
	assert_int_equal(file->shared.ranges.whole, 0);
	/* What the target wrote into the file cannot lead it astray. */
	prepare(10 * VT_NS_PER_S);
	file->shared.args.ranges.n_areas = UINT64_C(1) << 60;
	assert_int_equal(walk(ROOM), VT_HELPER_BAD_ARGS);
	prepare(10 * VT_NS_PER_S);
	file->shared.ranges.n_ranges = UINT64_C(1) << 60;
	assert_int_equal(walk(ROOM), VT_HELPER_BAD_ARGS);
	prepare(10 * VT_NS_PER_S);
	file->shared.imports.cuPointerGetAttribute = 0;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(file->shared.ranges.whole, 0);
}

static void test_spares_captures(void **test)
{
	(void)test;
	capturing = 1;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(file->shared.ranges.n_pools, 1);
	assert_false(spoilt);
	relaxed = 0;
	prepare(10 * VT_NS_PER_S);
	file->shared.imports.cuThreadExchangeStreamCaptureMode = 0;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(file->shared.ranges.n_pools, 0);
	assert_int_equal(file->shared.ranges.asked_pools, 0);
	assert_book(found(), file->shared.ranges.n_ranges);
	assert_false(spoilt);
}

static void test_no_context(void **test)
{
	(void)test;
	devices = 0;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_int_equal(asked, 0);
	assert_int_equal(file->shared.ranges.whole, 1);
}

/* Pages with random small allocations and random large ones, all of them found. */
static void test_random(void **test)
{
	(void)test;
	for (unsigned int seed = 1; seed < 30; seed++) {
		uint64_t at = A;

		srand(seed);
		n_book = 0;
		while (n_book < 2000 && at < A + 9 * GIB) {
			unsigned int small = (unsigned int)rand() % 40;

			/* A page of small ones begins with one, and so does each after it. */
			for (unsigned int i = 0; i < small; i++) {
				uint64_t size = 1 + (uint64_t)rand() % 70000;

				add(rand() % 2 ? VT_RANGE_DEVICE : VT_RANGE_DATA, at, size);
				at = (at + size + 511) / 512 * 512 + 512 * ((uint64_t)rand() % 30);
			}
			at = (at + 2 * MIB - 1) / (2 * MIB) * (2 * MIB);
			add(rand() % 2 ? VT_RANGE_DEVICE : VT_RANGE_MAPPED, at,
			    2 * MIB * (1 + (uint64_t)rand() % 20));
			at += book[n_book - 1].size + 2 * MIB * ((uint64_t)rand() % 30);
		}
		for (size_t i = 0; i < n_book; i++) {
			book[i].mapping = 0;
			book[i].physical = book[i].size;
			book[i].block = i;
		}
		prepare(10 * VT_NS_PER_S);
		assert_int_equal(walk(ROOM), VT_HELPER_OK);
		assert_int_equal(file->shared.ranges.n_ranges, n_book);
		for (size_t i = 0; i < n_book; i++) {
			assert_int_equal(found()[i].start, book[i].start);
			assert_int_equal(found()[i].size, book[i].size);
		}
	}
}

/* Drivers that answer questions for several attributes with errors, or lack them. */
static void test_one_by_one(void **test)
{
	(void)test;
	errors_together = 1;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_book(found(), file->shared.ranges.n_ranges);
	prepare(10 * VT_NS_PER_S);
	file->shared.imports.cuPointerGetAttributes = 0;
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_book(found(), file->shared.ranges.n_ranges);
}

static int is_found(const struct vt_range_rec *r)
{
	for (uint64_t i = 0; i < file->shared.ranges.n_ranges; i++)
		if (found()[i].start == r->start && found()[i].size == r->size)
			return 1;
	return 0;
}

/*
 * Pages whose first bytes are free. All that is larger than the distance that the answer tells is
 * found.
 */
static void test_holes_at_the_start(void **test)
{
	const struct vt_ranges_answer *answer = &file->shared.ranges;
	size_t large = 0;

	(void)test;
	srand(1);
	n_book = 0;
	add(VT_RANGE_DEVICE, A, 700);
	for (uint64_t at = A + 10 * MIB; n_book < 600; at += 10 * MIB) {
		add(VT_RANGE_DEVICE,
		    n_book % 20 == 1 ? at : at + 512 * (1 + (uint64_t)rand() % 2000),
		    512 << (n_book % 11));
		add(VT_RANGE_DEVICE, book[n_book - 1].start + 800 * KIB, 512);
	}
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_in_range(answer->step_bytes, 512, 128 * KIB);
	for (size_t i = 0; i < n_book; i++)
		if (book[i].size > answer->step_bytes) {
			assert_true(is_found(&book[i]));
			large++;
		}
	assert_true(large > 40);
	assert_true(answer->n_ranges < n_book); /* the distance says so */
}

/* Without anything that shares pages, they are asked for once. */
static void test_nothing_shared(void **test)
{
	(void)test;
	n_book = 0;
	for (uint64_t i = 0; i < 100; i++)
		add(VT_RANGE_MAPPED, A + i * 40 * MIB, 20 * MIB);
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_book(found(), 100);
	assert_int_equal(file->shared.ranges.again, 0);
	assert_int_equal(file->shared.ranges.step_bytes, 0);
}

/*
 * Reservations that touch are one area: what is smaller than a window lies between two that are
 * found, in windows before that of the second.
 */
static void test_between_reservations(void **test)
{
	const struct vt_ranges_answer *answer = &file->shared.ranges;
	const uint64_t seam = POOLS + 128 * GIB;

	(void)test;
	n_book = 0;
	add(VT_RANGE_POOL, POOLS + 64 * MIB, 2 * MIB);
	add(VT_RANGE_MAPPED, seam - 150 * MIB, 2 * MIB);
	add(VT_RANGE_MAPPED, seam - 90 * MIB, 20 * MIB);
	add(VT_RANGE_MAPPED, seam - 26 * MIB, 20 * MIB);
	add(VT_RANGE_DEVICE, seam + 2 * MIB, 64 * MIB);
	add(VT_RANGE_DEVICE, seam + 70 * MIB, 64 * MIB);
	add(VT_RANGE_POOL, seam + 100 * MIB + 34 * MIB, 2 * MIB);
	add(VT_RANGE_MAPPED, POOLS + 280 * GIB - 100 * MIB, 20 * MIB);
	add(VT_RANGE_MAPPED, POOLS + 280 * GIB - 30 * MIB, 20 * MIB);
	assert_int_equal(walk(ROOM), VT_HELPER_OK);
	assert_book(found(), answer->n_ranges);
	assert_in_range(answer->probes, 1000, 20000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_all_kinds, setup),
		cmocka_unit_test_setup(test_graphs, setup),
		cmocka_unit_test_setup(test_after_a_fault, setup),
		cmocka_unit_test_setup(test_old_driver, setup),
		cmocka_unit_test_setup(test_several_devices, setup),
		cmocka_unit_test_setup(test_resumes, setup),
		cmocka_unit_test_setup(test_bounds, setup),
		cmocka_unit_test_setup(test_spares_captures, setup),
		cmocka_unit_test_setup(test_no_context, setup),
		cmocka_unit_test_setup(test_random, setup),
		cmocka_unit_test_setup(test_one_by_one, setup),
		cmocka_unit_test_setup(test_holes_at_the_start, setup),
		cmocka_unit_test_setup(test_nothing_shared, setup),
		cmocka_unit_test_setup(test_between_reservations, setup),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
