/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who keeps the blocks in use alive, into the model (owners/ finds it out). The graph of the
 * process's objects is made once while it runs; the pages that this took are copied again when it
 * stands still; if anything in them has changed, the graph is made again from the copy. A process
 * that is stuck, which is when one asks, has not changed.
 *
 * With others of a job (a triage) all of that comes when the process runs again. Its allocators'
 * counters tell whether blocks came or went since they were listed.
 */
#include "owners/owners.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/progress.h"
#include "base/room.h"
#include "collect/outside.h"
#include "collect/owners.h"
#include "inject/inject.h"
#include "target/readers.h"

enum {
	/* Bytes of our memory, with all that is made of them: roughly, and rather too many. */
	BYTES_A_NODE = 128,
	BYTES_AN_EDGE = 16,
	/* We take one of so many parts of the room for each of pages, nodes, edges. */
	PARTS = 8,
	FIRST_PAGES = 512,
	MANY_PAGES = 2048, /* 8 MiB: about a millisecond for one thread */
	REHEARSALS = 4,
	LOOKS = 4,
};

#define LEAST_ROOM (UINT64_C(64) << 20) /* with less nothing is begun */
#define MOST_ROOM (UINT64_C(64) << 30)
#define MOST_NOW (UINT64_C(1) << 30) /* of pages with arrays' objects */
#define EXPLORE_NS (10 * VT_NS_PER_S)
/* While the process stands still: what the copy leaves of the first, but at least the second. */
#define STOP_NS (20 * VT_NS_PER_MS)
#define TOUCH_NS (6 * VT_NS_PER_MS)
#define REHEARSE_NS (8 * VT_NS_PER_MS)     /* each */
#define TOUCH_STACKS_NS (2 * VT_NS_PER_MS) /* of these */

struct vt_collect_owners {
	struct vt_pages pages, now; /* now: read when the process runs again */
	struct vt_owners owners;
	struct vt_owners_input input;
	struct vt_owners_blocks blocks;
	bool running;         /* at the begin */
	unsigned int threads; /* besides ours that may compare with us while it stands still */
	bool explored;        /* owners has a graph */
	bool touched;         /* the graph was made of a part only */
	bool copied;          /* the pages were copied while the process stood still */
	bool stood;           /* it did, with all of its threads */
	bool blocks_moved;    /* since they were listed inside */
	bool now_there;       /* now has been initialised */
	struct vt_error *err; /* why there is no graph */
	uint64_t ns;
};

/* The helper waits meanwhile, and would leave when we seem to be gone. */
static void tell_alive(void *arg)
{
	struct vt_collect *c = arg;

	if (c->helper)
		(void)vt_helper_shared(c->helper); /* which says that we are there */
}

static void explore(struct vt_collect *c)
{
	struct vt_collect_owners *own = c->owners;
	const struct vt_collect_together *together = c->options->together;
	uint64_t start = vt_now_ns();

	own->input.deadline_ns = start + EXPLORE_NS;
	if (together && together->owners_until_ns < own->input.deadline_ns)
		own->input.deadline_ns = together->owners_until_ns;
	if (own->explored) {
		vt_owners_explore_again(&own->owners, &own->input);
	} else {
		struct vt_error *err = vt_owners_explore(&own->owners, &own->input);

		own->explored = !err;
		vt_error_destroy(own->err);
		own->err = err;
	}
	own->ns += vt_now_ns() - start;
}

static void explore_live(struct vt_collect *c)
{
	vt_progress("following references");
	if (c->options->touch != VT_TOUCH_NOTHING && !c->target.origin->stands_still)
		explore(c);
}

/* Whether a thread of it has a processor, or wants one. */
static bool is_running(struct vt_collect *c)
{
	struct vt_thread_list list = { 0 };
	bool running = false;

	VT_ERROR struct vt_error *err =
		c->target.live ? vt_thread_list_init(&list, c->target.proc.pid) : NULL;

	for (size_t i = 0; !err && i < list.threads.n && !running; i++) {
		struct vt_thread_info info = { 0 };
		VT_ERROR struct vt_error *gone =
			vt_thread_info_read(&info, c->target.proc.pid, list.threads.data[i].tid);

		running = !gone && info.state == 'R';
	}
	vt_thread_list_deinit(&list);
	return running;
}

/*
 * The job's container may be ours, too: what we take must not bring it near its limit. A graph that
 * does not fit is incomplete, which the report says.
 */
static uint64_t room(const struct vt_collect *c)
{
	const struct vt_collect_together *together = c->options->together;
	uint64_t bytes = vt_memory_room();

	if (together) {
		bytes /= together->at_once;
		bytes = bytes < together->owners_most ? bytes : together->owners_most;
	}
	return bytes < LEAST_ROOM ? 0 : bytes > MOST_ROOM ? MOST_ROOM : bytes;
}

static bool has_tensors(const struct vt_collect *c)
{
	/* Where the layout is unknown, PyTorch may list its blocks itself. */
	bool may_be_told = c->torch.backend == VT_TORCH_UNKNOWN && c->target.live &&
			   c->options->touch == VT_TOUCH_INSIDE;

	return !c->torch_inherited && (c->torch.backend == VT_TORCH_NATIVE || may_be_told);
}

bool vt_collect_wants_owners(struct vt_collect *c)
{
	return c->options->owners &&
	       (has_tensors(c) || vt_collect_has_arrays(c) || c->options->ask_jax);
}

static void fail(struct vt_collect *c, const char *code, const char *why)
{
	c->model->owners.state = VT_OWNERS_FAILED;
	vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_OWNERS, code,
		      "the owners of blocks are not known: %s", why);
}

static void begin(struct vt_collect *c)
{
	uint64_t part = room(c) / PARTS;
	struct vt_python *python;
	struct vt_error *err;

	if (!part) {
		fail(c, "no-memory", "too little memory is left here");
		return;
	}
	python = vt_collect_python(c);
	if (!python) {
		c->model->owners.state = VT_OWNERS_NO_PYTHON;
		return;
	}
	c->owners = calloc(1, sizeof(*c->owners));
	if (!c->owners)
		return;
	err = vt_pages_init(&c->owners->pages, c->target.mem, part);
	if (err) {
		vt_error_destroy(err);
		free(c->owners);
		c->owners = NULL;
		return;
	}
	c->owners->input = (struct vt_owners_input){
		.python = python,
		.pages = &c->owners->pages,
		.maps = &c->target.maps,
		.arrays = vt_collect_has_arrays(c),
		.holders = c->options->holders,
		.max_nodes = (size_t)(part / BYTES_A_NODE),
		.max_edges = (size_t)(part / BYTES_AN_EDGE),
		.alive = tell_alive,
		.alive_arg = c,
	};
}

void vt_collect_owners_begin(struct vt_collect *c)
{
	if (!vt_collect_wants_owners(c) || c->options->together)
		return;
	begin(c);
	if (!c->owners)
		return;
	c->owners->running = is_running(c);
	/* Whether the process has to be asked must be known before that. */
	if (!c->owners->running && c->options->ask_pytorch)
		explore_live(c);
}

/*
 * In a process that runs, before the blocks are listed inside it, so that little time is between
 * the list and the stop: what is allocated or freed in between cannot be matched. But the helper is
 * in, for its thread is in the C library's list of threads: that would be a change.
 */
void vt_collect_owners_explore(struct vt_collect *c)
{
	if (c->owners && c->owners->running)
		explore_live(c);
}

bool vt_collect_owners_compare(const struct vt_collect *c)
{
	return c->owners && c->owners->running && c->owners->explored;
}

bool vt_collect_owners_move(const struct vt_collect *c)
{
	return c->owners && !c->asked_owners.told;
}

const char *vt_collect_why_no_owners(const struct vt_collect *c)
{
	const struct vt_collect_owners *own = c->owners;

	if (!own || !own->explored)
		return own && own->err ? own->err->message : "its heap could not be read";
	if (c->options->hide_tensors)
		return "the layout of tensors was hidden";
	if (!own->owners.tensors.layout.known)
		return own->owners.tensors.why ? own->owners.tensors.why : "no tensor was found";
	return NULL;
}

/* Nothing more is read where the interpreter has told it. */
static bool prepare(struct vt_collect *c)
{
	return c->owners && !c->asked_owners.told;
}

/*
 * What C++ holds is on stacks. They are read even where nothing of Python has changed: a thread of
 * TorchScript makes and frees tensors that no object leads to.
 */
static void touch_stacks(struct vt_collect *c, uint64_t deadline_ns)
{
	struct vt_owners *owners = &c->owners->owners;
	VT_FREE struct vt_owners_stack *stacks =
		calloc(c->stop.session.threads.n + 1, sizeof(*stacks));

	if (stacks && owners->tensors.layout.known)
		vt_owners_touch_stacks(owners, stacks, vt_collect_owners_stacks(c, stacks),
				       deadline_ns);
}

/* Threads that ran have changed their states and stacks: what is new is reached from there. */
static void touch(struct vt_collect *c, uint64_t deadline_ns)
{
	vt_owners_touch_frames(&c->owners->owners, deadline_ns - TOUCH_STACKS_NS);
	touch_stacks(c, deadline_ns);
	c->owners->touched = true;
}

/* Whether anything has changed where the walk began, at the states of threads. */
static bool has_begun_anew(const struct vt_collect *c)
{
	return vt_pages_first_changed(&c->owners->pages, FIRST_PAGES, 0, UINT64_MAX);
}

/*
 * Of a process that runs the beginning is not enough: a thread may make tensors in C++ while no
 * frame of Python changes. But what the walk reads decides what it finds: where all of that is the
 * same, so is the graph, whatever runs beside it. That is a thread that spins in a synchronize().
 * When the time is over nothing is known, and vt_pages_have_changed() decides afterwards.
 */
static bool has_moved(const struct vt_collect *c, uint64_t deadline_ns)
{
	return has_begun_anew(c) ||
	       (c->owners->running && vt_pages_first_changed(&c->owners->pages, SIZE_MAX,
							     c->owners->threads, deadline_ns));
}

/* Reads again where the walk began. False: it has not moved, or cannot be read. */
static bool look(struct vt_collect *c)
{
	struct vt_error *err = vt_pages_look(&c->owners->pages, FIRST_PAGES);
	bool ok = !err;

	vt_error_destroy(err);
	return ok && has_begun_anew(c);
}

/* The same, of all pages. False: they cannot be read. */
static bool copy_again(struct vt_collect *c)
{
	struct vt_error *err = vt_pages_copy_again(&c->owners->pages);
	bool ok = !err;

	vt_error_destroy(err);
	return ok;
}

/*
 * A program does the same again and again, and so do the allocators of its memory: what is new lies
 * mostly where something new has been before. After some looks at different moments, the copy has
 * most of the pages that the stop needs. They read a tenth of them again, so all are copied only
 * at the stop. None of that is for one that only spins.
 */
static void rehearse_touching(struct vt_collect *c)
{
	bool moves = look(c);
	bool elsewhere = !moves && copy_again(c) && has_moved(c, UINT64_MAX);

	for (int i = 1; moves || elsewhere; i++) {
		vt_owners_touch_frames(&c->owners->owners, vt_now_ns() + REHEARSE_NS);
		c->owners->touched = true;
		if (i == REHEARSALS)
			break;
		moves = look(c);
	}
}

/*
 * In a process that is stuck it comes after the listing: that changes some pages, as a thread is
 * borrowed for it.
 */
static void rehearse(struct vt_collect *c)
{
	if (!prepare(c))
		return;
	if (!c->owners->explored)
		explore_live(c);
	if (!c->target.live || c->options->touch == VT_TOUCH_NOTHING || !c->owners->explored)
		return;
	c->owners->threads = vt_readers_useful();
	if (c->owners->pages.n_pages >= MANY_PAGES) {
		vt_pages_remember(&c->owners->pages, c->owners->threads);
		/* Threads that copy with us while it stands still. */
		vt_live_read_together(c->target.live, c->owners->threads);
	}
	if (c->owners->running)
		rehearse_touching(c);
	vt_pages_remember(&c->owners->pages, 0); /* what is left, rather than at the stop */
}

static void copy(struct vt_collect *c)
{
	uint64_t start = vt_now_ns();

	if (!prepare(c))
		return;
	if (!c->owners->explored)
		explore(c); /* a core, or a process that may not be stopped */
	if (!c->owners->explored || c->target.origin->stands_still)
		return;
	c->owners->stood = c->stop.stands && !c->stop.n_escaped;
	c->owners->blocks_moved = c->model->allocators.n && vt_outside_has_changed(c);
	c->owners->copied = copy_again(c);
	if (!c->owners->copied || !c->stop.stands)
		return;

	uint64_t end = start + STOP_NS, least = vt_now_ns() + TOUCH_NS;

	end = end > least ? end : least;
	if (has_moved(c, end) || (c->owners->running && c->owners->blocks_moved)) {
		touch(c, end);
	} else if (c->owners->running) {
		vt_pages_beside(&c->owners->pages, true);
		touch_stacks(c, vt_now_ns() + TOUCH_STACKS_NS);
		vt_pages_beside(&c->owners->pages, false);
	}
}

/* The blocks are not in the model yet: the rest is done when they are. */
const struct vt_participant vt_stop_owners = {
	.want = VT_WANT_MEMORY,
	.prepare = prepare,
	.rehearse = rehearse,
	.copy = copy,
};

static int by_block(const void *a, const void *b)
{
	const struct vt_model_owner *x = a, *y = b;

	return (x->block > y->block) - (x->block < y->block);
}

/* What no tensor holds: memory that a CUDA graph was captured with has a pool of its own. */
static enum vt_category without_tensor(const struct vt_block_rec *block)
{
	return block->flags & VT_BLOCK_PRIVATE_POOL ? VT_CATEGORY_GRAPH_POOL : VT_CATEGORY_UNKNOWN;
}

/* Blocks that no storage was found for have a line, too: every byte has a category. */
static bool add_missing(struct vt_collect *c)
{
	struct vt_model_owners *owners = &c->model->owners;
	size_t n = owners->items.n, known = 0;

	if (n)
		qsort(owners->items.data, n, sizeof(*owners->items.data), by_block);
	for (size_t i = 0; i < c->model->n_blocks; i++) {
		struct vt_model_owner *owner;

		if (c->model->blocks[i].state != VT_BLOCK_ALLOCATED)
			continue;
		if (known < n && owners->items.data[known].block == i) {
			known++;
			continue;
		}
		owner = vt_vec_append(&owners->items);
		if (!owner)
			return false;
		vt_collect_no_owner(owner, (uint32_t)i, without_tensor(&c->model->blocks[i]));
	}
	if (owners->items.n)
		qsort(owners->items.data, owners->items.n, sizeof(*owners->items.data), by_block);
	return true;
}

/* Of a block without a storage. It may be newer than what was read of a process that ran. */
static enum vt_unowned why_no_tensor(const struct vt_model_owners *owners,
				     const struct vt_model_owner *owner)
{
	if (owner->category == VT_CATEGORY_GRAPH_POOL)
		return VT_UNOWNED_GRAPH_POOL;
	if (owner->category != VT_CATEGORY_UNKNOWN)
		return VT_UNOWNED_LIBRARY;
	if (!owners->whole)
		return VT_UNOWNED_NOT_WHOLE;
	return owners->ran ? VT_UNOWNED_RAN : VT_UNOWNED_NO_TENSOR;
}

static void say_why(struct vt_model_owners *owners)
{
	for (size_t i = 0; i < owners->items.n; i++) {
		struct vt_model_owner *owner = &owners->items.data[i];

		if (!owner->n_storages)
			owner->unowned = (uint8_t)why_no_tensor(owners, owner);
	}
	for (size_t i = 0; i < owners->arrays.n; i++) {
		struct vt_model_owner *owner = &owners->arrays.data[i].owner;

		if (!owner->n_storages)
			owner->unowned = (uint8_t)why_no_tensor(owners, owner);
	}
}

/* Whether the copy differs from what the graph was made of. */
static void explore_if_changed(struct vt_collect *c)
{
	bool changed = c->owners->copied &&
		       vt_pages_have_changed(&c->owners->pages, vt_readers_useful());

	/* One that ran goes on. */
	if (c->owners->copied &&
	    (c->owners->pages.moved || c->owners->touched || c->owners->running))
		vt_pages_moment_is_over(&c->owners->pages);
	if (changed || c->owners->touched)
		explore(c);
}

/* Pools are read when the process runs again: what has changed since the stop is left out. */
static struct vt_error *look_now(struct vt_collect *c)
{
	struct vt_collect_owners *own = c->owners;

	if (!c->target.live || c->target.origin->stands_still)
		return NULL;
	vt_live_drop_cache(c->target.live);
	VT_TRY(vt_pages_init(&own->now, c->target.mem, MOST_NOW));
	own->now_there = true;
	own->input.now = &own->now;
	return NULL;
}

static struct vt_error *add_arrays(struct vt_collect *c)
{
	struct vt_collect_owners *own = c->owners;

	if (!own->input.arrays)
		return NULL;
	VT_TRY(look_now(c));
	if (!vt_collect_owners_arrays(c, &own->blocks, &own->owners, &own->input))
		return &vt_enomem;
	c->model->owners.arrays_read = true;
	return NULL;
}

static struct vt_error *think(struct vt_collect *c)
{
	struct vt_collect_owners *own = c->owners;

	if (!vt_owners_blocks_list(&own->blocks, c->model))
		return &vt_enomem;
	VT_TRY(add_arrays(c));
	own->input.blocks = own->blocks.list.data;
	own->input.n_blocks = own->blocks.list.n;
	VT_TRY(vt_owners_think(&own->owners, &own->input));
	if (!vt_owners_tell(&own->owners, &own->input, &c->model->arena, &c->model->owners))
		return &vt_enomem;
	if (!vt_collect_why_no_owners(c) && !add_missing(c))
		return &vt_enomem;
	return vt_collect_owners_jax(c, &own->owners, &own->input);
}

static void forget(struct vt_model_owners *owners)
{
	vt_vec_deinit(&owners->items);
	vt_vec_deinit(&owners->arrays);
	owners->arrays_read = false;
	vt_vec_deinit(&owners->jax);
	vt_vec_deinit(&owners->freed);
	vt_vec_deinit(&owners->notices);
}

/*
 * A core, a process that stood still, or one in which nothing at all has changed in between: what
 * is still to be read for a proof was not read by the walk.
 */
static bool is_one_moment(const struct vt_collect *c)
{
	return !c->target.live || c->target.origin->stands_still ||
	       (c->owners->copied && (c->owners->stood || !c->owners->pages.moved));
}

/* What the interpreter told. */
static void finish_asked(struct vt_collect *c)
{
	struct vt_model_owners *owners = &c->model->owners;

	/* Between the list of blocks and the question. */
	owners->ran = !c->owners || c->owners->running;
	if (vt_collect_owners_from_asked(c) && add_missing(c)) {
		owners->state = VT_OWNERS_READ;
		say_why(owners);
		return;
	}
	forget(owners);
	owners->state = VT_OWNERS_FAILED;
	vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_OWNERS,
			      "the owners of blocks are not known", &vt_enomem);
}

static void say_no_graph(struct vt_collect *c)
{
	struct vt_error *err = c->owners->err;

	c->owners->err = NULL;
	if (err)
		vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_OWNERS,
				      "the owners of blocks are not known", err);
}

/* Without a stop, after that of all processes of the job. */
static void explore_afterwards(struct vt_collect *c)
{
	struct vt_collect_owners *own;

	if (vt_deadline_passed(c->options->together->owners_until_ns)) {
		fail(c, "no-time", "the time for them was over");
		return;
	}
	begin(c);
	own = c->owners;
	if (!own)
		return;
	explore(c);
	if (!own->explored || c->target.origin->stands_still)
		return;
	own->copied = copy_again(c);
	/* It runs: the tensors that show how they are laid out may have been about to go. */
	for (int i = 1; i < LOOKS && c->model->n_blocks && !own->owners.tensors.layout.known &&
			!vt_deadline_passed(c->options->together->owners_until_ns);
	     i++) {
		explore(c);
		own->copied = copy_again(c);
	}
}

/* Of PyTorch's blocks; where there is no PyTorch, of all that there is. */
static enum vt_owners_state state_of(const struct vt_collect *c)
{
	if (!c->model->n_blocks)
		return has_tensors(c) ? VT_OWNERS_NO_BLOCKS : VT_OWNERS_READ;
	return vt_collect_why_no_owners(c) ? VT_OWNERS_NO_LAYOUT : VT_OWNERS_READ;
}

/* Who in C++ holds what is left of PyTorch's blocks. */
static void find_others(struct vt_collect *c)
{
	if (c->model->owners.state != VT_OWNERS_READ || !c->model->n_blocks)
		return;
	vt_collect_owners_native(c, &c->owners->owners);
	if (c->options->all_owners)
		vt_collect_owners_unseen(c);
}

void vt_collect_owners_finish(struct vt_collect *c)
{
	struct vt_model_owners *owners = &c->model->owners;
	struct vt_error *err;
	bool after = c->options->together && vt_collect_wants_owners(c), moved;
	bool arrays = vt_collect_has_arrays(c) || c->jax_objects.n;
	uint64_t start;

	if (after && (c->model->n_blocks || arrays))
		explore_afterwards(c);
	else if (after)
		owners->state = VT_OWNERS_NO_BLOCKS;
	if (c->asked_owners.told && c->model->n_blocks) {
		finish_asked(c);
		if (arrays)
			vt_model_diag(
				c->model, VT_DIAG_NOTE, VT_STAGE_OWNERS, "no-array-owners",
				"who holds the arrays of CuPy and JAX is not known: the objects "
				"were not read from outside");
		return;
	}
	if (!c->owners)
		return;
	if (!c->owners->explored) {
		say_no_graph(c);
		return;
	}
	if (!c->model->n_blocks && !arrays) {
		owners->state = VT_OWNERS_NO_BLOCKS;
		return;
	}
	vt_progress("naming the owners");
	explore_if_changed(c);
	owners->ran = after ? !c->target.origin->stands_still && vt_outside_has_changed(c) :
		      c->owners->copied ? c->owners->pages.changed :
					  c->owners->touched; /* it ended before the stop */
	/* A list that was made again at the stop is of that moment. */
	moved = c->owners->blocks_moved && c->model->torch_method != VT_METHOD_OUTSIDE;
	owners->ran |= moved || (c->owners->running && c->owners->blocks_moved);
	c->owners->input.one_moment = is_one_moment(c) && !moved;
	start = vt_now_ns();
	if (c->model->n_blocks && vt_collect_why_no_owners(c)) {
		vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_OWNERS, "no-layout",
			      "the owners of blocks are not known: %s",
			      vt_collect_why_no_owners(c));
		if (!arrays) {
			owners->state = VT_OWNERS_NO_LAYOUT;
			return;
		}
	}
	err = think(c);
	owners->state = err ? VT_OWNERS_FAILED : state_of(c);
	if (!err) {
		find_others(c);
		say_why(owners);
	} else {
		forget(owners);
		vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_OWNERS,
				      "the owners of blocks are not known", err);
	}
	c->model->timing.owners_ms = (double)(c->owners->ns + vt_now_ns() - start) / VT_NS_PER_MS;
}

void vt_collect_owners_deinit(struct vt_collect *c)
{
	vt_vec_deinit(&c->jax_objects);
	free(c->asked_owners.recs);
	c->asked_owners = (struct vt_asked_owners){ 0 };
	if (!c->owners)
		return;
	vt_error_destroy(c->owners->err);
	if (c->owners->explored)
		vt_owners_deinit(&c->owners->owners);
	vt_pages_deinit(&c->owners->pages);
	if (c->owners->now_there)
		vt_pages_deinit(&c->owners->now);
	vt_vec_deinit(&c->owners->blocks.list);
	free(c->owners);
	c->owners = NULL;
}
