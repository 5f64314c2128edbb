/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/streams.h"

#include "report/json/amount.h"

static void write_look(struct vt_json *json, const struct vt_model_streams_look *look)
{
	vt_json_object_line(json, NULL);
	vt_json_text(json, "state", vt_streams_look_name(look->look));
	vt_json_uint(json, "tries", look->tries);
	vt_json_milli(json, "stopped_ms", look->stopped_ms);
	vt_json_end_object(json);
}

static void write_stream(struct vt_json *json, const struct vt_model_stream *stream,
			 const struct vt_model_streams *streams)
{
	vt_json_object_line(json, NULL);
	vt_json_int(json, "device", stream->device);
	vt_json_hex(json, "handle", stream->handle);
	vt_json_text(json, "kind", vt_stream_kind_name(stream->kind));
	if (stream->kind == VT_STREAM_IS_POOL) {
		vt_json_int(json, "priority", stream->priority);
		vt_json_uint(json, "number", stream->number);
	} else {
		vt_json_null(json, "priority");
		vt_json_null(json, "number");
	}
	vt_json_text(json, "state", vt_stream_state_name(stream->state));
	vt_json_array_line(json, "looks");
	for (unsigned int i = 0; i < vt_model_streams_looks(streams); i++)
		vt_json_text(json, NULL, vt_stream_doing_name(stream->doing[i]));
	vt_json_end_array(json);
	if (stream->error)
		vt_json_int(json, "error", stream->error);
	else
		vt_json_null(json, "error");
	vt_json_uint(json, "bytes", stream->bytes);
	vt_json_uint(json, "blocks", stream->blocks);
	if (streams->waits_known)
		vt_json_amount(json, "awaiting_free", stream->awaiting_bytes,
			       stream->awaiting_blocks);
	else
		vt_json_null(json, "awaiting_free");
	if (stream->nccl_known)
		vt_json_bool(json, "nccl", stream->nccl);
	else
		vt_json_null(json, "nccl");
	if (stream->ended_known)
		vt_json_uint(json, "launches_ended", stream->ended);
	else
		vt_json_null(json, "launches_ended");
	vt_json_end_object(json);
}

void vt_json_streams(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_streams *streams = &model->streams;

	if (!streams->wanted) {
		vt_json_null(json, "streams");
		return;
	}
	vt_json_object(json, "streams");
	vt_json_bool(json, "pools_known", !streams->pool_unknown);
	vt_json_array(json, "looks");
	for (unsigned int i = 0; i < vt_model_streams_looks(streams); i++)
		write_look(json, &streams->looks[i]);
	vt_json_end_array(json);
	if (streams->apart_ns)
		vt_json_milli(json, "apart_ms", (double)streams->apart_ns / 1e6);
	else
		vt_json_null(json, "apart_ms");
	vt_json_array(json, "streams");
	for (size_t i = 0; i < streams->list.n; i++)
		write_stream(json, &streams->list.data[i], streams);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
