/* SPDX-License-Identifier: Apache-2.0 */
/*
 * numpy/core/include/numpy/ndarraytypes.h: a PyArray_Descr has the type of its scalars, then a
 * letter for its kind, another one, the byte order, flags, and its number. That is the same in
 * NumPy 1 and 2; the numbers are part of NumPy's ABI.
 */
#include <string.h>

#include "walk/arrays/dtype.h"

static const struct known {
	uint8_t number;
	char kind;
	struct vt_dtype dtype;
} known[] = {
	{ 0, 'b', { "bool", 1 } },         { 1, 'i', { "int8", 1 } },
	{ 2, 'u', { "uint8", 1 } },        { 3, 'i', { "int16", 2 } },
	{ 4, 'u', { "uint16", 2 } },       { 5, 'i', { "int32", 4 } },
	{ 6, 'u', { "uint32", 4 } },       { 7, 'i', { "int64", 8 } },
	{ 8, 'u', { "uint64", 8 } },       { 9, 'i', { "int64", 8 } },
	{ 10, 'u', { "uint64", 8 } },      { 11, 'f', { "float32", 4 } },
	{ 12, 'f', { "float64", 8 } },     { 14, 'c', { "complex64", 8 } },
	{ 15, 'c', { "complex128", 16 } }, { 23, 'f', { "float16", 2 } },
};

/* Those of the package ml_dtypes have no numbers of their own, but classes. */
static const struct {
	const char *cls;
	struct vt_dtype dtype;
} by_class[] = {
	{ "dtype[bfloat16]", { "bfloat16", 2 } },
	{ "dtype[float8_e4m3fn]", { "float8_e4m3fn", 1 } },
	{ "dtype[float8_e4m3fnuz]", { "float8_e4m3fnuz", 1 } },
	{ "dtype[float8_e4m3b11fnuz]", { "float8_e4m3b11fnuz", 1 } },
	{ "dtype[float8_e5m2]", { "float8_e5m2", 1 } },
	{ "dtype[float8_e5m2fnuz]", { "float8_e5m2fnuz", 1 } },
};

const struct vt_dtype *vt_dtype_at(struct vt_pyheap *heap, uint64_t addr)
{
	enum { KIND = 8, NUMBER = 12 };
	uint32_t cls = vt_pyheap_class_of(heap, addr);
	uint8_t bytes[NUMBER + 4];
	int32_t number;

	/* "numpy.dtypes" from 1.25 on, "numpy" before. */
	if (cls == VT_GRAPH_NONE || strncmp(heap->classes.data[cls].module, "numpy", 5) != 0 ||
	    !vt_pages_read(heap->pages, addr + heap->head, bytes, sizeof(bytes)))
		return NULL;
	memcpy(&number, bytes + NUMBER, sizeof(number));
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].number == number && known[i].kind == (char)bytes[KIND])
			return &known[i].dtype;
	for (size_t i = 0; i < sizeof(by_class) / sizeof(by_class[0]); i++)
		if (!strcmp(heap->classes.data[cls].name, by_class[i].cls))
			return &by_class[i].dtype;
	return NULL;
}
