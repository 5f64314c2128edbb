/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Many walks, without a stop, of a process whose allocator is in use. Each says that it is
 * certainly of one moment, or not; those that say so are compared with what the process had at that
 * moment. That is known: its thread ("busy" of tests/targets/c10_driver.cc) makes its decisions
 * with a random number generator, which is run here once more, and PyTorch's counts of allocations
 * and frees say how far it was.
 *
 *   torch_replay PID WALKS KEPT SIZE     KEPT blocks of SIZE bytes were allocated before
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/vec.h"
#include "target/live.h"
#include "walk/torch/torch.h"

#define WALK_NS (10 * VT_NS_PER_S)
#define MAX_MINE 64 /* blocks that the thread has at a time */
#define SEED 4711   /* of the first thread */
#define FIND_ATTEMPTS 50

static void die(const char *what)
{
	printf("torch_replay: %s\n", what);
	exit(1);
}

static void check(struct vt_error *err)
{
	if (err)
		die(err->message);
}

/* ---- the same once more ---- */

/* std::mt19937_64 (ISO C++, [rand.predef]). */
struct generator {
	uint64_t state[312];
	unsigned int at;
};

static void seed(struct generator *g, uint64_t value)
{
	g->state[0] = value;
	for (unsigned int i = 1; i < 312; i++)
		g->state[i] =
			UINT64_C(6364136223846793005) * (g->state[i - 1] ^ g->state[i - 1] >> 62) +
			i;
	g->at = 312;
}

static uint64_t next(struct generator *g)
{
	uint64_t x;

	if (g->at == 312) {
		for (unsigned int i = 0; i < 312; i++) {
			x = (g->state[i] & ~UINT64_C(0x7fffffff)) |
			    (g->state[(i + 1) % 312] & UINT64_C(0x7fffffff));
			g->state[i] = g->state[(i + 156) % 312] ^ x >> 1 ^
				      (x & 1 ? UINT64_C(0xb5026f5aa96619e9) : 0);
		}
		g->at = 0;
	}
	x = g->state[g->at++];
	x ^= x >> 29 & UINT64_C(0x5555555555555555);
	x ^= x << 17 & UINT64_C(0x71d67fffeda60000);
	x ^= x << 37 & UINT64_C(0xfff7eee000000000);
	return x ^ x >> 43;
}

/* What the thread has after some allocations and frees. */
struct replay {
	struct generator rng;
	bool limit_first; /* C++ does not say which operand of % is computed first */
	int64_t allocated, freed;
	uint64_t sizes[MAX_MINE]; /* a ring: the oldest is freed first */
	unsigned int first, n;
	bool wrong; /* it was found not to be what the thread does */
};

static uint64_t random_size(struct replay *r)
{
	static const uint64_t limits[] = { 512, 4096, 65536, 1u << 20, 10u << 20, 24u << 20 };
	uint64_t a = next(&r->rng), b = next(&r->rng);

	return 1 + (r->limit_first ? b % limits[a % 6] : a % limits[b % 6]);
}

static void step(struct replay *r)
{
	if (r->n < MAX_MINE && next(&r->rng) % 2) {
		r->sizes[(r->first + r->n++) % MAX_MINE] = random_size(r) / 4 + 1;
		r->allocated++;
	} else if (r->n) {
		r->first = (r->first + 1) % MAX_MINE;
		r->n--;
		r->freed++;
	}
}

/* Of a set of sizes, in any order. */
static uint64_t hash_size(uint64_t size)
{
	uint64_t x = size * UINT64_C(0x9e3779b97f4a7c15);

	x = (x ^ x >> 31) * UINT64_C(0x94d049bb133111eb);
	return x ^ x >> 29;
}

/* Whether the thread had blocks of these sizes after so many allocations and frees. */
static bool is_right(struct replay *r, int64_t allocated, int64_t freed, uint64_t hash)
{
	while (r->allocated < allocated || r->freed < freed) {
		if (r->allocated > allocated || r->freed > freed)
			return false; /* there was no such moment */
		step(r);
	}
	for (unsigned int i = 0; i < r->n; i++)
		hash -= hash_size(r->sizes[(r->first + i) % MAX_MINE]);
	return r->allocated == allocated && r->freed == freed && !hash;
}

/* ---- walks ---- */

struct sink {
	struct vt_torch_sink base;
	VT_VEC(struct vt_block_rec) recs;
};

static struct vt_block_rec *reserve(struct vt_torch_sink *base, uint64_t n)
{
	struct sink *sink = (struct sink *)base;

	if (!vt_vec_reserve(&sink->recs, n))
		return NULL;
	sink->recs.n = n;
	return sink->recs.data;
}

struct count {
	unsigned int certain, complete, unstable, refused, wrong;
};

/* Whether a complete walk is what the process had. */
static bool agrees(const struct vt_torch_device_result *result, const struct sink *sink,
		   struct replay replays[2], uint64_t kept, uint64_t kept_size)
{
	uint64_t hash = 0;
	bool right = false;

	for (uint64_t i = 0; i < result->blocks; i++)
		if (sink->recs.data[i].state == VT_BLOCK_ALLOCATED)
			hash += hash_size(sink->recs.data[i].requested);
	hash -= kept * hash_size(kept_size);
	for (int i = 0; i < 2; i++) {
		if (!replays[i].wrong &&
		    is_right(&replays[i], result->stats.allocation.allocated - (int64_t)kept,
			     result->stats.allocation.freed, hash))
			right = true;
		else
			replays[i].wrong = true;
	}
	return right;
}

static void walk(struct vt_memsrc *src, const struct vt_torch_layout *layout, uint64_t dca,
		 struct vt_torch_scratch *scratch, struct sink *sink,
		 struct vt_torch_device_result *result)
{
	int64_t n = vt_torch_count_blocks(src, layout, dca);
	uint64_t size = vt_torch_scratch_size(2 * (uint64_t)(n > 0 ? n : 0) + 1024);
	struct vt_torch_walk_limits limits = {
		.max_blocks = UINT32_MAX,
		.deadline_ns = vt_now_ns() + WALK_NS,
		.now_ns = vt_now_ns,
	};

	if (size > scratch->size) {
		free(scratch->base);
		*scratch = (struct vt_torch_scratch){ .base = malloc(2 * size), .size = 2 * size };
		if (!scratch->base)
			die("out of memory");
	}
	*result = (struct vt_torch_device_result){ 0 };
	vt_torch_walk_device(src, layout, dca, 0, &limits, scratch, &sink->base, result);
}

static void take(struct count *count, const struct vt_torch_device_result *result,
		 const struct sink *sink, struct replay replays[2], uint64_t kept,
		 uint64_t kept_size)
{
	if (result->result == VT_WALK_UNSTABLE)
		count->unstable++;
	else if (result->result != VT_WALK_COMPLETE)
		count->refused++;
	else if (!result->certain)
		count->complete++;
	else
		count->certain++;
	if (!result->certain)
		return;
	if (result->result == VT_WALK_COMPLETE && agrees(result, sink, replays, kept, kept_size))
		return;
	if (count->wrong++ < 5)
		printf("wrong: %" PRIu64 " blocks after %" PRId64 " allocations and %" PRId64
		       " frees: %.96s\n",
		       result->blocks, result->stats.allocation.allocated,
		       result->stats.allocation.freed, result->why);
}

static void find(struct vt_live *live, pid_t pid, struct vt_torch_found *found)
{
	struct vt_maps maps = { 0 };
	struct vt_modules modules = { 0 };

	check(vt_maps_init(&maps, pid));
	check(vt_modules_init(&modules, pid, &maps));
	for (int i = 0; i < FIND_ATTEMPTS && found->backend != VT_TORCH_NATIVE; i++)
		check(vt_torch_find(&modules, &maps, vt_live_source(live), found));
	found->c10_cuda = NULL;
	vt_modules_deinit(&modules);
	vt_maps_deinit(&maps);
	if (found->backend != VT_TORCH_NATIVE)
		die("no native allocator");
}

int main(int argc, char **argv)
{
	static struct replay replays[2];
	struct vt_torch_found found = { 0 };
	struct vt_torch_scratch scratch = { 0 };
	struct sink sink = { .base.reserve = reserve };
	struct vt_live *live = NULL;
	struct count count = { 0 };
	uint64_t dcas[VT_TORCH_MAX_DEVICES], start, kept;
	int walks;

	if (argc != 5)
		return 64;
	walks = atoi(argv[2]);
	kept = strtoull(argv[3], NULL, 10);
	check(vt_live_create(atoi(argv[1]), &live));
	find(live, atoi(argv[1]), &found);
	if (vt_torch_devices(vt_live_source(live), &found.layout, found.allocator, dcas) < 1)
		die("no devices");
	for (int i = 0; i < 2; i++) {
		seed(&replays[i].rng, SEED);
		replays[i].limit_first = i;
	}
	start = vt_now_ns();
	for (int i = 0; i < walks; i++) {
		struct vt_torch_device_result result;

		walk(vt_live_source(live), &found.layout, dcas[0], &scratch, &sink, &result);
		take(&count, &result, &sink, replays, kept, strtoull(argv[4], NULL, 10));
	}
	printf("%d walks in %.0f ms: %u certain, %u complete but not certain, %u unstable, %u refused, %u wrong; %" PRId64
	       " operations during that\n",
	       walks, (double)(vt_now_ns() - start) / VT_NS_PER_MS, count.certain, count.complete,
	       count.unstable, count.refused, count.wrong,
	       replays[0].wrong ? replays[1].allocated + replays[1].freed :
				  replays[0].allocated + replays[0].freed);
	free(scratch.base);
	vt_vec_deinit(&sink.recs);
	vt_live_destroy(live);
	return count.wrong != 0;
}
