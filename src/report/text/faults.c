/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the devices: a line for each, and what the driver said of it. */
#include <inttypes.h>
#include <stdio.h>

#include "base/format.h"
#include "report/text/text.h"

enum { MAX_SHOWN = 8, INDENT = 4, MAX_LINES = 3 };

static void add_owner(struct vt_str *text, const struct vt_model_xid *xid)
{
	switch (xid->owner) {
	case VT_FAULT_OURS:
		vt_str_add(text, ", of this process");
		return;
	case VT_FAULT_OTHERS:
		vt_str_addf(text, ", of another process, pid %d", (int)xid->pid);
		break;
	case VT_FAULT_UNKNOWN:
		if (!xid->pid)
			return;
		vt_str_addf(text, ", of pid %d in the machine's numbers", (int)xid->pid);
		break;
	default:
		return;
	}
	if (*xid->name)
		vt_str_addf(text, " (%s)", xid->name);
}

/* "Xid 31 (GPU memory page fault), of this process, on GPU 0, 2 min ago" */
static void describe(const struct vt_model *model, const struct vt_model_xid *xid,
		     struct vt_str *text)
{
	const struct vt_xid_meaning *meaning = vt_xid_meaning(xid->code);
	char number[VT_NUM_MAX];

	vt_str_addf(text, "Xid %" PRIu32, xid->code);
	if (meaning)
		vt_str_addf(text, " (%s)", meaning->name);
	add_owner(text, xid);
	if (xid->device >= 0)
		vt_str_addf(text, ", on GPU %d", xid->device);
	else if (*xid->pci)
		vt_str_addf(text, ", on the GPU at %s", xid->pci);
	if (xid->n > 1)
		vt_str_addf(text, ", %s times", vt_format_count(number, xid->n));
	if (xid->last.tv_sec && model->when.tv_sec >= xid->last.tv_sec)
		vt_str_addf(text, ", %s%s ago", xid->n > 1 ? "the last " : "",
			    vt_format_age(number, (double)(model->when.tv_sec - xid->last.tv_sec)));
}

static void print_xid(struct vt_line *line, const struct vt_model *model,
		      const struct vt_model_xid *xid)
{
	bool alarm = xid->owner == VT_FAULT_OURS ||
		     (xid->owner == VT_FAULT_NOBODYS && vt_xid_is_of_device(xid->code));
	struct vt_str text = { 0 };

	describe(model, xid, &text);
	vt_line_add(line, alarm ? VT_ALARM : VT_PLAIN, alarm ? "!" : "·");
	vt_line_pad(line, 2);
	vt_line_wrap(line, alarm ? VT_ALARM : VT_PLAIN, vt_str_get(&text), 2, MAX_LINES);
	if (*xid->text) {
		vt_line_pad(line, INDENT);
		vt_line_wrap(line, VT_DIM, xid->text, INDENT, MAX_LINES);
	}
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

/* The latest, which tell of now. */
void vt_text_faults(struct vt_line *line, const struct vt_model *model)
{
	const struct vt_model_faults *faults = &model->faults;
	bool lost = vt_model_has_lost_context(model);
	size_t first = faults->xids.n > MAX_SHOWN ? faults->xids.n - MAX_SHOWN : 0;

	if (!faults->xids.n && !(lost && faults->state == VT_FAULTS_REFUSED))
		return;
	vt_text_title(line, NULL, "Faults of the GPU while this process ran");
	if (first) {
		vt_line_pad(line, 2);
		vt_line_addf(line, VT_DIM, "… %zu more in the JSON report", first);
		vt_line_end(line);
	}
	for (size_t i = first; i < faults->xids.n; i++)
		print_xid(line, model, &faults->xids.data[i]);
	if (faults->state == VT_FAULTS_REFUSED) {
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_DIM, faults->why, 2, MAX_LINES);
	}
}
