/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/heap/seek.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/map.h"
#include "target/live.h"
#include "walk/heap/holder.h"

#define PAGE ((uint64_t)4096)
#define WINDOW ((size_t)1 << 20) /* read together; it stays in the cache until it is searched */
#define PIECES ((size_t)1024)
#define FILTER_BITS 16

/* std::make_shared() has its counts before the object: two words, the virtual table's first. */
#define IN_SHARED UINT64_C(16)

struct wanted {
	uint64_t value;
	uint32_t node;
};

struct search {
	struct vt_seek *seek;
	struct vt_memsrc *src;
	const struct vt_seek_options *options;
	struct vt_holders holders;
	struct vt_map by_addr;        /* of chunks → node */
	VT_VEC(struct wanted) wanted; /* sorted by value */
	uint64_t filter[(1 << FILTER_BITS) / 64];
	uint8_t *window;
	bool out_of_memory;
	int error; /* negative errno */
};

/* What is looked for. */

static uint32_t filter_bit(uint64_t value)
{
	return (uint32_t)(value * UINT64_C(0x9e3779b97f4a7c15) >> (64 - FILTER_BITS));
}

static void want(struct search *s, uint64_t value, uint32_t node)
{
	struct wanted *new = vt_vec_append(&s->wanted);
	uint32_t bit = filter_bit(value);

	if (!new) {
		s->out_of_memory = true;
		return;
	}
	*new = (struct wanted){ value, node };
	s->filter[bit / 64] |= UINT64_C(1) << bit % 64;
}

static int compare_wanted(const void *a, const void *b)
{
	const struct wanted *x = a, *y = b;

	if (x->value != y->value)
		return x->value > y->value ? 1 : -1;
	return (x->node > y->node) - (x->node < y->node);
}

static const struct wanted *find_wanted(const struct search *s, uint64_t value)
{
	size_t low = 0, high = s->wanted.n;

	while (low < high) {
		size_t mid = (low + high) / 2;

		if (s->wanted.data[mid].value < value)
			low = mid + 1;
		else
			high = mid;
	}
	return low < s->wanted.n && s->wanted.data[low].value == value ? &s->wanted.data[low] :
									 NULL;
}

/* The nodes of this level that a target without a root still needs. False: there are none. */
static bool make_wanted(struct search *s, unsigned int level, const bool *needed)
{
	memset(s->filter, 0, sizeof(s->filter));
	s->wanted.n = 0;
	for (uint32_t i = 0; i < s->seek->nodes.n; i++) {
		const struct vt_seek_node *node = &s->seek->nodes.data[i];

		if (node->level != level || !needed[i])
			continue;
		if (s->wanted.n >= 2 * VT_SEEK_MAX_TARGETS) {
			s->seek->cut = true;
			break;
		}
		want(s, node->addr, i);
		if (node->bytes > IN_SHARED)
			want(s, node->addr + IN_SHARED, i);
	}
	if (s->wanted.n == 0)
		return false;
	qsort(s->wanted.data, s->wanted.n, sizeof(s->wanted.data[0]), compare_wanted);
	return true;
}

/* Hits. */

/* The node of a chunk that holds something; VT_SEEK_NONE: there is no memory for it. */
static uint32_t chunk_node(struct search *s, uint64_t addr, uint64_t bytes, uint8_t level)
{
	const uint64_t *known = vt_map_get(&s->by_addr, addr);
	uint32_t id = (uint32_t)s->seek->nodes.n;
	struct vt_seek_node *node;

	if (known)
		return (uint32_t)*known;
	node = vt_vec_append(&s->seek->nodes);
	if (!node || !vt_map_put(&s->by_addr, addr, id)) {
		s->out_of_memory = true;
		return VT_SEEK_NONE;
	}
	*node = (struct vt_seek_node){ .addr = addr, .bytes = bytes, .level = level };
	return id;
}

static bool has_room(struct search *s, struct vt_seek_node *to)
{
	if (to->n_hits >= s->options->max_hits_each)
		to->truncated = true;
	else if (s->seek->hits.n >= s->options->max_hits)
		s->seek->cut = true;
	else
		return true;
	return false;
}

static void add_hit(struct search *s, uint64_t at, const struct wanted *wanted)
{
	struct vt_seek_node *to = &s->seek->nodes.data[wanted->node];
	struct vt_seek_hit hit = { .at = at, .to = wanted->node, .from = VT_SEEK_NONE }, *new;
	uint64_t bytes = 0;

	if (!has_room(s, to) || !vt_holder_of(&s->holders, at, &hit, &bytes))
		return;
	hit.inside = wanted->value != to->addr;
	/* A part of the same object refers to it, as the end of an empty list does. */
	if (hit.place == VT_SEEK_CHUNK && to->addr - hit.start < bytes)
		return;
	if (s->options->leave_out && s->options->leave_out(s->options->arg, &hit))
		return;
	if (hit.place == VT_SEEK_CHUNK) {
		hit.from = chunk_node(s, hit.start, bytes, (uint8_t)(to->level + 1));
		if (hit.from == VT_SEEK_NONE)
			return;
	}
	new = vt_vec_append(&s->seek->hits);
	if (!new) {
		s->out_of_memory = true;
		return;
	}
	*new = hit;
	s->seek->nodes.data[wanted->node].n_hits++;
}

/* Reading. */

static void search_words(struct search *s, uint64_t addr, const uint8_t *data, size_t len)
{
	const uint64_t *filter = s->filter, lowest = s->wanted.data[0].value;
	const uint64_t span = s->wanted.data[s->wanted.n - 1].value - lowest;

	for (size_t i = 0; i + 8 <= len; i += 8) {
		const struct wanted *wanted;
		uint64_t value;
		uint32_t bit;

		memcpy(&value, data + i, sizeof(value));
		bit = filter_bit(value);
		if (__builtin_expect(!(filter[bit / 64] >> bit % 64 & 1), 1))
			continue;
		/* Mostly 0 and small numbers, when they share a bit with an address. */
		wanted = value - lowest <= span ? find_wanted(s, value) : NULL;
		if (wanted)
			add_hit(s, addr + i, wanted);
	}
}

/* What cannot be read any more is left out. */
static void search_singly(struct search *s, const struct vt_memvec *piece)
{
	for (size_t at = 0; at < piece->len && !s->error; at += PAGE) {
		size_t n = piece->len - at < PAGE ? piece->len - at : PAGE;
		int ret = vt_mem_read(s->src, piece->addr + at, s->window, n);

		if (!ret)
			search_words(s, piece->addr + at, s->window, n);
		else if (ret != -EFAULT)
			s->error = ret;
	}
}

static void search_pieces(struct search *s, const struct vt_memvec *vec, size_t n)
{
	int ret = n ? vt_mem_readv(s->src, vec, n) : 0;

	for (size_t i = 0; i < n; i++) {
		s->seek->bytes += vec[i].len;
		if (!ret)
			search_words(s, vec[i].addr, vec[i].buf, vec[i].len);
		else if (ret == -EFAULT)
			search_singly(s, &vec[i]);
	}
	if (ret && ret != -EFAULT)
		s->error = ret;
}

static bool may_go_on(struct search *s)
{
	if (s->error || s->out_of_memory || s->seek->hits.n >= s->options->max_hits)
		return false;
	if (!vt_deadline_passed(s->options->deadline_ns))
		return true;
	s->seek->cut = true;
	return false;
}

/* Once over all memory. False: it was not finished. */
static bool search_all(struct search *s)
{
	const struct vt_resident *resident = s->options->resident;
	struct vt_memvec vec[PIECES];
	size_t n = 0, used = 0;

	for (size_t i = 0; i < resident->ranges.n; i++) {
		struct vt_range range = resident->ranges.data[i];

		while (range.start < range.end) {
			uint64_t left = range.end - range.start;
			size_t len = left < WINDOW - used ? (size_t)left : WINDOW - used;

			vec[n++] = (struct vt_memvec){ range.start, s->window + used, len };
			used += len;
			range.start += len;
			if (used < WINDOW && n < PIECES)
				continue;
			search_pieces(s, vec, n);
			n = used = 0;
			if (!may_go_on(s))
				return false;
		}
	}
	search_pieces(s, vec, n);
	return may_go_on(s);
}

/* What follows from the hits. */

static bool is_own(const struct vt_seek *seek, const struct vt_seek_hit *hit)
{
	return hit->place == VT_SEEK_OWN ||
	       (hit->from != VT_SEEK_NONE && seek->nodes.data[hit->from].own);
}

/* An address that a stack has without a chunk is often left over: that ends no search. */
static bool is_rooted_by(const struct vt_seek *seek, const struct vt_seek_hit *hit)
{
	return hit->place == VT_SEEK_STATIC ||
	       (hit->place == VT_SEEK_STACK && hit->to >= seek->n_targets) ||
	       (hit->from != VT_SEEK_NONE && seek->nodes.data[hit->from].rooted);
}

/* Targets are held by own modules, which says nothing of them. */
static void find_own(struct vt_seek *seek)
{
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < seek->hits.n; i++) {
			const struct vt_seek_hit *hit = &seek->hits.data[i];
			struct vt_seek_node *to = &seek->nodes.data[hit->to];

			if (to->own || hit->to < seek->n_targets || !is_own(seek, hit))
				continue;
			to->own = changed = true;
		}
	}
}

static void find_rooted(struct vt_seek *seek)
{
	for (size_t i = 0; i < seek->nodes.n; i++)
		seek->nodes.data[i].rooted = false;
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < seek->hits.n; i++) {
			const struct vt_seek_hit *hit = &seek->hits.data[i];
			struct vt_seek_node *to = &seek->nodes.data[hit->to];

			if (to->rooted || is_own(seek, hit) || !is_rooted_by(seek, hit))
				continue;
			to->rooted = changed = true;
		}
	}
}

/* Targets without a root, and what holds them. */
static void find_needed(const struct vt_seek *seek, bool *needed)
{
	for (size_t i = 0; i < seek->nodes.n; i++)
		needed[i] = i < seek->n_targets && !seek->nodes.data[i].rooted;
	for (bool changed = true; changed;) {
		changed = false;
		for (size_t i = 0; i < seek->hits.n; i++) {
			const struct vt_seek_hit *hit = &seek->hits.data[i];

			if (hit->from == VT_SEEK_NONE || !needed[hit->to] || needed[hit->from] ||
			    is_own(seek, hit))
				continue;
			needed[hit->from] = changed = true;
		}
	}
}

static int compare_hits(const void *a, const void *b)
{
	const struct vt_seek_hit *x = a, *y = b;

	if (x->to != y->to)
		return x->to > y->to ? 1 : -1;
	return (x->at > y->at) - (x->at < y->at);
}

static void sort_hits(struct vt_seek *seek)
{
	uint32_t at = 0;

	if (seek->hits.n)
		qsort(seek->hits.data, seek->hits.n, sizeof(seek->hits.data[0]), compare_hits);
	for (size_t i = 0; i < seek->nodes.n; i++) {
		seek->nodes.data[i].hits = at;
		at += seek->nodes.data[i].n_hits;
	}
}

static void search_levels(struct search *s)
{
	unsigned int max = s->options->max_levels < VT_SEEK_MAX_LEVELS ? s->options->max_levels :
									 VT_SEEK_MAX_LEVELS;

	for (unsigned int level = 0; level < max && may_go_on(s); level++) {
		VT_FREE bool *needed = calloc(s->seek->nodes.n + 1, sizeof(*needed));

		if (!needed) {
			s->out_of_memory = true;
			return;
		}
		find_own(s->seek);
		find_rooted(s->seek);
		find_needed(s->seek, needed);
		if (!make_wanted(s, level, needed) || !search_all(s))
			break;
		s->seek->levels = level + 1;
	}
	find_own(s->seek);
	find_rooted(s->seek);
	sort_hits(s->seek);
}

static bool add_targets(struct search *s, const uint64_t *targets, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct vt_seek_node *node = vt_vec_append(&s->seek->nodes);

		if (!node)
			return false;
		*node = (struct vt_seek_node){ .addr = targets[i] };
		/* The same address twice: hits go to the first one. */
		if (!vt_map_get(&s->by_addr, targets[i]) && !vt_map_put(&s->by_addr, targets[i], i))
			return false;
	}
	s->seek->n_targets = n;
	return true;
}

struct vt_error *vt_seek_init(struct vt_seek *seek, struct vt_memsrc *src,
			      const struct vt_seek_options *options, const uint64_t *targets,
			      size_t n)
{
	VT_FREE struct search *s = calloc(1, sizeof(*s));
	VT_FREE uint8_t *window = malloc(WINDOW);
	struct vt_error *err = NULL;

	*seek = (struct vt_seek){ 0 };
	if (!s || !window)
		return &vt_enomem;
	*s = (struct search){ .seek = seek, .src = src, .options = options, .window = window };
	if (!vt_holders_init(&s->holders, src, options) || !add_targets(s, targets, n))
		s->out_of_memory = true;
	else
		search_levels(s);
	vt_holders_deinit(&s->holders);
	vt_map_deinit(&s->by_addr);
	vt_vec_deinit(&s->wanted);
	if (s->out_of_memory)
		err = &vt_enomem;
	else if (s->error)
		err = vt_mem_error(src, s->error, "the process's memory");
	if (err)
		vt_seek_deinit(seek);
	return err;
}

void vt_seek_deinit(struct vt_seek *seek)
{
	vt_vec_deinit(&seek->nodes);
	vt_vec_deinit(&seek->hits);
	*seek = (struct vt_seek){ 0 };
}

/* The best chain. */

struct way {
	uint32_t hit;   /* by which the node was reached */
	uint32_t depth; /* hits up to the node; 0: not reached */
};

/* How much an end says: the lower the more. */
static unsigned int rank_of(const struct vt_seek_hit *hit, uint32_t depth)
{
	switch (hit->place) {
	case VT_SEEK_STATIC:
		return 0;
	case VT_SEEK_STACK:
		return depth > 1 ? 0 : 1;
	case VT_SEEK_OTHER:
		return 2;
	default:
		return 3;
	}
}

/* Whether hit, at this depth, is a better end than best. */
static bool is_better(const struct vt_seek_hit *hit, uint32_t depth, const struct vt_seek_hit *best,
		      uint32_t best_depth)
{
	unsigned int rank = rank_of(hit, depth), other = best ? rank_of(best, best_depth) : 4;

	if (rank != other)
		return rank < other;
	/* A chunk is an end when nobody is known to hold it: then the farthest says most. */
	if (depth != best_depth)
		return hit->place == VT_SEEK_CHUNK ? depth > best_depth : depth < best_depth;
	return hit->place < best->place;
}

size_t vt_seek_chain(const struct vt_seek *seek, uint32_t target,
		     const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS])
{
	VT_FREE struct way *ways = calloc(seek->nodes.n, sizeof(*ways));
	VT_FREE uint32_t *queue = calloc(seek->nodes.n, sizeof(*queue));
	const struct vt_seek_hit *best = NULL;
	uint32_t best_depth = 0, n = 0;

	if (!ways || !queue)
		return 0;
	queue[n++] = target;
	for (uint32_t i = 0; i < n; i++) {
		const struct vt_seek_node *node = &seek->nodes.data[queue[i]];
		uint32_t depth = ways[queue[i]].depth + 1;

		for (uint32_t h = node->hits; h < node->hits + node->n_hits; h++) {
			const struct vt_seek_hit *hit = &seek->hits.data[h];
			uint32_t from = hit->from;
			bool known = from != VT_SEEK_NONE && (from == target || ways[from].depth);

			/* A circle is no answer. */
			if (depth > VT_SEEK_MAX_LEVELS || known || is_own(seek, hit))
				continue;
			if (is_better(hit, depth, best, best_depth)) {
				best = hit;
				best_depth = depth;
			}
			if (from == VT_SEEK_NONE)
				continue;
			ways[from] = (struct way){ h, depth };
			queue[n++] = from;
		}
	}
	for (uint32_t i = best_depth; i-- > 0;) {
		chain[i] = best;
		best = &seek->hits.data[ways[best->to].hit];
	}
	return best_depth;
}
