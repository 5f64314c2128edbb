/* SPDX-License-Identifier: Apache-2.0 */
/* vramtap layouts [PID]: the table of known PyTorch releases, and what was found in a process. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cmd/cmd.h"
#include "collect/collect.h"
#include "cmd/output.h"
#include "base/progress.h"
#include "json/out.h"
#include "report/state_words.h"
#include "walk/torch/table.h"

#define SCHEMA "vramtap-layouts/1"
#define NONE VT_TORCH_NO_FIELD

enum { KEY_JSON = VT_KEY_COMMAND, KEY_HIDE };

struct arguments {
	pid_t pid;
	struct vt_output output;
};

static const struct argp_option options[] = {
	{ "hide-layout", KEY_HIDE, "RELEASE", 0, VT_HIDE_LAYOUT_DOC, 0 },
	{ "json", KEY_JSON, "FILE", 0,
	  "Write everything as JSON to FILE; - is standard output, instead of the text", 0 },
	{ 0 },
};

void vt_parse_hide_layout(struct argp_state *state, const char *release)
{
	if (!vt_torch_hide_row(release))
		argp_error(
			state,
			"--hide-layout: the table has no release \"%s\"; vramtap layouts lists it",
			release);
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct arguments *args = state->input;

	switch (key) {
	case KEY_JSON:
		args->output.json = arg;
		return 0;
	case KEY_HIDE:
		vt_parse_hide_layout(state, arg);
		return 0;
	case ARGP_KEY_ARG:
		if (state->arg_num > 0)
			argp_error(state, "give exactly one PID");
		args->pid = vt_parse_pid(state, arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	.options = options,
	.parser = parse_option,
	.args_doc = "[PID]",
	.doc = "List the PyTorch releases whose allocator's layout is known, or show the layout "
	       "found in a live process. The process is neither stopped nor changed.\v" VT_EXIT_CODES_DOC,
};

/* ---- the table ---- */

static const char *origin_name(const struct vt_torch_row *row)
{
	return row->origin == VT_ROW_SOURCE ? "source" : "library";
}

static size_t count_shown(void)
{
	size_t n, shown = 0;
	const struct vt_torch_row *rows = vt_torch_rows(&n);

	for (size_t i = 0; i < n; i++)
		shown += !vt_torch_is_hidden(&rows[i]);
	return shown;
}

/* The columns of the text, which fits 80; the JSON has all fields. */
static const struct {
	const char *head;
	enum vt_torch_field field;
	int width;
} columns[] = {
	{ "devices", VT_TORCH_DEVICE_VECTOR, 7 }, { "large", VT_TORCH_LARGE_BLOCKS, 5 },
	{ "active", VT_TORCH_ACTIVE_BLOCKS, 6 },  { "graph", VT_TORCH_GRAPH_POOLS, 5 },
	{ "sets", VT_TORCH_SETS_PER_POOL, 4 },    { "Block", VT_TORCH_BLOCK_SIZE_OF, 5 },
	{ "size", VT_TORCH_BLOCK_SIZE, 4 },       { "context", VT_TORCH_BLOCK_CONTEXT, 7 },
};
#define N_COLUMNS (sizeof(columns) / sizeof(columns[0]))

static void print_offset(FILE *out, int width, uint32_t offset)
{
	if (offset == NONE)
		fprintf(out, " %*s", width, "-");
	else
		fprintf(out, " %*u", width, offset);
}

static struct vt_error *write_table(const void *what,
				    const struct vt_writer_options *writer_options, FILE *out)
{
	size_t n;
	const struct vt_torch_row *rows = vt_torch_rows(&n);

	(void)what;
	(void)writer_options;
	fprintf(out,
		"The layout of the allocator is known for %zu PyTorch releases. vramtap still\n"
		"finds it in each process, and compares the result with this table. Offsets are\n"
		"in bytes, from the library of that wheel; builds with either ABI of std::string\n"
		"have the same. --json shows all fields.\n"
		"\n"
		"%-7s %-12s %-7s",
		count_shown(), "release", "wheel", "origin");
	for (size_t c = 0; c < N_COLUMNS; c++)
		fprintf(out, " %*s", columns[c].width, columns[c].head);
	fputc('\n', out);
	for (size_t i = 0; i < n; i++) {
		if (vt_torch_is_hidden(&rows[i]))
			continue;
		fprintf(out, "%-7s %-12s %-7s", rows[i].release, rows[i].wheel,
			origin_name(&rows[i]));
		for (size_t c = 0; c < N_COLUMNS; c++)
			print_offset(out, columns[c].width,
				     vt_torch_field_get(&rows[i].layout, columns[c].field));
		fputc('\n', out);
	}
	return NULL;
}

/* ---- the process ---- */

static const char *const how_names[] = {
	[VT_TORCH_HOW_NOT] = "none",
	[VT_TORCH_HOW_SIGNATURE] = "signature",
	[VT_TORCH_HOW_POSITION] = "place",
	[VT_TORCH_HOW_TABLE] = "table",
};

/* One line each; semicolons separate them. */
static void print_differences(FILE *out, const char *text)
{
	fputs("differs    from the table's row of this release:\n", out);
	while (*text) {
		int n = (int)strcspn(text, ";");

		fprintf(out, "           %.*s\n", n, text);
		text += n;
		text += strspn(text, "; ");
	}
}

static void print_summary(FILE *out, const struct vt_layout_seen *seen)
{
	const struct vt_torch_found *found = &seen->found;

	vt_print_escaped(out, seen->process);
	if (found->backend == VT_TORCH_ABSENT) {
		fputs(": no PyTorch allocator, because libc10_cuda.so is not loaded\n", out);
		return;
	}
	fputs(": PyTorch ", out);
	vt_print_escaped(out, found->version[0] ? found->version : "of unknown version");
	if (found->backend == VT_TORCH_NATIVE)
		fprintf(out,
			found->row ? ", the layout of %s\n" :
				     ", the layout of %s; found by signature alone\n",
			found->layout.name);
	else if (found->backend == VT_TORCH_UNKNOWN)
		fputs(", a layout that is not understood\n", out);
	else
		fprintf(out, ", allocator: %s\n", vt_allocator_state_words(seen->state));
	if (found->why[0])
		fprintf(out, "refused    %s\n", found->why);
	if (found->differs[0])
		print_differences(out, found->differs);
	fputs("library    ", out);
	vt_print_escaped(out, seen->library);
	fprintf(out, "\nbuild id   %s\n", seen->build_id[0] ? seen->build_id : "none");
	if (seen->wheel)
		fprintf(out, "           that of the official wheel %s\n", seen->wheel);
	if (found->allocator)
		fprintf(out, "allocator  %#llx (%s)\n", (unsigned long long)found->allocator,
			vt_allocator_state_words(seen->state));
}

static struct vt_error *write_seen(const void *what, const struct vt_writer_options *writer_options,
				   FILE *out)
{
	const struct vt_layout_seen *seen = what;
	const struct vt_torch_found *found = &seen->found;
	const char *class_name = "";

	(void)writer_options;
	print_summary(out, seen);
	if (found->backend != VT_TORCH_NATIVE)
		return NULL;
	fputs("\n"
	      "Offsets in bytes, and how each is known: by its signature, that is by its contents\n"
	      "here; by its place, where nothing here tells it apart from its neighbours; or by\n"
	      "the table, where nothing here shows it.\n",
	      out);
	for (enum vt_torch_field field = 0; field < VT_TORCH_N_FIELDS; field++) {
		uint32_t offset = vt_torch_field_get(&found->layout, field);

		if (strcmp(class_name, vt_torch_field_class(field)) != 0) {
			class_name = vt_torch_field_class(field);
			fprintf(out, "\n%s\n", class_name);
		}
		fprintf(out, "    %-28s", vt_torch_field_name(field));
		print_offset(out, 6, found->how[field] == VT_TORCH_HOW_NOT ? NONE : offset);
		fprintf(out, "  %s\n", how_names[found->how[field]]);
	}
	return NULL;
}

/* ---- JSON ---- */

static void write_fields(struct vt_json *json, const struct vt_torch_layout *layout,
			 const uint8_t *how)
{
	vt_json_array(json, "fields");
	for (enum vt_torch_field field = 0; field < VT_TORCH_N_FIELDS; field++) {
		uint32_t value = vt_torch_field_get(layout, field);

		vt_json_object_line(json, NULL);
		vt_json_text(json, "class", vt_torch_field_class(field));
		vt_json_text(json, "name", vt_torch_field_name(field));
		if (value == NONE || (how && how[field] == VT_TORCH_HOW_NOT))
			vt_json_null(json, "bytes");
		else
			vt_json_uint(json, "bytes", value);
		if (how)
			vt_json_text(json, "how", how_names[how[field]]);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_rows(struct vt_json *json)
{
	size_t n;
	const struct vt_torch_row *rows = vt_torch_rows(&n);

	vt_json_array(json, "layouts");
	for (size_t i = 0; i < n; i++) {
		if (vt_torch_is_hidden(&rows[i]))
			continue;
		vt_json_object(json, NULL);
		vt_json_text(json, "release", rows[i].release);
		vt_json_text(json, "wheel", rows[i].wheel);
		vt_json_text(json, "build_id", rows[i].build_id);
		vt_json_text(json, "origin", origin_name(&rows[i]));
		vt_json_uint(json, "cuda", rows[i].cuda);
		vt_json_bool(json, "has_device_prop", rows[i].has_device_prop);
		write_fields(json, &rows[i].layout, NULL);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_process(struct vt_json *json, const struct vt_layout_seen *seen)
{
	const struct vt_torch_found *found = &seen->found;
	bool native = found->backend == VT_TORCH_NATIVE;

	vt_json_int(json, "pid", seen->pid);
	vt_json_text(json, "process", seen->process);
	vt_json_text(json, "state", vt_allocator_state_words(seen->state));
	vt_json_text(json, "state_code", vt_allocator_state_code(seen->state));
	vt_json_text(json, "pytorch", found->version[0] ? found->version : NULL);
	vt_json_text(json, "library", seen->library[0] ? seen->library : NULL);
	vt_json_text(json, "build_id", seen->build_id[0] ? seen->build_id : NULL);
	vt_json_text(json, "official_wheel", seen->wheel);
	vt_json_hex(json, "allocator", found->allocator);
	vt_json_text(json, "layout", native ? found->layout.name : NULL);
	vt_json_text(json, "row", native && found->row ? found->row->release : NULL);
	vt_json_bool(json, "known", native && found->row);
	vt_json_text(json, "differs", found->differs[0] ? found->differs : NULL);
	vt_json_text(json, "refused", found->why[0] ? found->why : NULL);
	if (native)
		write_fields(json, &found->layout, found->how);
}

static struct vt_error *write_json(const void *what, const struct vt_writer_options *writer_options,
				   FILE *out)
{
	VT_FREE struct vt_json *json = malloc(sizeof(*json));

	(void)writer_options;
	if (!json)
		return &vt_enomem;
	vt_json_init(json, out);
	vt_json_object(json, NULL);
	vt_json_text(json, "schema", SCHEMA);
	vt_json_text(json, "vramtap_version", PACKAGE_VERSION);
	if (what)
		write_process(json, what);
	else
		write_rows(json);
	vt_json_end_object(json);
	return vt_json_finish(json);
}

/* ---- */

static struct vt_error *write_all(const struct vt_output *output, vt_write_fn *write_text,
				  const struct vt_layout_seen *seen)
{
	VT_TRY(vt_output_json(output, write_json, seen));
	return vt_output_is_json_only(output) ? NULL : vt_output_text(output, write_text, seen);
}

static int status_of(const struct vt_layout_seen *seen)
{
	if (seen->found.backend == VT_TORCH_UNKNOWN || seen->found.backend == VT_TORCH_ABSENT)
		return VT_EXIT_NOTHING;
	return seen->found.differs[0] ? VT_EXIT_PARTIAL : VT_EXIT_COMPLETE;
}

static int show_process(const struct arguments *args)
{
	struct vt_subject subject = { .origin = &vt_origin_process, .pid = args->pid };
	struct vt_layout_seen seen;
	struct vt_model model;
	int status = VT_EXIT_COMPLETE;

	vt_model_init(&model);

	VT_ERROR struct vt_error *err = vt_collect_layout(&subject, &model, &seen);

	vt_progress_end();
	if (!err) {
		status = status_of(&seen);
		err = write_all(&args->output, write_seen, &seen);
	}
	if (err)
		status = vt_exit_with(err);
	vt_model_deinit(&model);
	return status;
}

static int show_table(const struct arguments *args)
{
	VT_ERROR struct vt_error *err = write_all(&args->output, write_table, NULL);

	return err ? vt_exit_with(err) : VT_EXIT_COMPLETE;
}

int vt_cmd_layouts(int argc, char **argv)
{
	struct arguments args = { 0 };

	vt_parse_command(&argp, argc, argv, 0, &args);
	vt_output_begin(&args.output);
	return args.pid ? show_process(&args) : show_table(&args);
}
