/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/object.h"

int vt_py_view_read(struct vt_memsrc *src, const struct vt_python_layout *layout, uint64_t addr,
		    enum vt_py_field first, enum vt_py_field last, struct vt_py_view *view)
{
	size_t size = 0;

	for (int f = (int)first; f <= (int)last; f++) {
		if (layout->at[f] != VT_PY_NONE && layout->at[f] + sizeof(uint64_t) > size)
			size = layout->at[f] + sizeof(uint64_t);
	}
	view->size = 0;
	if (size > sizeof(view->bytes))
		return -EINVAL;

	int ret = vt_mem_read(src, addr, view->bytes, size);

	if (!ret)
		view->size = size;
	return ret;
}

/* True if the type object's tp_name is this. */
static bool is_named(const struct vt_python *py, struct vt_memsrc *src, uint64_t type,
		     const char *name)
{
	char text[16];
	size_t size = strlen(name) + 1;
	uint64_t addr;

	return size <= sizeof(text) &&
	       !vt_py_field_u64(src, py->layout, type, VT_PY_TYPE_NAME, &addr) &&
	       !vt_mem_read(src, addr, text, size) && !memcmp(text, name, size);
}

bool vt_py_is(struct vt_python *py, struct vt_memsrc *src, uint64_t object,
	      enum vt_python_type type)
{
	static const char *const names[] = {
		[VT_PYTHON_CODE] = "code",
		[VT_PYTHON_STR] = "str",
		[VT_PYTHON_BYTES] = "bytes",
	};
	uint64_t found;

	if (!object || vt_py_field_u64(src, py->layout, object, VT_PY_OBJECT_TYPE, &found) ||
	    !found)
		return false;
	if (found == py->types[type].symbol || found == py->types[type].named)
		return true;
	if (py->types[type].named || !is_named(py, src, found, names[type]))
		return false;
	py->types[type].named = found;
	return true;
}

/* Room for the longest UTF-8 sequence is the caller's business. */
static size_t put_utf8(uint32_t c, bool surrogates, char *out)
{
	if (c < 0x80) {
		out[0] = (char)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (char)(0xc0 | c >> 6);
		out[1] = (char)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c >= 0xdc80 && c <= 0xdcff && !surrogates) { /* surrogateescape, PEP 383 */
		out[0] = (char)(c & 0xff);
		return 1;
	}
	if ((c >= 0xd800 && c <= 0xdfff && !surrogates) || c > 0x10ffff)
		c = 0xfffd;
	if (c < 0x10000) {
		out[0] = (char)(0xe0 | c >> 12);
		out[1] = (char)(0x80 | (c >> 6 & 0x3f));
		out[2] = (char)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (char)(0xf0 | c >> 18);
	out[1] = (char)(0x80 | (c >> 12 & 0x3f));
	out[2] = (char)(0x80 | (c >> 6 & 0x3f));
	out[3] = (char)(0x80 | (c & 0x3f));
	return 4;
}

/*
 * n characters of kind bytes each (little-endian) to UTF-8; stops where the next character might
 * not fit.
 */
static int to_utf8(const uint8_t *text, size_t n, size_t kind, bool surrogates, char *buf)
{
	size_t used = 0;

	for (size_t i = 0; i < n && used + 4 <= VT_PY_STR_MAX; i++) {
		uint32_t c = 0;

		memcpy(&c, text + i * kind, kind);
		used += put_utf8(c, surrogates, buf + used);
	}
	buf[used] = '\0';
	return (int)used;
}

/* Where the text of a string lies; 0 when the head makes no sense. */
static uint64_t text_address(const struct vt_python_layout *layout, struct vt_memsrc *src,
			     uint64_t object, uint32_t state, unsigned int kind)
{
	uint64_t data;

	/*
	 * kind 0 and a clear ready bit (up to 3.11) are strings whose text is not in its final form
	 * yet.
	 */
	if (kind != 1 && kind != 2 && kind != 4)
		return 0;
	if (vt_py_has(layout, VT_PY_STATE_READY) && !(state & layout->at[VT_PY_STATE_READY]))
		return 0;
	if (state & layout->at[VT_PY_STATE_COMPACT] && state & layout->at[VT_PY_STATE_ASCII])
		return kind == 1 ? object + layout->at[VT_PY_UNICODE_ASCII_DATA] : 0;
	if (state & layout->at[VT_PY_STATE_COMPACT])
		return vt_py_has(layout, VT_PY_UNICODE_COMPACT_DATA) ?
			       object + layout->at[VT_PY_UNICODE_COMPACT_DATA] :
			       0;
	return vt_py_field_u64(src, layout, object, VT_PY_UNICODE_DATA, &data) ? 0 : data;
}

static int read_start(const struct vt_python *py, struct vt_memsrc *src, uint64_t object,
		      size_t max, bool surrogates, char *buf)
{
	const struct vt_python_layout *layout = py->layout;
	uint8_t text[VT_PY_STR_MAX * 4];
	struct vt_py_view view;
	int ret = vt_py_view_read(src, layout, object, VT_PY_UNICODE_LENGTH, VT_PY_UNICODE_STATE,
				  &view);

	if (ret)
		return ret;

	uint64_t length = vt_py_view_u64(&view, layout, VT_PY_UNICODE_LENGTH);
	uint32_t state = (uint32_t)vt_py_view_i32(&view, layout, VT_PY_UNICODE_STATE);
	unsigned int kind = state >> layout->at[VT_PY_STATE_KIND_SHIFT] & 7;
	uint64_t addr = text_address(layout, src, object, state, kind);

	if (!addr || length > INT64_MAX)
		return -EINVAL;
	if (length > max)
		length = max;
	ret = vt_mem_read(src, addr, text, length * kind);
	return ret ? ret : to_utf8(text, length, kind, surrogates, buf);
}

int vt_py_str_read(struct vt_python *py, struct vt_memsrc *src, uint64_t object, char *buf)
{
	if (!vt_py_is(py, src, object, VT_PYTHON_STR))
		return -EINVAL;
	return read_start(py, src, object, VT_PY_STR_MAX, false, buf);
}

int vt_py_str_read_start(const struct vt_python *py, struct vt_memsrc *src, uint64_t object,
			 size_t max, char *buf)
{
	return read_start(py, src, object, max, true, buf);
}
