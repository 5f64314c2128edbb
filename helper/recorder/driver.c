/* SPDX-License-Identifier: Apache-2.0 */
/* How the driver's calls come to be seen. */
#include "driver.h"

/* Everything that can be had: what the driver level cannot be seen through is no reason not to record PyTorch's. */
uint32_t vt_rec_driver_in(const struct vt_recorder_config *config)
{
	/* A table is there if the driver's calls could not be seen at first. */
	if (!vt_recorder.driver.table && !vt_rec_driver_table_init())
		return VT_RECORDER_NO_MEMORY;
	if (config->cupti.cuptiSubscribe && config->cupti.cuptiUnsubscribe && config->cupti.cuptiEnableCallback) {
		vt_recorder.cupti_error = vt_rec_cupti_in(&config->cupti);
		if (!vt_recorder.cupti_error) {
			vt_recorder.driver_method = VT_DRIVER_CUPTI;
			return VT_RECORDER_OK;
		}
	}
	if (config->n_got && vt_rec_got_in((const struct vt_recorder_got *)config->got, config->n_got, config->imports.dl_iterate_phdr))
		vt_recorder.driver_method = VT_DRIVER_GOT;
	return VT_RECORDER_OK;
}

void vt_rec_driver_out(void)
{
	/* CUPTI is of no use in a child, and its locks may be held there by threads that are not. */
	if (!vt_rec_is_inherited())
		vt_rec_cupti_out();
	vt_rec_got_out(vt_recorder.config.imports.dl_iterate_phdr);
	vt_recorder.driver_method = VT_DRIVER_NOT;
}

void vt_rec_driver_deinit(void)
{
	vt_rec_driver_table_deinit();
}
