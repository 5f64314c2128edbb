/* SPDX-License-Identifier: Apache-2.0 */
#include "unit/job/job_models.h"

#include <stdio.h>
#include <string.h>

#include "job/internal.h"
#include "unit/report/report_models.h"

#define GIB (UINT64_C(1) << 30)
#define PER_HOST 8
#define C10D "/usr/lib/python3/dist-packages/torch/distributed/distributed_c10d.py"
#define LOADER "/usr/lib/python3/dist-packages/torch/utils/data/dataloader.py"
#define TRAIN "/home/user/train.py"

/* Where the main thread of a rank is. */
enum where {
	IN_ALL_REDUCE,
	IN_ALL_GATHER,
	IN_OTHER_ALL_REDUCE,
	IN_LOOP,
	IN_SLEEP,
	IN_CUDA_FREE,
	KEPT,
	ON_DEVICE,
	FOR_LOADER,
	ON_NFS,
	STOPPED,
	TRACED,
	GONE,
	UNREADABLE,
};

/* What is wrong, with the culprit and with all others. */
static const struct hang {
	const char *name;
	enum where others, culprit;
	/* the culprit's worker 1 */
	enum { NO_WORKER, WORKER_BUSY, WORKER_STUCK, WORKER_STOPPED, WORKER_GONE } worker;
	bool outsider, imbalance, activations, sequences;
} hangs[] = {
	{ .name = "none", .others = IN_ALL_REDUCE, .culprit = IN_ALL_REDUCE },
	{ .name = "loop", .others = IN_ALL_REDUCE, .culprit = IN_LOOP },
	{ .name = "sleep", .others = IN_ALL_REDUCE, .culprit = IN_SLEEP },
	{ .name = "gpu", .others = ON_DEVICE, .culprit = IN_LOOP },
	{ .name = "different", .others = IN_ALL_REDUCE, .culprit = IN_ALL_GATHER },
	{ .name = "call-site", .others = IN_ALL_REDUCE, .culprit = IN_OTHER_ALL_REDUCE },
	{ .name = "retries", .others = IN_ALL_REDUCE, .culprit = IN_CUDA_FREE },
	{ .name = "oom", .others = IN_ALL_REDUCE, .culprit = KEPT },
	{ .name = "loader",
	  .others = IN_ALL_REDUCE,
	  .culprit = FOR_LOADER,
	  .worker = WORKER_STUCK },
	{ .name = "loaders", .others = FOR_LOADER, .culprit = FOR_LOADER, .worker = WORKER_STUCK },
	{ .name = "loader-busy",
	  .others = IN_ALL_REDUCE,
	  .culprit = FOR_LOADER,
	  .worker = WORKER_BUSY },
	{ .name = "loader-stopped",
	  .others = FOR_LOADER,
	  .culprit = FOR_LOADER,
	  .worker = WORKER_STOPPED },
	{ .name = "loader-gone",
	  .others = FOR_LOADER,
	  .culprit = FOR_LOADER,
	  .worker = WORKER_GONE },
	{ .name = "stuck", .others = IN_ALL_REDUCE, .culprit = ON_NFS },
	{ .name = "stopped", .others = IN_ALL_REDUCE, .culprit = STOPPED },
	{ .name = "traced", .others = IN_ALL_REDUCE, .culprit = TRACED },
	{ .name = "killed", .others = IN_ALL_REDUCE, .culprit = GONE },
	{ .name = "unreadable", .others = IN_ALL_REDUCE, .culprit = UNREADABLE },
	{ .name = "outsider", .others = IN_ALL_REDUCE, .culprit = IN_ALL_REDUCE, .outsider = true },
	{ .name = "imbalance",
	  .others = IN_ALL_REDUCE,
	  .culprit = IN_ALL_REDUCE,
	  .imbalance = true },
	{ .name = "activations",
	  .others = IN_ALL_REDUCE,
	  .culprit = IN_ALL_REDUCE,
	  .activations = true },
	{ .name = "sequences", .others = ON_DEVICE, .culprit = ON_DEVICE, .sequences = true },
};

#define N_HANGS (sizeof(hangs) / sizeof(hangs[0]))

const char *const job_model_hangs[] = {
	"none",        "loop",      "sleep",       "gpu",       "different",   "call-site",
	"retries",     "oom",       "loader",      "loaders",   "loader-busy", "loader-stopped",
	"loader-gone", "stuck",     "stopped",     "traced",    "killed",      "unreadable",
	"outsider",    "imbalance", "activations", "sequences", NULL,
};

static const struct hang *find_hang(const char *name)
{
	for (size_t i = 0; i < N_HANGS; i++)
		if (!strcmp(hangs[i].name, name))
			return &hangs[i];
	return NULL;
}

/* ---- threads ---- */

static void add_program(struct vt_model *model, struct vt_model_thread *t, int line)
{
	report_add_python(model, t, "train_step", TRAIN, line);
	report_add_python(model, t, "main", TRAIN, 210);
	report_add_python(model, t, "<module>", TRAIN, 233);
	report_add_native(model, t, "Py_RunMain", "python3.12", 0x100);
	report_add_native(model, t, "main", "python3.12", 0x200);
}

static void add_collective(struct vt_model *model, struct vt_model_thread *t, const char *function,
			   int line, int call)
{
	char verdict[100];

	report_add_native(model, t, "sched_yield", "libc.so.6", 0x10);
	report_add_native(model, t, "cudaEventQuery", "libcudart.so.12", 0x20);
	report_add_native(model, t, "c10d::ProcessGroupNCCL::WorkNCCL::wait", "libtorch_cuda.so",
			  0x30);
	report_add_python(model, t, function, C10D, line);
	report_add_python(model, t, "wrapper",
			  "/usr/lib/python3/dist-packages/torch/distributed/c10d_logger.py", 81);
	add_program(model, t, call);
	snprintf(verdict, sizeof(verdict), "in cudaEventQuery, for torch.distributed.%s", function);
	report_does(model, t, verdict, NULL);
}

static void add_free(struct vt_model *model, struct vt_model_thread *t)
{
	report_add_native(model, t, "ioctl", "libc.so.6", 0x10);
	report_add_native(model, t, "cudaFree", "libcudart.so.12", 0x20);
	report_add_native(
		model, t,
		"c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::release_cached_blocks",
		"libc10_cuda.so", 0x30);
	report_add_native(model, t,
			  "c10::cuda::CUDACachingAllocator::Native::DeviceCachingAllocator::malloc",
			  "libc10_cuda.so", 0x40);
	report_add_python(model, t, "forward", "/home/user/attn.py", 57);
	add_program(model, t, 87);
	report_does(model, t, "in cudaFree, for the caching allocator, which retries a request",
		    NULL);
	t->state = 'R';
}

static void add_device_wait(struct vt_model *model, struct vt_model_thread *t)
{
	report_add_native(model, t, NULL, "libcuda.so.1", 0x10);
	report_add_native(model, t, NULL, "libcuda.so.1", 0x20);
	report_add_native(model, t, "cudaStreamSynchronize", "libcudart.so.12", 0x20);
	add_program(model, t, 91);
	report_does(model, t, "in cudaStreamSynchronize, for .item() or a copy to the CPU", NULL);
}

static void add_file(struct vt_model *model, struct vt_model_thread *t)
{
	static const char *const kernel[] = { "rpc_wait_bit_killable+0x24/0xa0",
					      "nfs_wait+0x1/0x20" };

	report_add_native(model, t, "read", "libc.so.6", 0x10);
	report_add_python(model, t, "load_shard", "/home/user/data.py", 31);
	t->state = 'D';
	t->kernel = kernel;
	t->n_kernel = 2;
	report_does(model, t, "waits for an NFS server", NULL);
}

static void add_main(struct vt_model *model, enum where where, pid_t pid)
{
	struct vt_model_thread *t = report_add_thread(model, pid, "python3");

	t->is_main = t->has_python = true;
	t->state = 'S';
	switch (where) {
	case IN_ALL_GATHER:
		add_collective(model, t, "all_gather", 3000, 88);
		return;
	case IN_OTHER_ALL_REDUCE:
		add_collective(model, t, "all_reduce", 2806, 95);
		return;
	case IN_LOOP:
		report_add_python(model, t, "find_bin", "/home/user/packing.py", 12 + pid % 3);
		add_program(model, t, 80);
		t->state = 'R';
		t->gil = 1;
		return;
	case IN_SLEEP:
		report_add_native(model, t, "clock_nanosleep", "libc.so.6", 0x10);
		add_program(model, t, 81);
		report_does(model, t, NULL, "waits in clock_nanosleep");
		return;
	case IN_CUDA_FREE:
		add_free(model, t);
		return;
	case KEPT:
		add_free(model, t);
		report_does(model, t, "ran out of GPU memory, kept for vramtap watch", NULL);
		return;
	case ON_DEVICE:
		add_device_wait(model, t);
		return;
	case FOR_LOADER:
		report_add_native(model, t, "poll", "libc.so.6", 0x10);
		report_add_python(model, t, "_MultiProcessingDataLoaderIter._try_get_data", LOADER,
				  1251);
		report_add_python(model, t, "_BaseDataLoaderIter.__next__", LOADER, 701);
		add_program(model, t, 70);
		report_does(model, t, "waits for a DataLoader worker", NULL);
		return;
	case ON_NFS:
		add_file(model, t);
		add_program(model, t, 71);
		return;
	case TRACED:
	case STOPPED:
		add_collective(model, t, "all_reduce", 2806, 88);
		t->state = where == STOPPED ? 'T' : 't';
		return;
	default:
		add_collective(model, t, "all_reduce", 2806, 88);
	}
}

static void add_pool_threads(struct vt_model *model, const struct job_model *what, int rank,
			     pid_t pid)
{
	for (int i = 0; i < what->threads; i++) {
		struct vt_model_thread *t = report_add_thread(model, pid + 1 + i, "pt_pool");
		int way = what->ways > 1 ? (i + rank % 3) % what->ways : 0;
		char function[40];

		for (int k = 0; k < 20; k++) {
			snprintf(function, sizeof(function), "lib::function_%d_%d",
				 k < 10 ? way : 0, k);
			report_add_native(model, t, vt_arena_strdup(&model->arena, function),
					  "libtorch_cpu.so", (uint64_t)k);
		}
		t->state = 'S';
		t->idle = way % 2;
		report_does(model, t, way % 2 ? "idle thread of pthreadpool" : NULL,
			    "waits for futex 0x7f1234567890");
	}
}

/* ---- members ---- */

struct made {
	struct vt_job *job;
	const struct job_model *what;
	const struct hang *hang;
};

static const char *host_of(int rank)
{
	static char hosts[64][16];
	char *host = hosts[rank / PER_HOST % 64];

	snprintf(host, sizeof(hosts[0]), "node%d", rank / PER_HOST);
	return host;
}

static pid_t pid_of(int rank)
{
	return 4000 + 1000 * rank;
}

static struct vt_label label_of(const struct made *made, int rank)
{
	return (struct vt_label){
		.host = host_of(rank),
		.pid = pid_of(rank),
		.ppid = 3000,
		.name = "python3",
		.command = "python3 train.py --config base.yaml",
		.role = VT_ROLE_RANK,
		.rank = rank,
		.local_rank = rank % PER_HOST,
		.world_size = made->what->ranks,
		.worker = -1,
		.container = "",
		.pod = "",
		.job = "slurm 4711",
		.visible = rank % 3 ? NULL : "0,1,2,3,4,5,6,7",
		.in_job = true,
	};
}

static void init_model(struct vt_model *model, const struct vt_label *label)
{
	vt_model_init(model);
	model->tool_version = "0.1.0";
	model->when = (struct timespec){ .tv_sec = 1795000000, .tv_nsec = 123456789 };
	model->process.pid = label->pid;
	model->process.state = 'S';
	model->timing = (struct vt_model_timing){
		.total_ms = 40 + label->pid % 9,
		.stopped_ms = 4.5,
		.stop_begin_ns = 1000000000 + (uint64_t)(label->pid % 7) * 300000,
		.stop_end_ns = 1004500000 + (uint64_t)(label->pid % 7) * 300000
	};
}

static void add_memory(struct vt_model *model, int rank, uint64_t in_use, uint64_t cached)
{
	struct vt_model_device *d =
		report_add_device(model, rank % PER_HOST, in_use + cached + GIB, 80 * GIB);

	d->context_active = true;
	d->have_uuid = true;
	memset(d->uuid, 0, sizeof(d->uuid));
	d->uuid[0] = (uint8_t)rank;
	d->uuid[1] = (uint8_t)(rank >> 8);
	report_add_allocator(model, rank % PER_HOST);
	report_add_segment(model, 0, 0, 0);
	report_add_block(model, VT_BLOCK_ALLOCATED, in_use, in_use);
	report_add_block(model, VT_BLOCK_CACHED, cached, 0);
}

/* Of the block in use, the first one. */
static bool add_owner(struct vt_model *model, enum vt_category category)
{
	struct vt_model_owner *owner = vt_vec_append(&model->owners.items);

	if (!owner)
		return false;
	*owner = (struct vt_model_owner){ .category = (uint8_t)category, .name = "" };
	model->owners.state = VT_OWNERS_READ;
	model->owners.whole = true;
	return true;
}

static bool add_rank(const struct made *made, int rank)
{
	enum where where = rank == made->what->culprit ? made->hang->culprit : made->hang->others;
	struct vt_label label = label_of(made, rank);
	struct vt_model_allocator *a;
	struct vt_model model;
	bool ok;

	if (where == GONE)
		return true;
	if (where == UNREADABLE)
		return vt_job_add(made->job, &label, NULL, "it ended while it was looked at");
	init_model(&model, &label);
	add_main(&model, where, label.pid);
	add_pool_threads(&model, made->what, rank, label.pid);
	add_memory(&model, rank,
		   (made->hang->imbalance && rank == made->what->culprit ? 60 : 40) * GIB, 8 * GIB);
	if (made->hang->activations &&
	    !add_owner(&model, rank == made->what->culprit ? VT_CATEGORY_ACTIVATION :
							     VT_CATEGORY_PARAMETER))
		return false;
	a = &model.allocators.data[0];
	a->result.have_stats = true;
	a->result.stats.num_alloc_retries = where == IN_CUDA_FREE || where == KEPT ? 3 : 0;
	a->result.stats.num_ooms = where == KEPT;
	if (where == KEPT) {
		model.caught.event = (struct vt_model_oom){ .number = 1,
							    .of_pytorch = true,
							    .requested = 2254857830,
							    .device = 0,
							    .tid = label.pid,
							    .thread = "python3",
							    .trace = UINT32_MAX };
		model.caught.first = model.caught.last = 1;
	}
	if (where == STOPPED)
		model.process.state = 'T';
	if (where == TRACED) {
		model.process.state = 't';
		model.process.tracer = 77;
		model.process.tracer_name = "gdb";
	}
	ok = vt_model_account(&model) && vt_job_add(made->job, &label, &model, NULL);
	vt_model_deinit(&model);
	return ok;
}

/*
 * All but the culprit wait in number 4172, which that has not begun; in another group of half the
 * ranks nobody waits.
 */
static bool add_sequences(const struct made *made)
{
	struct vt_member *m = &made->job->members.data[made->job->members.n - 1];
	bool behind = m->label.rank == made->what->culprit;
	struct vt_model_process_group world = { .backend = "nccl",
						.name = "0",
						.description = "default_pg",
						.operation = "all_reduce",
						.last_enqueued = behind ? 4170 : 4172,
						.last_started = -1,
						.last_completed = behind ? 4170 : 4171,
						.n_pending = !behind },
				      half = { .backend = "nccl",
					       .name = m->label.rank % 2 ? "2" : "1",
					       .description = "undefined",
					       .last_enqueued = 7,
					       .last_started = -1,
					       .last_completed = 7 };
	struct vt_model_collectives *to = &m->collectives;
	struct vt_model_process_group *groups;
	char ranks[32];

	snprintf(ranks, sizeof(ranks), "0-%d", made->what->ranks - 1);
	world.ranks = ranks;
	world.oldest = (struct vt_model_operation){
		.name = "all_reduce",
		.number = 4172,
		.started = -1,
		.input = "[4096, 4096] BFloat16",
		.age_ms = 93000,
		.timeout_ms = 600000,
	};
	if (behind)
		world.oldest = (struct vt_model_operation){ 0 };
	to->told_ms = 1790000000000 + (uint64_t)m->label.rank;
	groups = vt_vec_append(&to->groups);
	if (groups)
		*groups = world;
	groups = groups ? vt_vec_append(&to->groups) : NULL;
	if (groups)
		*groups = half;
	return groups && vt_job_intern_collectives(made->job, to);
}

static bool add_worker(const struct made *made, int rank, int worker)
{
	bool bad = rank == made->what->culprit && worker == 1;
	struct vt_label label = label_of(made, rank);
	struct vt_model_thread *t;
	struct vt_model model;
	bool ok;

	if (bad && made->hang->worker == WORKER_GONE)
		return true;
	label.of = label.ppid = label.pid;
	label.pid += 500 + worker;
	label.role = VT_ROLE_LOADER;
	label.worker = worker;
	init_model(&model, &label);
	t = report_add_thread(&model, label.pid, "pt_data_worker");
	t->is_main = t->has_python = true;
	t->state = 'S';
	if (bad && made->hang->worker == WORKER_STUCK) {
		add_file(&model, t);
	} else if (bad && made->hang->worker == WORKER_BUSY) {
		report_add_python(&model, t, "Images.__getitem__", "/home/user/data.py", 40);
		t->state = 'R';
	} else {
		report_add_native(&model, t, "poll", "libc.so.6", 0x10);
		report_does(&model, t, "idle DataLoader worker", NULL);
		t->idle = true;
	}
	if (bad && made->hang->worker == WORKER_STOPPED)
		t->state = model.process.state = 'T';
	report_add_python(&model, t, "_worker_loop",
			  "/usr/lib/python3/dist-packages/torch/utils/data/_utils/worker.py", 275);
	ok = vt_model_account(&model) && vt_job_add(made->job, &label, &model, NULL);
	vt_model_deinit(&model);
	return ok;
}

/* A forgotten notebook on the culprit's GPU. */
static bool add_outsider(const struct made *made)
{
	struct vt_label label = label_of(made, made->what->culprit);
	struct vt_model_thread *t;
	struct vt_model model;
	bool ok;

	label.pid = 999;
	label.name = "ipykernel";
	label.command = "python3 -m ipykernel_launcher";
	label.role = VT_ROLE_OTHER;
	label.rank = label.local_rank = label.world_size = -1;
	label.job = "";
	label.in_job = false;
	init_model(&model, &label);
	t = report_add_thread(&model, label.pid, "python3");
	t->is_main = t->has_python = true;
	t->state = 'S';
	report_add_native(&model, t, "epoll_wait", "libc.so.6", 0x10);
	report_add_python(&model, t, "BaseEventLoop._run_once",
			  "/usr/lib/python3.12/asyncio/base_events.py", 1949);
	report_does(&model, t, "waits in asyncio's event loop", NULL);
	add_memory(&model, made->what->culprit, 20 * GIB, GIB);
	ok = vt_model_account(&model) && vt_job_add(made->job, &label, &model, NULL);
	vt_model_deinit(&model);
	return ok;
}

bool job_model_fill(struct vt_job *job, const struct job_model *what)
{
	struct made made = { .job = job, .what = what, .hang = find_hang(what->hang) };
	bool ok = made.hang != NULL;

	/* Not in order: that is for account. */
	for (int rank = what->ranks - 1; rank >= 0 && ok; rank--) {
		ok = add_rank(&made, rank) && (!made.hang->sequences || add_sequences(&made));
		for (int worker = 0; worker < what->workers && ok; worker++)
			ok = add_worker(&made, rank, worker);
	}
	/* Of some it is known. */
	for (size_t i = 0; i < job->members.n && ok; i++)
		job->members.data[i].moved =
			job->members.data[i].label.worker == 2 ? 1 : (int)(i % 2) - 1;
	if (ok && made.hang->outsider)
		ok = add_outsider(&made);
	return ok;
}
