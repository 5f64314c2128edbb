/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/libpools.h"

static void put_known(struct vt_json *json, const char *key, const struct vt_libpool_rec *rec,
		      uint32_t which, uint64_t value)
{
	if (rec->known & which)
		vt_json_uint(json, key, value);
	else
		vt_json_null(json, key);
}

static void write_chunk(struct vt_json *json, const struct vt_libpool_chunk *chunk,
			const struct vt_model_array *array)
{
	vt_json_object_line(json, NULL);
	vt_json_hex(json, "address", chunk->start);
	vt_json_uint(json, "bytes", chunk->size);
	if (chunk->requested)
		vt_json_uint(json, "requested_bytes", chunk->requested);
	else
		vt_json_null(json, "requested_bytes");
	vt_json_bool(json, "in_use", chunk->in_use);
	if (chunk->note)
		vt_json_text(json, "for", chunk->note);
	else
		vt_json_null(json, "for");
	vt_json_name(json, "owner", array ? array->owner.name : "");
	vt_json_end_object(json);
}

static void write_pool(struct vt_json *json, const struct vt_model *model, size_t index)
{
	const struct vt_model_libpool *pool = &model->libpools.pools.data[index];
	const struct vt_libpool_rec *rec = &pool->rec;

	vt_json_object(json, NULL);
	vt_json_text(json, "library", vt_libpool_kind_name(rec->kind));
	vt_json_text(json, "name", rec->name);
	vt_json_hex(json, "object", rec->object);
	if (pool->device >= 0)
		vt_json_int(json, "device", pool->device);
	else
		vt_json_null(json, "device");
	vt_json_bool(json, "host", rec->is_host);
	vt_json_text(json, "state", vt_libpool_state_name(rec->state));
	put_known(json, "held_bytes", rec, VT_LIBPOOL_HELD, rec->held_bytes);
	put_known(json, "used_bytes", rec, VT_LIBPOOL_USED, rec->used_bytes);
	put_known(json, "peak_bytes", rec, VT_LIBPOOL_PEAK, rec->peak_bytes);
	put_known(json, "limit_bytes", rec, VT_LIBPOOL_LIMIT, rec->limit_bytes);
	if (model->ledger.known)
		vt_json_uint(json, "claimed_bytes", pool->claimed_bytes);
	else
		vt_json_null(json, "claimed_bytes");
	vt_json_bool(json, "used_chunks_known",
		     rec->state == VT_LIBPOOL_EXACT && rec->known & VT_LIBPOOL_BLOCKS);
	vt_json_array(json, "regions");
	for (size_t i = 0; i < pool->n_regions; i++) {
		vt_json_object_line(json, NULL);
		vt_json_hex(json, "address", pool->regions[i].start);
		vt_json_uint(json, "bytes", pool->regions[i].size);
		vt_json_end_object(json);
	}
	vt_json_end_array(json);
	vt_json_array(json, "chunks");
	for (size_t i = 0; i < pool->n_chunks; i++)
		write_chunk(json, &pool->chunks[i],
			    vt_model_chunk_owner(model, (uint32_t)index, (uint32_t)i));
	vt_json_end_array(json);
	vt_json_end_object(json);
}

void vt_json_libpools(struct vt_json *json, const struct vt_model *model)
{
	const struct vt_model_libpools *libpools = &model->libpools;

	if (!libpools->pools.n) {
		vt_json_null(json, "libpools");
		return;
	}
	vt_json_object(json, "libpools");
	vt_json_milli(json, "total_ms", libpools->total_ms);
	vt_json_array(json, "pools");
	for (size_t i = 0; i < libpools->pools.n; i++)
		write_pool(json, model, i);
	vt_json_end_array(json);
	vt_json_end_object(json);
}
