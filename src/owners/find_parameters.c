/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parameters that modules and optimizers do not agree about: left to an optimizer, frozen with
 * state, with gradients that no optimizer has.
 *
 * torch/optim/optimizer.py: an Optimizer has its parameters in the lists params of the dicts in its
 * list param_groups, and as the keys of state.
 */
#include "owners/internal.h"

#include <stdlib.h>
#include <string.h>

enum {
	MAX_UP = 1000, /* modules in modules */
	MAX_FRAMES = 20000,
};

struct parameter {
	uint32_t node;                      /* its Python object */
	uint32_t optimizer;                 /* the first that has it; VT_GRAPH_NONE none */
	uint32_t root;                      /* the outermost module that has it, or VT_GRAPH_NONE */
	uint32_t of_optimizers, of_modules; /* references */
	uint64_t bytes, gradient, state;
	const char *dtype;
	bool frozen;
};

struct census {
	struct vt_finder *f;
	uint32_t *index;  /* by node: index in parameters + 1; 0: it is none */
	uint32_t *parent; /* by node: the module that a module is a part of; VT_GRAPH_NONE none */
	VT_VEC(struct parameter) parameters;
	bool failed;
};

static const struct vt_graph_node *node_of(const struct vt_finder *f, uint32_t node)
{
	return &f->o->graph.nodes.data[node];
}

/* ---- the census ---- */

static uint64_t gradient_of(const struct vt_finder *f, uint32_t tensor)
{
	uint32_t meta = vt_finder_follow(f, tensor, VT_EDGE_META);
	uint32_t gradient = meta == VT_GRAPH_NONE ? VT_GRAPH_NONE :
						    vt_finder_follow(f, meta, VT_EDGE_GRAD);

	return gradient == VT_GRAPH_NONE ? 0 : vt_finder_bytes(f, f->storage_of[gradient]);
}

/* The parameter of this Python object, added when it is new; NULL: it is no tensor on a device. */
static struct parameter *parameter_of(struct census *c, uint32_t node)
{
	const struct vt_finder *f = c->f;
	uint32_t tensor;
	struct vt_tensors_shape shape;
	struct parameter *added;

	if (c->index[node])
		return &c->parameters.data[c->index[node] - 1];
	tensor = vt_finder_tensor(f, node);
	if (tensor == VT_GRAPH_NONE || !f->storage_of[tensor] ||
	    !vt_tensors_shape(&f->o->tensors, node_of(f, tensor)->addr, &shape))
		return NULL;
	added = vt_vec_append(&c->parameters);
	if (!added) {
		c->failed = true;
		return NULL;
	}
	*added = (struct parameter){
		.node = node,
		.optimizer = VT_GRAPH_NONE,
		.root = VT_GRAPH_NONE,
		.bytes = vt_finder_bytes(f, f->storage_of[tensor]),
		.gradient = gradient_of(f, tensor),
		.dtype = shape.dtype ? shape.dtype : "",
		.frozen = shape.requires_grad_known && !shape.requires_grad,
	};
	c->index[node] = (uint32_t)c->parameters.n;
	return added;
}

static void add_of_module(struct census *c, uint32_t module)
{
	const struct vt_graph_edge *edges;
	uint32_t dict = vt_finder_part(c->f, module, VT_ROLE_PARAMETERS), n;

	n = dict == VT_GRAPH_NONE ? 0 : vt_finder_edges(c->f, dict, &edges);
	for (uint32_t i = 0; i < n; i++) {
		struct parameter *p =
			edges[i].kind == VT_EDGE_VALUE ? parameter_of(c, edges[i].to) : NULL;

		if (!p)
			continue;
		p->of_modules++;
		p->root = module; /* for now the innermost */
	}
	dict = vt_finder_part(c->f, module, VT_ROLE_MODULES);
	n = dict == VT_GRAPH_NONE ? 0 : vt_finder_edges(c->f, dict, &edges);
	for (uint32_t i = 0; i < n; i++) {
		if (edges[i].kind == VT_EDGE_VALUE && edges[i].to != module)
			c->parent[edges[i].to] = module;
	}
}

static void add_of_list(struct census *c, uint32_t optimizer, uint32_t list)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(c->f, list, &edges);

	for (uint32_t i = 0; i < n; i++) {
		struct parameter *p = edges[i].kind == VT_EDGE_ITEM ? parameter_of(c, edges[i].to) :
								      NULL;

		if (!p)
			continue;
		p->of_optimizers++;
		p->optimizer = optimizer;
	}
}

static uint64_t bytes_of_state(const struct vt_finder *f, uint32_t dict)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(f, dict, &edges);
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++) {
		if (edges[i].kind == VT_EDGE_VALUE)
			bytes += vt_finder_bytes(f, vt_finder_storage(f, edges[i].to));
	}
	return bytes;
}

/* A value comes before its key: see walk/pyheap/dict.c. */
static void add_of_state(struct census *c, uint32_t state)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(c->f, state, &edges);

	for (uint32_t i = 1; i < n; i++) {
		struct parameter *p;

		if (edges[i].kind != VT_EDGE_KEY || edges[i - 1].kind != VT_EDGE_VALUE ||
		    edges[i - 1].number != edges[i].number)
			continue;
		p = parameter_of(c, edges[i].to);
		if (!p)
			continue;
		p->of_optimizers++;
		p->state += bytes_of_state(c->f, edges[i - 1].to);
	}
}

static void add_of_optimizer(struct census *c, uint32_t optimizer)
{
	const struct vt_graph_edge *edges;
	uint32_t groups = vt_finder_attribute(c->f, optimizer, "param_groups");
	uint32_t state = vt_finder_part(c->f, optimizer, VT_ROLE_STATE);
	uint32_t n = groups == VT_GRAPH_NONE ? 0 : vt_finder_edges(c->f, groups, &edges);

	for (uint32_t i = 0; i < n; i++) {
		uint32_t list = edges[i].kind == VT_EDGE_ITEM ?
					vt_finder_attribute(c->f, edges[i].to, "params") :
					VT_GRAPH_NONE;

		if (list != VT_GRAPH_NONE)
			add_of_list(c, optimizer, list);
	}
	if (state != VT_GRAPH_NONE)
		add_of_state(c, state);
}

static uint32_t root_of(const struct census *c, uint32_t module)
{
	for (int i = 0; i < MAX_UP && c->parent[module] != VT_GRAPH_NONE; i++)
		module = c->parent[module];
	return module;
}

static void count(struct census *c)
{
	for (size_t i = 0; i < c->f->o->graph.nodes.n; i++)
		c->parent[i] = VT_GRAPH_NONE;
	for (size_t i = 0; i < c->f->o->graph.nodes.n; i++) {
		uint16_t role = node_of(c->f, (uint32_t)i)->role;

		if (!vt_finder_is_alive(c->f, (uint32_t)i))
			continue;
		if (role == VT_ROLE_MODULE)
			add_of_module(c, (uint32_t)i);
		else if (role == VT_ROLE_OPTIMIZER)
			add_of_optimizer(c, (uint32_t)i);
	}
	for (size_t i = 0; i < c->parameters.n; i++) {
		struct parameter *p = &c->parameters.data[i];

		if (p->root != VT_GRAPH_NONE)
			p->root = root_of(c, p->root);
	}
}

/* ---- evidence ---- */

/*
 * Of all references to the Python object, how many are not these? Its tensor has one, where that
 * owns it. Nonzero as well if not all were found.
 */
static uint64_t others(const struct vt_finder *f, const struct parameter *p, uint32_t known)
{
	uint32_t tensor = vt_finder_tensor(f, p->node);
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(f, tensor, &edges);
	uint64_t references = vt_owners_count(f->o, p->node);

	for (uint32_t i = 0; i < n; i++)
		known += edges[i].kind == VT_EDGE_WRAPPER && edges[i].to == p->node;
	if (references == UINT64_MAX || references < known ||
	    node_of(f, p->node)->flags & VT_NODE_LATER)
		return UINT64_MAX;
	return references - known;
}

/* No view, and nothing native, has the tensor's memory as well. */
static bool is_alone(const struct vt_finder *f, const struct parameter *p)
{
	uint32_t tensor = vt_finder_tensor(f, p->node);
	const struct vt_owned_storage *storage = &f->o->storages.data[f->storage_of[tensor] - 1];

	return storage->certain && storage->n_tensors == 1;
}

/* ---- left to an optimizer: by optimizer; with gradients and state that nobody will use ---- */

struct sum {
	uint32_t count;
	uint64_t bytes, part, most;
	uint32_t largest; /* the node of the parameter that has most */
};

static void add_to(struct sum *sum, uint64_t bytes, uint64_t part, uint32_t node)
{
	if (!sum->count || bytes > sum->most) {
		sum->most = bytes;
		sum->largest = node;
	}
	sum->count++;
	sum->bytes += bytes;
	sum->part += part;
}

static bool tell(struct vt_finder *f, enum vt_notice code, const struct sum *sum, uint32_t name,
		 uint32_t other)
{
	struct vt_model_notice notice = {
		.code = (uint8_t)code,
		.certain = true,
		.bytes = sum->bytes,
		.part_bytes = sum->part,
		.count = sum->count,
	};

	return sum->bytes < f->least || vt_finder_add(f, &notice, name, other);
}

static bool is_left(const struct vt_finder *f, const struct parameter *p)
{
	const struct vt_pyheap_class *cls = vt_owners_class(f->o, p->node);

	return cls && cls->is & VT_PYHEAP_IS_PARAMETER && p->root == VT_GRAPH_NONE &&
	       others(f, p, p->of_optimizers) == 0 && is_alone(f, p);
}

static bool tell_of_optimizer(struct census *c, uint32_t optimizer)
{
	struct sum left = { 0 }, frozen = { 0 };

	for (size_t i = 0; i < c->parameters.n; i++) {
		const struct parameter *p = &c->parameters.data[i];

		if (p->optimizer != optimizer)
			continue;
		if (is_left(c->f, p))
			add_to(&left, p->bytes + p->gradient + p->state, p->state, p->node);
		else if (p->frozen && p->state)
			add_to(&frozen, p->state, p->state, p->node);
	}
	return tell(c->f, VT_NOTICE_LEFT_PARAMETERS, &left, optimizer, VT_GRAPH_NONE) &&
	       tell(c->f, VT_NOTICE_FROZEN_STATE, &frozen, optimizer, frozen.largest);
}

/* ---- gradients that no optimizer has: by model ---- */

/* The type of an optimizer's parameters of this model: others may have copies in an optimizer. */
static const char *type_of_trained(const struct census *c, uint32_t root)
{
	for (size_t i = 0; i < c->parameters.n; i++) {
		const struct parameter *p = &c->parameters.data[i];

		if (p->optimizer != VT_GRAPH_NONE && p->root == root)
			return p->dtype;
	}
	return NULL;
}

static bool tell_of_model(struct census *c, uint32_t root)
{
	const char *dtype = type_of_trained(c, root);
	struct sum lost = { 0 };

	for (size_t i = 0; dtype && i < c->parameters.n; i++) {
		const struct parameter *p = &c->parameters.data[i];

		if (p->gradient && !p->of_optimizers && p->root == root &&
		    !strcmp(p->dtype, dtype) && others(c->f, p, p->of_modules) == 0)
			add_to(&lost, p->gradient, 0, p->node);
	}
	return tell(c->f, VT_NOTICE_LOST_GRADIENTS, &lost, root, lost.largest);
}

/* ---- gradients that are kept while the next ones are not computed yet ---- */

enum doing { DOING_NOTHING, DOING_FORWARD, DOING_OTHER };

static bool is_in(const char *file, const char *part)
{
	return file && strstr(file, part);
}

/* What a frame says that its thread does. Between backward() and step() gradients are needed. */
static enum doing doing_of(const struct vt_pyheap_where *where)
{
	if (is_in(where->file, "/torch/optim/") || is_in(where->file, "/torch/autograd/") ||
	    is_in(where->file, "/torch/amp/") || is_in(where->file, "/torch/nn/utils/") ||
	    is_in(where->file, "/torch/utils/checkpoint") || !strcmp(where->function, "backward"))
		return DOING_OTHER;
	if (is_in(where->file, "/torch/nn/modules/module.py") &&
	    strstr(where->function, "_call_impl"))
		return DOING_FORWARD;
	return DOING_NOTHING;
}

/* The frame, of all threads, in which the outermost module runs forward(); none: no. */
static uint32_t forward_frame(const struct vt_finder *f)
{
	const struct vt_graph_edge *edges;
	uint32_t n = vt_finder_edges(f, f->o->root, &edges), found = VT_GRAPH_NONE;

	for (uint32_t i = 0, frames = 0; i < n && frames < MAX_FRAMES; i++) {
		struct vt_pyheap_where where;

		if (edges[i].kind != VT_EDGE_THREAD)
			continue;
		frames++;
		if (!vt_pyheap_where(&f->o->heap, edges[i].to, &where) || !where.function)
			continue;
		switch (doing_of(&where)) {
		case DOING_FORWARD:
			found = edges[i].to;
			break;
		case DOING_OTHER:
			return VT_GRAPH_NONE;
		case DOING_NOTHING:
			break;
		}
	}
	return found;
}

static bool tell_of_gradients(struct census *c)
{
	struct sum kept = { 0 };
	struct vt_model_notice notice = { .code = VT_NOTICE_KEPT_GRADIENTS,
					  .certain = true,
					  .name = "forward()" };

	for (size_t i = 0; i < c->parameters.n; i++) {
		const struct parameter *p = &c->parameters.data[i];

		if (p->gradient && p->optimizer != VT_GRAPH_NONE)
			add_to(&kept, p->gradient, 0, p->node);
	}
	if (kept.bytes < c->f->least || forward_frame(c->f) == VT_GRAPH_NONE)
		return true;
	notice.bytes = kept.bytes;
	notice.count = kept.count;
	return vt_finder_add(c->f, &notice, VT_GRAPH_NONE, VT_GRAPH_NONE);
}

static bool tell_all(struct census *c)
{
	for (size_t i = 0; i < c->f->o->graph.nodes.n; i++) {
		uint32_t node = (uint32_t)i;
		uint16_t role = node_of(c->f, node)->role;

		if (!vt_finder_is_alive(c->f, node))
			continue;
		if (role == VT_ROLE_OPTIMIZER && !tell_of_optimizer(c, node))
			return false;
		if (role == VT_ROLE_MODULE && c->parent[node] == VT_GRAPH_NONE &&
		    !tell_of_model(c, node))
			return false;
	}
	return tell_of_gradients(c);
}

bool vt_owners_find_parameters(struct vt_finder *f)
{
	size_t n = f->o->graph.nodes.n + 1;
	struct census c = {
		.f = f,
		.index = calloc(n, sizeof(*c.index)),
		.parent = calloc(n, sizeof(*c.parent)),
	};
	bool ok = c.index && c.parent;

	if (ok) {
		count(&c);
		ok = !c.failed;
	}
	/* Where references are missing, anything could look left. */
	if (ok && !f->o->graph.full && !f->o->pages->full)
		ok = tell_all(&c);
	vt_vec_deinit(&c.parameters);
	free(c.index);
	free(c.parent);
	return ok;
}
