/* SPDX-License-Identifier: Apache-2.0 */
/* Known releases, and what they tell about a layout that was discovered. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "walk/torch/table.h"

#include "walk/torch/layouts.h"

#define NONE VT_TORCH_NO_FIELD
#define N_ROWS (sizeof(vt_torch_table) / sizeof(vt_torch_table[0]))
/* of malloc(): a Block may seem this much larger than sizeof(Block) */
#define CHUNK_ALIGN 16
#define UNKNOWN_NAME "no known release"

/* sizeof(cudaDeviceProp) by major version of CUDA. */
static const uint16_t device_prop_size[] = { [12] = 1032, [13] = 1008 };

static bool hidden[N_ROWS]; /* set by the command line, before the search */

const struct vt_torch_row *vt_torch_rows(size_t *n)
{
	*n = N_ROWS;
	return vt_torch_table;
}

bool vt_torch_hide_row(const char *release)
{
	bool any = !release;

	if (!release)
		memset(hidden, 0, sizeof(hidden));
	for (size_t i = 0; release && i < N_ROWS; i++) {
		if (strcmp(release, "all") != 0 && strcmp(release, vt_torch_table[i].release) != 0)
			continue;
		hidden[i] = any = true;
	}
	return any;
}

bool vt_torch_is_hidden(const struct vt_torch_row *row)
{
	return hidden[row - vt_torch_table];
}

/* ---- fields by number ---- */

static uint32_t wide(const struct vt_torch_layout *layout, const uint16_t *narrow)
{
	return narrow ? *narrow : layout->device_vector;
}

/* The 16-bit field of that number, NULL for the 32-bit one. */
static uint16_t *narrow_field(struct vt_torch_layout *layout, enum vt_torch_field field)
{
	static const uint16_t offsets[VT_TORCH_N_FIELDS] = {
#define FIELD(id, class_, name_, member) [VT_TORCH_##id] = offsetof(struct vt_torch_layout, member),
		VT_TORCH_FIELDS(FIELD)
#undef FIELD
	};

	return field == VT_TORCH_DEVICE_VECTOR ?
		       NULL :
		       (uint16_t *)(void *)((char *)layout + offsets[field]);
}

uint32_t vt_torch_field_get(const struct vt_torch_layout *layout, enum vt_torch_field field)
{
	return wide(layout, narrow_field((struct vt_torch_layout *)layout, field));
}

static void set_field(struct vt_torch_layout *layout, enum vt_torch_field field, uint32_t value)
{
	uint16_t *narrow = narrow_field(layout, field);

	if (narrow)
		*narrow = (uint16_t)value;
	else
		layout->device_vector = value;
}

static const struct {
	const char *class_name, *name;
} field_names[VT_TORCH_N_FIELDS] = {
#define FIELD(id, class_, name_, member) [VT_TORCH_##id] = { class_, name_ },
	VT_TORCH_FIELDS(FIELD)
#undef FIELD
};

const char *vt_torch_field_class(enum vt_torch_field field)
{
	return field_names[field].class_name;
}

const char *vt_torch_field_name(enum vt_torch_field field)
{
	return field_names[field].name;
}

/* ---- a row against what was found ---- */

static bool is_table_at(const struct vt_torch_finder *f, uint32_t offset)
{
	for (size_t i = 0; i < f->n_tables; i++) {
		if (f->tables[i] == offset)
			return true;
	}
	return false;
}

/* The row's place of graph_pools in a build for that CUDA. */
static uint16_t graph_pools_of(const struct vt_torch_row *row, unsigned int cuda)
{
	if (!row->has_device_prop)
		return row->layout.graph_pools;
	return (uint16_t)(row->layout.graph_pools + device_prop_size[cuda] -
			  device_prop_size[row->cuda]);
}

/* Where graph_pools is if the target matches that row; NONE: nowhere. */
static uint16_t graph_pools_here(const struct vt_torch_finder *f, const struct vt_torch_row *row)
{
	for (unsigned int cuda = 12; cuda < sizeof(device_prop_size) / sizeof(device_prop_size[0]);
	     cuda++) {
		uint16_t at = graph_pools_of(row, cuda);

		if (f->how[VT_TORCH_GRAPH_POOLS] == VT_TORCH_HOW_NOT ? is_table_at(f, at) :
								       at == f->layout.graph_pools)
			return at;
	}
	return NONE;
}

/*
 * Small numbers, flags and pointers that are mostly NULL: leftovers in a Block's padding, or two
 * fields with equal values in every sample, can pass for them. So they reject no row whose samples
 * are valid as Blocks; the totals of the walk check the row's offsets of them.
 */
static bool is_weak(enum vt_torch_field field)
{
	static const bool weak[VT_TORCH_N_FIELDS] = {
		[VT_TORCH_BLOCK_DEVICE] = true,         [VT_TORCH_BLOCK_SIZE] = true,
		[VT_TORCH_BLOCK_REQUESTED_SIZE] = true, [VT_TORCH_BLOCK_ALLOCATED] = true,
		[VT_TORCH_BLOCK_MAPPED] = true,         [VT_TORCH_BLOCK_EVENT_COUNT] = true,
		[VT_TORCH_BLOCK_CONTEXT] = true,        [VT_TORCH_BLOCK_EXPANDABLE] = true,
		[VT_TORCH_BLOCK_SIZE_OF] = true,
	};

	return weak[field];
}

static bool field_agrees(const struct vt_torch_finder *f, const struct vt_torch_row *row,
			 enum vt_torch_field field)
{
	uint32_t found = vt_torch_field_get(&f->layout, field),
		 known = vt_torch_field_get(&row->layout, field);

	if (field == VT_TORCH_GRAPH_POOLS)
		return graph_pools_here(f, row) != NONE;
	if (f->how[field] != VT_TORCH_HOW_SIGNATURE)
		return true;
	if (field == VT_TORCH_BLOCK_SIZE_OF)
		return known <= found && found - known < CHUNK_ALIGN;
	return found == known;
}

static bool row_agrees(const struct vt_torch_finder *f, const struct vt_torch_row *row)
{
	for (enum vt_torch_field field = 0; field < VT_TORCH_N_FIELDS; field++) {
		if (!field_agrees(f, row, field) && !(is_weak(field) && f->n_samples))
			return false;
	}
	return vt_torch_samples_fit(f, &row->layout.block);
}

/* The row has what was not found by signature, or not with certainty. */
static void complete_from(struct vt_torch_finder *f, const struct vt_torch_row *row)
{
	uint16_t graph_pools = graph_pools_here(f, row);

	for (enum vt_torch_field field = 0; field < VT_TORCH_N_FIELDS; field++) {
		uint32_t known = field == VT_TORCH_GRAPH_POOLS ?
					 graph_pools :
					 vt_torch_field_get(&row->layout, field);

		if (f->how[field] == VT_TORCH_HOW_SIGNATURE && !is_weak(field))
			continue;
		if (f->how[field] != VT_TORCH_HOW_SIGNATURE || !field_agrees(f, row, field))
			f->how[field] = known == NONE ? VT_TORCH_HOW_NOT : VT_TORCH_HOW_TABLE;
		set_field(&f->layout, field, known);
	}
}

/* ---- which row ---- */

/*
 * The row of an official release, by its version.py: "2.11.0+cu130". Other builds may be of any
 * day.
 */
static const struct vt_torch_row *expected_row(const char *version)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		size_t n = strlen(vt_torch_table[i].release), digits;
		const char *patch = version + n + 1;

		if (hidden[i] || strncmp(version, vt_torch_table[i].release, n) != 0 ||
		    version[n] != '.')
			continue;
		digits = strspn(patch, "0123456789");
		if (digits && (!patch[digits] || !strncmp(patch + digits, "+cu", 3)))
			return &vt_torch_table[i];
	}
	return NULL;
}

#define DIFFERENCES 2 /* in words; more are counted */

#define OFFSET_MAX 12

static const char *offset_text(char text[OFFSET_MAX], uint32_t offset)
{
	if (offset == NONE)
		return "none";
	snprintf(text, OFFSET_MAX, "%u", offset);
	return text;
}

static void say_difference(struct vt_torch_finder *f, const struct vt_torch_row *expected)
{
	struct vt_str text = { 0 };
	unsigned int n = 0;

	for (enum vt_torch_field field = 0; field < VT_TORCH_N_FIELDS; field++) {
		char found[OFFSET_MAX], known[OFFSET_MAX];

		if (field_agrees(f, expected, field) || n++ >= DIFFERENCES)
			continue;
		vt_str_addf(&text, "%s%s.%s is %s, not %s", n > 1 ? "; " : "",
			    vt_torch_field_class(field), vt_torch_field_name(field),
			    offset_text(found, vt_torch_field_get(&f->layout, field)),
			    offset_text(known, vt_torch_field_get(&expected->layout, field)));
	}
	if (n > DIFFERENCES)
		vt_str_addf(&text, "; and %u more", n - DIFFERENCES);
	snprintf(f->found->differs, sizeof(f->found->differs), "%s",
		 n ? vt_str_get(&text) : "the blocks do not fit it");
	vt_str_deinit(&text);
}

/* "2.3 to 2.9": all releases around the row that agree as well. */
static void name_layout(struct vt_torch_finder *f, const struct vt_torch_row *row,
			const bool agrees[N_ROWS])
{
	size_t first = (size_t)(row - vt_torch_table), last = first;

	while (first && agrees[first - 1])
		first--;
	while (last + 1 < N_ROWS && agrees[last + 1])
		last++;
	if (first == last)
		snprintf(f->layout.name, sizeof(f->layout.name), "%s", row->release);
	else
		snprintf(f->layout.name, sizeof(f->layout.name), "%s to %s",
			 vt_torch_table[first].release, vt_torch_table[last].release);
}

/* Nothing is known about a Block, and there is none. */
static void without_blocks(struct vt_torch_finder *f)
{
	for (enum vt_torch_field field = VT_TORCH_BLOCK_DEVICE; field < VT_TORCH_N_FIELDS;
	     field++) {
		set_field(&f->layout, field, NONE);
		f->how[field] = VT_TORCH_HOW_NOT;
	}
	f->layout.block.size_of = 0;
}

bool vt_torch_compare_with_table(struct vt_torch_finder *f, bool block_found)
{
	const struct vt_torch_row *expected = expected_row(f->found->version), *row = NULL;
	bool agrees[N_ROWS] = { false }, ambiguous = false;

	for (enum vt_torch_field field = VT_TORCH_BLOCK_DEVICE;
	     !block_found && field < VT_TORCH_N_FIELDS; field++)
		f->how[field] = VT_TORCH_HOW_NOT;
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct vt_torch_row *one = &vt_torch_table[i];

		agrees[i] = !hidden[i] && row_agrees(f, one);
		if (!agrees[i])
			continue;
		ambiguous |= row && memcmp(&row->layout.block, &one->layout.block,
					   sizeof(row->layout.block)) != 0;
		if (!row || one == expected)
			row = one;
	}
	if (expected && row != expected)
		say_difference(f, expected);
	/* The blocks would tell; while there are none, only the version does. */
	if (row != expected && ambiguous && !block_found)
		row = NULL;
	f->found->row = row;
	if (row) {
		name_layout(f, row, agrees);
		complete_from(f, row);
		return true;
	}
	snprintf(f->layout.name, sizeof(f->layout.name), UNKNOWN_NAME);
	if (f->n_samples)
		return block_found && vt_torch_samples_fit(f, &f->layout.block);
	without_blocks(f);
	return !f->has_blocks;
}
