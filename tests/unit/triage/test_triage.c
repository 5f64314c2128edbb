/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap triage: process trees made by hand, which processes are found, and their roles; its
 * directory; its latch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "triage/triage.h"
#include "triage/dir.h"
#include "triage/latch.h"
#include "triage/moved.h"
#include "triage/phase.h"
#include "triage/collect.h"

#define NOTHING 0

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

/* A process, and what is expected of it. */
struct known {
	pid_t pid, ppid;
	const char *name, *command;
	const char *cgroup;    /* NULL none */
	const char *variables; /* each followed by a line's end; NULL none */
	enum vt_gpu_use gpu;
	uint64_t devices;
	/* expected: */
	bool chosen, other;
	enum vt_role role;
	int rank;
	pid_t of;
	int worker;
};

#define PYTHON "/usr/bin/python3 "

static void fill(struct vt_processes *processes, const struct known *known, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct vt_process *p = vt_vec_append(&processes->list);
		char *variables = vt_arena_strdup(&processes->arena,
						  known[i].variables ? known[i].variables : "");

		assert_non_null(p);
		for (char *c = variables; *c; c++)
			*c = *c == '\n' ? '\0' : *c;
		*p = (struct vt_process){
			.pid = known[i].pid,
			.ppid = known[i].ppid,
			.uid = 1000,
			.state = 'S',
			.start_ticks = (uint64_t)(100 + i),
			.command = known[i].command,
			.cgroup = known[i].cgroup ? known[i].cgroup : "0::/\n",
			.variables = variables,
			.n_variables = known[i].variables ? strlen(known[i].variables) : 0,
			.gpu_known = true,
			.gpu = known[i].gpu,
			.gpu_devices = known[i].devices,
		};
		snprintf(p->name, sizeof(p->name), "%s", known[i].name);
		assert_true(vt_map_put(&processes->by_pid, (uint64_t)p->pid, i));
	}
	for (size_t i = 0; i < n; i++)
		processes->list.data[i].parent = vt_processes_find(processes, known[i].ppid);
}

static const struct vt_suspect *suspect_of(const struct vt_suspects *suspects, pid_t pid)
{
	for (size_t i = 0; i < suspects->list.n; i++)
		if (suspects->list.data[i].label.pid == pid)
			return &suspects->list.data[i];
	return NULL;
}

static void check(const struct known *known, size_t n, const struct vt_triage_choice *choice)
{
	struct vt_processes processes = { 0 };
	struct vt_triage_found found = { 0 };
	struct vt_suspects suspects = { 0 };

	fill(&processes, known, n);
	succeed(vt_triage_find(&processes, choice, &found));
	succeed(vt_triage_label(&processes, &found, &suspects));
	for (size_t i = 0; i < n; i++) {
		const struct vt_suspect *suspect = suspect_of(&suspects, known[i].pid);

		if (found.chosen[i] != known[i].chosen || found.others[i] != known[i].other)
			fail_msg("%d: chosen %d, other %d", known[i].pid, found.chosen[i],
				 found.others[i]);
		assert_int_equal(suspect != NULL, known[i].chosen || known[i].other);
		if (!known[i].chosen)
			continue;
		if (suspect->label.role != known[i].role || suspect->label.rank != known[i].rank ||
		    suspect->label.of != known[i].of || suspect->label.worker != known[i].worker)
			fail_msg("%d: role %d, rank %d, of %d, worker %d", known[i].pid,
				 (int)suspect->label.role, suspect->label.rank, suspect->label.of,
				 suspect->label.worker);
	}
	vt_suspects_deinit(&suspects);
	vt_triage_found_deinit(&found);
	vt_processes_deinit(&processes);
}

#define CHECK(known, ...) \
	check(known, sizeof(known) / sizeof((known)[0]), &(struct vt_triage_choice){ __VA_ARGS__ })

#define RANK(n) "RANK=" #n "\nLOCAL_RANK=" #n "\nWORLD_SIZE=2\n"
#define TRAIN PYTHON "train.py"

#define GROUP "0::/system.slice/slurmstepd.scope/job_4711/step_"

/*
 * Slurm's own are not of the job, though they are in its group; nor is another vramtap with its
 * shells, nor what a script of ours runs.
 */
static void finds_a_job_of_slurm(void **state)
{
	static const struct known known[] = {
		{ 1, 0, "systemd", "/sbin/init" },
		{ 10, 1, "slurmstepd", "slurmstepd: [4711.extern]", GROUP "extern/slurm\n" },
		{ 11, 10, "sleep", "sleep 100000000", GROUP "extern/user/task_special\n" },
		/* All are one user's here: it has started a rank. */
		{ 20, 1, "slurmstepd", "slurmstepd: [4711.0]", GROUP "0/slurm\n", NULL, VT_GPU_NONE,
		  0, true, false, VT_ROLE_LAUNCHER, -1, 0, -1 },
		{ 21, 20, "python3", TRAIN, GROUP "0/user/task_0\n", "SLURM_PROCID=0\n",
		  VT_GPU_NONE, 0, true, false, VT_ROLE_RANK, 0, 0, -1 },
		{ 22, 21, "sleep", "sleep 5", GROUP "0/user/task_0\n", "SLURM_PROCID=0\n",
		  VT_GPU_NONE, 0, true, false, VT_ROLE_OTHER, 0, 21, -1 },
		{ 30, 1, "slurmstepd", "slurmstepd: [4711.1]", GROUP "1/slurm\n" },
		{ 31, 30, "sh", "sh -c vramtap", GROUP "1/user/task_0\n", "SLURM_PROCID=0\n" },
		{ 32, 31, "timeout", "timeout 30 vramtap", GROUP "1/user/task_0\n",
		  "SLURM_PROCID=0\n" },
		{ 33, 32, "vramtap", "vramtap triage", GROUP "1/user/task_0\n",
		  "SLURM_PROCID=0\n" },
		{ 34, 33, "vramtap", "vramtap triage", GROUP "1/user/task_0\n",
		  "SLURM_PROCID=0\n" },
		{ 40, 1, "srun", "srun sh -c", GROUP "batch/user/task_0\n", "VRAMTAP_TRIAGE=1\n" },
		/* What vramtap runs is of the job. */
		{ 50, 1, "vramtap", "vramtap run -- " TRAIN, GROUP "2/user/task_0\n",
		  "SLURM_PROCID=1\n" },
		{ 51, 50, "python3", TRAIN, GROUP "2/user/task_0\n", "SLURM_PROCID=1\n",
		  VT_GPU_NONE, 0, true, false, VT_ROLE_RANK, 1, 0, -1 },
		{ 60, 1, "python3", TRAIN, "0::/system.slice/slurmstepd.scope/job_47110/step_0\n",
		  "SLURM_JOB_ID=4711\n" },
	};
	(void)state;

	CHECK(known, .slurm = "4711");
}

static void finds_what_uses_a_gpu(void **state)
{
	static const struct known known[] = {
		{ 1, 0, "systemd", "/sbin/init" },
		{ 10, 1, "bash", "bash", NULL, "SLURM_PROCID=0\n" },
		{ 20, 10, "torchrun", PYTHON "/usr/bin/torchrun train.py", NULL, "SLURM_PROCID=0\n",
		  VT_GPU_NONE, 0, true, false, VT_ROLE_LAUNCHER, -1, 0, -1 },
		{ 30, 20, "pt_main_thread", TRAIN, NULL, RANK(0), VT_GPU_DEVICE, 1, true, false,
		  VT_ROLE_RANK, 0, 0, -1 },
		{ 31, 20, "pt_main_thread", TRAIN, NULL, RANK(1), VT_GPU_NONE, 0, true, false,
		  VT_ROLE_RANK, 1, 0, -1 },
		{ 40, 30, "pt_data_worker", TRAIN, NULL, RANK(0), VT_GPU_LIBRARY, 0, true, false,
		  VT_ROLE_LOADER, 0, 30, 0 },
		{ 41, 30, "pt_data_worker", TRAIN, NULL, RANK(0), VT_GPU_LIBRARY, 0, true, false,
		  VT_ROLE_LOADER, 0, 30, 1 },
		/* What a worker has started is none, also when it was forked. */
		{ 42, 41, "pt_data_worker", TRAIN, NULL, RANK(0), VT_GPU_LIBRARY, 0, true, false,
		  VT_ROLE_OTHER, 0, 30, -1 },
		{ 43, 30, "python3",
		  PYTHON "-c from multiprocessing.resource_tracker import main;main(7)", NULL,
		  RANK(0), VT_GPU_NONE, 0, true, false, VT_ROLE_OTHER, 0, 30, -1 },
		{ 44, 30, "python3",
		  PYTHON
		  "-c from multiprocessing.spawn import spawn_main; spawn_main() --multiprocessing-fork",
		  NULL, RANK(0), VT_GPU_NONE, 0, true, false, VT_ROLE_LOADER, 0, 30, 2 },
		{ 45, 30, "nvidia-smi", "nvidia-smi -l 1", NULL, RANK(0), VT_GPU_NONE, 0, true,
		  false, VT_ROLE_OTHER, 0, 30, -1 },
		{ 50, 1, "Xorg", "/usr/bin/Xorg", NULL, NULL, VT_GPU_NONE, 0 },
	};
	(void)state;

	CHECK(known, .all_gpu = true);
}

/* A rank without a GPU that looks at those there are starts no ranks by that. */
static void monitors_compute_nothing(void **state)
{
	static const struct known known[] = {
		{ 20, 1, "torchrun", PYTHON "/usr/bin/torchrun train.py", NULL, NULL, VT_GPU_NONE,
		  0, true, false, VT_ROLE_LAUNCHER, -1, 0, -1 },
		{ 30, 20, "python3", TRAIN, NULL, RANK(0), VT_GPU_NONE, 0, true, false,
		  VT_ROLE_RANK, 0, 0, -1 },
		{ 31, 30, "sh", "sh -c nvidia-smi -l 1", NULL, RANK(0), VT_GPU_NONE, 0, true, false,
		  VT_ROLE_OTHER, 0, 0, -1 },
		{ 32, 31, "nvidia-smi", "nvidia-smi -l 1", NULL, RANK(0), VT_GPU_DEVICE, 3, true,
		  false, VT_ROLE_OTHER, 0, 30, -1 },
		{ 40, 20, "python3", TRAIN, NULL, RANK(1), VT_GPU_DEVICE, 1, true, false,
		  VT_ROLE_RANK, 1, 0, -1 },
		{ 41, 40, "nvidia-smi", "/usr/bin/nvidia-smi", NULL, RANK(1), VT_GPU_DEVICE, 3,
		  true, false, VT_ROLE_OTHER, 1, 40, -1 },
		{ 50, 20, "nvtop", "nvtop", NULL, NULL, VT_GPU_DEVICE, 3, true, false,
		  VT_ROLE_OTHER, -1, 0, -1 },
	};
	(void)state;

	CHECK(known, .children_of = 20);
}

static void finds_the_processes_of_a_slurm_job(void **state)
{
#define OF(job, step) "0::/system.slice/slurmstepd.scope/job_" #job "/step_" #step "/user/task_0\n"
	static const struct known known[] = {
		{ 10, 1, "slurmstepd", "slurmstepd: [4711.0]", OF(4711, 0), NULL, VT_GPU_NONE, 0,
		  true, false, VT_ROLE_LAUNCHER, -1, 0, -1 },
		{ 20, 10, "bash", "bash run.sh", OF(4711, 0), "SLURM_PROCID=3\n", VT_GPU_NONE, 0,
		  true, false, VT_ROLE_OTHER, 3, 0, -1 },
		{ 30, 20, "python3", TRAIN, OF(4711, 0), "SLURM_PROCID=3\nSLURM_NTASKS=8\n",
		  VT_GPU_DEVICE, 2, true, false, VT_ROLE_RANK, 3, 0, -1 },
		/* Without a cgroup for each job the environment says it. */
		{ 31, 1, "python3", TRAIN, NULL, "SLURM_JOB_ID=4711\nSLURM_PROCID=4\n",
		  VT_GPU_DEVICE, 2, true, false, VT_ROLE_RANK, 4, 0, -1 },
		{ 32, 1, "python3", TRAIN, NULL, "SLURM_JOB_ID=47110\n" },
		{ 40, 1, "python3", TRAIN, OF(47, 0), NULL, VT_GPU_DEVICE, 2, false, true },
		{ 41, 1, "python3", TRAIN, OF(47, 1), NULL, VT_GPU_DEVICE, 4, false, false },
		{ 42, 1, "python3", TRAIN, OF(47, 1), NULL, VT_GPU_LIBRARY, 0, false, true },
	};
	(void)state;

	CHECK(known, .slurm = "4711");
#undef OF
}

static void finds_by_cgroup_and_by_command_line(void **state)
{
	static const struct known known[] = {
		{ 10, 1, "python3", PYTHON "serve.py --port 8000", "0::/kubepods/pod1/abc\n",
		  "HOSTNAME=serve-0\n", VT_GPU_DEVICE, 1, true, false, VT_ROLE_RANK, -1, 0, -1 },
		{ 11, 10, "cat", "cat", "0::/kubepods/pod1/abc\n", NULL, VT_GPU_NONE, 0, true,
		  false, VT_ROLE_OTHER, -1, 10, -1 },
		{ 12, 1, "python3", PYTHON "train.py", "0::/kubepods/pod12\n" },
	};
	static const struct known v1[] = {
		{ 10, 1, "python3", PYTHON "serve.py", "4:memory:/a/b\n2:cpu,cpuacct:/x\n", NULL,
		  VT_GPU_NONE, 0, true, false, VT_ROLE_OTHER, -1, 0, -1 },
		{ 11, 1, "python3", PYTHON "serve.py", "4:memory:/ab\n2:cpu,cpuacct:/a\n" },
	};
	(void)state;

	CHECK(known, .cgroup = "/sys/fs/cgroup/kubepods/pod1/");
	CHECK(known, .match = "serve\\.py( |$)");
	CHECK(v1, .cgroup = "/sys/fs/cgroup/memory/a");
}

static void finds_by_pid_with_launcher_but_without_siblings(void **state)
{
	static const struct known known[] = {
		{ 20, 1, "mpirun", "mpirun -n 2 train", NULL, NULL, VT_GPU_NONE, 0, true, false,
		  VT_ROLE_LAUNCHER, -1, 0, -1 },
		{ 30, 20, "train", "train", NULL, "OMPI_COMM_WORLD_RANK=0\n", VT_GPU_DEVICE, 1,
		  true, false, VT_ROLE_RANK, 0, 0, -1 },
		{ 31, 20, "train", "train", NULL, "OMPI_COMM_WORLD_RANK=1\n", VT_GPU_DEVICE, 1,
		  false, false },
		{ 32, 30, "train", "train", NULL, "OMPI_COMM_WORLD_RANK=0\n", VT_GPU_DEVICE, 1,
		  true, false, VT_ROLE_LOADER, 0, 30, 0 },
	};
	struct vt_triage_choice choice = { 0 };
	pid_t pids[] = { 30 };
	(void)state;

	choice.pids.data = pids;
	choice.pids.n = 1;
	check(known, sizeof(known) / sizeof(known[0]), &choice);
}

static void takes_all_below_a_process(void **state)
{
	static const struct known known[] = {
		{ 20, 30, "a", "a" },
		/* A ring, as of processes that came and went during the pass. */
		{ 30, 20, "b", "b" },
		/* The parent has the larger number. */
		{ 40, 90, "sh", "sh", NULL, NULL, VT_GPU_NONE, 0, true, false, VT_ROLE_OTHER, -1, 0,
		  -1 },
		{ 41, 40, "python3", PYTHON "x.py", NULL, "RANK=x\nRANK_0=3\n", VT_GPU_LIBRARY, 0,
		  true, false, VT_ROLE_RANK, -1, 0, -1 },
		{ 90, 1, "train", "train", NULL, "RANK=99999999999\nPMI_RANK=7\n", VT_GPU_NONE, 0,
		  true, false, VT_ROLE_RANK, 7, 0, -1 },
	};
	(void)state;

	CHECK(known, .children_of = 90);
}

static void never_takes_itself_unasked(void **state)
{
	struct known known[] = {
		{ 5, 1, "bash", "bash" },
		{ getpid(), 5, "vramtap", "vramtap triage --match vramtap", NULL, NULL, VT_GPU_NONE,
		  0 },
		{ 1 << 29, getpid(), "x", "vramtap child", NULL, NULL, VT_GPU_NONE, 0, true, false,
		  VT_ROLE_OTHER, -1, 0, -1 },
	};
	(void)state;

	CHECK(known, .match = "vramtap|bash");
}

static void knows_where_a_process_runs(void **state)
{
#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	static const struct known known[] = {
		{ 10, 1, "python3", TRAIN,
		  "0::/kubepods.slice/kubepods-pod1.slice/cri-containerd-" ID ".scope\n",
		  "HOSTNAME=train-0\n" },
		{ 11, 1, "python3", TRAIN, "0::/docker/" ID "\n",
		  "HOSTNAME="
		  "abc\nPBS_JOBID=12.pbs\n" },
		{ 12, 1, "python3", TRAIN, NULL,
		  "HOSTNAME=abc\nPOD_NAME=p-1\nTORCHELASTIC_RUN_ID=none\n" },
		{ 13, 1, "python3", TRAIN, "0::/slurm/uid_1/job_88/step_0\n",
		  "SLURM_JOB_ID=99\nOMPI_COMM_WORLD_RANK=3\n"
		  "OMPI_COMM_WORLD_LOCAL_RANK=1\nOMPI_COMM_WORLD_SIZE=4\nOMPI_COMM_WORLD_LOCAL_SIZE=2\nSLURM_PROCID=0\n" },
	};
	static const char *const expected[][3] = {
		{ "0123456789ab", "train-0", "" },
		{ "0123456789ab", "", "pbs 12.pbs" },
		{ "", "p-1", "" },
		{ "", "", "slurm 88" },
	};
	struct vt_processes processes = { 0 };
	struct vt_triage_found found = { 0 };
	struct vt_suspects suspects = { 0 };
	(void)state;

	fill(&processes, known, 4);
	succeed(vt_triage_find(&processes, &(struct vt_triage_choice){ .match = "train" }, &found));
	succeed(vt_triage_label(&processes, &found, &suspects));
	assert_int_equal(suspects.list.n, 4);
	for (size_t i = 0; i < 4; i++) {
		const struct vt_label *label = &suspects.list.data[i].label;

		assert_string_equal(label->container, expected[i][0]);
		assert_string_equal(label->pod, expected[i][1]);
		assert_string_equal(label->job, expected[i][2]);
	}
	assert_int_equal(suspects.list.data[3].label.rank, 3);
	assert_int_equal(suspects.list.data[3].label.local_rank, 1);
	assert_int_equal(suspects.list.data[3].label.world_size, 4);
	assert_int_equal(suspects.list.data[3].label.local_world_size, 2);
	vt_suspects_deinit(&suspects);
	vt_triage_found_deinit(&found);
	vt_processes_deinit(&processes);
#undef ID
}

#define TASK "SLURM_PROCID=0\nSLURM_NTASKS=1\n"

/* What has a rank's number from its parent is not that rank. */
static void does_not_count_ranks_twice(void **state)
{
	static const struct known known[] = {
		/* A script that starts torchrun: srun's number is the script's alone. */
		{ 10, 1, "python3", PYTHON "launch.py", NULL, TASK, VT_GPU_NONE, 0, true, false,
		  VT_ROLE_LAUNCHER, -1, 0, -1 },
		{ 20, 10, "torchrun", PYTHON "/usr/bin/torchrun train.py", NULL, TASK, VT_GPU_NONE,
		  0, true, false, VT_ROLE_LAUNCHER, -1, 0, -1 },
		{ 30, 20, "python3", TRAIN, NULL, RANK(0), VT_GPU_DEVICE, 1, true, false,
		  VT_ROLE_RANK, 0, 0, -1 },
		{ 31, 20, "python3", TRAIN, NULL, RANK(1), VT_GPU_DEVICE, 2, true, false,
		  VT_ROLE_RANK, 1, 0, -1 },
		/* An evaluation, and its worker. */
		{ 40, 30, "sh", "sh -c eval", NULL, RANK(0), VT_GPU_NONE, 0, true, false,
		  VT_ROLE_OTHER, 0, 0, -1 },
		{ 41, 40, "python3", PYTHON "eval.py", NULL, RANK(0), VT_GPU_DEVICE, 1, true, false,
		  VT_ROLE_OTHER, -1, 30, -1 },
		{ 42, 41, "pt_data_worker", PYTHON "eval.py", NULL, RANK(0), VT_GPU_LIBRARY, 0,
		  true, false, VT_ROLE_LOADER, -1, 41, 0 },
		/* torch.multiprocessing.spawn() below srun -n1, and a worker. */
		{ 50, 1, "python3", PYTHON "spawns.py", NULL, TASK, VT_GPU_NONE, 0, true, false,
		  VT_ROLE_LAUNCHER, -1, 0, -1 },
		{ 51, 50, "python3", PYTHON "-c spawn_main()", NULL, TASK, VT_GPU_DEVICE, 1, true,
		  false, VT_ROLE_RANK, -1, 0, -1 },
		{ 52, 50, "python3", PYTHON "-c spawn_main()", NULL, TASK, VT_GPU_DEVICE, 2, true,
		  false, VT_ROLE_RANK, -1, 0, -1 },
		{ 53, 52, "pt_data_worker", PYTHON "-c spawn_main()", NULL, TASK, VT_GPU_LIBRARY, 0,
		  true, false, VT_ROLE_LOADER, -1, 52, 0 },
	};
	(void)state;

	CHECK(known, .match = "python3");
}

/* SLURM_NTASKS_PER_NODE is what was asked for, of any node. */
static void knows_how_many_ranks_are_on_a_host(void **state)
{
	static const struct known known[] = {
		{ 10, 1, "python3", TRAIN, NULL,
		  TASK "SLURM_NTASKS_PER_NODE=8\nSLURM_STEP_TASKS_PER_NODE=4\n" },
		{ 11, 1, "python3", TRAIN, NULL,
		  TASK "SLURM_NTASKS_PER_NODE=8\nSLURM_STEP_TASKS_PER_NODE=6(x2)\n" },
	};
	struct vt_processes processes = { 0 };
	struct vt_triage_found found = { 0 };
	struct vt_suspects suspects = { 0 };
	(void)state;

	fill(&processes, known, 2);
	succeed(vt_triage_find(&processes, &(struct vt_triage_choice){ .match = "train" }, &found));
	succeed(vt_triage_label(&processes, &found, &suspects));
	assert_int_equal(suspect_of(&suspects, 10)->label.local_world_size, 4);
	assert_int_equal(suspect_of(&suspects, 11)->label.local_world_size, -1);
	vt_suspects_deinit(&suspects);
	vt_triage_found_deinit(&found);
	vt_processes_deinit(&processes);
}

static struct vt_model_frame frame(const char *function, const char *file)
{
	return (struct vt_model_frame){ .kind = VT_FRAME_PYTHON,
					.function = function,
					.file = file };
}

/* A guess about a child of a rank is corrected by where its main thread is. */
static void corrects_roles_by_stacks(void **state)
{
	static const struct {
		const char *function, *file;
		bool sure;
		enum vt_role before, after;
	} cases[] = {
		{ "_worker_loop", "/x/torch/utils/data/_utils/worker.py", false, VT_ROLE_LOADER,
		  VT_ROLE_LOADER },
		{ "_worker_loop", "/x/torch/utils/data/_utils/worker.py", false, VT_ROLE_OTHER,
		  VT_ROLE_LOADER },
		{ "_worker_loop", "/x/mine/worker.py", false, VT_ROLE_LOADER, VT_ROLE_OTHER },
		{ "run", "/x/torch/distributed/checkpoint/_async_process_executor.py", false,
		  VT_ROLE_LOADER, VT_ROLE_CHECKPOINT },
		{ "run", "/x/multiprocessing/process.py", false, VT_ROLE_CHECKPOINT,
		  VT_ROLE_CHECKPOINT },
		{ "run", "/x/multiprocessing/process.py", true, VT_ROLE_LOADER, VT_ROLE_LOADER },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct vt_model_frame frames[] = { frame("read", "x.py"),
						   frame(cases[i].function, cases[i].file),
						   frame("<module>", "t.py") };
		struct vt_suspect suspect = { .label = { .role = cases[i].before, .worker = 3 },
					      .sure = cases[i].sure };
		struct vt_model model;
		struct vt_model_thread *thread;

		vt_model_init(&model);
		thread = vt_vec_append(&model.threads);
		assert_non_null(thread);
		*thread = (struct vt_model_thread){
			.is_main = true,
			.stack = { .frames = frames, .n_frames = 3, .has_python = true },
		};
		vt_triage_correct_label(&suspect, &model);
		assert_int_equal(suspect.label.role, cases[i].after);
		assert_int_equal(suspect.label.worker, cases[i].after == VT_ROLE_LOADER ? 3 : -1);
		vt_model_deinit(&model);
	}
}

static void refuses_a_bad_expression(void **state)
{
	struct vt_error *err = vt_triage_check_choice(&(struct vt_triage_choice){ .match = "a(" });
	(void)state;

	assert_non_null(err);
	assert_non_null(strstr(err->message, "a("));
	vt_error_destroy(err);
}

static void sees_real_processes(void **state)
{
	struct vt_processes processes = { 0 };
	int pipes[2];
	char c;
	size_t i;
	(void)state;

	assert_int_equal(pipe(pipes), 0);

	pid_t pid = fork();

	if (pid == 0) {
		setenv("VT_TEST_RANK", "12", 1);
		dup2(pipes[1], 3);
		execl("/bin/sh", "sh", "-c", "echo x >&3; kill -STOP $$", "a b", NULL);
		_exit(1);
	}
	assert_int_equal(read(pipes[0], &c, 1), 1);
	succeed(vt_processes_init(&processes));
	i = vt_processes_find(&processes, pid);
	assert_true(i != VT_NO_PROCESS);
	assert_int_equal(processes.list.data[i].ppid, getpid());
	assert_int_equal(processes.list.data[i].uid, geteuid());
	assert_true(vt_processes_descends(&processes, i, vt_processes_find(&processes, getpid())));
	assert_false(vt_processes_descends(&processes, i, i));
	assert_string_equal(processes.list.data[i].command, "sh -c echo x >&3; kill -STOP $$ a b");
	assert_string_equal(vt_process_variable(&processes, i, "VT_TEST_RANK"), "12");
	assert_null(vt_process_variable(&processes, i, "VT_TEST"));
	assert_int_equal(vt_process_gpu(&processes, i, NULL), VT_GPU_NONE);
	assert_int_equal(vt_processes_find(&processes, 0), VT_NO_PROCESS);
	vt_processes_deinit(&processes);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(pipes[0]);
	close(pipes[1]);
}

/* ---- the directory ---- */

static void write_to(const char *dir, const char *name, const char *text)
{
	char path[512];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static bool exists(const char *dir, const char *name)
{
	char path[512];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return !lstat(path, &st);
}

static void prepare(const char *dir, bool remove)
{
	int lock = -1, other = -1;
	struct vt_error *err;

	succeed(vt_triage_dir_prepare(dir, remove, &lock));
	assert_true(lock >= 0);
	/* While it is held, no other one gets it. */
	err = vt_triage_dir_prepare(dir, remove, &other);
	assert_non_null(err);
	vt_error_destroy(err);
	assert_int_equal(other, -1);
	close(lock);
}

static void refused(const char *dir)
{
	int lock = -1;
	struct vt_error *err = vt_triage_dir_prepare(dir, true, &lock);

	assert_non_null(err);
	vt_error_destroy(err);
}

static void keeps_what_is_not_its_own(void **state)
{
	char base[] = "/tmp/vramtap-test-XXXXXX", dir[64], path[128];
	struct stat st;
	(void)state;

	assert_non_null(mkdtemp(base));
	snprintf(dir, sizeof(dir), "%s/out", base);
	prepare(dir, true);
	assert_int_equal(stat(dir, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0700);
	/* A summary alone is not ours, nor is JSON of another kind. */
	write_to(dir, "summary.txt", "mine\n");
	refused(dir);
	write_to(dir, "report.json", "{\n \"schema\": \"vramtap-triage\",\n");
	write_to(dir, "host-12.json", "{\"schema\":\"vramtap-report\"");
	write_to(dir, "mine.json", "{}");
	refused(dir);
	assert_true(exists(dir, "summary.txt") && exists(dir, "report.json") &&
		    exists(dir, "host-12.json") && exists(dir, "mine.json"));
	snprintf(path, sizeof(path), "%s/mine.json", dir);
	/* A report saved by hand has another name, which no triage gives. */
	write_to(dir, "mine.json", "{\"schema\":\"vramtap-report\"");
	refused(dir);
	assert_true(exists(dir, "mine.json"));
	/* A worker was killed while it wrote. */
	write_to(dir, "my-host-13.json.99.tmp", "{");
	assert_int_equal(unlink(path), 0);
	snprintf(path, sizeof(path), "%s/node2", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	prepare(dir, false);
	assert_true(exists(dir, "summary.txt") && exists(dir, "report.json") &&
		    exists(dir, "host-12.json"));
	prepare(dir, true);
	assert_false(exists(dir, "summary.txt") || exists(dir, "report.json") ||
		     exists(dir, "host-12.json"));
	assert_false(exists(dir, "my-host-13.json.99.tmp"));
	assert_true(exists(dir, "node2"));
	/* A link is not ours. */
	write_to(base, "elsewhere", "{\"schema\":\"vramtap-report\"");
	snprintf(path, sizeof(path), "%s/x-1.json", dir);
	assert_int_equal(symlink("../elsewhere", path), 0);
	refused(dir);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(chmod(dir, 0707), 0);
	refused(dir);
	assert_int_equal(chmod(dir, 0770), 0);
	refused(dir);
	snprintf(path, sizeof(path), "%s/node2", dir);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(rmdir(dir), 0);
	snprintf(path, sizeof(path), "%s/elsewhere", base);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(rmdir(base), 0);
}

static void names_files_as_seen_from_the_directory(void **state)
{
	struct vt_arena arena = { 0 };
	(void)state;

	assert_string_equal(vt_triage_dir_prefix("/usr", "/usr/bin", &arena), "bin");
	assert_string_equal(vt_triage_dir_prefix("/usr", "/usr/", &arena), "");
	assert_string_equal(vt_triage_dir_prefix("/usr/lib", "/usr", &arena), "/usr");
	assert_string_equal(vt_triage_dir_prefix(NULL, "/usr", &arena), "/usr");
	assert_string_equal(vt_triage_dir_prefix("/us", "/usr", &arena), "/usr");
	assert_string_equal(vt_triage_dir_prefix("/", "/usr", &arena), "usr");
	vt_arena_deinit(&arena);
}

/* ---- the latch ---- */

static void lets_all_go_together(void **state)
{
	struct vt_latch *latches = vt_latches_create(2);
	uint64_t begin = vt_now_ns();
	pid_t pids[4];
	(void)state;

	assert_non_null(latches);
	assert_false(vt_latch_wait(&latches[1], begin + 20 * VT_NS_PER_MS));
	assert_true(vt_now_ns() - begin >= 20 * VT_NS_PER_MS);
	for (size_t i = 0; i < 4; i++) {
		pids[i] = fork();
		if (pids[i] == 0)
			_exit(vt_latch_wait(&latches[0], vt_now_ns() + 10 * VT_NS_PER_S) &&
					      vt_now_ns() >= latches[0].opened_ns ?
				      7 :
				      1);
	}
	vt_sleep_ns(20 * VT_NS_PER_MS);
	vt_latch_open(&latches[0]);
	for (size_t i = 0; i < 4; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 7);
	}
	assert_true(vt_latch_wait(&latches[0], 0));
	vt_latches_destroy(latches, 2);
}

/* ---- how far workers are ---- */

static bool is_woken(const struct vt_phases *phases, int ms)
{
	struct pollfd fd = { .fd = phases->wake[0], .events = POLLIN };

	return poll(&fd, 1, ms) == 1 && (fd.revents & POLLIN);
}

/* What a child says wakes its parent, and stays when the child is killed. */
static void hears_how_far_a_worker_is(void **state)
{
	struct vt_phases phases;
	pid_t pid;
	(void)state;

	assert_true(vt_phases_init(&phases, 2));
	assert_false(is_woken(&phases, 0));
	pid = fork();
	if (pid == 0) {
		vt_phase_say(&phases, 1, VT_PHASE_READY);
		pause();
		_exit(1);
	}
	assert_true(is_woken(&phases, 10000));
	vt_phases_woken(&phases);
	assert_false(is_woken(&phases, 0));
	assert_int_equal(vt_phase_of(&phases, 0), VT_PHASE_PREPARING);
	assert_int_equal(vt_phase_of(&phases, 1), VT_PHASE_READY);
	assert_int_equal(kill(pid, SIGKILL), 0);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(vt_phase_of(&phases, 1), VT_PHASE_READY);
	vt_phase_say(&phases, 0, VT_PHASE_READ);
	vt_phase_say(&phases, 0, VT_PHASE_WAITS);
	assert_true(is_woken(&phases, 0));
	vt_phases_woken(&phases);
	assert_int_equal(vt_phase_of(&phases, 0), VT_PHASE_WAITS);
	vt_phases_deinit(&phases);
	vt_phases_deinit(&phases);
}

/* However often it says something to a parent that does not listen. */
static void a_worker_never_waits_for_its_parent(void **state)
{
	struct vt_phases phases;
	(void)state;

	assert_true(vt_phases_init(&phases, 1));
	alarm(60);
	for (size_t i = 0; i < 100000; i++)
		vt_phase_say(&phases, 0, i % 2 ? VT_PHASE_READ : VT_PHASE_WAITS);
	alarm(0);
	assert_true(is_woken(&phases, 0));
	vt_phases_woken(&phases);
	assert_false(is_woken(&phases, 0));
	assert_int_equal(vt_phase_of(&phases, 0), VT_PHASE_READ);
	vt_phases_deinit(&phases);
}

/*
 * Each worker says of its own process why there is nothing, whatever is in the text; no file is
 * left open.
 */
static void a_document_is_the_whole_of_its_pipe(void **state)
{
	static const char *const cores[] = { "/nonexistent/one", "/nonexistent/{\n\1\2\3",
					     "/nonexistent/\3\2\1{}" };
	const struct vt_triage_options options = { .timeout_ns = 20 * VT_NS_PER_S,
						   .directory_lock = -1 };
	struct vt_suspects suspects = { 0 };
	int status[3] = { -1, -1, -1 }, signo = -1, before = dup(0);
	struct vt_job job;
	(void)state;

	vt_job_init(&job);
	for (size_t i = 0; i < 3; i++) {
		struct vt_suspect *suspect = vt_vec_append(&suspects.list);

		assert_non_null(suspect);
		*suspect = (struct vt_suspect){
			.core = cores[i],
			.label = { .in_job = true, .rank = (int)i, .name = cores[i] },
		};
	}
	succeed(vt_triage_collect(&suspects, &options, &job, status, &signo));
	assert_int_equal(signo, 0);
	assert_int_equal(job.members.n, 3);
	for (size_t i = 0; i < 3; i++) {
		const struct vt_member *member = &job.members.data[i];

		assert_non_null(strstr(member->error, "/nonexistent/"));
		assert_in_range(member->label.rank, 0, 2);
		assert_string_equal(member->label.name, cores[member->label.rank]);
		assert_int_equal(status[i], 2);
	}
	close(before);
	assert_int_equal(dup(0), before);
	close(before);
	vt_job_deinit(&job);
	vt_suspects_deinit(&suspects);
}

/*
 * By the first glance alone: one that was in uninterruptible sleep and sleeps elsewhere now has
 * come out of it.
 */
static void sees_who_went_on_already(void **state)
{
	static const struct {
		char was, is;
		bool asleep;
		long syscall;
		int want;
	} rows[] = {
		{ 'D', 'S', true, SYS_ppoll, 1 },
		{ 'D', 'S', true, SYS_nanosleep, 1 },
		{ 'D', 'R', false, -1, 1 },
		{ 'S', 'R', false, -1, 1 },
		{ 'R', 'R', false, -1, -1 },
		{ 'S', '?', false, -1, -1 },
		{ 'S', 'S', true, SYS_nanosleep, -1 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct vt_moved moved = { .pid = getpid(), .glanced_ns = vt_now_ns() };

		moved.sample.asleep = rows[i].asleep;
		moved.sample.info.state = rows[i].is;
		moved.sample.info.in_syscall = rows[i].syscall >= 0;
		moved.sample.info.syscall_nr = rows[i].syscall;
		assert_int_equal(vt_moved_end(&moved, rows[i].was, vt_now_ns()), rows[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(finds_what_uses_a_gpu),
		cmocka_unit_test(finds_a_job_of_slurm),
		cmocka_unit_test(monitors_compute_nothing),
		cmocka_unit_test(finds_the_processes_of_a_slurm_job),
		cmocka_unit_test(finds_by_cgroup_and_by_command_line),
		cmocka_unit_test(finds_by_pid_with_launcher_but_without_siblings),
		cmocka_unit_test(takes_all_below_a_process),
		cmocka_unit_test(never_takes_itself_unasked),
		cmocka_unit_test(knows_where_a_process_runs),
		cmocka_unit_test(does_not_count_ranks_twice),
		cmocka_unit_test(knows_how_many_ranks_are_on_a_host),
		cmocka_unit_test(corrects_roles_by_stacks),
		cmocka_unit_test(refuses_a_bad_expression),
		cmocka_unit_test(sees_real_processes),
		cmocka_unit_test(keeps_what_is_not_its_own),
		cmocka_unit_test(names_files_as_seen_from_the_directory),
		cmocka_unit_test(lets_all_go_together),
		cmocka_unit_test(hears_how_far_a_worker_is),
		cmocka_unit_test(a_worker_never_waits_for_its_parent),
		cmocka_unit_test(a_document_is_the_whole_of_its_pipe),
		cmocka_unit_test(sees_who_went_on_already),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
