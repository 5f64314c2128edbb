/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/report/report_parts.h"

#include "report/text/parts.h"

#define MAX_LOOKED_FOR 5 /* of a kind */

const struct vt_writer_hints report_other_hints = {
	.all_threads = "(other threads)",
	.all_blocks = "(other blocks)",
	.all_sites = "(other sites)",
	.json = "other json",
	.record = "other record",
	.devices = "other devices",
	.frames = "(other frames)",
};

static struct vt_error *find(const struct vt_model *model, uint64_t addr,
			     const struct vt_writer_options *options, FILE *out)
{
	struct vt_found found;

	vt_model_find_address(model, addr, &found);
	return vt_write_found_text(model, &found, options, out);
}

static struct vt_error *write_found(const struct vt_model *model,
				    const struct vt_writer_options *options, FILE *out)
{
	size_t step = model->n_blocks / MAX_LOOKED_FOR + 1;

	VT_TRY(find(model, 0, options, out));
	VT_TRY(find(model, UINT64_MAX, options, out));
	for (size_t i = 0; i < model->n_blocks; i += step) {
		VT_TRY(find(model, model->blocks[i].addr, options, out));
		VT_TRY(find(model, model->blocks[i].addr + model->blocks[i].size, options, out));
	}
	for (size_t i = 0; i < model->pinned.n_blocks; i++)
		VT_TRY(find(model, model->pinned.blocks[i].addr + 1, options, out));
	for (size_t i = 0; i < model->driver_blocks.n; i++)
		VT_TRY(find(model, model->driver_blocks.data[i].addr + 1, options, out));
	return NULL;
}

static struct vt_error *write_thread(const struct vt_model *model, const struct vt_model_thread *t,
				     const struct vt_writer_options *options, FILE *out)
{
	size_t n = vt_model_count_python(&t->stack);

	VT_TRY(vt_write_thread_text(model, t, n ? n - 1 : VT_NO_FRAME, options, out));
	for (size_t i = 0; i < n && i < 2; i++) {
		VT_TRY(vt_write_python_frame_text(model, t, i, options, out));
		VT_TRY(vt_write_locals_text(model, t, i, options, out));
	}
	return NULL;
}

struct vt_error *report_write_parts(const void *what, const struct vt_writer_options *options,
				    FILE *out)
{
	const struct vt_model *model = what;

	VT_TRY(vt_write_summary_text(model, options, out));
	VT_TRY(vt_write_blocks_text(model, 20, options, out));
	VT_TRY(vt_write_sites_text(model, options, out));
	VT_TRY(write_found(model, options, out));
	for (size_t i = 0; i < model->threads.n && i < MAX_LOOKED_FOR; i++)
		VT_TRY(write_thread(model, &model->threads.data[i], options, out));
	return NULL;
}
