/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The prefix tree of stacks. Each doing's path through it is found once, however many threads share
 * the doing: a job of a million threads has a few hundred doings. Then the members are added to the
 * ends of their paths, and from there outwards.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/index.h"
#include "base/map.h"
#include "job/internal.h"

#define MAX_WORDS 200       /* bytes of what a thread does */
#define MAX_WAY 256         /* steps; deep recursion says nothing new */
#define MAX_CALLED 3        /* native frames called by the innermost Python frame */
#define MAX_NATIVE 8        /* of a thread without Python */
#define IS_TEXT 0x80000000u /* of a step: the index of a text, not of a frame */
#define N_SECTIONS (2 * VT_N_ROLES)

struct step {
	uint32_t key;   /* equal steps have equal keys */
	uint32_t frame; /* the frame to show */
	const char *does;
};

struct node {
	struct step step;
	bool agree;                 /* all have the same frame, line included */
	uint32_t parent;            /* nodes 0 to N_SECTIONS - 1 are the sections themselves */
	uint32_t first_child, next; /* 0: none, because a section is never a child */
	uint32_t n_children;
	uint32_t only; /* the member, while there is but one: most nodes of a large job have one */
	size_t threads;
	struct vt_job_indices members; /* data is NULL while there is but one */
};

struct build {
	struct vt_job *job;
	VT_VEC(struct node) nodes;
	struct vt_index children; /* nodes by their parent and the key of their step */
	struct vt_map texts;      /* address of an interned text: its number */
	uint32_t *ends;           /* per section and doing: the node, 0 none */
	size_t n_ends;            /* doings */
	struct step way[MAX_WAY];
	size_t n_way;
	bool failed;
};

/* ---- the path of a doing ---- */

static void add_step(struct build *b, struct step step)
{
	if (b->n_way < MAX_WAY)
		b->way[b->n_way++] = step;
}

/* The same frame with fewer of its distinguishing parts. */
static uint32_t reduced(struct build *b, uint32_t index)
{
	struct vt_job_frame frame = b->job->frames.data[index];
	uint32_t key;

	frame.line = 0;
	if (frame.kind == VT_FRAME_NATIVE)
		frame.file = NULL;
	key = vt_job_intern_frame(b->job, &frame);
	b->failed |= key == VT_NO_INDEX;
	return key;
}

static void add_frame(struct build *b, uint32_t index, bool with_line)
{
	add_step(b, (struct step){ .key = with_line ? index : reduced(b, index), .frame = index });
}

static void add_text(struct build *b, const char *text)
{
	const uint64_t *found = vt_map_get(&b->texts, (uintptr_t)text);
	uint32_t number = found ? (uint32_t)*found : (uint32_t)b->texts.n;

	if (!text || (!found && !vt_map_put(&b->texts, (uintptr_t)text, number))) {
		b->failed = true;
		return;
	}
	add_step(b, (struct step){ .key = IS_TEXT | number, .does = text });
}

static bool is_python(const struct build *b, uint32_t frame)
{
	return b->job->frames.data[frame].kind == VT_FRAME_PYTHON;
}

static bool is_start(const char *function)
{
	static const char *const starts[] = { "start_thread",
					      "clone",
					      "__clone",
					      "clone3",
					      "__clone3",
					      "execute_native_thread_routine",
					      "_start",
					      "__libc_start_main",
					      "__libc_start_call_main",
					      "main" };

	for (size_t i = 0; i < sizeof(starts) / sizeof(starts[0]); i++)
		if (!strcmp(function, starts[i]))
			return true;
	return false;
}

/* Up to max native frames with names, from frames[end - 1] inwards. */
static void add_native(struct build *b, const struct vt_job_stack *stack, size_t end, size_t max)
{
	while (end-- > 0 && max) {
		const char *function = b->job->frames.data[stack->frames[end]].function;

		if (!function || is_start(function))
			continue;
		add_frame(b, stack->frames[end], false);
		max--;
	}
}

/* The last step of a doing's path; interned. */
static const char *end_of(struct build *b, const struct vt_job_doing *doing)
{
	const char *operation = vt_job_operation_of(b->job, doing), *interned;
	bool collective = operation && vt_job_state_of(b->job, doing) == VT_STATE_COLLECTIVE;
	bool known = doing->verdict.code || doing->waits.code;
	struct vt_str text = { 0 };

	/* Ranks in one collective alternate between polling, yielding and sleeping. */
	if (collective)
		vt_str_addf(&text, "waits in %.120s", operation);
	else /* without what it waits on: that differs in each process, even if they do the same */
		vt_job_add_does(doing, VT_FORM_ALONE, VT_DETAIL_NONE, &text);
	vt_str_cut(&text, MAX_WORDS);
	if (known && doing->state == 'T')
		vt_str_add(&text, ", stopped by a signal");
	else if (known && doing->state == 't')
		vt_str_add(&text, ", stopped by a debugger");
	else if (known && doing->state == 'D')
		vt_str_add(&text, ", in uninterruptible sleep");
	if (doing->kernel && !collective)
		vt_str_addf(&text, ": %.100s", doing->kernel);
	interned = text.failed ? NULL : vt_job_text(b->job, vt_str_get(&text), text.n);
	vt_str_deinit(&text);
	return interned;
}

static void find_way(struct build *b, const struct vt_job_doing *doing)
{
	const struct vt_job_stack stack = b->job->stacks.data[doing->stack];
	size_t innermost = 0;

	b->n_way = 0;
	while (innermost < stack.n && !is_python(b, stack.frames[innermost]))
		innermost++;
	for (size_t i = stack.n; i-- > innermost && b->n_way < MAX_WAY / 2;)
		if (is_python(b, stack.frames[i]))
			add_frame(b, stack.frames[i], i > innermost);
	if (innermost == stack.n)
		add_native(b, &stack, stack.n, MAX_NATIVE);
	else if (!doing->verdict.code)
		add_native(b, &stack, innermost, MAX_CALLED);
	add_text(b, end_of(b, doing));
}

/* ---- the members of a node ---- */

static const uint32_t *members_of(const struct node *node)
{
	return node->members.data ? node->members.data : &node->only;
}

static bool has_last(const struct node *node, uint32_t member)
{
	return node->members.n && members_of(node)[node->members.n - 1] == member;
}

static bool put_member(struct node *node, uint32_t member)
{
	struct vt_job_indices *members = &node->members;

	if (members->n == 1 && !members->data) {
		members->n = 0;
		if (!vt_job_indices_add(members, node->only))
			return false;
	}
	if (members->n)
		return vt_job_indices_add(members, member);
	node->only = member;
	members->n = 1;
	return true;
}

static struct vt_member_set set_of(struct vt_job *job, const struct node *node)
{
	const struct vt_job_indices one = { .data = (uint32_t *)members_of(node),
					    .n = node->members.n };

	return vt_job_set(job, &one);
}

/* ---- the tree ---- */

static uint32_t new_node(struct build *b, uint32_t parent, const struct step *step)
{
	struct node *node = b->nodes.n < VT_NO_INDEX ? vt_vec_append(&b->nodes) : NULL;
	uint32_t index = (uint32_t)(b->nodes.n - 1);

	if (!node) {
		b->failed = true;
		return 0;
	}
	*node = (struct node){ .step = *step,
			       .agree = true,
			       .parent = parent,
			       .next = b->nodes.data[parent].first_child };
	b->nodes.data[parent].first_child = index;
	b->nodes.data[parent].n_children++;
	return index;
}

static uint32_t child_of(struct build *b, uint32_t parent, const struct step *step)
{
	uint64_t hash = vt_hash_mix(b->job->seed, (uint64_t)parent << 32 | step->key);
	uint32_t index;

	for (size_t at = vt_index_first(&b->children, hash);
	     vt_index_next(&b->children, hash, &at, &index);) {
		struct node *node = &b->nodes.data[index];

		if (node->parent != parent || node->step.key != step->key)
			continue;
		node->agree &= node->step.frame == step->frame;
		return index;
	}
	index = new_node(b, parent, step);
	b->failed |= !index || !vt_index_put(&b->children, hash, index);
	return index;
}

static uint32_t end_in(struct build *b, uint32_t section, uint32_t doing)
{
	uint32_t *end = &b->ends[section * b->n_ends + doing], at = section;

	if (*end)
		return *end;
	find_way(b, &b->job->doings.data[doing]);
	for (size_t i = 0; i < b->n_way && !b->failed; i++)
		at = child_of(b, at, &b->way[i]);
	*end = at;
	return at;
}

static bool tells(const struct vt_job_doing *doing)
{
	return doing->is_main ||
	       (!doing->idle && (doing->verdict.code || doing->has_python || doing->deadlock ||
				 doing->gil == 1 || doing->state == 'D'));
}

static void add_member(struct build *b, uint32_t index)
{
	const struct vt_member *member = &b->job->members.data[index];

	for (size_t i = 0; i < member->threads.n && !b->failed; i++) {
		uint32_t doing = member->threads.data[i].doing;
		const struct vt_job_doing *d = &b->job->doings.data[doing];
		uint32_t at;

		if (!tells(d))
			continue;
		at = end_in(b, 2 * (uint32_t)member->label.role + d->is_main, doing);
		if (b->failed)
			return;
		b->nodes.data[at].threads++;
		/* If a node has the member, all nodes further out have it, too. */
		for (;; at = b->nodes.data[at].parent) {
			struct node *node = &b->nodes.data[at];

			if (has_last(node, index))
				break;
			b->failed |= !put_member(node, index);
			if (at < N_SECTIONS)
				break;
		}
	}
}

/* ---- the tree as it is shown ---- */

/* Few members, while more than half took one other path. */
static bool is_few(const struct node *node, const struct node *parent, size_t most)
{
	return node->members.n * 3 <= parent->members.n && most * 2 > parent->members.n;
}

static size_t most_of_a_child(const struct build *b, const struct node *parent)
{
	size_t most = 0;

	for (uint32_t i = parent->first_child; i; i = b->nodes.data[i].next)
		if (b->nodes.data[i].members.n > most)
			most = b->nodes.data[i].members.n;
	return most;
}

struct child {
	uint32_t node;
	size_t n;
	uint32_t first; /* member */
	bool few;
};

static int compare_children(const void *pa, const void *pb)
{
	const struct child *a = pa, *b = pb;

	if (a->few != b->few)
		return a->few ? -1 : 1;
	if (a->n != b->n)
		return a->n > b->n ? -1 : 1;
	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return a->node < b->node ? -1 : a->node > b->node;
}

struct pending {
	uint32_t node;
	size_t parent, depth; /* in job.tree */
	bool few;
};

struct output {
	struct build *build;
	VT_VEC(struct pending) pending; /* the next one last */
	VT_VEC(struct child) children;
	VT_VEC(uint32_t) frames;
	uint32_t section;
};

static bool push_children(struct output *o, uint32_t of, size_t parent, size_t depth)
{
	const struct build *b = o->build;
	const struct node *from = &b->nodes.data[of];
	size_t most = most_of_a_child(b, from);

	o->children.n = 0;
	for (uint32_t i = from->first_child; i; i = b->nodes.data[i].next) {
		const struct node *node = &b->nodes.data[i];
		struct child *child = vt_vec_append(&o->children);

		if (!child)
			return false;
		*child = (struct child){ .node = i,
					 .n = node->members.n,
					 .first = members_of(node)[0],
					 .few = is_few(node, from, most) };
	}
	if (o->children.n)
		qsort(o->children.data, o->children.n, sizeof(*o->children.data), compare_children);
	for (size_t i = o->children.n; i-- > 0;) {
		struct pending *p = vt_vec_append(&o->pending);

		if (!p)
			return false;
		*p = (struct pending){ .node = o->children.data[i].node,
				       .parent = parent,
				       .depth = depth,
				       .few = o->children.data[i].few };
	}
	return true;
}

/* The frames of a node and of its chain of only children; at becomes the last of these. */
static bool gather_chain(struct output *o, uint32_t *at, const char **does)
{
	const struct build *b = o->build;

	o->frames.n = 0;
	*does = NULL;
	for (;; *at = b->nodes.data[*at].first_child) {
		const struct node *node = &b->nodes.data[*at];
		uint32_t *frame = node->step.does ? NULL : vt_vec_append(&o->frames);

		if (node->step.does)
			*does = node->step.does;
		else if (frame)
			*frame = node->agree ? node->step.frame : node->step.key;
		else
			return false;
		if (node->n_children != 1 ||
		    b->nodes.data[node->first_child].members.n != node->members.n)
			return true;
	}
}

static bool put_node(struct output *o, const struct pending *p)
{
	struct vt_job *job = o->build->job;
	struct vt_job_node *node = vt_vec_append(&job->tree);
	uint32_t at = p->node, *frames;
	const char *does;

	if (!node)
		return false;
	job->tree.n--; /* until it is complete */
	if (!gather_chain(o, &at, &does))
		return false;
	frames = vt_arena_alloc(&job->arena, (o->frames.n + 1) * sizeof(*frames));
	if (!frames)
		return false;
	if (o->frames.n)
		memcpy(frames, o->frames.data, o->frames.n * sizeof(*frames));
	*node = (struct vt_job_node){
		.frames = frames,
		.n_frames = o->frames.n,
		.members = set_of(job, &o->build->nodes.data[at]),
		.threads = o->build->nodes.data[at].threads,
		.role = (enum vt_role)(o->section / 2),
		.of_main = o->section % 2,
		.parent = p->parent,
		.depth = p->depth,
		.does = does,
		.outlier = p->few,
	};
	job->tree.n++;
	return !job->failed && push_children(o, at, job->tree.n - 1, p->depth + 1);
}

static bool put_section(struct output *o)
{
	if (!push_children(o, o->section, VT_NO_NODE, 0))
		return false;
	while (o->pending.n) {
		struct pending next = o->pending.data[--o->pending.n];

		if (!put_node(o, &next))
			return false;
	}
	return true;
}

/* Main threads before others, ranks before all. */
static bool put_all(struct build *b)
{
	struct output o = { .build = b };
	bool ok = true;

	for (uint32_t i = 0; i < N_SECTIONS && ok; i++) {
		o.section = i ^ 1;
		ok = put_section(&o);
	}
	vt_vec_deinit(&o.pending);
	vt_vec_deinit(&o.children);
	vt_vec_deinit(&o.frames);
	return ok;
}

static void sum_threads(struct build *b)
{
	for (size_t i = b->nodes.n; i-- > N_SECTIONS;)
		b->nodes.data[b->nodes.data[i].parent].threads += b->nodes.data[i].threads;
}

static bool add_all(struct build *b)
{
	for (size_t i = 0; i < N_SECTIONS; i++) {
		struct node *node = vt_vec_append(&b->nodes);

		if (!node)
			return false;
		*node = (struct node){ .parent = VT_NO_INDEX };
	}
	for (size_t i = 0; i < b->job->members.n && !b->failed; i++)
		add_member(b, (uint32_t)i);
	return !b->failed;
}

bool vt_job_build_tree(struct vt_job *job)
{
	struct build b = { .job = job, .n_ends = job->doings.n };
	bool ok;

	b.ends = calloc(N_SECTIONS * job->doings.n + 1, sizeof(*b.ends));
	ok = b.ends && add_all(&b);
	if (ok) {
		sum_threads(&b);
		ok = put_all(&b);
	}
	for (size_t i = 0; i < b.nodes.n; i++)
		free(b.nodes.data[i].members.data);
	vt_vec_deinit(&b.nodes);
	vt_index_deinit(&b.children);
	vt_map_deinit(&b.texts);
	free(b.ends);
	return ok;
}
