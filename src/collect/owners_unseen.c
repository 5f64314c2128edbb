/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Blocks that no tensor of Python or autograd is in, and that nothing known holds: all memory of
 * the process is searched for their addresses, backwards from holder to holder. That reads some
 * gigabytes, which takes seconds, so it is done only when all owners are asked for. It stops
 * nothing.
 */
#include "collect/owners.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "base/progress.h"
#include "owners/holders.h"
#include "target/resident.h"
#include "walk/heap/chunks.h"
#include "walk/heap/seek.h"
#include "walk/native/rtti.h"
#include "walk/native/variables.h"

enum {
	MAX_TARGETS = 256,
	MAX_CHUNKS = 20000000,
	MAX_HITS = 200000,
	MAX_HITS_EACH = 4096,
	LEVELS = 5,
	MAX_CONTROLS = 16, /* blocks with certain owners that are looked for, too */
	MAX_LISTS = 8,     /* modules that know them */
};

#define MAX_BYTES (UINT64_C(8) << 30)
#define SEEK_NS (3 * VT_NS_PER_S)

/*
 * They know every address without being its user. Others that do (an allocator below PyTorch's, a
 * profiler) are found out by the blocks whose owners are certain: who knows some of these, too, is
 * no answer.
 */
static const char *const own_modules[] = { "libc10_cuda.so", "libcuda.so", "libcudart.so" };

#define N_OWN_MODULES (sizeof(own_modules) / sizeof(own_modules[0]))

struct unseen {
	struct vt_collect *c;
	struct vt_resident resident;
	struct vt_chunks chunks;
	struct vt_seek seek;
	struct vt_rtti rtti;
	uint32_t items[MAX_TARGETS]; /* of model.owners.items */
	uint64_t targets[MAX_TARGETS + MAX_CONTROLS];
	size_t n, n_controls;
	const char *lists[N_OWN_MODULES + MAX_LISTS]; /* beginnings of names of modules */
	size_t n_lists;
};

static uint64_t bytes_of(const struct vt_collect *c, uint32_t item)
{
	return c->model->blocks[c->model->owners.items.data[item].block].size;
}

/* Keeps the largest. */
static void add_target(struct unseen *u, uint32_t item)
{
	size_t at = u->n;

	if (u->n == MAX_TARGETS && bytes_of(u->c, item) <= bytes_of(u->c, u->items[u->n - 1]))
		return;
	if (u->n == MAX_TARGETS)
		at--;
	else
		u->n++;
	while (at > 0 && bytes_of(u->c, u->items[at - 1]) < bytes_of(u->c, item)) {
		u->items[at] = u->items[at - 1];
		at--;
	}
	u->items[at] = item;
}

/*
 * The driver knows where segments begin, so the controls are such blocks. A reference to a tensor
 * that is certain leaves no room for one by another library.
 */
static void add_controls(struct unseen *u)
{
	const struct vt_model_owners *owners = &u->c->model->owners;

	for (size_t i = 0; i < owners->items.n && u->n_controls < MAX_CONTROLS; i++) {
		const struct vt_model_owner *owner = &owners->items.data[i];
		const struct vt_block_rec *block = &u->c->model->blocks[owner->block];

		if (owner->certain && block->flags & VT_BLOCK_SEGMENT_START)
			u->targets[u->n + u->n_controls++] = block->addr;
	}
}

/* False: nothing is unknown. */
static bool find_targets(struct unseen *u)
{
	const struct vt_model_owners *owners = &u->c->model->owners;

	for (size_t i = 0; i < owners->items.n; i++) {
		if (owners->items.data[i].category == VT_CATEGORY_UNKNOWN)
			add_target(u, (uint32_t)i);
	}
	for (size_t i = 0; i < u->n; i++)
		u->targets[i] = u->c->model->blocks[owners->items.data[u->items[i]].block].addr;
	add_controls(u);
	return u->n;
}

static struct vt_error *read_heaps(struct unseen *u)
{
	struct vt_collect *c = u->c;

	if (c->target.live)
		VT_TRY(vt_resident_init(&u->resident, c->target.proc.pid, &c->target.maps,
					MAX_BYTES));
	else
		VT_TRY(vt_resident_init_all(&u->resident, &c->target.maps, MAX_BYTES));
	return vt_chunks_init(&u->chunks, c->target.mem, &c->target.maps, &u->resident, MAX_CHUNKS);
}

static struct vt_error *search(struct unseen *u, uint64_t deadline_ns)
{
	struct vt_collect *c = u->c;
	const struct vt_seek_options options = {
		.maps = &c->target.maps,
		.resident = &u->resident,
		.chunks = &u->chunks,
		.max_levels = LEVELS,
		.max_hits = MAX_HITS,
		.max_hits_each = MAX_HITS_EACH,
		.deadline_ns = deadline_ns,
		.own_modules = u->lists,
		.n_own_modules = u->n_lists,
	};

	vt_seek_deinit(&u->seek);
	return vt_seek_init(&u->seek, c->target.mem, &options, u->targets, u->n + u->n_controls);
}

/* The module in whose static data the way from a target ends; NULL: it does not end in any. */
static const char *end_of(struct unseen *u, uint32_t target)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	size_t n = vt_seek_chain(&u->seek, target, chain);

	return n && chain[n - 1]->place == VT_SEEK_STATIC ?
		       vt_base_name(u->c->target.maps.entries.data[chain[n - 1]->map].path) :
		       NULL;
}

/* True: there is a module that knows blocks of others, and an answer was from there. */
static bool find_lists(struct unseen *u)
{
	size_t n = u->n_lists;

	for (uint32_t i = 0; i < u->n_controls; i++) {
		const char *module = end_of(u, (uint32_t)u->n + i);
		bool known = !module || u->n_lists == N_OWN_MODULES + MAX_LISTS;

		for (size_t k = n; k < u->n_lists && !known; k++)
			known = !strcmp(u->lists[k], module);
		if (!known)
			u->lists[u->n_lists++] = module;
	}
	for (uint32_t i = 0; i < u->n; i++) {
		const char *module = end_of(u, i);

		for (size_t k = n; module && k < u->n_lists; k++) {
			if (!strcmp(u->lists[k], module))
				return true;
		}
	}
	return false;
}

static struct vt_error *search_twice(struct unseen *u)
{
	uint64_t deadline_ns = vt_now_ns() + SEEK_NS;

	memcpy(u->lists, own_modules, sizeof(own_modules));
	u->n_lists = N_OWN_MODULES;
	VT_TRY(read_heaps(u));
	VT_TRY(search(u, deadline_ns));
	return find_lists(u) ? search(u, deadline_ns) : NULL;
}

/* The name of the static variable that a hit lies in; NULL unknown. */
static const char *variable_of(struct unseen *u, const struct vt_seek_hit *hit)
{
	struct vt_native_variable variable = { .addr = hit->at, .module_start = hit->start };

	vt_error_destroy(
		vt_native_variables(&u->c->target.modules, &variable, 1, &u->c->model->arena));
	return variable.name;
}

/* The class of the object that a chunk begins with, in words; NULL: none. */
static const char *class_of(struct unseen *u, const struct vt_seek_hit *hit)
{
	uint64_t vtable = 0;
	uint32_t cls;

	/* The object of a std::make_shared() comes behind its counts. */
	for (uint64_t at = 0; at <= 16; at += 16) {
		if (vt_mem_read_u64(u->c->target.mem, hit->start + at, &vtable))
			continue;
		cls = vt_rtti_of_vtable(&u->rtti, vtable);
		if (cls != VT_RTTI_NONE)
			return u->rtti.classes.data[cls].name;
	}
	return NULL;
}

static const char *name_of(struct unseen *u, const struct vt_seek_hit *hit)
{
	if (hit->place == VT_SEEK_STATIC)
		return variable_of(u, hit);
	return hit->place == VT_SEEK_CHUNK ? class_of(u, hit) : NULL;
}

/* The first known holder on the way from the block decides; else the last name on it is told. */
static void tell(struct unseen *u, uint32_t target)
{
	const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
	struct vt_model_owner *owner = &u->c->model->owners.items.data[u->items[target]];
	size_t n = vt_seek_chain(&u->seek, target, chain);
	const char *last = NULL;

	for (size_t i = 0; i < n; i++) {
		const char *name = name_of(u, chain[i]);
		const struct vt_known_holder *known = name ? vt_known_holder(name) : NULL;

		if (known) {
			owner->category = (uint8_t)known->category;
			owner->name = known->name;
			return;
		}
		if (name)
			last = name;
	}
	if (!last)
		return;
	owner->category = VT_CATEGORY_NATIVE;
	owner->name = vt_collect_copy(u->c, last, strlen(last));
}

static void deinit(struct unseen *u)
{
	vt_seek_deinit(&u->seek);
	vt_chunks_deinit(&u->chunks);
	vt_resident_deinit(&u->resident);
	vt_rtti_deinit(&u->rtti);
}

void vt_collect_owners_unseen(struct vt_collect *c)
{
	struct unseen *u = calloc(1, sizeof(*u));
	struct vt_error *err;

	if (!u)
		return;
	u->c = c;
	if (!find_targets(u)) {
		free(u);
		return;
	}
	vt_progress("searching for holders of blocks");
	vt_rtti_init(&u->rtti, c->target.mem, &c->target.maps);
	err = search_twice(u);
	for (uint32_t i = 0; !err && i < u->n; i++)
		tell(u, i);
	/* What is not found stays unknown, and the report says so. */
	vt_error_destroy(err);
	deinit(u);
	free(u);
}
