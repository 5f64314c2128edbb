/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/again.h"

#include <string.h>

#include "base/clock.h"
#include "model/doing_json.h"

#define MS(ns) ((double)(ns) / (double)VT_NS_PER_MS)

static void write_place(struct vt_json *json, const struct vt_model_again_place *place)
{
	char state[2] = { place->state, '\0' };

	vt_json_object_line(json, NULL);
	vt_json_uint(json, "looks", place->looks);
	vt_json_name(json, "state", state);
	vt_put_verdict(json, &place->verdict);
	vt_put_waits(json, &place->waits, VT_DETAIL_NONE);
	vt_json_name(json, "syscall", place->call);
	vt_json_name(json, "function", place->function);
	vt_json_name(json, "file", place->file);
	vt_json_known(json, "line", place->line > 0 ? place->line : -1);
	vt_json_name(json, "library", place->library);
	vt_json_end_object(json);
}

static void put_moved(struct vt_json *json, enum vt_again_moved moved)
{
	if (moved == VT_AGAIN_STILL || moved == VT_AGAIN_SAME || moved == VT_AGAIN_MOVED)
		vt_json_bool(json, "moved", moved == VT_AGAIN_MOVED);
	else
		vt_json_null(json, "moved");
	vt_json_text(json, "how", vt_again_moved_name(moved));
}

static void put_cpu(struct vt_json *json, bool known, uint64_t cpu_ns)
{
	if (known)
		vt_json_uint(json, "cpu_ns", cpu_ns);
	else
		vt_json_null(json, "cpu_ns");
}

static void write_thread(struct vt_json *json, const struct vt_model_again_thread *t)
{
	vt_json_object(json, NULL);
	vt_json_int(json, "tid", t->tid);
	vt_json_name(json, "name", t->name);
	vt_json_bool(json, "main", t->is_main);
	vt_json_bool(json, "idle", t->idle);
	put_moved(json, t->moved);
	put_cpu(json, t->cpu_known, t->cpu_ns);
	vt_json_uint(json, "looks", t->looks);
	vt_json_array(json, "places");
	for (unsigned int i = 0; i < t->n_places; i++)
		write_place(json, &t->places[i]);
	vt_json_end_array(json);
	vt_json_uint(json, "looks_elsewhere", t->more_places);
	vt_json_end_object(json);
}

void vt_json_again(struct vt_json *json, const struct vt_model_again *again)
{
	if (!again->verdict) {
		vt_json_null(json, "again");
		return;
	}
	vt_json_object(json, "again");
	vt_json_text(json, "verdict", vt_again_verdict_name(again->verdict));
	vt_json_bool(json, "alarm", again->alarm);
	vt_json_known(json, "thread", again->subject ? again->subject : -1);
	vt_json_uint(json, "looks", again->looks);
	vt_json_bool(json, "interrupted", again->interrupted);
	vt_json_milli(json, "interval_ms", MS(again->interval_ns));
	vt_json_milli(json, "span_ms", MS(again->span_ns));
	vt_json_milli(json, "longest_look_ms", again->look_ms);
	put_cpu(json, again->cpu_known, again->cpu_ns);
	if (again->torch_known)
		vt_json_uint(json, "pytorch_blocks", again->torch_count);
	else
		vt_json_null(json, "pytorch_blocks");
	if (again->launches_known)
		vt_json_uint(json, "launches_ended", again->launches_ended);
	else
		vt_json_null(json, "launches_ended");
	if (again->borrowed_us > 0)
		vt_json_milli(json, "borrowed_ms", again->borrowed_us / 1000);
	else
		vt_json_null(json, "borrowed_ms");
	vt_json_array(json, "threads");
	for (size_t i = 0; i < again->threads.n; i++)
		write_thread(json, &again->threads.data[i]);
	vt_json_end_array(json);
	vt_json_end_object(json);
}

static uint64_t load_ms(struct vt_json_in *in, const struct vt_json_value *from, const char *key)
{
	double ms = 0;

	if (!vt_json_in_real(in, from, key, &ms) || !(ms >= 0) || ms > 1e12)
		return 0;
	return (uint64_t)(ms * (double)VT_NS_PER_MS);
}

void vt_json_in_again(struct vt_json_in *in, const struct vt_json_value *root,
		      struct vt_model_again *again)
{
	const struct vt_json_value *from = vt_json_in_object(in, root, "again");
	const char *word;
	uint64_t looks = 0;
	int subject = 0;

	if (!from)
		return;
	/* A verdict that this version does not know is unknown. */
	word = vt_json_in_text(in, from, "verdict");
	again->verdict = VT_AGAIN_IS_UNKNOWN;
	for (unsigned int i = 1; word && i < VT_N_AGAIN_VERDICTS; i++)
		if (!strcmp(word, vt_again_verdict_name(i)))
			again->verdict = (enum vt_again_verdict)i;
	vt_json_in_bool(in, from, "alarm", &again->alarm);
	vt_json_in_bool(in, from, "interrupted", &again->interrupted);
	if (vt_json_in_uint(in, from, "looks", &looks) && looks <= INT32_MAX)
		again->looks = (unsigned int)looks;
	if (vt_json_in_int(in, from, "thread", 1, INT32_MAX, &subject))
		again->subject = subject;
	again->interval_ns = load_ms(in, from, "interval_ms");
	again->span_ns = load_ms(in, from, "span_ms");
	again->torch_known = vt_json_in_uint(in, from, "pytorch_blocks", &again->torch_count);
	again->launches_known = vt_json_in_uint(in, from, "launches_ended", &again->launches_ended);
	again->cpu_known = vt_json_in_uint(in, from, "cpu_ns", &again->cpu_ns);
}
