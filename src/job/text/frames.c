/* SPDX-License-Identifier: Apache-2.0 */
/* Frames and sets of members in a few words. */
#include <string.h>

#include "model/cxxname.h"
#include "base/format.h"
#include "job/internal.h"
#include "job/text/text.h"

void vt_text_job_frame(struct vt_str *text, const struct vt_job_frame *f, bool ascii)
{
	const char *where = f->file ? f->file : f->module,
		   *slash = where ? strrchr(where, '/') : NULL;

	if (!f->function)
		vt_str_add(text, "??");
	else if (f->kind == VT_FRAME_PYTHON)
		vt_str_add(text, f->function);
	else
		vt_cxx_short_name(text, f->function, strcspn(f->function, "@"),
				  ascii ? "..." : "…");
	if (where)
		vt_str_addf(text, " %s", slash ? slash + 1 : where);
	if (f->file && f->line > 0)
		vt_str_addf(text, ":%d", f->line);
}

void vt_text_job_set(const struct vt_job *job, const struct vt_member_set *set, int columns,
		     struct vt_str *text)
{
	char count[VT_NUM_MAX];

	vt_job_add_set(job, set, (size_t)columns, text);
	vt_str_addf(text, " [%s]", vt_format_count(count, set->n));
}

const char *vt_text_job_role(enum vt_role role)
{
	static const char *const names[VT_N_ROLES] = {
		[VT_ROLE_RANK] = "Ranks",
		[VT_ROLE_LOADER] = "Loader workers",
		[VT_ROLE_CHECKPOINT] = "Checkpoint writers",
		[VT_ROLE_LAUNCHER] = "Launchers",
		[VT_ROLE_OTHER] = "Other processes",
	};

	return names[role];
}
