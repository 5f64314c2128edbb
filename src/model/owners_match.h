/* SPDX-License-Identifier: Apache-2.0 */
/* Owners by a pattern that a person typed. */
#ifndef VT_MODEL_OWNERS_MATCH_H
#define VT_MODEL_OWNERS_MATCH_H

#include "model/model.h"

/*
 * Whether the name, variable, module or type of an owner matches, or its category's name does. A
 * '*' stands for any text and a '?' for one character; a pattern without them may be anywhere in
 * the text. Brackets stand for themselves, as names have many; with "[*]", which
 * vt_owners_groups_init() has for any index, a pattern may be anywhere, too.
 */
bool vt_owner_matches(const struct vt_model_owner *owner, const char *pattern);

/* Names that are like the pattern, the nearest first. How many; they are the model's own. */
enum { VT_OWNERS_NEAREST = 5 };
size_t vt_owners_nearest(const struct vt_model *model, const char *pattern,
			 const char *names[VT_OWNERS_NEAREST]);

#endif
