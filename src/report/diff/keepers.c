/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/keepers.h"

#include <ctype.h>
#include <string.h>

#include "base/format.h"

#define SAVED "← " /* owners/name.c: "saved by MulBackward0 ← losses[3]" */
#define MAX_ATTRIBUTES 4

/* ---- folding ---- */

static size_t digits(const char *text)
{
	size_t n = 0;

	while (isdigit((unsigned char)text[n]))
		n++;
	return n;
}

/* The bytes of a key in brackets, with them; it may have some of its own. 0: it is not closed. */
static size_t bracket(const char *text)
{
	size_t depth = 0;
	char quote = 0;

	for (size_t i = 0; text[i]; i++) {
		if (quote) {
			if (text[i] == '\\' && text[i + 1])
				i++;
			else if (text[i] == quote)
				quote = 0;
			continue;
		}
		if (text[i] == '\'' || text[i] == '"')
			quote = text[i];
		depth += text[i] == '[';
		depth -= text[i] == ']';
		if (!depth)
			return i + 1;
	}
	return 0;
}

/* all: keys of dicts as well as numbers. */
static void fold(struct vt_str *out, const char *text, bool all)
{
	while (*text) {
		size_t n = 0;

		if (*text == '[') {
			n = all ? bracket(text) : digits(text + 1) + 2;
			if (!all && (n == 2 || text[n - 1] != ']'))
				n = 0;
			vt_str_add(out, n ? "[*]" : "");
		} else if (*text == ':') {
			n = digits(text + 1) + 1;
			n = n > 1 && text[n] == ')' ? n : 0; /* "(train.py:88)" */
		}
		if (!n)
			vt_str_addn(out, text, n = 1);
		text += n;
	}
}

/* What the graph of autograd saved: by which of its nodes does not matter. */
static const char *without_node(const char *name)
{
	const char *rest;

	while (!strncmp(name, "saved by ", 9) && (rest = strstr(name, SAVED)) != NULL)
		name = rest + strlen(SAVED);
	return name;
}

/* What follows an expression: " in main (train.py:88)", ", kept by sys.last_value". */
static bool is_where(const char *text)
{
	return !strncmp(text, " in ", 4) || !strncmp(text, " of a closure", 13) ||
	       !strncmp(text, ", kept by ", 10);
}

/*
 * A name up to the first container after its variable, and where that is: of "self.log[3]['loss']
 * in fit (train.py:88)" it is "self.log in fit (train.py)". A list that is linked has a longer name
 * for each of its items, so there are at most so many attributes.
 */
static void fold_container(struct vt_str *out, const char *name, const char *variable)
{
	size_t n = 0, attributes = 0;
	bool cut = false;

	while (name[n] && name[n] == variable[n] && !is_where(name + n))
		n++;
	vt_str_addn(out, name, n);
	for (name += n; *name && !is_where(name); name += n) {
		n = *name == '[' ? bracket(name) : 1;
		n = n ? n : 1;
		cut |= *name == '[' || (*name == '.' && ++attributes > MAX_ATTRIBUTES);
		if (!cut)
			vt_str_addn(out, name, n);
	}
	fold(out, name, true);
}

/*
 * Categories that tell what their blocks are, whatever has them: all parameters of "model" are one
 * thing. Others tell not much, and attributes of "self" are many things.
 */
static const bool by_variable[VT_N_CATEGORIES] = {
	[VT_CATEGORY_PARAMETER] = true, [VT_CATEGORY_GRADIENT] = true,
	[VT_CATEGORY_OPTIMIZER] = true, [VT_CATEGORY_BUFFER] = true,
	[VT_CATEGORY_CACHE] = true,     [VT_CATEGORY_EXCEPTION] = true,
	[VT_CATEGORY_GARBAGE] = true,
};

static void fold_variable(struct vt_str *out, const struct vt_model_owner *owner, const char *name)
{
	if (*owner->variable && (by_variable[owner->category] || !*name))
		fold(out, owner->variable, false);
	else
		fold_container(out, name, owner->variable);
}

/* ---- grouping ---- */

uint64_t vt_keeper_hash(const char *variable, enum vt_category category)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) + (uint64_t)category; /* FNV-1a */

	for (; *variable; variable++)
		hash = (hash ^ (unsigned char)*variable) * UINT64_C(0x100000001b3);
	return hash;
}

const struct vt_keeper *vt_keepers_find(const struct vt_keepers *keepers, const char *variable,
					enum vt_category category)
{
	uint64_t hash = vt_keeper_hash(variable, category);
	const uint64_t *known;

	for (; (known = vt_map_get(&keepers->index, hash)) != NULL; hash++) {
		const struct vt_keeper *h = &keepers->items.data[*known];

		if (h->category == category && !strcmp(h->variable, variable))
			return h;
	}
	return NULL;
}

static struct vt_keeper *add(struct vt_keepers *keepers, const char *variable,
			     enum vt_category category)
{
	uint64_t hash = vt_keeper_hash(variable, category);
	char *copy = vt_arena_strdup(&keepers->arena, variable);
	struct vt_keeper *h;

	while (vt_map_get(&keepers->index, hash))
		hash++;
	h = copy ? vt_vec_append(&keepers->items) : NULL;
	if (!h || !vt_map_put(&keepers->index, hash, keepers->items.n - 1))
		return NULL;
	*h = (struct vt_keeper){ .variable = copy, .category = category, .certain = true };
	return h;
}

/* One path for all that it holds: as exact as that can be. */
static bool merge_path(struct vt_keepers *keepers, struct vt_keeper *h, const char *name,
		       struct vt_str *path)
{
	if (h->path && !*h->path)
		return true;
	vt_str_clear(path);
	fold(path, name, h->wide);
	if (!h->path) {
		h->path = vt_arena_strdup(&keepers->arena, vt_str_get(path));
		return h->path;
	}
	if (!strcmp(h->path, vt_str_get(path)))
		return true;
	if (h->wide) {
		h->path = "";
		return true;
	}
	h->wide = true;
	vt_str_clear(path);
	fold(path, h->path, true);
	h->path = vt_arena_strdup(&keepers->arena, vt_str_get(path));
	return h->path && merge_path(keepers, h, name, path);
}

static bool count(struct vt_keepers *keepers, const struct vt_model *model,
		  const struct vt_model_owner *owner, struct vt_str *text)
{
	enum vt_category category = (enum vt_category)owner->category;
	const char *name = without_node(owner->name);
	struct vt_keeper *h;
	uint32_t *of;

	vt_str_clear(text);
	fold_variable(text, owner, name);
	h = (struct vt_keeper *)vt_keepers_find(keepers, vt_str_get(text), category);
	if (!h && !text->failed)
		h = add(keepers, vt_str_get(text), category);
	of = h ? vt_vec_append(&keepers->of_owner) : NULL;
	if (!of || !merge_path(keepers, h, name, text))
		return false;
	*of = (uint32_t)(h - keepers->items.data);
	h->bytes += model->blocks[owner->block].size;
	h->blocks++;
	h->tensors += owner->n_tensors;
	h->certain &= owner->certain;
	return !text->failed;
}

bool vt_keepers_init(struct vt_keepers *keepers, const struct vt_model *model)
{
	struct vt_str text = { 0 };
	bool ok = true;

	*keepers = (struct vt_keepers){ 0 };
	for (size_t i = 0; i < model->owners.items.n && ok; i++)
		ok = count(keepers, model, &model->owners.items.data[i], &text);
	vt_str_deinit(&text);
	return ok;
}

void vt_keepers_deinit(struct vt_keepers *keepers)
{
	vt_map_deinit(&keepers->index);
	vt_vec_deinit(&keepers->items);
	vt_vec_deinit(&keepers->of_owner);
	vt_arena_deinit(&keepers->arena);
}

/* ---- words ---- */

const char *vt_keeper_title(const char *variable, enum vt_category category)
{
	return *variable ? variable : vt_category_words(category);
}

/* The bytes of " in main (train.py)" at the end of both. */
static size_t common_where(const char *path, const char *variable)
{
	size_t n;

	while (*variable && !is_where(variable))
		variable++;
	n = strlen(variable);
	return strlen(path) > n && !strcmp(path + strlen(path) - n, variable) ? n : 0;
}

void vt_keeper_add_how(struct vt_str *text, const char *variable, const char *path,
		       enum vt_category category, bool certain)
{
	vt_str_add(text, *variable ? vt_category_words(category) : "no name was found");
	if (path && *path && strcmp(path, variable) != 0) {
		vt_str_add(text, ", through ");
		vt_str_addn(text, path, strlen(path) - common_where(path, variable));
	}
	if (*variable && !certain)
		vt_str_add(text, "; perhaps others hold it, too");
}

void vt_keeper_add_growth(struct vt_str *text, uint64_t tensors_before, uint64_t tensors_after,
			  int64_t bytes)
{
	char before[VT_NUM_MAX], after[VT_NUM_MAX], change[VT_NUM_MAX];

	vt_format_change(change, bytes);
	vt_format_count(before, tensors_before);
	vt_format_count(after, tensors_after);
	if (tensors_before < tensors_after) {
		vt_str_addf(text, " grew from %s to %s tensor%s, %s", before, after,
			    tensors_after == 1 ? "" : "s", change);
		return;
	}
	vt_str_addf(text, " grew by %s", change + (*change == '+'));
	if (tensors_after)
		vt_str_addf(text, " in %s tensor%s", after, tensors_after == 1 ? "" : "s");
	if (tensors_after && tensors_before != tensors_after)
		vt_str_addf(text, " (%s before)", before);
}
