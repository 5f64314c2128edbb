/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The addresses of one area, asked one after the other, because the driver has no list to give out.
 * In steps of 2 MiB, the driver's pages. A page that small allocations share is walked in slots of
 * 512 bytes, and ever faster where it is free. If its first bytes are free, it looks empty: such
 * pages are asked for again, at half the distance each time, as long as that is cheap or finds
 * something. Reservations of more than 64 GiB (each memory pool has one, twice as large as the
 * device) are first asked for in steps of 32 MiB, the unit of pools.
 */
#include "vramtap/freestanding.h"

#include <string.h>

#include "ranges.h"

#define KIB UINT64_C(1024)
#define PAGE VT_AREA_PAGE
#define SLOT UINT64_C(512)
#define WINDOW (16 * PAGE)
#define BACK 4 /* empty windows that are looked at before a full one */

/*
 * Every slot of shared pages is asked for as long as all of them together miss no more often than
 * this. From then on, so many behind each allocation, and ever fewer of those behind them.
 */
#define MISSES_IN_ALL 512
#define MISSES_BEHIND 32
#define MAX_DOUBLINGS 6 /* then every 32 KiB */

/*
 * Pages that look empty are asked for again if one that allocations share is so near, in pages. By
 * number of questions: 2,048 take 0.3 ms.
 */
#define NEAR 64
#define AGAIN_ANYWAY 2048
#define AGAIN_IF_FOUND 65536

static uint64_t up(uint64_t value, uint64_t unit)
{
	return (value + unit - 1) / unit * unit;
}

static uint64_t next_page(uint64_t at)
{
	return (at / PAGE + 1) * PAGE;
}

/* ---- which pages have something ---- */

static uint64_t first_page(const struct vt_ranges_walk *w)
{
	return w->area.start / PAGE * PAGE;
}

static uint64_t n_pages(const struct vt_ranges_walk *w)
{
	return (up(w->area.end, PAGE) - first_page(w)) / PAGE;
}

static int has(const uint8_t *pages, uint64_t page)
{
	return pages[page / 8] >> (page % 8) & 1;
}

static void set(uint8_t *pages, uint64_t page)
{
	pages[page / 8] |= (uint8_t)(1 << (page % 8));
}

static int looks_empty(const struct vt_ranges_walk *w, uint64_t page)
{
	const struct vt_area_walk *a = &w->answer->walk;

	return has(a->near, page) && !has(a->taken, page);
}

static int is_shared(const struct vt_range_rec *rec)
{
	return rec->size < PAGE && (rec->kind == VT_RANGE_DEVICE || rec->kind == VT_RANGE_DATA ||
				    rec->kind == VT_RANGE_ARRAY || rec->kind == VT_RANGE_HOST);
}

static void take_pages(struct vt_ranges_walk *w, const struct vt_range_rec *rec, uint64_t at)
{
	struct vt_area_walk *a = &w->answer->walk;
	uint64_t first = first_page(w), n = n_pages(w), page = (at - first) / PAGE;
	uint64_t end = rec->start + rec->size;

	if (n > VT_AREA_MAX_PAGES || has(a->taken, page))
		return; /* a huge area is walked once */
	for (uint64_t i = page; i < n && first + i * PAGE < end; i++)
		set(a->taken, i);
	if (!is_shared(rec) || a->stride)
		return; /* later ones were not asked for at each distance */
	for (uint64_t i = page < NEAR ? 0 : page - NEAR; i < n && i <= page + NEAR; i++)
		set(a->near, i);
}

/* ---- page by page, or closely ---- */

static uint64_t step_behind(uint64_t misses)
{
	uint64_t doublings = misses < MISSES_BEHIND ? 0 : misses - MISSES_BEHIND + 1;

	return SLOT << (doublings < MAX_DOUBLINGS ? doublings : MAX_DOUBLINGS);
}

static void asked_every(struct vt_ranges_answer *answer, uint64_t bytes)
{
	if (bytes > SLOT && bytes > answer->step_bytes)
		answer->step_bytes = bytes;
}

/* Nothing is at walk.at. */
static void step(struct vt_ranges_answer *answer)
{
	struct vt_area_walk *a = &answer->walk;

	if (a->at >= a->close_end) {
		a->at = next_page(a->at);
	} else if (answer->misses < MISSES_IN_ALL) {
		answer->misses++;
		a->at += SLOT;
	} else {
		uint64_t size = step_behind(a->misses++);

		a->at = a->at + size < a->close_end ? a->at + size : a->close_end;
		asked_every(answer, size);
	}
}

/* A large step led here: what it stepped over is asked for first. */
static int steps_back(struct vt_area_walk *a, const struct vt_range_rec *rec)
{
	uint64_t missed;

	if (a->misses <= MISSES_BEHIND || a->at >= a->close_end)
		return 0;
	missed = a->at - step_behind(a->misses - 1);
	a->misses = 0;
	if (rec->start <= missed + SLOT)
		return 0;
	a->at = missed + SLOT;
	return 1;
}

/* The address behind an allocation. */
static uint64_t behind(const struct vt_range_rec *rec, uint64_t at)
{
	uint64_t next = rec->start + rec->size;

	return next <= at ? at + SLOT : up(next, SLOT);
}

/* From walk.at up to end; an allocation may reach beyond it. */
static enum vt_walk_outcome walk_closely(struct vt_ranges_walk *w, uint64_t end)
{
	struct vt_area_walk *a = &w->answer->walk;

	while (a->at < end) {
		uint64_t at = a->at;
		struct vt_range_rec rec;

		if (vt_helper_walk_is_over(w))
			return VT_WALK_OUT_OF_TIME;
		if (!vt_helper_walk_ask(w, at, &rec)) {
			step(w->answer);
			continue;
		}
		if (steps_back(a, &rec))
			continue;
		if (!vt_helper_walk_keep(w, &rec))
			return VT_WALK_NO_ROOM;
		take_pages(w, &rec, at);
		a->misses = 0;
		a->at = behind(&rec, at);
		if (rec.size < PAGE)
			a->close_end = up(a->at, PAGE);
	}
	return VT_WALK_DONE;
}

/* ---- a huge area ---- */

static int has_something(struct vt_ranges_walk *w, uint64_t from, uint64_t end)
{
	struct vt_range_rec rec;

	for (uint64_t at = from; at < end; at += PAGE)
		if (vt_helper_walk_ask(w, at, &rec))
			return 1;
	return 0;
}

/*
 * Neighbouring reservations are one area: what is smaller than a window can lie in windows before
 * the one where something was met first, or at the end. Where to begin, behind what was walked.
 */
static uint64_t go_back(struct vt_ranges_walk *w, uint64_t at)
{
	uint64_t walked = w->answer->walk.walked, begin = at - WINDOW;

	for (int empty = 0; empty < BACK && at >= walked + 2 * WINDOW && !vt_helper_walk_is_over(w);
	     empty++) {
		at -= WINDOW;
		if (!has_something(w, at - WINDOW, at))
			continue;
		begin = at - WINDOW;
		empty = -1;
	}
	return begin > walked ? begin : walked;
}

/* A window is walked closely if something is at its start, or in the one before; and the last. */
static enum vt_walk_outcome walk_huge(struct vt_ranges_walk *w)
{
	struct vt_area_walk *a = &w->answer->walk;
	uint64_t end = w->area.end;
	int close = 1, skipped = 0;

	while (a->at < end) {
		uint64_t window_end = up(a->at + 1, WINDOW) < end ? up(a->at + 1, WINDOW) : end;
		uint64_t n = w->answer->n_ranges;
		struct vt_range_rec rec;
		enum vt_walk_outcome outcome;

		if (vt_helper_walk_is_over(w))
			return VT_WALK_OUT_OF_TIME;
		if (!close && window_end < end && !vt_helper_walk_ask(w, a->at, &rec)) {
			a->at = window_end;
			skipped = 1;
			continue;
		}
		if (!close && skipped)
			a->at = go_back(w, a->at);
		outcome = walk_closely(w, window_end);
		if (outcome != VT_WALK_DONE)
			return outcome;
		a->walked = a->at;
		close = w->answer->n_ranges > n;
		skipped = 0;
	}
	return VT_WALK_DONE;
}

/* ---- pages that look empty ---- */

static enum vt_walk_outcome look_again(struct vt_ranges_walk *w, uint64_t page)
{
	struct vt_area_walk *a = &w->answer->walk;
	uint64_t start = first_page(w) + page * PAGE, end = start + PAGE;
	enum vt_walk_outcome outcome;

	if (end > w->area.end)
		end = w->area.end;
	for (uint64_t at = start + a->stride; !a->at && at < end; at += 2 * a->stride) {
		struct vt_range_rec rec;

		if (at < w->area.start || !vt_helper_walk_ask(w, at, &rec))
			continue;
		a->found = 1;
		a->at = start > w->area.start ? start : up(w->area.start, SLOT);
		a->close_end = end;
		a->misses = 0;
	}
	outcome = a->at ? walk_closely(w, end) : VT_WALK_DONE;
	if (outcome == VT_WALK_DONE)
		a->at = 0;
	return outcome;
}

static uint64_t count_empty(const struct vt_ranges_walk *w)
{
	uint64_t n = n_pages(w), count = 0;

	for (uint64_t page = 0; page < n; page++)
		count += (uint64_t)looks_empty(w, page);
	return count;
}

/* Whether this distance is worth its questions, which count. */
static int is_worth_it(struct vt_ranges_walk *w)
{
	struct vt_area_walk *a = &w->answer->walk;
	uint64_t questions = count_empty(w) * (PAGE / (2 * a->stride));

	if (!questions || (a->again + questions > AGAIN_ANYWAY &&
			   (!a->found_before || w->answer->again + questions > AGAIN_IF_FOUND)))
		return 0;
	a->again += questions;
	w->answer->again += questions;
	return 1;
}

static enum vt_walk_outcome walk_again(struct vt_ranges_walk *w)
{
	struct vt_area_walk *a = &w->answer->walk;
	uint64_t n = n_pages(w);

	for (; a->stride >= SLOT; a->stride /= 2) {
		if (a->page == 0 && !is_worth_it(w))
			break;
		for (; a->page < n; a->page++) {
			enum vt_walk_outcome outcome;

			if (vt_helper_walk_is_over(w))
				return VT_WALK_OUT_OF_TIME;
			if (!looks_empty(w, a->page) && !a->at)
				continue;
			outcome = look_again(w, a->page);
			if (outcome != VT_WALK_DONE)
				return outcome;
		}
		a->page = 0;
		a->found_before = a->found;
		a->found = 0;
	}
	if (count_empty(w))
		asked_every(w->answer, 2 * a->stride);
	return VT_WALK_DONE;
}

enum vt_walk_outcome vt_helper_walk_area(struct vt_ranges_walk *w)
{
	struct vt_area_walk *a = &w->answer->walk;
	int is_huge = w->area.end - w->area.start > VT_AREA_MAX;
	enum vt_walk_outcome outcome;

	if (!a->stride) {
		a->walked = a->walked ? a->walked : w->area.start;
		if (!a->at)
			a->at = up(w->area.start, SLOT);
		outcome = is_huge ? walk_huge(w) : walk_closely(w, w->area.end);
		if (outcome != VT_WALK_DONE)
			return outcome;
		a->at = 0;
		a->stride = PAGE / 2;
	}
	return is_huge ? VT_WALK_DONE : walk_again(w);
}
