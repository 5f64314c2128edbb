/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch's flight recorder reports about collectives. This parses the text of
 * _dump_nccl_trace_json() and the like (PyTorch 2.5 on) into process groups, and writes and loads
 * them as our JSON, the same in reports and jobs.
 */
#ifndef VT_MODEL_FLIGHT_H
#define VT_MODEL_FLIGHT_H

#include "json/in.h"
#include "json/out.h"
#include "model/model.h"

/* A flight recorder in PyTorch: each backend has its own. */
struct vt_flight_recorder {
	const char *backend;  /* of its groups */
	const char *function; /* of torch._C._distributed_c10d */
	const char *argument; /* its third argument; "" none */
	bool retired_is_over; /* it has no events: a retired operation is over in any state */
	bool by_hook;         /* its statuses count differently; starts are noted at the end */
	const char *thread;   /* name prefix of a thread that processes with these groups have */
	const char *since;    /* the first PyTorch release with that function */
};

#define VT_FLIGHT_RECORDERS 3
#define VT_FLIGHT_MAX_RANKS (1 << 20)
extern const struct vt_flight_recorder vt_flight_recorders[VT_FLIGHT_RECORDERS];

/*
 * Adds the groups in n bytes of text to "to"; strings go into arena. now_ns: CLOCK_REALTIME when
 * PyTorch wrote the text. only_active: the text omits completed operations, or all of them.
 * VT_ERR_FORMAT: the text is malformed; then nothing is added.
 */
struct vt_error *vt_flight_parse(const struct vt_flight_recorder *recorder, const char *text,
				 size_t n, uint64_t now_ns, bool only_active,
				 struct vt_arena *arena, struct vt_model_collectives *to);

/*
 * Turns ascending numbers in the form "[0, 1, 2, 3, 8]" into "0-3,8". NULL when the text has
 * another form or no end.
 */
const char *vt_flight_ranks(struct vt_arena *arena, const char *text);
/*
 * Takes the next range from *ranks ("0-3,8"; NULL is empty) and leaves the rest there. False at the
 * end, and at text that is not a range.
 */
bool vt_flight_next_ranks(const char **ranks, int *first, int *last);

/* "default_pg", else the name of the group. */
const char *vt_flight_group_name(const struct vt_model_process_group *group);

/* Writes the value of "collectives"; null when PyTorch told nothing. */
void vt_flight_put(struct vt_json *json, const struct vt_model_collectives *collectives);
/* Copies the strings into in->strings. */
void vt_flight_load(struct vt_json_in *in, const struct vt_json_value *from,
		    struct vt_model_collectives *collectives);

#endif
