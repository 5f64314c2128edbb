/* SPDX-License-Identifier: Apache-2.0 */
#include "gdb/values.h"

#include <string.h>

#include "report/text/parts.h"

static const struct {
	unsigned int values;
	const char *name;
} variables[] = {
	{ VT_GDB_MEMORY | VT_GDB_THREADS, "vt_pid" },
	{ VT_GDB_MEMORY, "vt_reserved" },
	{ VT_GDB_MEMORY, "vt_allocated" },
	{ VT_GDB_MEMORY, "vt_cached" },
	{ VT_GDB_MEMORY, "vt_awaiting" },
	{ VT_GDB_MEMORY, "vt_blocks" },
	{ VT_GDB_MEMORY, "vt_segments" },
	{ VT_GDB_MEMORY, "vt_sites" },
	{ VT_GDB_DEVICES, "vt_devices" },
	{ VT_GDB_DEVICES, "vt_device_total" },
	{ VT_GDB_DEVICES, "vt_device_free" },
	{ VT_GDB_FOUND, "vt_block_addr" },
	{ VT_GDB_FOUND, "vt_block_size" },
	{ VT_GDB_FOUND, "vt_block_requested" },
	{ VT_GDB_FOUND, "vt_block_state" },
	{ VT_GDB_FOUND, "vt_block_device" },
	{ VT_GDB_FOUND, "vt_block_stream" },
	{ VT_GDB_FOUND, "vt_block_category" },
	{ VT_GDB_FOUND, "vt_block_owner" },
	{ VT_GDB_FOUND, "vt_block_prev" },
	{ VT_GDB_FOUND, "vt_block_next" },
	{ VT_GDB_FOUND, "vt_segment_addr" },
	{ VT_GDB_FOUND, "vt_segment_size" },
	{ VT_GDB_THREADS, "vt_threads" },
	{ VT_GDB_THREAD, "vt_tid" },
	{ VT_GDB_THREAD, "vt_frames" },
	{ VT_GDB_THREAD, "vt_pyframes" },
	{ VT_GDB_PYTHON, "vt_pyframe" },
	{ VT_GDB_PYTHON, "vt_pyframe_function" },
	{ VT_GDB_PYTHON, "vt_pyframe_file" },
	{ VT_GDB_PYTHON, "vt_pyframe_line" },
};

void vt_gdb_values_forget(struct vt_gdb_answer *answer, unsigned int values)
{
	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		if (variables[i].values & values)
			vt_gdb_set_void(answer, variables[i].name);
}

/* All allocators together. */
struct totals {
	bool exact;
	uint64_t reserved, allocated, cached, awaiting, blocks, segments;
};

static struct totals add_up(const struct vt_model *model)
{
	struct totals totals = { .exact = model->allocators.n > 0 };

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];

		totals.exact = totals.exact && a->exact;
		totals.reserved += a->reserved_bytes;
		totals.allocated += a->allocated_bytes;
		totals.cached += a->cached_bytes;
		totals.awaiting += a->awaiting_bytes;
		totals.blocks += a->allocated_blocks + a->awaiting_blocks + a->cached_blocks;
		totals.segments += a->result.segments;
	}
	return totals;
}

static void set_known(struct vt_gdb_answer *answer, const char *name, bool known, uint64_t value)
{
	if (known)
		vt_gdb_set_number(answer, name, value);
	else
		vt_gdb_set_void(answer, name);
}

void vt_gdb_values_memory(struct vt_gdb_answer *answer, const struct vt_model *model)
{
	const struct totals t = add_up(model);

	vt_gdb_set_number(answer, "vt_pid", (uint64_t)model->process.pid);
	set_known(answer, "vt_reserved", t.exact, t.reserved);
	set_known(answer, "vt_allocated", t.exact, t.allocated);
	set_known(answer, "vt_cached", t.exact, t.cached);
	set_known(answer, "vt_awaiting", t.exact, t.awaiting);
	set_known(answer, "vt_blocks", t.exact, t.blocks);
	set_known(answer, "vt_segments", t.exact, t.segments);
	set_known(answer, "vt_sites", model->block_traces, model->sites.n);
}

void vt_gdb_values_devices(struct vt_gdb_answer *answer, const struct vt_model *model)
{
	bool known = model->devices.n > 0;
	uint64_t total = 0, free_bytes = 0;

	for (size_t i = 0; i < model->devices.n; i++) {
		const struct vt_model_device *device = &model->devices.data[i];

		if (!device->context_active)
			continue;
		known = known && device->have_memory;
		total += device->total_bytes;
		free_bytes += device->free_bytes;
	}
	known = known && total;
	set_known(answer, "vt_device_total", known, total);
	set_known(answer, "vt_device_free", known, free_bytes);
	set_known(answer, "vt_devices", model->devices.n, model->devices.n);
}

/* Escaped as in our output, because a script may print it and it comes from the process. */
static void set_shown(struct vt_gdb_answer *answer, const char *name, const char *text)
{
	struct vt_str shown = { 0 };

	vt_str_add_escaped(&shown, text ? text : "", text ? strlen(text) : 0);
	vt_gdb_set_text(answer, name, vt_str_get(&shown));
	vt_str_deinit(&shown);
}

static void set_owner(struct vt_gdb_answer *answer, const struct vt_model_owner *owner)
{
	if (owner)
		vt_gdb_set_text(answer, "vt_block_category",
				vt_category_code((enum vt_category)owner->category));
	else
		vt_gdb_set_void(answer, "vt_block_category");
	if (owner && *owner->name)
		set_shown(answer, "vt_block_owner", owner->name);
	else
		vt_gdb_set_void(answer, "vt_block_owner");
}

void vt_gdb_values_found(struct vt_gdb_answer *answer, const struct vt_model *model,
			 const struct vt_found *found)
{
	bool is_block = found->kind == VT_FOUND_BLOCK;
	const struct vt_block_rec *b = is_block ? &model->blocks[found->index] : NULL;
	uint64_t asked = b ? vt_block_asked_for(b) : 0;

	set_known(answer, "vt_block_addr", b, b ? b->addr : 0);
	set_known(answer, "vt_block_size", b, b ? b->size : 0);
	set_known(answer, "vt_block_requested", asked, asked);
	set_known(answer, "vt_block_device", b, is_block ? (uint64_t)found->allocator->device : 0);
	set_known(answer, "vt_block_stream", b, b ? b->stream : 0);
	set_known(answer, "vt_block_prev", is_block && found->before != VT_FOUND_NONE,
		  is_block && found->before != VT_FOUND_NONE ? model->blocks[found->before].addr :
							       0);
	set_known(answer, "vt_block_next", is_block && found->after != VT_FOUND_NONE,
		  is_block && found->after != VT_FOUND_NONE ? model->blocks[found->after].addr : 0);
	/* The unmapped part of an expandable segment is not a segment. */
	set_known(answer, "vt_segment_addr", found->segment_bytes,
		  b ? model->blocks[found->segment].addr : 0);
	set_known(answer, "vt_segment_size", found->segment_bytes, found->segment_bytes);
	if (b)
		vt_gdb_set_text(answer, "vt_block_state", vt_block_state_name(b->state));
	else
		vt_gdb_set_void(answer, "vt_block_state");
	set_owner(answer, is_block ? vt_model_owner(model, found->index) : NULL);
}

void vt_gdb_values_threads(struct vt_gdb_answer *answer, const struct vt_model *model)
{
	vt_gdb_set_number(answer, "vt_pid", (uint64_t)model->process.pid);
	vt_gdb_set_number(answer, "vt_threads", model->threads.n);
}

void vt_gdb_values_thread(struct vt_gdb_answer *answer, const struct vt_model_thread *thread)
{
	vt_gdb_set_number(answer, "vt_tid", (uint64_t)thread->tid);
	vt_gdb_set_number(answer, "vt_frames", thread->stack.n_frames);
	vt_gdb_set_number(answer, "vt_pyframes", vt_model_count_python(&thread->stack));
}

void vt_gdb_values_python(struct vt_gdb_answer *answer, size_t number,
			  const struct vt_model_frame *frame)
{
	vt_gdb_set_number(answer, "vt_pyframe", number);
	set_shown(answer, "vt_pyframe_function", frame->function);
	set_shown(answer, "vt_pyframe_file", frame->file);
	set_known(answer, "vt_pyframe_line", frame->line > 0, (uint64_t)frame->line);
}
