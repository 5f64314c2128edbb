/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap report PID, or --core CORE */
#include <string.h>

#include "base/clock.h"
#include "cmd/again.h"
#include "cmd/cmd.h"
#include "cmd/documents.h"
#include "collect/collect.h"
#include "cmd/options_core.h"
#include "cmd/output.h"
#include "base/progress.h"
#include "report/html/html.h"
#include "report/profile/memory.h"
#include "report/snapshot/snapshot.h"
#include "report/writer.h"

enum {
	KEY_BLOCKS = VT_KEY_COMMAND,
	KEY_MAP,
	KEY_RANGES,
	KEY_SITES,
	KEY_OWNERS,
	KEY_OWNER,
	KEY_BY,
	KEY_NO_OWNERS,
	KEY_READ_ONLY,
	KEY_NO_STOP,
	KEY_ASK_PYTORCH,
	KEY_ASK_JAX,
	KEY_COLLECTIVES,
	KEY_KERNELS,
	KEY_NO_STREAMS,
	KEY_ALLOW_RESUME,
	KEY_TIMEOUT,
	KEY_DEBUGINFOD,
	KEY_HIDE_LAYOUT,
	KEY_DOCUMENT, /* and one for each of the documents */
};

enum {
	DOCUMENT_HTML,
	DOCUMENT_SNAPSHOT,
	DOCUMENT_PPROF,
	DOCUMENT_SPEEDSCOPE,
	DOCUMENT_FOLDED,
	N_DOCUMENTS
};

/* Of a struct vt_model. */
static const struct vt_document documents[N_DOCUMENTS] = {
	[DOCUMENT_HTML] = { "--html", vt_write_report_html, NULL, false },
	[DOCUMENT_SNAPSHOT] = { "--snapshot", vt_write_report_snapshot, vt_snapshot_refuse, true },
	[DOCUMENT_PPROF] = { "--pprof", vt_write_report_pprof, NULL, true },
	[DOCUMENT_SPEEDSCOPE] = { "--speedscope", vt_write_report_speedscope, NULL, false },
	[DOCUMENT_FOLDED] = { "--folded", vt_write_report_folded, NULL, false },
};

struct arguments {
	struct vt_subject subject;
	struct vt_collect_options collect;
	struct vt_output output;
	struct vt_again_choice again;
	const char *documents[N_DOCUMENTS]; /* files; NULL none, "-" standard output */
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to show:", 1 },
	{ "blocks", KEY_BLOCKS, NULL, 0,
	  "List every block of the caching allocator and of pinned host memory", 0 },
	{ "map", KEY_MAP, NULL, 0,
	  "Draw the segments of the caching allocator to scale, with their holes", 0 },
	{ "ranges", KEY_RANGES, NULL, 0,
	  "List every allocation of the CUDA driver in the process, whichever library made it", 0 },
	{ "sites", KEY_SITES, NULL, 0,
	  "Show every place that allocated, with all frames, if PyTorch or vramtap recorded it",
	  0 },
	{ "owners", KEY_OWNERS, NULL, 0,
	  "Show the owner of every block in use: the tensor, and what keeps it alive", 0 },
	{ "owner", KEY_OWNER, "PATTERN", 0,
	  "Show all that is known of the blocks in use whose owner matches PATTERN, a part of its "
	  "name or a pattern with * and ?",
	  0 },
	{ "by", KEY_BY, "KIND", 0,
	  "Sum up the blocks in use by category (the default), module, variable or type of their "
	  "owners",
	  0 },
	{ "no-owners", KEY_NO_OWNERS, NULL, 0,
	  "Do not look for the owners of blocks, which takes some time where there are many objects",
	  0 },
	{ NULL, 0, NULL, 0, "How to treat the process:", 2 },
	{ "read-only", KEY_READ_ONLY, NULL, 0, "Run no code in the process", 0 },
	{ "no-stop", KEY_NO_STOP, NULL, 0,
	  "Stop no thread and run no code; read the blocks again until they show one moment for "
	  "certain",
	  0 },
	{ "ask-pytorch", KEY_ASK_PYTORCH, NULL, 0,
	  "Have PyTorch list its own blocks, and where owners cannot be read tell these, through "
	  "the process's Python interpreter; this holds the GIL for about 1 us a block, for owners "
	  "for 0.2 s at most",
	  0 },
	{ "ask-jax", KEY_ASK_JAX, NULL, 0,
	  "Have JAX tell which arrays it has, which the report names the holders of, and where they "
	  "and its programs were made, through the process's Python interpreter; this holds the GIL "
	  "for about 1 us an array",
	  0 },
	{ "collectives", KEY_COLLECTIVES, NULL, 0,
	  "Ask PyTorch's flight recorder how far the collectives are, through the process's Python "
	  "interpreter; this holds the GIL for about 80 ms at most",
	  0 },
	{ "kernels", KEY_KERNELS, "TIME", OPTION_ARG_OPTIONAL,
	  "Have the installed CUDA debugger (cuda-gdb) tell which kernels run on the GPU and where "
	  "their threads are; this stops the process for 0.3 to 3 s; TIME: how long to wait for it "
	  "(default 30s)",
	  0 },
	{ "no-streams", KEY_NO_STREAMS, NULL, 0,
	  "Do not ask which streams have unfinished work, for which all other threads are stopped "
	  "for about a millisecond, twice",
	  0 },
	{ "allow-resume", KEY_ALLOW_RESUME, NULL, 0,
	  "Continue a stopped process (SIGSTOP, job control) for a moment, to run the helper", 0 },
	{ "timeout", KEY_TIMEOUT, "TIME", 0,
	  "How long to try to get inside, and to wait for each answer; with --no-stop, how long to "
	  "read the blocks again (default 5s)",
	  0 },
	{ "debuginfod", KEY_DEBUGINFOD, NULL, 0,
	  "Ask the servers in DEBUGINFOD_URLS for debug files that are not installed, for up to a minute",
	  0 },
	{ "hide-layout", KEY_HIDE_LAYOUT, "RELEASE", 0,
	  VT_HIDE_LAYOUT_DOC "; \"tensors\": as if PyTorch's objects could not be read", 0 },
	{ "html", KEY_DOCUMENT + DOCUMENT_HTML, "FILE", 0,
	  "Write a page with pictures of everything to FILE, which needs nothing but a browser; - is "
	  "standard output, instead of the text",
	  VT_OUTPUT_GROUP },
	{ "snapshot", KEY_DOCUMENT + DOCUMENT_SNAPSHOT, "FILE", 0,
	  "Write what torch.cuda.memory._snapshot() would return in the process to FILE, a pickle "
	  "for PyTorch's memory_viz, with the owners of blocks; - is standard output, instead of "
	  "the text",
	  0 },
	{ "pprof", KEY_DOCUMENT + DOCUMENT_PPROF, "FILE", 0,
	  "Write the memory in use to FILE by backtrace, or else by owner, with labels, for pprof",
	  0 },
	{ "speedscope", KEY_DOCUMENT + DOCUMENT_SPEEDSCOPE, "FILE", 0,
	  "Write the memory in use to FILE by backtrace, or else by owner, for speedscope", 0 },
	{ "folded", KEY_DOCUMENT + DOCUMENT_FOLDED, "FILE", 0,
	  "Write PyTorch's blocks in use to FILE by backtrace, or else by owner, in the format of "
	  "flame graph tools",
	  0 },
	{ 0 },
};

/* Each option as it was given, NULL if it was not: two of a pair exclude each other. */
static void refuse_together(const struct argp_state *state, const struct arguments *args)
{
	const struct vt_collect_options *collect = &args->collect;
	const char *core = args->subject.core ? "--core" : NULL;
	const char *no_stop = collect->touch == VT_TOUCH_NOTHING ? "--no-stop" : NULL;
	const char *outside = collect->touch == VT_TOUCH_INSIDE ? NULL :
								  vt_touch_option(collect->touch);
	const char *resume = collect->allow_resume ? "--allow-resume" : NULL;
	const char *pytorch = collect->ask_pytorch ? "--ask-pytorch" : NULL;
	const char *jax = collect->ask_jax ? "--ask-jax" : NULL;
	const char *collectives = collect->ask_collectives ? "--collectives" : NULL;
	const char *kernels = collect->kernels_ns ? "--kernels" : NULL;
	const char *no_owners = collect->owners ? NULL : "--no-owners";
	const struct vt_writer_options *writer = &args->output.writer;
	const char *owners = writer->all_owners ? "--owners" : NULL;
	const char *owner = writer->owner ? "--owner" : NULL;
	const char *by = writer->owners_by_given ? "--by" : NULL;
	const struct {
		const char *a, *b;
	} pairs[] = {
		{ core, no_stop },    { core, resume },     { core, pytorch },
		{ core, jax },        { outside, jax },     { core, collectives },
		{ outside, resume },  { outside, pytorch }, { outside, collectives },
		{ core, kernels },    { outside, kernels }, { owners, no_owners },
		{ owner, no_owners }, { by, no_owners },
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
		if (pairs[i].a && pairs[i].b)
			argp_error(state, "%s and %s exclude each other", pairs[i].a, pairs[i].b);
}

static enum vt_owners_by parse_by(const struct argp_state *state, const char *arg)
{
	for (size_t i = 0; i < VT_N_BY; i++) {
		if (!strcmp(arg, vt_owners_by_name((enum vt_owners_by)i)))
			return (enum vt_owners_by)i;
	}
	argp_error(state, "\"%s\" is not category, module, variable or type", arg);
	return VT_BY_CATEGORY;
}

static struct vt_documents documents_of(const struct arguments *args)
{
	return (struct vt_documents){ documents, args->documents, N_DOCUMENTS };
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;
	struct vt_documents beside = documents_of(args);

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
	case KEY_BLOCKS:
		args->output.writer.all_blocks = true;
		return 0;
	case KEY_MAP:
		args->output.writer.map = true;
		return 0;
	case KEY_RANGES:
		args->output.writer.all_ranges = true;
		return 0;
	case KEY_SITES:
		args->output.writer.all_sites = true;
		return 0;
	case KEY_OWNERS:
		args->output.writer.all_owners = true;
		args->collect.all_owners = true;
		return 0;
	case KEY_OWNER:
		if (!*arg)
			argp_error(state, "--owner needs a pattern");
		args->output.writer.owner = arg;
		return 0;
	case KEY_BY:
		args->output.writer.owners_by = parse_by(state, arg);
		args->output.writer.owners_by_given = true;
		return 0;
	case KEY_NO_OWNERS:
		args->collect.owners = false;
		return 0;
	case KEY_READ_ONLY:
		args->collect.touch = vt_touch_less(args->collect.touch, VT_TOUCH_STOP);
		return 0;
	case KEY_NO_STOP:
		args->collect.touch = VT_TOUCH_NOTHING;
		return 0;
	case KEY_ASK_PYTORCH:
		args->collect.ask_pytorch = true;
		return 0;
	case KEY_ASK_JAX:
		args->collect.ask_jax = true;
		return 0;
	case KEY_COLLECTIVES:
		args->collect.ask_collectives = true;
		return 0;
	case KEY_KERNELS:
		args->collect.kernels_ns = vt_parse_kernels(state, arg);
		return 0;
	case KEY_NO_STREAMS:
		args->collect.streams = false;
		return 0;
	case KEY_ALLOW_RESUME:
		args->collect.allow_resume = true;
		return 0;
	case KEY_DEBUGINFOD:
		args->collect.debuginfod = true;
		return 0;
	case KEY_HIDE_LAYOUT:
		if (!strcmp(arg, "tensors"))
			args->collect.hide_tensors = true;
		else
			vt_parse_hide_layout(state, arg);
		return 0;
	case KEY_TIMEOUT:
		args->collect.budget_ns = vt_parse_timeout(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			argp_error(state,
				   "give one PID: vramtap triage compares several processes, "
				   "vramtap stacks shows where the threads of several are");
		args->subject.pid = vt_parse_pid(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (!vt_choose_origin(state, &args->subject, args->subject.pid > 0))
			vt_missing_pid(state, args->output.json, "a PID or --core=FILE is");
		vt_documents_refuse_shared(state, &beside, &args->output);
		if (args->subject.core)
			vt_documents_refuse_input(state, &beside, &args->output,
						  args->subject.core);
		refuse_together(state, args);
		vt_again_refuse(state, &args->again, args->subject.core ? "--core" : NULL);
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
	.args_doc = "PID\n--core=FILE",
	.doc = "Show what is using a process's GPU memory (live, or from a core file) and where "
	       "its threads are.\v" VT_EXIT_CODES_DOC,
};

/*
 * text: what is still to be written of the text; NULL nothing. A file that cannot be written must
 * not lose the rest: the process may have changed by the next try.
 */
static struct vt_error *write_report(const struct vt_model *model, const struct arguments *args,
				     vt_write_fn *text)
{
	struct vt_documents beside = documents_of(args);
	struct vt_error *err = vt_output_json(&args->output, vt_write_report_json, model);

	vt_keep_error(&err, vt_documents_write(&beside, &args->output, model));
	if (text)
		vt_keep_error(&err, vt_output_text(&args->output, text, model));
	return err;
}

/* On a terminal, the text comes before the further looks, and what these show below it. */
static struct vt_error *look_again_and_write(struct vt_model *model, const struct arguments *args)
{
	struct vt_documents beside = documents_of(args);
	bool has_text = !vt_documents_take_output(&beside, &args->output);
	struct vt_again *again = NULL;
	struct vt_error *err = NULL;
	vt_write_fn *text = has_text ? vt_write_report_text : NULL;

	if (vt_again_wanted(&args->again, has_text))
		again = vt_again_begin(&args->subject, &args->collect, model);
	if (again && vt_again_text_first(has_text)) {
		err = vt_output_text(&args->output, vt_write_report_text, model);
		text = vt_write_again_text;
	}
	if (again)
		vt_again_run(&again, 1, &args->again);
	if (!err)
		return write_report(model, args, text);
	vt_error_destroy(write_report(model, args, NULL));
	return err;
}

int vt_cmd_report(int argc, char **argv)
{
	struct arguments args = { .collect = { .want = VT_WANT_ALL,
					       .owners = true,
					       .ledger = true,
					       .streams = true,
					       .budget_ns = 5 * VT_NS_PER_S } };
	struct vt_model model;

	vt_parse_command(&argp, argc, argv, 0, &args);
	args.collect.holders = args.output.json || args.documents[DOCUMENT_HTML] ||
			       args.output.writer.owner;
	args.collect.segment_traces = args.documents[DOCUMENT_SNAPSHOT];
	vt_output_begin(&args.output);
	vt_model_init(&model);

	VT_ERROR struct vt_error *err = vt_collect_report(&args.subject, &args.collect, &model);

	vt_progress_end();
	if (!err)
		err = look_again_and_write(&model, &args);

	int status = err ? vt_exit_with(err) : (int)model.completeness;

	vt_model_deinit(&model);
	return status;
}
