/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap stacks PID..., or --core CORE: where each thread is. No code runs in the process. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "cmd/again.h"
#include "cmd/cmd.h"
#include "collect/collect.h"
#include "cmd/documents.h"
#include "cmd/options_core.h"
#include "cmd/output.h"
#include "base/progress.h"
#include "report/html/html.h"
#include "report/profile/threads.h"
#include "report/writer.h"

enum {
	KEY_NATIVE = VT_KEY_COMMAND,
	KEY_PYTHON,
	KEY_MERGED,
	KEY_LOCALS,
	KEY_NO_STOP,
	KEY_READ_ONLY,
	KEY_TIMEOUT,
	KEY_DEBUGINFOD,
	KEY_DOCUMENT, /* and one for each of the documents */
};

enum { DOCUMENT_SPEEDSCOPE, DOCUMENT_FOLDED, DOCUMENT_HTML, N_DOCUMENTS };

/* Of a struct vt_stacks_document. */
static const struct vt_document documents[N_DOCUMENTS] = {
	[DOCUMENT_SPEEDSCOPE] = { "--speedscope", vt_write_stacks_speedscope, NULL, false },
	[DOCUMENT_FOLDED] = { "--folded", vt_write_stacks_folded, NULL, false },
	[DOCUMENT_HTML] = { "--html", vt_write_stacks_html, NULL, false },
};

struct arguments {
	VT_VEC(pid_t) pids;
	struct vt_subject subject; /* without its pid */
	struct vt_collect_options collect;
	struct vt_output output;
	struct vt_again_choice again;
	const char *documents[N_DOCUMENTS]; /* files; NULL none, "-" standard output */
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to show:", 1 },
	{ "merged", KEY_MERGED, NULL, 0,
	  "Native and Python frames, each where it belongs (default)", 0 },
	{ "native", KEY_NATIVE, NULL, 0, "Native frames only, the interpreter's own included", 0 },
	{ "python", KEY_PYTHON, NULL, 0, "Python frames only", 0 },
	{ "locals", KEY_LOCALS, NULL, 0,
	  "Show local variables of Python functions; read without running code", 0 },
	{ NULL, 0, NULL, 0, "How to treat the processes:", 2 },
	{ "no-stop", KEY_NO_STOP, NULL, 0,
	  "Stop no thread: read sleeping threads as they are; running ones have no native stack",
	  0 },
	{ "read-only", KEY_READ_ONLY, NULL, 0,
	  "Run no code in the processes; this command never does", 0 },
	{ "timeout", KEY_TIMEOUT, "TIME", 0,
	  "How long to wait for another vramtap that works on the process (default 10s)", 0 },
	{ "debuginfod", KEY_DEBUGINFOD, NULL, 0,
	  "Ask the servers in DEBUGINFOD_URLS for debug files that are not installed, for up to a minute",
	  0 },
	{ "speedscope", KEY_DOCUMENT + DOCUMENT_SPEEDSCOPE, "FILE", 0,
	  "Write the stacks to FILE for speedscope, each process with all of its threads, and each "
	  "thread",
	  VT_OUTPUT_GROUP },
	{ "folded", KEY_DOCUMENT + DOCUMENT_FOLDED, "FILE", 0,
	  "Write the stacks to FILE with the number of threads in each, in the format of flame "
	  "graph tools",
	  0 },
	{ "html", KEY_DOCUMENT + DOCUMENT_HTML, "FILE", 0,
	  "Write a page with the threads and who waits for whom to FILE, which needs nothing but a "
	  "browser",
	  0 },
	{ 0 },
};

static struct vt_documents documents_of(const struct arguments *args)
{
	return (struct vt_documents){ documents, args->documents, N_DOCUMENTS };
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;
	struct vt_documents beside = documents_of(args);
	pid_t *pid;

	if (key >= KEY_DOCUMENT && key < KEY_DOCUMENT + N_DOCUMENTS) {
		args->documents[key - KEY_DOCUMENT] = arg;
		return 0;
	}
	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		state->child_inputs[1] = &args->subject;
		state->child_inputs[2] = &args->again;
		return 0;
	case KEY_MERGED:
		args->collect.view = VT_VIEW_MERGED;
		return 0;
	case KEY_NATIVE:
		args->collect.view = VT_VIEW_NATIVE;
		return 0;
	case KEY_PYTHON:
		args->collect.view = VT_VIEW_PYTHON;
		return 0;
	case KEY_LOCALS:
		args->collect.locals = true;
		return 0;
	case KEY_NO_STOP:
		args->collect.touch = VT_TOUCH_NOTHING;
		return 0;
	case KEY_READ_ONLY:
		return 0;
	case KEY_DEBUGINFOD:
		args->collect.debuginfod = true;
		return 0;
	case KEY_TIMEOUT:
		args->collect.budget_ns = vt_parse_timeout(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		pid = vt_vec_append(&args->pids);
		if (!pid)
			argp_failure(state, VT_EXIT_NOTHING, 0, "out of memory");
		else
			*pid = vt_parse_pid(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (!vt_choose_origin(state, &args->subject, args->pids.n > 0))
			vt_missing_pid(state, args->output.json, "a PID or --core=FILE is");
		if (args->subject.core && args->collect.touch == VT_TOUCH_NOTHING)
			argp_error(state, "--core and --no-stop exclude each other");
		vt_documents_refuse_shared(state, &beside, &args->output);
		if (args->subject.core)
			vt_documents_refuse_input(state, &beside, &args->output,
						  args->subject.core);
		vt_again_refuse(state, &args->again, args->subject.core ? "--core" : NULL);
		if (args->collect.locals && args->collect.view == VT_VIEW_NATIVE)
			argp_error(state, "--locals and --native exclude each other");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = { { &vt_output_argp, 0, NULL, 0 },
					      { &vt_core_argp, 0, NULL, 0 },
					      { &vt_again_argp, 0, NULL, 0 },
					      { 0 } };

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.children = children,
	.args_doc = "PID...\n--core=FILE",
	.doc = "Show where the threads of processes are and what they wait for (live, or from a "
	       "core file). Runs no code in the processes.\v" VT_EXIT_CODES_DOC
	       " With several processes, the greatest of their statuses.",
};

static int worse(int a, int b)
{
	return a > b ? a : b;
}

/* When the text of a process is written. */
enum text_when {
	TEXT_NEVER,
	TEXT_AT_ONCE, /* while other processes are still to be read, and before further looks */
	TEXT_LAST,    /* with what these show */
};

static bool has_text(const struct arguments *args)
{
	struct vt_documents beside = documents_of(args);

	return !vt_documents_take_output(&beside, &args->output);
}

static enum text_when when_text(const struct arguments *args)
{
	bool text = has_text(args);

	if (!text)
		return TEXT_NEVER;
	return vt_again_wanted(&args->again, text) && !vt_again_text_first(text) ? TEXT_LAST :
										   TEXT_AT_ONCE;
}

static struct vt_error *write_one(const struct arguments *args,
				  const struct vt_stacks_result *result, bool *first)
{
	if (!*first)
		putchar('\n');
	*first = false;
	return vt_output_text(&args->output, vt_write_stacks_text, result->model);
}

/* One process; the exit status that it would have alone. */
static int look_at(const struct arguments *args, struct vt_stacks_result *result,
		   struct vt_again **again, bool *first)
{
	struct vt_subject subject = args->subject;
	struct vt_error *err = NULL;
	int status;

	subject.pid = result->pid;
	vt_model_init(result->model);
	result->err = vt_collect_report(&subject, &args->collect, result->model);
	vt_progress_end();
	if (result->err)
		return vt_exit_with(result->err);
	result->pid = result->model->process.pid;
	status = (int)result->model->completeness;
	if (vt_again_wanted(&args->again, has_text(args)))
		*again = vt_again_begin(&subject, &args->collect, result->model);
	if (when_text(args) == TEXT_AT_ONCE)
		err = write_one(args, result, first);
	if (err)
		status = worse(status, vt_exit_with(err));
	vt_error_destroy(err);
	return status;
}

/* The rest of the text, after further looks (looked: of which processes there were any). */
static struct vt_error *write_rest(const struct arguments *args,
				   const struct vt_stacks_document *document, const bool *looked)
{
	enum text_when when = when_text(args);
	bool first = true;

	for (size_t i = 0; i < document->n; i++) {
		const struct vt_stacks_result *result = &document->results[i];

		if (result->err)
			continue;
		if (when == TEXT_LAST)
			VT_TRY(write_one(args, result, &first));
		else if (when == TEXT_AT_ONCE && looked[i])
			VT_TRY(vt_output_text(&args->output, vt_write_again_text, result->model));
	}
	return NULL;
}

static int look_at_all(const struct arguments *args, struct vt_stacks_document *document)
{
	VT_FREE struct vt_again **again = calloc(document->n, sizeof(struct vt_again *));
	VT_FREE bool *looked = calloc(document->n, sizeof(*looked));
	int status = VT_EXIT_COMPLETE;
	bool first = true;

	if (!again || !looked)
		return vt_exit_with(&vt_enomem);
	for (size_t i = 0; i < document->n; i++) {
		document->results[i].pid = args->subject.core ? 0 : args->pids.data[i];
		status = worse(status, look_at(args, &document->results[i], &again[i], &first));
		looked[i] = again[i] != NULL;
	}
	vt_again_run(again, document->n, &args->again);

	VT_ERROR struct vt_error *text_err = write_rest(args, document, looked);

	if (text_err)
		status = worse(status, vt_exit_with(text_err));

	struct vt_documents beside = documents_of(args);
	VT_ERROR struct vt_error *err =
		vt_output_json(&args->output, vt_write_stacks_json, document);

	vt_keep_error(&err, vt_documents_write(&beside, &args->output, document));
	return err ? worse(status, vt_exit_with(err)) : status;
}

int vt_cmd_stacks(int argc, char **argv)
{
	struct arguments args = { .collect = { .want = VT_WANT_THREADS,
					       .budget_ns = 10 * VT_NS_PER_S } };
	int status = VT_EXIT_NOTHING;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);

	size_t n = args.subject.core ? 1 : args.pids.n;
	VT_FREE struct vt_model *models = calloc(n, sizeof(*models));
	VT_FREE struct vt_stacks_result *results = calloc(n, sizeof(*results));
	struct vt_stacks_document document = { .results = results,
					       .n = n,
					       .tool_version = PACKAGE_VERSION };

	clock_gettime(CLOCK_REALTIME, &document.when);
	if (models && results) {
		for (size_t i = 0; i < n; i++)
			results[i].model = &models[i];
		status = look_at_all(&args, &document);
		for (size_t i = 0; i < n; i++) {
			vt_error_destroy(results[i].err);
			vt_model_deinit(&models[i]);
		}
	} else {
		vt_exit_with(&vt_enomem);
	}
	vt_vec_deinit(&args.pids);
	return status;
}
