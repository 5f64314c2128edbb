/* SPDX-License-Identifier: Apache-2.0 */
/* What is in memory now where streams wait for a value. */
#include <string.h>

#include "base/map.h"
#include "collect/collect.h"
#include "collect/launches.h"

#define MAX_VALUES 4096 /* different places that are read */

struct place {
	uint64_t there;
	bool known, shared;
};

struct values {
	VT_VEC(struct place) places;
	struct vt_map at; /* address | width in bytes / 8 → index in places */
};

/*
 * Memory of the host. Not that of a device, and not managed memory: to read that would move it
 * away from the device, or wait for a device that hangs. Host memory that the driver allocates is
 * shared without a file, as /dev/zero.
 */
static bool can_be_read(const struct vt_map_entry *e, uint64_t end)
{
	return e && (e->flags & VT_MAP_READ) && end <= e->end &&
	       (strncmp(e->path, "/dev/", 5) != 0 || !strncmp(e->path, "/dev/zero", 9) ||
		!strncmp(e->path, "/dev/shm/", 9));
}

static struct place read_place(struct vt_collect *c, const struct vt_model_launch *wait)
{
	const struct vt_map_entry *e = vt_maps_find(&c->target.maps, wait->what);
	uint64_t width = wait->bits / 8;
	struct place place = { 0 };

	if (wait->what > UINT64_MAX - width || !can_be_read(e, wait->what + width) ||
	    vt_mem_read(c->target.mem, wait->what, &place.there, width))
		return (struct place){ 0 };
	place.known = true;
	place.shared = (e->flags & VT_MAP_SHARED) && strncmp(e->path, "/dev/zero", 9) != 0;
	return place;
}

static const struct place *place_of(struct vt_collect *c, struct values *values,
				    const struct vt_model_launch *wait)
{
	uint64_t key = wait->what | (wait->bits == 64);
	const uint64_t *index = vt_map_get(&values->at, key);
	struct place *place;

	if (index)
		return &values->places.data[*index];
	if (values->places.n == MAX_VALUES)
		return NULL;
	place = vt_vec_append(&values->places);
	if (!place || !vt_map_put(&values->at, key, values->places.n - 1))
		return NULL;
	*place = read_place(c, wait);
	return place;
}

void vt_collect_launch_values(struct vt_collect *c)
{
	struct values values = { 0 };

	for (size_t i = 0; i < c->model->launches.streams.n; i++) {
		struct vt_model_launch_stream *s = &c->model->launches.streams.data[i];

		for (size_t k = 0; k < s->n; k++) {
			struct vt_model_launch *l = &s->launches[k];
			const struct place *place;

			if (l->kind != VT_LAUNCHED_WAIT_VALUE || !vt_launch_may_run(l))
				continue;
			place = place_of(c, &values, l);
			if (!place || !place->known)
				continue;
			l->there = place->there;
			l->there_known = true;
			l->there_shared = place->shared;
		}
	}
	vt_vec_deinit(&values.places);
	vt_map_deinit(&values.at);
}
