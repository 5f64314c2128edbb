/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "report/profile/formats.h"
#include "report/profile/stacks.h"

/* ';' ends a frame. Texts of a profile have no line break, which would end the line. */
static void add_text(struct vt_str *text, const char *name)
{
	for (size_t n; *name; name += n) {
		n = strcspn(name, ";");
		vt_str_addn(text, name, n);
		if (name[n] == ';') {
			vt_str_add(text, "\\x3b");
			n++;
		}
	}
}

/* "Attention.forward (attn.py:57)" */
static char *label_of(const struct vt_profile *profile, uint32_t frame)
{
	const struct vt_profile_frame *f = &profile->frames.data[frame];
	struct vt_str text = { 0 };

	add_text(&text, f->name ? vt_texts_get(&profile->texts, f->name) : "??");
	if (f->where) {
		vt_str_add(&text, " (");
		add_text(&text, vt_texts_get(&profile->texts, f->where));
		vt_str_add(&text, ")");
	}
	if (!text.failed)
		return text.data;
	vt_str_deinit(&text);
	return NULL;
}

struct folding {
	const struct vt_profile *profile;
	struct vt_profile_stacks stacks;
	char **labels; /* of frames, once they are needed */
	struct vt_str line;
	bool roots; /* the name of the group is the outermost frame */
};

static bool add_frame(struct folding *f, uint32_t frame)
{
	if (!f->labels[frame])
		f->labels[frame] = label_of(f->profile, frame);
	if (!f->labels[frame])
		return false;
	if (f->line.n)
		vt_str_add(&f->line, ";");
	vt_str_add(&f->line, f->labels[frame]);
	return true;
}

static bool make_line(struct folding *f, const struct vt_profile_stack *stack)
{
	size_t n = 0;
	const uint32_t *way = vt_profile_way(&f->stacks, f->profile, stack->node, &n);

	vt_str_clear(&f->line);
	if (f->roots)
		add_text(&f->line, vt_texts_get(&f->profile->texts,
						f->profile->groups.data[stack->group].name));
	for (size_t i = 0; way && i < n; i++)
		if (!add_frame(f, way[i]))
			return false;
	vt_str_addf(&f->line, " %" PRIu64 "\n", stack->weight);
	return way && !f->line.failed;
}

static struct vt_error *write_lines(struct folding *f, FILE *out)
{
	for (size_t i = 0; i < f->stacks.list.n; i++) {
		if (!make_line(f, &f->stacks.list.data[i]))
			return &vt_enomem;
		if (fwrite(f->line.data, 1, f->line.n, out) != f->line.n)
			return vt_error_create_os(errno ? errno : EIO, "cannot write the stacks");
	}
	if (!fflush(out))
		return NULL;
	return vt_error_create_os(errno ? errno : EIO, "cannot write the stacks");
}

static bool has_many_groups(const struct vt_profile_stacks *stacks)
{
	return stacks->list.n &&
	       stacks->list.data[0].group != stacks->list.data[stacks->list.n - 1].group;
}

struct vt_error *vt_write_profile_folded(const void *what, const struct vt_writer_options *options,
					 FILE *out)
{
	struct folding f = { .profile = what };
	struct vt_error *err = &vt_enomem;

	(void)options; /* options are for text */
	errno = 0;
	f.labels = calloc(f.profile->frames.n + 1, sizeof(*f.labels));
	if (!vt_profile_failed(f.profile) && f.labels &&
	    vt_profile_stacks_init(&f.stacks, f.profile, true)) {
		f.roots = f.profile->roots && has_many_groups(&f.stacks);
		err = write_lines(&f, out);
	}
	for (size_t i = 0; f.labels && i < f.profile->frames.n; i++)
		free(f.labels[i]);
	free(f.labels);
	vt_str_deinit(&f.line);
	vt_profile_stacks_deinit(&f.stacks);
	return err;
}
