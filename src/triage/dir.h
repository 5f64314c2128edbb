/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that a triage leaves: report.json, summary.txt, and a report of each process. */
#ifndef VT_TRIAGE_DIR_H
#define VT_TRIAGE_DIR_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

#define VT_TRIAGE_REPORT "report.json"
#define VT_TRIAGE_SUMMARY "summary.txt"

/*
 * Makes the directory, or takes one that is ours and has nothing but what an earlier triage left, and (remove) removes that. Directories
 * in it are left alone. Nothing is touched when there is anything else, or when another triage has it: *lock is a descriptor; as long as
 * it is open in any process nobody else gets the directory. -1 where locks are not to be had.
 */
struct vt_error *vt_triage_dir_prepare(const char *path, bool remove, int *lock);

/* What goes before the names of files that are relative to `source`, so that they are relative to `directory` (NULL: none); in arena. */
const char *vt_triage_dir_prefix(const char *directory, const char *source, struct vt_arena *arena);

#endif
