/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/asyncio/internal.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"

#define MAX_COPY (UINT64_C(64) << 20) /* bytes of pages: 20,000 tasks have some 30 MiB */

/* "Task-9" before "Task-10": sets have them in no order. */
static int compare_names(const void *a, const void *b)
{
	const struct vt_asyncio_task *x = a, *y = b;
	int order = strverscmp(x->name, y->name);

	return order ? order : x->addr < y->addr ? -1 : x->addr > y->addr;
}

static void sort_tasks(struct vt_asyncio_reader *r)
{
	struct vt_asyncio_task *tasks = r->out->tasks.data;

	if (r->out->tasks.n)
		qsort(tasks, r->out->tasks.n, sizeof(*tasks), compare_names);
	for (size_t i = 0; i < r->out->tasks.n; i++)
		if (!vt_map_put(&r->index, tasks[i].addr, i + 1))
			r->nomem = true;
}

static struct vt_error *read_all(struct vt_asyncio_reader *r, struct vt_memsrc *src)
{
	VT_TRY(vt_pages_init_sparse(&r->pages, src, MAX_COPY));
	VT_TRY(vt_pyheap_init(&r->heap, r->py, &r->pages, NULL));
	vt_asyncio_list(r);
	sort_tasks(r);
	if (!r->nomem)
		vt_asyncio_find_waiters(r);
	return r->nomem ? &vt_enomem : NULL;
}

struct vt_error *vt_asyncio_read(struct vt_asyncio *asyncio, struct vt_python *py,
				 struct vt_modules *modules, struct vt_memsrc *src,
				 uint64_t deadline_ns)
{
	VT_FREE struct vt_asyncio_reader *r = calloc(1, sizeof(*r)); /* large: it has caches */
	struct vt_error *err;

	if (!r)
		return &vt_enomem;
	r->out = asyncio;
	r->py = py;
	r->modules = modules;
	r->deadline_ns = deadline_ns;
	if (py->major != 3 || py->minor < 11)
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "asyncio's tasks are read in CPython 3.11 to 3.14");
	err = read_all(r, src);
	vt_pyheap_deinit(&r->heap);
	vt_pages_deinit(&r->pages);
	vt_map_deinit(&r->index);
	vt_map_deinit(&r->kinds);
	vt_map_deinit(&r->by_place);
	vt_vec_deinit(&r->places);
	return err;
}

void vt_asyncio_deinit(struct vt_asyncio *asyncio)
{
	for (size_t i = 0; i < asyncio->tasks.n; i++) {
		vt_vec_deinit(&asyncio->tasks.data[i].frames);
		vt_vec_deinit(&asyncio->tasks.data[i].waiters);
	}
	vt_vec_deinit(&asyncio->tasks);
	vt_arena_deinit(&asyncio->arena);
	*asyncio = (struct vt_asyncio){ 0 };
}
