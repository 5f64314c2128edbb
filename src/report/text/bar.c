/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text/bar.h"

#define MIN_COLUMNS 70 /* of a line with a bar */

static const struct {
	const char *cell; /* line.c has its plain form */
	enum vt_style style;
	bool taken;
} shades[VT_N_SHADES] = {
	[VT_SHADE_IN_USE] = { "█", VT_PLAIN, true },
	[VT_SHADE_OTHER] = { "▓", VT_DIM, true },
	[VT_SHADE_CACHED] = { "▒", VT_SPARE, false },
	[VT_SHADE_FREE] = { "░", VT_DIM, false },
};

static const enum vt_shade order[VT_N_SHADES] = { VT_SHADE_IN_USE, VT_SHADE_OTHER, VT_SHADE_CACHED,
						  VT_SHADE_FREE };

bool vt_bar_parts(const struct vt_model_device *device, const struct vt_model_allocator *allocator,
		  uint64_t parts[VT_N_SHADES])
{
	if (!allocator || !allocator->exact || !device->have_memory ||
	    device->used_bytes > device->total_bytes ||
	    allocator->reserved_bytes > device->used_bytes ||
	    allocator->cached_bytes > allocator->reserved_bytes)
		return false;
	parts[VT_SHADE_IN_USE] = allocator->reserved_bytes - allocator->cached_bytes;
	parts[VT_SHADE_OTHER] = device->used_bytes - allocator->reserved_bytes;
	parts[VT_SHADE_CACHED] = allocator->cached_bytes;
	parts[VT_SHADE_FREE] = device->total_bytes - device->used_bytes;
	return true;
}

/* From the part with the most cells: there it is the smallest error. */
static bool give(unsigned int *cells, size_t n, size_t to)
{
	size_t most = 0;

	for (size_t i = 1; i < n; i++)
		if (cells[i] > cells[most])
			most = i;
	if (cells[most] < 2)
		return false;
	cells[most]--;
	cells[to]++;
	return true;
}

void vt_bar_cells(const uint64_t *parts, size_t n, unsigned int n_cells, unsigned int *cells)
{
	unsigned __int128 total = 0, before = 0;
	unsigned int done = 0;

	for (size_t i = 0; i < n; i++)
		total += parts[i];
	/* Each part ends where the sum of all up to it rounds to: no error adds up. */
	for (size_t i = 0; i < n; i++) {
		unsigned int end;

		before += parts[i];
		end = total ? (unsigned int)((before * n_cells + total / 2) / total) : 0;
		cells[i] = end - done;
		done = end;
	}
	for (size_t i = 0; i < n; i++)
		if (parts[i] && !cells[i] && !give(cells, n, i))
			return;
}

bool vt_bar_fits(const struct vt_line *line)
{
	return line->columns >= MIN_COLUMNS;
}

void vt_bar_add(struct vt_line *line, const struct vt_model_device *device,
		const struct vt_model_allocator *allocator, int columns)
{
	/* Under 2 % free, the next request of a usual size may fail. */
	bool full = device->free_bytes < device->total_bytes / 50;
	uint64_t parts[VT_N_SHADES] = {
		[VT_SHADE_IN_USE] = device->used_bytes,
		[VT_SHADE_FREE] = device->total_bytes > device->used_bytes ?
					  device->total_bytes - device->used_bytes :
					  0,
	};
	uint64_t ordered[VT_N_SHADES];
	unsigned int cells[VT_N_SHADES];
	struct vt_str text = { 0 };

	vt_bar_parts(device, allocator, parts);
	for (size_t i = 0; i < VT_N_SHADES; i++)
		ordered[i] = parts[order[i]];
	vt_bar_cells(ordered, VT_N_SHADES, (unsigned int)columns, cells);
	for (size_t i = 0; i < VT_N_SHADES; i++) {
		enum vt_shade shade = order[i];

		vt_str_clear(&text);
		for (unsigned int k = 0; k < cells[i]; k++)
			vt_str_add(&text, shades[shade].cell);
		vt_line_add(line, full && shades[shade].taken ? VT_ALARM : shades[shade].style,
			    vt_str_get(&text));
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

void vt_bar_mark(struct vt_line *line, enum vt_shade shade)
{
	vt_line_add(line, shades[shade].style, shades[shade].cell);
}
