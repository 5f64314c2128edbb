/* SPDX-License-Identifier: Apache-2.0 */
/* The two questions of a report: how the process may be touched, and what is wanted. */
#ifndef VT_COLLECT_TOUCH_H
#define VT_COLLECT_TOUCH_H

/* Each allows less than the one before. */
enum vt_touch {
	VT_TOUCH_INSIDE,  /* code runs in it, and its threads are stopped */
	VT_TOUCH_STOP,    /* its threads are stopped: --read-only */
	VT_TOUCH_NOTHING, /* it runs on: --no-stop */
};

/* A set of these. */
enum vt_want {
	VT_WANT_MEMORY = 1 << 0,
	VT_WANT_THREADS = 1 << 1,
	VT_WANT_ALL = VT_WANT_MEMORY | VT_WANT_THREADS,
};

static inline enum vt_touch vt_touch_less(enum vt_touch a, enum vt_touch b)
{
	return a > b ? a : b;
}

/* The option that selects it; VT_TOUCH_INSIDE needs none. */
static inline const char *vt_touch_option(enum vt_touch touch)
{
	return touch == VT_TOUCH_NOTHING ? "--no-stop" : "--read-only";
}

#endif
