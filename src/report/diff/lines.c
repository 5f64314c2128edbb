/* SPDX-License-Identifier: Apache-2.0 */
#include "report/diff/lines.h"

#include "report/state_words.h"

bool vt_lines_are_whole(const struct vt_model *model)
{
	return model->ledger.known && model->ledger.whole;
}

static bool pool_amount(const struct vt_model *model, const struct vt_model_ledger_device *d,
			unsigned int line, struct vt_model_amount *amount)
{
	unsigned int kind = line % VT_N_LIBPOOL_KINDS;
	const struct vt_model_line *held = &d->claimed[VT_CLAIMER_LIBPOOLS + kind];
	struct vt_libpool_sum sum = vt_libpool_sum(model, d->device, kind, VT_LIBPOOLS_CLAIMED);
	struct vt_model_amount used = { sum.used, sum.chunks_known ? sum.used_chunks : 0 };
	/* By its books: what the driver rounds up grows with what is in use. */
	struct vt_model_amount cached = { sum.held - sum.used,
					  sum.chunks_known ? sum.free_chunks : 0 };

	if (line >= VT_LINE_HELD) {
		*amount = (struct vt_model_amount){ held->bytes, held->ranges };
		return true;
	}
	if (held->ranges && (sum.changing || !vt_libpool_sum_is_whole(&sum, held->bytes)))
		return false;
	if (held->ranges)
		*amount = line < VT_LINE_CACHED ? used : cached;
	else
		*amount = (struct vt_model_amount){ 0 };
	return true;
}

/*
 * Pinned memory that is in no library's books: PyTorch's own is not outside PyTorch. It is of no
 * device, and counted with the first.
 */
static bool host_amount(const struct vt_model *model, const struct vt_model_ledger_device *d,
			struct vt_model_amount *amount)
{
	*amount = (struct vt_model_amount){ model->host.unattributed_bytes, 0 };
	return d == &model->ledger.devices.data[0] && model->host.pinned_listed &&
	       (model->pinned.sum_known || !model->allocators.n);
}

/* Managed memory is none of the device's for sure: by its size. */
static bool kind_amount(const struct vt_model *model, const struct vt_model_ledger_device *d,
			unsigned int kind, struct vt_model_amount *amount)
{
	const struct vt_model_line *line = &d->kinds[kind];

	if (kind == VT_RANGE_HOST)
		return host_amount(model, d, amount);
	if (kind == VT_RANGE_POOL && !model->ledger.pools_asked)
		return false;
	if (kind == VT_RANGE_GRAPH && !d->graph_known)
		return false;
	amount->bytes = vt_range_is_of_device((uint8_t)kind) ? line->bytes : line->asked;
	amount->blocks = line->ranges;
	return true;
}

bool vt_line_amount(const struct vt_model *model, const struct vt_model_ledger_device *d,
		    unsigned int line, struct vt_model_amount *amount)
{
	if (!d->claims_known)
		return false;
	if (line < VT_LINE_KINDS)
		return pool_amount(model, d, line, amount);
	if (line < VT_LINE_REST)
		return kind_amount(model, d, line - VT_LINE_KINDS, amount);
	*amount = (struct vt_model_amount){ d->own_rest_bytes, 0 };
	return d->own_rest_known;
}

void vt_line_add_name(struct vt_str *text, unsigned int line)
{
	if (line >= VT_LINE_REST)
		vt_str_add(text, "rest_of_process");
	else if (line >= VT_LINE_KINDS)
		vt_str_add(text, line == VT_LINE_KINDS + VT_RANGE_DEVICE ?
					 "device_memory" :
					 vt_range_kind_name(line - VT_LINE_KINDS));
	else
		vt_str_addf(text, "%s%s", vt_libpool_kind_name(line % VT_N_LIBPOOL_KINDS),
			    line < VT_LINE_CACHED ? "_in_use" :
			    line < VT_LINE_HELD   ? "_cached" :
						    "");
}

void vt_line_add_label(struct vt_str *text, unsigned int line, int device)
{
	if (line >= VT_LINE_REST)
		vt_str_add(text, "contexts, code of this process");
	else if (line >= VT_LINE_KINDS)
		vt_str_add(text, vt_range_kind_label(line - VT_LINE_KINDS));
	else
		vt_str_addf(text, "%s by %s",
			    line < VT_LINE_CACHED ? "in use" :
			    line < VT_LINE_HELD   ? "cached" :
						    "held",
			    vt_libpool_library(line % VT_N_LIBPOOL_KINDS));
	if (line != VT_LINE_KINDS + VT_RANGE_HOST)
		vt_str_addf(text, " on GPU %d", device);
}
