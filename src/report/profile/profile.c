/* SPDX-License-Identifier: Apache-2.0 */
#include "report/profile/profile.h"

#include <stdarg.h>
#include <string.h>

#include "model/place.h"
#include "base/hash.h"

void vt_profile_init(struct vt_profile *profile, enum vt_profile_unit unit)
{
	struct vt_profile_frame *no_frame;
	struct vt_profile_node *root;

	*profile = (struct vt_profile){ .unit = unit };
	vt_texts_init(&profile->texts);
	no_frame = vt_vec_append(&profile->frames);
	root = vt_vec_append(&profile->nodes);
	if (no_frame)
		*no_frame = (struct vt_profile_frame){ 0 };
	if (root)
		*root = (struct vt_profile_node){ 0 };
	profile->failed = !no_frame || !root;
}

void vt_profile_deinit(struct vt_profile *profile)
{
	vt_texts_deinit(&profile->texts);
	vt_vec_deinit(&profile->frames);
	vt_vec_deinit(&profile->nodes);
	vt_vec_deinit(&profile->samples);
	vt_vec_deinit(&profile->groups);
	vt_vec_deinit(&profile->comments);
	vt_map_deinit(&profile->by_frame);
	vt_map_deinit(&profile->by_call);
	vt_map_deinit(&profile->by_sample);
}

bool vt_profile_failed(const struct vt_profile *profile)
{
	return profile->failed || profile->texts.failed;
}

static uint32_t add_formatted(struct vt_profile *profile, const char *format, va_list args)
{
	struct vt_str text = { 0 };
	uint32_t number;

	vt_str_vaddf(&text, format, args);
	profile->failed |= text.failed;
	number = vt_texts_add(&profile->texts, vt_str_get(&text));
	vt_str_deinit(&text);
	return number;
}

uint32_t vt_profile_textf(struct vt_profile *profile, const char *format, ...)
{
	uint32_t number;
	va_list args;

	va_start(args, format);
	number = add_formatted(profile, format, args);
	va_end(args);
	return number;
}

void vt_profile_comment(struct vt_profile *profile, const char *format, ...)
{
	uint32_t *comment = vt_vec_append(&profile->comments);
	va_list args;

	va_start(args, format);
	if (comment)
		*comment = add_formatted(profile, format, args);
	va_end(args);
	profile->failed |= !comment;
}

uint32_t vt_profile_group(struct vt_profile *profile, uint32_t name, bool repeats)
{
	struct vt_profile_group *group = vt_vec_append(&profile->groups);

	if (!group) {
		profile->failed = true;
		return 0;
	}
	*group = (struct vt_profile_group){ .name = name, .repeats = repeats };
	return (uint32_t)profile->groups.n - 1;
}

/* ---- frames ---- */

uint32_t vt_profile_frame(struct vt_profile *profile, const struct vt_profile_frame *frame)
{
	uint64_t key = vt_hash_bytes(profile->texts.seed, frame, sizeof(*frame));
	struct vt_profile_frame *added;
	const uint64_t *found;

	if (profile->failed)
		return 0;
	for (; (found = vt_map_get(&profile->by_frame, key)); key++) {
		if (!memcmp(&profile->frames.data[*found], frame, sizeof(*frame)))
			return (uint32_t)*found;
	}
	added = profile->frames.n < UINT32_MAX ? vt_vec_append(&profile->frames) : NULL;
	if (added)
		*added = *frame;
	if (!added || !vt_map_put(&profile->by_frame, key, profile->frames.n - 1)) {
		profile->failed = true;
		return 0;
	}
	return (uint32_t)profile->frames.n - 1;
}

uint32_t vt_profile_word(struct vt_profile *profile, const char *name)
{
	struct vt_profile_frame frame = { .name = vt_profile_text(profile, name) };

	return vt_profile_frame(profile, &frame);
}

/* A function without a name is told by its place. */
static void name_it(struct vt_profile *profile, const struct vt_model_frame *f,
		    struct vt_profile_frame *frame)
{
	struct vt_str text = { 0 };
	bool is_named = f->function && *f->function;

	vt_place_add_where(&text, f);
	frame->where = vt_texts_addn(&profile->texts, vt_str_get(&text), text.n);
	if (is_named || !frame->where) {
		vt_str_clear(&text);
		vt_place_add_function(&text, f, true);
		frame->name = vt_texts_addn(&profile->texts, vt_str_get(&text), text.n);
	} else {
		frame->name = frame->where;
		frame->where = 0;
	}
	if (is_named)
		frame->system = vt_profile_text(profile, f->function);
	if (frame->system == frame->name)
		frame->system = 0;
	profile->failed |= text.failed;
	vt_str_deinit(&text);
}

uint32_t vt_profile_code(struct vt_profile *profile, const struct vt_model_frame *f, bool addresses)
{
	struct vt_profile_frame frame = {
		.file = vt_profile_text(profile, f->file),
		.line = f->line > 0 ? (uint32_t)f->line : 0,
	};

	if (f->kind == VT_FRAME_NATIVE) {
		frame.module = vt_profile_text(profile, f->module);
		frame.inlined = f->inlined;
		if (addresses) {
			frame.build_id = vt_profile_text(profile, f->build_id);
			frame.pc = f->inlined ? 0 : f->pc;
			frame.bias = f->module && !f->inlined && f->pc >= f->module_offset ?
					     f->pc - f->module_offset :
					     0;
		}
	}
	name_it(profile, f, &frame);
	return vt_profile_frame(profile, &frame);
}

/* ---- stacks and samples ---- */

uint32_t vt_profile_call(struct vt_profile *profile, uint32_t caller, uint32_t frame)
{
	uint64_t key = (uint64_t)caller << 32 | frame;
	const uint64_t *found = vt_map_get(&profile->by_call, key);
	struct vt_profile_node *added;

	if (found || profile->failed)
		return found ? (uint32_t)*found : VT_PROFILE_ROOT;
	added = profile->nodes.n < UINT32_MAX ? vt_vec_append(&profile->nodes) : NULL;
	if (added)
		*added = (struct vt_profile_node){ .parent = caller, .frame = frame };
	if (!added || !vt_map_put(&profile->by_call, key, profile->nodes.n - 1)) {
		profile->failed = true;
		return VT_PROFILE_ROOT;
	}
	return (uint32_t)profile->nodes.n - 1;
}

/* Of all but count and bytes, which come last. */
#define KEY_BYTES offsetof(struct vt_profile_sample, count)

void vt_profile_add(struct vt_profile *profile, const struct vt_profile_sample *sample)
{
	uint64_t key = vt_hash_bytes(profile->texts.seed, sample, KEY_BYTES);
	struct vt_profile_sample *added;
	const uint64_t *found;

	if (profile->failed)
		return;
	for (; (found = vt_map_get(&profile->by_sample, key)); key++) {
		struct vt_profile_sample *known = &profile->samples.data[*found];

		if (memcmp(known, sample, KEY_BYTES) != 0)
			continue;
		known->count += sample->count;
		known->bytes += sample->bytes;
		return;
	}
	added = vt_vec_append(&profile->samples);
	if (added)
		*added = *sample;
	profile->failed |= !added || !vt_map_put(&profile->by_sample, key, profile->samples.n - 1);
}
