/* SPDX-License-Identifier: Apache-2.0 */
#include "report/text/cells.h"

size_t vt_cells_of(uint64_t bytes, uint64_t scale)
{
	return (size_t)(bytes / scale + (bytes % scale != 0));
}

uint64_t vt_cells_scale(uint64_t total, uint64_t n_cells, uint64_t smallest)
{
	uint64_t scale = 1;

	while (scale < smallest || (total / scale >= n_cells && scale < UINT64_MAX / 2))
		scale *= 2;
	return scale;
}

void vt_cells_add(struct vt_cells *cells, uint64_t bytes, enum vt_cell_state state,
		  enum vt_category category)
{
	while (bytes) {
		uint64_t index = cells->at / cells->scale;
		uint64_t room = cells->scale - cells->at % cells->scale;
		uint64_t part = bytes < room ? bytes : room;

		if (index >= cells->n)
			return;
		cells->cells[index].bytes[state] += part;
		if (state == VT_MEMORY_IN_USE)
			cells->cells[index].owned[category] += part;
		cells->at += part;
		bytes -= part;
	}
}

static uint64_t taken(const struct vt_cell *cell)
{
	return cell->bytes[VT_MEMORY_IN_USE] + cell->bytes[VT_MEMORY_AWAITING];
}

static uint64_t sum(const struct vt_cell *cell)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < VT_N_MEMORY; i++)
		bytes += cell->bytes[i];
	return bytes;
}

static enum vt_cell_kind kind_of_free(const struct vt_cell *cell)
{
	uint64_t hole = cell->bytes[VT_MEMORY_HOLE], spare = cell->bytes[VT_MEMORY_SPARE];

	return spare > hole ? VT_CELL_SPARE : hole ? VT_CELL_HOLE : VT_CELL_UNMAPPED;
}

enum vt_cell_kind vt_cell_kind(const struct vt_cell *cell)
{
	if (!sum(cell))
		return VT_CELL_EMPTY;
	if (!taken(cell))
		return kind_of_free(cell);
	if (cell->bytes[VT_MEMORY_AWAITING] > cell->bytes[VT_MEMORY_IN_USE])
		return VT_CELL_AWAITING;
	return taken(cell) == sum(cell) ? VT_CELL_FULL : VT_CELL_PART;
}

unsigned int vt_cell_eighths(const struct vt_cell *cell)
{
	unsigned __int128 whole = sum(cell);
	unsigned int eighths =
		whole ? (unsigned int)(((unsigned __int128)taken(cell) * 16 + whole) /
				       (whole * 2)) :
			0;

	return eighths < 1 ? 1 : eighths > 7 ? 7 : eighths;
}

enum vt_category vt_cell_category(const struct vt_cell *cell)
{
	size_t most = VT_CATEGORY_UNKNOWN;

	for (size_t i = 1; i < VT_N_CATEGORIES; i++)
		if (cell->owned[i] > cell->owned[most])
			most = i;
	return (enum vt_category)most;
}
