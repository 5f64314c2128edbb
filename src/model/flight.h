/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What PyTorch's flight recorder tells of collectives: the text of _dump_nccl_trace_json() and the like (2.5 on), made into process
 * groups; and these as JSON of ours, which reports and jobs have alike.
 */
#ifndef VT_MODEL_FLIGHT_H
#define VT_MODEL_FLIGHT_H

#include "json/in.h"
#include "json/out.h"
#include "model/model.h"

/* A recorder in PyTorch: each kind of process group has its own. */
struct vt_flight_recorder {
	const char *backend;  /* of its groups */
	const char *function; /* of torch._C._distributed_c10d */
	const char *argument; /* its third; "" none */
	bool retired_is_over; /* it has no events: an operation that it looks after no more is over, whatever its state says */
	bool by_hook;         /* its statuses count in another way, and a start is noted when the end is */
	const char *thread;   /* that processes with such groups have: how its name begins */
	const char *since;    /* the first release of PyTorch with that function */
};

#define VT_FLIGHT_RECORDERS 3
#define VT_FLIGHT_MAX_RANKS (1 << 20)
extern const struct vt_flight_recorder vt_flight_recorders[VT_FLIGHT_RECORDERS];

/*
 * Adds the groups in n bytes of text to to; strings go into arena. now_ns: CLOCK_REALTIME, of when it was told; only_active: operations
 * that are over, or all, were left out. VT_ERR_FORMAT: it is not as it should be; then nothing is added.
 */
struct vt_error *vt_flight_parse(const struct vt_flight_recorder *recorder, const char *text, size_t n, uint64_t now_ns,
				 bool only_active, struct vt_arena *arena, struct vt_model_collectives *to);

/* "0-3,8" of numbers in ascending order as they are found in "[0, 1, 2, 3, 8]"; NULL when it is no such text, or has no end. */
const char *vt_flight_ranks(struct vt_arena *arena, const char *text);
/* The next range of "0-3,8", whose rest is *ranks (NULL is empty); false at its end, and at what is no range. */
bool vt_flight_next_ranks(const char **ranks, int *first, int *last);

/* "default_pg", else the name of the group. */
const char *vt_flight_group_name(const struct vt_model_process_group *group);

/* As a value of "collectives"; null when it was not told. */
void vt_flight_put(struct vt_json *json, const struct vt_model_collectives *collectives);
/* The texts are copied into in->strings. */
void vt_flight_load(struct vt_json_in *in, json_t *from, struct vt_model_collectives *collectives);

#endif
