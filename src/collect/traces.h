/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Private to collect/traces.c and to the sources of recorded backtraces, collect/history.c
 * (PyTorch's own) and collect/recorded.c (vramtap's recorder): the data of a source, before it is
 * named and put into the model.
 */
#ifndef VT_COLLECT_TRACES_H
#define VT_COLLECT_TRACES_H

#include "collect/collect.h"
#include "walk/python/places.h"

/*
 * A backtrace: indices of its places in its set, n_python in Python and then n_native native ones,
 * each innermost first.
 */
struct vt_trace_in_set {
	const uint32_t *frames;
	uint32_t n_python, n_native;
	bool python_cut, native_cut, native_guess;
};

/* The data of a source. All zero: nothing. What it points to lives until the collection ends. */
struct vt_trace_set {
	const struct vt_python_place *python; /* named, as far as there are names */
	size_t n_python;
	const uint64_t *native; /* return addresses */
	size_t n_native;
	const struct vt_trace_in_set *traces;
	size_t n_traces;
	/* for each block of the model: index in traces, or VT_UNTRACED(why); NULL: none */
	const uint32_t *of_block;
	const uint32_t *of_segment; /* the same of the segments that blocks begin */
};

/* Each fills its set, and reports what is missing. False: out of memory. */
bool vt_collect_history_traces(struct vt_collect *c, struct vt_trace_set *set);
bool vt_collect_recorded_traces(struct vt_collect *c, struct vt_trace_set *set);

/*
 * Other users of the recorder's traces (driver allocations, out-of-memory errors): each is an index
 * in the set's traces or VT_UNTRACED(why), and becomes one in the model's.
 */
void vt_collect_recorded_others(struct vt_collect *c, void (*number)(void *arg, uint32_t *trace),
				void *arg);

#endif
