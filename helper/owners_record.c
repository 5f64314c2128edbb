/* SPDX-License-Identifier: Apache-2.0 */
#include "owners.h"

#include <string.h>

#include "vramtap/freestanding.h"

#define PER_CLOCK 256 /* steps between two looks at the clock */

int vt_own_is_late_now(struct vt_own *own)
{
	if (!own->late && vt_sys_now_ns() > own->deadline_ns)
		own->late = 1;
	return own->late;
}

int vt_own_is_late(struct vt_own *own)
{
	return own->late || (++own->steps % PER_CLOCK == 0 && vt_own_is_late_now(own));
}

struct vt_asked_rec *vt_own_add(struct vt_own *own, enum vt_asked_kind kind, struct object *from,
				struct object *to)
{
	struct vt_asked_rec *rec;

	if (own->n >= own->capacity) {
		own->full = 1;
		return NULL;
	}
	rec = &own->recs[own->n++];
	memset(rec, 0, sizeof(*rec));
	rec->kind = kind;
	rec->from = (uint64_t)from;
	rec->to = (uint64_t)to;
	return rec;
}

void vt_own_append(struct vt_asked_rec *rec, const char *text)
{
	unsigned int n = 0;

	while (n < sizeof(rec->text) - 1 && rec->text[n])
		n++;
	while (text && *text && n < sizeof(rec->text) - 1)
		rec->text[n++] = *text++;
	rec->text[n] = 0;
}

void vt_own_append_number(struct vt_asked_rec *rec, uint64_t value)
{
	char digits[24];
	unsigned int at = sizeof(digits) - 1;

	digits[at] = 0;
	do {
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	vt_own_append(rec, digits + at);
}

void vt_own_clear_error(struct vt_own *own)
{
	PY(own, PyErr_Clear, do_fn)();
}

void vt_own_append_and_drop(struct vt_own *own, struct vt_asked_rec *rec, struct object *text)
{
	if (!text) {
		vt_own_clear_error(own);
		return;
	}
	vt_own_append(rec, PY(own, PyUnicode_AsUTF8, text_fn)(text));
	vt_own_clear_error(own); /* it has halves of surrogate pairs */
	vt_py_drop(&own->py, text);
}
