/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CuPy's pools, found and read until two looks in a row see the same. What is not within reach of a
 * pool's own tables is found by the arrays that hold it, so the sums decide whether all was found.
 */
#include "walk/libpools/cupy.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "walk/libpools/cupy_root.h"
#include "walk/libpools/internal.h"

#define MAX_POOLS 1024
#define MAX_BYTES (UINT64_C(1) << 30) /* of the copy of pages */
#define MAX_WORK (UINT64_C(1) << 24)
#define MAX_PASSES 8
#define PAUSE_NS 200000
#define BODY_MEMBERS 8 /* of a MemoryPool: its pools */
#define BODY_MEMORY 24 /* of a MemoryPointer: its memory */
#define BODY_POOL 32   /* of a PooledMemory: a weak reference to its pool */
#define BODY_CHUNK 48  /* and its chunk, 14.1 on */

struct pass {
	const struct vt_libpools_target *target;
	uint64_t variable;
	struct vt_cupy_objects objects;
	struct vt_cupy_found found;
	bool known; /* found is of the look before: enough to see whether that was a moment */
	VT_VEC(struct vt_cupy_pool) pools;
	VT_VEC(struct vt_libpool) told;
};

static void pass_deinit(struct pass *p)
{
	for (size_t i = 0; i < p->pools.n; i++)
		vt_cupy_pool_deinit(&p->pools.data[i]);
	vt_vec_deinit(&p->pools);
	for (size_t i = 0; i < p->told.n; i++)
		vt_libpool_deinit(&p->told.data[i]);
	vt_vec_deinit(&p->told);
	vt_pages_deinit(&p->objects.pages);
	vt_cupy_found_deinit(&p->found);
}

static struct vt_cupy_pool *pool_at(struct pass *p, uint64_t object)
{
	for (size_t i = 0; i < p->pools.n; i++)
		if (p->pools.data[i].object == object)
			return &p->pools.data[i];
	return NULL;
}

/* device: -1: the pool's own word counts. False: out of memory. */
static bool add_pool(struct pass *p, uint64_t object, int32_t device)
{
	struct vt_cupy_pool pool;

	if (pool_at(p, object) || p->pools.n >= MAX_POOLS)
		return true;
	if (!vt_vec_reserve(&p->pools, p->pools.n + 1))
		return false;
	if (!vt_cupy_pool_read(&p->objects, object, &pool)) {
		vt_cupy_pool_deinit(&pool);
		return true;
	}
	if (device >= 0)
		pool.device = device;
	p->pools.data[p->pools.n++] = pool;
	return true;
}

struct members {
	struct pass *pass;
	int32_t device;
	bool by_order;
};

static bool take_member(void *arg, uint64_t object)
{
	struct members *members = arg;

	return add_pool(members->pass, object, members->by_order ? members->device++ : -1);
}

/*
 * A MemoryPool has one pool a device. Up to 13 each is made when its device is first used, and put
 * into a dict. From 14 on all are made at once, for a tuple, and each takes the device of that
 * moment for its own: their order counts.
 */
static void add_members(struct pass *p, uint64_t pool)
{
	struct vt_cupy_objects *o = &p->objects;
	uint64_t all = vt_cupy_word(o, pool, BODY_MEMBERS);
	struct members members = { .pass = p, .by_order = vt_cupy_is(o, all, "tuple") };

	if (vt_cupy_is(o, pool, "cupy.cuda.memory.MemoryPool"))
		vt_cupy_each(o, all, take_member, &members);
}

/*
 * What an array holds. From 14.1 on its memory has the chunk; before, the pool's own dict has all
 * that are in use.
 */
static void add_held(struct pass *p, uint64_t pointer)
{
	struct vt_cupy_objects *o = &p->objects;
	uint64_t memory = vt_cupy_word(o, pointer, BODY_MEMORY);
	struct vt_cupy_pool *pool;

	if (!vt_cupy_is(o, memory, "cupy.cuda.memory.PooledMemory") || !vt_cupy_word(o, memory, 0))
		return;
	pool = pool_at(p, vt_cupy_referent(o, vt_cupy_word(o, memory, BODY_POOL)));
	if (pool && !vt_cupy_pool_knows_used(pool))
		vt_cupy_pool_add(o, pool, vt_cupy_word(o, memory, BODY_CHUNK));
}

static bool add_found(struct pass *p)
{
	const struct vt_cupy_found *found = &p->found;
	bool ok = true;

	if (!p->known)
		vt_cupy_find_all(&p->objects, p->target->python, &p->found);
	for (size_t i = 0; i < found->objects[VT_CUPY_MEMORY_POOL].n; i++)
		add_members(p, found->objects[VT_CUPY_MEMORY_POOL].data[i]);
	for (size_t i = 0; ok && i < found->objects[VT_CUPY_SINGLE_POOL].n; i++)
		ok = add_pool(p, found->objects[VT_CUPY_SINGLE_POOL].data[i], -1);
	for (size_t i = 0; ok && i < found->objects[VT_CUPY_POINTER].n; i++)
		add_held(p, found->objects[VT_CUPY_POINTER].data[i]);
	return ok;
}

static int compare_told(const void *pa, const void *pb)
{
	const struct vt_libpool *a = pa, *b = pb;

	return (a->rec.object > b->rec.object) - (a->rec.object < b->rec.object);
}

static bool tell(struct pass *p)
{
	if (!vt_vec_reserve(&p->told, p->pools.n + 1))
		return false;
	for (size_t i = 0; i < p->pools.n; i++) {
		struct vt_cupy_pool *pool = &p->pools.data[i];

		/* Each device of the process has one, most of them never used. */
		if (!pool->held && !pool->chunks.n)
			continue;
		if (!vt_cupy_pool_tell(pool, &p->told.data[p->told.n++]))
			return false;
	}
	qsort(p->told.data, p->told.n, sizeof(*p->told.data), compare_told);
	return true;
}

static struct vt_error *look(struct pass *p)
{
	p->objects = (struct vt_cupy_objects){
		.py = p->target->python->layout,
		.head = p->target->python->layout->at[VT_PY_OBJECT_SIZE],
		.deadline_ns = p->target->deadline_ns,
		.work = MAX_WORK,
	};
	VT_TRY(vt_pages_init(&p->objects.pages, p->target->mem, MAX_BYTES));
	add_members(p, vt_cupy_allocator_object(&p->objects, p->variable));
	return add_found(p) && tell(p) ? NULL : &vt_enomem;
}

static const struct vt_libpool *same_object(const struct pass *p, uint64_t object)
{
	for (size_t i = 0; i < p->told.n; i++)
		if (p->told.data[i].rec.object == object)
			return &p->told.data[i];
	return NULL;
}

/* How many pools differ between two looks. mark: those of a are told to be changing. */
static size_t compare(struct pass *a, const struct pass *b, bool mark)
{
	size_t n = a->told.n != b->told.n;

	for (size_t i = 0; i < a->told.n; i++) {
		struct vt_libpool *pool = &a->told.data[i];
		const struct vt_libpool *other = same_object(b, pool->rec.object);

		if (other && vt_libpool_is_same(pool, other))
			continue;
		n++;
		if (mark) {
			pool->rec.state = VT_LIBPOOL_CHANGING;
			pool->chunks.n = 0;
		}
	}
	return n;
}

/* It belongs to the caller now. */
static struct vt_error *hand_over(struct pass *p, struct vt_libpools *pools)
{
	for (size_t i = 0; i < p->told.n; i++) {
		struct vt_libpool *to = vt_vec_append(&pools->pools);

		if (!to)
			return &vt_enomem;
		*to = p->told.data[i];
		p->told.data[i] = (struct vt_libpool){ 0 };
	}
	return NULL;
}

/*
 * Looks until two looks are the same. A look that had no time to end does not count. The lists of
 * the collector take most of the time, and every other look does without them: an array that has
 * come about since shows in the counters of its pool.
 */
static struct vt_error *look_again(struct pass *now, struct pass *before)
{
	for (int i = 1; i < MAX_PASSES; i++) {
		bool late;

		pass_deinit(before);
		*before = *now;
		*now = (struct pass){ .target = before->target,
				      .variable = before->variable,
				      .found = before->found,
				      .known = !before->known };
		before->found = (struct vt_cupy_found){ 0 };
		if (!now->known)
			vt_cupy_found_deinit(&now->found);
		VT_TRY(look(now));
		if (!compare(now, before, false))
			return NULL;
		late = vt_now_ns() >= now->target->deadline_ns;
		if (late) {
			struct pass cut = *now;

			*now = *before;
			*before = cut;
		}
		if (late || i + 1 == MAX_PASSES) {
			compare(now, before, true);
			return NULL;
		}
		vt_sleep_ns(PAUSE_NS);
	}
	return NULL;
}

static struct vt_error *read_all(const struct vt_libpools_target *target, uint64_t variable,
				 struct vt_libpools *pools)
{
	struct pass now = { .target = target, .variable = variable }, before = now;
	struct vt_error *err = look(&now);

	if (!err && !target->stands_still)
		err = look_again(&now, &before);
	if (!err)
		err = hand_over(&now, pools);
	pass_deinit(&before);
	pass_deinit(&now);
	return err;
}

static bool is_in(const struct vt_libpools_target *target)
{
	struct vt_module *module;

	for (size_t i = 0; (module = vt_modules_by_name(target->modules, VT_CUPY_MODULE, &i));)
		if (strstr(module->path, "/cupy/cuda/"))
			return true;
	return false;
}

static struct vt_error *find(const struct vt_libpools_target *target, struct vt_libpools *pools)
{
	if (!target->python)
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "CuPy's pools are Python's objects, and its interpreter "
				       "was not found");
	return read_all(target, vt_cupy_allocator_variable(target->modules), pools);
}

const struct vt_libpool_walker vt_libpool_cupy = { .is_in = is_in, .find = find };
