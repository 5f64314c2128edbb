/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the interpreter told of tensors and what holds them (helper/owners.c), made into owners of
 * blocks. It is a small graph: the cheapest way from a variable to a tensor is its name. Nothing of
 * it is certain, as no reference counts are known.
 *
 * The records come from the process and are hostile: objects are numbers that only mean themselves,
 * texts are cut and copied, every way has a bound.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "collect/collect.h"
#include "collect/owners.h"
#include "owners/owners.h"
#include "vramtap/helper_abi.h"

enum {
	NOWHERE = 1 << 14, /* no way to it is as expensive */
	MAX_STEPS = 64,    /* of a way that is put into words */
	MAX_EXPRESSION = 400,
};

#define NONE UINT32_MAX

/*
 * What it costs to go this way. The cheapest way to a tensor is its name. The parts of a module
 * cost almost nothing, so that the whole model comes before one of its modules in a variable.
 */
static const uint32_t costs[VT_N_ASKED_KINDS] = {
	[VT_ASKED_IMPORT] = 70,
	[VT_ASKED_FRAME] = 60,
	[VT_ASKED_GLOBAL] = 10,
	[VT_ASKED_LOCAL] = 10,
	[VT_ASKED_CHILD] = 1,
	[VT_ASKED_PARAMETER] = 1,
	[VT_ASKED_BUFFER] = 1,
	[VT_ASKED_FIELD] = 15,
	[VT_ASKED_ATTRIBUTE] = 150,
	[VT_ASKED_ITEM] = 20,
	[VT_ASKED_KEY] = 20,
	[VT_ASKED_NUMBER] = 20,
	[VT_ASKED_ELEMENT] = 25,
	[VT_ASKED_OTHER] = 30,
	[VT_ASKED_STATE] = 10,
	[VT_ASKED_GRAD] = 5,
	[VT_ASKED_INNER] = 1,
	[VT_ASKED_OBJECT] = 4000, /* nothing that was looked at holds it */
};

enum { MAIN_COST = 50, CHILD_OBJECT_COST = 9000, MOST_RANK = 50 };

static const enum vt_category categories[VT_N_ASKED_KINDS] = {
	[VT_ASKED_IMPORT] = VT_CATEGORY_PYTHON, [VT_ASKED_OBJECT] = VT_CATEGORY_PYTHON,
	[VT_ASKED_FRAME] = VT_CATEGORY_FRAME,   [VT_ASKED_PARAMETER] = VT_CATEGORY_PARAMETER,
	[VT_ASKED_BUFFER] = VT_CATEGORY_BUFFER, [VT_ASKED_STATE] = VT_CATEGORY_OPTIMIZER,
	[VT_ASKED_GRAD] = VT_CATEGORY_GRADIENT,
};

struct node {
	const struct vt_asked_rec *is; /* a module or an optimizer; NULL: something else */
	uint32_t first, n_edges;       /* in edges */
	uint32_t distance, edge;       /* the cheapest way to it, and its last step */
	bool is_child;                 /* of a module */
};

struct edge {
	uint32_t from, to; /* from NONE: a root */
	const struct vt_asked_rec *rec;
};

struct entry {
	uint32_t node, next;
};

struct graph {
	struct vt_map nodes; /* address -> index */
	VT_VEC(struct node) node;
	VT_VEC(struct edge) edges; /* by from, the roots last */
	VT_VEC(struct entry) entries;
	uint32_t *queue; /* by distance: the first of entries */
};

static void graph_deinit(struct graph *g)
{
	vt_map_deinit(&g->nodes);
	vt_vec_deinit(&g->node);
	vt_vec_deinit(&g->edges);
	vt_vec_deinit(&g->entries);
	free(g->queue);
}

static uint32_t node_of(struct graph *g, uint64_t object)
{
	const uint64_t *known = vt_map_get(&g->nodes, object);
	struct node *node;

	if (known)
		return (uint32_t)*known;
	node = g->node.n < NONE ? vt_vec_append(&g->node) : NULL;
	if (!node || !vt_map_put(&g->nodes, object, g->node.n - 1))
		return NONE;
	*node = (struct node){ .distance = NOWHERE, .edge = NONE };
	return (uint32_t)(g->node.n - 1);
}

static bool is_root(const struct vt_asked_rec *rec)
{
	return rec->kind == VT_ASKED_IMPORT || rec->kind == VT_ASKED_FRAME ||
	       rec->kind == VT_ASKED_OBJECT;
}

static bool add_rec(struct graph *g, const struct vt_asked_rec *rec)
{
	uint32_t from = NONE, to;
	struct edge *edge;

	if (rec->kind >= VT_N_ASKED_KINDS || !rec->to || rec->kind == VT_ASKED_TENSOR)
		return true;
	to = node_of(g, rec->to);
	if (!is_root(rec))
		from = node_of(g, rec->from);
	if (to == NONE || (from == NONE && !is_root(rec)))
		return false;
	if (rec->kind == VT_ASKED_OBJECT)
		g->node.data[to].is = rec;
	if (rec->kind == VT_ASKED_CHILD)
		g->node.data[to].is_child = true;
	edge = vt_vec_append(&g->edges);
	if (edge)
		*edge = (struct edge){ from, to, rec };
	return edge;
}

/* In the order of the records where they begin at the same object. */
static int by_from(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->from != y->from)
		return x->from < y->from ? -1 : 1;
	return (x->rec > y->rec) - (x->rec < y->rec);
}

/*
 * Frames are listed from the innermost one, thread by thread. What the outer ones have comes first:
 * it is what the inner ones were called with. Their threads are replaced by their ranks.
 */
static void rank_frames(struct vt_asked_rec *recs, size_t n)
{
	uint64_t thread = 0, rank = 0;

	while (n--) {
		if (recs[n].kind != VT_ASKED_FRAME)
			continue;
		rank = recs[n].value == thread ? rank + 1 : 0;
		thread = recs[n].value;
		recs[n].value = rank < MOST_RANK ? rank : MOST_RANK;
	}
}

static bool make_graph(struct graph *g, const struct vt_asked_rec *recs, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!add_rec(g, &recs[i]))
			return false;
	if (g->edges.n)
		qsort(g->edges.data, g->edges.n, sizeof(*g->edges.data), by_from);
	for (size_t i = 0; i < g->edges.n && g->edges.data[i].from != NONE; i++) {
		struct node *from = &g->node.data[g->edges.data[i].from];

		if (!from->n_edges++)
			from->first = (uint32_t)i;
	}
	return true;
}

/* ---- the cheapest ways ---- */

static uint32_t cost_of(const struct graph *g, const struct edge *edge)
{
	if (edge->rec->kind == VT_ASKED_IMPORT && !strcmp(edge->rec->text, "__main__"))
		return MAIN_COST;
	if (edge->rec->kind == VT_ASKED_OBJECT && g->node.data[edge->to].is_child)
		return CHILD_OBJECT_COST;
	return costs[edge->rec->kind] +
	       (edge->rec->kind == VT_ASKED_FRAME ? (uint32_t)edge->rec->value : 0);
}

static bool reach(struct graph *g, uint32_t index, uint32_t before)
{
	const struct edge *edge = &g->edges.data[index];
	struct node *to = &g->node.data[edge->to];
	uint32_t distance = before + cost_of(g, edge);
	struct entry *entry;

	if (distance >= to->distance)
		return true;
	entry = vt_vec_append(&g->entries);
	if (!entry)
		return false;
	to->distance = distance;
	to->edge = index;
	*entry = (struct entry){ edge->to, g->queue[distance] };
	g->queue[distance] = (uint32_t)(g->entries.n - 1);
	return true;
}

static bool search(struct graph *g)
{
	g->queue = malloc(NOWHERE * sizeof(*g->queue));
	if (!g->queue)
		return false;
	memset(g->queue, 0xff, NOWHERE * sizeof(*g->queue));
	for (size_t i = g->edges.n; i-- && g->edges.data[i].from == NONE;)
		if (!reach(g, (uint32_t)i, 0))
			return false;
	for (uint32_t distance = 0; distance < NOWHERE; distance++) {
		/* Every step costs something: no entry of this distance comes later. */
		for (uint32_t at = g->queue[distance]; at != NONE; at = g->entries.data[at].next) {
			const struct node *node = &g->node.data[g->entries.data[at].node];
			uint32_t first = node->first, end = first + node->n_edges;

			if (node->distance != distance)
				continue;
			for (uint32_t i = first; i < end; i++)
				if (!reach(g, i, distance))
					return false;
		}
	}
	return true;
}

/* ---- words ---- */

struct words {
	const struct graph *graph;
	struct vt_str expression, where, variable, module;
	const char *type;
	enum vt_category category;
	unsigned int depth;
};

static void words_deinit(struct words *w)
{
	vt_str_deinit(&w->expression);
	vt_str_deinit(&w->where);
	vt_str_deinit(&w->variable);
	vt_str_deinit(&w->module);
}

static bool say(struct words *w, uint32_t node);

/* Python's rules, but for which letters beyond ASCII are allowed. */
static bool is_identifier(const char *text)
{
	if (!*text || isdigit((unsigned char)*text))
		return false;
	while (isalnum((unsigned char)*text) || *text == '_' || (unsigned char)*text >= 0x80)
		text++;
	return !*text;
}

static bool is_number(const char *text)
{
	size_t n = strspn(text, "0123456789");

	return n && n < 10 && !text[n];
}

static void add_as_python(struct vt_str *str, const char *text)
{
	static const char special[] = "\n\r\t\\", letters[] = "nrt\\";

	while (*text) {
		size_t n = strcspn(text, special);

		vt_str_add_escaped(str, text, n);
		if (!text[n])
			return;
		vt_str_addf(str, "\\%c", letters[strchr(special, text[n]) - special]);
		text += n + 1;
	}
}

/* ['key'], as Python writes it. */
static void say_key(struct words *w, const char *key)
{
	char quote = strchr(key, '\'') && !strchr(key, '"') ? '"' : '\'';

	vt_str_addf(&w->expression, "[%c", quote);
	add_as_python(&w->expression, key);
	vt_str_addf(&w->expression, "%c]", quote);
}

static void say_member(struct words *w, const char *name)
{
	if (is_identifier(name))
		vt_str_addf(&w->expression, "%s%s", w->expression.n ? "." : "", name);
	else
		say_key(w, name);
}

/* A variable: a module's dictionary may have any key. */
static void say_variable(struct words *w, const char *name, bool global)
{
	if (global && !is_identifier(name) && !w->expression.n)
		vt_str_add(&w->expression, "globals()");
	if (global || w->expression.n)
		say_member(w, name);
	else
		vt_str_add_escaped(&w->expression, name, strlen(name)); /* ".0" */
}

static void say_part(struct words *w, const char *name)
{
	if (is_number(name))
		vt_str_addf(&w->expression, "[%s]", name);
	else
		say_member(w, name);
}

static void say_state(struct words *w, const struct vt_asked_rec *rec)
{
	const uint64_t *node = vt_map_get(&w->graph->nodes, rec->value);
	struct words key = { .graph = w->graph, .depth = w->depth + 1 };

	if (node && !w->depth && say(&key, (uint32_t)*node))
		vt_str_addf(&w->expression, "%sstate[%s]", w->expression.n ? "." : "",
			    vt_str_get(&key.expression));
	else
		vt_str_addf(&w->expression, "%sstate[?]", w->expression.n ? "." : "");
	words_deinit(&key);
}

/* "train", "train.py" of "train TAB train.py" */
static void say_frame(struct words *w, const struct vt_asked_rec *rec)
{
	size_t n = strcspn(rec->text, "\t");

	vt_str_addf(&w->where, " in %.*s (%s:%u)", (int)n, rec->text,
		    rec->text[n] ? rec->text + n + 1 : "?", rec->number);
}

static void say_class(struct words *w, const char *class)
{
	vt_str_addf(&w->where, " of %s %s", *class && strchr("AEIOUaeiou", *class) ? "an" : "a",
		    class);
}

static void say_step(struct words *w, const struct edge *edge)
{
	const struct vt_asked_rec *rec = edge->rec;

	switch ((enum vt_asked_kind)rec->kind) {
	case VT_ASKED_IMPORT:
		if (strcmp(rec->text, "__main__") != 0)
			say_member(w, rec->text);
		break;
	case VT_ASKED_FRAME:
		say_frame(w, rec);
		break;
	case VT_ASKED_OBJECT:
		say_class(w, rec->text);
		break;
	case VT_ASKED_GLOBAL:
	case VT_ASKED_LOCAL:
		say_variable(w, rec->text, rec->kind == VT_ASKED_GLOBAL);
		break;
	case VT_ASKED_ATTRIBUTE:
	case VT_ASKED_FIELD:
		say_member(w, rec->text);
		break;
	case VT_ASKED_CHILD:
	case VT_ASKED_PARAMETER:
	case VT_ASKED_BUFFER:
		say_part(w, rec->text);
		break;
	case VT_ASKED_ITEM:
		vt_str_addf(&w->expression, "[%u]", rec->number);
		break;
	case VT_ASKED_KEY:
		say_key(w, rec->text);
		break;
	case VT_ASKED_NUMBER:
		vt_str_addf(&w->expression, "[%lld]", (long long)rec->value);
		break;
	case VT_ASKED_ELEMENT:
		vt_str_add(&w->expression, "{…}");
		break;
	case VT_ASKED_OTHER:
		vt_str_add(&w->expression, "[…]");
		break;
	case VT_ASKED_STATE:
		say_state(w, rec);
		break;
	case VT_ASKED_GRAD:
		vt_str_add(&w->expression, ".grad");
		break;
	case VT_ASKED_INNER: /* it has the same name */
	case VT_ASKED_TENSOR:
	case VT_N_ASKED_KINDS:
		break;
	}
}

/* The optimizer's own list of parameters says that they are such. */
static bool is_trained(const struct graph *g, const struct edge *edge)
{
	return edge->rec->kind == VT_ASKED_ATTRIBUTE && g->node.data[edge->from].is &&
	       g->node.data[edge->from].is->number && !strcmp(edge->rec->text, "param_groups");
}

static void note(struct words *w, const struct edge *edge)
{
	const struct vt_asked_rec *is = w->graph->node.data[edge->to].is;

	if (categories[edge->rec->kind])
		w->category = categories[edge->rec->kind];
	else if (is_trained(w->graph, edge))
		w->category = VT_CATEGORY_PARAMETER;
	if (edge->rec->kind == VT_ASKED_GLOBAL || edge->rec->kind == VT_ASKED_LOCAL)
		vt_str_addf(&w->variable, "%s%s", vt_str_get(&w->expression),
			    vt_str_get(&w->where));
	if (is && !is->number) {
		vt_str_clear(&w->module);
		vt_str_add(&w->module, vt_str_get(&w->expression));
	}
	if (is)
		w->type = is->text;
	else if (edge->rec->kind == VT_ASKED_FRAME)
		w->type = "frame";
	else if (edge->rec->kind == VT_ASKED_IMPORT)
		w->type = "module";
}

/* False: no way leads to it, or it is too long. */
static bool say(struct words *w, uint32_t node)
{
	const struct graph *g = w->graph;
	uint32_t way[MAX_STEPS];
	size_t n = 0;

	while (node != NONE) {
		if (n == MAX_STEPS || g->node.data[node].edge == NONE)
			return false;
		way[n++] = g->node.data[node].edge;
		node = g->edges.data[g->node.data[node].edge].from;
	}
	w->type = "";
	while (n--) {
		const struct edge *edge = &g->edges.data[way[n]];

		if (w->expression.n > MAX_EXPRESSION)
			return false;
		say_step(w, edge);
		note(w, edge);
	}
	return !w->expression.failed && !w->where.failed;
}

/* ---- tensors and blocks ---- */

struct tensor {
	const struct vt_asked_rec *rec;
	uint32_t block, node, distance;
};

static int by_block(const void *a, const void *b)
{
	const struct tensor *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	if (x->distance != y->distance)
		return x->distance < y->distance ? -1 : 1;
	return (x->rec > y->rec) - (x->rec < y->rec);
}

/* Letters, digits, and the rest of a data type or a shape: they are shown as ours. */
static const char *plain(struct vt_collect *c, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)text[i]) && !strchr("_(), ", text[i]))
			return "";
	return vt_collect_copy(c, text, n);
}

static void add_facts(struct vt_collect *c, struct vt_model_owner *owner,
		      const struct vt_asked_rec *rec)
{
	static const char package[] = "torch.";
	const char *dtype = rec->text, *end;

	if (!(rec->number & VT_ASKED_KNOWN))
		return;
	owner->requires_grad = !!(rec->number & VT_ASKED_REQUIRES_GRAD);
	if (rec->number & VT_ASKED_KNOWN_LEAF)
		owner->has_grad_fn = !!(rec->number & VT_ASKED_HAS_GRAD_FN);
	if (!strncmp(dtype, package, sizeof(package) - 1))
		dtype += sizeof(package) - 1;
	end = strchr(dtype, '\t');
	if (!end)
		return;
	owner->dtype = plain(c, dtype, (size_t)(end - dtype));
	owner->shape = plain(c, end + 1, strcspn(end + 1, "\t"));
}

/* Of PyTorch's own classes one has that name. */
static bool is_parameter(const struct vt_asked_rec *rec)
{
	const char *class = strrchr(rec->text, '\t');

	return rec->number & VT_ASKED_KNOWN && class && !strcmp(class + 1, "Parameter");
}

static const char *keep(struct vt_collect *c, const struct vt_str *str)
{
	return vt_collect_copy(c, vt_str_get(str), str->n);
}

/* The tensors of one block, the one with the cheapest way first. */
static bool add_owner(struct vt_collect *c, const struct graph *g, const struct tensor *tensors,
		      size_t n)
{
	struct vt_model_owner *owner = vt_vec_append(&c->model->owners.items);
	struct words w = { .graph = g };
	uint64_t before = 0;

	if (!owner)
		return false;
	*owner = (struct vt_model_owner){
		.block = tensors->block,
		.n_tensors = (uint32_t)n,
		.name = "",
		.variable = "",
		.module = "",
		.type = "",
		.dtype = "",
		.shape = "",
		.requires_grad = -1,
		.has_grad_fn = -1,
	};
	for (size_t i = 0; i < n; i++) {
		owner->n_storages += tensors[i].rec->value != before;
		before = tensors[i].rec->value;
	}
	add_facts(c, owner, tensors->rec);
	if (tensors->node != NONE && say(&w, tensors->node)) {
		owner->category = (uint8_t)w.category;
		if (is_parameter(tensors->rec) &&
		    (w.category == VT_CATEGORY_PYTHON || w.category == VT_CATEGORY_FRAME))
			owner->category = VT_CATEGORY_PARAMETER;
		vt_str_add(&w.expression, vt_str_get(&w.where));
		owner->name = keep(c, &w.expression);
		owner->variable = keep(c, &w.variable);
		owner->module = keep(c, &w.module);
		owner->type = vt_collect_copy(c, w.type, strlen(w.type));
	} else {
		owner->unowned = VT_UNOWNED_NOT_WHOLE;
	}
	words_deinit(&w);
	return true;
}

/* The block that has this address; NONE: there is none. */
static uint32_t find_block(const struct vt_owners_blocks *all, uint64_t addr)
{
	const struct vt_owners_block *blocks = all->list.data;
	size_t low = 0, high = all->list.n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (blocks[middle].addr <= addr)
			low = middle + 1;
		else
			high = middle;
	}
	return low && addr - blocks[low - 1].addr < blocks[low - 1].size ? blocks[low - 1].index :
									   NONE;
}

static bool add_owners(struct vt_collect *c, const struct graph *g,
		       const struct vt_owners_blocks *blocks)
{
	const struct vt_asked_owners *asked = &c->asked_owners;
	struct tensor *tensors = calloc(asked->n + 1, sizeof(*tensors));
	size_t n = 0;
	bool ok = tensors;

	for (size_t i = 0; ok && i < asked->n; i++) {
		const struct vt_asked_rec *rec = &asked->recs[i];
		const uint64_t *node = vt_map_get(&g->nodes, rec->to);
		uint32_t block = rec->kind == VT_ASKED_TENSOR ? find_block(blocks, rec->value) :
								NONE;

		if (block != NONE)
			tensors[n++] = (struct tensor){
				.rec = rec,
				.block = block,
				.node = node ? (uint32_t)*node : NONE,
				.distance = node ? g->node.data[*node].distance : NOWHERE,
			};
	}
	if (n)
		qsort(tensors, n, sizeof(*tensors), by_block);
	for (size_t i = 0, end; ok && i < n; i = end) {
		for (end = i + 1; end < n && tensors[end].block == tensors[i].block; end++)
			;
		ok = add_owner(c, g, &tensors[i], end - i);
	}
	c->model->owners.n_tensors = n;
	free(tensors);
	return ok;
}

bool vt_collect_owners_from_asked(struct vt_collect *c)
{
	const struct vt_asked_owners *asked = &c->asked_owners;
	struct vt_model_owners *owners = &c->model->owners;
	struct vt_owners_blocks blocks = { 0 };
	struct graph g = { 0 };
	bool ok;

	rank_frames(asked->recs, asked->n);
	ok = vt_owners_blocks_list(&blocks, c->model) && make_graph(&g, asked->recs, asked->n) &&
	     search(&g) && add_owners(c, &g, &blocks);

	owners->asked = true;
	owners->whole = false;
	owners->bound = asked->late ? VT_BOUND_TIME :
			asked->full ? VT_BOUND_OBJECTS :
				      VT_BOUND_ASKED;
	owners->n_objects = asked->n_objects;
	owners->n_references = g.edges.n;
	vt_vec_deinit(&blocks.list);
	graph_deinit(&g);
	return ok;
}
