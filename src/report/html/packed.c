/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/packed.h"

#include <stddef.h>

#include "base/clock.h"
#include "json/out.h"

static void put_sizes(struct vt_json *json, const struct vt_model *model, size_t first, size_t end)
{
	vt_json_array_line(json, "bytes");
	for (size_t i = first; i < end; i++)
		vt_json_uint(json, NULL, model->blocks[i].size);
	vt_json_end_array(json);
}

/* The names begin with different letters: allocated, awaiting-free, cached, unmapped. */
static char state_letter(uint8_t state)
{
	static const char letters[] = {
		[VT_BLOCK_ALLOCATED] = 'a',
		[VT_BLOCK_AWAITING_FREE] = 'w',
		[VT_BLOCK_CACHED] = 'c',
		[VT_BLOCK_UNMAPPED] = 'u',
	};

	return state < sizeof(letters) ? letters[state] : '?';
}

/* In pieces: vt_json_textn() takes text as a whole. */
static void put_states(struct vt_json *json, const struct vt_model *model, size_t first, size_t end)
{
	char letters[4096];

	vt_json_array_line(json, "states");
	for (size_t i = first; i < end;) {
		size_t n = 0;

		while (i < end && n < sizeof(letters))
			letters[n++] = state_letter(model->blocks[i++].state);
		vt_json_textn(json, NULL, letters, n);
	}
	vt_json_end_array(json);
}

static void put_requested(struct vt_json *json, const struct vt_model *model, size_t first,
			  size_t end)
{
	bool known = false;

	for (size_t i = first; i < end && !known; i++)
		known = vt_block_asked_for(&model->blocks[i]);
	if (!known) {
		vt_json_null(json, "requested");
		return;
	}
	vt_json_array_line(json, "requested");
	for (size_t i = first; i < end; i++)
		vt_json_uint(json, NULL, vt_block_asked_for(&model->blocks[i]));
	vt_json_end_array(json);
}

static int64_t trace_number(const struct vt_model *model, size_t i)
{
	uint32_t trace = model->block_traces[i];

	return trace < model->traces.n ? (int64_t)trace : -1 - (int64_t)(UINT32_MAX - trace);
}

static void put_backtraces(struct vt_json *json, const struct vt_model *model, size_t first,
			   size_t end)
{
	if (!model->block_traces) {
		vt_json_null(json, "backtraces");
		return;
	}
	vt_json_array_line(json, "backtraces");
	for (size_t i = first; i < end; i++)
		vt_json_int(json, NULL, trace_number(model, i));
	vt_json_end_array(json);
}

static void put_owner_numbers(struct vt_json *json, const struct vt_model *model, size_t first,
			      size_t end)
{
	vt_json_array_line(json, "owners");
	for (size_t i = first; i < end; i++) {
		const struct vt_model_owner *owner = vt_model_owner(model, i);

		vt_json_int(json, NULL, owner ? owner - model->owners.items.data : -1);
	}
	vt_json_end_array(json);
}

static void put_ages(struct vt_json *json, const struct vt_model *model, size_t first, size_t end)
{
	if (!model->block_records) {
		vt_json_null(json, "ages");
		vt_json_null(json, "tids");
		return;
	}
	vt_json_array_line(json, "ages");
	for (size_t i = first; i < end; i++) {
		const struct vt_model_record *record = vt_model_block_record(model, i);

		vt_json_int(json, NULL,
			    record && record->age_ns != VT_NO_AGE ?
				    (int64_t)((record->age_ns + VT_NS_PER_MS / 2) / VT_NS_PER_MS) :
				    -1);
	}
	vt_json_end_array(json);
	vt_json_array_line(json, "tids");
	for (size_t i = first; i < end; i++) {
		const struct vt_model_record *record = vt_model_block_record(model, i);

		vt_json_int(json, NULL, record ? record->tid : 0);
	}
	vt_json_end_array(json);
}

static void put_segment(struct vt_json *json, const struct vt_model *model, size_t first,
			size_t end)
{
	vt_json_object(json, "packed");
	put_sizes(json, model, first, end);
	put_states(json, model, first, end);
	put_requested(json, model, first, end);
	put_backtraces(json, model, first, end);
	put_owner_numbers(json, model, first, end);
	put_ages(json, model, first, end);
	vt_json_end_object(json);
}

/* ---- owners: a column for each field of "owner" in doc/report.schema.json ---- */

static void put_category(struct vt_json *json, const struct vt_model_owner *owner)
{
	vt_json_text(json, NULL, vt_category_code((enum vt_category)owner->category));
}

static void put_unowned(struct vt_json *json, const struct vt_model_owner *owner)
{
	vt_json_text(json, NULL, vt_unowned_code((enum vt_unowned)owner->unowned));
}

static void put_certain(struct vt_json *json, const struct vt_model_owner *owner)
{
	vt_json_uint(json, NULL, owner->certain);
}

static void put_tensors(struct vt_json *json, const struct vt_model_owner *owner)
{
	vt_json_uint(json, NULL, owner->n_tensors);
}

static void put_freed_bytes(struct vt_json *json, const struct vt_model_owner *owner)
{
	vt_json_uint(json, NULL, owner->freed_bytes);
}

static void put_holders(struct vt_json *json, const struct vt_model_owner *owner)
{
	if (!owner->n_holders) {
		vt_json_null(json, NULL);
		return;
	}
	vt_json_array_line(json, NULL);
	for (size_t i = 0; i < owner->n_holders; i++)
		vt_json_name(json, NULL, owner->holders[i]);
	vt_json_end_array(json);
}

#define TEXT(field)                                                            \
	{                                                                      \
		.name = #field, .text = offsetof(struct vt_model_owner, field) \
	}

static const struct {
	const char *name;
	void (*put)(struct vt_json *json, const struct vt_model_owner *owner); /* NULL: a text */
	size_t text;                                                           /* where that is */
} columns[] = {
	{ "category", put_category, 0 },
	{ "unowned", put_unowned, 0 },
	{ "certain", put_certain, 0 },
	TEXT(name),
	TEXT(variable),
	TEXT(module),
	TEXT(type),
	TEXT(dtype),
	TEXT(shape),
	{ "tensors", put_tensors, 0 },
	TEXT(freed),
	{ "freed_bytes", put_freed_bytes, 0 },
	{ "holders", put_holders, 0 },
};

#undef TEXT

static void put_cell(struct vt_json *json, size_t column, const struct vt_model_owner *owner)
{
	if (columns[column].put)
		columns[column].put(json, owner);
	else
		vt_json_name(json, NULL,
			     *(const char *const *)(const void *)((const char *)owner +
								  columns[column].text));
}

static void put_rest(struct vt_json *json, const struct vt_model *model)
{
	vt_json_object(json, "packed");
	vt_json_array_line(json, "no_backtrace");
	for (size_t i = 0; i < VT_N_UNTRACED; i++)
		vt_json_text(json, NULL, vt_untraced_name((enum vt_untraced)i));
	vt_json_end_array(json);
	vt_json_object(json, "owners");
	for (size_t c = 0; c < sizeof(columns) / sizeof(columns[0]); c++) {
		vt_json_array_line(json, columns[c].name);
		for (size_t i = 0; i < model->owners.items.n; i++)
			put_cell(json, c, &model->owners.items.data[i]);
		vt_json_end_array(json);
	}
	vt_json_end_object(json);
	vt_json_end_object(json);
}

const struct vt_json_blocks vt_html_packed_blocks = { .segment = put_segment, .rest = put_rest };
