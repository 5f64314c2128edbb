/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory without a recorded backtrace still has owners: their names make a flame graph, from what
 * the memory is for to the tensor, as "parameters > model > layers[3] > mlp >
 * model.layers[3].mlp.weight". The parts of a module's path have short names, so that what is alike
 * in all layers can be summed up; the path is their file, which tells them apart. Items of lists
 * are one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "model/owners_by.h"
#include "report/profile/building.h"

/* Each part of a module's path has the path up to it: the rest of a longer one is one part. */
#define MAX_PARTS 64
#define MAX_SPLIT 1024 /* bytes */

/* Behind the part that begins at text. Dots in brackets separate nothing: m['a.b'].c */
static size_t part_length(const char *text)
{
	size_t i = 0;
	int depth = 0;

	for (; text[i]; i++) {
		depth += (text[i] == '[') - (text[i] == ']' && depth > 0);
		if (text[i] == '.' && !depth && i > 0)
			break;
	}
	return i;
}

/* "model in main (train.py:41)": where the variable is that the path begins with, n bytes of it. */
static bool is_variable(const char *variable, const char *path, size_t n)
{
	return !strncmp(variable, path, n) && variable[n] == ' ';
}

static uint32_t add_modules(struct vt_profile *profile, uint32_t at, const char *path,
			    const char *variable)
{
	size_t begin = 0;

	for (int parts = 1; path[begin]; parts++) {
		bool is_last = parts >= MAX_PARTS || begin >= MAX_SPLIT;
		size_t n = is_last ? strlen(path + begin) : part_length(path + begin);
		struct vt_profile_frame frame = {
			.name = vt_texts_addn(&profile->texts, path + begin, n),
			.file = vt_texts_addn(&profile->texts, path, begin + n),
		};

		if (!begin && is_variable(variable, path, n))
			frame.name = vt_profile_text(profile, variable);

		at = vt_profile_call(profile, at, vt_profile_frame(profile, &frame));
		begin += n;
		begin += path[begin] == '.';
	}
	return at;
}

static uint32_t add_word(struct vt_profile *profile, uint32_t at, const char *word)
{
	return vt_profile_call(profile, at, vt_profile_word(profile, word));
}

/* "losses[*] in main (train.py:41)": a list of 100,000 items is no 100,000 frames. */
static uint32_t add_items(struct vt_profile *profile, uint32_t at, const char *name)
{
	VT_FREE char *text = strdup(name);

	if (!text) {
		profile->failed = true;
		return at;
	}
	vt_fold_indices(text);
	return add_word(profile, at, text);
}

uint32_t vt_owner_path(struct vt_profile *profile, uint32_t caller,
		       const struct vt_model_owner *owner, bool is_array)
{
	uint32_t at =
		add_word(profile, caller, vt_category_words((enum vt_category)owner->category));
	const char *why = NULL;

	if (owner->category == VT_CATEGORY_UNKNOWN && owner->unowned)
		why = is_array ? vt_unowned_array_words((enum vt_unowned)owner->unowned) :
				 vt_unowned_words((enum vt_unowned)owner->unowned);
	if (why)
		at = add_word(profile, at, why);
	if (*owner->module) {
		at = add_modules(profile, at, owner->module, owner->variable);
		return *owner->name ? add_word(profile, at, owner->name) : at;
	}
	if (*owner->variable && strcmp(owner->variable, owner->name) != 0)
		at = add_word(profile, at, owner->variable);
	return *owner->name ? add_items(profile, at, owner->name) : at;
}

void vt_owner_labels(struct vt_profile *profile, const struct vt_model_owner *owner,
		     uint32_t labels[VT_N_LABELS])
{
	const struct {
		enum vt_profile_label label;
		const char *value;
	} all[] = {
		{ VT_LABEL_CATEGORY, vt_category_code((enum vt_category)owner->category) },
		{ VT_LABEL_OWNER, owner->name },
		{ VT_LABEL_VARIABLE, owner->variable },
		{ VT_LABEL_MODULE, owner->module },
		{ VT_LABEL_TYPE, owner->type },
		{ VT_LABEL_DTYPE, owner->dtype },
		{ VT_LABEL_SHAPE, owner->shape },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		labels[all[i].label] = vt_profile_text(profile, all[i].value);
}
