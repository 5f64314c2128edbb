/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap diff A B: two reports that were saved by --json. */
#include "report/diff/diff.h"

#include <string.h>

#include "cmd/cmd.h"
#include "cmd/documents.h"
#include "cmd/output.h"
#include "json/in.h"
#include "report/html/html.h"
#include "report/html/saved.h"
#include "report/json/load.h"

enum {
	KEY_LIMIT = VT_KEY_COMMAND,
	KEY_TRACES,
	KEY_HTML,
};

#define DEFAULT_LIMIT 10
#define MAX_LIMIT 1000000

struct arguments {
	const char *paths[2];
	const char *html; /* a file; NULL none */
	struct vt_diff_options what;
	struct vt_output output;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to show:", 1 },
	{ "limit", KEY_LIMIT, "N", 0,
	  "Show at most N places that allocate, and N owners (default 10; 0 is all)", 0 },
	{ "traces", KEY_TRACES, NULL, 0, "Show the backtraces of each place, and how each changed",
	  0 },
	{ "html", KEY_HTML, "FILE", 0,
	  "Write a page with pictures of what changed, and of both reports, to FILE; - is standard "
	  "output, instead of the text",
	  0 },
	{ 0 },
};

static bool page_is_stdout(const struct arguments *args)
{
	return args->html && !strcmp(args->html, "-");
}

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
	case KEY_HTML:
		args->html = arg;
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
		if (args->html && (!strcmp(args->paths[0], "-") || !strcmp(args->paths[1], "-")))
			argp_error(state, "--html needs both reports as files");
		vt_refuse_shared_file(state, "--html", args->html, "--json", args->output.json);
		for (int i = 0; i < 2; i++) {
			vt_refuse_overwrite(state, "--html", args->html, args->paths[i]);
			vt_refuse_overwrite(state, "--json", args->output.json, args->paths[i]);
		}
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

/* The diff, then both reports: the very texts that were compared. */
static struct vt_error *write_page(const struct arguments *args, const struct vt_str *texts,
				   const struct document *diff)
{
	struct vt_html_saved saved[2];
	struct vt_html_document documents[3] = { { .write = write_json, .what = diff } };
	const struct vt_html_page page = { .title = "vramtap: what changed",
					   .documents = documents,
					   .n = 3 };
	struct vt_error *err;

	VT_TRY(vt_html_saved_init_text(args->paths[0], &texts[0], &saved[0]));
	err = vt_html_saved_init_text(args->paths[1], &texts[1], &saved[1]);
	if (!err) {
		documents[1] = vt_html_saved_document(&saved[0]);
		documents[2] = vt_html_saved_document(&saved[1]);
		err = vt_output_file(&args->output, vt_write_page_html, &page, args->html);
		vt_html_saved_deinit(&saved[1]);
	}
	vt_html_saved_deinit(&saved[0]);
	return err;
}

/* Once: a file may be replaced at any time. The text is kept for the page. */
static struct vt_error *load(const struct arguments *args, const char *path, struct vt_str *text,
			     struct vt_model *model)
{
	struct vt_error *err;

	VT_TRY(vt_json_in_read(path, text));
	err = vt_report_load_text(vt_str_get(text), text->n, model);
	if (!args->html)
		vt_str_deinit(text);
	return err ? vt_error_prefix(err, "%s", strcmp(path, "-") ? path : "standard input") : NULL;
}

static struct vt_error *compare(const struct arguments *args, struct vt_str *texts,
				struct vt_model *models, int *status)
{
	struct vt_diff diff;
	struct document document = { .diff = &diff, .what = &args->what };
	struct vt_error *err;

	for (int i = 0; i < 2; i++)
		VT_TRY(load(args, args->paths[i], &texts[i], &models[i]));
	VT_TRY(vt_diff_create(&diff, &models[0], &models[1]));
	*status = (int)diff.completeness;
	err = vt_output_json(&args->output, write_json, &document);
	if (args->html)
		vt_keep_error(&err, write_page(args, texts, &document));
	if (!vt_output_is_json_only(&args->output) && !page_is_stdout(args))
		vt_keep_error(&err, vt_output_text(&args->output, write_text, &document));
	vt_diff_deinit(&diff);
	return err;
}

int vt_cmd_diff(int argc, char **argv)
{
	struct arguments args = { .what.limit = DEFAULT_LIMIT };
	struct vt_str texts[2] = { 0 };
	struct vt_model models[2];
	int status = VT_EXIT_NOTHING;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);
	vt_model_init(&models[0]);
	vt_model_init(&models[1]);

	VT_ERROR struct vt_error *err = compare(&args, texts, models, &status);

	if (err)
		status = vt_exit_with(err);
	for (int i = 0; i < 2; i++) {
		vt_model_deinit(&models[i]);
		vt_str_deinit(&texts[i]);
	}
	return status;
}
