/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who holds the blocks of one report, so that two reports can be compared: owners by category, and
 * by the variable or the attribute where the container is that their names lead to. Names are
 * folded: what changes from report to report though nothing was allocated (indexes, and the line
 * where a function is) is left out, so losses[3] and losses[412] are both losses[*], and losses
 * holds them. Where the category tells what the blocks are (parameters), the variable is enough.
 */
#ifndef VT_REPORT_DIFF_KEEPERS_H
#define VT_REPORT_DIFF_KEEPERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/map.h"
#include "base/str.h"
#include "base/vec.h"
#include "model/model.h"

struct vt_keeper {
	const char *variable; /* folded, hostile; "": nobody was found */
	/* to what it holds: "losses[*] in main (train.py)"; "": as the variable, or several */
	const char *path;
	enum vt_category category;
	uint64_t bytes, blocks, tensors;
	bool certain; /* of all its blocks */
	bool wide;    /* path has all keys folded, not only numbers */
};

struct vt_keepers {
	struct vt_arena arena;
	struct vt_map index;
	VT_VEC(struct vt_keeper) items;
	VT_VEC(uint32_t) of_owner; /* of each of model.owners: index in items */
};

/* False when out of memory. deinit in either case. */
bool vt_keepers_init(struct vt_keepers *keepers, const struct vt_model *model);
void vt_keepers_deinit(struct vt_keepers *keepers);

/* NULL: there is none. */
const struct vt_keeper *vt_keepers_find(const struct vt_keepers *keepers, const char *variable,
					enum vt_category category);

uint64_t vt_keeper_hash(const char *variable, enum vt_category category);

/* "losses in main (train.py)", "self.log", "nobody found": what a line begins with. */
const char *vt_keeper_title(const char *variable, enum vt_category category);

/* "activations held by a graph, through losses[*]; perhaps others hold it, too" */
void vt_keeper_add_how(struct vt_str *text, const char *variable, const char *path,
		       enum vt_category category, bool certain);

/* " grew from 12 to 412 tensors, +1.2 GiB"; from 12 to 12: " grew by 1.2 GiB in 12 tensors" */
void vt_keeper_add_growth(struct vt_str *text, uint64_t tensors_before, uint64_t tensors_after,
			  int64_t bytes);

#endif
