/* SPDX-License-Identifier: Apache-2.0 */
/* All that is known of some blocks in use: those whose owners match a pattern. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/format.h"
#include "model/owners_match.h"
#include "report/text/text.h"

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

static const char *plural(uint64_t n)
{
	return n == 1 ? "" : "s";
}

static void print_name(struct vt_line *line, const struct vt_model_owner *owner, uint64_t bytes)
{
	char size[VT_NUM_MAX];

	vt_line_blank(line);
	vt_line_pad(line, 2);
	vt_line_add(line, VT_PLAIN, vt_format_size(size, bytes));
	vt_line_pad(line, line->want + 2);
	vt_line_wrap(line, *owner->name ? VT_BOLD : VT_WARN,
		     *owner->name ? owner->name : "nobody found", 14, 6);
}

/* How sure it is that the name is all that holds it. */
static void print_certainty(struct vt_line *line, const struct vt_model *model,
			    const struct vt_model_owner *owner, bool is_array)
{
	const char *category = vt_category_words((enum vt_category)owner->category);
	char count[VT_NUM_MAX];

	if (owner->unowned)
		vt_text_fact(line, "category", "%s: %s", category,
			     is_array ? vt_unowned_array_words((enum vt_unowned)owner->unowned) :
					vt_unowned_words((enum vt_unowned)owner->unowned));
	else
		vt_text_fact(line, "category", "%s, %s", category,
			     owner->certain ? "certain" : "probably");
	if (owner->certain || !owner->n_storages)
		return;
	if (model->owners.asked)
		vt_text_fact(line, "unexplained",
			     "not known: the process was asked, and references were not counted");
	else if (owner->unexplained)
		vt_text_fact(line, "unexplained",
			     "%s reference%s to it: something that was not seen holds it",
			     vt_format_count(count, owner->unexplained),
			     plural(owner->unexplained));
	else
		vt_text_fact(line, "unexplained",
			     "more references were found than it has: one of them is none");
}

static void print_tensor(struct vt_line *line, const struct vt_model_owner *owner)
{
	const char *gradient = owner->requires_grad > 0  ? ", requires a gradient" :
			       owner->requires_grad == 0 ? ", requires no gradient" :
							   "";

	if (*owner->dtype)
		vt_text_fact(line, "tensor", "%s %s%s%s", owner->dtype, owner->shape, gradient,
			     owner->has_grad_fn > 0 ? ", has a grad_fn" : "");
}

static void print_storage(struct vt_line *line, const struct vt_model_owner *owner,
			  const char *what, const char *user)
{
	char bytes[VT_NUM_MAX], used[VT_NUM_MAX], tensors[VT_NUM_MAX], storages[VT_NUM_MAX];

	if (!owner->n_storages)
		return;
	vt_format_count(bytes, owner->storage_bytes);
	vt_format_count(used, owner->used_bytes);
	vt_format_count(tensors, owner->n_tensors);
	vt_format_count(storages, owner->n_storages);
	if (!owner->storage_bytes) {
		vt_text_fact(line, what, "%s, by %s %s%s", storages, tensors, user,
			     plural(owner->n_tensors));
		return;
	}
	vt_text_fact(line, what, "%s%s%s bytes, %s used, by %s %s%s",
		     owner->n_storages > 1 ? storages : "",
		     owner->n_storages > 1 ? " storages, together " : "", bytes,
		     owner->used_bytes == owner->storage_bytes ? "all" : used, tensors, user,
		     plural(owner->n_tensors));
}

static void print_block(struct vt_line *line, const struct vt_block_rec *b)
{
	char size[VT_NUM_MAX], stream[VT_TEXT_MAX], pool[VT_TEXT_MAX];

	vt_text_fact(line, "block", "0x%" PRIx64 ", %s bytes, GPU %d, stream %s, pool %s", b->addr,
		     vt_format_count(size, b->size), b->device, vt_text_stream(stream, b->stream),
		     vt_text_pool(pool, b));
}

static void print_holders(struct vt_line *line, const struct vt_model_owner *owner)
{
	char count[VT_NUM_MAX];

	for (uint32_t i = 0; i < owner->n_holders; i++)
		vt_text_fact(line, i ? "" : "also by", "%s", owner->holders[i]);
	if (owner->other_holders > owner->n_holders)
		vt_text_fact(line, "", "and %s more",
			     vt_format_count(count, owner->other_holders - owner->n_holders));
}

static void print_freed(struct vt_line *line, const struct vt_model_owner *owner)
{
	char bytes[VT_NUM_MAX], blocks[VT_NUM_MAX];

	if (owner->category == VT_CATEGORY_GARBAGE)
		vt_text_fact(line, "freed", "by gc.collect(), probably");
	else if (!owner->freed || !*owner->freed)
		return;
	else if (owner->freed_bytes)
		vt_text_fact(line, "freed", "with %s: %s in %s block%s%s", owner->freed,
			     vt_format_size(bytes, owner->freed_bytes),
			     vt_format_count(blocks, owner->freed_blocks),
			     plural(owner->freed_blocks),
			     owner->certain ? "" : ", if nothing else holds it");
	else
		vt_text_fact(line, "freed", "not with %s alone: %s%s", owner->freed,
			     owner->freed_else ? "there is also " : "others hold it, too",
			     owner->freed_else ? owner->freed_else : "");
}

void vt_text_owner_facts(struct vt_line *line, const struct vt_model *model,
			 const struct vt_model_owner *owner)
{
	print_certainty(line, model, owner, false);
	print_tensor(line, owner);
	print_storage(line, owner, "storage", "tensor");
	if (*owner->module)
		vt_text_fact(line, "module", "%s", owner->module);
	if (*owner->type)
		vt_text_fact(line, "type", "%s", owner->type);
	print_holders(line, owner);
	print_freed(line, owner);
}

/* A chunk of a pool, or what an array has for itself. */
static void print_memory(struct vt_line *line, const struct vt_model_array *array)
{
	char size[VT_NUM_MAX], device[32] = "";

	if (array->device >= 0)
		snprintf(device, sizeof(device), ", GPU %d", array->device);
	vt_text_fact(line, "block", "0x%" PRIx64 ", %s bytes%s, %s %s", array->addr,
		     vt_format_count(size, array->bytes), device,
		     array->pool == VT_NO_POOL ? "allocated by" : "a pool of",
		     vt_libpool_library(array->library));
}

static void print_array(struct vt_line *line, const struct vt_model *model,
			const struct vt_model_array *array)
{
	const struct vt_model_owner *owner = &array->owner;

	print_certainty(line, model, owner, true);
	if (*owner->shape)
		vt_text_fact(line, "array", "%s%s%s", owner->dtype, *owner->dtype ? " " : "",
			     owner->shape);
	print_storage(line, owner, "memory", "array");
	if (*owner->type)
		vt_text_fact(line, "type", "%s", owner->type);
	print_holders(line, owner);
	print_freed(line, owner);
	print_memory(line, array);
}

static void print_owner(struct vt_line *line, const struct vt_model *model, size_t index)
{
	const struct vt_model_owner *owner = vt_model_owner_at(model, index);
	const struct vt_model_array *array = vt_model_array_at(model, index);

	print_name(line, owner, vt_model_owned_bytes(model, index));
	if (array) {
		print_array(line, model, array);
		return;
	}
	vt_text_owner_facts(line, model, owner);
	print_block(line, &model->blocks[owner->block]);
	if (vt_model_block_record(model, owner->block) || vt_model_block_trace(model, owner->block))
		vt_text_origin(line, model, owner->block);
}

static void print_none(struct vt_line *line, const struct vt_model *model, const char *pattern)
{
	const char *names[VT_OWNERS_NEAREST];
	size_t n = vt_owners_nearest(model, pattern, names);

	vt_text_title(line, NULL, "No owner matches \"%.200s\"", pattern);
	if (!n) {
		vt_line_pad(line, 2);
		vt_line_add(line, VT_PLAIN, "and no name is like it");
		vt_line_end(line);
	}
	for (size_t i = 0; i < n; i++)
		vt_text_fact(line, i ? "" : "there is", "%s", names[i]);
}

static size_t select_rows(const struct vt_model *model, const char *pattern, struct row *rows)
{
	size_t n = 0;

	for (size_t i = 0; i < vt_model_n_owners(model); i++) {
		if (vt_owner_matches(vt_model_owner_at(model, i), pattern))
			rows[n++] = (struct row){ vt_model_owned_bytes(model, i), i };
	}
	qsort(rows, n, sizeof(*rows), larger_first);
	return n;
}

static void print_rows(struct vt_line *line, const struct vt_model *model, const struct row *rows,
		       size_t n)
{
	char bytes[VT_NUM_MAX], count[VT_NUM_MAX];
	uint64_t all = 0;

	for (size_t i = 0; i < n; i++)
		all += rows[i].bytes;
	vt_text_title(line, NULL, "Owners that match: %s block%s, %s", vt_format_count(count, n),
		      plural(n), vt_format_size(bytes, all));
	for (size_t i = 0; i < n; i++)
		print_owner(line, model, rows[i].index);
}

void vt_text_owner(struct vt_line *line, const struct vt_model *model, const char *pattern)
{
	struct row *rows = calloc(vt_model_n_owners(model) + 1, sizeof(*rows));
	size_t n;

	if (!rows) {
		line->buf.failed = true;
		return;
	}
	n = select_rows(model, pattern, rows);
	if (n)
		print_rows(line, model, rows, n);
	else
		print_none(line, model, pattern);
	free(rows);
}
