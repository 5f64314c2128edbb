/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The recorder's state built by hand in a buffer, with known content, and a memory source that has
 * exactly this buffer (and what another source has). Addresses of the pretended target are real
 * ones. Tests and a fuzzer damage it and look what is read.
 */
#ifndef VT_TESTS_RECORDER_IMAGE_H
#define VT_TESTS_RECORDER_IMAGE_H

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "vramtap/mem.h"
#include "vramtap/recorder.h"

struct recorder_image {
	struct vt_memsrc src;
	struct vt_memsrc *other; /* asked for what is not in the buffer; NULL none */
	uint8_t *base;
	size_t size, used;
	struct vt_recorder_head *head; /* in the buffer */
	uint64_t addr;                 /* of head */
	size_t reads;
	/* Called after each read, to change the target under the reader's eyes. */
	void (*after_read)(struct recorder_image *image);
	void *arg;
};

#define IMAGE_SHARD_SLOTS 64
#define IMAGE_DRIVER_SLOTS 64
#define IMAGE_CODES 64
#define IMAGE_STACKS 128
#define IMAGE_WORDS 4096
#define IMAGE_SIZE (512u << 10)
#define IMAGE_START_NS UINT64_C(1000000000)

static int recorder_image_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	struct recorder_image *image = (struct recorder_image *)(void *)src;
	uint64_t base = (uintptr_t)image->base;
	int ret = 0;

	if (addr >= base && addr - base <= image->size && len <= image->size - (addr - base))
		memcpy(buf, (const void *)(uintptr_t)addr, len);
	else if (image->other)
		ret = vt_mem_read(image->other, addr, buf, len);
	else
		ret = -EFAULT;
	src->fault_addr = ret ? addr : src->fault_addr;
	image->reads++;
	if (image->after_read)
		image->after_read(image);
	return ret;
}

static inline uint64_t recorder_image_alloc(struct recorder_image *image, size_t size)
{
	uint64_t addr = (uintptr_t)image->base + image->used;

	size = (size + 63) & ~(size_t)63;
	if (size > image->size - image->used)
		abort();
	image->used += size;
	return addr;
}

static inline void *recorder_image_at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static void recorder_image_array(struct recorder_image *image, struct vt_recorder_array *array,
				 uint64_t room, uint64_t size)
{
	*array = (struct vt_recorder_array){ .addr = recorder_image_alloc(image, room * size),
					     .room = room,
					     .max = room };
}

/* On, nothing recorded. */
static inline void recorder_image_init(struct recorder_image *image)
{
	static const struct vt_memsrc_ops ops = { .read = recorder_image_read };
	struct vt_recorder_head *head;
	uint64_t live;

	*image = (struct recorder_image){ .src = { .ops = &ops, .coherent = true },
					  .size = IMAGE_SIZE };
	image->base = aligned_alloc(4096, IMAGE_SIZE);
	if (!image->base)
		abort();
	memset(image->base, 0, IMAGE_SIZE);
	image->addr = recorder_image_alloc(image, sizeof(*head));
	image->head = head = recorder_image_at(image->addr);
	live = recorder_image_alloc(image, 64);
	*(uint32_t *)recorder_image_at(live) = 1;
	head->magic = VT_RECORDER_MAGIC;
	head->abi = VT_RECORDER_ABI;
	head->size = sizeof(*head);
	head->state = VT_RECORDER_ON;
	head->python = head->native = 1;
	head->generation = 1;
	head->live = live;
	head->start_ns = IMAGE_START_NS;
	recorder_image_array(image, &head->codes, IMAGE_CODES, sizeof(struct vt_recorder_code));
	recorder_image_array(image, &head->stacks, IMAGE_STACKS, sizeof(struct vt_recorder_stack));
	recorder_image_array(image, &head->words, IMAGE_WORDS, sizeof(uint64_t));
	head->stacks.n = 1; /* the empty one */
}

static inline void recorder_image_deinit(struct recorder_image *image)
{
	free(image->base);
}

static inline struct vt_recorder_shard *recorder_image_shard(struct recorder_image *image,
							     uint64_t addr)
{
	return &image->head->shards[vt_recorder_hash(addr) % VT_RECORDER_SHARDS];
}

/* The slot of an address, the empty one where it belongs. */
static inline struct vt_recorder_packed *recorder_image_slot(struct recorder_image *image,
							     uint64_t addr)
{
	struct vt_recorder_shard *shard = recorder_image_shard(image, addr);
	struct vt_recorder_packed *table;
	uint64_t i;

	if (!shard->table) {
		shard->table = recorder_image_alloc(image, IMAGE_SHARD_SLOTS * sizeof(*table));
		shard->capacity = IMAGE_SHARD_SLOTS;
	}
	table = recorder_image_at(shard->table);
	i = (vt_recorder_hash(addr) >> 32) * shard->capacity >> 32;
	while (vt_recorder_packed_addr(&table[i]) && vt_recorder_packed_addr(&table[i]) != addr)
		i = (i + 1) % shard->capacity;
	return &table[i];
}

static inline void recorder_image_put(struct recorder_image *image, uint64_t addr, uint64_t size,
				      uint32_t time, uint32_t stack, uint32_t tid)
{
	struct vt_recorder_shard *shard = recorder_image_shard(image, addr);
	struct vt_recorder_packed *slot = recorder_image_slot(image, addr);
	const struct vt_recorder_block block = { .addr = addr,
						 .size = size,
						 .time = time,
						 .serial = (uint16_t)++shard->stamp,
						 .stack = stack,
						 .tid = tid };

	shard->count += !vt_recorder_packed_addr(slot);
	shard->allocations++;
	*slot = vt_recorder_pack(&block);
}

/* The index of a new code object. */
static inline uint64_t recorder_image_add_code(struct recorder_image *image,
					       const struct vt_recorder_code *code)
{
	struct vt_recorder_code *codes = recorder_image_at(image->head->codes.addr);

	codes[image->head->codes.n] = *code;
	return image->head->codes.n++;
}

/* The id of a new stack of these words. */
static inline uint32_t recorder_image_add_stack(struct recorder_image *image, const uint64_t *words,
						uint16_t n_python, uint16_t n_words_python,
						uint16_t n_native)
{
	struct vt_recorder_head *head = image->head;
	struct vt_recorder_stack *stacks = recorder_image_at(head->stacks.addr);
	uint64_t *array = recorder_image_at(head->words.addr);
	size_t n = (size_t)n_words_python + n_native;

	memcpy(array + head->words.n, words, n * sizeof(*words));
	stacks[head->stacks.n] = (struct vt_recorder_stack){
		.hash = head->stacks.n,
		.first = head->words.n,
		.n_python = n_python,
		.n_words_python = n_words_python,
		.n_native = n_native,
	};
	head->words.n += n;
	return (uint32_t)head->stacks.n++;
}

static inline struct vt_recorder_driver_block *recorder_image_put_driver(
	struct recorder_image *image, uint64_t addr, uint64_t size,
	enum vt_recorder_driver_kind kind, uint32_t stack)
{
	struct vt_recorder_head *head = image->head;
	struct vt_recorder_driver_block *table, *b;

	if (!head->driver.table) {
		head->driver.table =
			recorder_image_alloc(image, IMAGE_DRIVER_SLOTS * sizeof(*table));
		head->driver.capacity = IMAGE_DRIVER_SLOTS;
	}
	table = recorder_image_at(head->driver.table);
	b = &table[head->driver.count++ * 7 % IMAGE_DRIVER_SLOTS];
	*b = (struct vt_recorder_driver_block){
		.addr = addr,
		.size = size,
		.serial = ++head->driver.serial,
		.stack = stack,
		.kind = (uint16_t)kind,
	};
	b->check = vt_recorder_block_check(addr, size, b->time, b->serial, stack, b->tid);
	return b;
}

#endif
