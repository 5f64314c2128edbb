/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libnccl.so.2: collectives, and what goes from one rank to another. Those of a group begin
 * together.
 */
#include "nccl.h"

#include <stdlib.h>

enum kind { COLLECTIVE, SEND, RECEIVE };

struct op {
	enum kind kind;
	uint32_t function;
	struct nccl_comm *comm;
	struct sim_stream *stream;
	int peer;
	uint64_t number; /* of this kind, on this communicator and with this peer; from 1 */
	struct op *next;
};

/* ---- on the stream ---- */

static uint64_t *own_count(const struct op *op)
{
	struct nccl_shared *shared = op->comm->shared;
	int rank = op->comm->rank;

	return op->kind == COLLECTIVE ? &shared->collectives[rank] :
	       op->kind == SEND       ? &shared->sends[rank][op->peer] :
					&shared->receives[op->peer][rank];
}

static int are_there(const struct op *op)
{
	struct nccl_shared *shared = op->comm->shared;
	int rank = op->comm->rank;

	if (__atomic_load_n(&shared->aborted, __ATOMIC_ACQUIRE))
		return 1;
	if (op->kind == SEND)
		return __atomic_load_n(&shared->receives[rank][op->peer], __ATOMIC_ACQUIRE) >=
		       op->number;
	if (op->kind == RECEIVE)
		return __atomic_load_n(&shared->sends[op->peer][rank], __ATOMIC_ACQUIRE) >=
		       op->number;
	for (int i = 0; i < op->comm->n_ranks; i++) {
		uint64_t number = __atomic_load_n(&shared->collectives[i], __ATOMIC_ACQUIRE);

		if (number < op->number ||
		    (number == op->number && shared->functions[i] != op->function))
			return 0;
	}
	return 1;
}

/* A host function of the stream: nothing that comes after on it begins before this ends. */
static void run(void *arg)
{
	uint32_t seen;

	for (struct op *op = arg; op; op = op->next) {
		if (op->kind == COLLECTIVE)
			op->comm->shared->functions[op->comm->rank] = op->function;
		__atomic_store_n(own_count(op), op->number, __ATOMIC_RELEASE);
		nccl_tell(op->comm->shared);
	}
	for (struct op *op = arg, *next; op; op = next) {
		while ((seen = nccl_news(op->comm->shared)), !are_there(op))
			nccl_wait_for_news(op->comm->shared, seen);
		next = op->next;
		free(op);
	}
}

/* ---- groups ---- */

static __thread int depth;
static __thread struct op *first, **last;

static int submit(struct op *ops)
{
	return sim_stream_host_fn(ops->stream, run, ops) == SIM_OK ? NCCL_SUCCESS :
								     NCCL_SYSTEM_ERROR;
}

/* All of one stream at once. */
static int submit_group(void)
{
	int err = NCCL_SUCCESS;

	while (first && !err) {
		struct op *together = NULL, **end = &together, **from = &first;
		const struct sim_stream *stream = first->stream;

		while (*from) {
			struct op *op = *from;

			if (op->stream != stream) {
				from = &op->next;
				continue;
			}
			*from = op->next;
			op->next = NULL;
			*end = op;
			end = &op->next;
		}
		err = submit(together);
	}
	return err;
}

NCCL(ncclGroupStart, void)
{
	int err = sim_enter(__func__);

	if (err)
		return err;
	if (!depth++) {
		first = NULL;
		last = &first;
	}
	return NCCL_SUCCESS;
}

NCCL(ncclGroupEnd, void)
{
	int err = sim_enter(__func__);

	if (err)
		return err;
	if (!depth)
		return NCCL_INVALID_USAGE;
	return --depth ? NCCL_SUCCESS : submit_group();
}

/* ---- calls ---- */

static struct sim_stream *find_stream(void *handle)
{
	struct sim_ctx *ctx = sim_ctx_current();

	return sim_stream_get(handle, ctx ? sim_ctx_device(ctx) : 0);
}

static uint32_t hash(const char *name)
{
	uint32_t value = 2166136261u;

	while (*name)
		value = (value ^ (uint8_t)*name++) * 16777619u;
	return value;
}

static int call(const char *function, enum kind kind, struct nccl_comm *comm, void *stream,
		int peer)
{
	int err = sim_enter(function);
	struct sim_stream *on = find_stream(stream);
	struct op *op;

	if (err)
		return err;
	if (!comm || !on || peer < 0 || peer >= comm->n_ranks)
		return NCCL_INVALID_ARGUMENT;
	if (sim_stream_capture(on)->graph) { /* a graph does nothing here */
		sim_stream_work(on);
		return NCCL_SUCCESS;
	}
	op = calloc(1, sizeof(*op));
	if (!op)
		return NCCL_SYSTEM_ERROR;
	*op = (struct op){
		.kind = kind, .comm = comm, .peer = peer, .stream = on, .function = hash(function)
	};
	op->number = kind == COLLECTIVE ? ++comm->collectives :
		     kind == SEND       ? ++comm->sends[peer] :
					  ++comm->receives[peer];
	if (!depth)
		return submit(op);
	*last = op;
	last = &op->next;
	return NCCL_SUCCESS;
}

NCCL(ncclAllReduce, const void *from, void *to, size_t n, int type, int op, struct nccl_comm *comm,
     void *stream)
{
	(void)from, (void)to, (void)n, (void)type, (void)op;
	return call(__func__, COLLECTIVE, comm, stream, 0);
}

NCCL(ncclReduce, const void *from, void *to, size_t n, int type, int op, int root,
     struct nccl_comm *comm, void *stream)
{
	(void)from, (void)to, (void)n, (void)type, (void)op, (void)root;
	return call(__func__, COLLECTIVE, comm, stream, 0);
}

NCCL(ncclReduceScatter, const void *from, void *to, size_t n, int type, int op,
     struct nccl_comm *comm, void *stream)
{
	(void)from, (void)to, (void)n, (void)type, (void)op;
	return call(__func__, COLLECTIVE, comm, stream, 0);
}

NCCL(ncclAllGather, const void *from, void *to, size_t n, int type, struct nccl_comm *comm,
     void *stream)
{
	(void)from, (void)to, (void)n, (void)type;
	return call(__func__, COLLECTIVE, comm, stream, 0);
}

NCCL(ncclAlltoAll, const void *from, void *to, size_t n, int type, struct nccl_comm *comm,
     void *stream)
{
	(void)from, (void)to, (void)n, (void)type;
	return call(__func__, COLLECTIVE, comm, stream, 0);
}

NCCL(ncclBroadcast, const void *from, void *to, size_t n, int type, int root,
     struct nccl_comm *comm, void *stream)
{
	(void)from, (void)to, (void)n, (void)type, (void)root;
	return call(__func__, COLLECTIVE, comm, stream, 0);
}

NCCL(ncclBcast, void *buffer, size_t n, int type, int root, struct nccl_comm *comm, void *stream)
{
	(void)buffer, (void)n, (void)type, (void)root;
	return call(__func__, COLLECTIVE, comm, stream, 0);
}

NCCL(ncclSend, const void *from, size_t n, int type, int peer, struct nccl_comm *comm, void *stream)
{
	(void)from, (void)n, (void)type;
	return call(__func__, SEND, comm, stream, peer);
}

NCCL(ncclRecv, void *to, size_t n, int type, int peer, struct nccl_comm *comm, void *stream)
{
	(void)to, (void)n, (void)type;
	return call(__func__, RECEIVE, comm, stream, peer);
}
