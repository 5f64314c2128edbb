/* SPDX-License-Identifier: Apache-2.0 */
#include "report/profile/building.h"

#include <stdlib.h>

void vt_building_init(struct vt_building *b, struct vt_profile *profile,
		      const struct vt_model *model)
{
	*b = (struct vt_building){
		.profile = profile,
		.model = model,
		.code = calloc(model->n_trace_frames + 1, sizeof(*b->code)),
		.nodes = calloc(model->traces.n + 1, sizeof(*b->nodes)),
	};
	profile->failed |= !b->code || !b->nodes;
}

void vt_building_deinit(struct vt_building *b)
{
	free(b->code);
	free(b->nodes);
	vt_vec_deinit(&b->devices);
}

const struct vt_building_device *vt_building_device(struct vt_building *b, int device)
{
	static const struct vt_building_device none = { .device = -1 };
	struct vt_building_device *added;
	uint32_t name;

	for (size_t i = 0; i < b->devices.n; i++)
		if (b->devices.data[i].device == device)
			return &b->devices.data[i];
	added = vt_vec_append(&b->devices);
	if (!added) {
		b->profile->failed = true;
		return &none;
	}
	name = device < 0 ? vt_profile_text(b->profile, "no device known") :
			    vt_profile_textf(b->profile, "GPU %d", device);
	*added = (struct vt_building_device){
		.device = device,
		.group = vt_profile_group(b->profile, name, false),
		.label = device < 0 ? 0 : vt_profile_textf(b->profile, "cuda:%d", device),
	};
	return added;
}

static uint32_t code_of(struct vt_building *b, uint32_t frame)
{
	if (!b->code[frame])
		b->code[frame] = vt_profile_code(b->profile, &b->model->trace_frames[frame], true);
	return b->code[frame];
}

uint32_t vt_building_trace(struct vt_building *b, uint32_t trace)
{
	const struct vt_model_trace *t = &b->model->traces.data[trace];
	uint32_t at = VT_PROFILE_ROOT;

	if (b->nodes[trace])
		return b->nodes[trace];
	for (size_t i = t->n_frames; i-- > 0;)
		at = vt_profile_call(b->profile, at, code_of(b, t->frames[i]));
	if (!t->n_frames)
		at = vt_profile_call(b->profile, at,
				     vt_profile_word(b->profile, "[a thread that ran no Python]"));
	b->nodes[trace] = at;
	return at;
}
