/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the driver has at one address, by questions that neither wait for a device nor spoil a
 * capture nor make a context. cuMemGetAddressRange() also knows arrays, but no longer answers once
 * a kernel has faulted (700); the attributes of pointers still do. They are asked one by one:
 * cuPointerGetAttributes() answers "success" for what is no pointer of CUDA. All of it was seen
 * with the driver 580.159.04.
 */
#include "vramtap/freestanding.h"

#include <cuda.h>
#include <string.h>

#include "context.h"
#include "ranges.h"

#define PTR(field, type) ((type *)shared->imports.field)

typedef CUresult address_range_fn(CUdeviceptr *base, size_t *size, CUdeviceptr at);
typedef CUresult attribute_fn(void *value, CUpointer_attribute which, CUdeviceptr at);

/*
 * Numbers, because headers before CUDA 11.3 and 12.1 lack the last ones. Drivers without one answer
 * "invalid value".
 */
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
};

/* 0 if it has none or is unknown. Narrow attributes write only a part of the value. */
static uint64_t attribute(const struct vt_probe *probe, int which, uint64_t at)
{
	const struct vt_helper_shared *shared = probe->shared;
	uint64_t value = 0;

	if (PTR(cuPointerGetAttribute, attribute_fn)(&value, (CUpointer_attribute)which, at) !=
	    CUDA_SUCCESS)
		return 0;
	return value;
}

static int contains(uint64_t start, uint64_t size, uint64_t at)
{
	return start && at >= start && at - start < size;
}

/* 1 found, 0 nothing there, -1 no answer. */
static int ask_range(const struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec)
{
	const struct vt_helper_shared *shared = probe->shared;
	CUdeviceptr base = 0;
	size_t size = 0;
	CUresult err = PTR(cuMemGetAddressRange, address_range_fn)(&base, &size, at);

	if (err == CUDA_SUCCESS && !base && size) {
		rec->start = at;
		rec->size = size;
		rec->kind = VT_RANGE_ARRAY;
		return 1;
	}
	if (err == CUDA_SUCCESS && contains(base, size, at)) {
		rec->start = base;
		rec->size = size;
		return 1;
	}
	if (err == CUDA_SUCCESS || err == CUDA_ERROR_INVALID_VALUE || err == CUDA_ERROR_NOT_FOUND)
		return 0;
	return -1;
}

static int ask_attributes(const struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec)
{
	/* Of cuMemMap's and pools' memory the range is the whole reservation. */
	int of_range = attribute(probe, ATTR_CONTEXT, at) && !attribute(probe, ATTR_MEMPOOL, at);
	uint64_t start, size;

	if (!attribute(probe, ATTR_MEMORY_TYPE, at))
		return 0;
	for (int i = 0; i < 2; i++, of_range = !of_range) {
		start = attribute(probe, of_range ? ATTR_RANGE_START : ATTR_MAPPING_BASE, at);
		size = attribute(probe, of_range ? ATTR_RANGE_SIZE : ATTR_MAPPING_SIZE, at);
		if (contains(start, size, at)) {
			rec->start = start;
			rec->size = size;
			return 1;
		}
	}
	return 0;
}

static uint8_t kind_of(const struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec)
{
	enum { HOST = 1 /* CU_MEMORYTYPE_HOST */ };

	/* Only cuMemAlloc()'s memory has it. */
	if ((uint32_t)attribute(probe, ATTR_IS_LEGACY_IPC_CAPABLE, at))
		return VT_RANGE_DEVICE;
	rec->pool = attribute(probe, ATTR_MEMPOOL, at);
	if (rec->pool)
		return VT_RANGE_POOL;
	if ((uint32_t)attribute(probe, ATTR_IS_MANAGED, at))
		return VT_RANGE_MANAGED;
	if ((uint32_t)attribute(probe, ATTR_MEMORY_TYPE, at) == HOST)
		return VT_RANGE_HOST;
	if (!attribute(probe, ATTR_CONTEXT, at))
		return VT_RANGE_MAPPED;
	return VT_RANGE_DATA;
}

static void ask_mapping(struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec)
{
	if (probe->last.physical && probe->last.kind == rec->kind &&
	    contains(probe->last.mapping, probe->last.physical, at) &&
	    probe->last.mapping + probe->last.physical - at >= rec->size) {
		rec->mapping = probe->last.mapping;
		rec->physical = probe->last.physical;
		rec->block = probe->last.block;
		return;
	}
	rec->mapping = attribute(probe, ATTR_MAPPING_BASE, at);
	rec->physical = attribute(probe, ATTR_MAPPING_SIZE, at);
	rec->block = attribute(probe, ATTR_BLOCK_ID, at);
	if (!contains(rec->mapping, rec->physical, at))
		rec->mapping = rec->physical = 0;
	probe->last = *rec;
}

/*
 * Memory of graphs has the attributes of a mapping. Yet it comes in blocks of 32 MiB, an allocation
 * need not fill its block, and the blocks are in a reservation twice as large as the device.
 */
static int is_of_graph(const struct vt_probe *probe, uint64_t at, const struct vt_range_rec *rec)
{
	const uint64_t block = UINT64_C(32) << 20, least = UINT64_C(8) << 30;

	if (!probe->by_range || rec->exportable || rec->physical != block || rec->mapping % block)
		return 0;
	return rec->start != rec->mapping || rec->size != block ||
	       attribute(probe, ATTR_RANGE_SIZE, at) >= least;
}

int vt_helper_what_is_at(struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec)
{
	int found = 0;

	memset(rec, 0, sizeof(*rec));
	if (probe->by_range) {
		found = ask_range(probe, at, rec);
		if (found < 0)
			probe->by_range = 0;
	}
	if (!probe->by_range || (probe->by_both && !found))
		found = ask_attributes(probe, at, rec);
	if (!found)
		return 0;
	if (rec->kind != VT_RANGE_ARRAY)
		rec->kind = kind_of(probe, at, rec);
	/* An array may have no attributes at all; a device has number 0, which says nothing. */
	if (rec->kind != VT_RANGE_ARRAY || attribute(probe, ATTR_MEMORY_TYPE, at))
		rec->device = (int32_t)attribute(probe, ATTR_DEVICE_ORDINAL, at);
	else
		rec->device = probe->device;
	if (rec->kind == VT_RANGE_DEVICE || rec->kind == VT_RANGE_DATA ||
	    rec->kind == VT_RANGE_MAPPED)
		ask_mapping(probe, at, rec);
	if (rec->kind == VT_RANGE_ARRAY)
		rec->physical = rec->size;
	if (rec->kind != VT_RANGE_MAPPED || !rec->physical)
		return 1;
	rec->exportable = attribute(probe, ATTR_HANDLE_TYPES, at) != 0;
	if (is_of_graph(probe, at, rec)) {
		rec->kind = VT_RANGE_GRAPH;
	} else {
		rec->start = rec->mapping;
		rec->size = rec->physical;
	}
	return 1;
}
