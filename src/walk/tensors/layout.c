/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How PyTorch's objects are laid out, learnt from objects that are there. What a field points to
 * shows which field it is: virtual tables name the classes of all objects here. Only what no
 * pointer shows is taken from the ways that releases are known to have.
 */
#include "walk/tensors/internal.h"

enum {
	MAX_NODES = 4000,   /* of autograd that are looked at */
	LEAST_PERCENT = 60, /* of the samples have to agree */
};

/*
 * Of intrusive_ptr_target (c10/util/intrusive_ptr.h): a virtual table, then two counts of 8 bytes
 * up to 2.2, of 4 bytes since.
 */
static const uint32_t heads[] = { 24, 16 };

/*
 * torch/csrc/autograd/function.h, saved_variable.h, edge.h: sizes and offsets of the releases, from
 * their headers.
 */
static const struct node_way {
	bool shared;
	uint32_t next, size, edge, pyobj, saved_flags, saved_hooks, saved_size;
} node_ways[] = {
	{ true, 96, 472, 24, 0, 56, 64, 112 },   /* 2.0 to 2.4 */
	{ true, 96, 472, 24, 0, 48, 56, 104 },   /* 2.5 to 2.12 */
	{ false, 88, 464, 16, 112, 40, 48, 80 }, /* 2.13 on */
};

/*
 * function.h, node.h: behind next_edges_ come the Python object and AnomalyMetadata, then
 * pre_hooks_, tensor_pre_hooks_, retains_grad_hooks_ (an unordered_map of 56 bytes), post_hooks_.
 */
enum { HOOKS_BEHIND = 40, POST_HOOKS_BEHIND = HOOKS_BEHIND + 2 * 24 + 56 };

#define N_NODE_WAYS (sizeof(node_ways) / sizeof(node_ways[0]))

struct learning {
	struct vt_tensors *t;
	const uint64_t *wrappers;
	size_t n;
	VT_VEC(uint64_t) impls, metas, nodes;
};

static bool enough(size_t votes, size_t of)
{
	return of && votes * 100 >= of * LEAST_PERCENT;
}

static bool append(struct learning *l, uint64_t **data, size_t *n, size_t *capacity, uint64_t value)
{
	(void)l;
	if (!vt_vec_reserve_((void **)data, capacity, *n + 1, sizeof(**data)))
		return false;
	(*data)[(*n)++] = value;
	return true;
}

#define APPEND(l, vec, value) append((l), &(vec)->data, &(vec)->n, &(vec)->capacity, (value))

/*
 * torch/csrc/autograd/python_variable.h: THPVariable begins with the pointer (from 2.10 on), or
 * with a MaybeOwned, whose flag comes first.
 */
static bool learn_wrapper(struct learning *l)
{
	struct vt_tensors_layout *layout = &l->t->layout;
	uint32_t head = layout->python_head;
	size_t votes[2] = { 0 };

	for (size_t i = 0; i < l->n; i++) {
		for (uint32_t k = 0; k < 2; k++)
			votes[k] += vt_tensors_is(
				l->t, vt_pages_u64(l->t->pages, l->wrappers[i] + head + 8 * k),
				VT_NODE_TENSOR);
	}
	layout->tagged_pyobj = votes[1] > votes[0];
	layout->wrapper_impl = head + (layout->tagged_pyobj ? 8 : 0);
	if (!votes[layout->tagged_pyobj]) {
		l->t->why = l->n ? "no tensor of Python has a TensorImpl" : "no tensor was found";
		return false;
	}
	for (size_t i = 0; i < l->n; i++) {
		uint64_t impl = vt_pages_u64(l->t->pages, l->wrappers[i] + layout->wrapper_impl);

		if (vt_tensors_is(l->t, impl, VT_NODE_TENSOR) && !APPEND(l, &l->impls, impl))
			return false;
	}
	return true;
}

static bool learn_head(struct learning *l)
{
	struct vt_tensors_layout *layout = &l->t->layout;
	size_t best = 0;

	for (size_t k = 0; k < sizeof(heads) / sizeof(heads[0]); k++) {
		size_t votes = 0;

		for (size_t i = 0; i < l->impls.n; i++)
			votes += vt_tensors_is(
				l->t, vt_pages_u64(l->t->pages, l->impls.data[i] + heads[k]),
				VT_NODE_STORAGE);
		if (votes > best) {
			best = votes;
			layout->head = heads[k];
		}
	}
	if (!best) {
		l->t->why = "no tensor has a StorageImpl";
		return false;
	}
	layout->two_counts = layout->head == 24;
	layout->impl_storage = layout->head;
	layout->impl_meta = layout->head + 8;
	/* c10/core/StorageImpl.h: DataPtr (pointer, context, deleter, device), then the size. */
	layout->storage_data = layout->head;
	layout->storage_bytes = layout->head + 32;
	/* Since 2.1; 2.0 ends before it, and what lies there does not point back. */
	layout->storage_pyobj = layout->head + 64;
	return true;
}

/* The slot of the Python object points back to it. */
static bool learn_pyobj(struct learning *l)
{
	struct vt_tensors_layout *layout = &l->t->layout;
	size_t best = 0;

	for (uint32_t at = layout->head + 16; at <= 96; at += 8) {
		size_t votes = 0;

		for (size_t i = 0; i < l->n; i++) {
			uint64_t impl =
				vt_pages_u64(l->t->pages, l->wrappers[i] + layout->wrapper_impl);

			votes += impl && (vt_pages_u64(l->t->pages, impl + at) & ~UINT64_C(1)) ==
						 l->wrappers[i];
		}
		if (votes > best) {
			best = votes;
			layout->impl_pyobj = at;
		}
	}
	if (!enough(best, l->impls.n)) {
		l->t->why = "tensors do not point back to their Python objects";
		return false;
	}
	layout->impl_sizes = layout->impl_pyobj + 8;
	return true;
}

static void find_metas(struct learning *l)
{
	for (size_t i = 0; i < l->impls.n; i++) {
		uint64_t meta =
			vt_pages_u64(l->t->pages, l->impls.data[i] + l->t->layout.impl_meta);

		if (vt_tensors_is(l->t, meta, VT_NODE_META) && !APPEND(l, &l->metas, meta))
			return;
	}
}

static bool is_tensor_or_none(struct vt_tensors *tensors, uint64_t addr)
{
	return vt_tensors_is_none(tensors, addr) || vt_tensors_is(tensors, addr, VT_NODE_TENSOR);
}

/*
 * torch/csrc/autograd/variable.h: name_, grad_, grad_fn_, grad_accumulator_, fw_grad_, hooks_. An
 * empty std::string of the C++11 ABI points to its own buffer, 16 bytes further on; one of the
 * older ABI is one pointer.
 */
static void learn_meta(struct learning *l)
{
	struct vt_tensors_layout *layout = &l->t->layout;
	size_t strings = 0, good = 0, bad = 0;

	for (size_t i = 0; i < l->metas.n; i++)
		strings += vt_pages_u64(l->t->pages, l->metas.data[i] + 8) == l->metas.data[i] + 24;
	layout->meta_grad = enough(strings, l->metas.n) ? 40 : 16;
	layout->meta_grad_fn = layout->meta_grad + 8;
	for (size_t i = 0; i < l->metas.n; i++) {
		uint64_t grad = vt_pages_u64(l->t->pages, l->metas.data[i] + layout->meta_grad);
		uint64_t fn = vt_pages_u64(l->t->pages, l->metas.data[i] + layout->meta_grad_fn);

		if (!is_tensor_or_none(l->t, grad) ||
		    (fn && !vt_tensors_is(l->t, fn, VT_NODE_GRAD_FN)))
			bad++;
		else
			good++;
	}
	if (!enough(good, good + bad)) {
		layout->meta_grad = layout->meta_grad_fn = 0;
		if (l->metas.n)
			l->t->why = "gradients are not where they are known to be";
	}
}

/* grad_accumulator_ and fw_grad_ lie between: two words each where nodes are shared. */
static uint32_t hooks_behind(uint32_t grad_fn, bool shared)
{
	return grad_fn + (shared ? 48 : 32);
}

/* Metas that have the flags without or with a pointer before them, if their hooks are there. */
struct flag_votes {
	size_t without, with;
};

/*
 * hooks_ and cpp_hooks_list_ (40 bytes), since 2.1 post_acc_grad_hooks_, then requires_grad_,
 * retains_grad_ and is_view_, a byte each. A leaf has this only because it needs a gradient, or is
 * a view.
 */
static struct flag_votes count_flags(struct learning *l, uint32_t hooks)
{
	struct flag_votes votes = { 0 };

	for (size_t i = 0; l->t->layout.meta_grad && hooks && i < l->metas.n; i++) {
		uint64_t first = l->metas.data[i] + hooks + 40;
		uint64_t word = vt_pages_u64(l->t->pages, first);
		uint64_t next = vt_pages_u64(l->t->pages, first + 8);
		const uint64_t flags = UINT64_C(0xfefefe), any = UINT64_C(0x010101);

		votes.without += !(word & flags) && word & any;
		votes.with += (!word || (word > UINT32_MAX && !(word & 7))) && !(next & flags) &&
			      next & any;
	}
	return votes;
}

static void learn_flags(struct learning *l)
{
	struct vt_tensors_layout *layout = &l->t->layout;
	uint32_t first = layout->meta_hooks + 40;
	struct flag_votes votes = count_flags(l, layout->meta_hooks);

	if (!enough(votes.with, votes.with + votes.without) &&
	    !enough(votes.without, votes.with + votes.without))
		return;
	layout->no_post_hooks = votes.without > votes.with;
	layout->meta_post_hooks = layout->no_post_hooks ? 0 : first;
	layout->meta_requires_grad = layout->no_post_hooks ? first : first + 8;
}

/*
 * Without any node (between two steps of a training), the metas show which kind of pointers lead to
 * nodes: only one puts the flags where they are. PyTorch 2.10 changed the Python object before
 * 2.13 changed these.
 */
static bool guess_shared(struct learning *l)
{
	uint32_t fn = l->t->layout.meta_grad_fn;
	struct flag_votes one = count_flags(l, fn ? hooks_behind(fn, true) : 0);
	struct flag_votes other = count_flags(l, fn ? hooks_behind(fn, false) : 0);
	size_t shared = one.with + one.without, intrusive = other.with + other.without;

	if (enough(shared, shared + intrusive))
		return true;
	return !enough(intrusive, shared + intrusive) && l->t->layout.tagged_pyobj;
}

/* Nodes of the graphs of the samples, breadth first. */
static void find_nodes(struct learning *l)
{
	struct vt_tensors_layout *layout = &l->t->layout;

	for (size_t i = 0; layout->meta_grad_fn && i < l->metas.n && l->nodes.n < MAX_NODES; i++) {
		uint64_t node = vt_pages_u64(l->t->pages, l->metas.data[i] + layout->meta_grad_fn);

		if (vt_tensors_is(l->t, node, VT_NODE_GRAD_FN) && !APPEND(l, &l->nodes, node))
			return;
	}
}

/* The next nodes of one, as this way has them. */
static size_t count_next(struct learning *l, const struct node_way *way, uint64_t node, bool add)
{
	uint64_t begin = vt_pages_u64(l->t->pages, node + way->next);
	uint64_t end = vt_pages_u64(l->t->pages, node + way->next + 8);
	size_t n = 0;

	if (!begin || end <= begin || end - begin > 4096 || (end - begin) % way->edge)
		return 0;
	for (uint64_t at = begin; at < end; at += way->edge) {
		uint64_t next = vt_pages_u64(l->t->pages, at);

		if (!vt_tensors_is(l->t, next, VT_NODE_GRAD_FN))
			continue;
		n++;
		if (add && l->nodes.n < MAX_NODES && !APPEND(l, &l->nodes, next))
			return n;
	}
	return n;
}

/*
 * Is a SavedVariable there, as this way has them? With pack hooks, which all have in a graph that
 * is computed anew in backward(), the variable is c10::UndefinedTensorImpl, not 0.
 */
static bool is_saved(struct learning *l, const struct node_way *way, uint64_t addr)
{
	uint64_t variable = vt_pages_u64(l->t->pages, addr);

	if (vt_tensors_is(l->t, variable, VT_NODE_TENSOR))
		return vt_tensors_is_saved(l->t, addr, way->saved_flags);
	return variable && vt_tensors_is_none(l->t, variable) &&
	       vt_tensors_are_hooks(l->t, vt_pages_u64(l->t->pages, addr + way->saved_hooks));
}

static size_t count_saved(struct learning *l, const struct node_way *way)
{
	size_t n = 0;

	for (size_t i = 0; i < l->nodes.n; i++) {
		uint64_t size = vt_tensors_object_size(l->t, l->nodes.data[i]);

		for (uint64_t at = way->size; at + way->saved_size <= size; at += 8)
			n += is_saved(l, way, l->nodes.data[i] + at);
	}
	return n;
}

static bool is_only_way(const struct node_way *way)
{
	size_t n = 0;

	for (size_t k = 0; k < N_NODE_WAYS; k++)
		n += node_ways[k].shared == way->shared;
	return n == 1;
}

static void learn_nodes(struct learning *l)
{
	struct vt_tensors_layout *layout = &l->t->layout;
	size_t shared = 0, best = 0, all = 0;
	const struct node_way *way = NULL;

	/* std::enable_shared_from_this begins with a pointer to the object itself. */
	for (size_t i = 0; i < l->nodes.n; i++)
		shared += vt_pages_u64(l->t->pages, l->nodes.data[i] + 8) == l->nodes.data[i];
	layout->node_shared = l->nodes.n ? enough(shared, l->nodes.n) : guess_shared(l);
	for (size_t k = 0; k < N_NODE_WAYS; k++) {
		if (node_ways[k].shared == layout->node_shared && !way)
			way = &node_ways[k];
	}
	for (size_t i = 0; way && i < l->nodes.n; i++)
		count_next(l, way, l->nodes.data[i], true);
	for (size_t k = 0; k < N_NODE_WAYS; k++) {
		size_t votes;

		if (node_ways[k].shared != layout->node_shared)
			continue;
		votes = count_saved(l, &node_ways[k]);
		all += votes;
		if (votes > best) {
			best = votes;
			way = &node_ways[k];
		}
	}
	if (!way)
		return;
	layout->node_next = way->next;
	layout->node_size = way->size;
	layout->node_edge_size = way->edge;
	layout->node_pyobj = way->pyobj;
	layout->node_hooks = way->next + HOOKS_BEHIND;
	layout->node_post_hooks = way->next + POST_HOOKS_BEHIND;
	layout->saved_flags = way->saved_flags;
	layout->saved_hooks = way->saved_hooks;
	if (enough(best, all) || is_only_way(way))
		layout->saved_size = way->saved_size;
	else if (all)
		l->t->why = "what is saved for a backward pass is not where it is known to be";
	layout->meta_accumulator = layout->meta_grad_fn + (layout->node_shared ? 16 : 8);
	layout->meta_hooks = hooks_behind(layout->meta_grad_fn, layout->node_shared);
}

void vt_tensors_init(struct vt_tensors *tensors, struct vt_pages *pages, struct vt_graph *graph,
		     struct vt_rtti *rtti, const uint64_t *wrappers, size_t n, uint32_t python_head)
{
	struct learning l = { .t = tensors, .wrappers = wrappers, .n = n };

	*tensors = (struct vt_tensors){ .pages = pages, .graph = graph, .rtti = rtti };
	tensors->layout.python_head = python_head;
	tensors->layout.known = learn_wrapper(&l) && learn_head(&l) && learn_pyobj(&l);
	if (tensors->layout.known) {
		find_metas(&l);
		learn_meta(&l);
		find_nodes(&l);
		learn_nodes(&l);
		learn_flags(&l);
	}
	vt_vec_deinit(&l.impls);
	vt_vec_deinit(&l.metas);
	vt_vec_deinit(&l.nodes);
}

void vt_tensors_deinit(struct vt_tensors *tensors)
{
	*tensors = (struct vt_tensors){ 0 };
}
