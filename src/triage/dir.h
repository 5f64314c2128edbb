/* SPDX-License-Identifier: Apache-2.0 */
/* The directory that a triage writes: report.json, summary.txt, and a report of each process. */
#ifndef VT_TRIAGE_DIR_H
#define VT_TRIAGE_DIR_H

#include <stdbool.h>

#include "base/arena.h"
#include "base/error.h"

#define VT_TRIAGE_REPORT "report.json"
#define VT_TRIAGE_SUMMARY "summary.txt"

/*
 * Creates the directory, or takes an existing one that is ours and has only files of an earlier
 * triage, which it removes (remove). Directories in it stay. If there is anything else, or another
 * triage uses it, nothing is changed. *lock is a descriptor: as long as any process has it open, no
 * other triage gets the directory; -1 if the file system has no locks.
 */
struct vt_error *vt_triage_dir_prepare(const char *path, bool remove, int *lock);

/*
 * The prefix that makes file names relative to `source` relative to `directory` (NULL: none); in
 * arena.
 */
const char *vt_triage_dir_prefix(const char *directory, const char *source, struct vt_arena *arena);

#endif
