/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a process's driver calls are to be seen: through global offset tables, or through CUPTI,
 * loaded or to be loaded.
 *
 * CUPTI sees all of them, but is not used unless it is asked for, for it leaves marks (CUDA 13.0,
 * driver 580, H200): the first subscription starts a thread that stays and wakes now and then;
 * every launch costs 0.2 us more while it lasts (3 %); and PyTorch's profiler, where its first use
 * falls into it, finds CUPTI taken and never looks again, also not after "off".
 */
#include <stdio.h>

#include "record/target.h"
#include "inject/recorder/cupti.h"
#include "inject/recorder/got.h"
#include "inject/recorder/pointers.h"

/* Appends to the words that are to be changed. */
static void add_got(struct vt_record_target *target, enum vt_got_calls calls,
		    struct vt_recorder_config *config)
{
	struct vt_target *t = &target->process;
	struct vt_recorder_pointers_left left;
	size_t room = VT_MAX_GOT - config->n_got, n, more = 0;

	if (!target->got)
		target->got = malloc(VT_MAX_GOT * sizeof(*target->got));
	if (!target->got)
		return;
	n = vt_recorder_got_find(&t->modules, t->mem, calls, target->got + config->n_got, room);
	if (n > room)
		more = n - room;
	config->n_got += n - more;
	config->got = (uint64_t)(uintptr_t)target->got;
	if (calls != VT_GOT_LAUNCHES)
		return;
	n = config->n_got;
	vt_recorder_pointers_find(&t->modules, t->mem, target->got, VT_MAX_GOT, &n, &left);
	config->n_got = n;
	target->no_room_for_launches = more + left.no_room;
	target->unread_for_launches = left.unread;
}

void vt_record_configure_launches(struct vt_record_target *target,
				  struct vt_recorder_config *config)
{
	size_t index = 0;

	config->launches = 1;
	if (vt_modules_by_name(&target->process.modules, "libcuda.so", &index))
		add_got(target, VT_GOT_LAUNCHES, config);
}

void vt_record_configure_driver(struct vt_record_target *target, bool cupti,
				struct vt_recorder_config *config)
{
	struct vt_target *t = &target->process;
	size_t index = 0;

	config->use_cupti = cupti;
	config->driver = vt_modules_by_name(&t->modules, "libcuda.so", &index) != NULL;
	if (!config->driver) {
		snprintf(target->no_driver, sizeof(target->no_driver),
			 "the driver's library libcuda.so is not loaded");
		return;
	}
	if (cupti && !vt_recorder_cupti_find(&t->modules, &config->cupti))
		vt_recorder_cupti_choose(&t->modules, t->proc.pid, &config->cupti);
	add_got(target, VT_GOT_ALLOCATIONS, config);
}

struct vt_error *vt_record_load_cupti(struct vt_record_target *target,
				      struct vt_recorder_config *config, vt_record_call_fn *call)
{
	struct vt_target *t = &target->process;
	struct vt_error *err;

	if (!config->driver || config->cupti.cuptiSubscribe || !config->cupti.path[0])
		return NULL;
	err = call(target, VT_RECORD_LOAD_CUPTI, config);
	/* It may fail to load here: then the tables are used. */
	if (err && err->code != VT_ERR_NOTFOUND)
		return err;
	vt_error_destroy(err);
	vt_error_destroy(t->origin->refresh_maps(t));
	vt_recorder_cupti_find(&t->modules, &config->cupti);
	return NULL;
}

void vt_record_explain_driver(struct vt_record_target *target)
{
	const struct vt_recorder_head *head = target->head;
	char why[64];

	if (!head->config.driver || head->driver_method == VT_DRIVER_CUPTI)
		return;
	if (!head->config.use_cupti)
		snprintf(why, sizeof(why), "CUPTI is not used without --cupti");
	else if (!head->config.cupti.cuptiSubscribe)
		snprintf(why, sizeof(why), "there is no CUPTI library beside its CUDA runtime");
	else if (head->cupti_error == 39) /* CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED */
		snprintf(why, sizeof(why), "another tool has subscribed to CUPTI (a profiler?)");
	else
		snprintf(why, sizeof(why), "CUPTI refused with error %d", head->cupti_error);
	if (head->driver_method == VT_DRIVER_GOT)
		snprintf(
			target->no_driver, sizeof(target->no_driver),
			"%s; libraries with a CUDA runtime of their own (NCCL, cuBLAS), or loaded later, are not seen",
			why);
	else
		snprintf(
			target->no_driver, sizeof(target->no_driver),
			"%s, and no library calls the driver through a table that vramtap could change",
			why);
}
