/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that write values to memory and wait for them (cuStreamWriteValue, cuStreamWaitValue).
 * Memory of a device has no pages here: what is written there is kept in a table.
 */
#define _GNU_SOURCE
#include "sim.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define MAX_IN_DEVICES 256
#define POLL_NS 1000000ull /* the host may write, too */

enum { GEQ, EQ, AND, NOR };

struct value_op {
	uint64_t addr, value;
	unsigned width, compare;
};

static struct {
	uint64_t addr, value;
} in_devices[MAX_IN_DEVICES];
static unsigned n_in_devices;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static uint64_t *of_device(uint64_t addr)
{
	unsigned i = 0;

	while (i < n_in_devices && in_devices[i].addr != addr)
		i++;
	if (i == MAX_IN_DEVICES)
		abort();
	if (i == n_in_devices)
		in_devices[n_in_devices++].addr = addr;
	return &in_devices[i].value;
}

static uint64_t load(const struct value_op *op)
{
	uint64_t value = 0;

	if (!sim_mem_is_device(op->addr)) {
		if (op->width == 4)
			return __atomic_load_n((uint32_t *)op->addr, __ATOMIC_ACQUIRE);
		return __atomic_load_n((uint64_t *)op->addr, __ATOMIC_ACQUIRE);
	}
	pthread_mutex_lock(&lock);
	value = *of_device(op->addr);
	pthread_mutex_unlock(&lock);
	return op->width == 4 ? (uint32_t)value : value;
}

static void store(void *arg)
{
	struct value_op *op = arg;

	if (!sim_mem_is_device(op->addr)) {
		if (op->width == 4)
			__atomic_store_n((uint32_t *)op->addr, (uint32_t)op->value,
					 __ATOMIC_RELEASE);
		else
			__atomic_store_n((uint64_t *)op->addr, op->value, __ATOMIC_RELEASE);
	} else {
		pthread_mutex_lock(&lock);
		*of_device(op->addr) = op->value;
		pthread_mutex_unlock(&lock);
	}
	free(op);
	sim_progress();
}

static int is_there(const struct value_op *op)
{
	uint64_t now = load(op), mask = op->width == 4 ? UINT32_MAX : UINT64_MAX;

	switch (op->compare) {
	case GEQ: /* cyclically */
		return op->width == 4 ? (int32_t)(uint32_t)(now - op->value) >= 0 :
					(int64_t)(now - op->value) >= 0;
	case EQ:
		return now == op->value;
	case AND:
		return (now & op->value) != 0;
	default:
		return (~(now | op->value) & mask) != 0;
	}
}

static int busy_value(void *arg, uint64_t *until_ns)
{
	*until_ns = sim_now_ns() + POLL_NS;
	return !is_there(arg);
}

static void wait_for_value(void *arg)
{
	sim_wait_while(busy_value, arg);
	free(arg);
}

static int can_be_accessed(uint64_t addr, unsigned width)
{
	uint64_t value;
	struct iovec here = { &value, width }, there = { (void *)addr, width };

	return !(addr % width) &&
	       (sim_mem_is_device(addr) ||
		process_vm_readv(getpid(), &here, 1, &there, 1, 0) == (ssize_t)width);
}

static int submit(struct sim_stream *stream, void (*fn)(void *), const struct value_op *what)
{
	struct value_op *op;
	int err;

	if (!can_be_accessed(what->addr, what->width))
		return SIM_EINVAL;
	sim_stream_work(stream);
	if (sim_stream_capture(stream)->graph)
		return SIM_OK;
	op = malloc(sizeof(*op));
	if (!op)
		return SIM_ENOMEM;
	*op = *what;
	if (op->width == 4)
		op->value = (uint32_t)op->value;
	err = sim_stream_host_fn(stream, fn, op);
	if (err)
		free(op);
	return err;
}

int sim_stream_write_value(struct sim_stream *stream, uint64_t addr, uint64_t value, unsigned width)
{
	return submit(stream, store,
		      &(struct value_op){ .addr = addr, .value = value, .width = width });
}

int sim_stream_wait_value(struct sim_stream *stream, uint64_t addr, uint64_t value, unsigned width,
			  unsigned compare)
{
	return submit(stream, wait_for_value, &(struct value_op){ addr, value, width, compare });
}
