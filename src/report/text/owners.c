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
	MAX_JAX = 8,   /* the same */
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

/* The blocks of one library. */
struct part {
	const struct vt_model *model;
	const char *library; /* NULL: PyTorch's */
	uint64_t bytes;
	const struct vt_model_category *categories, *unowned;
	enum vt_libpool_kind kind;
};

static struct part part_of_torch(const struct vt_model *model)
{
	struct part part = {
		.model = model,
		.categories = model->owners.categories,
		.unowned = model->owners.unowned,
	};

	for (size_t i = 0; i < VT_N_CATEGORIES; i++)
		part.bytes += model->owners.categories[i].bytes;
	return part;
}

static struct part part_of_arrays(const struct vt_model *model, enum vt_libpool_kind kind)
{
	const struct vt_model_array_sums *sums = &model->owners.array_sums[kind];

	return (struct part){
		.model = model,
		.library = vt_libpool_library(kind),
		.bytes = sums->bytes,
		.categories = sums->categories,
		.unowned = sums->unowned,
		.kind = kind,
	};
}

static bool has_tensors(const struct vt_model *model)
{
	return model->owners.state == VT_OWNERS_READ && part_of_torch(model).bytes;
}

static bool has_arrays(const struct vt_model *model)
{
	return model->owners.arrays_read && model->owners.arrays.n;
}

static int words_columns(const struct vt_line *line)
{
	return line->columns >= 90 ? 31 : 27;
}

static const char *largest_name(const struct part *part, enum vt_category category)
{
	const struct vt_model_owners *owners = &part->model->owners;
	uint32_t largest = part->categories[category].largest;

	return part->library ? owners->arrays.data[largest].owner.name :
			       owners->items.data[largest].name;
}

static void print_category(struct vt_line *line, const struct part *part, enum vt_category category)
{
	const struct vt_model_category *c = &part->categories[category];
	const char *name = largest_name(part, category);
	char text[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, c->bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_DIM, vt_format_share(text, c->bytes, part->bytes), SHARE_COLUMNS);
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
static void print_unowned(struct vt_line *line, const struct part *part)
{
	struct vt_str text = { 0 };
	char bytes[VT_NUM_MAX], count[VT_NUM_MAX];

	for (size_t i = VT_OWNED + 1; i < VT_N_UNOWNED; i++) {
		const struct vt_model_category *c = &part->unowned[i];
		enum vt_unowned why = (enum vt_unowned)i;

		if (c->blocks && is_puzzling(why))
			vt_str_addf(&text, "%s%s (%s block%s): %s",
				    text.n ? "; " : "Without an owner: ",
				    vt_format_size(bytes, c->bytes),
				    vt_format_count(count, c->blocks), c->blocks == 1 ? "" : "s",
				    part->library ? vt_unowned_array_words(why) :
						    vt_unowned_words(why));
	}
	if (text.n) {
		vt_str_add(&text, ".");
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_DIM, vt_str_get(&text), 2, 4);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_categories(struct vt_line *line, const struct part *part)
{
	struct row rows[VT_N_CATEGORIES];

	for (size_t i = 0; i < VT_N_CATEGORIES; i++)
		rows[i] = (struct row){ part->categories[i].bytes, i };
	qsort(rows, VT_N_CATEGORIES, sizeof(rows[0]), larger_first);
	if (part->library)
		vt_text_title(line, line->hints->owners, "What the blocks of %s in use are",
			      part->library);
	else
		vt_text_title(line, line->hints->owners, "What the blocks in use are");
	for (size_t i = 0; i < VT_N_CATEGORIES && rows[i].bytes; i++)
		print_category(line, part, (enum vt_category)rows[i].index);
}

/* by_category: else only what has no owner. */
static void print_parts(struct vt_line *line, const struct vt_model *model, bool by_category)
{
	struct part torch = part_of_torch(model);

	if (has_tensors(model) && by_category)
		print_categories(line, &torch);
	if (has_tensors(model))
		print_unowned(line, &torch);
	for (unsigned int i = 0; i < VT_N_LIBPOOL_KINDS && has_arrays(model); i++) {
		struct part part = part_of_arrays(model, (enum vt_libpool_kind)i);

		if (part.bytes && by_category)
			print_categories(line, &part);
		if (part.bytes)
			print_unowned(line, &part);
	}
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
	uint64_t unknown = model->owners.categories[VT_CATEGORY_UNKNOWN].bytes;

	for (size_t i = 0; i < VT_N_LIBPOOL_KINDS; i++)
		unknown += model->owners.array_sums[i].categories[VT_CATEGORY_UNKNOWN].bytes;
	if (!model->owners.ran || !unknown)
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

/* Of all libraries. */
static struct vt_model_category garbage(const struct vt_model *model)
{
	struct vt_model_category all = model->owners.categories[VT_CATEGORY_GARBAGE];

	for (size_t i = 0; i < VT_N_LIBPOOL_KINDS; i++) {
		all.bytes += model->owners.array_sums[i].categories[VT_CATEGORY_GARBAGE].bytes;
		all.blocks += model->owners.array_sums[i].categories[VT_CATEGORY_GARBAGE].blocks;
	}
	return all;
}

static void print_garbage(struct vt_line *line, const struct vt_model *model)
{
	struct vt_model_category c = garbage(model);
	char text[VT_NUM_MAX];

	if (!c.bytes)
		return;
	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, c.bytes), BYTES_COLUMNS);
	vt_line_right(line, VT_PLAIN, vt_format_count(text, c.blocks),
		      SHARE_COLUMNS + COUNT_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_add(line, VT_PLAIN, "garbage, probably: by gc.collect()");
	vt_line_end(line);
}

static void print_all_freed(struct vt_line *line, const struct vt_model *model, bool all)
{
	const struct vt_model_owners *owners = &model->owners;

	if (!owners->freed.n && !garbage(model).bytes)
		return;
	vt_text_title(line, NULL, "What would be freed if it went");
	print_garbage(line, model);
	for (size_t i = 0; i < owners->freed.n && (all || i < MAX_FREED); i++)
		print_freed(line, &owners->freed.data[i]);
}

static void print_owner(struct vt_line *line, const struct vt_model *model, size_t index)
{
	const struct vt_model_owner *owner = vt_model_owner_at(model, index);
	const struct vt_model_array *array = vt_model_array_at(model, index);
	char text[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, vt_model_owned_bytes(model, index)),
		      BYTES_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_DIM, vt_category_code((enum vt_category)owner->category), 14,
		     VT_CUT_END);
	vt_line_add(line, VT_PLAIN, *owner->name ? owner->name : "nobody found");
	if (!owner->certain && *owner->name)
		vt_line_add(line, VT_DIM, ", perhaps others");
	if (*owner->shape)
		vt_line_addf(line, VT_DIM, "   %s%s%s", owner->dtype, *owner->dtype ? " " : "",
			     owner->shape);
	if (array)
		vt_line_addf(line, VT_DIM, "   %s", vt_libpool_library(array->library));
	vt_line_end(line);
}

static void print_owners(struct vt_line *line, const struct vt_model *model, size_t count)
{
	size_t n = vt_model_n_owners(model);
	struct row *rows = calloc(n + 1, sizeof(*rows));

	if (!rows) {
		line->buf.failed = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		rows[i] = (struct row){ vt_model_owned_bytes(model, i), i };
	qsort(rows, n, sizeof(*rows), larger_first);
	if (count < n)
		vt_text_title(line, NULL, "Owners of the %zu largest blocks in use", count);
	else
		vt_text_title(line, NULL, "Owners of the blocks in use");
	for (size_t i = 0; i < n && i < count; i++)
		print_owner(line, model, rows[i].index);
	free(rows);
}

void vt_text_largest_owners(struct vt_line *line, const struct vt_model *model, size_t count)
{
	if (has_tensors(model) || has_arrays(model))
		print_owners(line, model, count);
}

static void print_jax_array(struct vt_line *line, const struct vt_model_jax_array *array)
{
	char text[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_right(line, VT_PLAIN, vt_format_size(text, array->bytes), BYTES_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_cell(line, VT_DIM, vt_category_code((enum vt_category)array->category), 14,
		     VT_CUT_END);
	vt_line_add(line, VT_PLAIN, *array->name ? array->name : "nobody found");
	if (!array->certain && *array->name)
		vt_line_add(line, VT_DIM, ", perhaps others");
	vt_line_addf(line, VT_DIM, "   %s %s", array->dtype, array->shape);
	if (!array->single)
		vt_line_add(line, VT_DIM, ", on several devices");
	if (array->is_host)
		vt_line_add(line, VT_DIM, ", memory of the host");
	vt_line_end(line);
}

/* Where they are is not known: they are no blocks. */
static void print_jax(struct vt_line *line, const struct vt_model *model, bool all)
{
	const struct vt_model_owners *owners = &model->owners;
	char number[VT_NUM_MAX], size[VT_NUM_MAX];
	uint64_t rest = 0;

	if (!owners->jax.n)
		return;
	vt_text_title(line, line->hints->owners, "What holds JAX's arrays");
	for (size_t i = 0; i < owners->jax.n; i++) {
		if (all || i < MAX_JAX)
			print_jax_array(line, &owners->jax.data[i]);
		else
			rest += owners->jax.data[i].bytes;
	}
	if (all || owners->jax.n <= MAX_JAX)
		return;
	vt_line_pad(line, 2);
	vt_line_right(line, VT_DIM, vt_format_size(size, rest), BYTES_COLUMNS);
	vt_line_pad(line, line->want + 3);
	vt_line_addf(line, VT_DIM, "%s more", vt_format_count(number, owners->jax.n - MAX_JAX));
	vt_line_end(line);
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
	bool by = options->owners_by_given && options->owners_by != VT_BY_CATEGORY;

	if (!has_tensors(model) && !has_arrays(model)) {
		if (options->owner || options->owners_by_given)
			print_not_known(line, model);
		print_jax(line, model, options->all_owners);
		return;
	}
	if (by)
		vt_text_owners_by(line, model, options->owners_by);
	print_parts(line, model, !by);
	print_not_whole(line, model);
	print_ran(line, model);
	print_all_freed(line, model, options->all_owners);
	if (options->owner)
		vt_text_owner(line, model, options->owner);
	if (options->all_owners)
		print_owners(line, model, SIZE_MAX);
	print_jax(line, model, options->all_owners);
}
