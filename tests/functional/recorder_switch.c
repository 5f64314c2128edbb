/* SPDX-License-Identifier: Apache-2.0 */
/*
 * recorder_switch PID COUNT: switches the recorder of a process that uses PyTorch's allocator on
 * and off so many times, in one session with the helper, while the process goes on. Prints how many
 * allocations were seen, and how long it took.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "inject/inject.h"
#include "inject/recorder/recorder.h"
#include "target/arch/native.h"
#include "walk/torch/slots.h"

struct target {
	pid_t pid;
	struct vt_proc proc;
	struct vt_maps maps;
	struct vt_modules modules;
	struct vt_live *live;
	struct vt_helper *helper;
	struct vt_resident resident;
	struct vt_recorder_config config;
};

static struct vt_error *open_target(struct target *t)
{
	VT_TRY(vt_proc_init(&t->proc, t->pid));
	VT_TRY(vt_maps_init(&t->maps, t->pid));
	VT_TRY(vt_modules_init(&t->modules, t->pid, &t->maps));
	return vt_live_create(t->pid, &t->live);
}

static void close_target(struct target *t)
{
	vt_helper_destroy(t->helper);
	vt_live_destroy(t->live);
	vt_modules_deinit(&t->modules);
	vt_maps_deinit(&t->maps);
	vt_proc_deinit(&t->proc);
}

static struct vt_error *configure(struct target *t)
{
	struct vt_torch_found found;
	struct vt_memsrc *src = vt_live_source(t->live);
	uint64_t vptr;

	t->config = (struct vt_recorder_config){ .native = 1, .max_memory = 64 << 20 };
	t->config.imports.dl_iterate_phdr =
		vt_modules_symbol(&t->modules, "libc.so.6", "dl_iterate_phdr");
	t->config.imports.pthread_tid = VT_NATIVE->pthread->tid;
	VT_TRY(vt_torch_find(&t->modules, &t->maps, src, &found));
	if (vt_mem_read_u64(src, found.allocator, &vptr))
		return vt_error_create(VT_ERR_NOTFOUND, "no allocator");
	return vt_torch_slots(&t->modules, &t->maps, src, &found, vptr, &t->config.torch);
}

static struct vt_error *load(struct target *t)
{
	struct vt_inject_options options = { .budget_ns = 10 * VT_NS_PER_S, .loads = true };
	struct vt_resident residents[VT_MAX_RESIDENTS];
	struct vt_inject_timing timing;
	const struct vt_resident *own;
	struct vt_maps maps = { 0 };
	size_t n;

	VT_TRY(vt_helper_create(&t->proc, &t->modules, t->live, &options, &timing, &t->helper));
	VT_TRY(vt_maps_init(&maps, t->pid));
	n = vt_residents_find(&maps, vt_live_source(t->live), residents);
	vt_maps_deinit(&maps);
	own = vt_resident_own(residents, n);
	if (!own) {
		VT_TRY(vt_recorder_load(t->helper, &t->modules, vt_now_ns() + 10 * VT_NS_PER_S));
		VT_TRY(vt_maps_init(&maps, t->pid));
		n = vt_residents_find(&maps, vt_live_source(t->live), residents);
		vt_maps_deinit(&maps);
		own = vt_resident_own(residents, n);
	}
	if (!own)
		return vt_error_create(VT_ERR_NOTFOUND, "the recorder was not loaded");
	t->resident = *own;
	return NULL;
}

static struct vt_error *call(struct target *t, enum vt_recorder_op op)
{
	uint32_t status;

	VT_TRY(vt_recorder_call(t->helper, &t->resident, op, op == VT_RECORD_ON ? &t->config : NULL,
				vt_now_ns() + 10 * VT_NS_PER_S, &status));
	return status == VT_RECORDER_OK ?
		       NULL :
		       vt_error_create(VT_ERR_FORMAT, "operation %d: status %u", (int)op, status);
}

static struct vt_error *switch_often(struct target *t, long count, uint64_t *seen)
{
	VT_FREE struct vt_recorder_head *head = malloc(sizeof(*head));

	if (!head)
		return &vt_enomem;
	for (long i = 0; i < count; i++) {
		VT_TRY(call(t, VT_RECORD_ON));
		/* Now and then long enough for some allocations; else as fast as it goes. */
		if (i % 4 == 0)
			vt_sleep_ns(200 * VT_NS_PER_US);
		VT_TRY(vt_resident_read(&t->resident, vt_live_source(t->live), head));
		*seen += vt_recorder_torch_allocations(head);
		VT_TRY(call(t, VT_RECORD_OFF));
	}
	return NULL;
}

static struct vt_error *run(struct target *t, long count)
{
	uint64_t start = vt_now_ns(), seen = 0;

	VT_TRY(open_target(t));
	VT_TRY(configure(t));
	VT_TRY(load(t));
	VT_TRY(switch_often(t, count, &seen));
	printf("ok %ld times, %llu allocations seen, %.3f s\n", count, (unsigned long long)seen,
	       (double)(vt_now_ns() - start) / VT_NS_PER_S);
	return NULL;
}

int main(int argc, char **argv)
{
	struct target t = { .pid = argc == 3 ? (pid_t)strtol(argv[1], NULL, 10) : 0 };

	if (argc != 3)
		return 64;

	struct vt_error *err = run(&t, strtol(argv[2], NULL, 10));

	if (err)
		printf("error: %s\n", err->message);
	close_target(&t);
	vt_error_destroy(err);
	return err != NULL;
}
