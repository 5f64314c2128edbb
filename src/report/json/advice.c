/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/advice.h"

#include <limits.h>
#include <string.h>

#include "report/advice_words.h"

#define MAX_DEVICE 4096

static void put_words(struct vt_json *json, const char *key, struct vt_str *text)
{
	if (text->failed)
		vt_json_no_memory(json);
	vt_json_text(json, key, vt_str_get(text));
	vt_str_deinit(text);
}

static void put_values(struct vt_json *json, const struct vt_model_advice *advice)
{
	vt_json_object_line(json, "evidence");
	for (size_t i = 0; i < advice->n_values; i++) {
		const struct vt_advice_value *value = &advice->values[i];

		if (value->text)
			vt_json_text(json, value->name, value->text);
		else
			vt_json_uint(json, value->name, value->number);
	}
	vt_json_end_object(json);
}

static void put_advice(struct vt_json *json, const struct vt_model_advice *advice)
{
	struct vt_str text = { 0 }, remedy = { 0 };

	vt_json_object(json, NULL);
	vt_json_text(json, "rule", vt_advice_rule_name(advice->rule));
	vt_json_text(json, "certainty", vt_certainty_name(advice->certainty));
	vt_json_bool(json, "alarm", advice->alarm);
	vt_json_known(json, "device", advice->device);
	put_values(json, advice);
	vt_json_object_line(json, "remedy");
	vt_json_text(json, "code", vt_advice_remedy_name(advice->remedy));
	vt_json_text(json, "setting", advice->setting);
	vt_json_text(json, "command", advice->command);
	vt_advice_remedy(&remedy, advice);
	put_words(json, "text", &remedy);
	vt_json_end_object(json);
	vt_advice_verdict(&text, advice);
	vt_json_text(json, "verdict", vt_str_get(&text));
	vt_str_add(&text, ": ");
	vt_advice_evidence(&text, advice);
	put_words(json, "text", &text);
	vt_json_end_object(json);
}

static void put_next(struct vt_json *json, const struct vt_model_next *next)
{
	struct vt_str text = { 0 };

	vt_json_object_line(json, NULL);
	vt_json_text(json, "code",
		     next->code == VT_NEXT_REMEDY ? vt_advice_remedy_name(next->remedy) :
						    vt_advice_next_name(next->code));
	vt_json_text(json, "setting", next->setting);
	vt_json_text(json, "command", next->command);
	vt_next_purpose(&text, next);
	put_words(json, "text", &text);
	vt_json_end_object(json);
}

void vt_json_advice(struct vt_json *json, const struct vt_model *model)
{
	vt_json_array(json, "advice");
	for (size_t i = 0; i < model->advice.items.n; i++)
		put_advice(json, &model->advice.items.data[i]);
	vt_json_end_array(json);
	vt_json_array(json, "next");
	for (size_t i = 0; i < model->advice.next.n; i++)
		put_next(json, &model->advice.next.data[i]);
	vt_json_end_array(json);
}

static void put_limit(struct vt_json *json, const char *key, bool known, uint64_t limit,
		      uint64_t used)
{
	if (!known) {
		vt_json_null(json, key);
		return;
	}
	vt_json_object_line(json, key);
	vt_json_uint(json, "limit_bytes", limit);
	vt_json_uint(json, "used_bytes", used);
	vt_json_end_object(json);
}

void vt_json_around(struct vt_json *json, const struct vt_model_around *around)
{
	vt_json_known(json, "parent", around->parent > 0 ? around->parent : -1);
	vt_json_array_line(json, "cuda_children");
	for (size_t i = 0; i < around->n_children && i < VT_AROUND_MAX_CHILDREN; i++)
		vt_json_int(json, NULL, around->children[i]);
	vt_json_end_array(json);
	put_limit(json, "memory_limit", around->memory_known, around->memory_limit_bytes,
		  around->memory_used_bytes);
	put_limit(json, "address_limit", around->address_limited, around->address_limit_bytes,
		  around->address_used_bytes);
}

/* ---- reading ---- */

/* The number of a word; 0 for one of a later version. */
static unsigned int load_word(const struct vt_json_value *from, const char *key,
			      const char *(*name)(unsigned int), unsigned int n)
{
	const char *text = vt_json_string(vt_json_get(from, key));

	for (unsigned int i = 0; text && i < n; i++)
		if (!strcmp(text, name(i)))
			return i;
	return 0;
}

static void load_values(struct vt_json_in *in, const struct vt_json_value *from,
			struct vt_model_advice *advice)
{
	for (size_t i = 0; i < vt_json_keys(from); i++) {
		const char *key = vt_json_key(from, i);
		struct vt_advice_value value = { .name = vt_arena_strdup(in->strings, key) };

		if (advice->n_values == VT_ADVICE_MAX_VALUES) {
			vt_json_in_wrong(in, "evidence", "has too many figures");
			return;
		}
		if (vt_json_is(vt_json_of_key(from, i), VT_JSON_STRING))
			value.text = vt_json_in_need_text(in, from, key);
		else
			value.number = vt_json_in_need_uint(in, from, key);
		in->nomem |= !value.name;
		if (in->nomem)
			return;
		advice->values[advice->n_values++] = value;
	}
}

static void load_advice(struct vt_json_in *in, const struct vt_json_value *from,
			struct vt_model_advices *advices)
{
	struct vt_model_advice *advice = vt_vec_append(&advices->items);
	const struct vt_json_value *remedy = vt_json_in_object(in, from, "remedy");

	if (!advice) {
		in->nomem = true;
		return;
	}
	*advice = (struct vt_model_advice){
		.rule = (enum vt_advice_rule)load_word(from, "rule", vt_advice_rule_name,
						       VT_N_ADVICE_RULES),
		.certainty = (enum vt_certainty)vt_json_in_word(
			in, from, "certainty", vt_certainty_name, VT_N_CERTAINTIES),
		.alarm = vt_json_in_need_bool(in, from, "alarm"),
		.device = -1,
		.remedy = (enum vt_advice_remedy)load_word(remedy, "code", vt_advice_remedy_name,
							   VT_N_ADVICE_REMEDIES),
		.setting = vt_json_in_text(in, remedy, "setting"),
		.command = vt_json_in_text(in, remedy, "command"),
	};
	vt_json_in_int(in, from, "device", 0, MAX_DEVICE, &advice->device);
	load_values(in, vt_json_in_object(in, from, "evidence"), advice);
}

static void load_next(struct vt_json_in *in, const struct vt_json_value *from,
		      struct vt_model_advices *advices)
{
	struct vt_model_next *next = vt_vec_append(&advices->next);

	if (!next) {
		in->nomem = true;
		return;
	}
	*next = (struct vt_model_next){
		.code = (enum vt_advice_next)load_word(from, "code", vt_advice_next_name,
						       VT_N_ADVICE_NEXTS),
		.remedy = (enum vt_advice_remedy)load_word(from, "code", vt_advice_remedy_name,
							   VT_N_ADVICE_REMEDIES),
		.setting = vt_json_in_text(in, from, "setting"),
		.command = vt_json_in_text(in, from, "command"),
	};
	if (next->remedy != VT_REMEDY_NONE)
		next->code = VT_NEXT_REMEDY;
}

void vt_json_in_advice(struct vt_json_in *in, const struct vt_json_value *root,
		       struct vt_model_advices *advice)
{
	const struct vt_json_value *items = vt_json_in_array(in, root, "advice"),
				   *next = vt_json_in_array(in, root, "next");

	for (size_t i = 0; i < vt_json_count(items) && !in->nomem; i++)
		load_advice(in, vt_json_in_element(in, items, i, "advice"), advice);
	for (size_t i = 0; i < vt_json_count(next) && !in->nomem; i++)
		load_next(in, vt_json_in_element(in, next, i, "next"), advice);
}

static bool load_limit(struct vt_json_in *in, const struct vt_json_value *from, const char *key,
		       uint64_t *limit, uint64_t *used)
{
	const struct vt_json_value *object = vt_json_in_object(in, from, key);

	if (!object)
		return false;
	*limit = vt_json_in_need_uint(in, object, "limit_bytes");
	*used = vt_json_in_need_uint(in, object, "used_bytes");
	return true;
}

void vt_json_in_around(struct vt_json_in *in, const struct vt_json_value *process,
		       struct vt_model_around *around)
{
	const struct vt_json_value *children = vt_json_in_array(in, process, "cuda_children");

	vt_json_in_int(in, process, "parent", 0, INT_MAX, &around->parent);
	for (size_t i = 0; i < vt_json_count(children) && i < VT_AROUND_MAX_CHILDREN; i++)
		around->children[around->n_children++] =
			(pid_t)vt_json_in_index(in, children, i, INT_MAX, "cuda_children");
	around->memory_known = load_limit(in, process, "memory_limit", &around->memory_limit_bytes,
					  &around->memory_used_bytes);
	around->address_limited = load_limit(in, process, "address_limit",
					     &around->address_limit_bytes,
					     &around->address_used_bytes);
}
