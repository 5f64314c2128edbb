/* SPDX-License-Identifier: Apache-2.0 */
/* Virtual memory management: address reservations, physical handles, and mappings between them. */
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HANDLE_MAGIC 0x4c444e48
#define PROP_SIZE 32 /* sizeof(CUmemAllocationProp) */
#define PROP_HANDLE_TYPES 4

struct sim_handle {
	uint32_t magic;
	int device, refs, maps;
	uint64_t size, id;
	unsigned char prop[PROP_SIZE];
};

struct sim_map {
	uint64_t base, size;
	struct sim_handle *handle;
	unsigned access;
};

/* What a SIM_RESERVED range owns: its mappings, sorted. */
struct maps {
	void *mmap_base;
	uint64_t mmap_size;
	size_t n, max;
	struct sim_map *map;
};

static uint64_t next_id = 1ull << 32;

static int handle_ok(const struct sim_handle *h)
{
	return h && h->magic == HANDLE_MAGIC;
}

/* The first mapping that ends above addr. */
static size_t map_rank(const struct maps *m, uint64_t addr)
{
	size_t lo = 0, hi = m->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;

		if (m->map[mid].base + m->map[mid].size <= addr)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static struct sim_map *map_find(const struct maps *m, uint64_t addr)
{
	size_t i = map_rank(m, addr);

	return i < m->n && m->map[i].base <= addr ? &m->map[i] : NULL;
}

static struct maps *maps_at(uint64_t addr, uint64_t size)
{
	struct sim_range *r = sim_range_find_locked(addr);

	if (!r || r->kind != SIM_RESERVED || size > r->base + r->size - addr)
		return NULL;
	return r->owner;
}

int sim_vmm_reserve(uint64_t size, uint64_t align, uint64_t hint, uint64_t *addr)
{
	struct maps *m;
	uint64_t base;
	int err;

	(void)hint;
	if (!size || size % SIM_PAGE || (align & (align - 1)))
		return SIM_EINVAL;
	if (align < SIM_PAGE)
		align = SIM_PAGE;
	m = calloc(1, sizeof(*m));
	if (!m)
		return SIM_ENOMEM;
	m->mmap_size = size + align;
	m->mmap_base = mmap(NULL, m->mmap_size, PROT_NONE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (m->mmap_base == MAP_FAILED) {
		free(m);
		return SIM_ENOMEM;
	}
	base = ((uint64_t)(uintptr_t)m->mmap_base + align - 1) & ~(align - 1);
	sim_lock();
	err = sim_range_add_locked(base, size, SIM_RESERVED, -1, m, NULL);
	sim_unlock();
	if (err) {
		munmap(m->mmap_base, m->mmap_size);
		free(m);
		return err;
	}
	*addr = base;
	return SIM_OK;
}

int sim_vmm_unreserve(uint64_t addr, uint64_t size)
{
	struct sim_range *r;
	struct maps *m = NULL;

	sim_lock();
	r = sim_range_find_locked(addr);
	if (r && r->kind == SIM_RESERVED && r->base == addr && r->size == size) {
		m = r->owner;
		if (m->n)
			m = NULL; /* still mapped */
		else
			sim_range_del_locked(r);
	}
	sim_unlock();
	if (!m)
		return SIM_EINVAL;
	munmap(m->mmap_base, m->mmap_size);
	free(m->map);
	free(m);
	return SIM_OK;
}

int sim_vmm_create(int device, uint64_t size, const void *prop, struct sim_handle **handle)
{
	struct sim_handle *h;
	int err;

	if (!size || size % SIM_PAGE)
		return SIM_EINVAL;
	h = calloc(1, sizeof(*h));
	if (!h)
		return SIM_ENOMEM;
	sim_lock();
	err = sim_budget_take_locked(device, size);
	h->id = next_id++;
	sim_unlock();
	if (err) {
		free(h);
		return err;
	}
	h->magic = HANDLE_MAGIC;
	h->device = device;
	h->refs = 1;
	h->size = size;
	memcpy(h->prop, prop, PROP_SIZE);
	*handle = h;
	return SIM_OK;
}

static void handle_put(struct sim_handle *h)
{
	if (h->refs || h->maps)
		return;
	sim_budget_give_locked(h->device, h->size);
	h->magic = 0;
	free(h);
}

int sim_vmm_release(struct sim_handle *handle)
{
	int err = SIM_EINVAL;

	sim_lock();
	if (handle_ok(handle) && handle->refs) {
		handle->refs--;
		handle_put(handle);
		err = SIM_OK;
	}
	sim_unlock();
	return err;
}

static int map_locked(struct maps *m, uint64_t addr, struct sim_handle *handle)
{
	size_t i = map_rank(m, addr);

	if (i < m->n && m->map[i].base < addr + handle->size)
		return SIM_EINVAL; /* overlaps */
	if (m->n == m->max) {
		size_t max = m->max ? m->max * 2 : 64;
		struct sim_map *grown = realloc(m->map, max * sizeof(*grown));

		if (!grown)
			return SIM_ENOMEM;
		m->map = grown;
		m->max = max;
	}
	memmove(&m->map[i + 1], &m->map[i], (m->n - i) * sizeof(*m->map));
	m->map[i] = (struct sim_map){ .base = addr, .size = handle->size, .handle = handle };
	m->n++;
	handle->maps++;
	return SIM_OK;
}

int sim_vmm_map(uint64_t addr, uint64_t size, uint64_t offset, struct sim_handle *handle)
{
	struct maps *m;
	int err = SIM_EINVAL;

	sim_lock();
	m = maps_at(addr, size);
	if (m && handle_ok(handle) && !offset && size == handle->size && !(addr % SIM_PAGE))
		err = map_locked(m, addr, handle);
	sim_unlock();
	return err;
}

int sim_vmm_unmap(uint64_t addr, uint64_t size)
{
	struct maps *m;
	size_t first, end;

	sim_lock();
	m = maps_at(addr, size);
	first = m ? map_rank(m, addr) : 0;
	end = first;
	while (m && end < m->n && m->map[end].base < addr + size)
		end++;
	if (!m || first == end || m->map[first].base < addr ||
	    m->map[end - 1].base + m->map[end - 1].size > addr + size) {
		sim_unlock();
		return SIM_EINVAL;
	}
	for (size_t i = first; i < end; i++) {
		m->map[i].handle->maps--;
		handle_put(m->map[i].handle);
	}
	memmove(&m->map[first], &m->map[end], (m->n - end) * sizeof(*m->map));
	m->n -= end - first;
	sim_unlock();
	return SIM_OK;
}

int sim_vmm_access(uint64_t addr, uint64_t size, unsigned flags)
{
	uint64_t at = addr;
	struct maps *m;

	sim_lock();
	m = maps_at(addr, size);
	while (m && at < addr + size) {
		struct sim_map *map = map_find(m, at);

		if (!map)
			break;
		map->access = flags;
		at = map->base + map->size;
	}
	sim_unlock();
	return m && at >= addr + size ? SIM_OK : SIM_EINVAL;
}

int sim_vmm_access_get(uint64_t addr, unsigned long long *flags)
{
	struct maps *m;
	struct sim_map *map;

	sim_lock();
	m = maps_at(addr, 1);
	map = m ? map_find(m, addr) : NULL;
	if (map)
		*flags = map->access;
	sim_unlock();
	return map ? SIM_OK : SIM_EINVAL;
}

int sim_vmm_retain(uint64_t addr, struct sim_handle **handle)
{
	struct maps *m;
	struct sim_map *map;

	sim_lock();
	m = maps_at(addr, 1);
	map = m ? map_find(m, addr) : NULL;
	if (map) {
		map->handle->refs++;
		*handle = map->handle;
	}
	sim_unlock();
	return map ? SIM_OK : SIM_EINVAL;
}

int sim_vmm_prop(struct sim_handle *handle, void *prop)
{
	if (!handle_ok(handle))
		return SIM_EINVAL;
	memcpy(prop, handle->prop, PROP_SIZE);
	return SIM_OK;
}

int sim_vmm_where_locked(struct sim_range *range, uint64_t addr, struct sim_where *where)
{
	struct sim_map *map = map_find(range->owner, addr);

	*where = (struct sim_where){ .range_base = range->base,
				     .range_size = range->size,
				     .kind = SIM_RESERVED,
				     .device = -1 };
	if (!map) {
		where->base = range->base;
		where->size = range->size;
		return SIM_OK;
	}
	where->base = map->base;
	where->size = map->size;
	where->device = map->handle->device;
	where->mapped = 1;
	where->id = map->handle->id;
	where->mapping_base = map->base;
	where->mapping_size = map->size;
	where->block = map->handle->id;
	memcpy(&where->handle_types, map->handle->prop + PROP_HANDLE_TYPES,
	       sizeof(where->handle_types));
	return SIM_OK;
}
