/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/owners.h"

#include "model/libpools.h"
#include "model/notices.h"

static void write_categories(struct vt_json *json, const struct vt_model_category *categories)
{
	vt_json_array(json, "categories");
	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		const struct vt_model_category *c = &categories[i];

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

static void write_unowned(struct vt_json *json, const struct vt_model_category *unowned)
{
	vt_json_array(json, "unowned");
	for (size_t i = VT_OWNED + 1; i < VT_N_UNOWNED; i++) {
		const struct vt_model_category *c = &unowned[i];

		if (!c->blocks)
			continue;
		vt_json_object_line(json, NULL);
		vt_json_text(json, "why", vt_unowned_code((enum vt_unowned)i));
		vt_json_uint(json, "bytes", c->bytes);
		vt_json_uint(json, "blocks", c->blocks);
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
		vt_json_uint(json, "activation_bytes", freed->activation_bytes);
		vt_json_bool(json, "outdated", freed->outdated);
		vt_json_uint(json, "versions", freed->versions);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_notices(struct vt_json *json, const struct vt_model_owners *owners)
{
	vt_json_array(json, "notices");
	for (size_t i = 0; i < owners->notices.n; i++) {
		const struct vt_model_notice *f = &owners->notices.data[i];

		vt_json_object_line(json, NULL);
		vt_json_text(json, "code", vt_notice_code((enum vt_notice)f->code));
		vt_json_bool(json, "alarm", vt_notice_is_alarm(f));
		vt_json_text(json, "why", vt_notice_why((enum vt_why)f->why));
		vt_json_bool(json, "certain", f->certain);
		vt_json_uint(json, "bytes", f->bytes);
		vt_json_uint(json, "part_bytes", f->part_bytes);
		vt_json_uint(json, "count", f->count);
		vt_json_uint(json, "versions", f->versions);
		vt_json_name(json, "name", f->name);
		vt_json_name(json, "other", f->other);
		vt_json_name(json, "type", f->type);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_by(struct vt_json *json, const struct vt_model *model, enum vt_owners_by by)
{
	struct vt_owners_groups all;

	if (!vt_owners_groups_init(&all, model, by, 0)) {
		vt_json_no_memory(json);
		return;
	}
	vt_json_object(json, "by");
	vt_json_text(json, "kind", vt_owners_by_name(by));
	vt_json_array(json, "groups");
	for (size_t i = 0; i < all.groups.n; i++) {
		const struct vt_owners_group *group = &all.groups.data[i];

		vt_json_object_line(json, NULL);
		vt_json_name(json, "name", group->name);
		vt_json_uint(json, "members", group->members);
		vt_json_uint(json, "bytes", group->bytes);
		vt_json_uint(json, "blocks", group->blocks);
		vt_json_uint(json, "certain_bytes", group->certain_bytes);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
	vt_json_end_object(json);
	vt_owners_groups_deinit(&all);
}

static void write_libraries(struct vt_json *json, const struct vt_model_owners *owners)
{
	vt_json_array(json, "libraries");
	for (unsigned int i = 0; i < VT_N_LIBPOOL_KINDS; i++) {
		const struct vt_model_array_sums *sums = &owners->array_sums[i];

		if (!sums->blocks)
			continue;
		vt_json_object(json, NULL);
		vt_json_text(json, "library", vt_libpool_kind_name(i));
		vt_json_uint(json, "bytes", sums->bytes);
		vt_json_uint(json, "blocks", sums->blocks);
		write_categories(json, sums->categories);
		write_unowned(json, sums->unowned);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_array(struct vt_json *json, const struct vt_model *model,
			const struct vt_model_array *array)
{
	vt_json_object(json, NULL);
	vt_json_text(json, "library", vt_libpool_kind_name(array->library));
	vt_json_hex(json, "address", array->addr);
	vt_json_uint(json, "bytes", array->bytes);
	if (array->device >= 0)
		vt_json_int(json, "device", array->device);
	else
		vt_json_null(json, "device");
	if (array->pool < model->libpools.pools.n)
		vt_json_hex(json, "pool", model->libpools.pools.data[array->pool].rec.object);
	else
		vt_json_null(json, "pool");
	vt_json_owner(json, &array->owner);
	vt_json_end_object(json);
}

static void write_jax(struct vt_json *json, const struct vt_model_owners *owners)
{
	vt_json_array(json, "jax_arrays");
	for (size_t i = 0; i < owners->jax.n; i++) {
		const struct vt_model_jax_array *array = &owners->jax.data[i];

		vt_json_object_line(json, NULL);
		vt_json_hex(json, "object", array->object);
		vt_json_name(json, "name", array->name);
		vt_json_name(json, "variable", array->variable);
		vt_json_text(json, "category", vt_category_code((enum vt_category)array->category));
		vt_json_bool(json, "certain", array->certain);
		vt_json_uint(json, "bytes", array->bytes);
		vt_json_text(json, "dtype", array->dtype);
		vt_json_text(json, "shape", array->shape);
		vt_json_bool(json, "host", array->is_host);
		vt_json_bool(json, "one_device", array->single);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_arrays(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_owners *owners = &model->owners;

	write_libraries(json, owners);
	vt_json_array(json, "arrays");
	for (size_t i = 0; i < owners->arrays.n; i++)
		write_array(json, model, &owners->arrays.data[i]);
	vt_json_end_array(json);
}

void vt_json_owners(struct vt_json *json, const struct vt_model *model,
		    const struct vt_writer_options *options)
{
	const struct vt_model_owners *owners = &model->owners;

	vt_json_object(json, "owners");
	vt_json_text(json, "state", vt_owners_state_name(owners->state));
	if (owners->state == VT_OWNERS_READ || owners->arrays_read) {
		vt_json_bool(json, "whole", owners->whole);
		vt_json_text(json, "bound", vt_owners_bound_code(owners->bound));
		vt_json_bool(json, "ran", owners->ran);
		vt_json_bool(json, "asked", owners->asked);
		vt_json_uint(json, "objects", owners->n_objects);
		vt_json_uint(json, "references", owners->n_references);
		vt_json_uint(json, "tensors", owners->n_tensors);
		write_categories(json, owners->categories);
		write_unowned(json, owners->unowned);
		write_freed(json, owners);
		if (owners->collector_known)
			vt_json_bool(json, "collector_enabled", owners->collector_enabled);
		else
			vt_json_null(json, "collector_enabled");
		write_notices(json, owners);
		if (options->owners_by_given)
			write_by(json, model, options->owners_by);
	}
	if (owners->arrays_read)
		write_arrays(json, model);
	if (owners->jax.n)
		write_jax(json, owners);
	vt_json_end_object(json);
}

static void write_holders(struct vt_json *json, const struct vt_model_owner *owner)
{
	if (owner->other_holders) {
		vt_json_uint(json, "other_holders", owner->other_holders);
		vt_json_array_line(json, "holders");
		for (uint32_t i = 0; i < owner->n_holders; i++)
			vt_json_name(json, NULL, owner->holders[i]);
		vt_json_end_array(json);
	}
	if (owner->freed) {
		vt_json_object_line(json, "frees");
		vt_json_name(json, "name", owner->freed);
		vt_json_uint(json, "bytes", owner->freed_bytes);
		vt_json_uint(json, "blocks", owner->freed_blocks);
		vt_json_end_object(json);
	}
}

/* Null if it is negative: unknown. */
static void write_perhaps(struct vt_json *json, const char *key, int truth)
{
	if (truth < 0)
		vt_json_null(json, key);
	else
		vt_json_bool(json, key, truth);
}

void vt_json_owner(struct vt_json *json, const struct vt_model_owner *owner)
{
	vt_json_object_line(json, "owner");
	vt_json_text(json, "category", vt_category_code((enum vt_category)owner->category));
	vt_json_name(json, "name", owner->name);
	vt_json_bool(json, "certain", owner->certain);
	if (owner->unowned)
		vt_json_text(json, "unowned", vt_unowned_code((enum vt_unowned)owner->unowned));
	if (owner->n_storages) {
		vt_json_name(json, "variable", owner->variable);
		vt_json_name(json, "module", owner->module);
		vt_json_name(json, "type", owner->type);
		if (owner->storage_bytes) {
			vt_json_uint(json, "storage_bytes", owner->storage_bytes);
			vt_json_uint(json, "used_bytes", owner->used_bytes);
		}
		vt_json_uint(json, "storages", owner->n_storages);
		vt_json_uint(json, "tensors", owner->n_tensors);
		if (owner->storage_bytes)
			vt_json_uint(json, "unexplained_references", owner->unexplained);
		vt_json_name(json, "dtype", owner->dtype);
		vt_json_name(json, "shape", owner->shape);
		write_perhaps(json, "requires_grad", owner->requires_grad);
		write_perhaps(json, "has_grad_fn", owner->has_grad_fn);
		write_holders(json, owner);
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

/* A word that is never there stands for the first one, which has none. */
static const char *unowned_name(unsigned int why)
{
	return why ? vt_unowned_code((enum vt_unowned)why) : "";
}

static const char *bound_name(unsigned int bound)
{
	return bound ? vt_owners_bound_code((enum vt_owners_bound)bound) : "";
}

static unsigned int word_or_none(struct vt_json_in *in, const struct vt_json_value *from,
				 const char *key, const char *(*name)(unsigned int), unsigned int n)
{
	const struct vt_json_value *value = vt_json_get(from, key);

	return value && !vt_json_is(value, VT_JSON_NULL) ? vt_json_in_word(in, from, key, name, n) :
							   0;
}

static uint32_t small(struct vt_json_in *in, const struct vt_json_value *from, const char *key)
{
	uint64_t value = 0;

	vt_json_in_uint(in, from, key, &value);
	return value > UINT32_MAX ? UINT32_MAX : (uint32_t)value;
}

static void load_freed(struct vt_json_in *in, const struct vt_json_value *from,
		       struct vt_model_owners *owners)
{
	const struct vt_json_value *all = vt_json_in_array(in, from, "frees");

	for (size_t i = 0; i < vt_json_count(all); i++) {
		const struct vt_json_value *one = vt_json_in_element(in, all, i, "frees");
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
		vt_json_in_uint(in, one, "activation_bytes", &freed->activation_bytes);
		vt_json_in_bool(in, one, "outdated", &freed->outdated);
		freed->versions = small(in, one, "versions");
		items = vt_json_in_need_uint(in, one, "items");
		freed->items = items > UINT32_MAX ? UINT32_MAX : (uint32_t)items;
	}
}

static const char *notice_name(unsigned int code)
{
	return vt_notice_code((enum vt_notice)code);
}

static const char *why_name(unsigned int why)
{
	return vt_notice_why((enum vt_why)why);
}

static const char *text_or_empty(struct vt_json_in *in, const struct vt_json_value *from,
				 const char *key)
{
	const char *text = vt_json_in_text(in, from, key);

	return text ? text : "";
}

static void load_notices(struct vt_json_in *in, const struct vt_json_value *from,
			 struct vt_model_owners *owners)
{
	const struct vt_json_value *all = vt_json_in_array(in, from, "notices");

	for (size_t i = 0; i < vt_json_count(all); i++) {
		const struct vt_json_value *one = vt_json_in_element(in, all, i, "notices");
		struct vt_model_notice *f = vt_vec_append(&owners->notices);

		if (!f) {
			in->nomem = true;
			return;
		}
		*f = (struct vt_model_notice){
			.code = (uint8_t)vt_json_in_word(in, one, "code", notice_name,
							 VT_N_NOTICES),
			.why = (uint8_t)vt_json_in_word(in, one, "why", why_name, VT_N_WHYS),
			.certain = vt_json_in_need_bool(in, one, "certain"),
			.bytes = vt_json_in_need_uint(in, one, "bytes"),
			.part_bytes = vt_json_in_need_uint(in, one, "part_bytes"),
			.count = small(in, one, "count"),
			.versions = small(in, one, "versions"),
			.name = text_or_empty(in, one, "name"),
			.other = text_or_empty(in, one, "other"),
			.type = text_or_empty(in, one, "type"),
		};
	}
}

void vt_json_in_owners(struct vt_json_in *in, const struct vt_json_value *root,
		       struct vt_model_owners *owners)
{
	const struct vt_json_value *from = vt_json_get(root, "owners");

	if (!from)
		return;
	owners->state = (enum vt_owners_state)vt_json_in_word(in, from, "state", state_name,
							      VT_N_OWNERS_STATES);
	if (owners->state != VT_OWNERS_READ)
		return;
	vt_json_in_bool(in, from, "whole", &owners->whole);
	owners->bound = (enum vt_owners_bound)word_or_none(in, from, "bound", bound_name,
							   VT_N_OWNERS_BOUNDS);
	vt_json_in_bool(in, from, "ran", &owners->ran);
	vt_json_in_bool(in, from, "asked", &owners->asked);
	owners->collector_known =
		vt_json_in_bool(in, from, "collector_enabled", &owners->collector_enabled);
	load_freed(in, from, owners);
	load_notices(in, from, owners);
}

void vt_json_in_owner(struct vt_json_in *in, const struct vt_json_value *block, uint32_t index,
		      struct vt_model_owners *owners)
{
	const struct vt_json_value *from = vt_json_get(block, "owner");
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
		.unowned = (uint8_t)word_or_none(in, from, "unowned", unowned_name, VT_N_UNOWNED),
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
	owner->has_grad_fn = vt_json_in_bool(in, from, "has_grad_fn", &needs) ? needs : -1;
}
