/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels a process: its rank, from the environment, where launchers set it under many names; its
 * role, from the process tree and the command line and, if that is a guess, from its stacks.
 */
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "triage/triage.h"
#include "target/container.h"
#include "target/launch.h"

struct process_at {
	struct vt_processes *processes;
	size_t i;
};

static const char *variable_at(void *arg, const char *name)
{
	const struct process_at *at = arg;

	return vt_process_variable(at->processes, at->i, name);
}

static void read_rank(struct vt_processes *processes, size_t i, struct vt_label *label)
{
	struct process_at at = { processes, i };
	struct vt_rank rank;

	vt_rank_of(variable_at, &at, &rank);
	label->rank = rank.rank;
	label->local_rank = rank.local_rank;
	label->world_size = rank.world_size;
	label->local_world_size = rank.local_world_size;
}

/* ---- command lines ---- */

struct pattern {
	/* of the program (argv[0], or what Python runs), or comm; glob; NULL any */
	const char *name;
	const char *command; /* of the whole command line, NULL any */
};

static const struct pattern launchers[] = {
	{ "torchrun", NULL },
	{ "torchx", NULL },
	{ "accelerate", NULL },
	{ "deepspeed", NULL },
	{ "mpirun*", NULL },
	{ "mpiexec*", NULL },
	{ "orterun", NULL },
	{ "prterun", NULL },
	{ "orted", NULL },
	{ "prted", NULL },
	{ "hydra_pmi_proxy", NULL },
	{ "hydra_bstrap_proxy", NULL },
	{ "srun", NULL },
	{ "slurmstepd*", NULL },
	{ "jsrun", NULL },
	{ "flux-shell*", NULL },
	{ "horovodrun", NULL },
	{ NULL, "* -m torch.distributed.run *" },
	{ NULL, "* -m torch.distributed.launch *" },
	{ NULL, "* -m accelerate.commands.launch *" },
	{ NULL, "* -m deepspeed.launcher.*" },
	{ NULL, "*/torch/distributed/run.py *" },
	{ NULL, "*/deepspeed/launcher/launch.py *" },
};

/* They wait for what they run, and pass their environment on. */
static const struct pattern wrappers[] = {
	{ "sh", NULL },      { "bash", NULL }, { "dash", NULL },    { "zsh", NULL },
	{ "ksh", NULL },     { "env", NULL },  { "tini", NULL },    { "timeout", NULL },
	{ "numactl", NULL }, { "nsys", NULL }, { "taskset", NULL }, { "time", NULL },
};

/* They have devices open, but only monitor them. */
static const struct pattern monitors[] = {
	{ "nvidia-smi", NULL },
	{ "nvtop", NULL },
	{ "nvitop", NULL },
	{ "gpustat", NULL },
	{ "dcgm*", NULL },
	{ "nv-hostengine", NULL },
	{ "nvidia-persistenced", NULL },
	{ NULL, "* -m gpustat*" },
};

/*
 * They compute nothing of the job, though they may use a device, and have the environment of the
 * rank that started them. torch.compile compiles in them.
 */
static const struct pattern helpers[] = {
	{ NULL, "*/torch/_inductor/compile_worker/__main__.py *" },
	{ NULL, "* -m torch._inductor.compile_worker *" },
};

/* The role of a rank's child: by comm, or by its command line. */
static const struct child_pattern {
	struct pattern pattern;
	enum vt_role role;
	bool sure; /* otherwise its stacks may correct it */
} children[] = {
	{ { "pt_data_worker*", NULL }, VT_ROLE_LOADER, true }, /* PyTorch since 2.6 */
	{ { "*ckpt*", NULL }, VT_ROLE_CHECKPOINT, false },
	{ { "*checkpoint*", NULL }, VT_ROLE_CHECKPOINT, false },
	{ { NULL, "*multiprocessing.resource_tracker*" }, VT_ROLE_OTHER, true },
	{ { NULL, "*multiprocessing.forkserver*" }, VT_ROLE_OTHER, false },
	{ { NULL, "*multiprocessing.spawn*" }, VT_ROLE_LOADER, false },
	{ { NULL, "*multiprocessing-fork*" }, VT_ROLE_LOADER, false },
};

/* The role that a frame of its main thread shows. */
static const struct stack_pattern {
	const char *function, *file; /* globs; NULL any */
	enum vt_role role;
} stack_patterns[] = {
	{ "_worker_loop", "*/torch/utils/data/_utils/worker.py", VT_ROLE_LOADER },
	{ NULL, "*/torch/distributed/checkpoint/*", VT_ROLE_CHECKPOINT },
};

/* A word of the command line without its directory. */
static void base_name(const char *word, size_t n, char *name, size_t size)
{
	const char *slash = memrchr(word, '/', n);

	if (slash) {
		n -= (size_t)(slash + 1 - word);
		word = slash + 1;
	}
	snprintf(name, size, "%.*s", (int)(n < size ? n : size - 1), word);
}

static bool is_python(const char *name)
{
	return !fnmatch("python*", name, 0) || !fnmatch("pypy*", name, 0);
}

/* The program: the first word or, if that is Python, the first word after it that is no option. */
static void program_name(const char *command, char *name, size_t size)
{
	size_t n = strcspn(command, " ");

	base_name(command, n, name, size);
	while (is_python(name) && command[n]) {
		command += n + 1;
		n = strcspn(command, " ");
		if (!strncmp(command, "-m", 2) || !strncmp(command, "-c", 2))
			return;
		if (*command != '-')
			base_name(command, n, name, size);
		if (*command != '-')
			return;
	}
}

/*
 * comm is weak evidence, because any program may have the name: used only without a command line.
 */
static bool is_like(const struct vt_process *process, const struct pattern *pattern, bool by_comm)
{
	char program[256];

	program_name(process->command, program, sizeof(program));
	if (pattern->name && fnmatch(pattern->name, program, 0) &&
	    (!(by_comm || !*process->command) || fnmatch(pattern->name, process->name, 0)))
		return false;
	return !pattern->command || !fnmatch(pattern->command, process->command, 0);
}

static bool is_like_any(const struct vt_process *process, const struct pattern *patterns, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_like(process, &patterns[i], false))
			return true;
	return false;
}

bool vt_triage_is_launcher(const struct vt_process *process)
{
	return is_like_any(process, launchers, sizeof(launchers) / sizeof(launchers[0]));
}

bool vt_triage_is_wrapper(const struct vt_process *process)
{
	return is_like_any(process, wrappers, sizeof(wrappers) / sizeof(wrappers[0]));
}

/* ---- roles ---- */

struct labelling {
	struct vt_processes *processes;
	const struct vt_triage_found *found;
	struct vt_suspects *suspects;
	size_t *index;   /* of each process in suspects, VT_NO_PROCESS */
	bool *done;      /* of each suspect: its role is known */
	bool *inherited; /* of each process: its rank is another's */
};

/* Its nearest ancestor that is a rank. */
static struct vt_suspect *superior_of(const struct labelling *l, size_t process, size_t *of)
{
	const struct vt_process *list = l->processes->list.data;
	size_t at = list[process].parent;

	for (size_t hops = 0; at != VT_NO_PROCESS && hops < l->processes->list.n;
	     hops++, at = list[at].parent) {
		struct vt_suspect *suspect = l->index[at] == VT_NO_PROCESS ?
						     NULL :
						     &l->suspects->list.data[l->index[at]];

		if (suspect && l->done[l->index[at]] && suspect->label.role == VT_ROLE_RANK) {
			*of = at;
			return suspect;
		}
	}
	return NULL;
}

/*
 * A forked child without exec has the parent's command line. Its driver state is the parent's, too,
 * and useless to it; unless the child, and not the parent, has a device open: then the parent only
 * started it.
 */
static bool is_forked(const struct labelling *l, size_t process, size_t parent)
{
	const struct vt_process *p = &l->processes->list.data[process],
				*of = &l->processes->list.data[parent];

	return *p->command && !strcmp(p->command, of->command) &&
	       (vt_process_gpu(l->processes, process, NULL) != VT_GPU_DEVICE ||
		vt_process_gpu(l->processes, parent, NULL) == VT_GPU_DEVICE);
}

/* A child of a loader worker has the worker's name and command line, but is none. */
static bool is_child_of_child(const struct labelling *l, size_t process)
{
	size_t parent = l->processes->list.data[process].parent;
	size_t index = parent == VT_NO_PROCESS ? VT_NO_PROCESS : l->index[parent];

	return index != VT_NO_PROCESS && l->suspects->list.data[index].label.role != VT_ROLE_RANK &&
	       l->suspects->list.data[index].label.of;
}

static bool is_helper(const struct vt_process *process)
{
	return is_like_any(process, helpers, sizeof(helpers) / sizeof(helpers[0]));
}

static void label_child(const struct labelling *l, size_t process, size_t superior,
			struct vt_suspect *suspect)
{
	const struct vt_process *p = &l->processes->list.data[process];
	bool forked = is_forked(l, process, superior);

	suspect->label.of = l->processes->list.data[superior].pid;
	suspect->label.role = VT_ROLE_OTHER;
	suspect->sure = !forked;
	if (is_helper(p) || is_child_of_child(l, process)) {
		suspect->sure = true;
		return;
	}
	for (size_t i = 0; i < sizeof(children) / sizeof(children[0]); i++) {
		if (!is_like(p, &children[i].pattern, true))
			continue;
		suspect->label.role = children[i].role;
		suspect->sure = children[i].sure;
		return;
	}
	/* Most forked children of ranks are loader workers; the stacks tell more. */
	if (forked)
		suspect->label.role = VT_ROLE_LOADER;
}

static bool is_monitor(const struct vt_process *process)
{
	return is_like_any(process, monitors, sizeof(monitors) / sizeof(monitors[0]));
}

/* It uses a GPU itself, rather than only inheriting from its parent. */
static bool computes(const struct labelling *l, size_t process, size_t superior)
{
	return !is_monitor(&l->processes->list.data[process]) &&
	       !is_helper(&l->processes->list.data[process]) &&
	       vt_process_gpu(l->processes, process, NULL) != VT_GPU_NONE &&
	       !is_forked(l, process, superior);
}

/*
 * It has a rank in its environment but no device, and a child with one: an unknown kind of
 * launcher.
 */
static bool only_starts_ranks(const struct labelling *l, size_t process)
{
	if (vt_process_gpu(l->processes, process, NULL) != VT_GPU_NONE)
		return false;
	for (size_t i = 0; i < l->processes->list.n; i++)
		if (l->index[i] != VT_NO_PROCESS &&
		    vt_processes_descends(l->processes, i, process) &&
		    vt_process_gpu(l->processes, i, NULL) == VT_GPU_DEVICE &&
		    !is_monitor(&l->processes->list.data[i]))
			return true;
	return false;
}

static void forget_rank(struct vt_label *label)
{
	label->rank = label->local_rank = label->world_size = label->local_world_size = -1;
}

static void find_role(struct labelling *l, size_t process)
{
	const struct vt_process *p = &l->processes->list.data[process];
	struct vt_suspect *suspect = &l->suspects->list.data[l->index[process]];
	size_t superior = VT_NO_PROCESS;

	suspect->sure = true;
	if (vt_triage_is_launcher(p)) {
		suspect->label.role = VT_ROLE_LAUNCHER;
		/* that of the launcher's own launcher */
		suspect->label.rank = suspect->label.local_rank = -1;
	} else if (vt_triage_is_wrapper(p)) {
		suspect->label.role = VT_ROLE_OTHER;
	} else if (superior_of(l, process, &superior) && !computes(l, process, superior)) {
		label_child(l, process, superior, suspect);
	} else if (suspect->label.rank >= 0 && !is_monitor(p) && only_starts_ranks(l, process)) {
		suspect->label.role = VT_ROLE_LAUNCHER;
		forget_rank(&suspect->label);
	} else {
		bool may_compute = suspect->uses_gpu || suspect->label.rank >= 0;

		suspect->label.role = may_compute && !is_monitor(p) && !is_helper(p) ?
					      VT_ROLE_RANK :
					      VT_ROLE_OTHER;
	}
	l->done[l->index[process]] = true;
}

/* A parent before its children: by the number of generations above it. */
static void find_roles(struct labelling *l)
{
	const struct vt_process *list = l->processes->list.data;
	size_t n = l->processes->list.n, left = l->suspects->list.n;

	for (size_t pass = 0; left > 0 && pass <= n; pass++) {
		for (size_t i = 0; i < n; i++) {
			size_t parent = list[i].parent;

			if (l->index[i] == VT_NO_PROCESS || l->done[l->index[i]])
				continue;
			if (pass < n && parent != VT_NO_PROCESS &&
			    l->index[parent] != VT_NO_PROCESS && !l->done[l->index[parent]])
				continue;
			find_role(l, i);
			left--;
		}
	}
}

/* Its workers inherit the rank from it. */
static void forget_rank_of_all(struct vt_suspects *suspects, struct vt_suspect *suspect)
{
	for (size_t i = 0; i < suspects->list.n; i++)
		if (suspects->list.data[i].label.of == suspect->label.pid)
			forget_rank(&suspects->list.data[i].label);
	forget_rank(&suspect->label);
}

static struct vt_suspect *rank_at(const struct labelling *l, size_t process)
{
	struct vt_suspect *suspect = l->index[process] == VT_NO_PROCESS ?
					     NULL :
					     &l->suspects->list.data[l->index[process]];

	return suspect && suspect->label.role == VT_ROLE_RANK && suspect->label.rank >= 0 ?
		       suspect :
		       NULL;
}

/* Its parent has the rank, too. */
static bool may_inherit_rank(const struct labelling *l, size_t process)
{
	size_t parent = l->processes->list.data[process].parent;
	struct vt_label label;

	if (parent == VT_NO_PROCESS)
		return false;
	read_rank(l->processes, parent, &label);
	return label.rank == rank_at(l, process)->label.rank;
}

/* Children with their parent's rank: they have ranks of their own, which are not visible. */
static void forget_inherited_ranks(struct labelling *l)
{
	size_t n = l->processes->list.n;
	bool *inherited = l->inherited;

	for (size_t i = 0; i < n; i++) {
		const struct vt_suspect *suspect = rank_at(l, i);

		if (!suspect || !may_inherit_rank(l, i))
			continue;
		for (size_t k = 0; k < i; k++)
			if (rank_at(l, k) && rank_at(l, k)->label.ppid == suspect->label.ppid &&
			    rank_at(l, k)->label.rank == suspect->label.rank)
				inherited[i] = inherited[k] = true;
	}
	for (size_t i = 0; i < n; i++)
		if (inherited[i])
			forget_rank_of_all(l->suspects, rank_at(l, i));
}

/* The ancestor from which it inherited its rank. */
static const struct vt_suspect *rank_above(const struct labelling *l, size_t process)
{
	const struct vt_process *list = l->processes->list.data;
	size_t at = list[process].parent;

	for (size_t hops = 0; at != VT_NO_PROCESS && hops < l->processes->list.n;
	     hops++, at = list[at].parent)
		if (rank_at(l, at) && rank_at(l, at)->label.rank == rank_at(l, process)->label.rank)
			return rank_at(l, at);
	return NULL;
}

/*
 * A rank started it (an evaluation, for example), with the rank's environment and its own GPU. A
 * child may come before its parent.
 */
static void find_helpers(struct labelling *l)
{
	for (size_t i = 0; i < l->processes->list.n; i++) {
		struct vt_suspect *suspect = rank_at(l, i);
		const struct vt_suspect *above = suspect && suspect->uses_gpu ? rank_above(l, i) :
										NULL;

		if (!above || !above->uses_gpu)
			continue;
		forget_rank_of_all(l->suspects, suspect);
		suspect->label.role = VT_ROLE_OTHER;
		suspect->label.of = above->label.pid;
	}
}

/* In the order of their start; pids may have wrapped around. */
static bool is_before(const struct vt_suspect *a, const struct vt_suspect *b)
{
	if (a->label.start_ticks != b->label.start_ticks)
		return a->label.start_ticks < b->label.start_ticks;
	return a->label.pid < b->label.pid;
}

static void number_workers(struct vt_suspects *suspects)
{
	for (size_t i = 0; i < suspects->list.n; i++) {
		struct vt_suspect *suspect = &suspects->list.data[i];

		if (suspect->label.role != VT_ROLE_LOADER || !suspect->label.of)
			continue;
		suspect->label.worker = 0;
		for (size_t k = 0; k < suspects->list.n; k++) {
			const struct vt_suspect *other = &suspects->list.data[k];

			suspect->label.worker += other->label.role == VT_ROLE_LOADER &&
						 other->label.of == suspect->label.of &&
						 is_before(other, suspect);
		}
	}
}

/* ---- the other fields of a label ---- */

static const char *container_of(struct vt_suspects *suspects, const char *cgroup)
{
	VT_FREE char *text = strdup(cgroup);
	char id[64] = "";
	const char *copy;

	if (!text || !vt_container_of_cgroup(text, id, sizeof(id)))
		return "";
	copy = vt_arena_strdup(&suspects->arena, id);
	return copy ? copy : "";
}

static const char *pod_of(struct vt_processes *processes, size_t i, const char *cgroup)
{
	struct process_at at = { processes, i };
	const char *name = vt_pod_of(variable_at, &at, cgroup);

	return name ? name : "";
}

static const char *job_of(struct vt_processes *processes, size_t i, struct vt_suspects *suspects)
{
	struct process_at at = { processes, i };
	const char *name =
		vt_job_name_of(variable_at, &at, vt_process_cgroup(processes, i), &suspects->arena);

	return name ? name : "";
}

static const char *copy(struct vt_suspects *suspects, const char *text)
{
	const char *dup = vt_arena_strdup(&suspects->arena, text);

	return dup ? dup : "";
}

/* An empty list hides all devices: the process uses none, or has changed the list. */
static const char *visible_of(struct vt_processes *processes, size_t i,
			      struct vt_suspects *suspects)
{
	const char *list = vt_process_variable(processes, i, "CUDA_VISIBLE_DEVICES");

	return list ? vt_arena_printf(&suspects->arena, "%.1024s", list) : NULL;
}

char *vt_triage_harmless(char *name)
{
	for (char *c = name; c && *c; c++)
		if (!((*c >= 'a' && *c <= 'z') || (*c >= 'A' && *c <= 'Z') ||
		      (*c >= '0' && *c <= '9') || *c == '_' || *c == '-' ||
		      (*c == '.' && c > name)))
			*c = '_';
	return name;
}

static const char *file_name(struct vt_suspects *suspects, const char *kind, long number)
{
	return vt_triage_harmless(
		vt_arena_printf(&suspects->arena, "%s-%s%ld.json", suspects->host, kind, number));
}

static void find_host(struct vt_suspects *suspects)
{
	if (suspects->host[0])
		return;
	if (gethostname(suspects->host, sizeof(suspects->host) - 1) || !suspects->host[0])
		snprintf(suspects->host, sizeof(suspects->host), "localhost");
	vt_processes_system(suspects->system, sizeof(suspects->system));
}

static struct vt_suspect *add_suspect(struct vt_suspects *suspects, pid_t pid)
{
	struct vt_suspect *suspect = vt_vec_append(&suspects->list);

	if (suspect)
		*suspect = (struct vt_suspect){
			.label = {
				.host = suspects->host, .system = suspects->system, .pid = pid, .name = "", .command = "", .role = VT_ROLE_OTHER, .rank = -1,
				.local_rank = -1, .world_size = -1, .local_world_size = -1, .worker = -1, .container = "", .pod = "",
				.job = "", .in_job = true,
			},
			.file = file_name(suspects, "", pid),
		};
	return suspect && suspect->file ? suspect : NULL;
}

static struct vt_error *add_process(struct labelling *l, size_t i)
{
	struct vt_process *process = &l->processes->list.data[i];
	struct vt_suspects *suspects = l->suspects;
	struct vt_suspect *suspect = add_suspect(suspects, process->pid);
	const char *cgroup = vt_process_cgroup(l->processes, i);

	if (!suspect)
		return &vt_enomem;
	l->index[i] = suspects->list.n - 1;
	read_rank(l->processes, i, &suspect->label);
	suspect->label.start_ticks = process->start_ticks;
	suspect->uses_gpu = vt_process_gpu(l->processes, i, &suspect->devices) != VT_GPU_NONE;
	suspect->label.in_job = l->found->chosen[i];
	suspect->label.ppid = process->ppid;
	suspect->label.name = copy(suspects, process->name);
	suspect->label.command = copy(suspects, process->command);
	suspect->label.container = container_of(suspects, cgroup);
	suspect->label.pod = copy(suspects, pod_of(l->processes, i, cgroup));
	suspect->label.job = job_of(l->processes, i, suspects);
	suspect->label.visible = visible_of(l->processes, i, suspects);
	return NULL;
}

static struct vt_error *add_all(struct labelling *l)
{
	find_host(l->suspects);
	for (size_t i = 0; i < l->processes->list.n; i++) {
		l->index[i] = VT_NO_PROCESS;
		if (l->found->chosen[i] || l->found->others[i])
			VT_TRY(add_process(l, i));
	}
	l->done = calloc(l->suspects->list.n + 1, sizeof(*l->done));
	if (!l->done)
		return &vt_enomem;
	find_roles(l);
	forget_inherited_ranks(l);
	find_helpers(l);
	/* Such a process was not found in /proc; the collection reports it. */
	for (size_t i = 0; i < l->found->missing.n; i++)
		if (!add_suspect(l->suspects, l->found->missing.data[i]))
			return &vt_enomem;
	number_workers(l->suspects);
	return NULL;
}

struct vt_error *vt_triage_label(struct vt_processes *processes,
				 const struct vt_triage_found *found, struct vt_suspects *suspects)
{
	struct labelling l = {
		.processes = processes,
		.found = found,
		.suspects = suspects,
		.index = calloc(processes->list.n + 1, sizeof(size_t)),
		.inherited = calloc(processes->list.n + 1, sizeof(bool)),
	};
	struct vt_error *err = l.index && l.inherited ? add_all(&l) : &vt_enomem;

	free(l.index);
	free(l.inherited);
	free(l.done);
	return err;
}

struct vt_error *vt_triage_add_core(struct vt_suspects *suspects, const char *core)
{
	long number = 1;
	struct vt_suspect *suspect;

	find_host(suspects);
	for (size_t i = 0; i < suspects->list.n; i++)
		number += suspects->list.data[i].core != NULL;
	suspect = add_suspect(suspects, 0);
	if (!suspect)
		return &vt_enomem;
	suspect->core = core;
	suspect->label.system = ""; /* unknown: any system */
	suspect->label.role = VT_ROLE_RANK;
	suspect->file = file_name(suspects, "core", number);
	return suspect->file ? NULL : &vt_enomem;
}

void vt_suspects_deinit(struct vt_suspects *suspects)
{
	vt_vec_deinit(&suspects->list);
	vt_arena_deinit(&suspects->arena);
}

/* ---- from its stacks ---- */

static bool is_frame_like(const struct vt_model_frame *frame, const struct stack_pattern *pattern)
{
	return frame->kind == VT_FRAME_PYTHON && frame->file && frame->function &&
	       (!pattern->function || !strcmp(pattern->function, frame->function)) &&
	       !fnmatch(pattern->file, frame->file, 0);
}

static const struct stack_pattern *find_in_stack(const struct vt_model_stack *stack)
{
	for (size_t p = 0; p < sizeof(stack_patterns) / sizeof(stack_patterns[0]); p++)
		for (size_t i = 0; i < stack->n_frames; i++)
			if (is_frame_like(&stack->frames[i], &stack_patterns[p]))
				return &stack_patterns[p];
	return NULL;
}

/*
 * The main thread of a process that Python's multiprocessing started stays in its target function
 * to the end.
 */
static void correct_role(struct vt_suspect *suspect, const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_thread *thread = &model->threads.data[i];
		const struct stack_pattern *pattern;

		if (!thread->is_main || !thread->stack.has_python)
			continue;
		pattern = find_in_stack(&thread->stack);
		if (pattern)
			suspect->label.role = pattern->role;
		else if (suspect->label.role == VT_ROLE_LOADER)
			suspect->label.role = VT_ROLE_OTHER;
	}
	if (suspect->label.role != VT_ROLE_LOADER)
		suspect->label.worker = -1;
}

/* The role of a core is known when it has been read. */
bool vt_triage_has_owners(const struct vt_suspect *suspect)
{
	return suspect->label.in_job && (suspect->core || suspect->label.role == VT_ROLE_RANK);
}

void vt_triage_correct_label(struct vt_suspect *suspect, const struct vt_model *model)
{
	struct vt_label *label = &suspect->label;

	if (!suspect->core) {
		if (!suspect->sure)
			correct_role(suspect, model);
		return;
	}
	label->pid = model->process.pid;
	label->name = model->process.name;
	label->command = model->process.cmdline;
	label->rank = model->process.rank;
	label->world_size = model->process.world_size;
}
