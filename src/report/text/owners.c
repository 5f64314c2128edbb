/* SPDX-License-Identifier: Apache-2.0 */
/* What the blocks in use are: by category, what would be freed, and every block's owner. */
#include <stdlib.h>

#include "base/format.h"
#include "model/owners.h"
#include "report/text/text.h"

enum {
	BYTES_COLUMNS = 10,
	SHARE_COLUMNS = 6,
	COUNT_COLUMNS = 8,
	MAX_FREED = 5, /* lines without --owners */
};

struct row {
	uint64_t bytes;
	size_t index;
};

static int larger_first(const void *a, const void *b)
{
	const struct row *x = a, *y = b;

	if (x->bytes != y->bytes)
		return x->bytes < y->bytes ? 1 : -1;
	return x->index < y->index ? -1 : x->index > y->index;
}

static uint64_t all_bytes(const struct vt_model *model)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < VT_N_CATEGORIES; i++)
		bytes += model->owners.categories[i].bytes;
	return bytes;
}

static int words_columns(const struct vt_line *line)
{
	return line->columns >= 90 ? 31 : 27;
}

static void print_category(struct vt_line *line, const struct vt_model *model,
			   enum vt_category category, uint64_t all)
{
	const struct vt_model_category *c = &model->owners.categories[category];
	const char *name = model->owners.items.data[c->largest].name;
	char text[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, c->bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_DIM, vt_format_share(text, c->bytes, all), SHARE_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_count(text, c->blocks), COUNT_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, category == VT_CATEGORY_UNKNOWN ? VT_WARN : VT_PLAIN,
		     vt_category_words(category), words_columns(line), VT_CUT_END);
	if (*name) {
		vt_line_add(line, VT_DIM, c->blocks > 1 ? " largest: " : " ");
		vt_line_cell(line, VT_PLAIN, name, vt_line_room(line), VT_CUT_END);
	}
	vt_line_end(line);
}

/* What a library or a pool took has a category of its own. */
static bool is_puzzling(enum vt_unowned why)
{
	return why != VT_UNOWNED_LIBRARY && why != VT_UNOWNED_GRAPH_POOL;
}

/* Of all categories: whose tensors have a known name may still be held from where nobody looked. */
static void print_unowned(struct vt_line *line, const struct vt_model *model)
{
	struct vt_str text = { 0 };
	char bytes[VT_NUM_MAX], count[VT_NUM_MAX];

	for (size_t i = VT_OWNED + 1; i < VT_N_UNOWNED; i++) {
		const struct vt_model_category *c = &model->owners.unowned[i];

		if (c->blocks && is_puzzling((enum vt_unowned)i))
			vt_str_addf(&text, "%s%s (%s block%s): %s",
				    text.n ? "; " : "Without an owner: ",
				    vt_format_size(bytes, c->bytes),
				    vt_format_count(count, c->blocks), c->blocks == 1 ? "" : "s",
				    vt_unowned_words((enum vt_unowned)i));
	}
	if (text.n) {
		vt_str_add(&text, ".");
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_DIM, vt_str_get(&text), 2, 4);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_categories(struct vt_line *line, const struct vt_model *model)
{
	struct row rows[VT_N_CATEGORIES];
	uint64_t all = all_bytes(model);

	for (size_t i = 0; i < VT_N_CATEGORIES; i++)
		rows[i] = (struct row){ model->owners.categories[i].bytes, i };
	qsort(rows, VT_N_CATEGORIES, sizeof(rows[0]), larger_first);
	vt_text_title(line, line->hints->owners, "What the blocks in use are");
	for (size_t i = 0; i < VT_N_CATEGORIES && rows[i].bytes; i++)
		print_category(line, model, (enum vt_category)rows[i].index, all);
}

static void print_not_whole(struct vt_line *line, const struct vt_model *model)
{
	const char *why = vt_owners_bound_words(model->owners.bound);
	struct vt_str text = { 0 };

	if (model->owners.whole)
		return;
	vt_str_addf(&text, "Not all objects were read (%s): owners may be missing.",
		    why ? why : "too many for the memory or the time");
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_WARN, vt_str_get(&text), 2, 2);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_ran(struct vt_line *line, const struct vt_model *model)
{
	if (!model->owners.ran || !model->owners.categories[VT_CATEGORY_UNKNOWN].bytes)
		return;
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_DIM,
		     "The process ran: blocks that came or went in these moments have no owner.", 2,
		     2);
}

static void print_freed(struct vt_line *line, const struct vt_model_freed *freed)
{
	char text[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, freed->bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_count(text, freed->blocks),
		      SHARE_COLUMNS + COUNT_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_add(line, VT_BOLD, freed->name);
	if (freed->items)
		vt_line_addf(line, VT_DIM, " (%s items)", vt_format_count(text, freed->items));
	if (!freed->certain)
		vt_line_add(line, VT_DIM, ", probably");
	vt_line_end(line);
}

static void print_garbage(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_category *c = &model->owners.categories[VT_CATEGORY_GARBAGE];
	char text[VT_NUM_MAX];

	if (!c->bytes)
		return;
	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, c->bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_count(text, c->blocks),
		      SHARE_COLUMNS + COUNT_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_add(line, VT_PLAIN, "garbage, probably: by gc.collect()");
	vt_line_end(line);
}

static void print_all_freed(struct vt_line *line, const struct vt_model *model, bool all)
{
	const struct vt_model_owners *owners = &model->owners;

	if (!owners->freed.n && !owners->categories[VT_CATEGORY_GARBAGE].bytes)
		return;
	vt_text_title(line, NULL, "What would be freed if it went");
	print_garbage(line, model);
	for (size_t i = 0; i < owners->freed.n && (all || i < MAX_FREED); i++)
		print_freed(line, &owners->freed.data[i]);
}

static void print_owner(struct vt_line *line, const struct vt_model *model,
			const struct vt_model_owner *owner)
{
	char text[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, model->blocks[owner->block].size),
		      BYTES_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_DIM, vt_category_code((enum vt_category)owner->category), 14,
		     VT_CUT_END);
	vt_line_add(line, VT_PLAIN, *owner->name ? owner->name : "nobody found");
	if (!owner->certain && *owner->name)
		vt_line_add(line, VT_DIM, ", perhaps others");
	if (*owner->dtype)
		vt_line_addf(line, VT_DIM, "   %s %s", owner->dtype, owner->shape);
	vt_line_end(line);
}

static void print_owners(struct vt_line *line, const struct vt_model *model, size_t count)
{
	const struct vt_model_owners *owners = &model->owners;
	struct row *rows = calloc(owners->items.n + 1, sizeof(*rows));

	if (!rows) {
		line->buf.failed = true;
		return;
	}
	for (size_t i = 0; i < owners->items.n; i++)
		rows[i] = (struct row){ model->blocks[owners->items.data[i].block].size, i };
	qsort(rows, owners->items.n, sizeof(*rows), larger_first);
	if (count < owners->items.n)
		vt_text_title(line, NULL, "Owners of the %zu largest blocks in use", count);
	else
		vt_text_title(line, NULL, "Owners of the blocks in use");
	for (size_t i = 0; i < owners->items.n && i < count; i++)
		print_owner(line, model, &owners->items.data[rows[i].index]);
	free(rows);
}

void vt_text_largest_owners(struct vt_line *line, const struct vt_model *model, size_t count)
{
	if (model->owners.state == VT_OWNERS_READ && all_bytes(model))
		print_owners(line, model, count);
}

/* Who asks for something learns why there is none. */
static void print_not_known(struct vt_line *line, const struct vt_model *model)
{
	vt_text_title(line, NULL, "What the blocks in use are");
	vt_line_pad(line, 2);
	vt_line_addf(line, VT_WARN, "Not known: %s.",
		     model->owners.state == VT_OWNERS_READ ?
			     "no block is in use" :
			     vt_owners_state_words(model->owners.state));
	vt_line_end(line);
}

void vt_text_owners(struct vt_line *line, const struct vt_model *model,
		    const struct vt_writer_options *options)
{
	if (model->owners.state != VT_OWNERS_READ || !all_bytes(model)) {
		if (options->owner || options->owners_by_given)
			print_not_known(line, model);
		return;
	}
	if (options->owners_by_given && options->owners_by != VT_BY_CATEGORY)
		vt_text_owners_by(line, model, options->owners_by);
	else
		print_categories(line, model);
	print_unowned(line, model);
	print_not_whole(line, model);
	print_ran(line, model);
	print_all_freed(line, model, options->all_owners);
	if (options->owner)
		vt_text_owner(line, model, options->owner);
	if (options->all_owners)
		print_owners(line, model, SIZE_MAX);
}
