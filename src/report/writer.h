/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writers print a finished model. They compute nothing and escape every string that came from the
 * target.
 */
#ifndef VT_REPORT_WRITER_H
#define VT_REPORT_WRITER_H

#include <stdbool.h>
#include <stdio.h>

#include "base/error.h"
#include "model/model.h"
#include "model/owners_by.h"

/* The schema of a report's JSON. */
#define VT_REPORT_SCHEMA "vramtap-report"
#define VT_REPORT_SCHEMA_VERSION 1 /* raised when a field goes or changes its meaning */

/* Which threads the text shows, and how. JSON has all of them. */
enum vt_threads_shown {
	VT_THREADS_GROUPS, /* those with equal stacks together, long stacks shortened */
	VT_THREADS_ALL,    /* each with every frame and all that is known */
	VT_THREADS_PYTHON, /* the same, only those that run Python */
	VT_THREADS_MAIN,   /* the same, only the main thread */
};

/* What the reader can do next, in the commands of the current interface. */
struct vt_writer_hints {
	const char *all_threads; /* after titles: what shows more */
	const char *all_blocks;
	const char *all_sites;
	const char *owners;
	const char *json;    /* what writes all as JSON; NULL: the command itself, with --json */
	const char *record;  /* what records allocations */
	const char *devices; /* what asks the driver, if it was not asked; NULL nothing */
	const char *frames;  /* what selects a Python frame; NULL nothing */
};

extern const struct vt_writer_hints vt_hints_command_line; /* report/text/line.c */

struct vt_writer_options {
	int columns; /* of the terminal; 0: 100 */
	bool colour;
	bool ascii;           /* no box or block characters: the locale or terminal is not UTF-8 */
	bool for_others;      /* a file that is written may be read by other users */
	bool compact;         /* JSON for programs only: without blanks and line breaks */
	bool all_blocks;      /* --blocks */
	bool map;             /* --map */
	bool all_ranges;      /* --ranges */
	bool all_sites;       /* --sites */
	bool all_owners;      /* --owners */
	const char *owner;    /* --owner: the pattern; NULL none */
	bool owners_by_given; /* --by */
	enum vt_owners_by owners_by;
	enum vt_threads_shown threads;
	const struct vt_writer_hints *hints; /* NULL: of the command line */
};

/*
 * Writes a document; the declaration of each writer names its type. All writers have this one type:
 * what saves, pages or names files need not know what it writes. Fails only with VT_ERR_OS (write
 * error) or VT_ERR_NOMEM.
 */
typedef struct vt_error *vt_write_fn(const void *what, const struct vt_writer_options *options,
				     FILE *out);

/* Of a struct vt_model. */
vt_write_fn vt_write_report_text;
vt_write_fn vt_write_report_json;
/* What further looks showed, alone: below a text that was written before them. */
vt_write_fn vt_write_again_text;

/* What vramtap stacks found of one process. */
struct vt_stacks_result {
	pid_t pid;
	struct vt_model *model;
	struct vt_error *err; /* why there is nothing in the model, or NULL */
};

struct vt_stacks_document {
	struct vt_stacks_result *results;
	size_t n;
	const char *tool_version;
	struct timespec when;
};

/*
 * Of a struct vt_model: where the threads of one process are, without what a report says about
 * memory.
 */
vt_write_fn vt_write_stacks_text;

/* Of a struct vt_stacks_document: all processes, those with errors too. */
vt_write_fn vt_write_stacks_json;

#endif
