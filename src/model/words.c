/* SPDX-License-Identifier: Apache-2.0 */
#include "model/words.h"

#define MAX_NAME 100 /* bytes of a function's name: C++ has long ones */

static void add_function(struct vt_str *out, const struct vt_verdict *verdict)
{
	vt_str_addf(out, "%.*s", MAX_NAME, verdict->function ? verdict->function : "??");
	if (verdict->purpose == VT_PURPOSE_NONE || verdict->purpose >= VT_N_PURPOSES)
		return;
	vt_str_add(out, vt_words.purpose);
	vt_str_add(out, vt_words.purposes[verdict->purpose]);
	vt_str_addf(out, "%.*s", MAX_NAME, verdict->for_function ? verdict->for_function : "");
}

static void add_holder(struct vt_str *out, const struct vt_verdict *verdict)
{
	if (verdict->holder <= 0)
		return;
	vt_str_addf(out, "%s%d", vt_words.holder, (int)verdict->holder);
	if (verdict->holder_name && *verdict->holder_name)
		vt_str_addf(out, " (%s)", verdict->holder_name);
}

void vt_words_verdict(struct vt_str *out, const struct vt_verdict *verdict, enum vt_form form)
{
	if (verdict->code == VT_VERDICT_NONE || verdict->code >= VT_N_VERDICTS)
		return;
	vt_str_add(out, vt_words.verdicts[verdict->code].forms[form]);
	if (verdict->code == VT_VERDICT_IN_FUNCTION)
		add_function(out, verdict);
	else if (verdict->code == VT_VERDICT_GIL)
		add_holder(out, verdict);
}

void vt_words_waits(struct vt_str *out, const struct vt_waits *waits, enum vt_form form,
		    enum vt_detail detail)
{
	const char *shared = waits->shared ? waits->shared : waits->detail;
	const char *more = detail == VT_DETAIL_ALL    ? waits->detail :
			   detail == VT_DETAIL_SHARED ? shared :
							NULL;

	if (waits->code == VT_WAITS_NONE || waits->code >= VT_N_WAITS)
		return;
	vt_str_add(out, vt_words.waits[waits->code].forms[form]);
	vt_str_add(out, waits->call ? waits->call : "");
	vt_str_add(out, more ? more : "");
}
