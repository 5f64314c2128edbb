/* SPDX-License-Identifier: Apache-2.0 */
#include "model/stream_waits.h"

#include <inttypes.h>

#include "model/streams.h"

#define SMALL 100000 /* in decimal: counters; others are flags, or addresses */

static uint64_t mask_of(const struct vt_model_launch *l)
{
	return l->bits == 32 ? UINT32_MAX : UINT64_MAX;
}

bool vt_wait_ends_with(const struct vt_model_launch *wait, uint64_t there)
{
	uint64_t mask = mask_of(wait), sign = (mask >> 1) + 1;

	there &= mask;
	switch (wait->compare) {
	case VT_VALUE_EQ:
		return there == wait->value;
	case VT_VALUE_AND:
		return (there & wait->value) != 0;
	case VT_VALUE_NOR:
		return (~(there | wait->value) & mask) != 0;
	default: /* cyclically: a counter may overflow */
		return !((there - wait->value) & sign);
	}
}

static void add_value(struct vt_str *text, uint64_t value, bool flags)
{
	if (value < SMALL && !flags)
		vt_str_addf(text, "%" PRIu64, value);
	else
		vt_str_addf(text, "%#" PRIx64, value);
}

void vt_wait_say(struct vt_str *text, const struct vt_model_launch *wait)
{
	static const char *const words[VT_N_VALUE_COMPARES] = {
		[VT_VALUE_GEQ] = ">= ",
		[VT_VALUE_EQ] = "",
		[VT_VALUE_AND] = "one with a bit of ",
		[VT_VALUE_NOR] = "one that lacks a bit of ",
	};
	bool flags = wait->compare == VT_VALUE_AND || wait->compare == VT_VALUE_NOR;

	vt_str_addf(text, "%#" PRIx64 " must be %s", wait->what, words[wait->compare]);
	add_value(text, wait->compare == VT_VALUE_NOR ? ~wait->value & mask_of(wait) : wait->value,
		  flags);
	if (!wait->there_known) {
		vt_str_add(text, "; what is there is not known");
		return;
	}
	vt_str_add(text, ", is ");
	add_value(text, wait->there, flags);
}

const struct vt_model_stream *vt_launch_stream_asked(const struct vt_model *model,
						     const struct vt_model_launch_stream *s)
{
	return s->tid || s->device < 0 ? NULL : vt_model_stream(model, s->device, s->handle);
}

void vt_launch_stream_say(struct vt_str *text, const struct vt_model *model,
			  const struct vt_model_launch_stream *s)
{
	const struct vt_model_stream *asked = vt_launch_stream_asked(model, s);

	if (asked && asked->kind != VT_STREAM_IS_EXTERNAL)
		vt_stream_say(text, asked);
	else if (s->tid)
		vt_str_addf(text, "the default stream of thread %d", (int)s->tid);
	else if (s->handle)
		vt_str_addf(text, "stream %#" PRIx64, s->handle);
	else
		vt_str_add(text, "the default stream");
}

const char *vt_value_compare_name(unsigned int compare)
{
	static const char *const names[] = {
#define X(name, text) text,
		VT_VALUE_COMPARES(X)
#undef X
	};

	return names[compare < VT_N_VALUE_COMPARES ? compare : VT_VALUE_GEQ];
}
