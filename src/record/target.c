/* SPDX-License-Identifier: Apache-2.0 */
#include "record/target.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/progress.h"
#include "inject/recorder/gate.h"
#include "target/arch/native.h"
#include "target/session.h"
#include "inject/cuda_imports.h"
#include "walk/recorder/python.h"
#include "walk/torch/slots.h"

#define STOP_NS VT_NS_PER_S /* per thread, if hooks are removed from outside */
/* For the helper of a vramtap that was killed: it ends after 5 s, or it waits for the loader. */
#define ORPHAN_NS (6 * VT_NS_PER_S)
#define ORPHAN_PART 2 /* but never longer than this part of the time for all */
#define ORPHAN_POLL_NS (5 * VT_NS_PER_MS)

/* ---- open, look ---- */

static struct vt_error *open_target(struct vt_record_target *target, pid_t pid, uint64_t budget_ns)
{
	struct vt_subject subject = { .origin = &vt_origin_process, .pid = pid };

	memset(target, 0, sizeof(*target));
	target->gate = -1;
	target->budget_ns = budget_ns;
	target->head = calloc(1, sizeof(*target->head));
	if (!target->head)
		return &vt_enomem;
	vt_progress("reading the process");
	return vt_target_open(&target->process, &subject);
}

/* At worst there are no modules then, and what is needed of them is not found. */
static void refresh_maps(struct vt_record_target *target)
{
	vt_error_destroy(target->process.origin->refresh_maps(&target->process));
}

struct vt_error *vt_record_open(struct vt_record_target *target, pid_t pid, uint64_t budget_ns)
{
	VT_TRY(open_target(target, pid, budget_ns));
	VT_TRY(vt_target_lock(&target->process, budget_ns));
	/* The last owner of the lock may have loaded the recorder. */
	refresh_maps(target);
	return vt_record_look(target);
}

struct vt_error *vt_record_open_to_read(struct vt_record_target *target, pid_t pid)
{
	VT_TRY(open_target(target, pid, 0));
	return vt_record_look(target);
}

void vt_record_close(struct vt_record_target *target)
{
	vt_helper_destroy(target->helper);
	vt_target_close(&target->process);
	free(target->head);
	free(target->got);
}

/*
 * In a child the head is a copy of the parent's, and only this word knows: the kernel gave the
 * child a zero in its place.
 */
static bool looks_inherited(const struct vt_record_target *target)
{
	uint32_t live = 0;

	if (target->head->state == VT_RECORDER_OFF || !target->head->live)
		return false;
	return !vt_mem_read_u32(target->process.mem, target->head->live, &live) && !live;
}

/* Of all streams; what cannot be read counts as none. */
static uint64_t count_launches(const struct vt_record_target *target)
{
	struct vt_memsrc *mem = target->process.mem;
	uint64_t table = target->head->launches.streams, n = 0;

	for (uint64_t i = 0; table && i < VT_LAUNCH_STREAMS; i++) {
		struct vt_recorder_launch_stream stream;

		if (vt_mem_read(mem, table + i * sizeof(stream), &stream, sizeof(stream)))
			return n;
		n += stream.key && stream.ready ? vt_recorder_stream_launches(&stream) : 0;
	}
	return n;
}

/* Reads this one from now on. */
static struct vt_error *choose(struct vt_record_target *target, const struct vt_resident *resident)
{
	memset(target->head, 0, sizeof(*target->head));
	target->inherited = false;
	target->resident = resident;
	if (!resident)
		return NULL;
	VT_TRY(vt_resident_read(resident, target->process.mem, target->head));
	target->inherited = looks_inherited(target);
	target->n_launches = target->inherited ? 0 : count_launches(target);
	if (vt_record_is_on(target))
		vt_record_explain_driver(target);
	return NULL;
}

struct vt_error *vt_record_look(struct vt_record_target *target)
{
	struct vt_target *t = &target->process;
	const struct vt_resident *resident;

	target->n_residents = vt_residents_find(&t->maps, t->mem, target->residents);
	resident = vt_resident_own(target->residents, target->n_residents);
	for (size_t i = 0; i < target->n_residents; i++) {
		VT_TRY(choose(target, &target->residents[i]));
		if (vt_record_is_on(target)) {
			vt_record_explain_driver(target);
			return NULL;
		}
	}
	return choose(target, resident);
}

bool vt_record_is_on(const struct vt_record_target *target)
{
	if (!target->resident || target->head->state == VT_RECORDER_OFF || target->inherited)
		return false;
	/* A recorder of another version, without its hooks, cannot be told that it is off. */
	return vt_resident_is_own(target->resident) ||
	       vt_record_count_hooks(target, target->head, VT_HOOK_OURS);
}

size_t vt_record_count_hooks(const struct vt_record_target *target,
			     const struct vt_recorder_head *head, enum vt_hook_state state)
{
	size_t n = 0;

	for (uint32_t i = 0; i < head->n_hooks; i++)
		n += head->hooks[i].where &&
		     vt_recorder_hook_state(&head->hooks[i], target->process.mem) == state;
	return n;
}

/* ---- what is recorded ---- */

static void explain(char text[256], struct vt_error *err)
{
	snprintf(text, 256, "%s", err->message);
	vt_error_destroy(err);
}

/*
 * The vptr that PyTorch gave its allocator; if the recorder's is in its place, the one that the
 * recorder saved.
 */
static uint64_t original_vptr(struct vt_record_target *target, uint64_t object)
{
	uint64_t vptr = 0;

	if (vt_mem_read_u64(target->process.mem, object, &vptr))
		return 0;
	for (uint32_t i = 0; i < target->head->n_hooks; i++)
		if (target->head->hooks[i].where == object && target->head->hooks[i].ours == vptr)
			return target->head->hooks[i].original;
	return vptr;
}

static void configure_torch(struct vt_record_target *target, struct vt_recorder_torch *torch)
{
	static const char *const why[] = {
		[VT_TORCH_ABSENT] =
			"PyTorch is not loaded; once it is, vramtap record PID on adds it",
		[VT_TORCH_UNUSED] =
			"PyTorch's CUDA allocator is not set up yet; once it is, vramtap record PID on adds it",
		[VT_TORCH_ASYNC] =
			"PyTorch uses its cudaMallocAsync backend; it allocates through the driver",
		[VT_TORCH_PLUGGABLE] = "PyTorch uses a pluggable allocator, not its own",
	};
	struct vt_target *t = &target->process;
	struct vt_torch_found found;
	struct vt_error *err;

	vt_progress("looking for PyTorch's allocator");
	vt_target_find_torch(t, &found);
	target->has_torch = found.backend != VT_TORCH_ABSENT;
	if (!found.allocator || found.backend == VT_TORCH_ASYNC ||
	    found.backend == VT_TORCH_PLUGGABLE) {
		bool known = found.backend < sizeof(why) / sizeof(why[0]) && why[found.backend];

		snprintf(target->no_torch, sizeof(target->no_torch), "%s",
			 known ? why[found.backend] : found.why);
		return;
	}
	err = vt_torch_slots(&t->modules, &t->maps, t->mem, &found,
			     original_vptr(target, found.allocator), torch);
	if (err)
		explain(target->no_torch, err);
}

/* What the recorder calls in the target, by library. */
static const struct {
	const char *prefix, *name;
	size_t field;
} imports_table[] = {
#define FIELD(name) offsetof(struct vt_recorder_imports, name)
	{ "[vdso]", "__vdso_clock_gettime", FIELD(clock_gettime) },
	{ "libc.so.6", "clock_gettime", FIELD(clock_gettime) },
	{ "libc-2.", "clock_gettime", FIELD(clock_gettime) },
	{ "libc.so.6", "dl_iterate_phdr", FIELD(dl_iterate_phdr) },
	{ "libc-2.", "dl_iterate_phdr", FIELD(dl_iterate_phdr) },
	{ "libcuda.so", "cuMemGetInfo_v2", FIELD(cuMemGetInfo) },
	{ "libcuda.so", "cuCtxGetDevice", FIELD(cuCtxGetDevice) },
	{ "libcuda.so", "cuCtxGetCurrent", FIELD(cuCtxGetCurrent) },
	{ "libcuda.so", "cuStreamIsCapturing", FIELD(cuStreamIsCapturing) },
	{ "libcuda.so", "cuFuncGetName", FIELD(cuFuncGetName) },
	{ "libcuda.so", "cuKernelGetName", FIELD(cuKernelGetName) },
	{ "libgcc_s", "_Unwind_GetCFA", FIELD(unwind_get_cfa) },
	{ "libc.so.6", "__errno_location", FIELD(errno_location) },
	{ "libc-2.", "__errno_location", FIELD(errno_location) },
#undef FIELD
};

static void find_main_stack(struct vt_record_target *target, struct vt_recorder_imports *imports)
{
	const struct vt_maps *maps = &target->process.maps;

	for (size_t i = 0; i < maps->entries.n; i++) {
		const struct vt_map_entry *map = &maps->entries.data[i];

		if (strcmp(map->path, "[stack]") != 0)
			continue;
		imports->main_stack_low = map->start;
		imports->main_stack_high = map->end;
	}
}

static void configure_imports(struct vt_record_target *target, struct vt_recorder_imports *imports)
{
	for (size_t i = 0; i < sizeof(imports_table) / sizeof(imports_table[0]); i++) {
		uint64_t *field = (uint64_t *)((char *)imports + imports_table[i].field);

		if (!*field)
			*field = vt_modules_symbol(&target->process.modules,
						   imports_table[i].prefix, imports_table[i].name);
	}
	find_main_stack(target, imports);
	imports->pthread_tid = VT_NATIVE->pthread->tid;
}

static struct vt_error *find_python(struct vt_record_target *target,
				    struct vt_recorder_python *layout)
{
	struct vt_target *t = &target->process;
	struct vt_python python = { 0 };
	struct vt_error *err;

	VT_TRY(t->origin->find_python(t, &python));
	err = vt_recorder_python(&python, &t->modules, t->mem, layout);
	vt_python_deinit(&python);
	return err;
}

static void configure_python(struct vt_record_target *target, struct vt_recorder_config *config)
{
	struct vt_recorder_python layout = { 0 };
	struct vt_error *err = find_python(target, &layout);

	if (err)
		explain(target->no_python, err);
	else
		config->python_layout = layout;
}

static void configure(struct vt_record_target *target, const struct vt_record_request *request,
		      struct vt_recorder_config *config)
{
	*config = (struct vt_recorder_config){
		.python = request->python,
		.native = request->native,
		.max_memory = request->max_memory,
		.sample_bytes = request->sample_bytes,
	};
	configure_torch(target, &config->torch);
	configure_imports(target, &config->imports);
	if (request->python)
		configure_python(target, config);
	else
		snprintf(target->no_python, sizeof(target->no_python), "--native");
	if (request->driver)
		vt_record_configure_driver(target, request->cupti, config);
	else
		snprintf(target->no_driver, sizeof(target->no_driver), "--no-driver");
	if (request->launches)
		vt_record_configure_launches(target, config);
}

/* ---- inside ---- */

static struct vt_error *start_helper(struct vt_record_target *target, bool to_load)
{
	struct vt_target *t = &target->process;
	struct vt_inject_options options = { .budget_ns = target->budget_ns, .loads = to_load };
	struct vt_inject_timing timing;

	if (target->helper || target->gate >= 0)
		return NULL;
	vt_progress("getting inside the process");
	VT_TRY(vt_helper_create(&t->proc, &t->modules, t->live, &options, &timing,
				&target->helper));
	target->borrowed_ns += timing.borrowed_ns;
	vt_cuda_imports(&t->modules, &vt_helper_shared(target->helper)->imports);
	return NULL;
}

static uint64_t deadline(const struct vt_record_target *target)
{
	return vt_now_ns() + target->budget_ns;
}

/* inject/stub/stub.c gives the name. */
static bool has_other_helper(const struct vt_record_target *target)
{
	struct vt_thread_list list = { 0 };
	bool found = false;

	VT_ERROR struct vt_error *err = vt_thread_list_init(&list, target->process.proc.pid);

	for (size_t i = 0; !err && i < list.threads.n; i++)
		found |= !strcmp(list.threads.data[i].name, "vramtap") &&
			 list.threads.data[i].tid != vt_helper_tid(target->helper);
	vt_thread_list_deinit(&list);
	return found;
}

/*
 * The helper of a vramtap that was killed may be about to load the recorder. Two of them would stay
 * in the process for ever, though only one is ever on.
 */
static void wait_for_orphan(const struct vt_record_target *target)
{
	uint64_t part_ns = target->budget_ns / ORPHAN_PART;
	uint64_t until_ns = vt_now_ns() + (part_ns < ORPHAN_NS ? part_ns : ORPHAN_NS);

	while (has_other_helper(target) && !vt_deadline_passed(until_ns)) {
		(void)vt_helper_shared(target->helper); /* ours would end, too */
		vt_sleep_ns(ORPHAN_POLL_NS);
	}
}

static bool has_own(const struct vt_record_target *target)
{
	return target->resident && vt_resident_is_own(target->resident);
}

static struct vt_error *load(struct vt_record_target *target)
{
	struct vt_target *t = &target->process;

	const struct vt_resident *own;

	if (has_own(target))
		return NULL;
	wait_for_orphan(target);
	/* Always: it may have ended, and have loaded it, since the last look. */
	refresh_maps(target);
	VT_TRY(vt_record_look(target));
	if (has_own(target))
		return NULL;
	vt_progress("loading the recorder");
	VT_TRY(vt_recorder_load(target->helper, &t->modules, deadline(target)));
	refresh_maps(target);
	VT_TRY(vt_record_look(target));
	own = vt_resident_own(target->residents, target->n_residents);
	if (!own)
		return vt_error_create(VT_ERR_NOTFOUND,
				       "the recorder was loaded but cannot be found in process %d",
				       (int)t->proc.pid);
	return choose(target, own);
}

static struct vt_error *refused(uint32_t status)
{
	static const char *const why[] = {
		[VT_RECORDER_BUSY] = "it is on already",
		[VT_RECORDER_CHANGED] = "PyTorch's allocator has changed since",
		[VT_RECORDER_NO_MEMORY] = "there is no memory for it",
		[VT_RECORDER_BAD] = "it does not understand the request",
		[VT_RECORDER_IN_USE] = "a thread is stopped inside it",
		[VT_RECORDER_OLD_KERNEL] =
			"the kernel is too old (it needs MADV_WIPEONFORK, of Linux 4.14)",
	};
	const char *text = status < sizeof(why) / sizeof(why[0]) && why[status] ?
				   why[status] :
				   "for an unknown reason";

	return vt_error_create(status == VT_RECORDER_BUSY ? VT_ERR_BUSY : VT_ERR_NOTFOUND,
			       "the recorder refused: %s", text);
}

static struct vt_error *call(struct vt_record_target *target, enum vt_recorder_op op,
			     const struct vt_recorder_config *config)
{
	uint32_t status;

	if (target->gate >= 0)
		VT_TRY(vt_gate_call(target->gate, op, config, deadline(target), &status));
	else
		VT_TRY(vt_recorder_call(target->helper, target->resident, op, config,
					deadline(target), &status));
	return status == VT_RECORDER_OK ? NULL : refused(status);
}

/*
 * CUPTI, at its first use, waits in the process until the GPU has finished all earlier work
 * (SAFETY.md).
 */
static struct vt_error *explain_waiting(struct vt_error *err,
					const struct vt_recorder_config *config)
{
	if (!err || err->code != VT_ERR_TIMEOUT || !config->use_cupti)
		return err;
	return vt_error_prefix(
		err,
		"CUPTI waits for the GPU to go idle, and kernel launches block until then; without --cupti nothing waits");
}

static struct vt_error *other_version(const struct vt_record_target *target)
{
	return vt_error_create(
		VT_ERR_BUSY,
		"the recorder of another version of vramtap is on; vramtap record %d off switches it off",
		(int)target->process.proc.pid);
}

static bool same_request(const struct vt_recorder_head *head,
			 const struct vt_record_request *request)
{
	return !head->python == !request->python && !head->native == !request->native &&
	       !head->config.use_cupti == !request->cupti &&
	       !head->config.launches == !request->launches &&
	       head->max_memory == request->max_memory &&
	       head->sample_bytes == request->sample_bytes;
}

/* It is on: PyTorch or the driver may have come later, or another tool may have left CUPTI. */
static struct vt_error *on_again(struct vt_record_target *target,
				 const struct vt_record_request *request,
				 struct vt_recorder_config *config)
{
	bool torch = !target->head->config.torch.object && config->torch.object;
	bool visible = config->cupti.cuptiSubscribe || config->cupti.path[0] || config->n_got;
	bool driver = !target->head->driver_method && config->driver && visible;

	if (!vt_resident_is_own(target->resident))
		return other_version(target);
	if (!same_request(target->head, request))
		return vt_error_create(
			VT_ERR_BUSY,
			"recording is already on, with other settings; vramtap record %d off ends it",
			(int)target->process.proc.pid);
	if (!torch && !driver && !config->launches)
		return NULL;
	VT_TRY(start_helper(target, false));
	if (driver) {
		VT_TRY(vt_record_load_cupti(target, config, call));
		VT_TRY(call(target, VT_RECORD_DRIVER, config));
	}
	if (config->launches)
		VT_TRY(call(target, VT_RECORD_LAUNCHES, config));
	return torch ? call(target, VT_RECORD_TORCH, config) : NULL;
}

bool vt_record_was_unhooked(const struct vt_record_target *target)
{
	size_t noted = 0;

	for (uint32_t i = 0; i < target->head->n_hooks; i++)
		noted += target->head->hooks[i].where != 0;
	return vt_resident_is_own(target->resident) && noted > 0 &&
	       vt_record_count_hooks(target, target->head, VT_HOOK_OUT) == noted;
}

static struct vt_error *nothing_to_record(struct vt_record_target *target)
{
	struct vt_modules *modules = &target->process.modules;
	size_t index = 0;

	if (!target->has_torch && !vt_modules_by_name(modules, "libcuda.so", &index))
		return vt_error_create(
			VT_ERR_NOTFOUND,
			"nothing to record: neither PyTorch nor libcuda is loaded in process %d; try again once they are",
			(int)target->process.proc.pid);
	return vt_error_create(
		VT_ERR_NOTFOUND, "there is nothing to record: %s; and the driver's allocations: %s",
		target->no_torch,
		target->no_driver[0] ? target->no_driver : "its calls cannot be seen");
}

struct vt_error *vt_record_on(struct vt_record_target *target,
			      const struct vt_record_request *request)
{
	struct vt_recorder_config config;

	configure(target, request, &config);
	if (vt_record_is_on(target) && !vt_record_was_unhooked(target)) {
		VT_TRY(on_again(target, request, &config));
		return vt_record_look(target);
	}
	if (!config.torch.object && !config.driver && !config.n_got)
		return nothing_to_record(target);
	VT_TRY(start_helper(target, true));
	VT_TRY(load(target));
	if (vt_record_is_on(target))
		VT_TRY(call(target, VT_RECORD_OFF, NULL));
	VT_TRY(vt_record_load_cupti(target, &config, call));
	VT_TRY(explain_waiting(call(target, VT_RECORD_ON, &config), &config));
	VT_TRY(vt_record_look(target));
	/* At the gate it is early: missing parts are added later. */
	if (config.torch.object || target->head->driver_method || target->head->launches.n_words ||
	    target->gate >= 0)
		return NULL;
	VT_TRY(call(target, VT_RECORD_OFF, NULL));
	return nothing_to_record(target);
}

struct vt_error *vt_record_complete(struct vt_record_target *target)
{
	const struct vt_recorder_head *head = target->head;
	const struct vt_record_request request = {
		.python = head->python,
		.native = head->native,
		.driver = head->config.driver,
		.cupti = head->config.use_cupti,
		.launches = head->config.launches,
		.max_memory = head->max_memory,
		.sample_bytes = head->sample_bytes,
	};

	if (vt_resident_is_own(target->resident) && head->config.torch.object)
		return NULL;
	return vt_record_on(target, &request);
}

/* ---- off ---- */

/* Restores it if it still is ours. All threads are stopped, so none sees half of it. */
static void write_back(struct vt_record_target *target, const struct vt_recorder_hook *hook)
{
	const struct vt_resident *resident = target->resident;

	if (!hook->where || hook->where % 8 ||
	    vt_recorder_hook_state(hook, target->process.mem) != VT_HOOK_OURS ||
	    hook->ours < resident->base || hook->ours >= resident->end)
		return;
	vt_error_destroy(vt_live_write(target->process.live, hook->where, &hook->original,
				       sizeof(hook->original)));
	vt_fault_point("record.unhooked");
}

/* Informs the watcher, and a thread that waits for it goes on. */
static void disarm(struct vt_record_target *target)
{
	uint64_t armed = target->resident->head + offsetof(struct vt_recorder_head, trap.armed);
	const uint32_t zero = 0;

	if (vt_resident_is_own(target->resident))
		vt_error_destroy(vt_live_write(target->process.live, armed, &zero, sizeof(zero)));
}

static struct vt_error *unhook_from_outside(struct vt_record_target *target)
{
	struct vt_target *t = &target->process;
	struct vt_session session = { 0 };

	VT_TRY(vt_session_stop_all(&session, t->proc.pid, t->live, STOP_NS));
	for (uint32_t i = 0; i < target->head->n_hooks; i++)
		write_back(target, &target->head->hooks[i]);
	disarm(target);
	vt_session_deinit(&session);
	return NULL;
}

/* Inside, where the recorder itself frees its memory. */
static struct vt_error *off_inside(struct vt_record_target *target)
{
	uint32_t status;

	if (target->resident->abi != VT_RECORDER_ABI)
		return vt_error_create(VT_ERR_UNSUPPORTED, "it is of another version");
	VT_TRY(start_helper(target, false));
	VT_TRY(vt_recorder_call(target->helper, target->resident, VT_RECORD_OFF, NULL,
				deadline(target), &status));
	return status == VT_RECORDER_OK || status == VT_RECORDER_BUSY ? NULL : refused(status);
}

/* An interrupted end leaves hooks, or memory. */
static bool is_idle(const struct vt_record_target *target)
{
	return !target->resident || (!vt_record_is_on(target) && !target->head->memory &&
				     !vt_record_count_hooks(target, target->head, VT_HOOK_OURS));
}

struct vt_error *vt_record_off(struct vt_record_target *target, uint64_t *kept)
{
	VT_FREE struct vt_recorder_head *before = malloc(sizeof(*before));
	struct vt_error *why;

	*kept = 0;
	if (is_idle(target))
		return NULL;
	if (!before)
		return &vt_enomem;
	memcpy(before, target->head, sizeof(*before));
	why = off_inside(target);
	if (vt_record_count_hooks(target, before, VT_HOOK_OURS)) {
		struct vt_error *err = unhook_from_outside(target);

		if (err || vt_record_count_hooks(target, before, VT_HOOK_OURS)) {
			vt_error_destroy(why);
			return err ? err :
				     vt_error_create(VT_ERR_NOTFOUND,
						     "not all hooks could be removed");
		}
	}
	if (why)
		explain(target->not_inside, why);
	VT_TRY(vt_record_look(target));
	*kept = target->head->memory;
	return NULL;
}
