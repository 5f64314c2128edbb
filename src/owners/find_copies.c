/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Second copies of a model: another module of the same class whose parameters and buffers have the
 * same names, shapes and types, and a dict with all these names. Both may be there on purpose.
 */
#include "owners/internal.h"

#include <stdlib.h>

enum {
	MAX_MODELS = 64,
	MAX_WRAPPERS = 4,    /* modules around one other: DistributedDataParallel, AveragedModel */
	MAX_PARTS = 1 << 17, /* parameters and buffers of all of them */
	MAX_DEPTH = 64,
	MAX_TOLD = 4,
};

/* A parameter or buffer. */
struct part {
	uint64_t hash;    /* of its name, shape and type */
	uint32_t storage; /* as in vt_finder.storage_of */
	bool parameter;
};

struct copied {
	uint32_t node;
	uint32_t inside; /* index + 1 of the module around it; 0 none */
	uint32_t first, n, n_parameters;
	uint64_t hash, bytes; /* of all */
	bool told;
};

struct copies {
	struct vt_finder *f;
	uint8_t *is_part; /* by node: of another module */
	uint32_t *seen;   /* by storage: the number of the sum that it was added to last */
	uint32_t sums;
	VT_VEC(struct copied) models;
	VT_VEC(struct part) parts;
	struct vt_str name; /* of the part that is looked at */
	int depth, told;
	bool failed;
};

static uint64_t mix(uint64_t hash, const void *data, size_t n)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3); /* FNV-1a */
	return hash;
}

/* 0: it is no tensor on a device. */
static uint64_t hash_of(const struct vt_finder *f, const char *name, uint32_t wrapper,
			uint32_t *storage)
{
	uint32_t tensor = vt_finder_tensor(f, wrapper);
	struct vt_tensors_shape shape;
	uint64_t hash = UINT64_C(0xcbf29ce484222325);
	size_t n;

	if (tensor == VT_GRAPH_NONE || !f->storage_of[tensor] ||
	    !vt_tensors_shape(&f->o->tensors, f->o->graph.nodes.data[tensor].addr, &shape))
		return 0;
	*storage = f->storage_of[tensor];
	hash = mix(hash, name, strlen(name));
	if (shape.dtype)
		hash = mix(hash, shape.dtype, strlen(shape.dtype));
	n = shape.n_dims < VT_TENSORS_MAX_DIMS ? (size_t)shape.n_dims : VT_TENSORS_MAX_DIMS;
	hash = mix(hash, shape.sizes, n * sizeof(shape.sizes[0]));
	return hash ? hash : 1;
}

/* Bytes of a storage that the sum does not have yet: tied parameters have the same. */
static uint64_t new_bytes(struct copies *c, uint32_t storage)
{
	if (c->seen[storage] == c->sums)
		return 0;
	c->seen[storage] = c->sums;
	return vt_finder_bytes(c->f, storage);
}

/* ---- models ---- */

static void add_part(struct copies *c, uint32_t wrapper, bool parameter)
{
	struct copied *model = &c->models.data[c->models.n - 1];
	uint32_t storage = 0;
	uint64_t hash = hash_of(c->f, vt_str_get(&c->name), wrapper, &storage);
	struct part *part;

	if (!hash || c->parts.n >= MAX_PARTS)
		return;
	part = vt_vec_append(&c->parts);
	if (!part) {
		c->failed = true;
		return;
	}
	*part = (struct part){ hash, storage, parameter };
	model->n++;
	model->n_parameters += parameter;
	model->hash += hash; /* the order does not matter */
	model->bytes += new_bytes(c, storage);
}

static void add_module(struct copies *c, uint32_t module);

/* What a module has under this role, each with its name behind that of the module. */
static void add_parts(struct copies *c, uint32_t module, enum vt_role role)
{
	uint32_t dict = vt_finder_part(c->f, module, role), n;
	const struct vt_graph_edge *edges;
	size_t length = c->name.n;

	n = dict == VT_GRAPH_NONE ? 0 : vt_finder_edges(c->f, dict, &edges);
	for (uint32_t i = 0; i < n && !c->failed; i++) {
		if (edges[i].kind != VT_EDGE_VALUE)
			continue;
		if (length)
			vt_str_add(&c->name, ".");
		vt_pyheap_key_text(&c->f->o->heap, dict, &edges[i], &c->name);
		if (role == VT_ROLE_MODULES)
			add_module(c, edges[i].to);
		else
			add_part(c, edges[i].to, role == VT_ROLE_PARAMETERS);
		vt_str_cut(&c->name, length);
	}
}

static void add_module(struct copies *c, uint32_t module)
{
	if (c->depth >= MAX_DEPTH)
		return;
	c->depth++;
	add_parts(c, module, VT_ROLE_PARAMETERS);
	add_parts(c, module, VT_ROLE_BUFFERS);
	add_parts(c, module, VT_ROLE_MODULES);
	c->depth--;
}

/* The only part of a module that has nothing of its own; VT_GRAPH_NONE: it has more. */
static uint32_t wrapped_by(const struct copies *c, uint32_t module)
{
	uint32_t own = vt_finder_part(c->f, module, VT_ROLE_PARAMETERS);
	uint32_t dict = vt_finder_part(c->f, module, VT_ROLE_MODULES), found = VT_GRAPH_NONE, n;
	const struct vt_graph_edge *edges;

	if (dict == VT_GRAPH_NONE || (own != VT_GRAPH_NONE && vt_finder_edges(c->f, own, &edges)))
		return VT_GRAPH_NONE;
	n = vt_finder_edges(c->f, dict, &edges);
	for (uint32_t i = 0; i < n; i++) {
		if (edges[i].kind != VT_EDGE_VALUE)
			continue;
		if (found != VT_GRAPH_NONE)
			return VT_GRAPH_NONE;
		found = edges[i].to;
	}
	return found;
}

/* What is too small is not kept. False: it was too small, or there is no room. */
static bool add_model(struct copies *c, uint32_t module, uint32_t inside)
{
	size_t first = c->parts.n;
	struct copied *model = c->models.n < MAX_MODELS ? vt_vec_append(&c->models) : NULL;

	if (!model)
		return false;
	*model = (struct copied){ .node = module, .inside = inside, .first = (uint32_t)first };
	vt_str_clear(&c->name);
	c->sums++;
	add_module(c, module);
	model = &c->models.data[c->models.n - 1];
	if (model->bytes >= c->f->least && !c->name.failed && !c->failed)
		return true;
	c->parts.n = first;
	c->models.n--;
	return false;
}

static void mark_parts(struct copies *c, uint32_t module)
{
	uint32_t dict = vt_finder_part(c->f, module, VT_ROLE_MODULES), n;
	const struct vt_graph_edge *edges;

	n = dict == VT_GRAPH_NONE ? 0 : vt_finder_edges(c->f, dict, &edges);
	for (uint32_t i = 0; i < n; i++) {
		if (edges[i].to != module)
			c->is_part[edges[i].to] = 1;
	}
}

static bool is_module(const struct copies *c, size_t node)
{
	return c->f->o->graph.nodes.data[node].role == VT_ROLE_MODULE &&
	       vt_finder_is_alive(c->f, (uint32_t)node);
}

static void find_models(struct copies *c)
{
	size_t n = c->f->o->graph.nodes.n;

	for (size_t i = 0; i < n; i++) {
		if (is_module(c, i))
			mark_parts(c, (uint32_t)i);
	}
	for (size_t i = 0; i < n && !c->failed; i++) {
		uint32_t module = (uint32_t)i, inside = 0;

		if (!is_module(c, i) || c->is_part[i])
			continue;
		for (int k = 0; k < MAX_WRAPPERS && module != VT_GRAPH_NONE; k++) {
			if (!add_model(c, module, inside))
				break;
			inside = (uint32_t)c->models.n;
			module = wrapped_by(c, module);
		}
	}
}

/* ---- comparing ---- */

static int by_hash(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return (x->hash > y->hash) - (x->hash < y->hash);
}

static void sort_parts(struct copies *c)
{
	for (size_t i = 0; i < c->models.n; i++) {
		if (c->models.data[i].n)
			qsort(c->parts.data + c->models.data[i].first, c->models.data[i].n,
			      sizeof(struct part), by_hash);
	}
}

static bool share_nothing(const struct copies *c, const struct copied *a, const struct copied *b)
{
	for (uint32_t i = 0; i < a->n; i++) {
		const struct part *x = &c->parts.data[a->first + i];
		const struct part *y = &c->parts.data[b->first + i];

		if (x->hash != y->hash || x->storage == y->storage)
			return false;
	}
	return true;
}

static bool are_equal(const struct copies *c, const struct copied *a, const struct copied *b)
{
	const struct vt_graph_node *nodes = c->f->o->graph.nodes.data;

	return nodes[a->node].cls == nodes[b->node].cls && a->n == b->n && a->hash == b->hash &&
	       share_nothing(c, a, b);
}

static bool tell(struct copies *c, enum vt_notice code, uint32_t count, uint64_t bytes,
		 uint32_t name, uint32_t other)
{
	struct vt_model_notice notice = {
		.code = (uint8_t)code,
		.certain = true,
		.bytes = bytes,
		.count = count,
	};

	return c->told++ >= MAX_TOLD || vt_finder_add(c->f, &notice, name, other);
}

/* The outermost ones of two that wrap others stand for these. */
static bool was_told(const struct copies *c, const struct copied *model)
{
	return model->told || (model->inside && c->models.data[model->inside - 1].told);
}

static bool is_nearer(const struct copies *c, uint32_t node, uint32_t than)
{
	const struct vt_reach *reach = c->f->o->reach.data;

	return than == VT_GRAPH_NONE || reach[node].distance < reach[than].distance;
}

/* All that are equal to the first, named by the two with the shortest names. */
static bool tell_equal(struct copies *c, size_t first)
{
	struct copied *a = &c->models.data[first];
	uint32_t name = a->node, other = VT_GRAPH_NONE, n = 1;
	bool told = was_told(c, a);

	for (size_t i = first + 1; i < c->models.n; i++) {
		struct copied *b = &c->models.data[i];
		uint32_t node = b->node;

		if (b->told || !are_equal(c, a, b))
			continue;
		told |= was_told(c, b);
		b->told = true;
		n++;
		if (is_nearer(c, node, name)) {
			node = name;
			name = b->node;
		}
		if (is_nearer(c, node, other))
			other = node;
	}
	if (n == 1)
		return true;
	a->told = true;
	return told || tell(c, VT_NOTICE_EQUAL_MODELS, n, a->bytes, name, other);
}

static bool compare_models(struct copies *c)
{
	for (size_t i = 0; i < c->models.n; i++) {
		if (!c->models.data[i].told && !tell_equal(c, i))
			return false;
	}
	return true;
}

/* ---- dicts ---- */

static const struct part *find_part(const struct copies *c, const struct copied *model,
				    uint64_t hash)
{
	const struct part key = { .hash = hash };

	return model->n ? bsearch(&key, c->parts.data + model->first, model->n, sizeof(struct part),
				  by_hash) :
			  NULL;
}

/* Of the model's parameters, how many are in the dict with other memory? And their bytes. */
static uint32_t count_copied(struct copies *c, const struct copied *model, uint32_t dict,
			     uint64_t *bytes)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(c->f, dict, &edges), found = 0;

	*bytes = 0;
	c->sums++;
	for (uint32_t i = 0; i < n; i++) {
		const struct part *part;
		uint32_t storage = 0;
		uint64_t hash;

		if (edges[i].kind != VT_EDGE_VALUE)
			continue;
		vt_str_clear(&c->name);
		if (!vt_pyheap_key_text(&c->f->o->heap, dict, &edges[i], &c->name))
			return 0;
		hash = hash_of(c->f, vt_str_get(&c->name), edges[i].to, &storage);
		part = hash ? find_part(c, model, hash) : NULL;
		if (!part || part->storage == storage)
			continue;
		found += part->parameter;
		*bytes += new_bytes(c, storage);
	}
	return found;
}

/* A dict that may be a copy, for the number of its entries and for what the first of them is. */
static bool may_be_copy(const struct copies *c, const struct copied *model, uint32_t dict)
{
	const struct vt_pyheap_class *cls = vt_owners_class(c->f->o, dict);
	const struct vt_graph_node *node = &c->f->o->graph.nodes.data[dict];
	const struct vt_graph_edge *edges;

	if (!cls || cls->shape != VT_PYHEAP_DICT || node->role != VT_ROLE_NONE ||
	    node->n_edges < model->n_parameters || !vt_finder_is_alive(c->f, dict))
		return false;
	vt_finder_edges(c->f, dict, &edges);
	for (uint32_t i = 0; i < node->n_edges && i < 4; i++) {
		if (edges[i].kind == VT_EDGE_VALUE && vt_finder_storage(c->f, edges[i].to))
			return true;
	}
	return false;
}

/* Of models in models the innermost has the names of most dicts: DDP adds a part to each. */
static bool find_dicts(struct copies *c)
{
	for (size_t i = 0; i < c->f->o->graph.nodes.n && c->models.n; i++) {
		for (size_t k = 0; k < c->models.n; k++) {
			const struct copied *model = &c->models.data[k];
			uint64_t bytes;
			uint32_t found;

			if (!may_be_copy(c, model, (uint32_t)i))
				continue;
			found = count_copied(c, model, (uint32_t)i, &bytes);
			if (found != model->n_parameters || bytes < c->f->least)
				continue;
			if (!tell(c, VT_NOTICE_STATE_COPY, found, bytes, (uint32_t)i, model->node))
				return false;
			break;
		}
	}
	return true;
}

bool vt_owners_find_copies(struct vt_finder *f)
{
	struct copies c = {
		.f = f,
		.is_part = calloc(f->o->graph.nodes.n + 1, 1),
		.seen = calloc(f->o->storages.n + 1, sizeof(*c.seen)),
	};
	bool ok = c.is_part && c.seen;

	if (ok) {
		find_models(&c);
		sort_parts(&c);
		ok = !c.failed && compare_models(&c) && find_dicts(&c);
	}
	free(c.is_part);
	free(c.seen);
	vt_vec_deinit(&c.models);
	vt_vec_deinit(&c.parts);
	vt_str_deinit(&c.name);
	return ok;
}
