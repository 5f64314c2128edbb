/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/layout.h"

#include <string.h>

#include "walk/python/layouts.h"

#define N_ROWS (sizeof(vt_python_rows) / sizeof(vt_python_rows[0]))
#define N_DEBUG_ROWS (sizeof(vt_python_debug_rows) / sizeof(vt_python_debug_rows[0]))

/*
 * Larger offsets than any struct has (PyInterpreterState is the largest with some 400 KB): such a
 * word is damaged.
 */
#define MAX_OFFSET (4u << 20)

/* Structs whose fields are partly told by the interpreter and partly by our row. */
static const struct {
	enum vt_py_field first, last;
} partly_told[] = {
	{ VT_PY_INTERP_NEXT, VT_PY_INTERP_ATEXIT_LIST },
	{ VT_PY_GC_SIZE, VT_PY_GC_CALLBACKS },
	{ VT_PY_FRAME_LOCALS, VT_PY_FRAME_OBJECT },
	{ VT_PY_CODE_VARNAMES, VT_PY_CODE_BYTECODE },
	{ VT_PY_TYPE_NAME, VT_PY_TYPE_MODULE },
	{ VT_PY_DICT_USED, VT_PY_DICT_VALUES },
	{ VT_PY_UNICODE_LENGTH, VT_PY_UNICODE_DATA },
};

const struct vt_python_layout *vt_python_layout_nth(size_t i)
{
	return i < N_ROWS ? &vt_python_rows[i] : NULL;
}

const struct vt_python_layout *vt_python_layout_find(unsigned int major, unsigned int minor,
						     bool free_threaded)
{
	for (size_t i = 0; i < N_ROWS; i++) {
		const struct vt_python_layout *row = &vt_python_rows[i];

		if (row->major == major && row->minor == minor &&
		    row->free_threaded == free_threaded)
			return row;
	}
	return NULL;
}

static const struct vt_python_debug *find_debug(unsigned int major, unsigned int minor)
{
	for (size_t i = 0; i < N_DEBUG_ROWS; i++) {
		if (vt_python_debug_rows[i].major == major &&
		    vt_python_debug_rows[i].minor == minor)
			return &vt_python_debug_rows[i];
	}
	return NULL;
}

/*
 * When the interpreter says something else about a struct than our row (a patched build), what only
 * the row says about that struct cannot be trusted. Readers do without: no frame object, no first
 * traceable instruction, ASCII strings only, fewer kinds of values.
 */
static void distrust(const struct vt_python_layout *row, const struct vt_python_debug *debug,
		     struct vt_python_layout *layout)
{
	for (size_t i = 0; i < sizeof(partly_told) / sizeof(partly_told[0]); i++) {
		bool same = true;

		for (int f = (int)partly_told[i].first; f <= (int)partly_told[i].last; f++)
			same = same && row->at[f] == layout->at[f];
		if (same)
			continue;
		for (int f = (int)partly_told[i].first; f <= (int)partly_told[i].last; f++) {
			if (debug->at[f] == VT_PY_NONE)
				layout->at[f] = VT_PY_NONE;
		}
	}
}

bool vt_python_layout_from_debug(const uint8_t *runtime, size_t size,
				 struct vt_python_layout *layout)
{
	uint64_t version, free_threaded;

	if (size < VT_PYTHON_DEBUG_FREE_THREADED + sizeof(free_threaded))
		return false;
	memcpy(&version, runtime + VT_PYTHON_DEBUG_VERSION, sizeof(version));
	memcpy(&free_threaded, runtime + VT_PYTHON_DEBUG_FREE_THREADED, sizeof(free_threaded));
	if (version > UINT32_MAX || free_threaded > 1)
		return false;

	unsigned int major = (unsigned int)(version >> 24),
		     minor = (unsigned int)(version >> 16) & 0xff;
	const struct vt_python_layout *row = vt_python_layout_find(major, minor, free_threaded);
	const struct vt_python_debug *debug = find_debug(major, minor);

	if (!row || !debug)
		return false;
	*layout = *row;
	for (int f = 0; f < VT_PY_N_FIELDS; f++) {
		uint64_t offset;

		if (debug->at[f] == VT_PY_NONE || row->at[f] == VT_PY_NONE)
			continue;
		if (debug->at[f] > size - sizeof(offset))
			return false;
		memcpy(&offset, runtime + debug->at[f], sizeof(offset));
		if (offset > MAX_OFFSET)
			return false;
		layout->at[f] = (uint32_t)offset;
	}
	distrust(row, debug, layout);
	return true;
}
