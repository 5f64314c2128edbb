/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core: the process at one instant, as far as it was written to a file. The kernel's data about
 * it is gone; the threads' registers, the memory and the names of the mapped files are there.
 */
#include <elf.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "collect/origin_held.h"
#include "collect/stacks.h"
#include "base/format.h"
#include "target/pthread.h"

#define PAGE 4096u
#define MAX_ENVIRON (256u * 1024)
#define MAX_COMMAND 4096
#define MAX_ARGUMENTS 1024
#define MAX_NAMED 8 /* files in one diagnostic */

/* ---- its identity ---- */

/* How gdb says that it only held the process. */
static bool is_real_signal(const struct vt_core *core, int signo)
{
	return signo > 0 && (core->by_kernel || (signo != SIGSTOP && signo != SIGTRAP));
}

/*
 * For a non-canonical address, as in an overwritten pointer, the processor does not report the
 * address: SI_KERNEL, and 0.
 */
static bool has_address(const struct vt_core_thread *thread)
{
	int signo = thread->info_signal;

	return thread->have_info && signo == thread->signal && thread->info_code > 0 &&
	       thread->info_code != SI_KERNEL &&
	       (signo == SIGSEGV || signo == SIGBUS || signo == SIGILL || signo == SIGFPE);
}

static const char *signal_name(struct vt_collect *c, int signo)
{
	const char *name = sigabbrev_np(signo);

	name = name ? vt_arena_printf(&c->model->arena, "SIG%s", name) :
		      vt_arena_printf(&c->model->arena, "signal %d", signo);
	return name ? name : "a signal";
}

/*
 * In the kernel's cores the thread that got the signal is the first one; a debugger may have
 * stopped anywhere.
 */
static void find_signal(struct vt_collect *c)
{
	struct vt_model_core *model = &c->model->core;

	for (size_t i = 0; i < c->target.core->threads.n; i++) {
		const struct vt_core_thread *thread = &c->target.core->threads.data[i];

		if (!is_real_signal(c->target.core, thread->signal))
			continue;
		model->signal = thread->signal;
		model->signal_name = signal_name(c, thread->signal);
		model->signal_tid = thread->tid;
		model->killed = c->target.core->by_kernel;
		model->have_address = has_address(thread);
		model->address = thread->info_address;
		return;
	}
}

/* A string of the process, at most max bytes of it; NULL when it cannot be read. */
static char *read_string(struct vt_target *t, uint64_t addr, size_t max)
{
	struct vt_str text = { 0 };
	char *copy = NULL;

	while (text.n < max) {
		char piece[PAGE];
		size_t room = PAGE - (size_t)(addr % PAGE),
		       n = room < max - text.n ? room : max - text.n;
		size_t len;

		if (vt_mem_read(t->mem, addr, piece, n))
			break;
		len = strnlen(piece, n);
		vt_str_addn(&text, piece, len);
		addr += n;
		if (len < n || text.n == max || text.failed) {
			copy = text.failed ? NULL :
					     vt_arena_strdup(&t->proc.arena, vt_str_get(&text));
			break;
		}
	}
	vt_str_deinit(&text);
	return copy;
}

/*
 * The core has 80 bytes of the command line, and gdb writes none; the loader keeps all of it:
 * ld.so's _dl_argv (GLIBC_PRIVATE, in all releases). NULL if it is not readable.
 */
static char *read_command(struct vt_target *t)
{
	uint64_t slot = vt_modules_symbol(&t->modules, "ld-linux", "_dl_argv"), argv, arg;
	struct vt_str text = { 0 };
	char *command = NULL;

	if (!slot || vt_mem_read_u64(t->mem, slot, &argv))
		return NULL;
	for (uint64_t i = 0; i < MAX_ARGUMENTS && text.n < MAX_COMMAND; i++) {
		const char *one;

		if (vt_mem_read_u64(t->mem, argv + i * sizeof(arg), &arg))
			break;
		if (!arg && i > 0)
			command = vt_arena_strdup(&t->proc.arena, vt_str_get(&text));
		one = arg ? read_string(t, arg, MAX_COMMAND - text.n) : NULL;
		if (!one)
			break;
		vt_str_addf(&text, "%s%s", i ? " " : "", one);
	}
	if (text.n >= MAX_COMMAND)
		command = vt_arena_strndup(&t->proc.arena, text.data, MAX_COMMAND);
	vt_str_deinit(&text);
	return command;
}

/*
 * The kernel puts the environment right below the name of the executed file, at the top of the
 * stack (fs/exec.c).
 */
static void read_launch(struct vt_collect *c)
{
	uint64_t end = vt_core_auxv(c->target.core, AT_EXECFN), start = end;
	VT_FREE char *env = malloc(MAX_ENVIRON + 1);
	struct vt_launch launch;
	size_t n = 0;

	while (env && n < MAX_ENVIRON) {
		size_t step = start % PAGE ? (size_t)(start % PAGE) : PAGE;

		if (step > MAX_ENVIRON - n || step > start ||
		    vt_mem_read(c->target.mem, start - step, env + MAX_ENVIRON - n - step, step))
			break;
		start -= step;
		n += step;
	}
	if (!env || n == 0)
		return;
	env[MAX_ENVIRON] = '\0';
	vt_launch_of(env + MAX_ENVIRON - n, n, "", &c->model->arena, &launch);
	vt_collect_launch(c->model, &launch);
}

static const char *executable(const struct vt_core *core)
{
	uint64_t entry = vt_core_auxv(core, AT_ENTRY);

	for (size_t i = 0; i < core->mappings.n; i++)
		if (entry >= core->mappings.data[i].start && entry < core->mappings.data[i].end)
			return core->mappings.data[i].path;
	return "";
}

static void tell_proc(struct vt_target *t)
{
	const struct vt_core *core = t->core;
	char *command = read_command(t), *exe = vt_arena_strdup(&t->proc.arena, executable(core));
	char *args = vt_arena_strdup(&t->proc.arena, core->args);

	t->proc.pid = core->pid ? core->pid : core->threads.data[0].tid;
	t->proc.uid = core->uid;
	t->proc.n_threads = (int)core->threads.n;
	t->proc.same_pid_ns = true;
	t->proc.uptime_s = NAN; /* unknown */
	snprintf(t->proc.name, sizeof(t->proc.name), "%s", core->name);
	t->proc.cmdline = command ? command : args;
	t->proc.exe = exe;
}

/* libcuda.so.580.159.03 */
static void find_driver_version(struct vt_collect *c)
{
	size_t index = 0;
	const struct vt_module *module =
		vt_modules_by_name(&c->target.modules, "libcuda.so.", &index);
	const char *version = module ? strstr(module->path, "libcuda.so.") + strlen("libcuda.so.") :
				       "";

	c->model->versions.driver = strchr(version, '.') ? vt_collect_copy(c, version, 32) : "";
}

/* A debugger with the same core numbers its threads differently. */
static void match_debugger(struct vt_target *t, struct vt_held *held)
{
	for (size_t i = 0; held && i < t->core->threads.n; i++) {
		const struct vt_core_thread *thread = &t->core->threads.data[i];

		vt_held_match(held, thread->tid, vt_regs_sp(&thread->regs),
			      vt_regs_pc(&thread->regs));
	}
}

static struct vt_error *open_core(struct vt_target *t, const struct vt_subject *subject)
{
	VT_TRY(vt_core_open(subject->core, &t->core));
	/*
	 * The kernel omits the list if it is longer than kernel.core_file_note_size_limit, or 4
	 * MiB.
	 */
	if (t->core->mappings.n == 0)
		return vt_error_create(
			VT_ERR_FORMAT,
			"%s has no list of mapped files (NT_FILE), so nothing in its memory can be found",
			subject->core);
	VT_TRY(vt_core_maps(t->core, &t->maps));
	VT_TRY(vt_core_files_create(t->core, &t->maps, &subject->paths, &t->core_files));
	VT_TRY(vt_modules_init_files(&t->modules, t->core_files, &t->maps));
	t->modules.arch = t->core->arch;
	vt_core_set_modules(t->core, &t->modules);
	t->mem = t->cached = vt_core_source(t->core);
	tell_proc(t);
	match_debugger(t, subject->held);
	return NULL;
}

static void identify(struct vt_collect *c, const struct vt_subject *subject)
{
	struct vt_model_core *model = &c->model->core;
	const struct vt_core *core = c->target.core;
	size_t index = 0;

	vt_collect_identity(c);
	read_launch(c);
	c->model->process.uses_cuda =
		vt_modules_by_name(&c->target.modules, "libcuda.so", &index) != NULL;
	find_driver_version(c);
	model->path = vt_collect_copy(c, subject->core, strlen(subject->core));
	model->size = core->size;
	model->missing_bytes = core->missing_bytes;
	find_signal(c);
}

/* ---- what it lacks ---- */

/* Mappings made at run time (trampolines, generated code, our own helper) have no file. */
static bool is_file(const struct vt_module *module)
{
	return module->path[0] == '/' && strncmp(module->path, "/memfd:", 7) != 0 &&
	       strncmp(module->path, "/dev/", 5) != 0;
}

/* One diagnostic for all modules with the same finding. */
static void say_of_files(struct vt_collect *c, enum vt_module_file state, enum vt_diag_level level,
			 const char *code, const char *what)
{
	struct vt_str names = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < c->target.modules.modules.n; i++) {
		const struct vt_module *module = &c->target.modules.modules.data[i];

		if (module->file != state || !is_file(module))
			continue;
		if (n++ < MAX_NAMED)
			vt_str_addf(&names, "%s%s", n > 1 ? ", " : "",
				    level == VT_DIAG_NOTE ? vt_base_name(module->path) :
							    module->path);
	}
	if (n > MAX_NAMED)
		vt_str_addf(&names, " and %zu more", n - MAX_NAMED);
	if (n)
		vt_model_diag(c->model, level, VT_STAGE_FILES, code, "%zu file%s %s: %s", n,
			      n == 1 ? "" : "s", what, vt_str_get(&names));
	vt_str_deinit(&names);
}

/*
 * The number of threads that the C library counted (__nptl_nthreads, GLIBC_PRIVATE, for
 * libthread_db). cuda-gdb 13.0 leaves out most of them (6 of 20 were in its core of a PyTorch
 * process).
 */
static void compare_thread_count(struct vt_collect *c)
{
	uint64_t addr = vt_modules_symbol(&c->target.modules, "libc.so.6", "__nptl_nthreads");
	uint32_t counted;

	if (!addr) /* before glibc 2.34 */
		addr = vt_modules_symbol(&c->target.modules, "libpthread.so", "__nptl_nthreads");
	if (!addr || vt_mem_read_u32(c->target.mem, addr, &counted) || counted > VT_MAX_THREADS ||
	    counted <= c->target.core->threads.n)
		return;
	vt_model_diag(
		c->model, VT_DIAG_MISSING, VT_STAGE_CORE, "threads-missing",
		"the core has %zu of the %u threads that the C library counted: %u are missing",
		c->target.core->threads.n, counted,
		counted - (unsigned int)c->target.core->threads.n);
}

/*
 * The driver has its own threads in a process that uses it. fork() copies the allocator, but no
 * threads.
 */
static bool has_driver_thread(const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++) {
		const struct vt_model_stack *stack = &model->threads.data[i].stack;

		for (size_t k = 0; k < stack->n_frames; k++)
			if (stack->frames[k].module &&
			    !strncmp(stack->frames[k].module, "libcuda.so", 10))
				return true;
	}
	return false;
}

static void doubt_memory(struct vt_collect *c)
{
	bool blocks = false;

	for (size_t i = 0; i < c->model->allocators.n; i++)
		blocks = blocks || c->model->allocators.data[i].n_blocks > 0;
	if (blocks && !has_driver_thread(c->model))
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, "maybe-inherited",
			"the core has no thread of the CUDA driver: if the process was forked from one that used CUDA, these blocks are the parent's, and the process held none");
}

static void say_what_is_missing(struct vt_collect *c)
{
	const struct vt_core *core = c->target.core;
	char missing[VT_NUM_MAX];

	for (size_t i = 0; i < c->target.modules.modules.n; i++)
		vt_error_destroy(
			vt_module_open(&c->target.modules, &c->target.modules.modules.data[i]));
	if (core->missing_bytes)
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_CORE, "cut-short",
			"the core is cut short: %s of it are missing (was the disk full, or its size limited, or is it still written?)",
			vt_format_size(missing, core->missing_bytes));
	compare_thread_count(c);
	say_of_files(
		c, VT_FILE_MISSING, VT_DIAG_MISSING, "files-missing",
		"of the process not found here (vramtap report --core takes --sysroot=DIR, a directory with the files of the machine "
		"that the core is of, and --exe=FILE, the executable)");
	say_of_files(
		c, VT_FILE_DIFFERS, VT_DIAG_MISSING, "files-differ",
		"found here, but not used: another build than the process ran, or without its code");
	say_of_files(c, VT_FILE_UNKNOWN, VT_DIAG_MISSING, "files-unknown",
		     "found here, but not used: the core cannot show whether the process ran them");
	say_of_files(
		c, VT_FILE_UNCHECKED, VT_DIAG_MISSING, "files-unchecked",
		"checked only by the loader's tables and addresses, because the core lacks the first pages of files (coredump_filter without bit 4)");
	say_of_files(
		c, VT_FILE_ALIKE, VT_DIAG_NOTE, "files-alike",
		"whose build ids are not in the core: headers, the loader's tables and addresses match");
	say_of_files(c, VT_FILE_NO_ID, VT_DIAG_NOTE, "files-without-id",
		     "without a build id: only the first page was compared");
	if (vt_core_files_cut(c->target.core_files))
		vt_model_diag(
			c->model, VT_DIAG_NOTE, VT_STAGE_FILES, "search-cut",
			"the sysroot has too many files: not all were searched for libraries that are not at their own path");
	vt_model_diag(
		c->model, VT_DIAG_NOTE, VT_STAGE_CORE, "core",
		"a core never has the memory of the devices, the names of threads, their kernel stacks, or their file descriptors");
}

static void finish_core(struct vt_collect *c)
{
	if (vt_core_changed(c->target.core))
		vt_model_diag(
			c->model, VT_DIAG_MISSING, VT_STAGE_CORE, "changed",
			"the core changed while it was read: what is shown may be wrong; run it again when it is complete");
	doubt_memory(c);
	say_what_is_missing(c);
	c->model->core.read_bytes = c->target.core->read_bytes;
}

static void close_core(struct vt_target *t)
{
	vt_files_destroy(t->core_files);
	vt_core_close(t->core);
}

static const char *name_of(const struct vt_core *core, pid_t tid)
{
	/* A core has only the main thread's. */
	return core->by_kernel && tid == core->pid ? core->name : "";
}

static const char *name_of_thread(struct vt_collect *c, pid_t tid)
{
	return vt_collect_copy(c, name_of(c->target.core, tid), sizeof(c->target.core->name));
}

/* ---- its threads ---- */

static struct vt_error *find_python(struct vt_target *t, struct vt_python *python)
{
	return vt_python_init(python, &t->modules, t->mem);
}

/* It does not change. */
static struct vt_error *keep_maps(struct vt_target *t)
{
	(void)t;
	return NULL;
}

/* The main thread first, then by tid. */
static int compare_threads(const void *a, const void *b, void *main_tid)
{
	const struct vt_thread_info *x = a, *y = b;
	pid_t first = *(const pid_t *)main_tid;

	if ((x->tid == first) != (y->tid == first))
		return x->tid == first ? -1 : 1;
	return (x->tid > y->tid) - (x->tid < y->tid);
}

static struct vt_error *list_threads(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;

	for (size_t i = 0; i < c->target.core->threads.n; i++) {
		const struct vt_core_thread *thread = &c->target.core->threads.data[i];
		struct vt_thread_info *info = vt_vec_append(&s->list.threads);
		pid_t inner = vt_pthread_tid(c->target.mem, c->target.core->arch,
					     thread->regs.thread_pointer);

		if (!info || !vt_map_put(&s->by_inner, (uint64_t)(inner ? inner : thread->tid),
					 (uint64_t)thread->tid))
			return &vt_enomem;
		/*
		 * It ran, unless its registers show that a system call was interrupted
		 * (correct_stopped()).
		 */
		*info = (struct vt_thread_info){ .tid = thread->tid, .state = 'R', .cpu = -1 };
		snprintf(info->name, sizeof(info->name), "%s",
			 name_of(c->target.core, thread->tid));
	}
	qsort_r(s->list.threads.data, s->list.threads.n, sizeof(*s->list.threads.data),
		compare_threads, &c->target.proc.pid);
	s->wait.ops = &vt_wait_core;
	s->wait.arch = c->target.core->arch;
	s->wait.list = &s->list;
	s->wait.by_inner = &s->by_inner;
	return NULL;
}

/* One round, all threads in it; their stacks are where they were. */
static void capture(struct vt_stacks *s)
{
	struct vt_collect *c = s->c;
	struct vt_round *round = &s->rounds[0];

	vt_begin_own_session(round, c);
	s->n_rounds = 1;
	for (size_t i = 0; i < c->target.core->threads.n; i++) {
		struct vt_session_thread *thread = vt_vec_append(&round->session->threads);

		if (!thread) {
			vt_model_diag(c->model, VT_DIAG_MISSING, VT_STAGE_STACKS, "nomem",
				      "threads are missing: not enough memory here");
			break;
		}
		*thread = (struct vt_session_thread){
			.tid = c->target.core->threads.data[i].tid,
			.stopped = true,
			.regs = c->target.core->threads.data[i].regs,
		};
	}
	if (s->have_python) {
		struct vt_error *err = vt_python_capture(&round->python, c->target.mem);

		if (err)
			vt_collect_diag_error(c, VT_DIAG_MISSING, VT_STAGE_PYTHON,
					      "Python frames are missing", err);
	}
	c->model->stacks_coherent = true;
}

const struct vt_origin vt_origin_core = {
	.stands_still = true,
	.open = open_core,
	.identify = identify,
	.finish = finish_core,
	.close = close_core,
	.thread_name = name_of_thread,
	.find_python = find_python,
	.refresh_maps = keep_maps,
	.list_threads = list_threads,
	.capture = capture,
};
