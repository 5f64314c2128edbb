/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/keepers.h"

#include <ctype.h>
#include <string.h>

#include "base/format.h"

#define SAVED "← " /* owners/name.c: "saved by MulBackward0 ← losses[3]" */

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
	const char *rest = strncmp(name, "saved by ", 9) ? NULL : strstr(name, SAVED);

	return rest ? rest + strlen(SAVED) : name;
}

static char *folded(struct vt_arena *arena, const char *text, bool all)
{
	struct vt_str out = { 0 };
	char *copy;

	fold(&out, text, all);
	copy = out.failed ? NULL : vt_arena_strdup(arena, vt_str_get(&out));
	vt_str_deinit(&out);
	return copy;
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
	struct vt_keeper *h;

	while (vt_map_get(&keepers->index, hash))
		hash++;
	h = vt_vec_append(&keepers->items);
	if (!h || !vt_map_put(&keepers->index, hash, keepers->items.n - 1))
		return NULL;
	*h = (struct vt_keeper){ .variable = variable, .category = category, .certain = true };
	return h;
}

/* One path for all that it holds: as exact as that can be. */
static bool merge_path(struct vt_keepers *keepers, struct vt_keeper *h, const char *name)
{
	const char *path;

	if (h->path && !*h->path)
		return true;
	path = folded(&keepers->arena, name, h->wide);
	if (!path)
		return false;
	if (!h->path) {
		h->path = path;
	} else if (strcmp(h->path, path) != 0 && !h->wide) {
		h->wide = true;
		h->path = folded(&keepers->arena, h->path, true);
		return h->path && merge_path(keepers, h, name);
	} else if (strcmp(h->path, path) != 0) {
		h->path = "";
	}
	return true;
}

static bool count(struct vt_keepers *keepers, const struct vt_model *model,
		  const struct vt_model_owner *owner)
{
	enum vt_category category = (enum vt_category)owner->category;
	const char *name = without_node(owner->name), *variable;
	struct vt_keeper *h;

	variable = *owner->variable ? folded(&keepers->arena, owner->variable, false) :
				      folded(&keepers->arena, name, true);
	if (!variable)
		return false;
	h = (struct vt_keeper *)vt_keepers_find(keepers, variable, category);
	if (!h)
		h = add(keepers, variable, category);
	if (!h || !merge_path(keepers, h, name))
		return false;
	h->bytes += model->blocks[owner->block].size;
	h->blocks++;
	h->tensors += owner->n_tensors;
	h->certain &= owner->certain;
	return true;
}

bool vt_keepers_init(struct vt_keepers *keepers, const struct vt_model *model)
{
	*keepers = (struct vt_keepers){ 0 };
	for (size_t i = 0; i < model->owners.items.n; i++)
		if (!count(keepers, model, &model->owners.items.data[i]))
			return false;
	return true;
}

void vt_keepers_deinit(struct vt_keepers *keepers)
{
	vt_map_deinit(&keepers->index);
	vt_vec_deinit(&keepers->items);
	vt_arena_deinit(&keepers->arena);
}

/* ---- words ---- */

const char *vt_keeper_title(const char *variable, enum vt_category category)
{
	return *variable ? variable : vt_category_words(category);
}

void vt_keeper_add_how(struct vt_str *text, const char *variable, const char *path,
		       enum vt_category category)
{
	vt_str_add(text, *variable ? vt_category_words(category) : "no name was found");
	if (path && *path && strcmp(path, variable) != 0)
		vt_str_addf(text, ", through %s", path);
}

void vt_keeper_add_growth(struct vt_str *text, uint64_t tensors_before, uint64_t tensors_after,
			  int64_t bytes)
{
	char before[VT_NUM_MAX], after[VT_NUM_MAX], change[VT_NUM_MAX];

	vt_format_change(change, bytes);
	vt_format_count(after, tensors_after);
	if (tensors_before < tensors_after)
		vt_str_addf(text, " grew from %s to %s tensors, %s",
			    vt_format_count(before, tensors_before), after, change);
	else if (tensors_after)
		vt_str_addf(text, " grew by %s in %s tensor%s", change + (*change == '+'), after,
			    tensors_after == 1 ? "" : "s");
	else
		vt_str_addf(text, " grew by %s", change + (*change == '+'));
}
