/* SPDX-License-Identifier: Apache-2.0 */
#include "report/html/attach.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "report/html/saved.h"
#include "report/html/saved_packed.h"

/* A saved report is up to so many times as large as in a page, where its blocks are in columns. */
#define PACKS 6
/* Files are read up to so many bytes, all together: reading takes time. */
#define MOST_READ ((size_t)96 << 20)

bool vt_html_add_attached(struct vt_html_attached *all, const struct vt_html_candidate *one)
{
	struct vt_html_candidate *added = vt_vec_append(&all->candidates);

	if (added)
		*added = *one;
	return added;
}

static int compare(const void *pa, const void *pb)
{
	const struct vt_html_candidate *a = pa, *b = pb;

	if (a->urgency != b->urgency)
		return a->urgency < b->urgency ? -1 : 1;
	return (a->what.of > b->what.of) - (a->what.of < b->what.of);
}

static bool is_report_of(const struct vt_html_saved *saved, const struct vt_html_candidate *one)
{
	json_t *process = json_object_get(saved->root, "process");
	const char *host =
		json_string_value(json_object_get(json_object_get(saved->root, "where"), "host"));

	return saved->kind == VT_HTML_REPORT &&
	       json_integer_value(json_object_get(process, "pid")) == one->pid &&
	       (!host || !one->host || !strcmp(host, one->host));
}

static struct vt_error *pack(const struct vt_html_saved *saved, struct vt_html_candidate *one)
{
	static const struct vt_writer_options options = { 0 };
	FILE *out = open_memstream(&one->loaded, &one->what.n);
	struct vt_error *err;

	if (!out)
		return &vt_enomem;
	err = vt_html_write_saved(saved->root, &options, out);
	if (fclose(out) && !err)
		err = &vt_enomem;
	one->what.text = one->loaded;
	return err;
}

static struct vt_error *load(struct vt_html_candidate *one)
{
	struct vt_html_saved saved;
	struct vt_error *err;

	VT_TRY(vt_html_saved_init_regular(one->path, &saved));
	err = is_report_of(&saved, one) ? pack(&saved, one) : NULL;
	vt_html_saved_deinit(&saved);
	return err;
}

static void load_if_small(struct vt_html_candidate *one, size_t room, size_t *read)
{
	VT_ERROR struct vt_error *err = NULL;
	struct stat st;

	if (stat(one->path, &st) || !S_ISREG(st.st_mode) || (size_t)st.st_size / PACKS > room ||
	    (size_t)st.st_size > MOST_READ - *read)
		return;
	*read += (size_t)st.st_size;
	err = load(one);
	if (!err)
		return;
	free(one->loaded);
	one->loaded = NULL;
	one->what.text = NULL;
}

struct vt_error *vt_html_choose_attached(struct vt_html_attached *all)
{
	size_t room = VT_HTML_ATTACHED, read = 0;

	if (all->candidates.n)
		qsort(all->candidates.data, all->candidates.n, sizeof(*all->candidates.data),
		      compare);
	for (size_t i = 0; i < all->candidates.n; i++) {
		struct vt_html_candidate *one = &all->candidates.data[i];
		struct vt_html_attachment *chosen;

		if (!one->what.text && one->path)
			load_if_small(one, room, &read);
		if (!one->what.text || one->what.n > room)
			continue;
		chosen = vt_vec_append(&all->chosen);
		if (!chosen)
			return &vt_enomem;
		*chosen = one->what;
		room -= one->what.n;
	}
	return NULL;
}

void vt_html_attached_deinit(struct vt_html_attached *all)
{
	for (size_t i = 0; i < all->candidates.n; i++)
		free(all->candidates.data[i].loaded);
	vt_vec_deinit(&all->candidates);
	vt_vec_deinit(&all->chosen);
}
