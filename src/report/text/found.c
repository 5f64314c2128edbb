/* SPDX-License-Identifier: Apache-2.0 */
/* What is at an address: the answer in one sentence, then a line for each fact. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "report/text/text.h"

/* "0x7f0000001000 is 4,096 bytes into 2.00 MiB of device memory, in use" */
__attribute__((format(printf, 4, 5))) static void print_answer(struct vt_line *line, uint64_t addr,
							       uint64_t start, const char *format,
							       ...)
{
	char offset[VT_NUM_MAX];
	struct vt_str text = { 0 };
	va_list args;

	if (addr == start)
		vt_str_addf(&text, "0x%" PRIx64 " is the start of ", addr);
	else
		vt_str_addf(&text, "0x%" PRIx64 " is %s byte%s into ", addr,
			    vt_format_count(offset, addr - start), addr - start == 1 ? "" : "s");
	va_start(args, format);
	vt_str_vaddf(&text, format, args);
	va_end(args);
	vt_line_wrap(line, VT_BOLD, vt_str_get(&text), 2, 3);
	if (text.failed)
		line->buf.failed = true;
	vt_str_deinit(&text);
}

/* "0x7f0000000000, 2,097,152 bytes" */
static void print_range(struct vt_line *line, uint64_t addr, uint64_t size)
{
	char bytes[VT_NUM_MAX];

	vt_text_fact(line, "block", "0x%" PRIx64 ", %s bytes", addr, vt_format_count(bytes, size));
}

/* ---- PyTorch's block ---- */

static void print_requested(struct vt_line *line, const struct vt_block_rec *b)
{
	char requested[VT_NUM_MAX], rounding[VT_NUM_MAX];
	uint64_t asked = vt_block_asked_for(b);

	if (!asked || asked > b->size)
		return;
	vt_format_count(requested, asked);
	if (asked == b->size)
		vt_text_fact(line, "asked for", "%s bytes", requested);
	else
		vt_text_fact(line, "asked for", "%s bytes: %s are lost to rounding", requested,
			     vt_format_count(rounding, b->size - asked));
}

static void print_segment(struct vt_line *line, const struct vt_model *model,
			  const struct vt_found *found)
{
	char size[VT_NUM_MAX], count[VT_NUM_MAX], used[VT_NUM_MAX];
	size_t n = found->segment_end - found->segment;
	uint64_t in_use = 0;

	for (size_t i = found->segment; i < found->segment_end; i++)
		in_use += model->blocks[i].state == VT_BLOCK_ALLOCATED ? model->blocks[i].size : 0;
	vt_text_fact(line, "segment", "0x%" PRIx64 ", %s in %s block%s, %s in use%s",
		     model->blocks[found->segment].addr, vt_format_size(size, found->segment_bytes),
		     vt_format_count(count, n), n == 1 ? "" : "s", vt_format_size(used, in_use),
		     found->allocator->exact ? "" : ", as far as it could be read");
}

static void print_neighbour(struct vt_line *line, const struct vt_model *model,
			    const struct vt_found *found, bool after)
{
	size_t block = after ? found->after : found->before;
	const char *label = after ? "after" : "before";
	char size[VT_NUM_MAX];

	if (block != VT_FOUND_NONE)
		vt_text_fact(line, label, "0x%" PRIx64 ", %s, %s", model->blocks[block].addr,
			     vt_format_size(size, model->blocks[block].size),
			     vt_text_state(model->blocks[block].state));
	else if (found->allocator->exact)
		vt_text_fact(line, label, "none: it is the %s of its segment",
			     after ? "last" : "first");
	else
		vt_text_fact(line, label, "not known");
}

static void print_unmapped(struct vt_line *line, const struct vt_found *found,
			   const struct vt_block_rec *b)
{
	char size[VT_NUM_MAX];

	print_answer(
		line, found->addr, b->addr,
		"%s of address space of an expandable segment of GPU %d, with no memory behind it",
		vt_format_size(size, b->size), found->allocator->device);
}

/* Only of blocks in use. Nothing where owners were not looked for. */
static void print_owner(struct vt_line *line, const struct vt_model *model, size_t block)
{
	const struct vt_model_owner *owner = vt_model_owner(model, block);

	if (owner) {
		vt_text_fact(line, "owner", "%s", *owner->name ? owner->name : "nobody found");
		vt_text_owner_facts(line, model, owner);
	} else if (model->blocks[block].state == VT_BLOCK_ALLOCATED &&
		   model->owners.state != VT_OWNERS_OFF) {
		vt_text_fact(line, "owner", "not known: %s",
			     vt_owners_state_words(model->owners.state));
	}
}

static void print_block(struct vt_line *line, const struct vt_model *model,
			const struct vt_found *found)
{
	const struct vt_block_rec *b = &model->blocks[found->index];
	char size[VT_NUM_MAX], pool[VT_TEXT_MAX], stream[VT_TEXT_MAX];
	bool mapped = b->state != VT_BLOCK_UNMAPPED;

	if (mapped)
		print_answer(line, found->addr, b->addr, "a block of %s, %s, on GPU %d",
			     vt_format_size(size, b->size), vt_text_state(b->state),
			     found->allocator->device);
	else
		print_unmapped(line, found, b);
	print_range(line, b->addr, b->size);
	print_requested(line, b);
	vt_text_fact(line, "pool", "%s, of PyTorch's caching allocator", vt_text_pool(pool, b));
	vt_text_fact(line, "stream", "%s", vt_text_stream(stream, b->stream));
	if (mapped) {
		print_segment(line, model, found);
		print_neighbour(line, model, found, false);
		print_neighbour(line, model, found, true);
	}
	print_owner(line, model, found->index);
	vt_text_origin(line, model, found->index);
}

/* ---- pinned host memory ---- */

static void print_pinned(struct vt_line *line, const struct vt_model *model,
			 const struct vt_found *found)
{
	const struct vt_pinned_block *b = &model->pinned.blocks[found->index];
	bool state_known = model->pinned.exact;
	char size[VT_NUM_MAX];

	print_answer(line, found->addr, b->addr, "a block of %s of pinned host memory%s%s",
		     vt_format_size(size, b->size),
		     state_known ? ", " : ": whether it is in use is not known",
		     state_known ? vt_text_state(b->state) : "");
	print_range(line, b->addr, b->size);
	if (b->private_pool)
		vt_text_fact(line, "pool", "private %u:%u, of PyTorch's allocator of pinned memory",
			     (unsigned int)(b->pool >> 32), (unsigned int)b->pool);
	else
		vt_text_fact(line, "pool", "of PyTorch's allocator of pinned memory");
	if (b->events)
		vt_text_fact(line, "waits for", "%" PRIu32 " event%s", b->events,
			     b->events == 1 ? "" : "s");
	else if (b->streams)
		vt_text_fact(line, "used by", "%" PRIu32 " stream%s", b->streams,
			     b->streams == 1 ? "" : "s");
	vt_text_fact(line, "backtrace", "none: pinned memory is not recorded");
}

/* ---- the driver's memory ---- */

static const char *kind_words(const struct vt_model_driver_block *b)
{
	static const char *const words[VT_N_DRIVER_KINDS] = {
		[VT_DRIVER_KIND_OTHER] = "memory",
		[VT_DRIVER_KIND_DEVICE] = "device memory",
		[VT_DRIVER_KIND_ASYNC] = "device memory of cudaMallocAsync",
		[VT_DRIVER_KIND_MAPPED] = "mapped device memory",
		[VT_DRIVER_KIND_MANAGED] = "managed memory",
		[VT_DRIVER_KIND_HOST] = "pinned host memory",
	};

	return words[b->kind];
}

static void print_driver(struct vt_line *line, const struct vt_model *model,
			 const struct vt_found *found)
{
	const struct vt_model_driver_block *b = &model->driver_blocks.data[found->index];
	char size[VT_NUM_MAX], gpu[32] = "", stream[VT_TEXT_MAX];

	if (b->device >= 0)
		snprintf(gpu, sizeof(gpu), ", GPU %d", b->device);
	print_answer(line, found->addr, b->addr,
		     "%s of %s%s, asked of the driver: none of PyTorch's",
		     vt_format_size(size, b->size), kind_words(b), gpu);
	print_range(line, b->addr, b->size);
	if (b->stream)
		vt_text_fact(line, "stream", "%s", vt_text_stream(stream, b->stream));
	vt_text_record(line, &b->record);
	vt_text_backtrace(line, model, b->trace);
}

/* ---- nothing ---- */

/* If blocks are missing, it is unknown whether the address is in one of them. */
static bool all_known(const struct vt_model *model)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (!model->allocators.data[i].exact)
			return false;
	return model->completeness == VT_COMPLETE;
}

static void print_near(struct vt_line *line, const struct vt_model *model,
		       const struct vt_found *found, const char *label, size_t block)
{
	const struct vt_block_rec *b = &model->blocks[block];
	char size[VT_NUM_MAX], distance[VT_NUM_MAX];
	uint64_t away = b->addr > found->addr ? b->addr - found->addr :
						found->addr - (b->addr + b->size);

	if (b->addr < found->addr && away == 0)
		snprintf(distance, sizeof(distance), "ends right here");
	else
		vt_format_size(distance, away);
	vt_text_fact(line, label, "0x%" PRIx64 ", a block of %s, %s, on GPU %d, %s%s", b->addr,
		     vt_format_size(size, b->size), vt_text_state(b->state), b->device, distance,
		     away ? " away" : "");
}

static void print_nothing(struct vt_line *line, const struct vt_model *model,
			  const struct vt_found *found)
{
	struct vt_str text = { 0 };

	vt_str_addf(&text, "0x%" PRIx64 " is in no block of PyTorch's%s%s", found->addr,
		    model->driver_blocks.n ? ", nor in memory whose allocation was recorded" : "",
		    all_known(model) ? "" : ", as far as they are known");
	vt_line_wrap(line, VT_BOLD, vt_str_get(&text), 2, 3);
	if (text.failed)
		line->buf.failed = true;
	vt_str_deinit(&text);
	if (found->below != VT_FOUND_NONE)
		print_near(line, model, found, "below it", found->below);
	if (found->above != VT_FOUND_NONE)
		print_near(line, model, found, "above it", found->above);
	vt_text_no_allocator(line, model);
}

void vt_text_found(struct vt_line *line, const struct vt_model *model, const struct vt_found *found)
{
	static void (*const print[])(struct vt_line * line, const struct vt_model *model,
				     const struct vt_found *found) = {
		[VT_FOUND_NOTHING] = print_nothing,
		[VT_FOUND_BLOCK] = print_block,
		[VT_FOUND_PINNED] = print_pinned,
		[VT_FOUND_DRIVER] = print_driver,
	};

	print[found->kind](line, model, found);
}
