/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap html SAVED.json...: a page of what was saved. */
#include <string.h>

#include "base/cleanup.h"
#include "base/vec.h"
#include "cmd/cmd.h"
#include "cmd/output.h"
#include "report/html/html.h"
#include "report/html/saved.h"
#include "report/html/saved_job.h"

#define MAX_FILES 1024

struct arguments {
	const char *output_path; /* NULL: beside the first file */
	VT_VEC(const char *) paths;
	struct vt_output output;
};

static const struct argp_option options[] = {
	{ "output", 'o', "FILE", 0,
	  "Write the page to FILE (default: beside the first file, with .html instead of .json); - is "
	  "standard output",
	  0 },
	{ 0 },
};

/* "saved.json": "saved.html" */
static char *beside(const char *path)
{
	size_t n = strlen(path);
	char *name;

	if (n > 5 && !strcmp(path + n - 5, ".json"))
		n -= 5;
	return asprintf(&name, "%.*s.html", (int)n, path) < 0 ? NULL : name;
}

/* The page must not replace what it shows. */
static void refuse_inputs(const struct argp_state *state, const struct arguments *args)
{
	VT_FREE char *own = args->output_path ? NULL : beside(args->paths.data[0]);
	const char *page = args->output_path ? args->output_path : own;

	for (size_t i = 0; i < args->paths.n; i++)
		vt_refuse_overwrite(state, args->output_path ? "--output" : "the page", page,
				    args->paths.data[i]);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;
	const char **path;

	switch (key) {
	case 'o':
		args->output_path = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (args->paths.n == MAX_FILES)
			argp_error(state, "at most %d files can be in one page", MAX_FILES);
		path = vt_vec_append(&args->paths);
		if (!path)
			argp_failure(state, VT_EXIT_NOTHING, ENOMEM, "FILE");
		else
			*path = arg;
		return 0;
	case ARGP_KEY_END:
		if (!args->paths.n)
			argp_error(state, "a file is expected, saved by --json=FILE");
		if (!args->output_path && !strcmp(args->paths.data[0], "-"))
			argp_error(state, "--output is expected with standard input");
		refuse_inputs(state, args);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "SAVED.json...",
	.doc = "Make a page with pictures of reports, of stacks, of a diff or of a job that were saved by "
	       "--json=FILE. The page is one file; it needs nothing but a browser. Several reports "
	       "of one process show how it changed.\v"
	       "Exit status: 0 the page was written; 2 a file cannot be read, or is none of "
	       "vramtap's; 3 not permitted to read a file; 64 wrong usage.",
};

static struct vt_error *load(const struct arguments *args, struct vt_html_saved *saved, size_t *n)
{
	for (; *n < args->paths.n; (*n)++) {
		VT_TRY(vt_html_saved_init(args->paths.data[*n], &saved[*n]));
		if (*n && !vt_html_can_join(saved[0].kind, saved[*n].kind)) {
			vt_html_saved_deinit(&saved[*n]);
			return vt_error_create(VT_ERR_FORMAT,
					       "%s: only reports can be together in a page",
					       args->paths.data[*n]);
		}
	}
	return NULL;
}

static struct vt_error *write_page(const struct arguments *args, const struct vt_html_saved *saved,
				   size_t n, const struct vt_html_attached *attached)
{
	VT_FREE struct vt_html_document *documents = calloc(n, sizeof(*documents));
	VT_FREE char *own = args->output_path ? NULL : beside(args->paths.data[0]);
	const char *path = args->output_path ? args->output_path : own;
	struct vt_html_page page = { .documents = documents,
				     .n = n,
				     .attachments = attached->chosen.data,
				     .n_attachments = attached->chosen.n };
	VT_FREE char *title = NULL;

	if (!documents || !path)
		return &vt_enomem;
	for (size_t i = 0; i < n; i++)
		documents[i] = vt_html_saved_document(&saved[i]);
	if (asprintf(&title, "vramtap: %s", documents[0].name) < 0)
		return &vt_enomem;
	page.title = title;
	return vt_output_file(&args->output, vt_write_page_html, &page, path);
}

static struct vt_error *attach_and_write(const struct arguments *args, struct vt_html_saved *saved,
					 size_t n)
{
	struct vt_html_attached attached = { 0 };
	struct vt_error *err = saved[0].kind == VT_HTML_JOB ?
				       vt_html_saved_job_attach(&saved[0], &attached) :
				       NULL;

	if (!err)
		err = write_page(args, saved, n, &attached);
	vt_html_attached_deinit(&attached);
	return err;
}

int vt_cmd_html(int argc, char **argv)
{
	struct arguments args = { 0 };
	VT_FREE struct vt_html_saved *saved = NULL;
	size_t n = 0;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);
	saved = calloc(args.paths.n, sizeof(*saved));

	VT_ERROR struct vt_error *err = saved ? load(&args, saved, &n) : &vt_enomem;

	if (!err)
		err = attach_and_write(&args, saved, n);

	int status = err ? vt_exit_with(err) : 0;

	for (size_t i = 0; i < n; i++)
		vt_html_saved_deinit(&saved[i]);
	vt_vec_deinit(&args.paths);
	return status;
}
