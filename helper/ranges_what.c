/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver has at one address, by questions that neither wait for a device nor spoil a
 * capture nor make a context. Most addresses have nothing, so that must be cheap to learn:
 * cuPointerGetAttributes() takes 0.1 us for it, because it answers "success" and zeros; the
 * questions that answer with an error take 0.6 us. Once a kernel has faulted (700),
 * cuMemGetAddressRange() no longer answers, the attributes still do. All of it was seen with the
 * driver 580.159.04.
 */
#include "vramtap/freestanding.h"

#include <string.h>

#include "context.h"
#include "ranges.h"
#include "vramtap/driver_abi.h"

#define PTR(field, type) ((type *)shared->imports.field)

typedef CUresult address_range_fn(CUdeviceptr *base, size_t *size, CUdeviceptr at);
typedef CUresult attribute_fn(void *value, CUpointer_attribute which, CUdeviceptr at);
typedef CUresult attributes_fn(unsigned int n, CUpointer_attribute *which, void **values,
			       CUdeviceptr at);

/* Numbers, because headers before CUDA 11.3 and 12.1 lack the last ones. */
enum {
	ATTR_CONTEXT = 1,
	ATTR_MEMORY_TYPE = 2,
	ATTR_IS_MANAGED = 8,
	ATTR_DEVICE_ORDINAL = 9,
	ATTR_IS_LEGACY_IPC_CAPABLE = 10,
	ATTR_RANGE_START = 11,
	ATTR_RANGE_SIZE = 12,
	ATTR_HANDLE_TYPES = 14,
	ATTR_MEMPOOL = 17,
	ATTR_MAPPING_SIZE = 18,
	ATTR_MAPPING_BASE = 19,
	ATTR_BLOCK_ID = 20,
	N_ATTRIBUTES
};

/* The type alone tells whether there is anything. Drivers before CUDA 12.1 lack the last three. */
static const int asked[] = {
	ATTR_MEMORY_TYPE,
	ATTR_CONTEXT,
	ATTR_IS_MANAGED,
	ATTR_DEVICE_ORDINAL,
	ATTR_IS_LEGACY_IPC_CAPABLE,
	ATTR_RANGE_START,
	ATTR_RANGE_SIZE,
	ATTR_HANDLE_TYPES,
	ATTR_MEMPOOL,
	ATTR_MAPPING_SIZE,
	ATTR_MAPPING_BASE,
	ATTR_BLOCK_ID,
};
#define N_ASKED (sizeof(asked) / sizeof(asked[0]))
#define N_OF_MAPPINGS 3

struct values {
	uint64_t of[N_ATTRIBUTES]; /* 0: it has none, or the driver does not know the question */
};

/* ---- attributes ---- */

/* Narrow attributes write only a part of the value. */
static int ask_together(const struct vt_probe *probe, uint64_t at, unsigned int n,
			struct values *values)
{
	const struct vt_helper_shared *shared = probe->shared;
	CUpointer_attribute which[N_ASKED];
	void *where[N_ASKED];

	for (unsigned int i = 0; i < n; i++) {
		which[i] = (CUpointer_attribute)asked[i];
		where[i] = &values->of[asked[i]];
		values->of[asked[i]] = 0;
	}
	return PTR(cuPointerGetAttributes, attributes_fn)(n, which, where, at) == CUDA_SUCCESS;
}

static void ask_alone(const struct vt_probe *probe, uint64_t at, unsigned int first,
		      unsigned int end, struct values *values)
{
	const struct vt_helper_shared *shared = probe->shared;

	for (unsigned int i = first; i < end; i++) {
		uint64_t value = 0;

		if (PTR(cuPointerGetAttribute, attribute_fn)(&value, (CUpointer_attribute)asked[i],
							     at) != CUDA_SUCCESS)
			value = 0;
		values->of[asked[i]] = value;
	}
}

/* 0: the address has no attributes. */
static int ask_attributes(struct vt_probe *probe, uint64_t at, struct values *values)
{
	unsigned int n = N_ASKED;

	if (probe->together && !ask_together(probe, at, 1, values))
		probe->together = 0;
	if (!probe->together)
		ask_alone(probe, at, 0, 1, values);
	if (!(uint32_t)values->of[ATTR_MEMORY_TYPE])
		return 0;
	if (probe->together && probe->mappings_apart)
		n = N_ASKED - N_OF_MAPPINGS;
	if (probe->together && !ask_together(probe, at, n, values)) {
		probe->mappings_apart = 1;
		n = N_ASKED - N_OF_MAPPINGS;
		probe->together = ask_together(probe, at, n, values);
	}
	if (!probe->together)
		n = 0;
	ask_alone(probe, at, n, N_ASKED, values);
	return 1;
}

/* ---- where the allocation begins and ends ---- */

static int contains(uint64_t start, uint64_t size, uint64_t at)
{
	return start && at >= start && at - start < size;
}

/* 1 found, 0 nothing there, -1 no answer. */
static int ask_range(struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec)
{
	const struct vt_helper_shared *shared = probe->shared;
	CUdeviceptr base = 0;
	size_t size = 0;
	CUresult err = PTR(cuMemGetAddressRange, address_range_fn)(&base, &size, at);

	if (err == CUDA_SUCCESS && !base && size) {
		rec->kind = VT_RANGE_ARRAY; /* its attributes know where it is */
		return 0;
	}
	if (err == CUDA_SUCCESS && contains(base, size, at)) {
		rec->start = base;
		rec->size = size;
		return 1;
	}
	if (err == CUDA_SUCCESS || err == CUDA_ERROR_INVALID_VALUE || err == CUDA_ERROR_NOT_FOUND)
		return 0;
	probe->error = (int)err;
	return -1;
}

static int by_attributes(const struct values *values, uint64_t at, struct vt_range_rec *rec)
{
	/* Of cuMemMap's and pools' memory the range can be the whole reservation. */
	int of_range = values->of[ATTR_CONTEXT] && !values->of[ATTR_MEMPOOL];

	for (int i = 0; i < 2; i++, of_range = !of_range) {
		uint64_t start = values->of[of_range ? ATTR_RANGE_START : ATTR_MAPPING_BASE];
		uint64_t size = values->of[of_range ? ATTR_RANGE_SIZE : ATTR_MAPPING_SIZE];

		if (contains(start, size, at)) {
			rec->start = start;
			rec->size = size;
			return 1;
		}
	}
	return 0;
}

static int find_range(struct vt_probe *probe, uint64_t at, const struct values *values,
		      struct vt_range_rec *rec)
{
	int found = 0;

	if (probe->by_range) {
		found = ask_range(probe, at, rec);
		if (found < 0)
			probe->by_range = 0;
	}
	return found > 0 || by_attributes(values, at, rec);
}

/* ---- what it is ---- */

static uint8_t kind_of(const struct values *values)
{
	enum { HOST = 1 /* CU_MEMORYTYPE_HOST */ };

	/* Only cuMemAlloc()'s memory has it. */
	if (values->of[ATTR_IS_LEGACY_IPC_CAPABLE])
		return VT_RANGE_DEVICE;
	if (values->of[ATTR_MEMPOOL])
		return VT_RANGE_POOL;
	if (values->of[ATTR_IS_MANAGED])
		return VT_RANGE_MANAGED;
	if (values->of[ATTR_MEMORY_TYPE] == HOST)
		return VT_RANGE_HOST;
	return values->of[ATTR_CONTEXT] ? VT_RANGE_DATA : VT_RANGE_MAPPED;
}

/*
 * Memory of graphs has the attributes of a mapping. Yet it comes in blocks of 32 MiB, an allocation
 * need not fill its block, and the blocks are in a reservation twice as large as the device.
 */
static int is_of_graph(const struct vt_probe *probe, const struct values *values,
		       const struct vt_range_rec *rec)
{
	const uint64_t block = UINT64_C(32) << 20, least = UINT64_C(8) << 30;

	if (!probe->by_range || rec->exportable || rec->physical != block || rec->mapping % block)
		return 0;
	return rec->start != rec->mapping || rec->size != block ||
	       values->of[ATTR_RANGE_SIZE] >= least;
}

static void take_mapping(const struct vt_probe *probe, uint64_t at, const struct values *values,
			 struct vt_range_rec *rec)
{
	rec->mapping = values->of[ATTR_MAPPING_BASE];
	rec->physical = values->of[ATTR_MAPPING_SIZE];
	rec->block = values->of[ATTR_BLOCK_ID];
	if (!contains(rec->mapping, rec->physical, at))
		rec->mapping = rec->physical = 0;
	if (rec->kind != VT_RANGE_MAPPED || !rec->physical)
		return;
	rec->exportable = values->of[ATTR_HANDLE_TYPES] != 0;
	if (is_of_graph(probe, values, rec)) {
		rec->kind = VT_RANGE_GRAPH;
	} else {
		rec->start = rec->mapping;
		rec->size = rec->physical;
	}
}

int vt_helper_what_is_at(struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec)
{
	struct values values;

	if (!ask_attributes(probe, at, &values))
		return 0;
	memset(rec, 0, sizeof(*rec));
	if (!find_range(probe, at, &values, rec))
		return 0;
	rec->device = (int32_t)values.of[ATTR_DEVICE_ORDINAL];
	if (rec->kind != VT_RANGE_ARRAY)
		rec->kind = kind_of(&values);
	rec->pool = values.of[ATTR_MEMPOOL];
	if (vt_range_has_mapping(rec->kind))
		take_mapping(probe, at, &values, rec);
	return 1;
}
