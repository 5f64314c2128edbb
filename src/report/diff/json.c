/* SPDX-License-Identifier: Apache-2.0 */
/* A comparison as JSON. doc/diff.schema.json describes every field; a test keeps both in step. */
#include <stdlib.h>
#include <string.h>

#include "report/diff/diff.h"
#include "json/out.h"
#include "report/json/recorder.h"

#define SCHEMA "vramtap-diff"
#define SCHEMA_VERSION 1 /* raised when a field goes or changes its meaning */

static void write_side(struct vt_json *json, const char *key, const struct vt_model *model)
{
	const struct vt_model_process *p = &model->process;

	vt_json_object(json, key);
	vt_json_milli(json, "time_s",
		      (double)model->when.tv_sec + (double)model->when.tv_nsec / 1e9);
	vt_json_name(json, "tool_version", model->tool_version);
	vt_json_name(json, "host", model->where.host);
	vt_json_text(json, "completeness", vt_completeness_name(model->completeness));
	vt_json_int(json, "pid", p->pid);
	vt_json_name(json, "name", p->name);
	vt_json_name(json, "command_line", p->cmdline);
	vt_json_known(json, "rank", p->rank);
	vt_json_name(json, "job", p->job);
	vt_json_name(json, "core", model->core.path);
	vt_json_bool(json, "recorded", model->block_traces != NULL);
	vt_json_end_object(json);
}

static void put_amount(struct vt_json *json, const char *key, const struct vt_model_amount *a)
{
	vt_json_object_line(json, key);
	vt_json_uint(json, "bytes", a->bytes);
	vt_json_uint(json, "blocks", a->blocks);
	vt_json_end_object(json);
}

static void put_change(struct vt_json *json, const struct vt_diff_amount *a)
{
	put_amount(json, "before", &a->before);
	put_amount(json, "after", &a->after);
	vt_json_int(json, "change_bytes", vt_diff_bytes(a));
	vt_json_int(json, "change_blocks", vt_diff_blocks(a));
}

static void put_known_change(struct vt_json *json, const char *key, bool known,
			     const struct vt_diff_amount *a)
{
	if (!known) {
		vt_json_null(json, key);
		return;
	}
	vt_json_object_line(json, key);
	put_change(json, a);
	vt_json_end_object(json);
}

static void write_frame(struct vt_json *json, const char *key, const struct vt_model_frame *f)
{
	if (!f) {
		vt_json_null(json, key);
		return;
	}
	vt_json_object_line(json, key);
	vt_json_text(json, "kind", f->kind == VT_FRAME_PYTHON ? "python" : "native");
	vt_json_name(json, "function", f->function);
	vt_json_name(json, "file", f->file);
	if (f->line > 0)
		vt_json_int(json, "line", f->line);
	else
		vt_json_null(json, "line");
	vt_json_name(json, "module", f->kind == VT_FRAME_NATIVE ? f->module : NULL);
	vt_json_end_object(json);
}

static void put_kept(struct vt_json *json, const struct vt_diff *diff,
		     const struct vt_model_amount *kept)
{
	if (diff->kept_known)
		put_amount(json, "kept", kept);
	else
		vt_json_null(json, "kept");
}

static void write_trace(struct vt_json *json, const struct vt_diff *diff,
			const struct vt_diff_trace *t)
{
	vt_json_object(json, NULL);
	put_change(json, &t->amount);
	put_kept(json, diff, &t->kept);
	vt_json_array(json, "frames");
	for (size_t i = 0; i < t->trace->n_frames; i++)
		write_frame(json, NULL, &t->model->trace_frames[t->trace->frames[i]]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_site(struct vt_json *json, const struct vt_diff *diff,
		       const struct vt_diff_site *site)
{
	vt_json_object(json, NULL);
	write_frame(json, "title", site->title);
	put_change(json, &site->amount);
	put_kept(json, diff, &site->kept);
	vt_json_ages(json, &site->ages);
	vt_json_array(json, "backtraces");
	for (size_t i = site->first_trace; i != VT_NO_TRACE; i = diff->traces.data[i].next_in_site)
		write_trace(json, diff, &diff->traces.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static void write_sites(struct vt_json *json, const struct vt_diff *diff)
{
	bool compared = diff->sites_compared == VT_DIFF_SITES_COMPARED;

	vt_json_text(json, "sites_compared", vt_diff_sites_name(diff->sites_compared));
	vt_json_array(json, "sites");
	for (size_t i = 0; i < diff->sites.n && compared; i++)
		write_site(json, diff, &diff->sites.data[i]);
	vt_json_end_array(json);
	vt_json_object(json, "without");
	for (size_t i = 0; i < VT_N_UNTRACED; i++)
		put_known_change(json, vt_json_untraced_key((enum vt_untraced)i), compared,
				 &diff->untraced[i]);
	vt_json_end_object(json);
}

static void write_devices(struct vt_json *json, const struct vt_diff *diff)
{
	vt_json_array(json, "devices");
	for (size_t i = 0; i < diff->devices.n; i++) {
		const struct vt_diff_device *d = &diff->devices.data[i];

		vt_json_object(json, NULL);
		vt_json_int(json, "device", d->ordinal);
		for (int p = 0; p < VT_N_DIFF_PARTS; p++)
			put_known_change(json, vt_diff_part_name(p), d->known[p], &d->parts[p]);
		vt_json_object(json, "ledger");
		for (unsigned int line = VT_CLAIMER_LIBPOOLS; line < VT_N_DIFF_LINES; line++)
			put_known_change(json, vt_diff_line_name(line), d->line_known[line],
					 &d->lines[line]);
		vt_json_end_object(json);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_groups(struct vt_json *json, const struct vt_diff *diff)
{
	vt_json_array(json, "groups");
	for (size_t i = 0; i < diff->groups.n; i++) {
		const struct vt_diff_group *g = &diff->groups.data[i];

		vt_json_object_line(json, NULL);
		vt_json_int(json, "device", g->device);
		vt_json_hex(json, "stream", g->stream);
		vt_json_uint(json, "block_bytes", g->size);
		put_change(json, &g->amount);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_driver(struct vt_json *json, const struct vt_diff *diff)
{
	vt_json_array(json, "driver");
	for (size_t i = 0; i < diff->driver.n; i++) {
		const struct vt_diff_driver *d = &diff->driver.data[i];

		vt_json_object_line(json, NULL);
		vt_json_name(json, "library", d->group->library);
		vt_json_text(json, "kind", vt_driver_kind_name(d->group->kind));
		if (d->group->device >= 0)
			vt_json_int(json, "device", d->group->device);
		else
			vt_json_null(json, "device");
		put_change(json, &d->amount);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_owners(struct vt_json *json, const struct vt_diff *diff)
{
	vt_json_text(json, "owners_compared", vt_diff_owners_name(diff->owners_compared));
	vt_json_array(json, "owners");
	for (size_t i = 0; i < diff->owners.n; i++) {
		const struct vt_diff_owner *o = &diff->owners.data[i];

		vt_json_object_line(json, NULL);
		vt_json_name(json, "variable", o->variable);
		vt_json_name(json, "path", o->path);
		vt_json_text(json, "category", vt_category_code(o->category));
		vt_json_bool(json, "certain", o->certain);
		put_change(json, &o->amount);
		vt_json_uint(json, "tensors_before", o->tensors_before);
		vt_json_uint(json, "tensors_after", o->tensors_after);
		if (diff->why_other)
			vt_json_null(json, "renamed");
		else
			put_amount(json, "renamed", &o->renamed);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
	vt_json_array(json, "categories");
	for (size_t i = 0; i < VT_N_CATEGORIES; i++) {
		const struct vt_diff_amount *a = &diff->categories[i];

		if (!a->before.blocks && !a->after.blocks)
			continue;
		vt_json_object_line(json, NULL);
		vt_json_text(json, "category", vt_category_code((enum vt_category)i));
		put_change(json, a);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

static void write_texts(struct vt_json *json, const struct vt_diff *diff)
{
	vt_json_headlines(json, diff->headlines.data, diff->headlines.n);
	vt_json_array(json, "notes");
	for (size_t i = 0; i < diff->notes.n; i++) {
		vt_json_object_line(json, NULL);
		vt_json_text(json, "level",
			     diff->notes.data[i].level == VT_DIAG_MISSING ? "missing" : "note");
		vt_json_text(json, "code", diff->notes.data[i].code);
		vt_json_text(json, "text", diff->notes.data[i].text);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
}

struct vt_error *vt_diff_write_json(const struct vt_diff *diff, FILE *out)
{
	VT_FREE struct vt_json *json = malloc(sizeof(*json));

	if (!json)
		return &vt_enomem;
	vt_json_init(json, out);
	vt_json_object(json, NULL);
	vt_json_text(json, "schema", SCHEMA);
	vt_json_uint(json, "schema_version", SCHEMA_VERSION);
	vt_json_text(json, "tool_version", PACKAGE_VERSION);
	vt_json_text(json, "completeness", vt_completeness_name(diff->completeness));
	write_texts(json, diff);
	write_side(json, "before", diff->before);
	write_side(json, "after", diff->after);
	vt_json_bool(json, "same_process", !diff->why_other);
	vt_json_text(json, "why_other_process", diff->why_other);
	vt_json_milli(json, "seconds", diff->seconds);
	write_devices(json, diff);
	write_owners(json, diff);
	write_sites(json, diff);
	write_groups(json, diff);
	write_driver(json, diff);
	put_kept(json, diff, &diff->kept);
	if (diff->kept_known)
		vt_json_bool(json, "kept_certain", diff->kept_certain);
	else
		vt_json_null(json, "kept_certain");
	vt_json_end_object(json);
	return vt_json_finish(json);
}
