/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What might be the answer of PyTorch's flight recorder: whatever it is, reading it ends, and
 * what is read can be written and loaded again. The first byte of an input chooses the recorder;
 * the rest is the text.
 */
#include <string.h>

#include "fuzz.h"
#include "model/flight.h"

#define NOW_NS UINT64_C(1790000000000000000)

#define ENTRY(record, id, group, number, p2p, name, state)                                                                              \
	"{\"record_id\":" record ",\"pg_id\":" id ",\"process_group\":[\"" group                                                        \
	"\",\"d\"],\"collective_seq_id\":" number ",\"p2p_seq_id\":1,\"is_p2p\":" p2p                                                   \
	",\"profiling_name\":\"nccl:" name "\",\"state\":\"" state "\",\"retired\":false,"                                              \
	"\"time_created_ns\":1789999990000000000,\"time_discovered_started_ns\":0,\"timeout_ms\":600000,\"input_sizes\":[[64,32],[8]]," \
	"\"input_dtypes\":[\"Float\",\"Long\"]}"

static const char seed[] =
	"{\"version\":\"2.10\",\"pg_config\":{\"0\":{\"name\":\"0\",\"desc\":\"default_pg\",\"ranks\":\"[0, 1, 3]\"},\"1\":{\"name\":\"1\","
	"\"desc\":\"undefined\",\"ranks\":\"[0]\"}},\"pg_status\":{\"0\":{\"last_enqueued_collective\":\"4\",\"last_started_collective\":"
	"\"-1\",\"last_completed_collective\":\"3\"}},\"entries\":[" ENTRY(
		"0", "0", "0", "3", "false", "all_reduce",
		"completed") "," ENTRY("1", "0", "0", "3", "true", "send 0->1",
				       "scheduled") "," ENTRY("2", "0", "0", "3", "true",
							      "coalesced",
							      "completed") "," ENTRY("3", "0", "0",
										     "4", "false",
										     "all_reduce",
										     "scheduled") "]}";

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	if (number >= VT_FLIGHT_RECORDERS || sizeof(seed) > max)
		return 0;
	data[0] = (uint8_t)number;
	memcpy(data + 1, seed, sizeof(seed) - 1);
	return sizeof(seed);
}

/* Ours, in braces. */
static char *written(const struct vt_model_collectives *told, size_t *n)
{
	static struct vt_json json;
	char *text = NULL;
	FILE *out = open_memstream(&text, n);

	if (!out)
		exit(1);
	vt_json_init(&json, out);
	vt_json_object(&json, NULL);
	vt_flight_put(&json, told);
	vt_json_end_object(&json);
	fuzz_check(!vt_json_finish(&json), "not written");
	fclose(out);
	return text;
}

static void use(const struct vt_model_collectives *told)
{
	struct vt_model_collectives again = { 0 };
	struct vt_arena values = { 0 }, strings = { 0 };
	struct vt_json_in in = { .values = &values, .strings = &strings };
	struct vt_error *err;
	const struct vt_json_value *root = NULL;
	size_t n = 0;
	char *text = written(told, &n);

	err = vt_json_in_parse(&in, text, n, &root);
	fuzz_check(!err, "not JSON: %s", err->message);
	vt_flight_load(&in, root, &again);
	fuzz_check(!in.wrong[0], "what was written is not read: %s", in.wrong);
	fuzz_check(again.groups.n == told->groups.n && again.told_ms == told->told_ms,
		   "what was written is not the same");
	vt_vec_deinit(&again.groups);
	vt_arena_deinit(&values);
	vt_arena_deinit(&strings);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct vt_model_collectives told = { 0 };
	struct vt_arena arena = { 0 };
	struct vt_error *err;

	if (!size)
		return 0;
	err = vt_flight_parse(&vt_flight_recorders[data[0] % VT_FLIGHT_RECORDERS],
			      (const char *)data + 1, size - 1, NOW_NS, data[0] & 2, &arena, &told);
	if (err)
		fuzz_check(!told.groups.n && !told.told_ms,
			   "something is left of what was refused");
	else
		use(&told);
	vt_error_destroy(err);
	vt_vec_deinit(&told.groups);
	vt_arena_deinit(&arena);
	return 0;
}
