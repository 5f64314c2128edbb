/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The segments of PyTorch's allocator in block characters, to one scale for a device: where the
 * holes are. Segments of one pool and stream are together, since a request is served by these only.
 * The largest have rows of their own; the others follow each other in rows that they share, so that
 * everything is on the map, however many there are.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/format.h"
#include "report/text/cells.h"
#include "report/text/text.h"

enum {
	LABEL_COLUMNS = 16, /* "0x7f2a40000000", "1,312 × 2.00 MiB" */
	SIZE_COLUMNS = 9,
	SHARE_COLUMNS = 6,
	BEFORE_COLUMNS = 4 + LABEL_COLUMNS + SIZE_COLUMNS + SHARE_COLUMNS + 2,
	MAX_ROWS = 24,     /* of cells, if the segments could share all rows */
	MAX_OWN = 16,      /* segments with rows of their own */
	MIN_OWN_CELLS = 2, /* of such a segment */
	MAX_GROUPS = 12,   /* pools and streams */
	MIN_ROWS = 6,      /* of each of many devices */
	SMALLEST_CELL = 4096,
};

/*
 * A segment; or those of an expandable segment, which are runs of its addresses, with the addresses
 * between them that have no memory.
 */
struct run {
	size_t first, end;      /* in model.blocks */
	uint64_t bytes, mapped; /* with and without such addresses */
	uint64_t taken, largest_hole;
	uint32_t segments;
};

struct group {
	size_t first, n; /* in runs */
	uint64_t bytes, mapped, taken, largest_hole, segments;
};

struct map {
	struct vt_line *line;
	const struct vt_model *model;
	const struct vt_model_allocator *a;
	struct run *runs;
	struct group *groups;
	size_t n_runs, n_groups;
	uint8_t *categories; /* of each block of the allocator; NULL not known */
	uint64_t scale;
	int columns; /* of cells */
	size_t own;  /* rows that are left for segments of their own */
};

/* ---- runs ---- */

static const struct vt_block_rec *block(const struct map *map, size_t i)
{
	return &map->model->blocks[i];
}

static bool is_of_pool(const struct vt_block_rec *a, const struct vt_block_rec *b)
{
	unsigned int flags = VT_BLOCK_SMALL_POOL | VT_BLOCK_PRIVATE_POOL | VT_BLOCK_EXPANDABLE;

	return a->pool == b->pool && a->stream == b->stream && !((a->flags ^ b->flags) & flags);
}

/* Whether the segment that begins at next continues the addresses of the run. */
static bool continues(const struct map *map, const struct run *run, size_t next)
{
	const struct vt_block_rec *last = block(map, run->end - 1), *b = block(map, next);

	return (b->flags & VT_BLOCK_EXPANDABLE) && is_of_pool(last, b) &&
	       last->addr + last->size == b->addr;
}

/* Adds the blocks up to end. False: the sizes make no sense. */
static bool extend(const struct map *map, struct run *run, size_t end)
{
	if (block(map, run->end)->state != VT_BLOCK_UNMAPPED)
		run->segments++;
	for (; run->end < end; run->end++) {
		const struct vt_block_rec *b = block(map, run->end);

		if (__builtin_add_overflow(run->bytes, b->size, &run->bytes))
			return false;
		if (b->state == VT_BLOCK_UNMAPPED)
			continue;
		run->mapped += b->size;
		if (b->state != VT_BLOCK_CACHED)
			run->taken += b->size;
		else if (b->size > run->largest_hole)
			run->largest_hole = b->size;
	}
	return true;
}

/* What is around the memory: room to grow, mostly much more than there is memory. */
static void trim(const struct map *map, struct run *run)
{
	while (run->end > run->first && block(map, run->first)->state == VT_BLOCK_UNMAPPED)
		run->bytes -= block(map, run->first++)->size;
	while (run->end > run->first && block(map, run->end - 1)->state == VT_BLOCK_UNMAPPED)
		run->bytes -= block(map, --run->end)->size;
}

static bool find_runs(struct map *map, uint64_t *total)
{
	size_t end = map->a->first_block + map->a->n_blocks, next;

	for (size_t i = map->a->first_block; i < end; i = next) {
		struct run *run = &map->runs[map->n_runs];

		*run = (struct run){ .first = i, .end = i };
		for (next = i; next < end && (next == i || continues(map, run, next));) {
			next = vt_model_segment_end(map->model, next, end);
			if (!extend(map, run, next))
				return false;
		}
		trim(map, run);
		if (!run->mapped)
			continue;
		if (__builtin_add_overflow(*total, run->bytes, total))
			return false;
		map->n_runs++;
	}
	return true;
}

/* ---- groups ---- */

static int order(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* By pool and stream; the largest first in each. */
static int compare_runs(const void *pa, const void *pb, void *arg)
{
	const struct run *x = pa, *y = pb;
	const struct vt_block_rec *a = block(arg, x->first), *b = block(arg, y->first);
	uint8_t state = VT_BLOCK_SMALL_POOL | VT_BLOCK_PRIVATE_POOL | VT_BLOCK_EXPANDABLE;
	int by = order(a->pool, b->pool);

	by = by ? by : order(a->stream, b->stream);
	by = by ? by : order(a->flags & state, b->flags & state);
	by = by ? by : order(y->bytes, x->bytes);
	return by ? by : order(a->addr, b->addr);
}

static int compare_groups(const void *pa, const void *pb)
{
	const struct group *a = pa, *b = pb;
	int by = order(b->mapped, a->mapped);

	return by ? by : order(a->first, b->first);
}

static void find_groups(struct map *map)
{
	qsort_r(map->runs, map->n_runs, sizeof(*map->runs), compare_runs, map);
	for (size_t i = 0; i < map->n_runs; i++) {
		const struct run *run = &map->runs[i];
		struct group *group = map->n_groups ? &map->groups[map->n_groups - 1] : NULL;

		if (!group || !is_of_pool(block(map, map->runs[group->first].first),
					  block(map, run->first))) {
			group = &map->groups[map->n_groups++];
			*group = (struct group){ .first = i };
		}
		group->n++;
		group->bytes += run->bytes;
		group->mapped += run->mapped;
		group->taken += run->taken;
		group->segments += run->segments;
		if (run->largest_hole > group->largest_hole)
			group->largest_hole = run->largest_hole;
	}
	qsort(map->groups, map->n_groups, sizeof(*map->groups), compare_groups);
}

/* ---- cells ---- */

static const struct {
	const char *cell; /* line.c has its plain form */
	enum vt_style style;
	const char *words;
} kinds[VT_N_CELL_KINDS] = {
	[VT_CELL_EMPTY] = { " ", VT_PLAIN, NULL },
	[VT_CELL_UNMAPPED] = { "┄", VT_DIM, "not mapped" },
	[VT_CELL_SPARE] = { "·", VT_SPARE, "free segments" },
	[VT_CELL_HOLE] = { "░", VT_SPARE, "holes" },
	[VT_CELL_AWAITING] = { "▓", VT_WARN, "awaiting free" },
	[VT_CELL_PART] = { "▄", VT_PLAIN, NULL },
	[VT_CELL_FULL] = { "█", VT_PLAIN, "in use" },
};

static const char *const eighths[] = { "", "▁", "▂", "▃", "▄", "▅", "▆", "▇" };

static const char *cell_of(const struct vt_cell *cell, enum vt_cell_kind kind)
{
	return kind == VT_CELL_PART ? eighths[vt_cell_eighths(cell)] : kinds[kind].cell;
}

static enum vt_style style_of(const struct map *map, const struct vt_cell *cell,
			      enum vt_cell_kind kind)
{
	enum vt_category category;

	if (kind != VT_CELL_PART && kind != VT_CELL_FULL)
		return kinds[kind].style;
	category = map->categories ? vt_cell_category(cell) : VT_CATEGORY_UNKNOWN;
	return category == VT_CATEGORY_UNKNOWN ? VT_PLAIN : VT_HUE(category - 1);
}

/* One row; equal styles together. */
static void print_cells(const struct map *map, const struct vt_cell *cells, size_t n)
{
	enum vt_style style = VT_PLAIN;
	struct vt_str text = { 0 };

	for (size_t i = 0; i < n; i++) {
		enum vt_cell_kind kind = vt_cell_kind(&cells[i]);
		enum vt_style now = style_of(map, &cells[i], kind);

		if (now != style) {
			vt_line_add(map->line, style, vt_str_get(&text));
			vt_str_clear(&text);
		}
		style = now;
		vt_str_add(&text, cell_of(&cells[i], kind));
	}
	vt_line_add(map->line, style, vt_str_get(&text));
	map->line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static enum vt_cell_state state_of(const struct run *run, uint8_t state)
{
	switch (state) {
	case VT_BLOCK_ALLOCATED:
		return VT_MEMORY_IN_USE;
	case VT_BLOCK_AWAITING_FREE:
		return VT_MEMORY_AWAITING;
	case VT_BLOCK_CACHED:
		return run->taken ? VT_MEMORY_HOLE : VT_MEMORY_SPARE;
	default:
		return VT_MEMORY_UNMAPPED;
	}
}

static void add_run(const struct map *map, const struct run *run, struct vt_cells *cells)
{
	for (size_t i = run->first; i < run->end; i++) {
		const struct vt_block_rec *b = block(map, i);
		uint8_t category = map->categories ? map->categories[i - map->a->first_block] :
						     (uint8_t)VT_CATEGORY_UNKNOWN;

		vt_cells_add(cells, b->size, state_of(run, b->state), (enum vt_category)category);
	}
}

/* The runs one after the other; the line has what is before the cells. */
static void print_runs(const struct map *map, const struct run *runs, size_t n, uint64_t bytes)
{
	struct vt_cells cells = { .n = vt_cells_of(bytes, map->scale), .scale = map->scale };
	size_t columns = (size_t)map->columns;

	cells.cells = calloc(cells.n + 1, sizeof(*cells.cells));
	if (!cells.cells) {
		map->line->buf.failed = true;
		vt_line_end(map->line);
		return;
	}
	for (size_t i = 0; i < n; i++)
		add_run(map, &runs[i], &cells);
	for (size_t i = 0; i < cells.n; i += columns) {
		vt_line_pad(map->line, BEFORE_COLUMNS);
		print_cells(map, cells.cells + i, cells.n - i < columns ? cells.n - i : columns);
		vt_line_end(map->line);
	}
	free(cells.cells);
}

/* ---- rows ---- */

static void print_figures(const struct map *map, const char *label, uint64_t mapped, uint64_t taken)
{
	char number[VT_NUM_MAX];

	vt_line_pad(map->line, 4);
	vt_line_cell(map->line, VT_DIM, label, LABEL_COLUMNS, VT_CUT_END);
	vt_line_right(map->line, VT_PLAIN, vt_format_size(number, mapped), SIZE_COLUMNS);
	vt_line_right(map->line, VT_DIM, taken ? vt_format_share(number, taken, mapped) : "0 %",
		      SHARE_COLUMNS);
}

static void print_own(const struct map *map, const struct run *run)
{
	char label[VT_NUM_MAX];

	snprintf(label, sizeof(label), "0x%" PRIx64, block(map, run->first)->addr);
	print_figures(map, label, run->mapped, run->taken);
	print_runs(map, run, 1, run->bytes);
}

/* "312 × 2.00 MiB", "312 more" */
static void print_others(const struct map *map, const struct group *group, size_t first)
{
	const struct run *runs = &map->runs[group->first + first];
	size_t n = group->n - first;
	uint64_t bytes = 0, mapped = 0, taken = 0, segments = 0;
	char label[VT_NUM_MAX * 2 + 8], count[VT_NUM_MAX], size[VT_NUM_MAX];

	for (size_t i = 0; i < n; i++) {
		bytes += runs[i].bytes;
		mapped += runs[i].mapped;
		taken += runs[i].taken;
		segments += runs[i].segments;
	}
	vt_format_count(count, segments);
	if (segments == n && runs[0].mapped == runs[n - 1].mapped)
		snprintf(label, sizeof(label), "%s × %s", count,
			 vt_format_size(size, runs[0].mapped));
	else
		snprintf(label, sizeof(label), "%s more", count);
	print_figures(map, label, mapped, taken);
	print_runs(map, runs, n, bytes);
}

static void print_group_title(const struct map *map, const struct group *group)
{
	const struct vt_block_rec *b = block(map, map->runs[group->first].first);
	char pool[VT_TEXT_MAX], stream[VT_TEXT_MAX], count[VT_NUM_MAX], size[VT_NUM_MAX],
		share[VT_NUM_MAX];
	struct vt_str text = { 0 };

	vt_str_addf(&text, "%s, stream %s", vt_text_pool(pool, b),
		    vt_text_stream(stream, b->stream));
	vt_line_pad(map->line, 2);
	vt_line_add(map->line, VT_BOLD, vt_str_get(&text));
	vt_str_clear(&text);
	vt_str_addf(&text, "%s in %s segment%s, %s full", vt_format_size(size, group->mapped),
		    vt_format_count(count, group->segments), group->segments == 1 ? "" : "s",
		    group->taken ? vt_format_share(share, group->taken, group->mapped) : "0 %");
	vt_line_pad(map->line, map->line->want + 2);
	vt_line_add(map->line, VT_PLAIN, vt_str_get(&text));
	vt_str_clear(&text);
	if (group->largest_hole)
		vt_str_addf(&text, ", largest free block %s",
			    vt_format_size(size, group->largest_hole));
	if (vt_line_width(map->line, vt_str_get(&text)) <= vt_line_room(map->line))
		vt_line_add(map->line, VT_PLAIN, vt_str_get(&text));
	vt_line_end(map->line);
	map->line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_group(struct map *map, const struct group *group)
{
	size_t i = 0;

	print_group_title(map, group);
	for (; i < group->n && map->own; i++) {
		const struct run *run = &map->runs[group->first + i];

		if (vt_cells_of(run->bytes, map->scale) < MIN_OWN_CELLS && group->n > 1)
			break;
		print_own(map, run);
		map->own--;
	}
	if (i + 1 == group->n)
		print_own(map, &map->runs[group->first + i]);
	else if (i < group->n)
		print_others(map, group, i);
}

static void print_more_groups(const struct map *map)
{
	uint64_t mapped = 0, segments = 0;
	char size[VT_NUM_MAX], count[VT_NUM_MAX];

	for (size_t i = MAX_GROUPS; i < map->n_groups; i++) {
		mapped += map->groups[i].mapped;
		segments += map->groups[i].segments;
	}
	vt_line_pad(map->line, 2);
	vt_line_addf(map->line, VT_DIM, "… %zu more pools and streams, %s in %s segment%s",
		     map->n_groups - MAX_GROUPS, vt_format_size(size, mapped),
		     vt_format_count(count, segments), segments == 1 ? "" : "s");
	vt_text_end_title(map->line, map->line->hints->all_blocks);
}

/* ---- the legend ---- */

static void add_key(struct vt_line *line, enum vt_style style, const char *cell, const char *words)
{
	if (vt_line_width(line, cell) + 1 + vt_line_width(line, words) > vt_line_room(line) - 3) {
		vt_line_end(line);
		vt_line_pad(line, 2);
	} else {
		vt_line_pad(line, line->want ? line->want + 3 : 2);
	}
	vt_line_add(line, style, cell);
	vt_line_pad(line, line->want + 1);
	vt_line_add(line, VT_PLAIN, words);
}

static void add_kind(struct vt_line *line, enum vt_cell_kind kind)
{
	add_key(line, kinds[kind].style, kinds[kind].cell, kinds[kind].words);
}

static bool has_state(const struct vt_model *model, enum vt_block_state state)
{
	for (size_t k = 0; k < model->allocators.n; k++) {
		const struct vt_model_allocator *a = &model->allocators.data[k];

		for (size_t i = a->first_block; i < a->first_block + a->n_blocks; i++)
			if (model->blocks[i].state == state)
				return true;
	}
	return false;
}

static void print_legend(struct vt_line *line, const struct vt_model *model)
{
	bool owners = line->colour && model->owners.state == VT_OWNERS_READ;

	add_key(line, kinds[VT_CELL_FULL].style, kinds[VT_CELL_FULL].cell,
		owners ? "in use, owner not known" : kinds[VT_CELL_FULL].words);
	for (size_t i = 0; owners && i < VT_N_CATEGORIES; i++)
		if (i != VT_CATEGORY_UNKNOWN && model->owners.categories[i].bytes)
			add_key(line, VT_HUE(i - 1), kinds[VT_CELL_FULL].cell,
				vt_category_words((enum vt_category)i));
	add_key(line, VT_PLAIN, "▁▂▃▄▅▆▇", "partly, in eighths");
	add_kind(line, VT_CELL_HOLE);
	add_kind(line, VT_CELL_SPARE);
	if (has_state(model, VT_BLOCK_AWAITING_FREE))
		add_kind(line, VT_CELL_AWAITING);
	if (has_state(model, VT_BLOCK_UNMAPPED))
		add_kind(line, VT_CELL_UNMAPPED);
	vt_line_end(line);
}

/* ---- a device ---- */

static void find_categories(struct map *map)
{
	const struct vt_model_owners *owners = &map->model->owners;

	if (!map->line->colour || owners->state != VT_OWNERS_READ)
		return;
	map->categories = calloc(map->a->n_blocks + 1, 1);
	for (size_t i = 0; map->categories && i < owners->items.n; i++) {
		size_t at = owners->items.data[i].block;

		if (at >= map->a->first_block && at - map->a->first_block < map->a->n_blocks)
			map->categories[at - map->a->first_block] = owners->items.data[i].category;
	}
	map->line->buf.failed |= !map->categories;
}

static void print_title(const struct map *map)
{
	char size[VT_NUM_MAX];

	vt_text_title(map->line, NULL,
		      map->a->exact ?
			      "Map of GPU %d, a character is %s" :
			      "Map of GPU %d, as far as it could be read, a character is %s",
		      map->a->device, vt_format_size(size, map->scale));
}

static void print_map(struct map *map, uint64_t rows, bool legend)
{
	uint64_t total = 0;

	map->runs = calloc(map->a->n_blocks + 1, sizeof(*map->runs));
	map->groups = calloc(map->a->n_blocks + 1, sizeof(*map->groups));
	if (!map->runs || !map->groups) {
		map->line->buf.failed = true;
		return;
	}
	if (!find_runs(map, &total)) {
		vt_text_title(map->line, NULL, "Map of GPU %d", map->a->device);
		vt_line_pad(map->line, 2);
		vt_line_wrap(map->line, VT_WARN, "not drawn: sizes of blocks make no sense", 2, 2);
		return;
	}
	if (!map->n_runs)
		return;
	find_groups(map);
	find_categories(map);
	map->columns = vt_line_room(map->line) - BEFORE_COLUMNS;
	map->columns = map->columns > 8 ? map->columns : 8;
	map->scale = vt_cells_scale(total, rows * (uint64_t)map->columns, SMALLEST_CELL);
	print_title(map);
	if (legend)
		print_legend(map->line, map->model);
	for (size_t i = 0; i < map->n_groups && i < MAX_GROUPS; i++)
		print_group(map, &map->groups[i]);
	if (map->n_groups > MAX_GROUPS)
		print_more_groups(map);
}

void vt_text_map(struct vt_line *line, const struct vt_model *model)
{
	size_t n_devices = 0, done = 0;

	for (size_t i = 0; i < model->allocators.n; i++)
		n_devices += model->allocators.data[i].n_blocks > 0;
	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];
		size_t rows = MAX_ROWS / (n_devices ? n_devices : 1);
		struct map map = { .line = line, .model = model, .a = a, .own = MAX_OWN };

		if (!a->n_blocks)
			continue;
		print_map(&map, rows > MIN_ROWS ? rows : MIN_ROWS, !done++);
		free(map.runs);
		free(map.groups);
		free(map.categories);
	}
}
