/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/growth.h"

static void write_item(struct vt_json *json, const struct vt_model_grown *item)
{
	vt_json_object_line(json, NULL);
	vt_json_text(json, "by", vt_grown_by_name(item->by));
	vt_json_text(json, "line", item->name);
	vt_json_text(json, "label", item->label);
	vt_json_known(json, "device", item->device);
	vt_json_uint(json, "before_bytes", item->before_bytes);
	vt_json_uint(json, "after_bytes", item->after_bytes);
	vt_json_int(json, "grown_bytes", item->grown_bytes);
	vt_json_uint(json, "before_blocks", item->before_blocks);
	vt_json_uint(json, "after_blocks", item->after_blocks);
	vt_json_end_object(json);
}

static void put_bytes(struct vt_json *json, uint64_t bytes)
{
	if (bytes == UINT64_MAX)
		vt_json_null(json, NULL);
	else
		vt_json_uint(json, NULL, bytes);
}

static void write_line(struct vt_json *json, const struct vt_model_course *course,
		       const struct vt_model_course_line *line)
{
	vt_json_object(json, NULL);
	vt_json_text(json, "line", line->name);
	vt_json_text(json, "label", line->label);
	vt_json_known(json, "device", line->device);
	vt_json_bool(json, "grows", line->grows);
	vt_json_array_line(json, "bytes");
	for (size_t i = 0; i < course->n_points; i++)
		put_bytes(json, line->bytes[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_course(struct vt_json *json, const struct vt_model_course *course)
{
	vt_json_object(json, NULL);
	vt_json_text(json, "by", vt_grown_by_name(course->by));
	vt_json_array_line(json, "seconds");
	for (size_t i = 0; i < course->n_points; i++)
		vt_json_milli(json, NULL, course->seconds[i]);
	vt_json_end_array(json);
	vt_json_array_line(json, "sums");
	for (size_t i = 0; i < course->n_points; i++)
		put_bytes(json, course->sums[i]);
	vt_json_end_array(json);
	vt_json_uint(json, "left_out", course->left_out);
	vt_json_array(json, "lines");
	for (size_t i = 0; i < course->n_lines; i++)
		write_line(json, course, &course->lines[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

void vt_json_growth(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_growth *growth = &model->growth;

	if (!growth->known) {
		vt_json_null(json, "growth");
		return;
	}
	vt_json_object(json, "growth");
	vt_json_uint(json, "looks", growth->looks);
	vt_json_uint(json, "failed_looks", growth->failed);
	vt_json_uint(json, "ledger_looks", growth->line_looks);
	vt_json_uint(json, "owner_looks", growth->owner_looks);
	vt_json_milli(json, "seconds", growth->seconds);
	vt_json_milli(json, "ledger_seconds", growth->line_seconds);
	vt_json_array(json, "grows");
	for (size_t i = 0; i < growth->items.n; i++)
		write_item(json, &growth->items.data[i]);
	vt_json_end_array(json);
	vt_json_array(json, "courses");
	for (size_t i = 0; i < growth->courses.n; i++)
		write_course(json, &growth->courses.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
