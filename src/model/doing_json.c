/* SPDX-License-Identifier: Apache-2.0 */
#include "model/doing_json.h"

static void put_present(struct vt_json *json, const char *key, const char *value)
{
	if (value && *value)
		vt_json_text(json, key, value);
}

static void put_words(struct vt_json *json, const char *key, const struct vt_str *words)
{
	vt_json_text(json, key, vt_str_get(words));
	if (words->failed)
		vt_json_no_memory(json);
}

void vt_put_verdict(struct vt_json *json, const struct vt_verdict *verdict)
{
	struct vt_str words = { 0 };

	if (verdict->code == VT_VERDICT_NONE)
		return;
	vt_words_verdict(&words, verdict, VT_FORM_ALONE);
	put_words(json, "verdict", &words);
	vt_json_text(json, "verdict_code", vt_verdict_code_name(verdict->code));
	put_present(json, "verdict_function", verdict->function);
	put_present(json, "verdict_purpose", vt_purpose_name(verdict->purpose));
	put_present(json, "verdict_for", verdict->for_function);
	vt_str_deinit(&words);
}

void vt_put_waits(struct vt_json *json, const struct vt_waits *waits, enum vt_detail detail)
{
	struct vt_str words = { 0 };

	if (waits->code == VT_WAITS_NONE)
		return;
	vt_words_waits(&words, waits, VT_FORM_ALONE, detail);
	put_words(json, "waits", &words);
	vt_json_text(json, "waits_code", vt_waits_code_name(waits->code));
	put_present(json, "waits_call", waits->call);
	vt_str_deinit(&words);
}
