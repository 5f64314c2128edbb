/* SPDX-License-Identifier: Apache-2.0 */
/* What the blocks in use are, summed up by module, variable or type of their owners. */
#include <string.h>

#include "base/format.h"
#include "model/owners_by.h"
#include "report/text/text.h"

enum {
	BYTES_COLUMNS = 10,
	SHARE_COLUMNS = 6,
	COUNT_COLUMNS = 8,
	NAME_COLUMNS = 2 + BYTES_COLUMNS + SHARE_COLUMNS + COUNT_COLUMNS + 3,
	MAX_NAME_COLUMNS = 44,
	MAX_ROWS = 24,
};

/* Of those that have no name of this kind. */
static const char *const without[VT_N_BY] = {
	[VT_BY_CATEGORY] = "without a category",
	[VT_BY_MODULE] = "in no module",
	[VT_BY_VARIABLE] = "from no variable",
	[VT_BY_TYPE] = "held by nothing that is known",
};

static void print_amount(struct vt_line *line, uint64_t bytes, uint64_t blocks, uint64_t all)
{
	char text[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_DIM, vt_format_share(text, bytes, all), SHARE_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_count(text, blocks), COUNT_COLUMNS);
	vt_line_pad(line, NAME_COLUMNS);
}

static void print_group(struct vt_line *line, const struct vt_model *model,
			const struct vt_owners_group *group, enum vt_owners_by by, uint64_t all)
{
	const char *largest = vt_model_owner_at(model, group->largest)->name;
	bool folded = by == VT_BY_MODULE && group->members > 1;
	char text[VT_NUM_MAX];
	int columns = (line->columns - NAME_COLUMNS) / 2;

	columns = columns < MAX_NAME_COLUMNS ? columns : MAX_NAME_COLUMNS;
	print_amount(line, group->bytes, group->blocks, all);
	if (by == VT_BY_MODULE) {
		vt_line_add(line, *group->name ? VT_PLAIN : VT_DIM,
			    *group->name ? group->name : without[by]);
		if (folded)
			vt_line_addf(line, VT_DIM, "   %s modules",
				     vt_format_count(text, group->members));
		vt_line_end(line);
		return;
	}
	vt_line_cell(line, *group->name ? VT_PLAIN : VT_DIM,
		     *group->name ? group->name : without[by], columns, VT_CUT_END);
	if (*largest && strcmp(largest, group->name) != 0) {
		vt_line_add(line, VT_DIM, group->blocks > 1 ? " largest: " : " ");
		vt_line_cell(line, VT_PLAIN, largest, vt_line_room(line), VT_CUT_END);
	}
	vt_line_end(line);
}

/* What is left of the groups, and all of them. */
static void print_end(struct vt_line *line, const struct vt_owners_groups *all, uint64_t bytes)
{
	uint64_t rest = 0, rest_blocks = 0, blocks = 0;
	char text[VT_NUM_MAX];

	for (size_t i = 0; i < all->groups.n; i++) {
		blocks += all->groups.data[i].blocks;
		if (i < MAX_ROWS)
			continue;
		rest += all->groups.data[i].bytes;
		rest_blocks += all->groups.data[i].blocks;
	}
	if (rest_blocks) {
		print_amount(line, rest, rest_blocks, bytes);
		vt_line_addf(line, VT_DIM, "%s others",
			     vt_format_count(text, all->groups.n - MAX_ROWS));
		vt_line_end(line);
	}
	print_amount(line, bytes, blocks, bytes);
	vt_line_add(line, VT_BOLD, "in use");
	vt_line_end(line);
}

void vt_text_owners_by(struct vt_line *line, const struct vt_model *model, enum vt_owners_by by)
{
	struct vt_owners_groups all;
	uint64_t bytes = 0;

	if (!vt_owners_groups_init(&all, model, by, MAX_ROWS)) {
		line->buf.failed = true;
		return;
	}
	for (size_t i = 0; i < all.groups.n; i++)
		bytes += all.groups.data[i].bytes;
	vt_text_title(line, "(--owner NAME shows its blocks)", "What the blocks in use are, by %s",
		      vt_owners_by_name(by));
	for (size_t i = 0; i < all.groups.n && i < MAX_ROWS; i++)
		print_group(line, model, &all.groups.data[i], by, bytes);
	print_end(line, &all, bytes);
	vt_owners_groups_deinit(&all);
}
