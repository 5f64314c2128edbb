/* SPDX-License-Identifier: Apache-2.0 */
/* What a series of looks found to grow, and when that ends. */
#include "advise/internal.h"

#define MIN_SECONDS 1.0 /* less says nothing about a rate */
#define HOUR 3600.0

/* Its own memory, by what tells most: who holds it, where it is made, which size it has. */
static const struct vt_model_grown *most_telling(const struct vt_model_growth *growth)
{
	static const enum vt_grown_by order[] = { VT_GROWN_OWNER, VT_GROWN_SITE, VT_GROWN_LINE,
						  VT_GROWN_SIZE };

	for (size_t k = 0; k < sizeof(order) / sizeof(order[0]); k++)
		for (size_t i = 0; i < growth->items.n; i++)
			if (growth->items.data[i].by == order[k] &&
			    growth->items.data[i].grown_bytes > 0)
				return &growth->items.data[i];
	return NULL;
}

/* Of an item without a device there is one only if the process uses one only. */
static int device_of(const struct vt_model *model, const struct vt_model_grown *item)
{
	if (item->device >= 0 || item->by == VT_GROWN_LINE)
		return item->device;
	return model->allocators.n == 1 ? model->allocators.data[0].device : -1;
}

/*
 * PyTorch takes from its cache before it asks the device. A cache in pieces serves less: it is full
 * then or earlier, not later.
 */
static bool find_room(const struct vt_model *model, const struct vt_model_grown *item, int device,
		      uint64_t *room)
{
	const struct vt_model_device *d = device < 0 ? NULL : vt_model_device(model, device);
	const struct vt_model_allocator *a = device < 0 ? NULL : vt_advise_allocator(model, device);

	if (!d || !d->have_memory)
		return false;
	*room = d->free_bytes + (a && item->by != VT_GROWN_LINE ? a->cached_bytes : 0);
	return true;
}

void vt_advise_growth(struct vt_advise *a)
{
	const struct vt_model_growth *growth = &a->model->growth;
	const struct vt_model_grown *item = growth->known ? most_telling(growth) : NULL;
	struct vt_model_advice *advice;
	double seconds;
	uint64_t room;
	int device;

	if (!item)
		return;
	seconds = item->by == VT_GROWN_LINE ? growth->line_seconds : growth->seconds;
	device = device_of(a->model, item);
	advice = vt_advise_add(a, device);
	vt_advise_number(advice, "grown_bytes", (uint64_t)item->grown_bytes);
	if (item->label && *item->label)
		vt_advise_text(a, advice, "label", item->label);
	if (seconds < MIN_SECONDS)
		return;

	double rate = (double)item->grown_bytes / seconds;

	vt_advise_number(advice, "during_seconds", (uint64_t)seconds);
	vt_advise_number(advice, "per_hour_bytes", (uint64_t)(rate * HOUR));
	if (!find_room(a->model, item, device, &room))
		return;
	vt_advise_number(advice, "room_bytes", room);
	vt_advise_number(advice, "full_seconds", (uint64_t)((double)room / rate));
}
