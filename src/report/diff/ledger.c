/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of two ledgers. They are compared only where both are certain in the same way: all
 * ranges were found, and PyTorch's blocks are known, so that nothing of it is in another line.
 * After a fault the driver tells less of kinds: such a ledger is compared with its like.
 */
#include "report/diff/ledger.h"

#include "report/state_words.h"

const char *vt_diff_line_name(unsigned int line)
{
	if (line >= VT_DIFF_LINE_REST)
		return "rest_of_process";
	if (line < VT_DIFF_LINE_KINDS)
		return vt_claimer_name(line);
	line -= VT_DIFF_LINE_KINDS;
	return line == VT_RANGE_DEVICE ? "device_memory" : vt_range_kind_name(line);
}

const char *vt_diff_line_label(unsigned int line)
{
	if (line >= VT_DIFF_LINE_REST)
		return "contexts, code of this process";
	return line < VT_DIFF_LINE_KINDS ? vt_claimer_label(line) :
					   vt_range_kind_label(line - VT_DIFF_LINE_KINDS);
}

static bool is_certain(const struct vt_model *model, const struct vt_model_ledger_device *d)
{
	return model->ledger.known && model->ledger.whole && d && d->claims_known;
}

static struct vt_model_amount amount_of(const struct vt_model_line *line)
{
	return (struct vt_model_amount){ line->bytes, line->ranges };
}

/* Managed and pinned memory are none of the device's for sure: by their sizes. */
static struct vt_model_amount amount_of_kind(const struct vt_model_ledger_device *d,
					     unsigned int kind)
{
	struct vt_model_amount amount = amount_of(&d->kinds[kind]);

	if (!vt_range_is_of_device((uint8_t)kind))
		amount.bytes = d->kinds[kind].asked;
	return amount;
}

static void fill(struct vt_diff_device *d, unsigned int line, struct vt_model_amount before,
		 struct vt_model_amount after)
{
	d->line_known[line] = true;
	d->lines[line] = (struct vt_diff_amount){ before, after };
}

void vt_diff_compare_ledgers(struct vt_diff_device *d, const struct vt_model *before,
			     const struct vt_model *after)
{
	const struct vt_model_ledger_device *a = vt_model_ledger_device(before, d->ordinal);
	const struct vt_model_ledger_device *b = vt_model_ledger_device(after, d->ordinal);

	d->has_lines = is_certain(before, a) && is_certain(after, b) &&
		       before->ledger.by_attributes == after->ledger.by_attributes;
	if (!d->has_lines)
		return;
	for (unsigned int i = VT_CLAIMER_LIBPOOLS; i < VT_N_CLAIMERS; i++)
		fill(d, i, amount_of(&a->claimed[i]), amount_of(&b->claimed[i]));
	for (unsigned int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		fill(d, VT_DIFF_LINE_KINDS + kind, amount_of_kind(a, kind),
		     amount_of_kind(b, kind));
	/* Without the totals of pools, a line has only what is in use. */
	if (!before->ledger.pools_asked || !after->ledger.pools_asked)
		d->line_known[VT_DIFF_LINE_KINDS + VT_RANGE_POOL] = false;
	if (a->own_rest_known && b->own_rest_known)
		fill(d, VT_DIFF_LINE_REST, (struct vt_model_amount){ a->own_rest_bytes, 0 },
		     (struct vt_model_amount){ b->own_rest_bytes, 0 });
}
