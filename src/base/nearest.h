/* SPDX-License-Identifier: Apache-2.0 */
/* A word that was mistyped. */
#ifndef VT_BASE_NEAREST_H
#define VT_BASE_NEAREST_H

/*
 * How many letters must be added, removed, changed or swapped with the next to make b of a; at most
 * VT_NEAREST_FAR.
 */
unsigned int vt_word_distance(const char *a, const char *b);

#define VT_NEAREST_FAR 100 /* also for words that are too long to be compared */

#endif
