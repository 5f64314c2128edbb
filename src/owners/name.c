/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words for a path: an expression as the program would write it, where it is, and what keeps
 * that alive: "acts[17].grad in train (train.py:88)", "big in load (data.py:12), kept by
 * sys.last_value", "saved by MulBackward0 ← losses[412]".
 */
#include "owners/internal.h"

#include <ctype.h>

enum {
	MAX_PATH = 512,       /* steps of a path that are put into words: the last ones */
	MAX_EXPRESSION = 400, /* bytes of a name */
	MAX_DEPTH = 2,        /* names in names: the key of an optimizer's state */
};

struct step {
	uint32_t from, to;
	const struct vt_graph_edge *edge;
};

struct composer {
	struct vt_owners *o;
	struct vt_str expression;       /* "acts[17].grad" */
	struct vt_str where;            /* " in train (train.py:88)" */
	struct vt_str holder;           /* ", kept by sys.last_value" */
	struct vt_str variable, module; /* see struct vt_owner_name */
	uint32_t saved_by; /* the node of autograd that the path left; VT_GRAPH_NONE none */
	unsigned int depth;
};

static void composer_deinit(struct composer *c)
{
	vt_str_deinit(&c->expression);
	vt_str_deinit(&c->where);
	vt_str_deinit(&c->holder);
	vt_str_deinit(&c->variable);
	vt_str_deinit(&c->module);
}

/* From the root to the node. Runs of edges between nodes of autograd are one step. */
static size_t read_path(struct vt_owners *o, uint32_t node, struct step path[MAX_PATH])
{
	size_t n = MAX_PATH;

	while (n && o->reach.data[node].parent != VT_GRAPH_NONE) {
		const struct vt_reach *reach = &o->reach.data[node];
		const struct vt_graph_edge *edge = vt_owners_edge(o, reach->edge);

		if (edge->kind == VT_EDGE_NEXT && vt_owners_entry(o, node) != node) {
			node = vt_owners_entry(o, node);
			continue;
		}
		path[--n] = (struct step){ reach->parent, node, edge };
		node = reach->parent;
	}
	for (size_t i = n; i < MAX_PATH; i++)
		path[i - n] = path[i];
	return MAX_PATH - n;
}

static bool is_number(const char *text)
{
	if (!*text || strlen(text) > 9)
		return false;
	while (isdigit((unsigned char)*text))
		text++;
	return !*text;
}

static bool is_globals(const struct vt_owners *o, uint32_t node)
{
	return o->graph.nodes.data[node].role == VT_ROLE_GLOBALS;
}

/* As Python has it: ".weight", "['exp_avg']", "[3]". */
static void say_as_python(struct composer *c, const struct step *step, bool attribute)
{
	struct vt_str text = { 0 };
	const char *words;

	vt_pyheap_edge_text(&c->o->heap, step->from, step->edge, attribute, &text);
	words = vt_str_get(&text);
	/* A variable's name may begin with a dot: ".0" is what a generator goes over. */
	if (!c->expression.n && *words == '.' && step->edge->kind != VT_EDGE_LOCAL &&
	    step->edge->kind != VT_EDGE_FREE)
		words++;
	else if (!c->expression.n && *words == '[' && is_globals(c->o, step->from))
		vt_str_add(&c->expression, "globals()");
	vt_str_add(&c->expression, words);
	vt_str_deinit(&text);
}

/* A part of a module: model.layers[3].weight. */
static void say_part(struct composer *c, const struct step *step)
{
	struct vt_str key = { 0 };

	if (!vt_pyheap_key_text(&c->o->heap, step->from, step->edge, &key))
		vt_str_add(&c->expression, "[?]");
	else if (is_number(vt_str_get(&key)))
		vt_str_addf(&c->expression, "[%s]", vt_str_get(&key));
	else
		say_as_python(c, step, true);
	vt_str_deinit(&key);
}

static bool say(struct composer *c, uint32_t node);

/* The state of an optimizer is kept by parameter: the key's own name says of which. */
static bool say_state(struct composer *c, const struct step *step)
{
	uint64_t key = vt_pyheap_key(&c->o->heap, step->from, step->edge);
	uint32_t node = key ? vt_graph_find(&c->o->graph, key) : VT_GRAPH_NONE;
	struct composer inner = {
		.o = c->o,
		.saved_by = VT_GRAPH_NONE,
		.depth = c->depth + 1,
	};

	if (node == VT_GRAPH_NONE || c->depth + 1 >= MAX_DEPTH ||
	    c->o->reach.data[node].distance == VT_DISTANCE_NONE || !say(&inner, node)) {
		composer_deinit(&inner);
		return false;
	}
	vt_str_addf(&c->expression, "[%s]", vt_str_get(&inner.expression));
	vt_str_clear(&c->module);
	vt_str_add(&c->module, vt_str_get(&inner.module)); /* it is of the parameter's module */
	composer_deinit(&inner);
	return true;
}

static bool is_attributes(enum vt_role role)
{
	return role == VT_ROLE_GLOBALS || role == VT_ROLE_ATTRIBUTES ||
	       role == VT_ROLE_MODULE_ATTRIBUTES || role == VT_ROLE_OPTIMIZER_ATTRIBUTES;
}

static bool is_part(enum vt_role role)
{
	return role == VT_ROLE_MODULES || role == VT_ROLE_PARAMETERS || role == VT_ROLE_BUFFERS;
}

static void say_value(struct composer *c, const struct step *step)
{
	enum vt_role from = (enum vt_role)c->o->graph.nodes.data[step->from].role;
	enum vt_role to = (enum vt_role)c->o->graph.nodes.data[step->to].role;

	if (is_part(to))
		return; /* _parameters and the like: not in a name that the program would write */
	if (is_part(from)) {
		say_part(c, step);
		return;
	}
	if (from == VT_ROLE_STATE && say_state(c, step))
		return;
	say_as_python(c, step, step->edge->kind == VT_EDGE_INLINE || is_attributes(from));
}

/* What was said so far keeps alive what is said from now on. */
static void begin_anew(struct composer *c)
{
	if (!c->expression.n)
		return;

	struct vt_str holder = { 0 };

	vt_str_addf(&holder, ", kept by %s%s%s", vt_str_get(&c->expression), vt_str_get(&c->where),
		    vt_str_get(&c->holder));
	vt_str_clear(&c->expression);
	vt_str_clear(&c->where);
	vt_str_deinit(&c->holder);
	c->holder = holder;
}

static void say_where(struct composer *c, uint32_t frame)
{
	struct vt_pyheap_where where;

	vt_str_clear(&c->where);
	if (!vt_pyheap_where(&c->o->heap, frame, &where))
		return;
	vt_str_addf(&c->where, " in %s (%s", where.function,
		    where.file ? vt_base_name(where.file) : "?");
	if (where.line)
		vt_str_addf(&c->where, ":%d", where.line);
	vt_str_add(&c->where, ")");
}

static void say_local(struct composer *c, const struct step *step)
{
	begin_anew(c);
	if (step->edge->kind == VT_EDGE_LOCAL)
		say_as_python(c, step, true);
	else
		vt_str_add(&c->expression, "a temporary");
	say_where(c, step->from);
}

static void say_free(struct composer *c, const struct step *step)
{
	begin_anew(c);
	say_as_python(c, step, true);
	vt_str_clear(&c->where);
	vt_str_add(&c->where, " of a closure");
}

/* The class of a node of autograd; of one that is written in Python, as Python calls it. */
static const char *saver(const struct composer *c, uint32_t node)
{
	const struct vt_graph_node *n = &c->o->graph.nodes.data[node];
	const struct vt_pyheap_class *cls;
	const char *name;

	if (n->kind != VT_NODE_PYTHON) {
		name = vt_tensors_class(&c->o->tensors, n->addr);
		return name ? name : "a node of autograd";
	}
	cls = vt_owners_class(c->o, node);
	return cls && *cls->name ? cls->name : "a node of autograd";
}

static void say_saved(struct composer *c, const struct step *step)
{
	const struct vt_pyheap_class *cls = vt_owners_class(c->o, step->from);
	struct vt_str expression = { 0 };

	/* No node, and its name is that of the tensor in it. */
	if (cls && cls->is & VT_PYHEAP_IS_SAVED)
		return;

	vt_str_addf(&expression, "saved by %s ← %s", saver(c, step->from),
		    c->expression.n ? vt_str_get(&c->expression) : "something in native code");
	vt_str_deinit(&c->expression);
	c->expression = expression;
}

static void say_class(struct composer *c, const char *before, uint32_t node)
{
	const struct vt_pyheap_class *cls = vt_owners_class(c->o, node);

	vt_str_addf(&c->expression, "%s%s", before, cls && *cls->name ? cls->name : "an object");
}

/* Edges whose words are always the same. NULL: none. */
static const char *const fixed[VT_N_EDGE_KINDS] = {
	[VT_EDGE_KEY] = " (a key)",         [VT_EDGE_ELEMENT] = "{…}",
	[VT_EDGE_GLOBALS] = ".__globals__", [VT_EDGE_SELF] = ".__self__",
	[VT_EDGE_FUNCTION] = ".__func__",   [VT_EDGE_TYPE] = ".__class__",
	[VT_EDGE_BASES] = ".__mro__",       [VT_EDGE_ARGS] = ".args",
	[VT_EDGE_CALLBACK] = " (callback)", [VT_EDGE_BODY] = "→",
	[VT_EDGE_BODY_CHUNK] = "→",         [VT_EDGE_GRAD] = ".grad",
	[VT_EDGE_HOOKS] = ".hooks",         [VT_EDGE_VIEW_BASE] = "._base",
	[VT_EDGE_VARIABLE] = ".variable",   [VT_EDGE_SYS] = "sys",
};

/* A word of an object of C: of CuPy's objects it is known which one. */
static void say_body(struct composer *c, const struct step *step)
{
	const struct vt_pyheap_class *from = vt_owners_class(c->o, step->from),
				     *to = vt_owners_class(c->o, step->to);
	uint16_t is = from && to && from->is & VT_PYHEAP_IS_CUPY ? to->is : 0;
	bool borrowed = from && from->is & VT_PYHEAP_IS_CUPY_BORROWED;

	vt_str_add(&c->expression, borrowed                       ? ".owner" :
				   is & VT_PYHEAP_IS_CUPY_ARRAY   ? ".base" :
				   is & VT_PYHEAP_IS_CUPY_POINTER ? ".data" :
				   is & VT_PYHEAP_IS_CUPY_MEMORY  ? ".mem" :
								    fixed[VT_EDGE_BODY]);
}

static void say_step(struct composer *c, const struct step *step)
{
	switch ((enum vt_edge_kind)step->edge->kind) {
	case VT_EDGE_VALUE:
	case VT_EDGE_INLINE:
		say_value(c, step);
		break;
	case VT_EDGE_ITEM:
	case VT_EDGE_MEMBER:
	case VT_EDGE_DEFAULTS:
	case VT_EDGE_CODE:
	case VT_EDGE_MODULE:
	case VT_EDGE_LAST:
	case VT_EDGE_THREAD_STATE:
	case VT_EDGE_INTERPRETER:
		say_as_python(c, step, true);
		break;
	case VT_EDGE_LOCAL:
	case VT_EDGE_STACK:
	case VT_EDGE_STACK_OLD:
		say_local(c, step);
		break;
	case VT_EDGE_FREE:
		say_free(c, step);
		break;
	case VT_EDGE_BODY:
		say_body(c, step);
		break;
	case VT_EDGE_SAVED:
		say_saved(c, step);
		break;
	case VT_EDGE_UNSEEN:
		say_class(c, "native code's ", step->to);
		break;
	case VT_EDGE_GARBAGE:
		say_class(c, "garbage: ", step->to);
		break;
	default:
		if (fixed[step->edge->kind])
			vt_str_add(&c->expression, fixed[step->edge->kind]);
	}
}

/* Where a name begins: the first thing that the program itself has given a name. */
static void note(struct composer *c, const struct step *step)
{
	if (!c->variable.n && c->expression.n &&
	    (step->edge->kind == VT_EDGE_VALUE || step->edge->kind == VT_EDGE_LOCAL ||
	     step->edge->kind == VT_EDGE_LAST || step->edge->kind == VT_EDGE_GARBAGE ||
	     step->edge->kind == VT_EDGE_UNSEEN))
		vt_str_addf(&c->variable, "%s%s", vt_str_get(&c->expression),
			    vt_str_get(&c->where));
	if (c->o->graph.nodes.data[step->to].role == VT_ROLE_MODULE) {
		vt_str_clear(&c->module);
		vt_str_add(&c->module, vt_str_get(&c->expression));
	}
}

static bool say(struct composer *c, uint32_t node)
{
	struct step path[MAX_PATH];
	size_t n = read_path(c->o, node, path);

	for (size_t i = 0; i < n; i++) {
		if (c->expression.n > MAX_EXPRESSION) {
			vt_str_add(&c->expression, "…");
			break;
		}
		say_step(c, &path[i]);
		note(c, &path[i]);
	}
	return !c->expression.failed && !c->holder.failed;
}

/* torch.Tensor itself, or CuPy's objects, which tell nothing. */
static bool is_plain(const struct vt_pyheap_class *cls)
{
	if (cls->is & VT_PYHEAP_IS_CUPY)
		return !cls->of_python;
	return cls->is & VT_PYHEAP_IS_TENSOR &&
	       (!cls->of_python || (!strcmp(cls->name, "Tensor") && !strcmp(cls->module, "torch")));
}

/* Dicts that are only a part of what holds it: a module's parameters, an object's attributes. */
static bool is_inner(const struct vt_owners *o, uint32_t node, const struct vt_pyheap_class *cls)
{
	return cls->shape == VT_PYHEAP_CELL ||
	       (cls->shape == VT_PYHEAP_DICT && o->graph.nodes.data[node].role);
}

/* The class of what holds it; of a tensor of a class of its own, that class. */
static const char *holder_type(const struct vt_owners *o, uint32_t node)
{
	while (node != VT_GRAPH_NONE && node != o->root) {
		const struct vt_pyheap_class *cls = vt_owners_class(o, node);

		if (cls && !is_plain(cls) && !is_inner(o, node, cls))
			return cls->name;
		if (o->graph.nodes.data[node].kind == VT_NODE_FRAME)
			return "frame";
		if (o->graph.nodes.data[node].kind == VT_NODE_GRAD_FN)
			return "graph";
		node = o->reach.data[node].parent;
	}
	return "";
}

const char *vt_owners_edge_name(struct vt_owners *o, uint32_t from,
				const struct vt_graph_edge *edge, struct vt_arena *arena)
{
	struct composer c = { .o = o, .saved_by = VT_GRAPH_NONE };
	const struct step last = { from, edge->to, edge };
	const char *name = NULL;

	if (say(&c, from)) {
		say_step(&c, &last);
		name = vt_arena_printf(arena, "%s%s%s", vt_str_get(&c.expression),
				       vt_str_get(&c.where), vt_str_get(&c.holder));
	}
	composer_deinit(&c);
	return name;
}

bool vt_owners_name(struct vt_owners *o, uint32_t node, struct vt_arena *arena,
		    struct vt_owner_name *name)
{
	struct composer c = { .o = o, .saved_by = VT_GRAPH_NONE };
	bool ok = say(&c, node);

	if (ok) {
		name->name = vt_arena_printf(arena, "%s%s%s", vt_str_get(&c.expression),
					     vt_str_get(&c.where), vt_str_get(&c.holder));
		name->variable = vt_arena_strdup(arena, vt_str_get(&c.variable));
		name->module = vt_arena_strdup(arena, vt_str_get(&c.module));
		name->type = vt_arena_strdup(arena, holder_type(o, node));
		ok = name->name && name->variable && name->module && name->type;
	}
	composer_deinit(&c);
	return ok;
}
