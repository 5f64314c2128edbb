/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What it means that native code holds a block: known holders, by the names of static variables and
 * of classes on the way to it. A guess of where something is held becomes an answer only here.
 */
#ifndef VT_OWNERS_HOLDERS_H
#define VT_OWNERS_HOLDERS_H

#include "model/owners.h"

struct vt_known_holder {
	const char *glob; /* of the demangled name of a variable, or of a class */
	enum vt_category category;
	const char *name; /* ours: what the block is */
};

/*
 * The first of them that has this name; NULL: none. All are in one table, the better answers
 * first.
 */
const struct vt_known_holder *vt_known_holder(const char *name);

#endif
