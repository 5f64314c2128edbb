/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What NCCL's communicators hold. NCCL keeps no list of its memory (before 2.29.7), but from 2.19
 * on it takes all of it in allocations that are made to be shared (cuMemCreate with a handle type,
 * src/include/alloc.h), each of which starts at an address of its own. So a communicator holds
 * those that its own structures point to. From 2.24 on, its RAS keeps an array of all communicators
 * (ncclComms in src/ras/ras.cc), and each begins and ends with one number (NCCL_MAGIC,
 * src/include/comm.h).
 */
#include <stdlib.h>

#include "base/clock.h"
#include "target/resident.h"
#include "walk/libpools/internal.h"
#include "walk/libpools/nccl.h"

#define LIBRARY "libnccl.so"
#define MAX_ARRAY 4096                /* bytes of the array that are looked at: 512 communicators */
#define LEAST_ARRAY 64                /* RAS makes room for 32 */
#define MAX_BSS (UINT64_C(512) << 10) /* 234 KiB in 2.28.9 */
#define MAX_OTHERS 4
#define MAX_COMMUNICATORS 256

static bool is_in(const struct vt_libpools_target *target)
{
	size_t index = 0;

	return target->n_shareable && vt_modules_by_name(target->modules, LIBRARY, &index);
}

/* ---- the communicators ---- */

struct search {
	struct vt_nccl nccl;
	VT_VEC(uint64_t) found;
};

static bool is_known(const struct search *s, uint64_t comm)
{
	for (size_t i = 0; i < s->found.n; i++)
		if (s->found.data[i] == comm)
			return true;
	return false;
}

/*
 * NULL where one has ended; one may be ending now. So a block in which the first words are
 * something else is not the array.
 */
static struct vt_error *note_communicators(struct search *s, uint64_t array)
{
	uint64_t words[MAX_ARRAY / sizeof(uint64_t)];
	uint64_t size = vt_nccl_block(&s->nccl, array);
	size_t others = 0, before = s->found.n;

	size = size < sizeof(words) ? size : sizeof(words);
	if (size < LEAST_ARRAY || vt_mem_read(s->nccl.target->mem, array, words, size))
		return NULL;
	for (size_t i = 0; i < size / sizeof(words[0]); i++) {
		uint64_t *to;

		if (!words[i] || is_known(s, words[i]))
			continue;
		if (!vt_nccl_is_communicator(&s->nccl, words[i])) {
			if (++others == MAX_OTHERS && s->found.n == before)
				return NULL;
			continue;
		}
		if (s->found.n >= MAX_COMMUNICATORS)
			return NULL;
		to = vt_vec_append(&s->found);
		if (!to)
			return &vt_enomem;
		*to = words[i];
	}
	return NULL;
}

/* All words of a piece of the library's variables: one of them is the array's address. */
static struct vt_error *search_variables(struct search *s, const struct vt_range *range)
{
	enum { PIECE = 4096 };
	uint64_t words[PIECE / sizeof(uint64_t)];

	for (uint64_t at = range->start; at < range->end; at += PIECE) {
		size_t size = range->end - at < PIECE ? range->end - at : PIECE;

		if (vt_now_ns() > s->nccl.target->deadline_ns)
			return vt_error_create(VT_ERR_TIMEOUT,
					       "NCCL's communicators were not all found in time");
		if (vt_mem_read(s->nccl.target->mem, at, words, size))
			continue;
		for (size_t i = 0; i < size / sizeof(words[0]); i++)
			if (words[i])
				VT_TRY(note_communicators(s, words[i]));
	}
	return NULL;
}

/* The library's own writable mappings, and the memory behind the last one, which is its .bss. */
static struct vt_error *find_communicators(struct search *s, const struct vt_module *module)
{
	const struct vt_libpools_target *target = s->nccl.target;
	struct vt_map_entry mine[8];
	struct vt_resident variables = { 0 };
	struct vt_error *err;
	size_t n = 0;

	for (size_t i = 0; i < target->maps->entries.n; i++) {
		const struct vt_map_entry *e = &target->maps->entries.data[i];
		bool is_its = e->start >= module->start && e->end <= module->end;
		bool is_behind = !e->path[0] && e->start == module->end;

		if (!(e->flags & VT_MAP_WRITE) || (e->flags & VT_MAP_SHARED) ||
		    !(is_its || is_behind) || n == sizeof(mine) / sizeof(mine[0]))
			continue;
		mine[n] = *e;
		/* The kernel joins it with what else is anonymous there. */
		if (is_behind && mine[n].end - mine[n].start > MAX_BSS)
			mine[n].end = mine[n].start + MAX_BSS;
		n++;
	}
	VT_TRY(target->live ? vt_resident_init_some(&variables, target->modules->pid, mine, n,
						    VT_NCCL_MAX_VARIABLES) :
			      vt_resident_init_all(&variables,
						   &(struct vt_maps){ .entries = { mine, n, n } },
						   VT_NCCL_MAX_VARIABLES));
	err = NULL;
	for (size_t i = 0; !err && i < variables.ranges.n; i++)
		err = search_variables(s, &variables.ranges.data[i]);
	vt_resident_deinit(&variables);
	return err;
}

/* ---- what each holds ---- */

/* What two of them refer to, as after ncclCommSplit(), is the first one's. */
static struct vt_error *take(struct search *s, uint64_t comm, struct vt_libpool *pool)
{
	struct vt_nccl *nccl = &s->nccl;

	pool->rec = (struct vt_libpool_rec){
		.object = comm,
		.known = VT_LIBPOOL_HELD,
		.device = -1,
		.kind = VT_LIBPOOL_NCCL,
		.state = VT_LIBPOOL_COUNTERS,
		.name = "communicator",
	};
	for (size_t i = 0; i < nccl->target->n_shareable; i++) {
		struct vt_libpool_region *region;

		if (nccl->holder[i] != nccl->current)
			continue;
		region = vt_vec_append(&pool->regions);
		if (!region)
			return &vt_enomem;
		*region = nccl->target->shareable[i];
		pool->rec.held_bytes += region->size;
	}
	return NULL;
}

static struct vt_error *read_communicators(struct search *s, struct vt_libpools *pools)
{
	for (size_t i = 0; i < s->found.n; i++)
		VT_TRY(vt_nccl_note_users(&s->nccl, s->found.data[i]));
	for (size_t i = 0; i < s->found.n; i++) {
		struct vt_libpool pool = { 0 }, *into = NULL;
		struct vt_error *err;

		if (s->nccl.current == VT_NCCL_USERS - 1)
			return vt_error_create(VT_ERR_FORMAT,
					       "NCCL has more communicators than are looked at");
		s->nccl.current++; /* goes on from library to library: holder is of all of them */
		err = vt_nccl_follow(&s->nccl, s->found.data[i]);
		if (!err)
			err = take(s, s->found.data[i], &pool);
		if (!err)
			into = vt_vec_append(&pools->pools);
		if (!into) {
			vt_libpool_deinit(&pool);
			return err ? err : &vt_enomem;
		}
		*into = pool;
	}
	return NULL;
}

static struct vt_error *find(const struct vt_libpools_target *target, struct vt_libpools *pools)
{
	struct search s = { .nccl.target = target };
	struct vt_module *module;
	struct vt_error *err = NULL;
	size_t index = 0;

	s.nccl.holder = calloc(target->n_shareable, sizeof(*s.nccl.holder));
	if (!s.nccl.holder)
		err = &vt_enomem;
	while (!err && (module = vt_modules_by_name(target->modules, LIBRARY, &index))) {
		s.nccl.module = module;
		s.found.n = 0;
		err = find_communicators(&s, module);
		if (!err)
			err = read_communicators(&s, pools);
	}
	free(s.nccl.holder);
	vt_vec_deinit(&s.found);
	return err;
}

const struct vt_libpool_walker vt_libpool_nccl = { .is_in = is_in, .find = find };
