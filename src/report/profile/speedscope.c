/* SPDX-License-Identifier: Apache-2.0 */
#include "json/out.h"
#include "report/profile/formats.h"
#include "report/profile/stacks.h"

#define SCHEMA "https://www.speedscope.app/file-format-schema.json"

static const char *text_of(const struct vt_profile *profile, uint32_t number)
{
	return vt_texts_get(&profile->texts, number);
}

static void write_frame(struct vt_json *json, const struct vt_profile *profile,
			const struct vt_profile_frame *f)
{
	uint32_t file = f->file ? f->file : f->module;

	vt_json_object_line(json, NULL);
	vt_json_text(json, "name", f->name ? text_of(profile, f->name) : "??");
	if (file)
		vt_json_text(json, "file", text_of(profile, file));
	if (f->file && f->line)
		vt_json_uint(json, "line", f->line);
	vt_json_end_object(json);
}

/* Frame 0 is that of the root, which no stack has; indices begin behind it. */
static void write_frames(struct vt_json *json, const struct vt_profile *profile)
{
	vt_json_object(json, "shared");
	vt_json_array(json, "frames");
	for (size_t i = 1; i < profile->frames.n; i++)
		write_frame(json, profile, &profile->frames.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_stack(struct vt_json *json, const struct vt_profile *profile,
			struct vt_profile_stacks *stacks, uint32_t node)
{
	size_t n = 0;
	const uint32_t *way = vt_profile_way(stacks, profile, node, &n);

	if (!way)
		vt_json_no_memory(json);
	vt_json_array_line(json, NULL);
	for (size_t i = 0; way && i < n; i++)
		vt_json_uint(json, NULL, way[i] - 1);
	vt_json_end_array(json);
}

/* Some stacks as one profile. */
static void write_profile(struct vt_json *json, const struct vt_profile *profile,
			  struct vt_profile_stacks *stacks, size_t first, size_t end, uint32_t name)
{
	const struct vt_profile_stack *list = stacks->list.data;
	uint64_t sum = 0;

	vt_json_object(json, NULL);
	vt_json_text(json, "type", "sampled");
	vt_json_text(json, "name", text_of(profile, name));
	vt_json_text(json, "unit", profile->unit == VT_PROFILE_BYTES ? "bytes" : "none");
	vt_json_array(json, "samples");
	for (size_t i = first; i < end; i++)
		write_stack(json, profile, stacks, list[i].node);
	vt_json_end_array(json);
	vt_json_array_line(json, "weights");
	for (size_t i = first; i < end; i++) {
		vt_json_uint(json, NULL, list[i].weight);
		sum += list[i].weight;
	}
	vt_json_end_array(json);
	vt_json_uint(json, "startValue", 0);
	vt_json_uint(json, "endValue", sum);
	vt_json_end_object(json);
}

/* One a group. A file without any would be refused. */
static void write_profiles(struct vt_json *json, const struct vt_profile *profile,
			   struct vt_profile_stacks *stacks)
{
	const struct vt_profile_stack *list = stacks->list.data;

	vt_json_array(json, "profiles");
	for (size_t i = 0, end; i < stacks->list.n; i = end) {
		for (end = i; end < stacks->list.n && list[end].group == list[i].group;)
			end++;
		write_profile(json, profile, stacks, i, end,
			      profile->groups.data[list[i].group].name);
	}
	if (!stacks->list.n)
		write_profile(json, profile, stacks, 0, 0, profile->name);
	vt_json_end_array(json);
}

struct vt_error *vt_write_profile_speedscope(const void *what,
					     const struct vt_writer_options *options, FILE *out)
{
	const struct vt_profile *profile = what;
	struct vt_profile_stacks stacks = { 0 };
	struct vt_json json;

	(void)options; /* options are for text */
	vt_json_init(&json, out);
	vt_json_object(&json, NULL);
	vt_json_text(&json, "$schema", SCHEMA);
	vt_json_text(&json, "exporter", text_of(profile, profile->tool));
	vt_json_text(&json, "name", text_of(profile, profile->name));
	if (vt_profile_failed(profile) || !vt_profile_stacks_init(&stacks, profile, false))
		vt_json_no_memory(&json);
	write_frames(&json, profile);
	write_profiles(&json, profile, &stacks);
	vt_json_end_object(&json);
	vt_profile_stacks_deinit(&stacks);
	return vt_json_finish(&json);
}
