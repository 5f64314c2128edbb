/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/grown.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "model/place.h"
#include "report/diff/keepers.h"
#include "report/diff/lines.h"

void vt_grown_add_size(struct vt_str *text, const struct vt_growth_source *size)
{
	char number[VT_NUM_MAX];

	vt_str_addf(text, "blocks of %s on GPU %d", vt_format_size(number, size->size),
		    size->device);
	if (size->stream)
		vt_str_addf(text, ", stream 0x%llx", (unsigned long long)size->stream);
}

static void add_label(struct vt_str *text, enum vt_growth_by by,
		      const struct vt_growth_source *source)
{
	switch (by) {
	case VT_GROWTH_BY_LINE:
		vt_line_add_label(text, source->line, source->device);
		break;
	case VT_GROWTH_BY_OWNER:
		vt_str_add(text, vt_keeper_title(source->variable, source->category));
		break;
	case VT_GROWTH_BY_SIZE:
		vt_grown_add_size(text, source);
		break;
	default:
		if (!source->title) {
			vt_str_add(text, "(a thread that ran no Python)");
			break;
		}
		vt_place_add_function(text, source->title, true);
		vt_str_add(text, " ");
		vt_place_add_where(text, source->title);
		break;
	}
}

static const char *copy(struct vt_model *model, struct vt_str *text)
{
	const char *made = text->failed ? NULL : vt_arena_strdup(&model->arena, vt_str_get(text));

	vt_str_deinit(text);
	return made;
}

static bool take_one(struct vt_model *model, enum vt_growth_by by,
		     const struct vt_growth_source *source)
{
	static const enum vt_grown_by kinds[] = {
		[VT_GROWTH_BY_SITE] = VT_GROWN_SITE,
		[VT_GROWTH_BY_SIZE] = VT_GROWN_SIZE,
		[VT_GROWTH_BY_OWNER] = VT_GROWN_OWNER,
		[VT_GROWTH_BY_LINE] = VT_GROWN_LINE,
	};
	struct vt_model_grown *item = vt_vec_append(&model->growth.items);
	struct vt_str name = { 0 }, label = { 0 };

	if (!item)
		return false;
	*item = (struct vt_model_grown){
		.by = kinds[by],
		.device = by == VT_GROWTH_BY_SIZE || by == VT_GROWTH_BY_LINE ? source->device : -1,
		.before_bytes = source->first.bytes,
		.after_bytes = source->last.bytes,
		.before_blocks = source->first.blocks,
		.after_blocks = source->last.blocks,
		.grown_bytes = vt_growth_grown(source),
	};
	add_label(&label, by, source);
	item->label = copy(model, &label);
	if (by != VT_GROWTH_BY_LINE)
		return item->label;
	if (source->line == VT_LINE_KINDS + VT_RANGE_HOST)
		item->device = -1;
	vt_line_add_name(&name, source->line);
	item->name = copy(model, &name);
	return item->label && item->name;
}

bool vt_grown_take(struct vt_model *model, const struct vt_growth *growth)
{
	VT_FREE size_t *order = malloc((growth->sources.n + 1) * sizeof(*order));
	size_t n;

	if (!order)
		return false;
	n = vt_growth_order(growth, order);
	for (size_t i = 0; i < n; i++)
		if (!take_one(model, growth->by, &growth->sources.data[order[i]]))
			return false;
	return true;
}
