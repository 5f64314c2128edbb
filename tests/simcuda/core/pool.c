/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory pools (cudaMallocAsync), and the pool of graphs' memory: each has address space of its own
 * and grows by blocks of 32 MiB. What is freed stays reserved up to the release threshold.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct block {
	unsigned live; /* allocations in it */
	int reserved;
	uint64_t id;
};

struct sim_pool {
	uint32_t magic;
	int device, of_graphs;
	uint64_t base;
	size_t n_blocks;
	struct block *blocks;
	uint64_t used, used_high, reserved, reserved_high, threshold;
	int reuse[4];
};

#define POOL_MAGIC 0x4c4f4f50
#define SLOT 512ull

enum { /* CUmemPool_attribute; 1 to 3 are ints, the others 64 bits wide */
       ATTR_RELEASE_THRESHOLD = 4,
       ATTR_RESERVED_CURRENT,
       ATTR_RESERVED_HIGH,
       ATTR_USED_CURRENT,
       ATTR_USED_HIGH,
};

static struct sim_pool defaults[SIM_MAX_DEVICES], of_graphs[SIM_MAX_DEVICES];
static uint64_t next_block = 1ull << 40;

static uint64_t round_up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static struct sim_pool *pool_at(struct sim_pool *pool, int device)
{
	pool->magic = POOL_MAGIC;
	pool->device = device;
	return pool;
}

struct sim_pool *sim_pool_default(int device)
{
	return pool_at(&defaults[device], device);
}

/* It keeps everything. */
struct sim_pool *sim_pool_of_graphs(int device)
{
	of_graphs[device].of_graphs = 1;
	of_graphs[device].threshold = UINT64_MAX;
	return pool_at(&of_graphs[device], device);
}

static struct sim_pool *current[SIM_MAX_DEVICES]; /* NULL: the default one */

struct sim_pool *sim_pool_current(int device)
{
	return current[device] ? current[device] : sim_pool_default(device);
}

void sim_pool_set_current(int device, struct sim_pool *pool)
{
	current[device] = pool;
}

int sim_pool_device(const struct sim_pool *pool)
{
	return pool->device;
}

int sim_pool_valid(const struct sim_pool *pool)
{
	return pool && pool->magic == POOL_MAGIC;
}

int sim_pool_create(int device, struct sim_pool **pool)
{
	struct sim_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return SIM_ENOMEM;
	*pool = pool_at(p, device);
	return SIM_OK;
}

/* Twice the memory, as real pools have it. */
static int open_locked(struct sim_pool *p)
{
	uint64_t size = round_up(sim_config.mem_bytes * 2, SIM_POOL_BLOCK);
	void *at;

	if (p->base)
		return SIM_OK;
	p->n_blocks = size / SIM_POOL_BLOCK;
	p->blocks = calloc(p->n_blocks, sizeof(*p->blocks));
	if (!p->blocks)
		return SIM_ENOMEM;
	at = mmap(NULL, size + SIM_POOL_BLOCK, PROT_NONE,
		  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (at == MAP_FAILED) {
		free(p->blocks);
		p->blocks = NULL;
		return SIM_ENOMEM;
	}
	p->base = round_up((uint64_t)(uintptr_t)at, SIM_POOL_BLOCK);
	return SIM_OK;
}

static size_t block_at(const struct sim_pool *p, uint64_t addr)
{
	return (size_t)((addr - p->base) / SIM_POOL_BLOCK);
}

uint64_t sim_pool_block(const struct sim_pool *pool, uint64_t addr, uint64_t *base)
{
	*base = pool->base + block_at(pool, addr) * SIM_POOL_BLOCK;
	return pool->blocks[block_at(pool, addr)].id;
}

/* The first hole that is large enough. */
static int place_locked(const struct sim_pool *p, uint64_t size, uint64_t *addr)
{
	uint64_t at = p->base, end = p->base + p->n_blocks * SIM_POOL_BLOCK;

	for (;;) {
		struct sim_range *r = sim_range_from_locked(at);
		uint64_t limit = r && r->base < end ? r->base : end;

		if (limit - at >= size) {
			*addr = at;
			return SIM_OK;
		}
		if (limit == end)
			return SIM_ENOMEM;
		at = round_up(r->base + r->size, SLOT);
	}
}

static void drop_kept_locked(struct sim_pool *p, uint64_t keep)
{
	for (size_t i = 0; i < p->n_blocks && p->reserved > keep; i++) {
		if (!p->blocks[i].reserved || p->blocks[i].live)
			continue;
		p->blocks[i].reserved = 0;
		p->reserved -= SIM_POOL_BLOCK;
		sim_budget_give_locked(p->device, SIM_POOL_BLOCK);
	}
}

static void leave_locked(struct sim_pool *p, uint64_t addr, uint64_t size)
{
	for (size_t i = block_at(p, addr); i <= block_at(p, addr + size - 1); i++)
		p->blocks[i].live--;
}

static int enter_locked(struct sim_pool *p, uint64_t addr, uint64_t size)
{
	for (size_t i = block_at(p, addr); i <= block_at(p, addr + size - 1); i++) {
		struct block *b = &p->blocks[i];

		if (!b->reserved) {
			if (sim_budget_take_locked(p->device, SIM_POOL_BLOCK)) {
				if (i > block_at(p, addr))
					leave_locked(p, addr, p->base + i * SIM_POOL_BLOCK - addr);
				return SIM_ENOMEM;
			}
			b->reserved = 1;
			b->id = next_block++;
			p->reserved += SIM_POOL_BLOCK;
		}
		b->live++;
	}
	return SIM_OK;
}

static int alloc_locked(struct sim_pool *p, uint64_t size, uint64_t *addr)
{
	uint64_t bytes = round_up(size, SLOT);
	int err = open_locked(p);

	if (!err)
		err = place_locked(p, bytes, addr);
	if (!err)
		err = enter_locked(p, *addr, bytes);
	if (err)
		return err;
	err = sim_range_add_locked(*addr, size, p->of_graphs ? SIM_GRAPH : SIM_ASYNC, p->device, p,
				   NULL);
	if (err) {
		leave_locked(p, *addr, bytes);
		return err;
	}
	p->used += bytes;
	if (p->used > p->used_high)
		p->used_high = p->used;
	if (p->reserved > p->reserved_high)
		p->reserved_high = p->reserved;
	return SIM_OK;
}

int sim_pool_alloc(struct sim_pool *pool, uint64_t size, uint64_t *addr)
{
	int err = SIM_EINVAL;

	sim_lock();
	if (size)
		err = alloc_locked(pool, size, addr);
	if (err)
		drop_kept_locked(pool, pool->threshold);
	sim_unlock();
	return err;
}

int sim_pool_free(uint64_t addr)
{
	struct sim_range *r;
	int err = SIM_EINVAL;

	sim_lock();
	r = sim_range_find_locked(addr);
	if (r && r->base == addr && (r->kind == SIM_ASYNC || r->kind == SIM_GRAPH)) {
		struct sim_pool *p = r->owner;
		uint64_t bytes = round_up(r->size, SLOT);

		sim_range_del_locked(r);
		leave_locked(p, addr, bytes);
		p->used -= bytes;
		drop_kept_locked(p, p->threshold);
		err = SIM_OK;
	}
	sim_unlock();
	return err;
}

int sim_pool_trim(struct sim_pool *pool, uint64_t keep)
{
	sim_lock();
	drop_kept_locked(pool, keep);
	sim_unlock();
	return SIM_OK;
}

/* The structure stays: others may still have its address. */
int sim_pool_destroy(struct sim_pool *pool)
{
	int err = SIM_EINVAL;

	sim_lock();
	if (!pool->used) {
		drop_kept_locked(pool, 0);
		pool->magic = 0;
		err = SIM_OK;
	}
	sim_unlock();
	return err;
}

uint64_t sim_pool_used_blocks(struct sim_pool *pool)
{
	uint64_t n = 0;

	sim_lock();
	for (size_t i = 0; i < pool->n_blocks; i++)
		n += pool->blocks[i].live > 0;
	sim_unlock();
	return n * SIM_POOL_BLOCK;
}

static uint64_t *wide_attr(struct sim_pool *p, int attr)
{
	switch (attr) {
	case ATTR_RELEASE_THRESHOLD:
		return &p->threshold;
	case ATTR_RESERVED_CURRENT:
		return &p->reserved;
	case ATTR_RESERVED_HIGH:
		return &p->reserved_high;
	case ATTR_USED_CURRENT:
		return &p->used;
	case ATTR_USED_HIGH:
		return &p->used_high;
	default:
		return NULL;
	}
}

int sim_pool_get(struct sim_pool *pool, int attr, void *value)
{
	uint64_t *wide = wide_attr(pool, attr);

	if (attr >= 1 && attr <= 3)
		memcpy(value, &pool->reuse[attr], sizeof(int));
	else if (wide)
		memcpy(value, wide, sizeof(*wide));
	else
		return SIM_EINVAL;
	return SIM_OK;
}

int sim_pool_set(struct sim_pool *pool, int attr, const void *value)
{
	uint64_t *wide = wide_attr(pool, attr);

	if (attr >= 1 && attr <= 3)
		memcpy(&pool->reuse[attr], value, sizeof(int));
	else if (wide && attr != ATTR_USED_CURRENT && attr != ATTR_RESERVED_CURRENT)
		memcpy(wide, value, sizeof(*wide)); /* a high watermark can only be set to 0 */
	else
		return SIM_EINVAL;
	return SIM_OK;
}
