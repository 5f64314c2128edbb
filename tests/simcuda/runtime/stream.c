/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, events, host functions and capture of the runtime API. */
#include "rt.h"

#include <stdlib.h>

RT(cudaStreamCreateWithPriority, struct sim_stream **stream, unsigned flags, int priority)
{
	RT_ENTER_CTX(dev);
	return rt_result(sim_stream_create(dev, flags, priority, stream));
}

RT(cudaStreamCreateWithFlags, struct sim_stream **stream, unsigned flags)
{
	return cudaStreamCreateWithPriority(stream, flags, 0);
}

RT(cudaStreamCreate, struct sim_stream **stream)
{
	return cudaStreamCreateWithPriority(stream, 0, 0);
}

RT(cudaStreamDestroy, void *stream)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	return rt_result(sim_stream_destroy(s));
}

RT(cudaStreamGetPriority, void *stream, int *priority)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	*priority = sim_stream_priority(s);
	return SIM_OK;
}

RT(cudaStreamGetId, void *stream, unsigned long long *id)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	*id = sim_stream_id(s);
	return SIM_OK;
}

RT(cudaStreamQuery, void *stream)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	return rt_result(sim_stream_query(s));
}

RT(cudaStreamSynchronize, void *stream)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	sim_stream_wait_idle(s);
	return SIM_OK;
}

RT(cudaStreamWaitEvent, void *stream, struct sim_event *event, unsigned flags)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	(void)flags;
	return rt_result(sim_stream_wait_event(s, event));
}

RT(cudaLaunchHostFunc, void *stream, void (*fn)(void *), void *arg)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	return rt_result(sim_stream_host_fn(s, fn, arg));
}

struct callback {
	void (*fn)(void *stream, int status, void *arg);
	void *stream, *arg;
};

static void run_callback(void *arg)
{
	struct callback *c = arg;

	c->fn(c->stream, SIM_OK, c->arg);
	free(c);
}

RT(cudaStreamAddCallback, void *stream, void (*fn)(void *, int, void *), void *arg, unsigned flags)
{
	struct callback *c;

	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	(void)flags;
	c = malloc(sizeof(*c));
	if (!c)
		return rt_result(SIM_ENOMEM);
	*c = (struct callback){ .fn = fn, .stream = stream, .arg = arg };
	return rt_result(sim_stream_host_fn(s, run_callback, c));
}

/* ---- events ---- */

RT(cudaEventCreateWithFlags, struct sim_event **event, unsigned flags)
{
	RT_ENTER_CTX(dev);
	return rt_result(sim_event_create(flags, dev, event));
}

RT(cudaEventCreate, struct sim_event **event)
{
	return cudaEventCreateWithFlags(event, 0);
}

RT(cudaEventDestroy, struct sim_event *event)
{
	RT_ENTER();
	return rt_result(sim_event_destroy(event));
}

RT(cudaEventRecord, struct sim_event *event, void *stream)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	return rt_result(sim_event_record(event, s));
}

RT(cudaEventRecordWithFlags, struct sim_event *event, void *stream, unsigned flags)
{
	(void)flags;
	return cudaEventRecord(event, stream);
}

/* As in the real runtime a thread without a context gets that of device 0. */
RT(cudaEventQuery, struct sim_event *event)
{
	int err;

	RT_ENTER_CTX(dev);
	(void)dev;
	err = sim_capture_unsafe();
	return rt_result(err ? err : sim_event_query(event));
}

RT(cudaEventSynchronize, struct sim_event *event)
{
	RT_ENTER();
	return rt_result(sim_event_wait(event));
}

RT(cudaEventElapsedTime, float *ms, struct sim_event *start, struct sim_event *end)
{
	RT_ENTER();
	return rt_result(sim_event_elapsed(start, end, ms));
}

/* ---- capture and graphs ---- */

RT(cudaThreadExchangeStreamCaptureMode, int *mode)
{
	sim_capture_exchange_mode(mode);
	return SIM_OK;
}

RT(cudaStreamIsCapturing, void *stream, int *status)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	*status = sim_stream_capture(s)->graph ? 1 : 0;
	return SIM_OK;
}

/* The newest form of cudaStreamGetCaptureInfo; older ones have fewer outputs. */
RT(cudaStreamGetCaptureInfo_v3, void *stream, int *status, unsigned long long *id,
   struct sim_graph **graph, const void ***deps, const void **edges, size_t *n)
{
	struct sim_capture *c;

	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	c = sim_stream_capture(s);
	*status = c->graph ? 1 : 0;
	if (id)
		*id = c->id;
	if (graph)
		*graph = c->graph;
	if (deps)
		*deps = NULL;
	if (edges)
		*edges = NULL;
	if (n)
		*n = 0;
	return SIM_OK;
}

#if SIMCUDA_CUDART < 13
RT(cudaStreamGetCaptureInfo, void *stream, int *status, unsigned long long *id)
{
	return cudaStreamGetCaptureInfo_v3(stream, status, id, NULL, NULL, NULL, NULL);
}

RT(cudaStreamGetCaptureInfo_v2, void *stream, int *status, unsigned long long *id,
   struct sim_graph **graph, const void ***deps, size_t *n)
{
	return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, deps, NULL, n);
}
#else
RT(cudaStreamGetCaptureInfo, void *stream, int *status, unsigned long long *id,
   struct sim_graph **graph, const void ***deps, const void **edges, size_t *n)
{
	return cudaStreamGetCaptureInfo_v3(stream, status, id, graph, deps, edges, n);
}
#endif

RT(cudaStreamBeginCapture, void *stream, int mode)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	return rt_result(sim_capture_begin(s, NULL, mode));
}

RT(cudaStreamBeginCaptureToGraph, void *stream, struct sim_graph *graph, const void *deps,
   const void *data, size_t n, int mode)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	(void)deps, (void)data, (void)n;
	return rt_result(sim_capture_begin(s, graph, mode));
}

RT(cudaStreamEndCapture, void *stream, struct sim_graph **graph)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	return rt_result(sim_capture_end(s, graph));
}

RT(cudaGraphGetNodes, struct sim_graph *graph, void **nodes, size_t *n)
{
	size_t have;

	RT_ENTER();
	if (!sim_graph_valid(graph))
		return rt_result(SIM_EINVAL);
	have = sim_graph_nodes(graph);
	for (size_t i = 0; nodes && i < *n && i < have; i++)
		nodes[i] = graph; /* nobody looks into a node */
	*n = have;
	return SIM_OK;
}

RT(cudaGraphNodeGetDependencies, void *node, void **deps, void *edges, size_t *n)
{
	RT_ENTER();
	(void)node, (void)deps, (void)edges;
	*n = 0;
	return SIM_OK;
}

RT(cudaGraphInstantiateWithFlags, struct sim_graph **exec, struct sim_graph *graph,
   unsigned long long flags)
{
	RT_ENTER();
	(void)flags;
	return rt_result(sim_graph_instantiate(graph, exec));
}

RT(cudaGraphInstantiate, struct sim_graph **exec, struct sim_graph *graph, unsigned long long flags)
{
	return cudaGraphInstantiateWithFlags(exec, graph, flags);
}

RT(cudaGraphLaunch, struct sim_graph *exec, void *stream)
{
	RT_ENTER_CTX(dev);
	RT_STREAM(s, stream, dev);
	(void)exec;
	sim_stream_work(s);
	return SIM_OK;
}

RT(cudaGraphDestroy, struct sim_graph *graph)
{
	RT_ENTER();
	return rt_result(sim_graph_destroy(graph));
}

RT(cudaGraphExecDestroy, struct sim_graph *exec)
{
	RT_ENTER();
	return rt_result(sim_graph_destroy(exec));
}
