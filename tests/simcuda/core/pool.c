/* SPDX-License-Identifier: Apache-2.0 */
/* Memory pools (cudaMallocAsync): what is freed stays reserved up to the release threshold. */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

struct sim_pool {
	uint32_t magic;
	int device;
	uint64_t used, used_high, kept, reserved_high, threshold;
	int reuse[4];
};

#define POOL_MAGIC 0x4c4f4f50

enum { /* CUmemPool_attribute; 1 to 3 are ints, the others 64 bits wide */
       ATTR_RELEASE_THRESHOLD = 4,
       ATTR_RESERVED_CURRENT,
       ATTR_RESERVED_HIGH,
       ATTR_USED_CURRENT,
       ATTR_USED_HIGH,
};

static struct sim_pool defaults[SIM_MAX_DEVICES];

struct sim_pool *sim_pool_default(int device)
{
	defaults[device].magic = POOL_MAGIC;
	defaults[device].device = device;
	return &defaults[device];
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
	p->magic = POOL_MAGIC;
	p->device = device;
	*pool = p;
	return SIM_OK;
}

static void drop_kept_locked(struct sim_pool *p, uint64_t bytes)
{
	if (bytes > p->kept)
		bytes = p->kept;
	p->kept -= bytes;
	sim_budget_give_locked(p->device, bytes);
}

int sim_pool_alloc(struct sim_pool *pool, uint64_t size, uint64_t *addr)
{
	int err;

	/* What is kept pays for the new allocation, which takes its own share of the budget. */
	sim_lock();
	drop_kept_locked(pool, size);
	sim_unlock();
	err = sim_mem_alloc(pool->device, size, SIM_ASYNC, addr);
	if (err)
		return err;
	sim_lock();
	pool->used += size;
	if (pool->used > pool->used_high)
		pool->used_high = pool->used;
	if (pool->used + pool->kept > pool->reserved_high)
		pool->reserved_high = pool->used + pool->kept;
	sim_unlock();
	return SIM_OK;
}

int sim_pool_free(uint64_t addr)
{
	struct sim_where w;
	struct sim_pool *p;
	int err = sim_where(addr, &w);

	if (err || w.kind != SIM_ASYNC || w.base != addr)
		return SIM_EINVAL;
	err = sim_mem_free(addr);
	if (err)
		return err;
	p = sim_pool_default(w.device);
	sim_lock();
	p->used -= w.size < p->used ? w.size : p->used;
	if (p->used + p->kept + w.size <= p->threshold &&
	    !sim_budget_take_locked(p->device, w.size))
		p->kept += w.size;
	sim_unlock();
	return SIM_OK;
}

int sim_pool_trim(struct sim_pool *pool, uint64_t keep)
{
	sim_lock();
	if (pool->used + pool->kept > keep)
		drop_kept_locked(pool, pool->used + pool->kept - keep);
	sim_unlock();
	return SIM_OK;
}

static uint64_t *wide_attr(struct sim_pool *p, int attr)
{
	switch (attr) {
	case ATTR_RELEASE_THRESHOLD:
		return &p->threshold;
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
	uint64_t reserved, *wide = wide_attr(pool, attr);

	if (attr >= 1 && attr <= 3) {
		memcpy(value, &pool->reuse[attr], sizeof(int));
		return SIM_OK;
	}
	reserved = pool->used + pool->kept;
	if (attr == ATTR_RESERVED_CURRENT)
		wide = &reserved;
	if (!wide)
		return SIM_EINVAL;
	memcpy(value, wide, sizeof(*wide));
	return SIM_OK;
}

int sim_pool_set(struct sim_pool *pool, int attr, const void *value)
{
	uint64_t *wide = wide_attr(pool, attr);

	if (attr >= 1 && attr <= 3)
		memcpy(&pool->reuse[attr], value, sizeof(int));
	else if (wide && attr != ATTR_USED_CURRENT)
		memcpy(wide, value, sizeof(*wide)); /* a high watermark can only be set to 0 */
	else
		return SIM_EINVAL;
	return SIM_OK;
}
