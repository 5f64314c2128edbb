/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap diff A B: two reports that were saved by --json. */
#include "report/diff/diff.h"

#include <string.h>

#include "cmd/cmd.h"
#include "cmd/output.h"
#include "report/json/load.h"

enum {
	KEY_LIMIT = VT_KEY_COMMAND,
	KEY_TRACES,
};

#define DEFAULT_LIMIT 10
#define MAX_LIMIT 1000000

struct arguments {
	const char *paths[2];
	struct vt_diff_options what;
	struct vt_output output;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to show:", 1 },
	{ "limit", KEY_LIMIT, "N", 0,
	  "Show at most N places that allocate, and N owners (default 10; 0 is all)", 0 },
	{ "traces", KEY_TRACES, NULL, 0, "Show the backtraces of each place, and how each changed",
	  0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		return 0;
	case KEY_LIMIT:
		args->what.limit = (size_t)vt_parse_number(state, "--limit", arg, 0, MAX_LIMIT);
		return 0;
	case KEY_TRACES:
		args->what.traces = true;
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 1)
			argp_error(state, "two reports are expected");
		args->paths[state->arg_num] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!args->paths[1])
			argp_error(state,
				   "two reports are expected, saved by vramtap report --json=FILE");
		if (!strcmp(args->paths[0], "-") && !strcmp(args->paths[1], "-"))
			argp_error(state, "only one of the reports can come from standard input");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &vt_format_argp, 0, NULL, 0 }, { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "BEFORE AFTER",
	.doc = "Compare two reports saved by vramtap report --json=FILE or vramtap watch "
	       "--then=FILE: how the GPU memory changed, and which places in the program allocated "
	       "it. - is standard input.\v"
	       "Exit status: 0 everything was compared; 1 partial (it says what was not compared "
	       "and why); 2 a report cannot be read, or there is nothing to compare; 3 not "
	       "permitted to read a file; 64 wrong usage.",
};

struct document {
	const struct vt_diff *diff;
	const struct vt_diff_options *what;
};

static struct vt_error *write_text(const void *what, const struct vt_writer_options *writer_options,
				   FILE *out)
{
	const struct document *document = what;

	return vt_diff_write_text(document->diff, document->what, writer_options, out);
}

static struct vt_error *write_json(const void *what, const struct vt_writer_options *writer_options,
				   FILE *out)
{
	(void)writer_options; /* those are for people */
	return vt_diff_write_json(((const struct document *)what)->diff, out);
}

static struct vt_error *compare(const struct arguments *args, struct vt_model *models, int *status)
{
	struct vt_diff diff;
	struct document document = { .diff = &diff, .what = &args->what };
	struct vt_error *err;

	for (int i = 0; i < 2; i++)
		VT_TRY(vt_report_load(args->paths[i], &models[i]));
	VT_TRY(vt_diff_create(&diff, &models[0], &models[1]));
	*status = (int)diff.completeness;
	err = vt_output_json(&args->output, write_json, &document);
	if (!err && !vt_output_is_json_only(&args->output))
		err = vt_output_text(&args->output, write_text, &document);
	vt_diff_deinit(&diff);
	return err;
}

int vt_cmd_diff(int argc, char **argv)
{
	struct arguments args = { .what.limit = DEFAULT_LIMIT };
	struct vt_model models[2];
	int status = VT_EXIT_NOTHING;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);
	vt_model_init(&models[0]);
	vt_model_init(&models[1]);

	VT_ERROR struct vt_error *err = compare(&args, models, &status);

	if (err)
		status = vt_exit_with(err);
	vt_model_deinit(&models[0]);
	vt_model_deinit(&models[1]);
	return status;
}
