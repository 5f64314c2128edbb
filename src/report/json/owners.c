/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/owners.h"

static void write_categories(struct vt_json *json, const struct vt_model_owners *owners)
{
	vt_json_array(json, "categories");
	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		const struct vt_model_category *c = &owners->categories[i];

		if (!c->blocks)
			continue;
		vt_json_object_line(json, NULL);
		vt_json_text(json, "category", vt_category_code((enum vt_category)i));
		vt_json_uint(json, "bytes", c->bytes);
		vt_json_uint(json, "blocks", c->blocks);
		vt_json_uint(json, "certain_bytes", c->certain_bytes);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_freed(struct vt_json *json, const struct vt_model_owners *owners)
{
	vt_json_array(json, "frees");
	for (size_t i = 0; i < owners->freed.n; i++) {
		const struct vt_model_freed *freed = &owners->freed.data[i];

		vt_json_object_line(json, NULL);
		vt_json_name(json, "name", freed->name);
		vt_json_uint(json, "bytes", freed->bytes);
		vt_json_uint(json, "blocks", freed->blocks);
		vt_json_uint(json, "items", freed->items);
		vt_json_bool(json, "certain", freed->certain);
		vt_json_bool(json, "mostly_activations", freed->category == VT_CATEGORY_ACTIVATION);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

void vt_json_owners(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_owners *owners = &model->owners;

	vt_json_object(json, "owners");
	vt_json_text(json, "state", vt_owners_state_name(owners->state));
	if (owners->state == VT_OWNERS_READ) {
		vt_json_bool(json, "whole", owners->whole);
		vt_json_bool(json, "ran", owners->ran);
		vt_json_uint(json, "objects", owners->n_objects);
		vt_json_uint(json, "references", owners->n_references);
		vt_json_uint(json, "tensors", owners->n_tensors);
		write_categories(json, owners);
		write_freed(json, owners);
	}
	vt_json_end_object(json);
}

void vt_json_owner(struct vt_json *json, const struct vt_model_owner *owner)
{
	vt_json_object_line(json, "owner");
	vt_json_text(json, "category", vt_category_code((enum vt_category)owner->category));
	vt_json_name(json, "name", owner->name);
	vt_json_bool(json, "certain", owner->certain);
	if (owner->n_storages) {
		vt_json_name(json, "variable", owner->variable);
		vt_json_name(json, "module", owner->module);
		vt_json_name(json, "type", owner->type);
		vt_json_uint(json, "storage_bytes", owner->storage_bytes);
		vt_json_uint(json, "used_bytes", owner->used_bytes);
		vt_json_uint(json, "storages", owner->n_storages);
		vt_json_uint(json, "tensors", owner->n_tensors);
		vt_json_uint(json, "unexplained_references", owner->unexplained);
		vt_json_name(json, "dtype", owner->dtype);
		vt_json_name(json, "shape", owner->shape);
		if (owner->requires_grad >= 0)
			vt_json_bool(json, "requires_grad", owner->requires_grad);
		else
			vt_json_null(json, "requires_grad");
		vt_json_bool(json, "has_grad_fn", owner->has_grad_fn);
	}
	vt_json_end_object(json);
}

/* ---- reading ---- */

static const char *state_name(unsigned int state)
{
	return vt_owners_state_name((enum vt_owners_state)state);
}

static const char *category_name(unsigned int category)
{
	return vt_category_code((enum vt_category)category);
}

static void load_freed(struct vt_json_in *in, json_t *from, struct vt_model_owners *owners)
{
	json_t *all = vt_json_in_array(in, from, "frees");

	for (size_t i = 0; i < json_array_size(all); i++) {
		json_t *one = vt_json_in_element(in, all, i, "frees");
		struct vt_model_freed *freed = vt_vec_append(&owners->freed);
		uint64_t items;

		if (!freed) {
			in->nomem = true;
			return;
		}
		*freed = (struct vt_model_freed){
			.name = vt_json_in_need_text(in, one, "name"),
			.bytes = vt_json_in_need_uint(in, one, "bytes"),
			.blocks = vt_json_in_need_uint(in, one, "blocks"),
			.certain = vt_json_in_need_bool(in, one, "certain"),
		};
		if (vt_json_in_need_bool(in, one, "mostly_activations"))
			freed->category = VT_CATEGORY_ACTIVATION;
		items = vt_json_in_need_uint(in, one, "items");
		freed->items = items > UINT32_MAX ? UINT32_MAX : (uint32_t)items;
	}
}

void vt_json_in_owners(struct vt_json_in *in, json_t *root, struct vt_model_owners *owners)
{
	json_t *from = json_object_get(root, "owners");

	if (!from)
		return;
	owners->state = (enum vt_owners_state)vt_json_in_word(in, from, "state", state_name,
							      VT_N_OWNERS_STATES);
	if (owners->state != VT_OWNERS_READ)
		return;
	vt_json_in_bool(in, from, "whole", &owners->whole);
	vt_json_in_bool(in, from, "ran", &owners->ran);
	load_freed(in, from, owners);
}

static uint32_t small(struct vt_json_in *in, json_t *from, const char *key)
{
	uint64_t value = 0;

	vt_json_in_uint(in, from, key, &value);
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static const char *text_or_empty(struct vt_json_in *in, json_t *from, const char *key)
{
	const char *text = vt_json_in_text(in, from, key);

	return text ? text : "";
}

void vt_json_in_owner(struct vt_json_in *in, json_t *block, uint32_t index,
		      struct vt_model_owners *owners)
{
	json_t *from = json_object_get(block, "owner");
	struct vt_model_owner *owner = from ? vt_vec_append(&owners->items) : NULL;
	bool needs = false;

	if (!owner) {
		in->nomem |= from != NULL;
		return;
	}
	*owner = (struct vt_model_owner){
		.block = index,
		.category = (uint8_t)vt_json_in_word(in, from, "category", category_name,
						     VT_N_CATEGORIES),
		.certain = vt_json_in_need_bool(in, from, "certain"),
		.n_tensors = small(in, from, "tensors"),
		.n_storages = small(in, from, "storages"),
		.unexplained = small(in, from, "unexplained_references"),
		.name = text_or_empty(in, from, "name"),
		.variable = text_or_empty(in, from, "variable"),
		.module = text_or_empty(in, from, "module"),
		.type = text_or_empty(in, from, "type"),
		.dtype = text_or_empty(in, from, "dtype"),
		.shape = text_or_empty(in, from, "shape"),
	};
	vt_json_in_uint(in, from, "storage_bytes", &owner->storage_bytes);
	vt_json_in_uint(in, from, "used_bytes", &owner->used_bytes);
	owner->requires_grad = vt_json_in_bool(in, from, "requires_grad", &needs) ? needs : -1;
	vt_json_in_bool(in, from, "has_grad_fn", &owner->has_grad_fn);
}
