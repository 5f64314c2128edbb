/* SPDX-License-Identifier: Apache-2.0 */
/* How the recorder sees the driver's calls. */
#include "driver.h"

/*
 * Tries every way: even if the driver's calls cannot be seen, PyTorch's allocations are still
 * recorded.
 */
uint32_t vt_rec_driver_in(const struct vt_recorder_config *config)
{
	/* A table exists already if the driver's calls could not be seen at first. */
	if (!vt_recorder.driver.table && !vt_rec_driver_table_init())
		return VT_RECORDER_NO_MEMORY;
	if (config->cupti.cuptiSubscribe && config->cupti.cuptiUnsubscribe &&
	    config->cupti.cuptiEnableCallback) {
		vt_recorder.cupti_error = vt_rec_cupti_in(&config->cupti);
		if (!vt_recorder.cupti_error) {
			vt_recorder.driver_method = VT_DRIVER_CUPTI;
			return VT_RECORDER_OK;
		}
	}
	if (config->n_got && vt_rec_got_in((const struct vt_recorder_got *)config->got,
					   config->n_got, false, config->imports.dl_iterate_phdr))
		vt_recorder.driver_method = VT_DRIVER_GOT;
	return VT_RECORDER_OK;
}

void vt_rec_driver_out(void)
{
	/*
	 * CUPTI does not work in a child, and its locks may be held by threads that do not exist
	 * there.
	 */
	if (!vt_rec_is_inherited())
		vt_rec_cupti_out();
	vt_rec_got_out(vt_recorder.config.imports.dl_iterate_phdr);
	vt_recorder.driver_method = VT_DRIVER_NOT;
}

uint32_t vt_rec_launches_in(const struct vt_recorder_config *config)
{
	uint32_t n = vt_rec_got_in((const struct vt_recorder_got *)config->got, config->n_got, true,
				   config->imports.dl_iterate_phdr);

	vt_recorder.launches.n_words += n;
	return n;
}

void vt_rec_launches_out(void)
{
	vt_rec_got_out(vt_recorder.config.imports.dl_iterate_phdr);
}

void vt_rec_driver_deinit(void)
{
	vt_rec_driver_table_deinit();
}
