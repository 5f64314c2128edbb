/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why memory ran out: compares the failed request with the blocks that existed while its thread
 * waited.
 */
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "model/account.h"

/*
 * How PyTorch turns requests into blocks (CUDACachingAllocator, 2.0 to 2.15). Sizes are multiples
 * of 512 bytes; sizes up to 1 MiB come from the small pool. A new segment has 2 MiB for the small
 * pool, 20 MiB for sizes below 10 MiB, else a multiple of 2 MiB. Settings can make all of these
 * larger (roundup_power2_divisions, large_segment_size_mb), not smaller.
 */
#define MIB (UINT64_C(1) << 20)
#define MIN_BLOCK 512
#define SMALL_SIZE MIB
#define SMALL_SEGMENT (2 * MIB)
#define LARGE_SEGMENT (20 * MIB)
#define MIN_OWN_SEGMENT (10 * MIB)
#define ROUND_SEGMENT (2 * MIB)

static uint64_t round_up(uint64_t n, uint64_t unit)
{
	return n > UINT64_MAX - unit ? UINT64_MAX / unit * unit : (n + unit - 1) / unit * unit;
}

static uint64_t segment_for(uint64_t size)
{
	return size <= SMALL_SIZE     ? SMALL_SEGMENT :
	       size < MIN_OWN_SEGMENT ? LARGE_SEGMENT :
					round_up(size, ROUND_SEGMENT);
}

static const struct vt_model_oom *find_oom(const struct vt_model *model, uint32_t number)
{
	for (size_t i = 0; i < model->ooms.n; i++)
		if (model->ooms.data[i].number == number)
			return &model->ooms.data[i];
	return NULL;
}

static const struct vt_model_allocator *exact_allocator(const struct vt_model *model, int device)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].device == device && model->allocators.data[i].exact)
			return &model->allocators.data[i];
	return NULL;
}

/*
 * Sums the cached blocks of the pool that can serve this request. A private pool keeps its cached
 * blocks for itself: returns the size of the largest of these.
 */
static uint64_t add_holes(const struct vt_model *model, const struct vt_model_allocator *a,
			  struct vt_model_caught *caught)
{
	bool small = caught->needed_bytes <= SMALL_SIZE;
	uint64_t largest_private = 0;
	size_t end = a->first_block + a->n_blocks;

	for (size_t i = a->first_block; i < end;) {
		size_t next = vt_model_segment_end(model, i, end);
		uint64_t before = caught->holes.blocks;

		for (; i < next; i++) {
			const struct vt_block_rec *b = &model->blocks[i];

			if (b->state != VT_BLOCK_CACHED ||
			    small != ((b->flags & VT_BLOCK_SMALL_POOL) != 0))
				continue;
			if (b->flags & VT_BLOCK_PRIVATE_POOL) {
				largest_private = b->size > largest_private ? b->size :
									      largest_private;
				continue;
			}
			caught->holes.bytes += b->size;
			caught->holes.blocks++;
			if (b->size > caught->largest_hole) {
				caught->largest_hole = b->size;
				caught->largest_hole_stream = b->stream;
			}
		}
		caught->hole_segments += caught->holes.blocks > before;
	}
	return largest_private;
}

static enum vt_oom_verdict decide(const struct vt_model_caught *c, uint64_t largest_private)
{
	const struct vt_model_oom *oom = c->oom;

	if (!oom->total_bytes)
		return VT_OOM_UNDECIDED;
	if (c->needed_bytes > oom->total_bytes)
		return VT_OOM_TOO_LARGE;
	if (c->largest_hole >= c->needed_bytes || largest_private >= c->needed_bytes)
		return VT_OOM_ELSEWHERE;
	if (oom->free_bytes >= c->segment_bytes)
		return VT_OOM_LIMITED;
	return c->holes.bytes + oom->free_bytes >= c->needed_bytes ? VT_OOM_FRAGMENTED :
								     VT_OOM_FULL;
}

/* The program's innermost frame, else the innermost of one of its libraries. */
const struct vt_model_frame *vt_oom_place(const struct vt_model *model,
					  const struct vt_model_oom *oom)
{
	const struct vt_model_trace *trace =
		oom->trace < model->traces.n ? &model->traces.data[oom->trace] : NULL;
	const struct vt_model_frame *telling = NULL;

	for (size_t i = 0; trace && i < trace->n_frames; i++) {
		const struct vt_model_frame *f = &model->trace_frames[trace->frames[i]];

		if (vt_model_is_program(f))
			return f;
		if (!telling && vt_model_is_telling(f) && !vt_oom_is_ours(f))
			telling = f;
	}
	return telling;
}

/* The frames of the recorder and the unwinder: they noticed the error, but did not cause it. */
bool vt_oom_is_ours(const struct vt_model_frame *f)
{
	return (f->module && !strncmp(f->module, "memfd:vramtap-recorder", 22)) ||
	       (f->function &&
		(!strncmp(f->function, "_Unwind_", 8) || !strncmp(f->function, "__cxa_", 6)));
}

/*
 * "..., 124.00 MiB allowed; ..." (2.0 to 2.15), where set_per_process_memory_fraction() has set a
 * limit. Two digits are all that PyTorch tells.
 */
static uint64_t limit_of(const char *message)
{
	static const struct {
		const char *name;
		double bytes;
	} units[] = { { "bytes", 1 }, { "KiB", 1 << 10 }, { "MiB", 1 << 20 }, { "GiB", 1 << 30 } };
	const char *word = message ? strstr(message, " allowed;") : NULL;
	const char *unit = word, *number;
	double value;

	while (unit > message && unit[-1] != ' ')
		unit--;
	number = unit > message ? unit - 1 : unit;
	while (number > message && strchr("0123456789.", number[-1]))
		number--;
	if (!word || number >= unit - 1 || (number > message && number[-1] != ' '))
		return 0;
	value = strtod(number, NULL);
	for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if ((size_t)(word - unit) == strlen(units[i].name) &&
		    !strncmp(unit, units[i].name, (size_t)(word - unit)) && value < 1e9)
			return (uint64_t)(value * units[i].bytes);
	return 0;
}

void vt_account_oom(struct vt_model *model)
{
	struct vt_model_caught *c = &model->caught;
	const struct vt_model_allocator *a;
	uint64_t largest_private;

	if (!c->first)
		return;
	c->oom = find_oom(model, c->first);
	if (!c->oom)
		c->oom = &c->event;
	if (!c->oom->of_pytorch)
		return;
	c->limit_bytes = limit_of(c->message);
	c->needed_bytes = round_up(c->oom->requested, MIN_BLOCK);
	c->segment_bytes = segment_for(c->needed_bytes);
	a = exact_allocator(model, c->oom->device);
	if (!a)
		return;
	largest_private = add_holes(model, a, c);
	c->held_bytes = a->allocated_bytes + a->awaiting_bytes;
	c->others_known = c->oom->total_bytes >= c->oom->free_bytes &&
			  c->oom->total_bytes - c->oom->free_bytes >= a->reserved_bytes;
	if (c->others_known)
		c->others_bytes = c->oom->total_bytes - c->oom->free_bytes - a->reserved_bytes;
	c->verdict = decide(c, largest_private);
}
