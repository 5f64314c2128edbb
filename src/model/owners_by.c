/* SPDX-License-Identifier: Apache-2.0 */
#include "model/owners_by.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_PARTS = 64,   /* of a module's path; deeper ones are one */
	MAX_JOINED = 256, /* groups; of more the deepest are joined first, wherever they are */
};

static const char *const by_names[VT_N_BY] = { "category", "module", "variable", "type" };

const char *vt_owners_by_name(enum vt_owners_by by)
{
	return by_names[by];
}

void vt_fold_indices(char *name)
{
	char *to = name;

	for (const char *from = name; *from;) {
		size_t digits = *from == '[' ? strspn(from + 1, "0123456789") : 0;

		*to++ = *from++;
		if (digits && from[digits] == ']') {
			*to++ = '*';
			from += digits;
		}
	}
	*to = '\0';
}

/* A block on its way into a group. */
struct member {
	const char *name, *group;
	uint32_t item;
};

struct grouping {
	const struct vt_model *model;
	struct member *members;
	size_t n;
	struct vt_owners_groups *out;
};

static const char *name_by(const struct vt_model_owner *owner, enum vt_owners_by by)
{
	switch (by) {
	case VT_BY_CATEGORY:
		return vt_category_code((enum vt_category)owner->category);
	case VT_BY_MODULE:
		return owner->module;
	case VT_BY_VARIABLE:
		return owner->variable;
	default:
		return owner->type;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int order = strcmp(x->name, y->name);

	return order ? order : (x->item > y->item) - (x->item < y->item);
}

static int by_group(const void *a, const void *b)
{
	const struct member *x = a, *y = b;
	int order = strcmp(x->group, y->group);

	return order ? order : by_name(a, b);
}

static int larger_first(const void *a, const void *b)
{
	const struct vt_owners_group *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* The text up to the dot behind this many parts. Dots in brackets are none: m['a.b'].c */
static size_t parts_end(const char *name, size_t parts)
{
	size_t i = 0;
	int depth = 0;

	for (; name[i]; i++) {
		depth += (name[i] == '[') - (name[i] == ']' && depth > 0);
		if (name[i] == '.' && !depth && !--parts)
			break;
	}
	return i;
}

static const char *fold(struct vt_arena *arena, const char *name, size_t parts)
{
	char *text = vt_arena_strndup(arena, name, parts_end(name, parts));

	if (text)
		vt_fold_indices(text);
	return text;
}

/* Members are sorted by name. */
static bool fold_all(struct grouping *g, size_t parts)
{
	for (size_t i = 0; i < g->n; i++) {
		struct member *m = &g->members[i];

		m->group = i && !strcmp(m->name, m[-1].name) ? m[-1].group :
							       fold(&g->out->names, m->name, parts);
		if (!m->group)
			return false;
	}
	return true;
}

static void add(struct vt_owners_group *group, const struct grouping *g, size_t i)
{
	const struct vt_model_owner *owner = vt_model_owner_at(g->model, g->members[i].item);
	uint64_t bytes = vt_model_owned_bytes(g->model, g->members[i].item);

	group->bytes += bytes;
	group->blocks++;
	group->certain_bytes += owner->certain ? bytes : 0;
	group->members += !group->members || strcmp(g->members[i].name, g->members[i - 1].name);
	if (bytes > vt_model_owned_bytes(g->model, group->largest))
		group->largest = g->members[i].item;
}

/* Members are sorted by group. */
static bool sum_up(struct grouping *g)
{
	struct vt_owners_group *group = NULL;

	g->out->groups.n = 0;
	for (size_t i = 0; i < g->n; i++) {
		if (!group || strcmp(group->name, g->members[i].group)) {
			group = vt_vec_append(&g->out->groups);
			if (!group)
				return false;
			*group = (struct vt_owners_group){
				.name = g->members[i].group,
				.largest = g->members[i].item,
			};
		}
		add(group, g, i);
	}
	if (g->out->groups.n)
		qsort(g->out->groups.data, g->out->groups.n, sizeof(*g->out->groups.data),
		      larger_first);
	return true;
}

static bool group_by_parts(struct grouping *g, size_t parts)
{
	qsort(g->members, g->n, sizeof(*g->members), by_name);
	if (!fold_all(g, parts))
		return false;
	qsort(g->members, g->n, sizeof(*g->members), by_group);
	return sum_up(g);
}

/* How long the beginning of a name is without the last part of it; 0: it has only one. */
static size_t parent_length(const char *name, size_t length)
{
	size_t n = 0;

	for (size_t parts = 1; parts < MAX_PARTS; parts++) {
		size_t end = parts_end(name, parts);

		if (end >= length)
			return n;
		n = end;
	}
	return n;
}

static bool is_below(const char *name, const char *parent, size_t n)
{
	return !strncmp(name, parent, n) && (!name[n] || name[n] == '.');
}

/* How many groups are below a beginning of a name, and their bytes. */
static size_t count_below(const struct vt_owners_groups *all, const char *name, size_t n,
			  uint64_t *bytes)
{
	size_t below = 0;

	*bytes = 0;
	for (size_t i = 0; i < all->groups.n; i++) {
		if (!is_below(all->groups.data[i].name, name, n))
			continue;
		*bytes += all->groups.data[i].bytes;
		below++;
	}
	return below;
}

/* Of the nearest ones that groups have in common, the smallest. NULL: none has one. */
static const char *smallest_parent(const struct vt_owners_groups *all, size_t *length)
{
	const char *found = NULL;
	uint64_t least = UINT64_MAX;

	for (size_t i = 0; i < all->groups.n; i++) {
		const char *name = all->groups.data[i].name;
		size_t n = parent_length(name, strlen(name));
		uint64_t bytes = 0;

		while (n && count_below(all, name, n, &bytes) < 2)
			n = parent_length(name, n);
		if (n && bytes < least) {
			least = bytes;
			found = name;
			*length = n;
		}
	}
	return found;
}

/* All groups below a parent become one with it. */
static bool join(struct grouping *g, const char *below, size_t length)
{
	const char *parent = vt_arena_strndup(&g->out->names, below, length);

	for (size_t i = 0; parent && i < g->n; i++) {
		if (is_below(g->members[i].group, parent, length))
			g->members[i].group = parent;
	}
	if (!parent)
		return false;
	qsort(g->members, g->n, sizeof(*g->members), by_group);
	return sum_up(g);
}

/* What is small is told with its neighbours, what is large as it is. */
static bool group_modules(struct grouping *g, size_t max)
{
	const char *below;
	size_t parts = MAX_PARTS, length = 0;

	if (!group_by_parts(g, parts))
		return false;
	while (max && g->out->groups.n > MAX_JOINED && parts > 1) {
		if (!group_by_parts(g, --parts))
			return false;
	}
	while (max && g->out->groups.n > max && (below = smallest_parent(g->out, &length))) {
		if (!join(g, below, length))
			return false;
	}
	return true;
}

static bool group_others(struct grouping *g)
{
	for (size_t i = 0; i < g->n; i++)
		g->members[i].group = g->members[i].name;
	qsort(g->members, g->n, sizeof(*g->members), by_group);
	return sum_up(g);
}

bool vt_owners_groups_init(struct vt_owners_groups *groups, const struct vt_model *model,
			   enum vt_owners_by by, size_t max)
{
	struct grouping g = {
		.model = model,
		.n = vt_model_n_owners(model),
		.members = calloc(vt_model_n_owners(model) + 1, sizeof(*g.members)),
		.out = groups,
	};
	bool ok = g.members;

	*groups = (struct vt_owners_groups){ 0 };
	for (size_t i = 0; ok && i < g.n; i++)
		g.members[i] = (struct member){
			.name = name_by(vt_model_owner_at(model, i), by),
			.item = (uint32_t)i,
		};
	ok = ok && (by == VT_BY_MODULE ? group_modules(&g, max) : group_others(&g));
	free(g.members);
	if (!ok)
		vt_owners_groups_deinit(groups);
	return ok;
}

void vt_owners_groups_deinit(struct vt_owners_groups *groups)
{
	vt_vec_deinit(&groups->groups);
	vt_arena_deinit(&groups->names);
}
