/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/saved.h"

#include <string.h>

#include "base/str.h"
#include "json/in.h"
#include "json/jansson.h"
#include "report/html/saved_packed.h"

/* What the page's scripts know. */
static const struct {
	const char *name;
	int version;
} schemas[VT_HTML_N_KINDS] = {
	[VT_HTML_REPORT] = { VT_REPORT_SCHEMA, VT_REPORT_SCHEMA_VERSION },
	[VT_HTML_STACKS] = { "vramtap-stacks", VT_REPORT_SCHEMA_VERSION },
	[VT_HTML_DIFF] = { "vramtap-diff", 1 },
	[VT_HTML_JOB] = { "vramtap-triage", 1 },
};

static struct vt_error *check_version(json_t *root, int known)
{
	json_t *version = json_object_get(root, "schema_version");

	if (json_is_integer(version) && json_integer_value(version) == known)
		return NULL;
	return vt_error_create(
		VT_ERR_FORMAT,
		"its schema version is %lld, but this vramtap reads only version %d: save it again with this one",
		(long long)json_integer_value(version), known);
}

static struct vt_error *find_kind(json_t *root, enum vt_html_kind *kind)
{
	const char *schema = json_string_value(json_object_get(root, "schema"));

	for (int i = 0; schema && i < VT_HTML_N_KINDS; i++) {
		if (!strcmp(schema, schemas[i].name)) {
			*kind = (enum vt_html_kind)i;
			return check_version(root, schemas[i].version);
		}
	}
	return vt_error_create(
		VT_ERR_FORMAT,
		"it is no report, stacks, diff or triage that vramtap saved as JSON");
}

struct vt_error *vt_html_saved_init_text(const char *path, const struct vt_str *text,
					 struct vt_html_saved *saved)
{
	struct vt_html_saved loaded = { .path = path };
	struct vt_error *err =
		vt_jansson_parse(vt_str_get(text), text->n, &loaded.values, &loaded.root);

	if (!err)
		err = find_kind(loaded.root, &loaded.kind);
	if (!err) {
		*saved = loaded;
		return NULL;
	}
	vt_html_saved_deinit(&loaded);
	return vt_error_prefix(err, "%s", strcmp(path, "-") ? path : "standard input");
}

typedef struct vt_error *read_fn(const char *path, struct vt_str *text);

static struct vt_error *init(const char *path, read_fn *read, struct vt_html_saved *saved)
{
	struct vt_str text = { 0 };
	struct vt_error *err = read(path, &text);

	if (!err)
		err = vt_html_saved_init_text(path, &text, saved);
	vt_str_deinit(&text);
	return err;
}

struct vt_error *vt_html_saved_init(const char *path, struct vt_html_saved *saved)
{
	return init(path, vt_json_in_read, saved);
}

struct vt_error *vt_html_saved_init_regular(const char *path, struct vt_html_saved *saved)
{
	return init(path, vt_json_in_read_regular, saved);
}

void vt_html_saved_deinit(struct vt_html_saved *saved)
{
	vt_arena_deinit(&saved->values);
}

bool vt_html_can_join(enum vt_html_kind first, enum vt_html_kind other)
{
	return first == VT_HTML_REPORT && other == VT_HTML_REPORT;
}

struct vt_html_document vt_html_saved_document(const struct vt_html_saved *saved)
{
	const char *slash = strrchr(saved->path, '/');

	return (struct vt_html_document){ .name = slash ? slash + 1 : saved->path,
					  .write = vt_html_write_saved,
					  .what = saved->root };
}
