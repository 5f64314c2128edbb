/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap relieve PID --empty-cache | --collect-garbage | --trim-pinned */
#include "relieve/relieve.h"

#include "base/clock.h"
#include "base/progress.h"
#include "cmd/cmd.h"
#include "cmd/output.h"
#include "relieve/write.h"

enum {
	KEY_EMPTY_CACHE = VT_KEY_COMMAND, /* + enum vt_relief */
	KEY_COLLECT_GARBAGE,
	KEY_TRIM_PINNED,
	KEY_DRY_RUN,
	KEY_TIMEOUT,
};

struct arguments {
	pid_t pid;
	bool given;
	struct vt_relieve_request request;
	struct vt_output output;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "What to do, one of:", 1 },
	{ "empty-cache", KEY_EMPTY_CACHE, NULL, 0,
	  "Have PyTorch give the memory that it caches back to the GPU: torch.cuda.empty_cache()",
	  0 },
	{ "collect-garbage", KEY_COLLECT_GARBAGE, NULL, 0,
	  "Have Python collect its garbage: gc.collect(); finalisers of the program run", 0 },
	{ "trim-pinned", KEY_TRIM_PINNED, NULL, 0,
	  "Have PyTorch give back the pinned memory of the host that it keeps for reuse", 0 },
	{ NULL, 0, NULL, 0, "How to do it:", 2 },
	{ "dry-run", KEY_DRY_RUN, NULL, 0,
	  "Go inside and check that nothing speaks against it, but do not do it", 0 },
	{ "timeout", KEY_TIMEOUT, "TIME", 0,
	  "How long to try to get inside, and to wait for the end of the GPU's work (default 5s)",
	  0 },
	{ 0 },
};

static void choose(struct argp_state *state, struct arguments *args, int what)
{
	if (args->given)
		argp_error(state, "give one of --empty-cache, --collect-garbage and --trim-pinned");
	args->given = true;
	args->request.what = (enum vt_relief)what;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->output;
		return 0;
	case KEY_EMPTY_CACHE:
	case KEY_COLLECT_GARBAGE:
	case KEY_TRIM_PINNED:
		choose(state, args, key - KEY_EMPTY_CACHE);
		return 0;
	case KEY_DRY_RUN:
		args->request.dry_run = true;
		return 0;
	case KEY_TIMEOUT:
		args->request.budget_ns = vt_parse_timeout(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		if (args->pid)
			argp_error(state, "give exactly one PID");
		args->pid = vt_parse_pid(state, arg);
		return 0;
	case ARGP_KEY_END:
		if (!args->pid)
			vt_missing_pid(state, args->output.json, "the PID is");
		if (!args->given)
			argp_error(state, "--empty-cache, --collect-garbage or --trim-pinned is "
					  "missing");
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
	.args_doc = "PID --empty-cache\nPID --collect-garbage\nPID --trim-pinned",
	.doc = "Give memory of a live process back with the process's own function, only at a "
	       "safe moment, and show what there was before and after. Refuses, with the reason, "
	       "where a lock or the GIL is held, a CUDA graph is captured, or the GPU may hang.\v"
	       "Exit status: 0 it was done, or with --dry-run nothing speaks against it; 1 it was "
	       "called, but did not return in time, or what it did is not fully known; 2 refused, "
	       "and nothing was done; 3 not permitted (the message says what would allow it); 64 "
	       "wrong usage.",
};

static int status_of(const struct vt_relieve_result *result)
{
	switch (result->outcome) {
	case VT_RELIEVE_WOULD:
		return VT_EXIT_COMPLETE;
	case VT_RELIEVE_DONE:
		return vt_relieve_is_known(result) ? VT_EXIT_COMPLETE : VT_EXIT_PARTIAL;
	case VT_RELIEVE_REFUSED:
		return VT_EXIT_NOTHING;
	default:
		return VT_EXIT_PARTIAL;
	}
}

static struct vt_error *show(const struct arguments *args, const struct vt_relieve_result *result)
{
	struct vt_error *err = vt_output_json(&args->output, vt_relieve_write_json, result);

	if (!err && !vt_output_is_json_only(&args->output))
		err = vt_output_text(&args->output, vt_relieve_write_text, result);
	return err;
}

int vt_cmd_relieve(int argc, char **argv)
{
	struct arguments args = { .request.budget_ns = 5 * VT_NS_PER_S };
	struct vt_relieve_result result;
	int status = VT_EXIT_NOTHING;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_on_interrupt(vt_relieve_cancel_at_once);
	vt_output_begin(&args.output);

	VT_ERROR struct vt_error *err = vt_relieve(args.pid, &args.request, &result);

	vt_progress_end();
	if (!err) {
		status = status_of(&result);
		err = show(&args, &result);
	}
	if (err)
		status = vt_exit_with(err);
	vt_relieve_deinit(&result);
	return status;
}
