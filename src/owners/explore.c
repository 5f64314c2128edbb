/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the graph. Nodes are explored in the order in which they were found, so that the list of
 * nodes is its own work list, and the edges of a node lie together.
 */
#include "base/clock.h"
#include "owners/internal.h"
#include "walk/python/layout.h"

enum {
	ROOT_ADDRESS = 1, /* no object has it: objects are aligned */
	AHEAD = 6, /* nodes from the one that is explored to the one whose memory is fetched */
	CLOCK_EVERY = 4096, /* nodes from one look at the clock to the next */
	MAX_SAMPLES = 4096,
	MAX_COLLECTABLE = 50000000,
	MAX_YOUNG = 4096,
	TOUCH_WORK = 1 << 17, /* words of one node while the process stands still */
};

struct samples {
	struct vt_owners *o;
	VT_VEC(uint64_t) wrappers;
	size_t n_seen; /* objects in the collector's lists */
};

static void sample(void *arg, uint64_t object)
{
	struct samples *samples = arg;
	struct vt_pyheap *heap = &samples->o->heap;
	uint32_t cls;

	samples->n_seen++;
	if (samples->wrappers.n >= MAX_SAMPLES)
		return;
	cls = vt_pyheap_class_of(heap, object);
	if (cls == VT_GRAPH_NONE || !(heap->classes.data[cls].is & VT_PYHEAP_IS_TENSOR))
		return;

	uint64_t *wrapper = vt_vec_append(&samples->wrappers);

	if (wrapper)
		*wrapper = object;
}

#define IS_NATIVE (VT_PYHEAP_IS_TENSOR | VT_PYHEAP_IS_STORAGE | VT_PYHEAP_IS_NODE)

/* Nodes and classes move when there are more of them: no pointer to one is kept across a call. */
static void explore_python(struct vt_owners *o, uint32_t node)
{
	uint64_t addr = o->graph.nodes.data[node].addr;
	uint32_t cls = vt_pyheap_class_of(&o->heap, addr);

	o->graph.nodes.data[node].cls = cls;
	if (cls == VT_GRAPH_NONE)
		return;
	vt_pyheap_edges(&o->heap, node);
	if (o->tensors.layout.known && o->heap.classes.data[cls].is & IS_NATIVE)
		vt_tensors_wrapper_edges(&o->tensors, addr);
	if (o->tensors.layout.known && o->heap.classes.data[cls].is & VT_PYHEAP_IS_SAVED)
		vt_tensors_saved_tensor_edges(&o->tensors, addr);
}

static void explore_node(struct vt_owners *o, uint32_t node)
{
	vt_graph_explore(&o->graph, node);
	switch ((enum vt_node_kind)o->graph.nodes.data[node].kind) {
	case VT_NODE_ROOT:
		vt_pyheap_roots(&o->heap);
		break;
	case VT_NODE_PYTHON:
		explore_python(o, node);
		break;
	case VT_NODE_FRAME:
		vt_pyheap_edges(&o->heap, node);
		break;
	case VT_NODE_TENSOR:
	case VT_NODE_STORAGE:
	case VT_NODE_META:
	case VT_NODE_GRAD_FN:
		vt_tensors_edges(&o->tensors, node);
		break;
	default:
		break;
	}
}

/* The root is made of many objects, and those that come and go are not among them. */
static void explore_at_moment(struct vt_owners *o, uint32_t node)
{
	if (!o->pages->over || node == o->root) {
		explore_node(o, node);
		return;
	}
	vt_pages_watch_later(o->pages);
	explore_node(o, node);
	if (o->pages->later)
		o->graph.nodes.data[node].flags |= VT_NODE_LATER;
}

static void look_at_the_clock(struct vt_owners *o)
{
	if (vt_now_ns() > o->deadline_ns)
		o->late = o->graph.full = true;
	if (o->input && o->input->alive)
		o->input->alive(o->input->alive_arg);
}

static void explore_from(struct vt_owners *o, size_t first)
{
	for (size_t i = first; !o->graph.full && vt_graph_has(&o->graph, i); i++) {
		if (i % CLOCK_EVERY == 0)
			look_at_the_clock(o);
		if (i + AHEAD < o->graph.nodes.n)
			vt_pages_prefetch(o->pages, o->graph.nodes.data[i + AHEAD].addr);
		explore_at_moment(o, (uint32_t)i);
	}
	vt_graph_flush(&o->graph);
}

static void add_collectable(void *arg, uint64_t object)
{
	struct vt_owners *o = arg;
	uint32_t node = vt_graph_node(&o->graph, object, VT_NODE_PYTHON);

	if (node != VT_GRAPH_NONE)
		o->graph.nodes.data[node].flags |=
			(uint8_t)(VT_NODE_COLLECTABLE | o->heap.generation
								<< VT_NODE_GENERATION_SHIFT);
}

/* Where there are no lists: the tensors that the roots reach. */
static void sample_reachable(struct vt_owners *o, struct samples *samples)
{
	explore_from(o, 0);
	for (size_t i = 0; i < o->graph.nodes.n; i++) {
		if (o->graph.nodes.data[i].kind == VT_NODE_PYTHON)
			sample(samples, o->graph.nodes.data[i].addr);
	}
	vt_graph_clear(&o->graph);
	o->root = vt_graph_node(&o->graph, ROOT_ADDRESS, VT_NODE_ROOT);
}

/* How PyTorch's objects are laid out is learnt from some of its tensors. */
static void learn(struct vt_owners *o)
{
	struct samples samples = { .o = o };
	/* ob_size of a PyVarObject follows its PyObject. */
	uint32_t head = o->heap.py->layout->at[VT_PY_OBJECT_SIZE];

	if (!vt_pyheap_collectable(&o->heap, MAX_COLLECTABLE, sample, &samples))
		sample_reachable(o, &samples);
	vt_tensors_init(&o->tensors, o->pages, &o->graph, &o->rtti, samples.wrappers.data,
			samples.wrappers.n, head);
	vt_vec_deinit(&samples.wrappers);
}

static void explore_all(struct vt_owners *o)
{
	/* Without frames there are fewer roots, which the counts show. */
	vt_error_destroy(vt_python_capture(o->heap.py, &o->pages->src));
	o->root = vt_graph_node(&o->graph, ROOT_ADDRESS, VT_NODE_ROOT);
	learn(o);
	explore_from(o, 0);
	o->n_seen = o->graph.nodes.n;
	o->lists = vt_pyheap_collectable(&o->heap, MAX_COLLECTABLE, add_collectable, o);
	explore_from(o, o->n_seen);
	if (o->pages->over)
		vt_graph_discount_later(&o->graph);
}

struct vt_error *vt_owners_explore(struct vt_owners *o, const struct vt_owners_input *input)
{
	*o = (struct vt_owners){ .pages = input->pages, .deadline_ns = input->deadline_ns };
	if (!vt_graph_init(&o->graph, input->max_nodes, input->max_edges))
		return vt_error_create(VT_ERR_NOMEM, "out of memory");
	o->graph.lazy = true;

	struct vt_error *err = vt_pyheap_init(&o->heap, input->python, input->pages, &o->graph);

	if (err) {
		vt_graph_deinit(&o->graph);
		return err;
	}
	vt_rtti_init(&o->rtti, &input->pages->src, input->maps);
	o->input = input;
	explore_all(o);
	o->input = NULL;
	return NULL;
}

void vt_owners_explore_again(struct vt_owners *o, const struct vt_owners_input *input)
{
	o->deadline_ns = input->deadline_ns;
	o->late = false;
	vt_tensors_deinit(&o->tensors);
	vt_graph_clear(&o->graph);
	vt_pyheap_forget(&o->heap);
	o->input = input;
	explore_all(o);
	o->input = NULL;
}

/* The most urgent come first. */
enum urgency {
	/* PyTorch's: a graph of autograd is as deep as the model, but has few nodes */
	URGENT_NATIVE,
	URGENT_DATA,
	URGENT_CODE, /* functions, classes, modules: there are many, and hardly any are new */
	N_URGENCIES,
};

struct queue {
	VT_VEC(uint32_t) nodes;
	size_t done;
};

/* Nodes that wait, each once. */
struct frontier {
	struct vt_owners *o;
	struct queue queues[N_URGENCIES];
	VT_VEC(uint8_t) seen; /* by node */
};

static enum urgency urgency_of(const struct vt_graph *graph, const struct vt_graph_edge *edge)
{
	switch ((enum vt_node_kind)graph->nodes.data[edge->to].kind) {
	case VT_NODE_TENSOR:
	case VT_NODE_STORAGE:
	case VT_NODE_META:
	case VT_NODE_GRAD_FN:
		return URGENT_NATIVE;
	default:
		break;
	}
	switch ((enum vt_edge_kind)edge->kind) {
	case VT_EDGE_GLOBALS:
	case VT_EDGE_CODE:
	case VT_EDGE_FUNCTION:
	case VT_EDGE_TYPE:
	case VT_EDGE_BASES:
	case VT_EDGE_DEFAULTS:
		return URGENT_CODE;
	default:
		return URGENT_DATA;
	}
}

static bool add_node(struct frontier *f, enum urgency urgency, uint32_t node)
{
	uint32_t *added = vt_vec_append(&f->queues[urgency].nodes);

	if (added)
		*added = node;
	return added;
}

static bool next_node(struct frontier *f, uint32_t *node)
{
	for (size_t i = 0; i < N_URGENCIES; i++) {
		struct queue *queue = &f->queues[i];

		if (queue->done == queue->nodes.n)
			continue;
		*node = queue->nodes.data[queue->done++];
		return true;
	}
	return false;
}

static void frontier_deinit(struct frontier *f)
{
	for (size_t i = 0; i < N_URGENCIES; i++)
		vt_vec_deinit(&f->queues[i].nodes);
	vt_vec_deinit(&f->seen);
}

static bool add_ends(struct frontier *f, uint32_t node, bool frames_only)
{
	const struct vt_graph *graph = &f->o->graph;
	const struct vt_graph_node *n = &graph->nodes.data[node];
	size_t before = f->seen.n;

	if (!vt_vec_reserve(&f->seen, graph->nodes.n))
		return false;
	memset(f->seen.data + before, 0, graph->nodes.n - before);
	f->seen.n = graph->nodes.n;
	for (uint32_t i = 0; i < n->n_edges; i++) {
		const struct vt_graph_edge *edge = &graph->edges.data[n->first_edge + i];

		if (f->seen.data[edge->to] || (frames_only && edge->kind != VT_EDGE_THREAD))
			continue;
		f->seen.data[edge->to] = 1;
		if (!add_node(f, urgency_of(graph, edge), edge->to))
			return false;
	}
	return true;
}

struct addresses {
	VT_VEC(uint64_t) at;
};

/* The tensors of the graph: they may have got gradients, and other nodes of autograd. */
static void list_tensors(const struct vt_graph *graph, struct addresses *tensors)
{
	for (size_t i = 0; i < graph->nodes.n; i++) {
		uint64_t *added = graph->nodes.data[i].kind == VT_NODE_TENSOR ?
					  vt_vec_append(&tensors->at) :
					  NULL;

		if (added)
			*added = graph->nodes.data[i].addr;
	}
}

/* One that is no tensor any more has no edges. */
static void add_tensors(struct frontier *f, const struct addresses *tensors)
{
	for (size_t i = 0; i < tensors->at.n; i++) {
		uint32_t node = vt_graph_node(&f->o->graph, tensors->at.data[i], VT_NODE_TENSOR);

		if (node != VT_GRAPH_NONE)
			add_node(f, URGENT_NATIVE, node);
	}
}

static void add_young(void *arg, uint64_t object)
{
	struct frontier *f = arg;
	uint32_t node = vt_graph_node(&f->o->graph, object, VT_NODE_PYTHON);

	if (node != VT_GRAPH_NONE)
		add_node(f, URGENT_DATA, node);
}

void vt_owners_touch_frames(struct vt_owners *o, uint64_t deadline_ns)
{
	struct addresses tensors = { 0 };
	struct frontier f = { .o = o };
	uint32_t node;

	vt_error_destroy(vt_python_capture(o->heap.py, &o->pages->src));
	list_tensors(&o->graph, &tensors);
	vt_graph_clear(&o->graph);
	vt_pyheap_forget(&o->heap);
	o->root = vt_graph_node(&o->graph, ROOT_ADDRESS, VT_NODE_ROOT);
	explore_node(o, o->root);
	vt_graph_flush(&o->graph);
	add_tensors(&f, &tensors);
	if (add_ends(&f, o->root, true)) {
		/* The youngest generation is the collector's first list. */
		vt_pyheap_collectable(&o->heap, MAX_YOUNG, add_young, &f);
		while (!o->graph.full && next_node(&f, &node)) {
			if (vt_now_ns() > deadline_ns)
				break;
			if (o->graph.nodes.data[node].flags & VT_NODE_EXPLORED)
				continue;
			o->heap.work_left = TOUCH_WORK;
			explore_node(o, node);
			vt_graph_flush(&o->graph);
			if (!add_ends(&f, node, false))
				break;
		}
	}
	vt_vec_deinit(&tensors.at);
	frontier_deinit(&f);
}

void vt_owners_deinit(struct vt_owners *o)
{
	vt_tensors_deinit(&o->tensors);
	vt_rtti_deinit(&o->rtti);
	vt_pyheap_deinit(&o->heap);
	vt_graph_deinit(&o->graph);
	vt_vec_deinit(&o->reach);
	vt_vec_deinit(&o->late_edges);
	vt_vec_deinit(&o->storages);
	vt_vec_deinit(&o->categories);
	vt_vec_deinit(&o->way);
	vt_vec_deinit(&o->entries);
	vt_arena_deinit(&o->arena);
}
