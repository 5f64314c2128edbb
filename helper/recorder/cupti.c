/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver's calls, through CUPTI: one subscriber, and callbacks only for the functions that
 * allocate and free. CUPTI calls us on the thread that makes the call, before and after it.
 *
 * cuptiUnsubscribe() guarantees that no callback is issued after it, but not that none is still
 * running. A callback that still runs finds the recorder off or the table gone, and this library
 * stays mapped.
 */
#include "driver.h"

#define CUPTI_CB_DOMAIN_DRIVER_API 1
#define CUPTI_API_ENTER 0
#define CUPTI_API_EXIT 1
#define CUPTI_ERROR_UNKNOWN 999

/* CUpti_CallbackData of cupti_callbacks.h: the same from CUDA 4.1 to 13.0. */
struct callback_data {
	int site;
	const char *function_name;
	const uint64_t *params;
	const int *result;
	const char *symbol_name;
	void *context;
	uint32_t context_uid;
	/* a word of this call that we may use from its beginning to its end */
	uint64_t *correlation_data;
	uint32_t correlation_id;
};

/* dlfcn.h of glibc */
#define RTLD_NOW 0x2
#define RTLD_NODELETE 0x1000

typedef int subscribe_fn(void **subscriber, void *callback, void *user_data);
typedef int unsubscribe_fn(void *subscriber);
typedef int enable_fn(uint32_t enable, void *subscriber, int domain, uint32_t cbid);

/* CUPTI enters here (driver_entry.S); passes on the registers of its caller. */
void vt_rec_cupti_entry(void *user_data, int domain, uint32_t cbid, const void *data);
void vt_rec_cupti_callback(void *user_data, int domain, uint32_t cbid,
			   const struct callback_data *data, const struct vt_rec_regs *regs);

#define MAX_CBID 640
/* above the serial in correlation_data: we saw the call begin */
#define TAG (UINT64_C(0x56544452) << 32)

static uint8_t call_of_cbid[MAX_CBID]; /* enum vt_recorder_call + 1 */
static void *subscriber;
static uint32_t first_serial; /* from before our first callback */

void vt_rec_cupti_callback(void *user_data, int domain, uint32_t cbid,
			   const struct callback_data *data, const struct vt_rec_regs *regs)
{
	uint32_t before = first_serial;

	(void)user_data;
	if (domain != CUPTI_CB_DOMAIN_DRIVER_API || cbid >= MAX_CBID || !call_of_cbid[cbid] ||
	    !vt_rec_is_on())
		return;
	if (data->site == CUPTI_API_ENTER) {
		if (data->correlation_data)
			*data->correlation_data = TAG | vt_rec_driver_serial();
		return;
	}
	if (data->site != CUPTI_API_EXIT || !data->result || !data->params)
		return;
	if (data->correlation_data && (*data->correlation_data & ~(uint64_t)UINT32_MAX) == TAG)
		before = (uint32_t)*data->correlation_data;
	vt_rec_driver_call((enum vt_recorder_call)(call_of_cbid[cbid] - 1), data->params,
			   *data->result, before, regs);
}

int vt_rec_cupti_in(const struct vt_recorder_cupti *cupti)
{
	subscribe_fn *subscribe = (subscribe_fn *)cupti->cuptiSubscribe;
	enable_fn *enable = (enable_fn *)cupti->cuptiEnableCallback;
	unsubscribe_fn *unsubscribe = (unsubscribe_fn *)cupti->cuptiUnsubscribe;
	void *mine = NULL;
	int err;

	first_serial = vt_rec_driver_serial();
	for (unsigned int i = 0; i < VT_N_CALLS; i++)
		if (vt_rec_driver_cbid(i) && vt_rec_driver_cbid(i) < MAX_CBID)
			call_of_cbid[vt_rec_driver_cbid(i)] = (uint8_t)(i + 1);
	err = subscribe(&mine, (void *)vt_rec_cupti_entry, NULL);
	if (err)
		return err;
	/*
	 * An older CUPTI refuses functions that it does not know, but they are not called there.
	 * Every CUPTI knows these.
	 */
	for (unsigned int i = 0; i < VT_N_CALLS; i++) {
		uint32_t cbid = vt_rec_driver_cbid(i);
		int refused = cbid ? enable(1, mine, CUPTI_CB_DOMAIN_DRIVER_API, cbid) : 0;

		if (refused && (i == VT_CALL_cuMemAlloc_v2 || i == VT_CALL_cuMemFree_v2)) {
			unsubscribe(mine);
			return refused;
		}
	}
	subscriber = mine;
	return mine ? 0 : CUPTI_ERROR_UNKNOWN;
}

void vt_rec_cupti_out(void)
{
	unsubscribe_fn *unsubscribe = (unsubscribe_fn *)vt_recorder.config.cupti.cuptiUnsubscribe;
	void *mine = subscriber;

	subscriber = NULL;
	if (mine && unsubscribe)
		unsubscribe(mine);
}

uint32_t vt_rec_cupti_load(const struct vt_recorder_config *config)
{
	void *(*load)(const char *path, int flags) =
		(void *(*)(const char *, int))config->cupti.dlopen;

	if (!load || !config->cupti.path[0] || config->cupti.path[sizeof(config->cupti.path) - 1])
		return VT_RECORDER_BAD;
	return load(config->cupti.path, RTLD_NOW | RTLD_NODELETE) ? VT_RECORDER_OK :
								    VT_RECORDER_BAD;
}
