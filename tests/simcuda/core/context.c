/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts. A tool that looks at a process must never cause one: every activation is counted. */
#include "sim.h"

#include <pthread.h>
#include <stdlib.h>

#define STACK_DEPTH 32

struct sim_ctx {
	uint32_t magic;
	int device, refs, active, primary;
	unsigned flags;
	uint64_t id;
};

#define CTX_MAGIC 0x31585443

static struct sim_ctx primary[SIM_MAX_DEVICES];
static uint64_t next_id = 1;
static __thread struct sim_ctx *stack[STACK_DEPTH];
static __thread int depth;

/*
 * The real driver keeps a thread's current context in pthread-specific data whose first word points
 * to the top of the stack of contexts, whose first word is the context (seen with the driver
 * 580.159). Tools that look for it find the same here.
 */
struct thread_data {
	struct top *top;
};

struct top {
	struct sim_ctx *ctx;
};

static pthread_key_t key;
static pthread_once_t key_once = PTHREAD_ONCE_INIT;

/*
 * SIMCUDA_KEYS: so many keys are taken before. glibc keeps the values of the first 32 elsewhere
 * than those of the others.
 */
static void make_key(void)
{
	const char *taken = getenv("SIMCUDA_KEYS");
	pthread_key_t other;

	for (long n = taken ? strtol(taken, NULL, 10) : 0; n > 0; n--)
		pthread_key_create(&other, NULL);
	pthread_key_create(&key, free);
}

static void publish(void)
{
	struct thread_data *data;

	pthread_once(&key_once, make_key);
	data = pthread_getspecific(key);
	if (!data) {
		data = calloc(1, sizeof(*data) + sizeof(struct top));
		if (!data)
			return;
		data->top = (struct top *)(data + 1);
		pthread_setspecific(key, data);
	}
	data->top->ctx = depth ? stack[depth - 1] : NULL;
}

static int activate_locked(struct sim_ctx *ctx, int device)
{
	int err = sim_budget_take_locked(device, sim_config.ctx_bytes);

	if (err)
		return err;
	ctx->magic = CTX_MAGIC;
	ctx->device = device;
	ctx->active = 1;
	ctx->id = next_id++;
	sim_count_context();
	return SIM_OK;
}

static void deactivate_locked(struct sim_ctx *ctx)
{
	if (!ctx->active)
		return;
	ctx->active = 0;
	ctx->refs = 0;
	sim_budget_give_locked(ctx->device, sim_config.ctx_bytes);
}

int sim_ctx_primary_state(int device, unsigned *flags, int *active)
{
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	sim_lock();
	*flags = primary[device].flags;
	*active = primary[device].active;
	sim_unlock();
	return SIM_OK;
}

int sim_ctx_primary_retain(int device, struct sim_ctx **ctx)
{
	struct sim_ctx *p;
	int err = SIM_OK;

	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	p = &primary[device];
	sim_lock();
	p->primary = 1;
	if (!p->active)
		err = activate_locked(p, device);
	if (!err) {
		p->refs++;
		*ctx = p;
	}
	sim_unlock();
	return err;
}

int sim_ctx_primary_release(int device)
{
	int err = SIM_OK;

	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	sim_lock();
	if (!primary[device].active)
		err = SIM_EBADCTX;
	else if (--primary[device].refs == 0)
		deactivate_locked(&primary[device]);
	sim_unlock();
	return err;
}

int sim_ctx_primary_reset(int device)
{
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	sim_lock();
	deactivate_locked(&primary[device]);
	sim_unlock();
	return SIM_OK;
}

int sim_ctx_primary_flags(int device, unsigned flags)
{
	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	primary[device].flags = flags;
	return SIM_OK;
}

struct sim_ctx *sim_ctx_primary_of(int device)
{
	return primary[device].active ? &primary[device] : NULL;
}

int sim_ctx_create(int device, unsigned flags, struct sim_ctx **ctx)
{
	struct sim_ctx *c;
	int err;

	if (sim_check_device(device))
		return SIM_EBADDEVICE;
	c = calloc(1, sizeof(*c));
	if (!c)
		return SIM_ENOMEM;
	sim_lock();
	err = activate_locked(c, device);
	sim_unlock();
	if (err) {
		free(c);
		return err;
	}
	c->flags = flags;
	c->refs = 1;
	*ctx = c;
	return sim_ctx_push(c);
}

int sim_ctx_destroy(struct sim_ctx *ctx)
{
	if (!sim_ctx_valid(ctx) || ctx->primary)
		return SIM_EBADCTX;
	if (sim_ctx_current() == ctx) {
		depth--;
		publish();
	}
	sim_lock();
	deactivate_locked(ctx); /* never freed: other threads may still have it on their stack */
	sim_unlock();
	return SIM_OK;
}

int sim_ctx_push(struct sim_ctx *ctx)
{
	if (ctx && !sim_ctx_valid(ctx))
		return SIM_EBADCTX;
	if (depth == STACK_DEPTH)
		return SIM_EINVAL;
	stack[depth++] = ctx;
	publish();
	return SIM_OK;
}

int sim_ctx_pop(struct sim_ctx **ctx)
{
	if (!depth)
		return SIM_EBADCTX;
	depth--;
	if (ctx)
		*ctx = stack[depth];
	publish();
	return SIM_OK;
}

int sim_ctx_set(struct sim_ctx *ctx)
{
	if (ctx && !sim_ctx_valid(ctx))
		return SIM_EBADCTX;
	if (!ctx) {
		if (depth)
			depth--;
		publish();
		return SIM_OK;
	}
	if (!depth)
		depth = 1;
	stack[depth - 1] = ctx;
	publish();
	return SIM_OK;
}

struct sim_ctx *sim_ctx_current(void)
{
	struct sim_ctx *ctx = depth ? stack[depth - 1] : NULL;

	return ctx && ctx->active ? ctx : NULL;
}

int sim_ctx_valid(const struct sim_ctx *ctx)
{
	return ctx && ctx->magic == CTX_MAGIC && ctx->active;
}

int sim_ctx_device(const struct sim_ctx *ctx)
{
	return ctx->device;
}

unsigned sim_ctx_flags(const struct sim_ctx *ctx)
{
	return ctx->flags;
}

uint64_t sim_ctx_id(const struct sim_ctx *ctx)
{
	return ctx->id;
}

/* ---- limits ---- */

/*
 * The stack of half of what is usual, because a context costs less here, too: the memory for stacks
 * is a part of it.
 */
static const size_t default_limits[SIM_LIMITS] = { 512, 1 << 20, 8 << 20 };
static size_t limits[SIM_MAX_DEVICES][SIM_LIMITS]; /* 0: the default */

#define RESIDENT_THREADS (132ull * 2048)

static size_t limit_of(int device, int limit)
{
	return limits[device][limit] ? limits[device][limit] : default_limits[limit];
}

/* While a free waits for the device, this waits too, as on a real one. */
int sim_ctx_limit(int device, int limit, size_t *value)
{
	if (limit < 0 || limit >= SIM_LIMITS)
		return 215; /* CUDA_ERROR_UNSUPPORTED_LIMIT */
	if (sim_free_is_waiting(device))
		sim_device_wait_idle(device);
	*value = limit_of(device, limit);
	return SIM_OK;
}

/* A stack for each thread that can be resident. */
int sim_ctx_set_limit(int device, int limit, size_t value)
{
	uint64_t before, after;
	int err = SIM_OK;

	if (limit < 0 || limit >= SIM_LIMITS || !value)
		return 215;
	sim_lock();
	before = limit ? 0 : limit_of(device, limit) * RESIDENT_THREADS;
	after = limit ? 0 : value * RESIDENT_THREADS;
	sim_budget_give_locked(device, before);
	err = sim_budget_take_locked(device, after);
	if (err)
		sim_budget_take_locked(device, before);
	else
		limits[device][limit] = value;
	sim_unlock();
	return err;
}
