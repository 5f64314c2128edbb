/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For which streams the blocks wait that the program freed while other streams used them
 * (record_stream()). When such a block is freed, insert_events() records an event on each of these
 * streams, counts them in Block::event_count, and adds them to cuda_events:
 *
 *   ska::flat_hash_map<cuda::CUDAStream, std::deque<std::pair<EventPool::Event, Block *>>>
 *
 * process_events(), at an allocation, takes out those that are over; a stream without events is
 * erased. The same in all releases from 2.0 to 2.15.
 *
 * No number of this is believed unless all of it agrees: each event is of a block that awaits its
 * free, a block has as many events as it counts, none twice on a stream. That makes up for the
 * mark, which does not see that one of several events of a block is taken out; and for a hash
 * table that is another one.
 */
#include "walk/torch/walk_state.h"

#define MAX_EVENTS 65536    /* of all streams: more than a device can have queued */
#define MAX_SLOTS 4096      /* of the hash table; it never shrinks */
#define MAX_NODES (1 << 20) /* of a deque's map, which never shrinks either */

/* A slot: the distance, cuda::CUDAStream at +8, std::deque at +24. */
#define EVENTS_SLOT 104
/* c10::Stream: Device { int8 type, int8 index }, padding, int64 id */
#define STREAM_TYPE 8
#define STREAM_DEVICE 9
#define STREAM_ID 16
#define STREAM_EVENTS 24
#define TYPE_CUDA 1 /* c10::DeviceType::CUDA */

/*
 * std::pair<EventPool::Event, Block *>; Event is a std::unique_ptr whose deleter is a
 * std::function (32 bytes), which libstdc++ puts in front of the pointer.
 */
#define ELEMENT 48
#define ELEMENT_EVENT 32
#define ELEMENT_BLOCK 40

/* std::deque of libstdc++: nodes of 512 bytes, or less if elements do not fill them. */
#define PER_NODE (512 / ELEMENT)
#define NODE_SIZE (PER_NODE * ELEMENT)

struct deque_iterator {
	uint64_t cur, first, last, node;
};

struct deque {
	uint64_t map, map_size;
	struct deque_iterator start, finish;
};
_Static_assert(sizeof(struct deque) == EVENTS_SLOT - STREAM_EVENTS, "as compiled by g++");

/*
 * The index of the i-th entry that awaits its free, and above it how many events of it were not
 * seen yet. The list grows down from the end of nodes; a set of free blocks never needs that part,
 * because there is no room in w->objects for so many blocks either.
 */
static uint64_t *awaiting(const struct vt_torch_walk *w, uint64_t i)
{
	return &w->nodes[w->capacity - 1 - i];
}

void vt_torch_walk_awaits(struct vt_torch_walk *w, uint32_t events)
{
	*awaiting(w, w->n_awaiting++) = (w->n_entries - 1) | (uint64_t)events << 32;
}

static const struct entry *awaiting_entry(const struct vt_torch_walk *w, uint64_t i)
{
	return &w->entries[(uint32_t)*awaiting(w, i)];
}

static uint32_t unseen(const struct vt_torch_walk *w, uint64_t i)
{
	return (uint32_t)(*awaiting(w, i) >> 32);
}

/* ---- which stream ---- */

/*
 * c10/cuda/CUDAStream.cpp, "StreamId assignment": 0 is the default stream, a stream that somebody
 * else made has its handle. A pool's has its number, above its type:
 * 2.0:     3 bits, 1 low priority, 2 high
 * 2.1 on:  a bit that is set, and 4 bits, 1 more than the priority's place
 */
static bool name_stream(const struct vt_torch_walk *w, uint64_t id, struct vt_torch_wait *wait)
{
	/* Expandable segments came with 2.1, too. */
	bool first = w->layout->sets_per_pool == 1;
	unsigned int shift = first ? 0 : 1, bits = first ? 3 : 4;
	uint64_t type = (id >> shift) & ((1u << bits) - 1), number = id >> (shift + bits);

	wait->kind = VT_TORCH_STREAM_DEFAULT;
	if (!id)
		return true;
	wait->kind = VT_TORCH_STREAM_OTHER;
	wait->handle = id;
	if (first ? !type : !(id & 1))
		return id == 2 /* cudaStreamPerThread */ || vt_is_object(id);
	wait->kind = VT_TORCH_STREAM_POOL;
	wait->handle = 0;
	wait->priority = (int8_t)(1 - (int)type);
	wait->number = (uint8_t)number;
	return type && type <= (first ? 2 : VT_TORCH_STREAM_PRIORITIES) &&
	       number < VT_TORCH_STREAMS_PER_POOL;
}

/* ---- the events of one stream ---- */

/* The place of the iterator in its node; -1: it is not one. */
static int place_of(const struct deque_iterator *it)
{
	if (!vt_is_object(it->first) || it->last - it->first != NODE_SIZE || it->cur < it->first ||
	    it->cur >= it->last || (it->cur - it->first) % ELEMENT)
		return -1;
	return (int)((it->cur - it->first) / ELEMENT);
}

/* The number of elements, if it is a std::deque of these with at most max; else -1. */
static int64_t count_events(const struct deque *d, uint64_t max)
{
	int start = place_of(&d->start), finish = place_of(&d->finish);
	uint64_t nodes;

	if (start < 0 || finish < 0 || !vt_is_object(d->map) || !d->map_size ||
	    d->map_size > MAX_NODES || d->start.node < d->map || d->finish.node < d->start.node ||
	    (d->start.node - d->map) % 8 || (d->finish.node - d->map) % 8 ||
	    (d->finish.node - d->map) / 8 >= d->map_size)
		return -1;
	nodes = (d->finish.node - d->start.node) / 8;
	if ((!nodes && finish < start) ||
	    nodes * PER_NODE + (uint64_t)finish > max + (uint64_t)start)
		return -1;
	return (int64_t)(nodes * PER_NODE) + finish - start;
}

/* Which of those that await their free is the object at addr; n_awaiting: none. */
static uint64_t find_block(const struct vt_torch_walk *w, uint64_t addr)
{
	uint64_t from = 0, to = w->n_awaiting;

	while (from < to) {
		uint64_t middle = from + (to - from) / 2, i = vt_torch_walk_index_at(w, middle);

		if (w->objects[i] == addr)
			return i;
		if (w->objects[i] < addr)
			from = middle + 1;
		else
			to = middle;
	}
	return w->n_awaiting;
}

static bool take_event(struct vt_torch_walk *w, const uint8_t *element, struct vt_torch_wait *wait)
{
	uint64_t i = find_block(w, vt_load64(element + ELEMENT_BLOCK)),
		 stamp = w->result->waits.n + 1;

	if (i == w->n_awaiting || !vt_is_object(vt_load64(element + ELEMENT_EVENT)) ||
	    !unseen(w, i) || w->spare[i] == stamp)
		return false;
	w->spare[i] = stamp;
	*awaiting(w, i) -= UINT64_C(1) << 32;
	wait->blocks++;
	wait->bytes += awaiting_entry(w, i)->rec.size;
	return true;
}

/* n nodes of the deque, of which the first has the place at. */
static bool take_nodes(struct vt_torch_walk *w, const struct deque *d, uint64_t at, uint64_t n,
		       struct vt_torch_wait *wait)
{
	uint64_t nodes[PIECES], last = (d->finish.node - d->start.node) / 8;
	struct vt_memvec *vec = w->fixed->vec;

	if (vt_mem_read(w->src, d->start.node + 8 * at, nodes, n * 8))
		return false;
	for (uint64_t i = 0; i < n; i++) {
		if (!vt_is_object(nodes[i]) || (at + i == 0 && nodes[i] != d->start.first) ||
		    (at + i == last && nodes[i] != d->finish.first))
			return false;
		vec[i] = (struct vt_memvec){ .addr = nodes[i],
					     .buf = w->chunk + i * NODE_SIZE,
					     .len = NODE_SIZE };
	}
	if (vt_mem_readv(w->src, vec, n))
		return false;
	for (uint64_t i = 0; i < n; i++) {
		int from = at + i == 0 ? place_of(&d->start) : 0,
		    to = at + i == last ? place_of(&d->finish) : PER_NODE;

		for (int k = from; k < to; k++)
			if (!take_event(w, w->chunk + i * NODE_SIZE + k * ELEMENT, wait))
				return false;
	}
	return true;
}

static bool take_stream(struct vt_torch_walk *w, const uint8_t *slot, uint64_t *left)
{
	struct vt_torch_waits *waits = &w->result->waits;
	struct vt_torch_wait wait = { .device = (int8_t)slot[STREAM_DEVICE] };
	uint64_t n_nodes;
	struct deque d;
	int64_t n;

	_Static_assert(PIECES * NODE_SIZE <= CHUNK, "they are read at once");
	__builtin_memcpy(&d, slot + STREAM_EVENTS, sizeof(d));
	n = count_events(&d, *left);
	if (n < 0 || slot[STREAM_TYPE] != TYPE_CUDA || wait.device < 0 ||
	    wait.device >= VT_TORCH_MAX_DEVICES ||
	    !name_stream(w, vt_load64(slot + STREAM_ID), &wait))
		return false;
	if (!n)
		return true;
	n_nodes = (d.finish.node - d.start.node) / 8 + 1;
	for (uint64_t at = 0; at < n_nodes; at += PIECES)
		if (!take_nodes(w, &d, at, n_nodes - at < PIECES ? n_nodes - at : PIECES, &wait))
			return false;
	*left -= (uint64_t)n;
	waits->list[waits->n++] = wait;
	return true;
}

/* ---- all of them ---- */

static bool take_streams(struct vt_torch_walk *w, const struct vt_ska *table, uint64_t left)
{
	uint64_t n = vt_ska_slots(table), found = 0;
	uint8_t slots[16 * EVENTS_SLOT];

	for (uint64_t at = 0; at < n; at += 16) {
		uint64_t some = n - at < 16 ? n - at : 16;

		if (vt_mem_read(w->src, table->entries + at * EVENTS_SLOT, slots,
				some * EVENTS_SLOT))
			return false;
		for (uint64_t i = 0; i < some; i++) {
			if ((int8_t)slots[i * EVENTS_SLOT] < 0)
				continue;
			if (found++ == table->n || !take_stream(w, slots + i * EVENTS_SLOT, &left))
				return false;
		}
	}
	return found == table->n && !left;
}

/* How many events the blocks count; those without any are the waits' eventless ones. */
static uint64_t sum_events(struct vt_torch_walk *w)
{
	struct vt_torch_waits *waits = &w->result->waits;
	uint64_t sum = 0;

	for (uint64_t i = 0; i < w->n_awaiting; i++) {
		sum += unseen(w, i);
		if (unseen(w, i))
			continue;
		waits->eventless_blocks++;
		waits->eventless_bytes += awaiting_entry(w, i)->rec.size;
	}
	return sum;
}

static enum vt_torch_waits_state read_waits(struct vt_torch_walk *w)
{
	uint64_t events = sum_events(w);
	struct vt_ska table;

	if (!w->n_awaiting)
		return VT_TORCH_WAITS_KNOWN;
	if (w->block->event_count == NONE)
		return VT_TORCH_WAITS_NO_PLACE;
	if (!events)
		return VT_TORCH_WAITS_KNOWN;
	if (!w->layout->cuda_events)
		return VT_TORCH_WAITS_NO_PLACE;
	if (vt_mem_read(w->src, w->dca + w->layout->cuda_events, &table, sizeof(table)) ||
	    !vt_ska_plausible(&table))
		return VT_TORCH_WAITS_MISMATCH;
	if (events > MAX_EVENTS || table.n > VT_TORCH_MAX_WAITS || table.mask >= MAX_SLOTS)
		return VT_TORCH_WAITS_TOO_MANY;
	for (uint64_t i = 0; i < w->n_awaiting; i++)
		w->objects[i] = awaiting_entry(w, i)->rec.object;
	vt_torch_walk_order_by(w, w->objects, w->n_awaiting);
	memset(w->spare, 0, w->n_awaiting * sizeof(*w->spare));
	return take_streams(w, &table, events) ? VT_TORCH_WAITS_KNOWN : VT_TORCH_WAITS_MISMATCH;
}

static void forget(struct vt_torch_waits *waits, enum vt_torch_waits_state state)
{
	memset(waits, 0, sizeof(*waits));
	waits->state = state;
}

void vt_torch_walk_read_waits(struct vt_torch_walk *w)
{
	struct vt_torch_waits *waits = &w->result->waits;
	enum vt_torch_waits_state state = read_waits(w);

	if (state == VT_TORCH_WAITS_KNOWN)
		waits->state = state;
	else
		forget(waits, state);
}

void vt_torch_walk_settle_waits(struct vt_torch_device_result *result)
{
	struct vt_torch_waits *waits = &result->waits;

	if (result->result == VT_WALK_UNSTABLE ||
	    (waits->state == VT_TORCH_WAITS_MISMATCH && !result->certain))
		forget(waits, VT_TORCH_WAITS_CHANGED);
	else if (result->result != VT_WALK_COMPLETE)
		forget(waits, VT_TORCH_WAITS_UNREAD);
}

/* ---- later ---- */

static bool can_change(const struct vt_torch_walk *w)
{
	const struct vt_torch_waits *waits = &w->result->waits;
	uint64_t events = 0;

	for (uint32_t i = 0; i < waits->n; i++)
		events += waits->list[i].blocks;
	return waits->state == VT_TORCH_WAITS_MISMATCH || waits->eventless_blocks ||
	       events > w->n_awaiting;
}

/* How many events the blocks have now. */
static bool count_again(struct vt_torch_walk *w)
{
	uint32_t counts[PIECES];

	for (uint64_t at = 0; at < w->n_awaiting; at += PIECES) {
		uint64_t n = w->n_awaiting - at < PIECES ? w->n_awaiting - at : PIECES;

		for (uint64_t i = 0; i < n; i++)
			w->fixed->vec[i] = (struct vt_memvec){
				.addr = awaiting_entry(w, at + i)->rec.object +
					w->block->event_count,
				.buf = &counts[i],
				.len = sizeof(counts[i]),
			};
		if (vt_mem_readv(w->src, w->fixed->vec, n))
			return false;
		for (uint64_t i = 0; i < n; i++)
			*awaiting(w, at + i) = (uint32_t)*awaiting(w, at + i) | (uint64_t)counts[i]
											<< 32;
	}
	return true;
}

void vt_torch_walk_renew_waits(struct vt_torch_walk *w, struct vt_memsrc *src)
{
	if (!can_change(w))
		return;
	w->src = src;
	forget(&w->result->waits, VT_TORCH_WAITS_MISMATCH);
	if (count_again(w))
		vt_torch_walk_read_waits(w);
}
