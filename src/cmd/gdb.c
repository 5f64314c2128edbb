/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap gdb VERB: one command of gdbcmds/vramtap.gdb, asked and answered. gdb's state comes from
 * standard input (gdb/state.h), the answer goes into a file of gdb's commands (gdb/answer.h), with
 * the status of a report as $vt_status. Without a file it is printed, and the status is the exit
 * status.
 */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "cmd/cmd.h"
#include "collect/origin_held.h"
#include "gdb/answer.h"
#include "gdb/release.h"
#include "gdb/state.h"
#include "gdb/values.h"
#include "kernels/kernels.h"
#include "cmd/output.h"
#include "report/text/parts.h"

#define DEFAULT_BLOCKS 20
#define DEFAULT_OWNERS 20
#define MAX_BLOCKS_SHOWN (1 << 24)
#define BUDGET_NS (5 * VT_NS_PER_S)
/* What can be done next, in gdb. */
static const struct vt_writer_hints hints = {
	.all_threads = "(vramtap stacks all shows all)",
	.all_blocks = "(vramtap blocks all lists all)",
	.all_sites = "(vramtap sites all shows all, with every frame)",
	.owners = "(vramtap owners all lists all, vramtap block what one frees)",
	.json = "vramtap save FILE",
	.record = "vramtap record on",
	.devices = "vramtap refresh asks the driver; gdb detaches from the process for that.",
	.frames = "(vramtap pyframe N selects one, vramtap locals shows its variables)",
};

/* One command while it is answered. */
struct ask {
	pid_t gdb;
	char **args;
	int n_args;
	struct vt_gdb_state state;
	struct vt_collect_options options;
	struct vt_output output;
	struct vt_model model;
	struct vt_gdb_answer answer;
	int status;
};

enum part {
	PART_NOTHING, /* only what gdb has before it, and whether it holds it */
	PART_MEMORY,
	PART_OWNERS, /* memory, and what keeps it alive */
	PART_STACKS,
	PART_KERNELS,  /* stacks, and what a recorder has of launches */
	PART_REPORT,   /* both */
	PART_RELEASED, /* gdb does not hold it now: a full report, from inside, */
	PART_OTHER,    /* or what another command does */
};

struct verb {
	const char *name;
	enum part part;
	unsigned int values; /* VT_GDB_x that it sets */
	const char *usage;
	/* Before the process is looked at: false when the arguments are wrong. */
	bool (*parse)(struct ask *ask);
	struct vt_error *(*answer)(struct ask *ask);
};

static bool has_no_arguments(struct ask *ask)
{
	return ask->n_args == 0;
}

static bool parse_number(const char *text, size_t max, size_t *ret)
{
	char *end;

	errno = 0;
	unsigned long value = strtoul(text, &end, 10);

	if (errno || end == text || *end || *text == '-' || value > max)
		return false;
	*ret = value;
	return true;
}

/* ---- memory ---- */

static struct vt_error *answer_info(struct ask *ask)
{
	vt_gdb_values_memory(&ask->answer, &ask->model);
	return vt_write_summary_text(&ask->model, &ask->output.writer, ask->answer.text);
}

static bool parse_blocks(struct ask *ask)
{
	size_t count;

	if (ask->n_args == 0)
		return true;
	ask->output.writer.all_blocks = !strcmp(ask->args[0], "all");
	return ask->n_args == 1 && (ask->output.writer.all_blocks ||
				    parse_number(ask->args[0], MAX_BLOCKS_SHOWN, &count));
}

static struct vt_error *answer_blocks(struct ask *ask)
{
	size_t count = DEFAULT_BLOCKS;

	if (ask->n_args == 1)
		parse_number(ask->args[0], MAX_BLOCKS_SHOWN, &count);
	vt_gdb_values_memory(&ask->answer, &ask->model);
	return vt_write_blocks_text(&ask->model, count, &ask->output.writer, ask->answer.text);
}

static bool parse_all(struct ask *ask)
{
	ask->output.writer.all_sites = ask->n_args == 1 && !strcmp(ask->args[0], "all");
	return ask->n_args == 0 || ask->output.writer.all_sites;
}

static struct vt_error *answer_sites(struct ask *ask)
{
	vt_gdb_values_memory(&ask->answer, &ask->model);
	return vt_write_sites_text(&ask->model, &ask->output.writer, ask->answer.text);
}

/* Its pattern comes with gdb's state: a shell must not see it. */
static bool parse_owners(struct ask *ask)
{
	const char *pattern = ask->state.pattern;

	ask->output.writer.all_owners = pattern && !strcmp(pattern, "all");
	ask->output.writer.owner = ask->output.writer.all_owners ? NULL : pattern;
	return ask->n_args == 0 && (!pattern || *pattern);
}

static struct vt_error *answer_owners(struct ask *ask)
{
	vt_gdb_values_memory(&ask->answer, &ask->model);
	return vt_write_owners_text(&ask->model, DEFAULT_OWNERS, &ask->output.writer,
				    ask->answer.text);
}

static struct vt_error *answer_block(struct ask *ask)
{
	struct vt_found found;

	vt_model_find_address(&ask->model, ask->state.address, &found);
	vt_gdb_values_found(&ask->answer, &ask->model, &found);
	return vt_write_found_text(&ask->model, &found, &ask->output.writer, ask->answer.text);
}

/* ---- threads ---- */

static bool parse_stacks(struct ask *ask)
{
	static const struct {
		const char *name;
		enum vt_threads_shown shown;
	} names[] = { { "all", VT_THREADS_ALL },
		      { "python", VT_THREADS_PYTHON },
		      { "main", VT_THREADS_MAIN } };

	for (size_t i = 0; ask->n_args == 1 && i < sizeof(names) / sizeof(names[0]); i++) {
		if (!strcmp(ask->args[0], names[i].name)) {
			ask->output.writer.threads = names[i].shown;
			return true;
		}
	}
	return ask->n_args == 0;
}

/* cuda-gdb has said it; gdb knows no such command, and has said nothing. */
static struct vt_error *answer_kernels(struct ask *ask)
{
	struct vt_model_kernels *kernels = &ask->model.kernels;

	if (!ask->state.cuda.n)
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"this gdb does not know what runs on the GPU; cuda-gdb does: vramtap gdb-script cuda-gdb -p %d, or, when no debugger has the process, vramtap report --kernels %d",
			(int)ask->state.pid, (int)ask->state.pid);
	if (!vt_kernels_parse(kernels, &ask->model.arena, vt_str_get(&ask->state.cuda),
			      ask->state.cuda.n, true))
		return &vt_enomem;
	if (kernels->state == VT_KERNELS_FAILED)
		return vt_error_create(
			VT_ERR_UNSUPPORTED, "cuda-gdb does not say what runs on the GPU: %s",
			kernels->why ? kernels->why : "no CUDA device in the process");
	vt_gdb_values_threads(&ask->answer, &ask->model);
	return vt_write_kernels_text(&ask->model, &ask->output.writer, ask->answer.text);
}

static struct vt_error *answer_stacks(struct ask *ask)
{
	vt_gdb_values_threads(&ask->answer, &ask->model);
	return vt_write_stacks_text(&ask->model, &ask->output.writer, ask->answer.text);
}

static struct vt_error *find_selected(struct ask *ask, const struct vt_model_thread **ret)
{
	const struct vt_held_thread *held = vt_held_numbered(&ask->state.held, ask->state.selected);

	if (!ask->state.selected)
		return vt_error_create(VT_ERR_NOTFOUND, "gdb has no thread selected");
	*ret = held && held->tid ? vt_model_thread(&ask->model, held->tid) : NULL;
	return *ret ? NULL :
		      vt_error_create(
			      VT_ERR_NOTFOUND,
			      "thread %d of gdb does not exist in the process, or gdb gave no registers for it",
			      ask->state.selected);
}

/* The Python frame that was selected, if it was selected in this thread. */
static size_t selected_frame(const struct ask *ask, const struct vt_model_thread *thread)
{
	size_t n = vt_model_count_python(&thread->stack), frame = ask->state.python_frame;

	return ask->state.python_tid == thread->tid && frame < n ? frame : 0;
}

static struct vt_error *answer_bt(struct ask *ask)
{
	const struct vt_model_thread *thread;

	VT_TRY(find_selected(ask, &thread));
	vt_gdb_values_thread(&ask->answer, thread);
	return vt_write_thread_text(&ask->model, thread, selected_frame(ask, thread),
				    &ask->output.writer, ask->answer.text);
}

static struct vt_error *find_python_thread(struct ask *ask, const struct vt_model_thread **ret)
{
	VT_TRY(find_selected(ask, ret));
	if (vt_model_count_python(&(*ret)->stack) == 0)
		return vt_error_create(VT_ERR_NOTFOUND, "thread %d has no Python frames%s%s",
				       (int)(*ret)->tid, (*ret)->stack.why ? ": " : "",
				       (*ret)->stack.why ? (*ret)->stack.why : "");
	return NULL;
}

static void select_python(struct ask *ask, const struct vt_model_thread *thread, size_t number)
{
	vt_gdb_values_thread(&ask->answer, thread);
	vt_gdb_values_python(&ask->answer, number,
			     vt_model_python_numbered(&thread->stack, number));
	vt_gdb_set_number(&ask->answer, "_vt_python_tid", (uint64_t)thread->tid);
	vt_gdb_set_number(&ask->answer, "_vt_python_frame", number);
}

static bool parse_locals(struct ask *ask)
{
	ask->options.locals = true;
	return ask->n_args == 0;
}

static struct vt_error *answer_locals(struct ask *ask)
{
	const struct vt_model_thread *thread;

	VT_TRY(find_python_thread(ask, &thread));

	size_t number = selected_frame(ask, thread);

	select_python(ask, thread, number);
	return vt_write_locals_text(&ask->model, thread, number, &ask->output.writer,
				    ask->answer.text);
}

static bool is_direction(const char *text)
{
	return !strcmp(text, "up") || !strcmp(text, "down");
}

static bool parse_pyframe(struct ask *ask)
{
	size_t number;

	if (ask->n_args == 0)
		return true;
	if (is_direction(ask->args[0]))
		return ask->n_args == 1 ||
		       (ask->n_args == 2 && parse_number(ask->args[1], SIZE_MAX / 2, &number));
	return ask->n_args == 1 && parse_number(ask->args[0], SIZE_MAX / 2, &number);
}

/*
 * Like gdb's up and down: moves less than asked where the stack ends; not at all if it is there
 * already.
 */
static struct vt_error *move(struct ask *ask, size_t n, size_t *number)
{
	bool up = !strcmp(ask->args[0], "up");
	size_t step = 1, room = up ? n - 1 - *number : *number;

	if (ask->n_args == 2)
		parse_number(ask->args[1], SIZE_MAX / 2, &step);
	if (room == 0 && step > 0)
		return vt_error_create(VT_ERR_NOTFOUND, up ? "this is the outermost Python frame" :
							     "this is the innermost Python frame");
	step = step < room ? step : room;
	*number = up ? *number + step : *number - step;
	return NULL;
}

static struct vt_error *answer_pyframe(struct ask *ask)
{
	const struct vt_model_thread *thread;

	VT_TRY(find_python_thread(ask, &thread));

	size_t number = selected_frame(ask, thread), n = vt_model_count_python(&thread->stack);

	if (ask->n_args > 0 && is_direction(ask->args[0]))
		VT_TRY(move(ask, n, &number));
	else if (ask->n_args > 0)
		parse_number(ask->args[0], SIZE_MAX / 2, &number);
	if (number >= n)
		return vt_error_create(VT_ERR_NOTFOUND,
				       "thread %d has %zu Python frames, 0 is the innermost",
				       (int)thread->tid, n);
	select_python(ask, thread, number);
	return vt_write_python_frame_text(&ask->model, thread, number, &ask->output.writer,
					  ask->answer.text);
}

/* ---- all of it ---- */

static bool parse_save(struct ask *ask)
{
	return ask->n_args == 1;
}

static struct vt_error *answer_save(struct ask *ask)
{
	VT_TRY(vt_output_file(&ask->output, vt_write_report_json, &ask->model, ask->args[0]));
	vt_gdb_values_memory(&ask->answer, &ask->model);
	vt_gdb_values_threads(&ask->answer, &ask->model);
	fprintf(ask->answer.text, "The report is in %s: %s.\n", ask->args[0],
		vt_completeness_name(ask->model.completeness));
	return NULL;
}

/* ---- what gdb must detach for ---- */

static bool parse_release(struct ask *ask)
{
	static const char *const outside[] = { "refresh", "ledger", "ledger-all", "record-on",
					       "record-off" };

	for (size_t i = 0; ask->n_args == 1 && i < sizeof(outside) / sizeof(outside[0]); i++)
		if (!strcmp(ask->args[0], outside[i]))
			return true;
	return false;
}

/* Before gdb detaches: whether that is harmless, and what to come back to. */
static struct vt_error *answer_release(struct ask *ask)
{
	const struct vt_gdb_state *state = &ask->state;
	const struct vt_held_thread *selected = vt_held_numbered(&ask->state.held, state->selected);

	VT_TRY(vt_gdb_may_release(state));
	vt_gdb_set_number(&ask->answer, "_vt_pid", (uint64_t)state->pid);
	vt_gdb_set_number(&ask->answer, "_vt_tid", (uint64_t)(selected ? selected->tid : 0));
	vt_gdb_set_number(&ask->answer, "_vt_sp", selected ? vt_regs_sp(&selected->regs) : 0);
	vt_gdb_set_number(&ask->answer, "_vt_frame", state->frame > 0 ? (uint64_t)state->frame : 0);
	vt_gdb_set_number(&ask->answer, "_vt_on_device", state->on_device);
	vt_gdb_set_number(&ask->answer, "vt_released", 1);
	return NULL;
}

/*
 * cuda-gdb that attaches to a process with a kernel shows that kernel; selecting the thread hides
 * it.
 */
static bool must_select(const struct vt_gdb_state *state, const struct vt_held_thread *thread)
{
	return thread->number != state->selected || (state->on_device && !state->was_on_device);
}

/* After gdb has attached again: selects the thread, and its frame if it is still where it was. */
static struct vt_error *answer_select(struct ask *ask)
{
	const struct vt_gdb_state *state = &ask->state;

	for (size_t i = 0; i < state->held.threads.n; i++) {
		const struct vt_held_thread *thread = &state->held.threads.data[i];

		if (!thread->tid || thread->tid != state->was_tid)
			continue;
		if (must_select(state, thread))
			vt_gdb_command(&ask->answer, "pipe thread %d | cat >/dev/null",
				       thread->number);
		if (state->was_frame > 0 && !state->was_on_device &&
		    vt_regs_sp(&thread->regs) == state->was_sp)
			vt_gdb_command(&ask->answer, "select-frame 0x%x",
				       (unsigned int)state->was_frame);
	}
	return NULL;
}

static struct vt_error *answer_refresh(struct ask *ask)
{
	struct vt_writer_options options = ask->output.writer;
	struct vt_writer_hints later = hints;

	later.json = "vramtap save FILE, without what the driver said";
	options.hints = &later;
	vt_gdb_values_memory(&ask->answer, &ask->model);
	vt_gdb_values_devices(&ask->answer, &ask->model);
	return vt_write_summary_text(&ask->model, &options, ask->answer.text);
}

static struct vt_error *answer_ledger(struct ask *ask)
{
	vt_gdb_values_memory(&ask->answer, &ask->model);
	vt_gdb_values_devices(&ask->answer, &ask->model);
	return vt_write_ledger_text(&ask->model, &ask->output.writer, ask->answer.text);
}

static struct vt_error *answer_whole_ledger(struct ask *ask)
{
	ask->output.writer.all_ranges = true;
	return answer_ledger(ask);
}

/* vramtap record PID on|off, with all of its output in file. */
static _Noreturn void run_record(int file, pid_t pid, const char *action)
{
	char number[16];
	char *argv[] = { "vramtap record", number, (char *)action, NULL };

	snprintf(number, sizeof(number), "%d", (int)pid);
	if (dup2(file, STDOUT_FILENO) < 0 || dup2(file, STDERR_FILENO) < 0)
		_exit(VT_EXIT_NOTHING);
	exit(vt_cmd_record(3, argv));
}

static struct vt_error *copy_file(int file, FILE *out)
{
	char text[4096];
	ssize_t n;

	for (off_t at = 0; (n = pread(file, text, sizeof(text), at)) > 0; at += n)
		fwrite(text, 1, (size_t)n, out);
	return n < 0 ? vt_error_create_os(errno, "cannot read the output of vramtap record") : NULL;
}

/* It prints and exits by itself, so it is a separate process. */
static struct vt_error *record(struct ask *ask, const char *action)
{
	VT_CLOSE int file = memfd_create("vramtap-record", MFD_CLOEXEC);
	pid_t child = file < 0 ? -1 : fork();
	int status = 0;

	if (child < 0)
		return vt_error_create_os(errno, "cannot run vramtap record");
	if (child == 0)
		run_record(file, ask->state.pid, action);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return vt_error_create_os(errno, "cannot wait for vramtap record");
	ask->status = WIFEXITED(status) ? WEXITSTATUS(status) : VT_EXIT_NOTHING;
	return copy_file(file, ask->answer.text);
}

static struct vt_error *answer_record_on(struct ask *ask)
{
	return record(ask, "on");
}

static struct vt_error *answer_record_off(struct ask *ask)
{
	return record(ask, "off");
}

/* ---- */

static const struct verb verbs[] = {
	{ "info", PART_MEMORY, VT_GDB_MEMORY, "info", has_no_arguments, answer_info },
	{ "blocks", PART_MEMORY, VT_GDB_MEMORY, "blocks [COUNT|all]", parse_blocks, answer_blocks },
	{ "sites", PART_MEMORY, VT_GDB_MEMORY, "sites [all]", parse_all, answer_sites },
	{ "owners", PART_OWNERS, VT_GDB_MEMORY, "owners [all|PATTERN]", parse_owners,
	  answer_owners },
	{ "block", PART_OWNERS, VT_GDB_FOUND, "block EXPRESSION", has_no_arguments, answer_block },
	{ "stacks", PART_STACKS, VT_GDB_THREADS, "stacks [all|python|main]", parse_stacks,
	  answer_stacks },
	{ "kernels", PART_KERNELS, VT_GDB_THREADS, "kernels", has_no_arguments, answer_kernels },
	{ "bt", PART_STACKS, VT_GDB_THREAD, "bt", has_no_arguments, answer_bt },
	{ "locals", PART_STACKS, VT_GDB_THREAD | VT_GDB_PYTHON, "locals", parse_locals,
	  answer_locals },
	{ "pyframe", PART_STACKS, VT_GDB_THREAD | VT_GDB_PYTHON, "pyframe [up|down [COUNT]|NUMBER]",
	  parse_pyframe, answer_pyframe },
	{ "save", PART_REPORT, VT_GDB_MEMORY | VT_GDB_THREADS, "save FILE", parse_save,
	  answer_save },
	{ "release", PART_NOTHING, 0, "record on|off", parse_release, answer_release },
	{ "select", PART_NOTHING, 0, "select", has_no_arguments, answer_select },
	{ "refresh", PART_RELEASED, VT_GDB_MEMORY | VT_GDB_DEVICES, "refresh", has_no_arguments,
	  answer_refresh },
	{ "ledger", PART_RELEASED, VT_GDB_MEMORY | VT_GDB_DEVICES, "ledger [all]", has_no_arguments,
	  answer_ledger },
	{ "ledger-all", PART_RELEASED, VT_GDB_MEMORY | VT_GDB_DEVICES, "ledger [all]",
	  has_no_arguments, answer_whole_ledger },
	{ "record-on", PART_OTHER, 0, "record on|off", has_no_arguments, answer_record_on },
	{ "record-off", PART_OTHER, 0, "record on|off", has_no_arguments, answer_record_off },
};

static const struct verb *find_verb(const char *name)
{
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++)
		if (!strcmp(name, verbs[i].name))
			return &verbs[i];
	return NULL;
}

/* What gdb has: a core, or a process that it holds; otherwise why not. */
static struct vt_error *find_subject(struct ask *ask, const struct verb *verb,
				     struct vt_subject *ret)
{
	struct vt_gdb_state *state = &ask->state;

	state->held.pid = ask->gdb;
	*ret = (struct vt_subject){ .held = &state->held };
	if (!strncmp(state->connection, "remote", 6) ||
	    !strncmp(state->connection, "extended-remote", 15))
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "the process is on another machine (%s): run vramtap there",
				       state->connection);
	if (state->core) {
		ret->origin = &vt_origin_core;
		ret->core = state->core;
		ret->paths.exe = state->exe;
		return NULL;
	}
	if (!strcmp(state->connection, "core"))
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"this gdb does not say which core it has: vramtap report --core=FILE");
	if (!state->pid && state->was_pid)
		return vt_error_create(
			VT_ERR_NOTFOUND,
			"gdb detached from process %d for vramtap and has not attached again: attach %d",
			(int)state->was_pid, (int)state->was_pid);
	if (!state->pid)
		return vt_error_create(
			VT_ERR_NOTFOUND,
			"gdb has no process and no core: attach PID, run, or core-file FILE");
	ret->pid = state->pid;
	ret->origin = verb->part == PART_RELEASED ? &vt_origin_process : &vt_origin_held;
	return NULL;
}

static struct vt_error *collect(struct ask *ask, const struct verb *verb)
{
	struct vt_subject subject;

	VT_TRY(find_subject(ask, verb, &subject));
	ask->options.budget_ns = BUDGET_NS;
	ask->options.touch = verb->part == PART_RELEASED ? VT_TOUCH_INSIDE : VT_TOUCH_STOP;
	ask->options.want = verb->part == PART_MEMORY ? VT_WANT_MEMORY :
			    verb->part == PART_OWNERS ? VT_WANT_MEMORY :
			    verb->part == PART_STACKS ? VT_WANT_THREADS :
							VT_WANT_ALL;
	ask->options.ledger = verb->part == PART_RELEASED;
	ask->options.owners = verb->part == PART_REPORT || verb->part == PART_OWNERS;
	ask->options.holders = ask->options.owners;
	switch (verb->part) {
	case PART_OTHER:
		return NULL;
	case PART_NOTHING:
		return vt_collect_look(&subject, &ask->options, &ask->model);
	default:
		return vt_collect_report(&subject, &ask->options, &ask->model);
	}
}

static struct vt_error *answer_verb(struct ask *ask, const struct verb *verb)
{
	VT_TRY(collect(ask, verb));
	ask->status = (int)ask->model.completeness;
	return verb->answer(ask);
}

/* One line, whatever went wrong. */
static void answer_error(struct ask *ask, const struct vt_error *err)
{
	struct vt_str line = { 0 };

	vt_str_add_escaped(&line, err->message, strlen(err->message));
	fprintf(ask->answer.text, "vramtap: %s\n", vt_str_get(&line));
	vt_str_deinit(&line);
	ask->status = err->code == VT_ERR_PERMISSION ? VT_EXIT_NOT_PERMITTED : VT_EXIT_NOTHING;
}

/* Without colours: the text may end in a log or a pipe of gdb's. */
static void begin_output(struct ask *ask)
{
	int width = ask->state.width;

	ask->output.color = VT_COLOR_NEVER;
	if (width > 0)
		ask->output.writer.columns = width < VT_MIN_COLUMNS ? VT_MIN_COLUMNS :
					     width > VT_MAX_COLUMNS ? VT_MAX_COLUMNS :
								      width;
	vt_output_begin(&ask->output);
}

/* Commands that need the process released have their own check: "ledger-all", or "ledger-wrong". */
static const char *usage_of(const struct ask *ask, const struct verb *verb)
{
	const char *name = verb->parse == parse_release && ask->n_args > 0 ? ask->args[0] : NULL;
	const struct verb *wanted = name ? find_verb(name) : NULL;
	char begin[32];

	if (name && !wanted) {
		snprintf(begin, sizeof(begin), "%.*s", (int)strcspn(name, "-"), name);
		wanted = find_verb(begin);
	}
	return (wanted ? wanted : verb)->usage;
}

static void answer(struct ask *ask, const struct verb *verb, struct vt_error *err)
{
	begin_output(ask);
	/* Where nothing is stopped by us, nothing needs to be released. */
	if (verb->part != PART_RELEASED)
		signal(SIGINT, SIG_DFL);
	ask->answer.python = ask->state.python;
	vt_gdb_values_forget(&ask->answer, verb->values);
	if (ask->state.pid && ask->state.was_pid)
		vt_gdb_set_void(&ask->answer, "_vt_tid"); /* it has come back */
	if (!err && !verb->parse(ask)) {
		fprintf(ask->answer.text, "vramtap: usage: vramtap %s\n", usage_of(ask, verb));
		ask->status = VT_EXIT_USAGE;
	} else if (!err) {
		err = answer_verb(ask, verb);
	}
	if (err)
		answer_error(ask, err);
	vt_error_destroy(err);
	vt_gdb_set_number(&ask->answer, "vt_status", (uint64_t)ask->status);
	err = vt_gdb_answer_write(&ask->answer, ask->gdb);
	if (err) {
		vt_gdb_answer_print(&ask->answer);
		vt_exit_with(err);
		/* No variable has its value. */
		ask->status = ask->status ? ask->status : VT_EXIT_PARTIAL;
	} else {
		ask->status = VT_GDB_ANSWERED;
	}
	vt_error_destroy(err);
}

static int listen(struct ask *ask, const struct verb *verb)
{
	struct vt_error *err = vt_gdb_answer_init(&ask->answer);

	if (err)
		return vt_exit_with(err);
	vt_model_init(&ask->model);
	err = vt_gdb_state_init(&ask->state, stdin);
	if (err && err->code == VT_ERR_INTERRUPTED) {
		vt_error_destroy(err);
		ask->status = VT_EXIT_NOTHING;
	} else {
		answer(ask, verb, err);
	}
	vt_gdb_answer_deinit(&ask->answer);
	vt_model_deinit(&ask->model);
	vt_gdb_state_deinit(&ask->state);
	return ask->status;
}

int vt_cmd_gdb(int argc, char **argv)
{
	struct ask ask = { .output = { .quiet = true, .writer.hints = &hints } };
	const struct verb *verb = argc > 2 ? find_verb(argv[2]) : NULL;
	size_t session;

	if (!verb || strncmp(argv[1], "--session=", 10) != 0 ||
	    !parse_number(argv[1] + 10, 1 << 30, &session)) {
		fprintf(stderr,
			"vramtap: only gdb's commands call this: vramtap gdb-script prints them\n");
		return VT_EXIT_USAGE;
	}
	ask.gdb = (pid_t)session;
	ask.args = argv + 3;
	ask.n_args = argc - 3;
	return listen(&ask, verb);
}
