/* SPDX-License-Identifier: Apache-2.0 */
/* Every allocation that the driver knows of: the parts of VT_OP_RANGES. */
#ifndef VT_HELPER_RANGES_H
#define VT_HELPER_RANGES_H

#include <stdint.h>

#include "vramtap/helper_abi.h"

/* ---- one address ---- */

struct vt_probe {
	struct vt_helper_shared *shared;
	int by_range;       /* cuMemGetAddressRange() answers */
	int error;          /* CUresult with which it has not; 0 none */
	int together;       /* attributes can be asked in one question */
	int mappings_apart; /* but not those of mappings */
};

/* What is at this address: 0 nothing. Else rec is filled, and its range contains at. */
int vt_helper_what_is_at(struct vt_probe *probe, uint64_t at, struct vt_range_rec *rec);

/* ---- all addresses ---- */

#define VT_PROBES_PER_LOOK 1000 /* at the clock */

enum vt_walk_outcome { VT_WALK_DONE, VT_WALK_NO_ROOM, VT_WALK_OUT_OF_TIME };

struct vt_ranges_walk {
	struct vt_probe probe;
	struct vt_ranges_answer *answer; /* it also has where a walk goes on */
	struct vt_ranges_args args;
	struct vt_range_rec *out;
	uint64_t max; /* records */
	uint64_t deadline_ns;
	uint64_t next_look;        /* at the clock, by number of questions */
	struct vt_range_area area; /* which is walked */
};

/* Whether anything is at this address; counts the question. */
int vt_helper_walk_ask(struct vt_ranges_walk *w, uint64_t at, struct vt_range_rec *rec);

/* Time or questions have run out. */
int vt_helper_walk_is_over(struct vt_ranges_walk *w);

/* Takes one that was found. 0: there is no room. */
int vt_helper_walk_keep(struct vt_ranges_walk *w, const struct vt_range_rec *rec);

/* Walks w->area, or the rest of it. */
enum vt_walk_outcome vt_helper_walk_area(struct vt_ranges_walk *w);

#endif
