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

static const enum vt_grown_by kinds[] = {
	[VT_GROWTH_BY_SITE] = VT_GROWN_SITE,
	[VT_GROWTH_BY_SIZE] = VT_GROWN_SIZE,
	[VT_GROWTH_BY_OWNER] = VT_GROWN_OWNER,
	[VT_GROWTH_BY_LINE] = VT_GROWN_LINE,
};

/* What a source is called; name is for lines only. False when out of memory. */
static bool take_names(struct vt_model *model, enum vt_growth_by by,
		       const struct vt_growth_source *source, const char **label, const char **name,
		       int *device)
{
	struct vt_str words = { 0 }, code = { 0 };

	add_label(&words, by, source);
	*label = copy(model, &words);
	*name = NULL;
	*device = by == VT_GROWTH_BY_SIZE || by == VT_GROWTH_BY_LINE ? source->device : -1;
	if (by != VT_GROWTH_BY_LINE)
		return *label;
	if (source->line == VT_LINE_KINDS + VT_RANGE_HOST)
		*device = -1;
	vt_line_add_name(&code, source->line);
	*name = copy(model, &code);
	return *label && *name;
}

static bool take_one(struct vt_model *model, enum vt_growth_by by,
		     const struct vt_growth_source *source)
{
	struct vt_model_grown *item = vt_vec_append(&model->growth.items);

	if (!item)
		return false;
	*item = (struct vt_model_grown){
		.by = kinds[by],
		.before_bytes = source->first.bytes,
		.after_bytes = source->last.bytes,
		.before_blocks = source->first.blocks,
		.after_blocks = source->last.blocks,
		.grown_bytes = vt_growth_grown(source),
	};
	return take_names(model, by, source, &item->label, &item->name, &item->device);
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

/* ---- how it went ---- */

#define MAX_LINES 24 /* of a course */

struct ordered {
	const struct vt_growth_source *source;
	size_t number;
	bool grows;
};

/* What grows comes first, each part by size at the last look. */
static int compare_ordered(const void *pa, const void *pb)
{
	const struct ordered *a = pa, *b = pb;

	if (a->grows != b->grows)
		return (int)b->grows - (int)a->grows;
	if (a->source->last.bytes != b->source->last.bytes)
		return a->source->last.bytes > b->source->last.bytes ? -1 : 1;
	return a->number < b->number ? -1 : a->number > b->number;
}

static bool take_line(struct vt_model *model, const struct vt_growth *growth,
		      const struct ordered *one, struct vt_model_course_line *line)
{
	const struct vt_course *course = &growth->course;
	uint64_t otherwise = growth->by == VT_GROWTH_BY_LINE ? VT_COURSE_UNKNOWN : 0;
	uint64_t *bytes = vt_arena_alloc(&model->arena, course->points.n * sizeof(*bytes));

	if (!bytes)
		return false;
	for (size_t i = 0; i < course->points.n; i++)
		bytes[i] = vt_course_bytes(course, i, one->number, otherwise);
	line->grows = one->grows;
	line->bytes = bytes;
	return take_names(model, growth->by, one->source, &line->label, &line->name, &line->device);
}

static bool take_points(struct vt_model *model, const struct vt_course *from,
			struct vt_model_course *course)
{
	double *seconds = vt_arena_alloc(&model->arena, from->points.n * sizeof(*seconds));
	uint64_t *sums = vt_arena_alloc(&model->arena, from->points.n * sizeof(*sums));

	if (!seconds || !sums)
		return false;
	for (size_t i = 0; i < from->points.n; i++) {
		seconds[i] = from->points.data[i].seconds;
		sums[i] = from->points.data[i].sum;
	}
	course->seconds = seconds;
	course->sums = sums;
	course->n_points = from->points.n;
	return true;
}

/* Those that a course has amounts of, in order. NULL: out of memory. */
static struct ordered *order_sources(const struct vt_growth *growth, size_t *n)
{
	size_t kept = growth->sources.n < VT_COURSE_AMOUNTS ? growth->sources.n : VT_COURSE_AMOUNTS;
	struct ordered *order = malloc((kept + 1) * sizeof(*order));

	if (!order)
		return NULL;
	for (size_t i = 0; i < kept; i++)
		order[i] = (struct ordered){
			.source = &growth->sources.data[i],
			.number = i,
			.grows = vt_growth_is_growing(growth, &growth->sources.data[i]),
		};
	qsort(order, kept, sizeof(*order), compare_ordered);
	*n = kept < MAX_LINES ? kept : MAX_LINES;
	return order;
}

bool vt_grown_take_course(struct vt_model *model, const struct vt_growth *growth)
{
	struct vt_model_course course = { .by = kinds[growth->by] }, *added;
	struct vt_model_course_line *lines;
	size_t n = 0;

	if (!growth->looks)
		return true;

	VT_FREE struct ordered *order = order_sources(growth, &n);

	lines = vt_arena_alloc(&model->arena, (n + 1) * sizeof(*lines));
	if (!order || !lines || !take_points(model, &growth->course, &course))
		return false;
	for (size_t i = 0; i < n; i++)
		if (!take_line(model, growth, &order[i], &lines[i]))
			return false;
	course.lines = lines;
	if (growth->sources.n > VT_COURSE_AMOUNTS)
		course.left_out = growth->sources.n - VT_COURSE_AMOUNTS;
	course.n_lines = n;
	added = vt_vec_append(&model->growth.courses);
	if (added)
		*added = course;
	return added;
}
