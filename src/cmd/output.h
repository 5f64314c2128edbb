/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all commands that show a process have in common: the options for how it is shown, and where
 * the output goes.
 */
#ifndef VT_CMD_OUTPUT_H
#define VT_CMD_OUTPUT_H

#include <argp.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "cmd/arguments.h"
#include "report/save.h"
#include "report/writer.h"

/* Of text. */
#define VT_MIN_COLUMNS 40
#define VT_MAX_COLUMNS 500

enum vt_color_mode { VT_COLOR_AUTO, VT_COLOR_ALWAYS, VT_COLOR_NEVER };

struct vt_output {
	const char *json;       /* NULL no JSON, "-" standard output */
	const char *prometheus; /* the same of metrics; only of vt_prometheus_argp */
	enum vt_color_mode color;
	bool quiet;
	struct vt_writer_options writer;
};

/* The options that are not about threads, which vt_output_argp includes: for what shows none. */
extern const struct argp vt_format_argp;

/* The same and --prometheus. */
extern const struct argp vt_prometheus_argp;

/*
 * An argp child of a command: its input is a struct vt_output. A command's own keys begin at
 * VT_KEY_COMMAND, its own groups of options end at 8.
 */
extern const struct argp vt_output_argp;
#define VT_KEY_COMMAND 512
#define VT_OUTPUT_GROUP 9

/* --hide-layout RELEASE, of the commands that look for PyTorch's allocator (layouts.c). */
void vt_parse_hide_layout(struct argp_state *state, const char *release);
#define VT_HIDE_LAYOUT_DOC                                                                         \
	"Ignore RELEASE (\"all\": every release) in the table of known layouts, to check what is " \
	"found without it"

/*
 * After the options: width and colours of the terminal, progress, and handlers for SIGINT, SIGTERM,
 * SIGHUP and SIGQUIT that release whatever is stopped.
 */
void vt_output_begin(struct vt_output *output);

/*
 * First of all on an interrupt, in the signal handler: what it returns is said instead of the usual
 * text, unless NULL.
 */
void vt_output_on_interrupt(const char *(*act)(void));

/* Text from the target, so that a terminal shows it harmlessly. */
void vt_print_escaped(FILE *out, const char *text);

/* Whether standard output is for JSON or metrics, so that there is no text. */
bool vt_output_is_json_only(const struct vt_output *output);

/*
 * A usage error where two options write to one file, or both to standard output. A file may be
 * NULL: the option was not given.
 */
void vt_refuse_shared_file(const struct argp_state *state, const char *option, const char *file,
			   const char *other_option, const char *other_file);

/* A usage error where what is written would replace a file that is read; output may be NULL. */
void vt_refuse_overwrite(const struct argp_state *state, const char *option, const char *output,
			 const char *input);

/* To the file that --json names or to standard output; nothing without --json. */
struct vt_error *vt_output_json(const struct vt_output *output, vt_write_fn *write,
				const void *what);

/* To the file that --prometheus names or to standard output; nothing without it. */
struct vt_error *vt_output_prometheus(const struct vt_output *output, vt_write_fn *write,
				      const void *what);

/* To a file; "-" is standard output. */
struct vt_error *vt_output_file(const struct vt_output *output, vt_write_fn *write,
				const void *what, const char *path);

/* To standard output. */
struct vt_error *vt_output_text(const struct vt_output *output, vt_write_fn *write,
				const void *what);

#endif
