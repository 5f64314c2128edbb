/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/report/report_models.h"
#include "model/words_0_1.h"

#include <stdlib.h>
#include <string.h>

#define KIB UINT64_C(1024)
#define MIB (1024 * KIB)
#define GIB (1024 * MIB)

/* Tests may as well stop here when there is no memory. */
static void *checked(void *p)
{
	if (!p)
		abort();
	return p;
}

/* ---- pieces ---- */

struct vt_model_device *report_add_device(struct vt_model *model, int ordinal, uint64_t used,
					  uint64_t total)
{
	struct vt_model_device *d = checked(vt_vec_append(&model->devices));

	*d = (struct vt_model_device){
		.ordinal = ordinal,
		.name = "NVIDIA H100 80GB HBM3",
		.have_uuid = true,
		.context_active = true,
		.context = 0x55d0c0de0000 + (uint64_t)ordinal * 0x1000,
		.have_memory = true,
		.memory_from = "cudaMemGetInfo",
		.free_bytes = total - used,
		.total_bytes = total,
		.used_bytes = used,
	};
	for (int i = 0; i < 16; i++)
		d->uuid[i] = (uint8_t)(ordinal * 16 + i);
	return d;
}

static void release_blocks(struct vt_block_rec *blocks, size_t n)
{
	(void)n;
	free(blocks);
}

static bool pending_start;
static unsigned int pending_flags;
static uint64_t pending_stream, pending_pool, next_address;

struct vt_model_allocator *report_add_allocator(struct vt_model *model, int device)
{
	struct vt_model_allocator *a = checked(vt_vec_append(&model->allocators));

	if (!model->blocks) {
		model->blocks = checked(malloc(sizeof(*model->blocks)));
		model->blocks_release = release_blocks;
		next_address = UINT64_C(0x7f1200000000);
	}
	*a = (struct vt_model_allocator){
		.device = device,
		.method = VT_METHOD_INSIDE,
		.first_block = model->n_blocks,
		.owner_name = "",
	};
	a->result.device = device;
	a->result.lock = VT_LOCK_TAKEN;
	a->result.walk_ns = 1840000;
	a->result.read_ns = 1100000;
	a->result.allocator = UINT64_C(0x55d0aa0010);
	pending_start = true;
	pending_flags = 0;
	pending_stream = 0;
	pending_pool = 0;
	model->torch_method = VT_METHOD_INSIDE;
	model->torch_state = VT_ALLOCATOR_NATIVE;
	return a;
}

void report_add_segment(struct vt_model *model, unsigned int flags, uint64_t stream, uint64_t pool)
{
	(void)model;
	pending_start = true;
	pending_flags = flags;
	pending_stream = stream;
	pending_pool = pool;
	next_address = (next_address + 4 * MIB) & ~(2 * MIB - 1);
}

struct vt_block_rec *report_add_block(struct vt_model *model, uint8_t state, uint64_t size,
				      uint64_t requested)
{
	struct vt_model_allocator *a = &model->allocators.data[model->allocators.n - 1];
	struct vt_block_rec *b;
	size_t n = model->n_blocks;

	/* Room for one, then for twice as many whenever it is full: reads past the end are seen. */
	if ((n & (n - 1)) == 0)
		model->blocks =
			checked(realloc(model->blocks, 2 * (n ? n : 1) * sizeof(*model->blocks)));
	b = &model->blocks[model->n_blocks++];
	*b = (struct vt_block_rec){
		.addr = next_address,
		.size = size,
		.requested = requested,
		.stream = pending_stream,
		.pool = pending_pool,
		.object = UINT64_C(0x55d0bb000000) + model->n_blocks * 176,
		.device = (int16_t)a->device,
		.state = state,
		.flags = (uint8_t)(pending_flags | (pending_start ? VT_BLOCK_SEGMENT_START : 0)),
	};
	a->result.segments += pending_start && state != VT_BLOCK_UNMAPPED;
	a->result.blocks++;
	if (state <= VT_BLOCK_UNMAPPED)
		a->result.bytes[state] += size;
	a->n_blocks++;
	pending_start = false;
	next_address += size;
	return b;
}

struct vt_model_ledger_device *report_add_ledger(struct vt_model *model, int device)
{
	struct vt_model_ledger_device *d = checked(vt_vec_append(&model->ledger.devices));

	*d = (struct vt_model_ledger_device){ .device = device };
	model->ledger.known = model->ledger.whole = model->ledger.pools_asked = true;
	return d;
}

struct vt_model_range *report_add_range(struct vt_model *model, uint8_t kind, uint64_t start,
					uint64_t size)
{
	static const uint64_t page = 2 * MIB;
	size_t n = model->ledger.ranges.n;
	const struct vt_range_rec *last = n ? &model->ledger.ranges.data[n - 1].rec : NULL;
	struct vt_model_range *range;

	if (!start)
		start = last ? (last->start + last->size + page) / page * page :
			       UINT64_C(0x7e0000000000);
	range = checked(vt_vec_append(&model->ledger.ranges));
	*range = (struct vt_model_range){ .rec = { .kind = kind, .start = start, .size = size } };
	if (kind == VT_RANGE_DEVICE || kind == VT_RANGE_MAPPED || kind == VT_RANGE_DATA) {
		range->rec.mapping = start / page * page;
		range->rec.physical = (start + size + page - 1) / page * page - range->rec.mapping;
		range->rec.block = range->rec.mapping / page;
	}
	return range;
}

void report_add_pytorch_ranges(struct vt_model *model)
{
	size_t end;

	for (size_t i = 0; i < model->n_blocks; i = end) {
		const struct vt_block_rec *b = &model->blocks[i];
		uint64_t size = 0;

		end = vt_model_segment_end(model, i, model->n_blocks);
		for (size_t k = i; k < end; k++)
			size += model->blocks[k].size;
		if (b->state != VT_BLOCK_UNMAPPED)
			report_add_range(model, VT_RANGE_DEVICE, b->addr, size)->rec.device =
				b->device;
	}
}

void report_add_pinned(struct vt_model *model)
{
	static const struct vt_pinned_block blocks[] = {
		{ .size = GIB, .state = VT_BLOCK_ALLOCATED, .streams = 1 },
		{ .size = GIB, .state = VT_BLOCK_ALLOCATED },
		{ .size = 256 * KIB,
		  .state = VT_BLOCK_AWAITING_FREE,
		  .events = 1,
		  .private_pool = 1,
		  .pool = UINT64_C(3) << 32 },
		{ .size = GIB, .state = VT_BLOCK_CACHED },
		{ .size = 2 * GIB, .state = VT_BLOCK_CACHED },
		{ .size = 512 * MIB, .state = VT_BLOCK_CACHED },
		{ .size = 512 * MIB, .state = VT_BLOCK_CACHED },
	};
	struct vt_model_pinned *p = &model->pinned;
	uint64_t addr = 0x7f1200000000;

	p->state = VT_ALLOCATOR_NATIVE;
	p->why = "";
	p->object = 0x55d0c0de4a40;
	p->counted = true;
	p->read_ms = 0.9;
	p->n_blocks = sizeof(blocks) / sizeof(blocks[0]);
	p->blocks = checked(malloc(sizeof(blocks)));
	memcpy(p->blocks, blocks, sizeof(blocks));
	for (size_t i = 0; i < p->n_blocks; i++) {
		p->blocks[i].addr = addr;
		p->blocks[i].object = 0x55d0c0e00000 + i * 160;
		addr += p->blocks[i].size;
	}
}

void report_does(struct vt_model *model, struct vt_model_thread *t, const char *verdict,
		 const char *waits)
{
	if (verdict)
		vt_verdict_of_0_1(verdict, &model->arena, &t->verdict);
	if (verdict && !t->verdict.code)
		t->verdict =
			(struct vt_verdict){ .code = VT_VERDICT_IN_FUNCTION, .function = verdict };
	if (waits)
		vt_waits_of_0_1(waits, &model->arena, &t->waits);
	if (waits && !t->waits.code)
		t->waits =
			(struct vt_waits){ .code = VT_WAITS_CALL, .call = waits, .detail = waits };
	if (t->waits.code == VT_WAITS_FUTEX)
		t->waits.shared = " …";
}

struct vt_model_thread *report_add_thread(struct vt_model *model, pid_t tid, const char *name)
{
	struct vt_model_thread *t = checked(vt_vec_append(&model->threads));

	*t = (struct vt_model_thread){
		.tid = tid, .name = name, .state = 'S', .cpu = 3, .gil = -1
	};
	model->process.n_threads++;
	return t;
}

static struct vt_model_frame *add_frame(struct vt_model *model, struct vt_model_thread *t)
{
	size_t n = t->stack.n_frames;
	struct vt_model_frame *frames =
		checked(vt_arena_alloc(&model->arena, (n + 1) * sizeof(*frames)));

	if (n)
		memcpy(frames, t->stack.frames, n * sizeof(*frames));
	t->stack.frames = frames;
	t->stack.n_frames++;
	return &frames[n];
}

void report_add_native(struct vt_model *model, struct vt_model_thread *t, const char *function,
		       const char *module, uint64_t offset)
{
	*add_frame(model, t) = (struct vt_model_frame){
		.kind = VT_FRAME_NATIVE,
		.function = function,
		.module = module,
		.build_id = module ? "5f2c1e9b0d3a47c6b8e1f00dcafe123456789abc" : "",
		.pc = UINT64_C(0x7f0000000000) + offset,
		.module_offset = module ? offset : 0,
	};
	t->stack.has_native = true;
}

void report_add_python(struct vt_model *model, struct vt_model_thread *t, const char *function,
		       const char *file, int line)
{
	*add_frame(model, t) = (struct vt_model_frame){
		.kind = VT_FRAME_PYTHON,
		.function = function,
		.file = file,
		.line = line,
	};
	t->stack.has_python = true;
	t->has_python = true;
}

void report_add_traces(struct vt_model *model, const struct vt_model_frame *frames, size_t n_frames,
		       const uint32_t *const *traces, size_t n_traces)
{
	uint32_t *of_block =
		checked(vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*of_block)));

	model->trace_frames = frames;
	model->n_trace_frames = n_frames;
	for (size_t i = 0; i < n_traces; i++) {
		struct vt_model_trace *t = checked(vt_vec_append(&model->traces));

		*t = (struct vt_model_trace){ .frames = traces[i], .merge_uncertain = i % 3 == 2 };
		while (traces[i][t->n_frames] != UINT32_MAX)
			t->n_frames++;
	}
	for (size_t i = 0; i < model->n_blocks; i++) {
		of_block[i] = i % 7 == 6 ? VT_UNTRACED(i / 7 % VT_N_UNTRACED) :
					   (uint32_t)(i % n_traces);
		if (of_block[i] != VT_UNTRACED(VT_UNTRACED_NOT_RECORDED))
			model->blocks[i].context = 0x7f0000001000 + i * 0x100;
	}
	model->block_traces = of_block;
}

#define SECOND UINT64_C(1000000000)

void report_add_recorder(struct vt_model *model, const char *const *threads, size_t n_threads)
{
	static const struct {
		enum vt_driver_kind kind;
		bool on_device;
	} kinds[] = { { VT_DRIVER_KIND_DEVICE, true },
		      { VT_DRIVER_KIND_ASYNC, true },
		      { VT_DRIVER_KIND_MAPPED, true },
		      { VT_DRIVER_KIND_MANAGED, false },
		      { VT_DRIVER_KIND_HOST, false } };
	struct vt_model_record *records =
		checked(vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*records)));

	model->recorder = (struct vt_model_recorder){
		.state = VT_RECORDING_ON,
		.on_ns = 720 * SECOND,
		.python = true,
		.native = true,
		.driver = "CUPTI",
		.memory_bytes = 20 * MIB,
		.max_memory_bytes = 256 * MIB,
		.allocations = 12345678,
		.driver_allocations = 50,
		.driver_frees = 10,
		.compared = 3,
	};
	for (size_t i = 0; i < model->traces.n; i++) {
		model->traces.data[i].source = i % 4 ? VT_TRACE_RECORDER : VT_TRACE_PYTORCH;
		model->traces.data[i].native_cut = i % 5 == 1;
		model->traces.data[i].native_guess = i % 5 == 2;
	}
	for (size_t i = 0; i < model->n_blocks; i++) {
		const struct vt_model_trace *trace = vt_model_block_trace(model, i);
		bool recorded = trace && trace->source == VT_TRACE_RECORDER;

		records[i] = (struct vt_model_record){
			.age_ns = recorded ? i % 700 * SECOND : VT_NO_AGE,
			.tid = (pid_t)(41273 + i % n_threads),
			.thread = threads[i % n_threads],
		};
	}
	model->block_records = records;
	for (size_t i = 0; i < 15; i++) {
		struct vt_model_driver_block *b = checked(vt_vec_append(&model->driver_blocks));

		*b = (struct vt_model_driver_block){
			.addr = UINT64_C(0x7f4000000000) + i * GIB,
			.size = (i + 1) * 10 * MIB,
			.device = i % 7 == 3 ? -1 : 0,
			.kind = kinds[i % 5].kind,
			.on_device = kinds[i % 5].on_device,
			.of_pytorch = i == 5,
			.record = { .age_ns = i * 60 * SECOND,
				    .tid = 41273,
				    .thread = threads[i % n_threads] },
			.trace = i % 6 == 5 || !model->traces.n ?
					 VT_UNTRACED(VT_UNTRACED_NO_STACK) :
					 (uint32_t)(i % model->traces.n),
		};
	}
	for (uint32_t i = 0; i < 6; i++) {
		struct vt_model_oom *oom = checked(vt_vec_append(&model->ooms));

		*oom = (struct vt_model_oom){
			.number = i + 1,
			.of_pytorch = i % 2 == 0,
			.requested = GIB * (i + 1),
			.age_ns = (100 - i) * SECOND,
			.free_bytes = i % 3 * MIB,
			.total_bytes = i % 3 * 80 * GIB,
			.device = (int)(i % 3) - 1,
			.error = (int)(i % 2) * 2,
			.tid = 41273,
			.thread = threads[i % n_threads],
			.trace = i == 3 || !model->traces.n ? VT_UNTRACED(VT_UNTRACED_UNREADABLE) :
							      (uint32_t)(i % model->traces.n),
		};
	}
}

void report_copy_stack(struct vt_model_thread *to, const struct vt_model_thread *from)
{
	to->stack = from->stack;
	to->has_python = from->has_python;
}

/* ---- whole models ---- */

static void add_identity(struct vt_model *model)
{
	model->tool_version = "0.1.0";
	model->when = (struct timespec){ .tv_sec = 1795270474, .tv_nsec = 123456789 };
	model->where = (struct vt_model_where){
		.host = "node17", .zone_known = true, .zone = "CET", .utc_offset_min = 60
	};
	model->process.pid = 41273;
	model->process.name = "python3";
	model->process.cmdline = "python3 train.py --config llama-1b.yaml";
	model->process.exe = "/usr/bin/python3.12";
	model->process.user = "alice";
	model->process.uid = 1000;
	model->process.container = "5f2c1e";
	model->process.uptime_s = 792123.5;
	model->process.state = 'S';
	model->process.tracer_name = "";
	model->process.uses_cuda = true;
	model->versions = (struct vt_model_versions){
		.torch = "2.11.0+cu130",
		.torch_layout = "2.11 to 2.12",
		.python = "3.12.3",
		.driver = "580.159.03",
		.cuda_driver = 13000,
		.cuda_runtime = 13000,
	};
	model->cuda_method = VT_METHOD_INSIDE;
	model->timing = (struct vt_model_timing){
		.total_ms = 84.2,
		.attach_ms = 41,
		.borrowed_us = 212,
		.borrowed_tid = 41273,
		.walk_ms = 1.9,
		.stopped_ms = 3.1,
		.stacks_ms = 22,
	};
	model->stacks_coherent = true;
}

/* Blocks of the sizes that a transformer has. */
static void add_training_blocks(struct vt_model *model)
{
	report_add_segment(model, 0, 0, 0);
	for (int i = 0; i < 412; i++) {
		if (i % 20 == 19)
			report_add_segment(model, 0, 0, 0);
		report_add_block(model, VT_BLOCK_ALLOCATED, 22 * MIB, 22 * MIB - 300000);
		if (i % 5 == 0)
			report_add_block(model, VT_BLOCK_CACHED, 4 * MIB + (uint64_t)(i % 7) * MIB,
					 0);
	}
	for (int i = 0; i < 28; i++) {
		report_add_segment(model, 0, 0, 0);
		report_add_block(model, VT_BLOCK_ALLOCATED, 2 * GIB + 38 * MIB, 2 * GIB + 38 * MIB);
	}
	report_add_segment(model, 0, 0x55d0c0ffee00, 0);
	for (int i = 0; i < 12; i++)
		report_add_block(model, VT_BLOCK_AWAITING_FREE, 50 * MIB, 50 * MIB - 12);
	report_add_segment(model, 0, 0, 0);
	report_add_block(model, VT_BLOCK_CACHED, 1228 * MIB, 0);
	report_add_segment(model, VT_BLOCK_PRIVATE_POOL, 0x55d0c0ffee00, UINT64_C(1) << 32);
	report_add_block(model, VT_BLOCK_ALLOCATED, 612 * MIB, 612 * MIB);
	report_add_block(model, VT_BLOCK_CACHED, 412 * MIB, 0);
	report_add_segment(model, VT_BLOCK_SMALL_POOL, 0, 0);
	for (int i = 0; i < 9000; i++) {
		if (i % 64 == 63)
			report_add_segment(model, VT_BLOCK_SMALL_POOL, 0, 0);
		report_add_block(model, i % 9 ? VT_BLOCK_ALLOCATED : VT_BLOCK_CACHED,
				 512 + (uint64_t)(i % 20) * 512,
				 i % 9 ? 4 + (uint64_t)(i % 20) * 512 : 0);
	}
}

static void add_training_stats(struct vt_model_allocator *a)
{
	a->result.have_stats = 1;
	a->result.stats.allocated_bytes = (struct vt_torch_stat){
		.current = (int64_t)a->result.bytes[VT_BLOCK_ALLOCATED],
		.peak = 72 * (int64_t)GIB,
		.allocated = 1 << 30,
		.freed = 1 << 20,
	};
	a->result.stats.reserved_bytes = (struct vt_torch_stat){
		.current = (int64_t)(a->result.bytes[0] + a->result.bytes[1] + a->result.bytes[2]),
		.peak = 75 * (int64_t)GIB,
	};
	a->result.stats.num_alloc_retries = 14;
	a->result.stats.num_ooms = 2;
}

static void add_main_stack(struct vt_model *model, struct vt_model_thread *t)
{
	report_add_native(model, t, "__futex_abstimed_wait_common64", "libc.so.6", 0x98d61);
	report_add_native(model, t, "pthread_cond_timedwait@@GLIBC_2.3.2", "libc.so.6", 0x9bf1c);
	report_add_native(model, t, NULL, "libcuda.so.580.159.03", 0x2f81c4);
	report_add_native(model, t, NULL, "libcuda.so.580.159.03", 0x3a0277);
	report_add_native(model, t, "cudaStreamSynchronize", "libcudart.so.13.0.96", 0x5c1a0);
	report_add_native(
		model, t,
		"at::native::_local_scalar_dense_cuda(at::Tensor const&)::{lambda()#1}::operator()() const",
		"libtorch_cuda.so", 0x31c4ab7);
	report_add_native(model, t, "at::native::_local_scalar_dense_cuda(at::Tensor const&)",
			  "libtorch_cuda.so", 0x31c4f01);
	report_add_native(model, t, "torch::autograd::THPVariable_item(_object*, _object*)",
			  "libtorch_python.so", 0x6a11c0);
	report_add_native(model, t, "method_vectorcall_NOARGS", "python3.12", 0x1c9100);
	report_add_python(model, t, "Trainer.train_step", "/home/alice/llama/train.py", 88);
	report_add_python(model, t, "Trainer.fit", "/home/alice/llama/train.py", 141);
	report_add_native(model, t, "_PyObject_FastCallDictTstate", "python3.12", 0x1a11c0);
	report_add_native(model, t, "slot_tp_call", "python3.12", 0x1d01c0);
	report_add_python(
		model, t, "Module._call_impl",
		"/home/alice/venv/lib/python3.12/site-packages/torch/nn/modules/module.py", 1773);
	report_add_python(model, t, "main", "/home/alice/llama/train.py", 191);
	report_add_python(model, t, "<module>", "/home/alice/llama/train.py", 203);
	report_add_native(model, t, "PyEval_EvalCode", "python3.12", 0x2a11c0);
	report_add_native(model, t, "run_mod", "python3.12", 0x2a91c0);
	report_add_native(model, t, "pymain_run_file_obj", "python3.12", 0x2b11c0);
	report_add_native(model, t, "Py_RunMain", "python3.12", 0x2c11c0);
	report_add_native(model, t, "__libc_start_call_main", "libc.so.6", 0x29d90);
	report_add_native(model, t, "_start", "python3.12", 0x1c25);
}

static void add_idle_thread(struct vt_model *model, pid_t tid, const char *name)
{
	struct vt_model_thread *t = report_add_thread(model, tid, name);

	t->idle = true;
	t->syscall = "futex";
	report_does(model, t, NULL, "waits for futex 0x7f11a0c8");
	report_add_native(model, t, "__futex_abstimed_wait_common64", "libc.so.6", 0x98d61);
	report_add_native(model, t, "std::condition_variable::wait(std::unique_lock<std::mutex>&)",
			  "libstdc++.so.6", 0xdbc1);
	report_add_native(model, t, "c10::ThreadPool::main_loop(unsigned long)", "libc10.so",
			  0x9a1c2);
	report_add_native(model, t, "clone3", "libc.so.6", 0x1268c0);
}

static void add_training_threads(struct vt_model *model)
{
	struct vt_model_thread *t = report_add_thread(model, 41273, "python3");
	static const char allreduce[] =
		"c10d::ProcessGroupNCCL::allreduce_impl(at::Tensor&, char const*, c10d::AllreduceOptions const&)";

	t->is_main = true;
	t->gil = 0;
	t->syscall = "futex";
	report_does(model, t, "in cudaStreamSynchronize", "waits for futex 0x7ffc31c8a0");
	add_main_stack(model, t);

	t = report_add_thread(model, 41530, "pt_nccl_watchdg");
	t->syscall = "futex";
	report_does(model, t, "in cudaEventQuery", NULL);
	report_add_native(model, t, "ncclGroupEndInternal", "libnccl.so.2", 0x5d1c7);
	report_add_native(model, t, allreduce, "libtorch_cuda.so", 0x11a0c8f);
	report_add_native(
		model, t,
		"void std::__invoke_impl<void, void (c10d::ProcessGroupNCCL::*)(), c10d::ProcessGroupNCCL*>"
		"(std::__invoke_memfun_deref, void (c10d::ProcessGroupNCCL::*&&)(), c10d::ProcessGroupNCCL*&&)",
		"libtorch_cuda.so", 0x11a0d00);
	report_add_native(model, t, NULL, "libstdc++.so.6", 0xdc253);
	report_add_native(model, t, "start_thread", "libc.so.6", 0x94ac3);

	for (int i = 0; i < 3; i++) {
		t = report_add_thread(model, 41600 + i, "pt_data_worker");
		t->gil = 0;
		report_does(model, t, NULL, "waits in poll on 3 descriptors");
		t->syscall = "poll";
		report_add_native(model, t, "__GI___poll", "libc.so.6", 0x118bcf);
		report_add_native(model, t, "select_poll_poll", "python3.12", 0x1bcf);
		report_add_python(model, t, "wait",
				  "/usr/lib/python3.12/multiprocessing/connection.py", 1136);
		report_add_python(
			model, t, "_worker_loop",
			"/home/alice/venv/lib/python3.12/site-packages/torch/utils/data/_utils/worker.py",
			351);
		report_add_python(model, t, "Thread.run", "/usr/lib/python3.12/threading.py", 1010);
	}
	for (int i = 0; i < 24; i++)
		add_idle_thread(model, 41700 + i, i < 16 ? "pt_autograd_0" : "cuda-EvtHandlr");
}

static void add_process_groups(struct vt_model *model, const char *description, const char *input)
{
	struct vt_model_collectives *c = &model->collectives;
	struct vt_model_process_group *g = checked(vt_vec_append(&c->groups));

	c->told_ms = 1790000000000;
	*g = (struct vt_model_process_group){ .backend = "nccl",
					      .name = "0",
					      .description = description,
					      .ranks = "0-7",
					      .last_enqueued = 4172,
					      .last_started = -1,
					      .last_completed = 4171,
					      .operation = "all_reduce",
					      .n_pending = 2 };
	g->oldest = (struct vt_model_operation){ .name = "all_reduce",
						 .number = 4172,
						 .started = -1,
						 .input = input,
						 .age_ms = 93000,
						 .timeout_ms = 600000 };
	g = checked(vt_vec_append(&c->groups));
	*g = (struct vt_model_process_group){ .backend = "gloo",
					      .name = "1",
					      .description = "",
					      .last_enqueued = -1,
					      .last_started = -1,
					      .last_completed = -1 };
}

static void build_training(struct vt_model *model)
{
	struct vt_model_allocator *a;

	add_identity(model);
	model->process.rank = 3;
	model->process.local_rank = 3;
	model->process.world_size = 8;
	model->process.ns_pid = 7;
	model->process.pod = "trainer-0";
	model->process.job = "slurm 4711";
	a = report_add_allocator(model, 0);
	add_training_blocks(model);
	add_training_stats(a);
	report_add_device(model, 0, 80 * GIB - 929 * MIB, 80 * GIB - 400 * MIB);
	report_add_device(model, 1, 0, 80 * GIB)->have_memory = false;
	model->devices.data[1].context_active = false;
	model->devices.data[1].context = 0;
	add_training_threads(model);
	report_add_pinned(model);
	add_process_groups(model, "default_pg", "[4096, 4096] BFloat16");
}

/* A thread sits in cudaMalloc with the allocator's lock, and the device is full. */
/* No block is PyTorch's own: the driver has them all, in two pools. */
static void build_pools(struct vt_model *model)
{
	struct vt_model_device *d;

	add_identity(model);
	d = report_add_device(model, 0, 9 * GIB, 80 * GIB);
	d->pools_known = true;
	d->n_pools = 2;
	d->pools[0] = (struct vt_model_pool){ false, 3 * GIB, 4 * GIB, 2 * GIB, 4 * GIB };
	d->pools[1] = (struct vt_model_pool){ true, GIB, GIB, GIB / 2, GIB };
	model->torch_state = VT_ALLOCATOR_ASYNC;
}

static void add_other_ranges(struct vt_model *model)
{
	struct vt_model_ledger_device *d = report_add_ledger(model, 0);

	d->local = (struct vt_model_local_memory){
		.known = true, .stack_bytes = 1024, .multiprocessors = 132, .threads = 2048
	};
	d->graph_known = true;
	d->graph_used_bytes = 32 * MIB;
	d->graph_reserved_bytes = 64 * MIB;
	report_add_range(model, VT_RANGE_DEVICE, 0, 64 * MIB);
	report_add_range(model, VT_RANGE_DEVICE, 0, 3 * MIB + 1);
	for (int i = 0; i < 20; i++)
		report_add_range(model, VT_RANGE_MAPPED, 0, 2 * MIB)->rec.exportable = i % 2;
	report_add_range(model, VT_RANGE_DATA, 0, 1000);
	report_add_range(model, VT_RANGE_ARRAY, 0, 5 * MIB);
	report_add_range(model, VT_RANGE_GRAPH, 0, 20 * MIB);
	report_add_range(model, VT_RANGE_MANAGED, 0, 16 * MIB);
	report_add_range(model, VT_RANGE_HOST, 0, 5 * MIB);
	report_add_range(model, VT_RANGE_POOL, 0, 48 * MIB)->rec.pool = 0xb001;
	*(struct vt_model_ledger_pool *)checked(vt_vec_append(&model->ledger.pools)) =
		(struct vt_model_ledger_pool){ 0, 0xb001, true, 96 * MIB, 48 * MIB };
}

static void build_ledger(struct vt_model *model)
{
	build_training(model);
	add_other_ranges(model);
	report_add_pytorch_ranges(model);
}

static void build_no_pytorch(struct vt_model *model)
{
	add_identity(model);
	report_add_device(model, 0, 9 * GIB, 80 * GIB);
	model->torch_state = VT_ALLOCATOR_NOT_LOADED;
	add_other_ranges(model);
}

static void build_held(struct vt_model *model)
{
	struct vt_model_allocator *a;

	build_training(model);
	a = &model->allocators.data[0];
	a->result.lock = VT_LOCK_HELD_BY;
	a->result.owner_tid = 41530;
	a->owner_name = "pt_nccl_watchdg";
	a->method = VT_METHOD_OUTSIDE;
	report_does(model, &model->threads.data[1], "in cudaMalloc", NULL);
	model->threads.data[1].state = 'D';
	model->threads.data[1].gil = 1;
	vt_model_diag(
		model, VT_DIAG_NOTE, VT_STAGE_TORCH, "lock-held",
		"GPU 0: the allocator's lock was held for 500 ms, so its blocks were read without it; every check held");
}

/* The job had its backtraces recorded. */
static void build_recorded(struct vt_model *model)
{
	enum { EMPTY, LINEAR, FORWARD, BLOCK, LAYERS, STEP, MAIN, SOFTMAX, ADD };
	static const struct vt_model_frame frames[] = {
		[EMPTY] = { .kind = VT_FRAME_NATIVE,
			    .function = "at::native::empty_cuda(c10::ArrayRef<long>)",
			    .build_id = "00ff",
			    .module = "libtorch_cuda.so",
			    .pc = 0x7f0000123456,
			    .module_offset = 0x123456 },
		[LINEAR] = { .kind = VT_FRAME_PYTHON,
			     .function = "Linear.forward",
			     .line = 125,
			     .file = "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py" },
		[FORWARD] = { .kind = VT_FRAME_PYTHON,
			      .function = "Attention.forward",
			      .file = "/home/alice/model/attn.py",
			      .line = 57 },
		[BLOCK] = { .kind = VT_FRAME_PYTHON,
			    .function = "Block.forward",
			    .file = "/home/alice/model/net.py",
			    .line = 20 },
		[LAYERS] = { .kind = VT_FRAME_PYTHON,
			     .function = "Net.forward",
			     .file = "/home/alice/model/net.py",
			     .line = 31 },
		[STEP] = { .kind = VT_FRAME_PYTHON,
			   .function = "train_step",
			   .file = "/home/alice/train.py",
			   .line = 80 },
		[MAIN] = { .kind = VT_FRAME_PYTHON,
			   .function = "main",
			   .file = "/home/alice/train.py",
			   .line = 91 },
		[SOFTMAX] = { .kind = VT_FRAME_NATIVE,
			      .function = "at::native::host_softmax<at::native::SoftMaxForward>",
			      .line = 3,
			      .file = "/src/SoftMax.cu",
			      .module = "libtorch_cuda.so",
			      .pc = 0x7f0000223456,
			      .build_id = "" },
		[ADD] = { .kind = VT_FRAME_NATIVE, .pc = 0x7f0000323456, .build_id = "" },
	};
	static const uint32_t attention[] = { EMPTY,  LINEAR, FORWARD, BLOCK,
					      LAYERS, STEP,   MAIN,    UINT32_MAX },
			      once_more[] = { EMPTY,  SOFTMAX, LINEAR, FORWARD,
					      LAYERS, STEP,    MAIN,   UINT32_MAX },
			      mlp[] = { EMPTY, LINEAR, BLOCK, LAYERS, STEP, MAIN, UINT32_MAX },
			      autograd[] = { EMPTY, SOFTMAX, ADD, UINT32_MAX },
			      nameless[] = { ADD, UINT32_MAX },
			      torch_only[] = { LINEAR, UINT32_MAX }, none[] = { UINT32_MAX },
			      optimizer[] = { EMPTY, STEP, MAIN, UINT32_MAX };
	static const uint32_t *const traces[] = { attention, once_more,  mlp,  autograd,
						  nameless,  torch_only, none, optimizer };

	build_training(model);
	report_add_traces(model, frames, sizeof(frames) / sizeof(frames[0]), traces,
			  sizeof(traces) / sizeof(traces[0]));
}

/* And vramtap's recorder is on, too. */
static void build_recorder(struct vt_model *model)
{
	static const char *const threads[] = { "python3", "pt_autograd_0", "" };

	build_recorded(model);
	report_add_recorder(model, threads, 3);
}

/* It takes samples by now, and of nothing in use is there a record. */
static void build_sampled(struct vt_model *model)
{
	build_recorder(model);
	model->recorder.sample_bytes = 64 * KIB;
	model->recorder.sample_now_bytes = MIB;
	model->recorder.since_last = true;
}

static void build_just_on(struct vt_model *model)
{
	uint32_t *of_block;

	build_training(model);
	of_block =
		checked(vt_arena_alloc(&model->arena, (model->n_blocks + 1) * sizeof(*of_block)));
	for (size_t i = 0; i < model->n_blocks; i++)
		of_block[i] = VT_UNTRACED(VT_UNTRACED_NOT_RECORDED);
	model->block_traces = of_block;
	model->recorder = (struct vt_model_recorder){ .state = VT_RECORDING_ON,
						      .on_ns = 3 * SECOND,
						      .python = true };
}

static void build_unstable(struct vt_model *model)
{
	build_training(model);
	model->allocators.data[0].result.result = VT_WALK_UNSTABLE;
	model->allocators.data[0].result.dropped = 12;
	strcpy(model->allocators.data[0].result.why, "a block's neighbours did not agree");
	model->torch_method = VT_METHOD_OUTSIDE;
	model->pinned.result = VT_WALK_UNSTABLE;
	model->pinned.same_blocks = true;
	model->pinned.counted = false;
	model->pinned.why = "its blocks change all the time";
	model->cuda_method = VT_METHOD_NONE;
	model->timing.borrowed_tid = 0;
	model->timing.borrowed_us = 0;
	model->devices.n = 0;
	vt_model_diag(
		model, VT_DIAG_MISSING, VT_STAGE_INJECT, "seccomp",
		"the process runs under a seccomp filter, so nothing was run in it: the devices' free memory is not known; "
		"nvidia-smi shows it");
}

static void build_refused(struct vt_model *model)
{
	build_training(model);
	model->allocators.data[0].result.result = VT_WALK_REFUSED;
	memset(model->allocators.data[0].result.why, 'x',
	       sizeof(model->allocators.data[0].result.why));
	model->pinned.result = VT_WALK_REFUSED;
	model->pinned.why = "two blocks overlap";
}

/* The helper's answer contradicts itself. */
static void build_contradiction(struct vt_model *model)
{
	build_training(model);
	model->allocators.data[0].result.bytes[VT_BLOCK_CACHED] += 512;
}

/* The core of a crash, cut short; path and names are those of whoever made it. */
static void build_core(struct vt_model *model)
{
	struct vt_model_thread *t;

	add_identity(model);
	model->process.user = "";
	model->process.uptime_s = 0;
	model->core = (struct vt_model_core){
		.path = "/var/crash/\xff\x1b[2Jcore.train.41273",
		.size = UINT64_C(3) << 30,
		.missing_bytes = 4096,
		.read_bytes = 9 << 20,
		.signal = 11,
		.signal_name = "SIGSEGV",
		.killed = true,
		.signal_tid = model->process.pid + 1,
		.have_address = true,
		.address = 0x10,
	};
	report_add_thread(model, model->process.pid, "")->is_main = true;
	t = report_add_thread(model, model->process.pid + 1, "");
	report_add_native(model, t, "crash", "libuser.so", 0x1234);
	model->stacks_coherent = true;
	vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_CORE, "cut-short", "the core is cut short");
}

/* A debugger holds it: the driver was not asked for the devices. */
static void build_debugged(struct vt_model *model)
{
	build_training(model);
	model->devices.n = 0;
	model->cuda_method = VT_METHOD_NONE;
	model->torch_method = VT_METHOD_OUTSIDE;
	model->held_by = "gdb";
	for (size_t i = 0; i < model->allocators.n; i++)
		model->allocators.data[i].method = VT_METHOD_OUTSIDE;
}

static void add_counted(struct vt_model *model, const struct vt_model_counted *from)
{
	struct vt_model_counted *p = checked(vt_vec_append(&model->usage.processes));
	const char **texts[] = { &p->name, &p->command, &p->user, &p->container, &p->pod };

	*p = *from;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
		if (!*texts[i])
			*texts[i] = "";
}

/* Others use the device, too: one has ended, one is gone, and one has a hostile name. */
static void build_shared(struct vt_model *model)
{
	const struct vt_model_device *d;
	struct vt_model_gpu *gpu;
	uint64_t ours, other;

	build_training(model);
	d = &model->devices.data[0];
	ours = d->used_bytes / 10 * 9;
	other = d->used_bytes / 20;
	model->usage.state = VT_COUNTED_READ;
	model->usage.why = "";
	model->usage.whole = true;
	model->usage.ms = 0.4;
	gpu = checked(vt_vec_append(&model->usage.gpus));
	*gpu = (struct vt_model_gpu){
		.uuid = "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
		.pci = "00000000:1B:00.0",
		.name = d->name,
		.ordinal = d->ordinal,
		.parent = -1,
		.memory_known = true,
		.total_bytes = d->total_bytes,
		.used_bytes = d->used_bytes,
		.reserved_known = true,
		.reserved_bytes = UINT64_C(630) << 20,
		.processes_known = true,
		.compared = true,
	};
	add_counted(model, &(struct vt_model_counted){ .pid = model->process.pid,
						       .ours = true,
						       .bytes_known = true,
						       .bytes = ours,
						       .rank = 3 });
	add_counted(model, &(struct vt_model_counted){ .pid = 5151,
						       .ns_pid = 37,
						       .bytes_known = true,
						       .bytes = other,
						       .rank = 4,
						       .name = "python3",
						       .command = "python3 serve.py --port 8000",
						       .user = "alice",
						       .container = "0123456789ab",
						       .pod = "serve-0" });
	add_counted(model, &(struct vt_model_counted){ .pid = 6161,
						       .life = VT_LIFE_ZOMBIE,
						       .bytes_known = true,
						       .bytes = other / 2,
						       .rank = -1,
						       .name = "\033[2J\xff\n" });
	add_counted(model, &(struct vt_model_counted){ .pid = 7171,
						       .life = VT_LIFE_GONE,
						       .bytes_known = true,
						       .bytes = other / 4,
						       .rank = -1 });
	for (int i = 0; i < 6; i++)
		add_counted(model, &(struct vt_model_counted){ .pid = 8000 + i,
							       .bytes_known = true,
							       .bytes = 1000000,
							       .mps = true,
							       .rank = -1,
							       .name = "small" });
	vt_model_usage_account(&model->usage);
}

static void add_fault(struct vt_model *model, const struct vt_model_xid *from)
{
	struct vt_model_xid *xid = checked(vt_vec_append(&model->faults.xids));

	*xid = *from;
	xid->pci = "0000:1B:00";
	xid->first = xid->last = model->when;
	xid->first.tv_sec -= 500;
	xid->last.tv_sec -= 100;
	if (!xid->name)
		xid->name = "";
}

/* Of this process, of another with a hostile name, of nobody, and one that is not known. */
static void build_faults(struct vt_model *model)
{
	build_shared(model);
	model->usage.gpus.data[0].health = (struct vt_usage_health){
		.known = VT_HEALTH_ALL & ~VT_HEALTH_RETIRED,
		.ecc_now = 2,
		.ecc_ever = 5,
		.rows_remapped = 1,
		.remap_pending = 1,
		.slow = 0x48,
		.celsius = 90,
		.milliwatt = 300000,
		.milliwatt_limit = 700000,
		.sm_mhz = 345,
		.sm_mhz_limit = 1980,
		.busy_percent = 100,
		.memory_busy_percent = 37,
	};
	model->faults.state = VT_FAULTS_CUT;
	model->faults.why = "";
	model->faults.ms = 1.5;
	add_fault(model,
		  &(struct vt_model_xid){ .code = 31,
					  .owner = VT_FAULT_OURS,
					  .pid = model->process.pid,
					  .name = "python3",
					  .text = "channel 0x0000000a, intr 00000000. MMU Fault",
					  .n = 3 });
	add_fault(model, &(struct vt_model_xid){ .code = 109,
						 .owner = VT_FAULT_OTHERS,
						 .pid = 5151,
						 .name = "\033[2J\xff\n",
						 .text = "\033[2J\xff\n",
						 .n = 1 });
	add_fault(model, &(struct vt_model_xid){ .code = 79,
						 .owner = VT_FAULT_NOBODYS,
						 .text = "GPU has fallen off the bus.",
						 .device = -1,
						 .n = 1 });
	add_fault(model,
		  &(struct vt_model_xid){
			  .code = 9999, .owner = VT_FAULT_UNKNOWN, .pid = 1, .text = "", .n = 1 });
}

static void build_no_cuda(struct vt_model *model)
{
	struct vt_model_thread *t;

	add_identity(model);
	model->process.uses_cuda = false;
	model->process.cmdline = "sleep 600";
	model->process.container = "";
	model->versions = (struct vt_model_versions){
		.torch = "", .torch_layout = "", .python = "", .driver = ""
	};
	model->cuda_method = VT_METHOD_NONE;
	model->torch_state = VT_ALLOCATOR_NOT_LOADED;
	model->timing = (struct vt_model_timing){ .total_ms = 4.2, .stopped_ms = 0.31 };
	t = report_add_thread(model, 41273, "sleep");
	t->is_main = true;
	t->syscall = "clock_nanosleep";
	report_does(model, t, NULL, "waits in clock_nanosleep, 412 s to go");
	report_add_native(model, t, "clock_nanosleep@@GLIBC_2.17", "libc.so.6", 0xe57f8);
	report_add_native(model, t, "main", "sleep", 0x2b21);
	model->collectives.why = "PyTorch was not asked: this process never used CUDA";
}

/*
 * The main thread holds the GIL and waits for a mutex; its owner waits for the GIL. A third
 * thread waits for a disk.
 */
static void build_deadlock(struct vt_model *model)
{
	static const struct vt_model_local locals[] = {
		{ "step", "3" },
		{ "batch", "tensor float16 [8, 4096] on cuda:0" },
		{ "\xff", NULL },
	};
	static const char *const kernel[] = { "folio_wait_bit_common+0x1a2/0x340",
					      "filemap_read+0x412/0x4f0" };
	struct vt_model_thread *t;

	build_no_cuda(model);
	t = &model->threads.data[0];
	t->gil = 1;
	report_does(model, t, NULL, "waits for a lock held by 41280 (loader)");
	t->waits_for = 41280;
	t->deadlock = true;
	report_add_python(model, t, "next_batch", "/job/train.py", 18);
	t->stack.frames[t->stack.n_frames - 1].locals = locals;
	t->stack.frames[t->stack.n_frames - 1].n_locals = 3;
	t->stack.frames[t->stack.n_frames - 1].locals_cut = true;
	t = report_add_thread(model, 41280, "loader");
	t->gil = 0;
	t->verdict = (struct vt_verdict){ .code = VT_VERDICT_GIL,
					  .holder = 41273,
					  .holder_name = "sleep" };
	t->waits_for = 41273;
	t->deadlock = true;
	t->taken = VT_TAKEN_ASLEEP;
	report_add_python(model, t, "refill", "/job/train.py", 14);
	t = report_add_thread(model, 41281, "reader");
	t->state = 'D';
	t->taken = VT_TAKEN_ASLEEP;
	report_does(model, t, "waits for a disk", NULL);
	t->wchan = "folio_wait_bit_common";
	t->kernel = kernel;
	t->n_kernel = 2;
	report_add_native(model, t, "read", "libc.so.6", 0x11bd6a);
	t = report_add_thread(model, 41282, "runner");
	t->state = 'R';
	t->taken = VT_TAKEN_RUNNING;
	t->stack.why = "it was running";
	report_add_python(model, t, "burn", "/job/train.py", 40);
}

static void build_many_devices(struct vt_model *model)
{
	add_identity(model);
	for (int i = 0; i < 64; i++) {
		struct vt_model_allocator *a;
		struct vt_model_device *d =
			report_add_device(model, i, (uint64_t)(i + 1) * GIB, 80 * GIB);

		if (i >= 40 && i != 50) {
			d->have_memory = false;
			d->context_active = false;
			continue;
		}
		a = report_add_allocator(model, i);
		for (int k = 0; k < i % 5; k++)
			report_add_block(model, k % 3 ? VT_BLOCK_CACHED : VT_BLOCK_ALLOCATED,
					 (uint64_t)(k + 1) * 20 * MIB,
					 k % 3 ? 0 : (uint64_t)(k + 1) * 20 * MIB);
		if (i % 11 == 3)
			a->result.result = VT_WALK_TRUNCATED;
	}
}

static void build_many_threads(struct vt_model *model)
{
	add_identity(model);
	report_add_device(model, 0, 3 * GIB, 80 * GIB);
	model->torch_state = VT_ALLOCATOR_NOT_INITIALISED;
	for (int i = 0; i < 200; i++) {
		struct vt_model_thread *t = report_add_thread(
			model, 1000 + i, vt_arena_printf(&model->arena, "worker-%d", i));

		t->is_main = i == 0;
		t->gil = i == 17;
		t->state = i % 50 == 1 ? 'D' : i % 3 ? 'S' : 'R';
		t->idle = i % 4 == 3;
		for (int k = 0; k < i % 40; k++) {
			if (k % 3 == 2)
				report_add_python(model, t, "spin", "/srv/app/spin.py",
						  10 + i % 25);
			else
				report_add_native(model, t, k % 2 ? "loop" : NULL, "libapp.so",
						  0x1000 + (uint64_t)k * 16);
		}
		if (t->stack.n_frames == 0)
			t->stack.why = "did not stop within 100 ms";
		t->stack.truncated = i % 13 == 5;
		t->stack.merge_uncertain = i % 17 == 6;
	}
}

static char *long_text(struct vt_model *model, const char *piece, size_t n)
{
	size_t len = strlen(piece);
	char *text = checked(vt_arena_alloc(&model->arena, len * n + 1));

	for (size_t i = 0; i < n; i++)
		memcpy(text + i * len, piece, len);
	return text;
}

/* Every string is bad in its own way. */
static void build_hostile(struct vt_model *model)
{
	static const char *const bad[] = {
		"\033[2J\033[31mred\033]0;title\007",
		"\xff\xfe\x80\xc3(",
		"a\u202egpj.exe",
		"tab\there\nand\rthere",
		"\u4e2d\u6587\u5b57\u7b26\u4e32\u5bbd\u5ea6",
		"e\u0301\u0301\u0301\u0301",
		"\U0001f525\U0001f680",
		"\2331m",
		"\"quotes\" \\ and / {}",
		"\u2066\u2069\ufeff\u200b",
		"%s%n%d",
		"",
	};
	static const uint32_t odd[] = { 1, 3, 5, 7, 9, 11, UINT32_MAX },
			      even[] = { 0, 2, 4, 6, 8, UINT32_MAX },
			      last[] = { 24, 25, 26, UINT32_MAX };
	static const uint32_t *const hostile_traces[] = { odd, even, last };
	size_t n = sizeof(bad) / sizeof(bad[0]);
	struct vt_model_thread *t;

	build_training(model);
	model->process.cmdline = long_text(model, "\033[1m\u4e2d\xff ", 20000);
	model->process.name = bad[0];
	model->process.user = bad[2];
	model->process.container = long_text(model, "\u0301", 5000);
	model->process.pod = long_text(model, "\033[2J", 900);
	model->process.job = bad[1];
	model->where.host = long_text(model, "\033[1m\n", 300);
	model->where.zone = bad[2];
	model->where.utc_offset_min = -1440;
	model->process.exe = bad[3];
	model->process.tracer = 7;
	model->process.tracer_name = bad[7];
	model->process.uptime_s = -1e300;
	model->process.rank = 2000000000;
	model->process.world_size = 2100000000;
	model->versions.torch = bad[1];
	model->versions.python = long_text(model, "\u4e2d", 300);
	model->versions.driver = bad[0];
	model->timing.total_ms = 1.0 / 0.0;
	model->timing.borrowed_us = 0.0 / 0.0;
	model->devices.data[0].name = long_text(model, "\033", 300);
	model->devices.data[1].why_no_memory = bad[6];
	model->allocators.data[0].owner_name = bad[0];
	model->allocators.data[0].result.lock = VT_LOCK_HELD_BY;
	model->allocators.data[0].result.owner_tid = -5;
	model->allocators.data[0].result.stats.num_ooms = INT64_MIN;
	model->allocators.data[0].result.stats.num_alloc_retries = INT64_MAX;
	model->allocators.data[0].result.stats.allocated_bytes.peak = INT64_MAX;
	for (size_t i = 0; i < 3 * n; i++) {
		t = report_add_thread(model, (pid_t)(50000 + i), bad[i % n]);
		t->state = (char)(i * 37);
		report_does(model, t, i % 3 ? bad[(i + 2) % n] : NULL,
			    i % 2 ? bad[(i + 1) % n] : NULL);
		for (size_t k = 0; k < n; k++) {
			report_add_python(model, t, bad[k], bad[(k + i) % n], -7);
			report_add_native(model, t, bad[(k + i) % n], bad[k], UINT64_MAX / 2 + k);
		}
		report_add_native(model, t, long_text(model, "ns<a<b>(c)>::", 4000), NULL, 1);
		report_add_native(model, t, long_text(model, "\u4e2d\u6587", 4000),
				  long_text(model, "m\033", 2000), 1);
		report_add_python(model, t, long_text(model, "\xf0\x9f", 4000),
				  long_text(model, "/\U0001f525", 9000), 2147483647);
		t->stack.why = bad[i % n];
		t->wchan = bad[(i + 3) % n];
		t->kernel = bad;
		t->n_kernel = n;
		t->waits_for = (pid_t)(50000 + i * 7 % (3 * n + 1));
		t->deadlock = true;
		t->taken = (enum vt_taken)(i % 3);
		t->stack.frames[0].locals = (const struct vt_model_local *)(const void *)bad;
		t->stack.frames[0].n_locals = n / 2;
	}
	report_add_traces(model, model->threads.data[model->threads.n - 1].stack.frames,
			  model->threads.data[model->threads.n - 1].stack.n_frames, hostile_traces,
			  3);
	report_add_recorder(model, bad, n);
	for (size_t i = 0; i < 40; i++)
		vt_model_diag(model, i % 2 ? VT_DIAG_NOTE : VT_DIAG_MISSING, VT_STAGE_PROCESS,
			      "hostile", "%zu %s %s", i, bad[i % n],
			      i % 5 ? "" : model->process.cmdline);
	add_process_groups(model, "\033[31m\xff\n", "\xe2\x80\xae[8]\a");
}

static void build_nothing(struct vt_model *model)
{
	add_identity(model);
	model->cuda_method = VT_METHOD_NONE;
	model->timing = (struct vt_model_timing){ .total_ms = 1.2 };
	vt_model_diag(model, VT_DIAG_MISSING, VT_STAGE_PROCESS, "not-permitted",
		      "not permitted to read the process (it belongs to bob): run this as root");
}

static void build_empty(struct vt_model *model)
{
	(void)model;
}

static const struct {
	const char *name;
	void (*build)(struct vt_model *model);
} models[] = {
	{ "training", build_training },
	{ "pools", build_pools },
	{ "ledger", build_ledger },
	{ "no-pytorch", build_no_pytorch },
	{ "held", build_held },
	{ "recorded", build_recorded },
	{ "recorder", build_recorder },
	{ "sampled", build_sampled },
	{ "just-on", build_just_on },
	{ "unstable", build_unstable },
	{ "refused", build_refused },
	{ "contradiction", build_contradiction },
	{ "core", build_core },
	{ "debugged", build_debugged },
	{ "shared", build_shared },
	{ "faults", build_faults },
	{ "no-cuda", build_no_cuda },
	{ "deadlock", build_deadlock },
	{ "many-devices", build_many_devices },
	{ "many-threads", build_many_threads },
	{ "hostile", build_hostile },
	{ "nothing", build_nothing },
	{ "empty", build_empty },
};

const char *const report_model_names[] = {
	"training",     "held",         "recorded",      "recorder", "sampled", "just-on",
	"unstable",     "refused",      "contradiction", "debugged", "no-cuda", "deadlock",
	"many-devices", "many-threads", "hostile",       "nothing",  "empty",   "shared",
	"ledger",       "no-pytorch",   "faults",        NULL,
};

bool report_model_fill(struct vt_model *model, const char *name)
{
	for (size_t i = 0; i < sizeof(models) / sizeof(models[0]); i++) {
		if (strcmp(models[i].name, name) != 0)
			continue;
		vt_model_init(model);
		models[i].build(model);
		return true;
	}
	return false;
}

bool report_model_build(struct vt_model *model, const char *name)
{
	return report_model_fill(model, name) && vt_model_account(model);
}
