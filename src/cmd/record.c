/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap record PID on|off|status */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "cmd/options_record.h"
#include "cmd/output.h"
#include "base/progress.h"
#include "record/target.h"
#include "base/format.h"
#include "json/out.h"
#include "target/timens.h"

#define SCHEMA "vramtap-record/1"

enum {
	KEY_TIMEOUT = VT_KEY_COMMAND,
	KEY_JSON,
};

enum action { ACTION_NONE, ACTION_ON, ACTION_OFF, ACTION_STATUS };

struct arguments {
	pid_t pid;
	enum action action;
	uint64_t budget_ns;
	struct vt_record_options record;
	struct vt_output output;
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "How to do it:", 2 },
	{ "timeout", KEY_TIMEOUT, "TIME", 0,
	  "How long to try to get inside, and to wait for each answer (default 5s)", 0 },
	{ "json", KEY_JSON, "FILE", 0,
	  "Write everything as JSON to FILE; - is standard output, instead of the text", 0 },
	{ "quiet", 'q', NULL, 0, "Show no progress on the terminal", 0 },
	{ 0 },
};

static void parse_word(struct arguments *args, struct argp_state *state, const char *word)
{
	static const char *const actions[] = {
		[ACTION_ON] = "on",
		[ACTION_OFF] = "off",
		[ACTION_STATUS] = "status",
	};

	for (enum action a = ACTION_ON; a <= ACTION_STATUS; a++) {
		if (strcmp(word, actions[a]) != 0)
			continue;
		if (args->action)
			argp_error(state, "give one of on, off and status");
		args->action = a;
		return;
	}
	if (args->pid)
		argp_error(state, "give exactly one PID, and on, off or status, not \"%s\"", word);
	args->pid = vt_parse_pid(state, word);
}

static void check(const struct arguments *args, struct argp_state *state)
{
	if (!args->pid)
		vt_missing_pid(state, args->output.json, "the PID is");
	if (!args->action)
		argp_error(state, "on, off or status is missing");
	if (args->record.given && args->action != ACTION_ON)
		argp_error(state, VT_RECORD_OPTIONS " need \"on\"");
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;

	switch (key) {
	case ARGP_KEY_INIT:
		state->child_inputs[0] = &args->record;
		return 0;
	case KEY_TIMEOUT:
		args->budget_ns = vt_parse_timeout(state, arg);
		return 0;
	case KEY_JSON:
		args->output.json = arg;
		return 0;
	case 'q':
		args->output.quiet = true;
		return 0;
	case ARGP_KEY_ARG:
		parse_word(args, state, arg);
		return 0;
	case ARGP_KEY_END:
		check(args, state);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_child children[] = {
	{ &vt_record_argp, 0, NULL, 1 },
	{ 0 },
};

static const struct argp argp = {
	.children = children,
	.options = options,
	.parser = parse_option,
	.args_doc = "PID on\nPID status\nPID off",
	.doc = "Record the backtrace of each allocation that PyTorch's CUDA allocator and the "
	       "driver make in a live process: on starts, status shows the state, off stops. "
	       "vramtap report shows what was recorded.\v" VT_EXIT_CODES_DOC,
};

/* ---- the output ---- */

struct seen {
	const struct vt_record_target *target;
	enum action action;
	bool is_on;
	bool was_on;
	uint64_t kept;                  /* off: bytes that were not given back */
	struct vt_recorder_head before; /* off: as it was */
};

static uint64_t count_records(const struct vt_recorder_head *head)
{
	uint64_t n = 0;

	for (size_t i = 0; i < VT_RECORDER_SHARDS; i++)
		n += head->shards[i].count;
	return n;
}

static uint64_t count_evicted(const struct vt_recorder_head *head)
{
	uint64_t n = 0;

	for (size_t i = 0; i < VT_RECORDER_SHARDS; i++)
		n += head->shards[i].evicted;
	return n;
}

/* How often memory ran out since recording was switched on; VT_RECORDER_MAX_OOMS: or more. */
static uint32_t count_ooms(const struct vt_recorder_head *head)
{
	uint32_t n = 0;

	for (size_t i = 0; i < VT_RECORDER_MAX_OOMS; i++)
		n += head->trap.ooms[i].seq && head->trap.ooms[i].time_ns >= head->start_ns;
	return n;
}

static double age_of(const struct vt_record_target *target)
{
	const struct vt_recorder_head *head = target->head;
	uint64_t now = vt_timens_now(target->process.proc.pid);

	return head->start_ns && head->start_ns < now ?
		       (double)(now - head->start_ns) / VT_NS_PER_S :
		       0;
}

static const char *kinds_of(const struct vt_recorder_head *head)
{
	return head->python ? head->native ? "Python and native backtraces" : "Python backtraces" :
	       head->native ? "native backtraces" :
			      "no backtraces";
}

static const char *driver_of(const struct vt_recorder_head *head)
{
	static const char *const methods[] = {
		[VT_DRIVER_NOT] = "not recorded",
		[VT_DRIVER_CUPTI] = "CUPTI",
		[VT_DRIVER_GOT] = "patched GOT entries",
	};

	return head->driver_method < sizeof(methods) / sizeof(methods[0]) ?
		       methods[head->driver_method] :
		       "?";
}

static bool records_torch(const struct vt_recorder_head *head)
{
	return head->config.torch.object != 0;
}

static bool is_other_version(const struct vt_record_target *target)
{
	return target->resident && (target->resident->abi != VT_RECORDER_ABI ||
				    target->resident->size != sizeof(*target->head));
}

/* Whether everything wanted is there. */
static int status_of(const struct seen *seen)
{
	const struct vt_record_target *target = seen->target;
	const struct vt_recorder_head *head = target->head;

	if (seen->action == ACTION_OFF)
		return seen->kept || vt_record_count_hooks(target, &seen->before,
							   VT_HOOK_REPLACED) ?
			       VT_EXIT_PARTIAL :
			       VT_EXIT_COMPLETE;
	if (!seen->is_on)
		return VT_EXIT_COMPLETE;
	if (is_other_version(target) || !records_torch(head) ||
	    (head->config.driver && !head->driver_method) ||
	    vt_record_count_hooks(target, head, VT_HOOK_REPLACED) ||
	    vt_record_count_hooks(target, head, VT_HOOK_OUT))
		return VT_EXIT_PARTIAL;
	return VT_EXIT_COMPLETE;
}

/* ---- text ---- */

static void print_process(FILE *out, const struct vt_record_target *target)
{
	struct vt_str name = { 0 };

	vt_str_add_escaped(&name, target->process.proc.name, strlen(target->process.proc.name));
	fprintf(out, "%s (%d): ", vt_str_get(&name), (int)target->process.proc.pid);
	vt_str_deinit(&name);
}

static void print_torch(FILE *out, const struct vt_record_target *target)
{
	const struct vt_recorder_head *head = target->head;
	char count[VT_NUM_MAX];

	fputs("PyTorch  ", out);
	if (records_torch(head)) {
		fprintf(out, "every allocation of its allocator: %s so far",
			vt_format_count(count, vt_recorder_torch_allocations(head)));
	} else {
		fputs("not recorded", out);
		if (target->no_torch[0]) {
			fputs(": ", out);
			vt_print_escaped(out, target->no_torch);
		}
	}
	fputc('\n', out);
}

static void print_driver(FILE *out, const struct vt_record_target *target)
{
	const struct vt_recorder_head *head = target->head;
	char count[VT_NUM_MAX], frees[VT_NUM_MAX];

	fputs("driver   ", out);
	if (head->driver_method)
		fprintf(out, "allocations, by %s: %s so far, %s freed", driver_of(head),
			vt_format_count(count, head->driver_allocations),
			vt_format_count(frees, head->driver_frees));
	else
		fputs("not recorded", out);
	if (target->no_driver[0]) {
		fputs(head->driver_method ? "\n         not all of them: " : ": ", out);
		vt_print_escaped(out, target->no_driver);
	}
	fputc('\n', out);
}

static void print_launches(FILE *out, const struct vt_record_target *target)
{
	const struct vt_recorder_head *head = target->head;
	char count[VT_NUM_MAX], size[VT_NUM_MAX];

	if (!head->config.launches)
		return;
	if (head->launches.n_words)
		fprintf(out, "launches by %u pointers: %s so far", head->launches.n_words,
			vt_format_count(count, target->n_launches));
	else
		fputs("launches not seen yet: no library has a pointer to a function that launches",
		      out);
	if (head->launches.lost)
		fprintf(out, ", %s more without a record",
			vt_format_count(count, head->launches.lost));
	if (target->no_room_for_launches)
		fprintf(out, "; %zu more pointers had no room", target->no_room_for_launches);
	if (target->unread_for_launches)
		fprintf(out, "; %s of libraries' data were not searched for pointers",
			vt_format_size(size, target->unread_for_launches));
	if (head->launches.n_left)
		fprintf(out, "; %u more pointers could not be changed", head->launches.n_left);
	fputs("\n         not seen: those of libraries with a CUDA runtime of their own, or loaded "
	      "later (vramtap record PID on adds them)\n",
	      out);
}

static void print_kept(FILE *out, const struct vt_recorder_head *head)
{
	char records[VT_NUM_MAX], stacks[VT_NUM_MAX], size[VT_NUM_MAX], bound[VT_NUM_MAX];

	fprintf(out, "kept     %s records, %s different backtraces; %s of %s used\n",
		vt_format_count(records, count_records(head)),
		vt_format_count(stacks, head->stacks.n ? head->stacks.n - 1 : 0),
		vt_format_size(size, head->memory), vt_format_size(bound, head->max_memory));
	if (head->sample_now)
		fprintf(out, "sampled  about one allocation for each %s%s\n",
			vt_format_size(size, head->sample_now),
			head->sample_now != head->sample_bytes ? ", because the memory is full" :
								 "");
	if (head->lost || head->stacks_dropped || count_evicted(head))
		fprintf(out,
			"lost     %llu allocations not recorded, %llu without a backtrace, %llu records dropped\n",
			(unsigned long long)head->lost, (unsigned long long)head->stacks_dropped,
			(unsigned long long)count_evicted(head));
	if (count_ooms(head))
		fprintf(out, "memory   ran out %u time%s%s\n", count_ooms(head),
			count_ooms(head) == 1 ? "" : "s",
			count_ooms(head) == VT_RECORDER_MAX_OOMS ? " or more" : "");
}

static void print_hooks(FILE *out, const struct vt_record_target *target)
{
	const struct vt_recorder_head *head = target->head;
	size_t ours = vt_record_count_hooks(target, head, VT_HOOK_OURS);
	size_t gone = vt_record_count_hooks(target, head, VT_HOOK_OUT) +
		      vt_record_count_hooks(target, head, VT_HOOK_LOST);
	size_t replaced = vt_record_count_hooks(target, head, VT_HOOK_REPLACED);

	fprintf(out, "hooks    %zu pointer%s of the process changed", ours, ours == 1 ? "" : "s");
	if (gone)
		fprintf(out, "; %zu changed back by something else", gone);
	if (replaced)
		fprintf(out,
			"; %zu replaced by something else, which may or may not call the recorder",
			replaced);
	fputc('\n', out);
}

/* All that the process was kept from its work for. */
static void print_pause(FILE *out, const struct vt_record_target *target)
{
	char number[VT_NUM_MAX];

	if (target->borrowed_ns)
		fprintf(out, "paused   one thread, for %s\n",
			vt_format_ms(number, (double)target->borrowed_ns / VT_NS_PER_MS));
}

static void print_on(FILE *out, const struct seen *seen)
{
	const struct vt_record_target *target = seen->target;
	char age[VT_NUM_MAX];

	if (is_other_version(target)) {
		fputs("recording is on, by another version of vramtap\n", out);
		print_hooks(out, target);
		return;
	}
	if (vt_record_was_unhooked(target)) {
		fprintf(out, "nothing is recorded: all pointers were changed back from outside\n");
		print_kept(out, target->head);
		fprintf(out, "\nvramtap record %d off frees the memory, on starts again.\n",
			(int)target->process.proc.pid);
		return;
	}
	if (seen->action == ACTION_ON && !seen->was_on)
		fprintf(out, "recording is on now, with %s\n", kinds_of(target->head));
	else
		fprintf(out, "recording has been on for %s, with %s\n",
			vt_format_age(age, age_of(target)), kinds_of(target->head));
	print_torch(out, target);
	print_driver(out, target);
	print_launches(out, target);
	if (target->no_python[0] && target->head->python) {
		fputs("Python   no frames: ", out);
		vt_print_escaped(out, target->no_python);
		fputc('\n', out);
	}
	print_kept(out, target->head);
	print_hooks(out, target);
	print_pause(out, target);
	if (seen->action == ACTION_ON)
		fprintf(out,
			"\nvramtap report %d shows what allocated the memory; vramtap record %d off ends recording.\n",
			(int)target->process.proc.pid, (int)target->process.proc.pid);
}

static void print_off(FILE *out, const struct seen *seen)
{
	const struct vt_record_target *target = seen->target;
	char size[VT_NUM_MAX];

	if (!seen->was_on) {
		fprintf(out, "recording is not on%s\n",
			target->inherited ? " (it is on in the parent that forked this process)" :
			target->resident  ? "; the recorder is loaded, idle" :
					    "");
		return;
	}
	if (vt_record_count_hooks(target, &seen->before, VT_HOOK_REPLACED))
		fputs("recording is off\n"
		      "hooks    something else has replaced a pointer since; it was left as it is\n",
		      out);
	else
		fputs("recording is off; every changed pointer was checked and is as before\n",
		      out);
	if (seen->kept)
		fprintf(out, "memory   %s not freed: %s\n", vt_format_size(size, seen->kept),
			target->not_inside);
	print_pause(out, target);
	fprintf(out, "left     the library, %s of the process's memory, in which nothing runs\n",
		vt_format_size(size, target->resident ?
					     target->resident->end - target->resident->base :
					     0));
}

#define INDENT 9 /* of what follows a line's first word */
#define DEFAULT_COLUMNS 100

/* One line, broken at spaces if it is too long. */
static void print_folded(FILE *out, const char *line, size_t n, size_t columns)
{
	size_t room = columns;

	while (n > room) {
		size_t at = room;

		while (at > 0 && line[at] != ' ')
			at--;
		/* A word that is longer than the line stays whole. */
		if (!at)
			break;
		fprintf(out, "%.*s\n%*s", (int)at, line, INDENT, "");
		line += at + 1;
		n -= at + 1;
		room = columns - INDENT;
	}
	fprintf(out, "%.*s\n", (int)n, line);
}

static struct vt_error *write_text(const void *what, const struct vt_writer_options *writer_options,
				   FILE *out)
{
	const struct seen *seen = what;
	size_t columns = writer_options->columns ? (size_t)writer_options->columns :
						   DEFAULT_COLUMNS;
	VT_FREE char *text = NULL;
	size_t size;
	FILE *lines = open_memstream(&text, &size);

	if (!lines)
		return &vt_enomem;
	print_process(lines, seen->target);
	if (seen->is_on)
		print_on(lines, seen);
	else
		print_off(lines, seen);
	if (fclose(lines))
		return &vt_enomem;
	for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
		print_folded(out, line, (size_t)(end - line), columns);
	return NULL;
}

/* ---- JSON ---- */

static void write_counters(struct vt_json *json, const struct vt_recorder_head *head)
{
	vt_json_uint(json, "max_memory_bytes", head->max_memory);
	vt_json_uint(json, "memory_bytes", head->memory);
	vt_json_uint(json, "sample_bytes", head->sample_bytes);
	vt_json_uint(json, "sample_now_bytes", head->sample_now);
	vt_json_uint(json, "torch_allocations", vt_recorder_torch_allocations(head));
	vt_json_uint(json, "driver_allocations", head->driver_allocations);
	vt_json_uint(json, "driver_frees", head->driver_frees);
	vt_json_uint(json, "records", count_records(head));
	vt_json_uint(json, "stacks", head->stacks.n ? head->stacks.n - 1 : 0);
	vt_json_uint(json, "lost", head->lost);
	vt_json_uint(json, "without_stack", head->stacks_dropped);
	vt_json_uint(json, "evicted", count_evicted(head));
	vt_json_uint(json, "out_of_memory", count_ooms(head));
}

static void write_hooks(struct vt_json *json, const struct vt_record_target *target,
			const struct vt_recorder_head *head)
{
	vt_json_object_line(json, "hooks");
	vt_json_uint(json, "in_place", vt_record_count_hooks(target, head, VT_HOOK_OURS));
	vt_json_uint(json, "out", vt_record_count_hooks(target, head, VT_HOOK_OUT));
	vt_json_uint(json, "replaced", vt_record_count_hooks(target, head, VT_HOOK_REPLACED));
	vt_json_uint(json, "unreadable", vt_record_count_hooks(target, head, VT_HOOK_LOST));
	vt_json_end_object(json);
}

static void write_on(struct vt_json *json, const struct vt_record_target *target)
{
	const struct vt_recorder_head *head = target->head;

	vt_json_bool(json, "other_version", is_other_version(target));
	if (is_other_version(target))
		return;
	vt_json_milli(json, "age_s", age_of(target));
	vt_json_bool(json, "python", head->python);
	vt_json_bool(json, "native", head->native);
	vt_json_bool(json, "torch", records_torch(head));
	vt_json_text(json, "torch_why_not",
		     records_torch(head) || !target->no_torch[0] ? NULL : target->no_torch);
	vt_json_text(json, "driver", driver_of(head));
	vt_json_text(json, "driver_why_not", target->no_driver[0] ? target->no_driver : NULL);
	vt_json_int(json, "cupti_error", head->cupti_error);
	write_counters(json, head);
	if (!head->config.launches) {
		vt_json_null(json, "launches");
		return;
	}
	vt_json_uint(json, "launches", target->n_launches);
	vt_json_uint(json, "launches_lost", head->launches.lost);
	vt_json_uint(json, "launch_words", head->launches.n_words);
	vt_json_uint(json, "launch_words_without_room", target->no_room_for_launches);
	vt_json_uint(json, "launch_bytes_not_searched", target->unread_for_launches);
	vt_json_uint(json, "launch_words_unchanged", head->launches.n_left);
}

static struct vt_error *write_json(const void *what, const struct vt_writer_options *writer_options,
				   FILE *out)
{
	VT_FREE struct vt_json *json = malloc(sizeof(*json));
	const struct seen *seen = what;

	(void)writer_options;
	if (!json)
		return &vt_enomem;
	vt_json_init(json, out);
	vt_json_object(json, NULL);
	vt_json_text(json, "schema", SCHEMA);
	vt_json_text(json, "vramtap_version", PACKAGE_VERSION);
	vt_json_int(json, "pid", seen->target->process.proc.pid);
	vt_json_text(json, "process", seen->target->process.proc.name);
	vt_json_text(json, "state", seen->is_on ? "on" : "off");
	vt_json_bool(json, "was_on", seen->was_on);
	vt_json_bool(json, "loaded", seen->target->n_residents > 0);
	write_hooks(json, seen->target,
		    seen->action == ACTION_OFF ? &seen->before : seen->target->head);
	if (seen->action == ACTION_OFF)
		vt_json_uint(json, "kept_bytes", seen->kept);
	if (seen->target->borrowed_ns)
		vt_json_milli(json, "borrowed_us",
			      (double)seen->target->borrowed_ns / VT_NS_PER_US);
	else
		vt_json_null(json, "borrowed_us");
	if (seen->is_on)
		write_on(json, seen->target);
	vt_json_end_object(json);
	return vt_json_finish(json);
}

/* ---- */

static struct vt_error *act(const struct arguments *args, struct vt_record_target *target,
			    struct seen *seen)
{
	if (args->action == ACTION_STATUS)
		VT_TRY(vt_record_open_to_read(target, args->pid));
	else
		VT_TRY(vt_record_open(target, args->pid, args->budget_ns));
	seen->was_on = vt_record_is_on(target);
	seen->before = *target->head;
	if (args->action == ACTION_ON)
		VT_TRY(vt_record_on(target, &args->record.request));
	/* Even if it is off already: completes an end that was interrupted. */
	if (args->action == ACTION_OFF)
		VT_TRY(vt_record_off(target, &seen->kept));
	/*
	 * Without hooks nothing is recorded, whatever the recorder itself assumes after they were
	 * removed from outside.
	 */
	seen->is_on = args->action != ACTION_OFF && vt_record_is_on(target);
	return NULL;
}

static struct vt_error *show(const struct arguments *args, const struct seen *seen)
{
	VT_TRY(vt_output_json(&args->output, write_json, seen));
	return vt_output_is_json_only(&args->output) ?
		       NULL :
		       vt_output_text(&args->output, write_text, seen);
}

int vt_cmd_record(int argc, char **argv)
{
	struct arguments args = {
		.budget_ns = 5 * VT_NS_PER_S,
	};
	VT_FREE struct vt_record_target *target = calloc(1, sizeof(*target));
	VT_FREE struct seen *seen = calloc(1, sizeof(*seen));
	int status;

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);
	if (!target || !seen)
		return vt_exit_with(&vt_enomem);
	seen->target = target;
	seen->action = args.action;

	VT_ERROR struct vt_error *err = act(&args, target, seen);

	vt_progress_end();
	if (!err) {
		status = status_of(seen);
		err = show(&args, seen);
	}
	if (err)
		status = vt_exit_with(err);
	vt_record_close(target);
	return status;
}
