/* SPDX-License-Identifier: Apache-2.0 */
#include "report/profile/stacks.h"

#include <stdlib.h>

#include "base/cleanup.h"

static uint64_t weight_of(const struct vt_profile *profile, const struct vt_profile_sample *sample)
{
	return profile->unit == VT_PROFILE_BYTES ? sample->bytes : sample->count;
}

/* ---- the order of nodes ---- */

struct ranked {
	uint64_t weight; /* of it and of all that it called */
	uint32_t parent, node;
};

/* Of each node; one list each. */
struct order {
	struct ranked *ranked;
	uint32_t *sizes;  /* how many nodes it is with all below it */
	uint32_t *next;   /* the place of its next child */
	uint32_t *places; /* what is wanted */
};

static int by_parent(const void *pa, const void *pb)
{
	const struct ranked *a = pa, *b = pb;

	if (a->parent != b->parent)
		return a->parent < b->parent ? -1 : 1;
	if (a->weight != b->weight)
		return a->weight > b->weight ? -1 : 1;
	return (a->node > b->node) - (a->node < b->node);
}

/* A parent comes before its children. */
static void weigh(const struct order *order, const struct vt_profile *profile)
{
	for (size_t i = 0; i < profile->nodes.n; i++) {
		order->ranked[i] = (struct ranked){ .parent = profile->nodes.data[i].parent,
						    .node = (uint32_t)i };
		order->sizes[i] = 1;
	}
	for (size_t i = 0; i < profile->samples.n; i++)
		order->ranked[profile->samples.data[i].node].weight +=
			weight_of(profile, &profile->samples.data[i]);
	for (size_t i = profile->nodes.n; i-- > 1;) {
		uint32_t parent = order->ranked[i].parent;

		order->ranked[parent].weight += order->ranked[i].weight;
		order->sizes[parent] += order->sizes[i];
	}
}

/* Behind a node come its children with all below them; it has its place before they get theirs. */
static void place(const struct order *order, size_t n)
{
	order->places[0] = 0;
	order->next[0] = 1;
	if (n > 1)
		qsort(order->ranked + 1, n - 1, sizeof(*order->ranked), by_parent);
	for (size_t i = 1; i < n; i++) {
		uint32_t node = order->ranked[i].node, parent = order->ranked[i].parent;

		order->places[node] = order->next[parent];
		order->next[parent] += order->sizes[node];
		order->next[node] = order->places[node] + 1;
	}
}

/* The places of all nodes, from malloc(); NULL: out of memory. */
static uint32_t *find_places(const struct vt_profile *profile)
{
	size_t n = profile->nodes.n;
	struct order order = { .ranked = calloc(n + 1, sizeof(*order.ranked)),
			       .sizes = calloc(n + 1, sizeof(*order.sizes)),
			       .next = calloc(n + 1, sizeof(*order.next)),
			       .places = calloc(n + 1, sizeof(*order.places)) };
	bool ok = order.ranked && order.sizes && order.next && order.places;

	if (ok) {
		weigh(&order, profile);
		place(&order, n);
	}
	free(order.ranked);
	free(order.sizes);
	free(order.next);
	if (ok)
		return order.places;
	free(order.places);
	return NULL;
}

/* ---- stacks ---- */

static int by_place(const void *pa, const void *pb)
{
	const struct vt_profile_stack *a = pa, *b = pb;

	if (a->group != b->group)
		return a->group < b->group ? -1 : 1;
	return (a->place > b->place) - (a->place < b->place);
}

static bool is_wanted(const struct vt_profile *profile, const struct vt_profile_sample *sample,
		      bool folded)
{
	return weight_of(profile, sample) &&
	       !(folded && (sample->beside || profile->groups.data[sample->group].repeats));
}

/* Samples that differ only in labels are one stack. */
static void join_equal(struct vt_profile_stacks *stacks)
{
	size_t n = 0;

	for (size_t i = 0; i < stacks->list.n; i++) {
		struct vt_profile_stack *last = n ? &stacks->list.data[n - 1] : NULL;

		if (last && !by_place(last, &stacks->list.data[i]))
			last->weight += stacks->list.data[i].weight;
		else
			stacks->list.data[n++] = stacks->list.data[i];
	}
	stacks->list.n = n;
}

bool vt_profile_stacks_init(struct vt_profile_stacks *stacks, const struct vt_profile *profile,
			    bool folded)
{
	VT_FREE uint32_t *places = find_places(profile);

	*stacks = (struct vt_profile_stacks){ 0 };
	if (!places || !vt_vec_reserve(&stacks->list, profile->samples.n))
		return false;
	for (size_t i = 0; i < profile->samples.n; i++) {
		const struct vt_profile_sample *sample = &profile->samples.data[i];

		if (!is_wanted(profile, sample, folded))
			continue;
		stacks->list.data[stacks->list.n++] = (struct vt_profile_stack){
			.group = folded && !profile->roots ? 0 : sample->group,
			.node = sample->node,
			.place = places[sample->node],
			.weight = weight_of(profile, sample),
		};
	}
	if (stacks->list.n)
		qsort(stacks->list.data, stacks->list.n, sizeof(*stacks->list.data), by_place);
	join_equal(stacks);
	return true;
}

void vt_profile_stacks_deinit(struct vt_profile_stacks *stacks)
{
	vt_vec_deinit(&stacks->list);
	free(stacks->way);
	*stacks = (struct vt_profile_stacks){ 0 };
}

const uint32_t *vt_profile_way(struct vt_profile_stacks *stacks, const struct vt_profile *profile,
			       uint32_t node, size_t *n)
{
	size_t depth = 0;

	for (uint32_t at = node; at != VT_PROFILE_ROOT; at = profile->nodes.data[at].parent)
		depth++;
	if (!stacks->way || depth > stacks->room) {
		uint32_t *larger = realloc(stacks->way, (2 * depth + 64) * sizeof(*larger));

		if (!larger)
			return NULL;
		stacks->way = larger;
		stacks->room = 2 * depth + 64;
	}
	*n = depth;
	for (uint32_t at = node; at != VT_PROFILE_ROOT; at = profile->nodes.data[at].parent)
		stacks->way[--depth] = profile->nodes.data[at].frame;
	return stacks->way;
}
