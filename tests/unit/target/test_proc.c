/* SPDX-License-Identifier: Apache-2.0 */
/* Processes of all kinds as /proc shows them, compared with what the test knows about them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <pwd.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "target/container.h"
#include "target/maps.h"
#include "target/proc.h"
#include "target/timens.h"

#define NOBODY 65534

static void succeed(struct vt_error *err)
{
	if (err)
		fail_msg("%s", err->message);
}

/* A child that runs body and then waits for ever; returns when body has run. */
static pid_t start(void (*body)(void *arg), void *arg)
{
	int pipes[2];
	char c;
	pid_t pid;

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (body)
			body(arg);
		if (write(pipes[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(pipes[1]);
	assert_int_equal(read(pipes[0], &c, 1), 1);
	close(pipes[0]);
	return pid;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void knows_itself(void **state)
{
	struct vt_proc proc = { 0 };
	const struct passwd *entry = getpwuid(getuid());
	char exe[4096] = "";
	(void)state;

	succeed(vt_proc_init(&proc, getpid()));
	assert_int_equal(proc.pid, getpid());
	assert_int_equal(proc.ppid, getppid());
	assert_int_equal(proc.uid, getuid());
	assert_int_equal(proc.euid, geteuid());
	assert_int_equal(proc.gid, getgid());
	if (entry)
		assert_string_equal(proc.user, entry->pw_name);
	assert_true(readlink("/proc/self/exe", exe, sizeof(exe) - 1) > 0);
	assert_string_equal(proc.exe, exe);
	assert_non_null(strstr(proc.cmdline, "test_proc"));
	assert_int_equal(proc.state, 'R');
	assert_true(proc.n_threads >= 1);
	assert_int_equal(proc.tracer, 0);
	assert_true(proc.same_mnt_ns && proc.same_pid_ns && proc.same_user_ns);
	assert_int_equal(proc.ns_pid, getpid());
	assert_true(proc.uptime_s >= 0 && proc.uptime_s < 3600);
	assert_false(proc.kernel_thread || proc.is_32bit || proc.is_static || proc.is_musl);
	assert_true(vt_proc_is_alive(&proc));
	proc.start_ticks++;
	assert_false(vt_proc_is_alive(&proc));
	vt_proc_deinit(&proc);
}

static void odd_name(void *arg)
{
	prctl(PR_SET_NAME, arg);
}

static void names_are_only_names(void **state)
{
	static const char *const odd[] = { ") Z (x 1 2", "a b) R 1 1", "((((",
					   "))))",       "\n\x1b[31m", "Tgid:\t1" };
	(void)state;

	for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
		char name[64];
		struct vt_proc proc = { 0 };
		struct vt_thread_list list = { 0 };
		pid_t pid;

		snprintf(name, sizeof(name), "%s", odd[i]);
		pid = start(odd_name, name);
		usleep(1000);
		succeed(vt_proc_init(&proc, pid));
		assert_string_equal(proc.name, name);
		assert_true(strchr("SR", proc.state));
		assert_int_equal(proc.ppid, getpid());
		assert_int_equal(proc.n_threads, 1);
		vt_proc_deinit(&proc);
		succeed(vt_thread_list_init(&list, pid));
		assert_int_equal(list.threads.n, 1);
		assert_string_equal(list.threads.data[0].name, name);
		vt_thread_list_deinit(&list);
		end(pid);
	}
}

/* Threads */

#define N_THREADS 200
static struct {
	atomic_int ready;
	atomic_int tids[N_THREADS];
	struct timespec ts;
} * shared;

static void *sleep_long(void *arg)
{
	int index = (int)(intptr_t)arg;
	char name[16];

	snprintf(name, sizeof(name), "worker %d", index);
	prctl(PR_SET_NAME, name);
	atomic_store(&shared->tids[index], (int)syscall(SYS_gettid));
	atomic_fetch_add(&shared->ready, 1);
	syscall(SYS_nanosleep, &shared->ts, NULL, 0x11, 0x22, 0x33, 0x44);
	return NULL;
}

static void start_threads(void *arg)
{
	(void)arg;
	for (int i = 0; i < N_THREADS; i++) {
		pthread_t thread;

		if (pthread_create(&thread, NULL, sleep_long, (void *)(intptr_t)i))
			_exit(1);
	}
}

static void lists_threads(void **state)
{
	struct vt_thread_list list = { 0 };
	struct vt_thread_info info;
	uint64_t begin_ns, best_ns = UINT64_MAX;
	pid_t pid;
	(void)state;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	assert_ptr_not_equal(shared, MAP_FAILED);
	shared->ts.tv_sec = 1000;
	pid = start(start_threads, NULL);
	while (atomic_load(&shared->ready) < N_THREADS)
		usleep(1000);
	usleep(20000);
	for (int i = 0; i < 5; i++) {
		vt_thread_list_deinit(&list);
		begin_ns = vt_now_ns();
		succeed(vt_thread_list_init(&list, pid));
		begin_ns = vt_now_ns() - begin_ns;
		best_ns = begin_ns < best_ns ? begin_ns : best_ns;
	}
	print_message("%d threads: %.2f ms\n", N_THREADS + 1, (double)best_ns / VT_NS_PER_MS);
	assert_int_equal(list.threads.n, N_THREADS + 1);
	assert_int_equal(list.threads.data[0].tid, pid);
	for (size_t i = 1; i < list.threads.n; i++) {
		const struct vt_thread_info *thread = &list.threads.data[i];
		char name[16];
		int index = 0;

		while (index < N_THREADS && atomic_load(&shared->tids[index]) != thread->tid)
			index++;
		assert_true(index < N_THREADS);
		snprintf(name, sizeof(name), "worker %d", index);
		assert_string_equal(thread->name, name);
		assert_int_equal(thread->state, 'S');
		assert_true(thread->cpu >= 0);
		assert_true(thread->syscall_known && thread->in_syscall);
		assert_int_equal(thread->syscall_nr, SYS_nanosleep);
		assert_int_equal(thread->syscall_args[0], (uintptr_t)&shared->ts);
		assert_int_equal(thread->syscall_args[1], 0);
		assert_int_equal(thread->syscall_args[2], 0x11);
		assert_int_equal(thread->syscall_args[3], 0x22);
		assert_int_equal(thread->syscall_args[4], 0x33);
		assert_int_equal(thread->syscall_args[5], 0x44);
		assert_true(thread->sp > 4096 && thread->pc > 4096);
		assert_true(i < 2 || list.threads.data[i - 1].tid < thread->tid);
		assert_true(thread->start_ticks > 0);
	}
	vt_thread_list_deinit(&list);

	/* A thread is no process, and says whose it is. */
	{
		struct vt_proc proc = { 0 };
		struct vt_error *err = vt_proc_init(&proc, atomic_load(&shared->tids[7]));
		char text[64];

		assert_non_null(err);
		assert_int_equal(err->code, VT_ERR_GONE);
		snprintf(text, sizeof(text), "process %d", (int)pid);
		assert_non_null(strstr(err->message, text));
		vt_error_destroy(err);
	}
	succeed(vt_thread_info_read(&info, pid, atomic_load(&shared->tids[3])));
	assert_string_equal(info.name, "worker 3");
	end(pid);
	for (int i = 0; i < 3; i++) {
		struct vt_proc proc = { 0 };
		struct vt_error *err = i == 0 ? vt_thread_info_read(&info, pid, pid) :
				       i == 1 ? vt_thread_list_init(&list, pid) :
						vt_proc_init(&proc, pid);

		assert_non_null(err);
		assert_int_equal(err->code, VT_ERR_GONE);
		vt_error_destroy(err);
	}
	munmap(shared, sizeof(*shared));
}

static void *spin(void *arg)
{
	for (;;)
		if (*(volatile int *)arg)
			return NULL;
}

static void start_spinning(void *arg)
{
	static int never;
	pthread_t thread;
	(void)arg;

	pthread_create(&thread, NULL, spin, &never);
}

static void a_running_thread_is_in_no_call(void **state)
{
	pid_t pid = start(start_spinning, NULL);
	struct vt_thread_list list = { 0 };
	(void)state;

	/*
	 * Until one has started to wait, and the other has started; they may be long without a
	 * processor.
	 */
	for (int i = 0; i < 5000 && !(list.threads.n == 2 && list.threads.data[0].in_syscall &&
				      !list.threads.data[1].in_syscall);
	     i++) {
		usleep(2000);
		vt_thread_list_deinit(&list);
		list = (struct vt_thread_list){ 0 };
		succeed(vt_thread_list_init(&list, pid));
	}
	assert_int_equal(list.threads.n, 2);
	assert_true(list.threads.data[0].in_syscall);
	assert_int_equal(list.threads.data[1].state, 'R');
	assert_false(list.threads.data[1].in_syscall);
	assert_true(list.threads.data[1].utime_ticks < 1000000);
	vt_thread_list_deinit(&list);
	end(pid);
}

static void zombies(void **state)
{
	struct vt_arena arena = { 0 };
	struct vt_proc proc = { 0 };
	pid_t pid = fork();
	char *why;
	(void)state;

	if (pid == 0)
		_exit(0);
	waitid(P_PID, (id_t)pid, &(siginfo_t){ 0 }, WEXITED | WNOWAIT);
	succeed(vt_proc_init(&proc, pid));
	assert_int_equal(proc.state, 'Z');
	assert_string_equal(proc.cmdline, "");
	assert_string_equal(proc.exe, "");
	assert_true(vt_proc_is_alive(&proc));
	why = vt_proc_why_not_permitted(&proc, &arena);
	assert_non_null(why);
	assert_non_null(strstr(why, "zombie"));
	waitpid(pid, NULL, 0);
	assert_false(vt_proc_is_alive(&proc));
	vt_proc_deinit(&proc);
	vt_arena_deinit(&arena);
}

static void *outlive_the_main_thread(void *arg)
{
	for (;;)
		pause();
	return arg;
}

/*
 * The main thread has called pthread_exit(): a zombie without memory, files and namespaces, in a
 * process that lives.
 */
static void main_thread_has_ended(void **state)
{
	struct vt_arena arena = { 0 };
	struct vt_proc proc = { 0 };
	struct vt_maps maps = { 0 };
	char path[64], exe[PATH_MAX];
	pid_t pid = fork(), view;
	pthread_t thread;
	ssize_t n;
	(void)state;

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (pthread_create(&thread, NULL, outlive_the_main_thread, NULL))
			_exit(1);
		/* pthread_exit() would unwind and needs libgcc_s. */
		syscall(SYS_exit, 0);
	}
	while ((view = vt_proc_view(pid)) == pid)
		usleep(1000);
	succeed(vt_proc_init(&proc, pid));
	assert_int_equal(proc.pid, pid);
	assert_int_equal(proc.ppid, getpid());
	assert_int_equal(proc.ns_pid, pid);
	assert_int_equal(proc.n_threads, 2);
	assert_int_not_equal(proc.state, 'Z');
	assert_true(proc.same_mnt_ns && proc.same_pid_ns && proc.same_user_ns);
	n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	assert_true(n > 0);
	exe[n] = '\0';
	assert_string_equal(proc.exe, exe);
	assert_string_not_equal(proc.cmdline, "");
	assert_false(proc.is_32bit);
	assert_true(vt_proc_is_alive(&proc));
	assert_null(vt_proc_why_not_permitted(&proc, &arena));
	succeed(vt_maps_init(&maps, pid));
	assert_true(maps.entries.n > 0);
	snprintf(path, sizeof(path), "/proc/%d/root", (int)vt_proc_view(pid));
	assert_int_equal(access(path, F_OK), 0);
	vt_maps_deinit(&maps);
	vt_proc_deinit(&proc);
	vt_arena_deinit(&arena);
	end(pid);
}

static void numbers_that_are_no_process(void **state)
{
	static const pid_t pids[] = { 0, -1, INT32_MAX, INT32_MIN };
	(void)state;

	for (size_t i = 0; i < sizeof(pids) / sizeof(pids[0]); i++) {
		struct vt_proc proc = { 0 };
		struct vt_error *err = vt_proc_init(&proc, pids[i]);

		assert_non_null(err);
		assert_int_equal(err->code, VT_ERR_GONE);
		vt_error_destroy(err);
	}
}

#ifdef __aarch64__
/* ppoll(NULL, 0, NULL, NULL): mov x0 to x3, #0; mov x8, #73; svc #0; b */
#define SLEEPS_IN SYS_ppoll
#define MACHINE EM_AARCH64
static const uint32_t code[] = { 0xd2800000, 0xd2800001, 0xd2800002, 0xd2800003,
				 0xd2800928, 0xd4000001, 0x17fffffa };
#else
/* pause(): mov $34, %eax; syscall; jmp */
#define SLEEPS_IN SYS_pause
#define MACHINE EM_X86_64
static const uint8_t code[] = { 0xb8, 0x22, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7 };
#endif

/*
 * Executables of a few bytes, which sleep. With or without an interpreter, which is such a program
 * itself.
 */
static void write_program(const char *path, const char *interpreter)
{
	const uint64_t base = interpreter ? 0x10000000 : 0x20000000;
	struct {
		Elf64_Ehdr ehdr;
		Elf64_Phdr phdrs[2];
		char interpreter[128];
		uint8_t code[sizeof(code)] __attribute__((aligned(4)));
	} image = {
		.ehdr = {
			.e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, 1 },
			.e_type = ET_EXEC,
			.e_machine = MACHINE,
			.e_version = 1,
			.e_phoff = sizeof(Elf64_Ehdr),
			.e_ehsize = sizeof(Elf64_Ehdr),
			.e_phentsize = sizeof(Elf64_Phdr),
			.e_phnum = interpreter ? 2 : 1,
		},
	};
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0700);

	image.ehdr.e_entry = base + offsetof(__typeof__(image), code);
	image.phdrs[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				       .p_flags = PF_R | PF_X,
				       .p_vaddr = base,
				       .p_filesz = sizeof(image),
				       .p_memsz = sizeof(image),
				       .p_align = 4096 };
	if (interpreter) {
		snprintf(image.interpreter, sizeof(image.interpreter), "%s", interpreter);
		image.phdrs[1] = image.phdrs[0];
		image.phdrs[0] = (Elf64_Phdr){ .p_type = PT_INTERP,
					       .p_flags = PF_R,
					       .p_offset = offsetof(__typeof__(image), interpreter),
					       .p_filesz = strlen(interpreter) + 1,
					       .p_align = 1 };
	}
	memcpy(image.code, code, sizeof(code));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, &image, sizeof(image)), sizeof(image));
	close(fd);
}

static pid_t start_program(const char *path)
{
	pid_t pid = fork();

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(path, "an argument", "and  another\n", "", NULL);
		_exit(1);
	}
	for (int i = 0; i < 2000; i++) {
		struct vt_thread_info info;

		if (!vt_thread_info_read(&info, pid, pid) && info.in_syscall &&
		    info.syscall_nr == SLEEPS_IN)
			return pid;
		usleep(1000);
	}
	fail_msg("%s does not run", path);
	return 0;
}

static void static_and_musl_programs(void **state)
{
	char dir[] = "/tmp/vramtap-test-XXXXXX";
	char program[64], interpreter[64];
	(void)state;

	assert_non_null(mkdtemp(dir));
	snprintf(program, sizeof(program), "%s/program", dir);
	snprintf(interpreter, sizeof(interpreter), "%s/ld-musl-x86_64.so.1", dir);
	write_program(interpreter, NULL);
	for (int i = 0; i < 2; i++) {
		struct vt_proc proc = { 0 };
		pid_t pid;

		write_program(program, i ? interpreter : NULL);
		pid = start_program(program);
		succeed(vt_proc_init(&proc, pid));
		assert_int_equal(proc.is_static, i == 0);
		assert_int_equal(proc.is_musl, i == 1);
		assert_false(proc.is_32bit);
		assert_string_equal(proc.exe, program);
		assert_string_equal(proc.cmdline, "an argument and  another\n");
		vt_proc_deinit(&proc);
		end(pid);
		unlink(program);
	}
	unlink(interpreter);
	rmdir(dir);
}

static void enter_namespaces(void *arg)
{
	*(atomic_int *)arg = unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID) ? errno : 0;
}

static void namespaces(void **state)
{
	atomic_int *ret =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid = start(enter_namespaces, ret);
	struct vt_proc proc = { 0 };
	(void)state;

	succeed(vt_proc_init(&proc, pid));
	if (*ret == 0) {
		assert_false(proc.same_user_ns);
		assert_false(proc.same_mnt_ns);
	}
	vt_proc_deinit(&proc);
	end(pid);
	munmap(ret, 4096);
}

static void hold_with_ptrace(void *arg)
{
	pid_t pid = *(pid_t *)arg;

	prctl(PR_SET_NAME, "debugger");
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL))
		_exit(1);
}

static void names_the_tracer(void **state)
{
	pid_t pid = start(NULL, NULL);
	pid_t tracer = start(hold_with_ptrace, &pid);
	struct vt_arena arena = { 0 };
	struct vt_proc proc = { 0 };
	char text[64], *why;
	(void)state;

	succeed(vt_proc_init(&proc, pid));
	assert_int_equal(proc.tracer, tracer);
	assert_string_equal(proc.tracer_name, "debugger");
	why = vt_proc_why_not_permitted(&proc, &arena);
	assert_non_null(why);
	snprintf(text, sizeof(text), "process %d (debugger)", (int)tracer);
	assert_non_null(strstr(why, text));
	vt_proc_deinit(&proc);
	vt_arena_deinit(&arena);
	end(tracer);
	end(pid);
}

static void protect(void *arg)
{
	(void)arg;
	if (setgid(NOBODY) || setuid(NOBODY) || prctl(PR_SET_DUMPABLE, 0))
		_exit(1);
}

static void unprotect(void *arg)
{
	(void)arg;
	if (setgid(NOBODY) || setuid(NOBODY) || prctl(PR_SET_DUMPABLE, 1))
		_exit(1);
}

/* Asks as an unprivileged user; the exit status says whether the text was in the answer. */
static void assert_why_as_nobody(pid_t pid, const char *text)
{
	int status;
	pid_t asker = fork();

	if (asker == 0) {
		struct vt_arena arena = { 0 };
		struct vt_proc proc = { 0 };
		char *why;

		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(1);
		succeed(vt_proc_init(&proc, pid));
		why = vt_proc_why_not_permitted(&proc, &arena);
		_exit(text ? !why || !strstr(why, text) || !strstr(why, "sudo") :
			     why && !strstr(why, "yama"));
	}
	assert_int_equal(waitpid(asker, &status, 0), asker);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status))
		fail_msg("not the answer: %s", text ? text : "none");
}

static void says_why_not(void **state)
{
	struct vt_arena arena = { 0 };
	struct vt_proc proc = { 0 };
	pid_t pid = start(NULL, NULL);
	(void)state;

	succeed(vt_proc_init(&proc, pid));
	assert_null(vt_proc_why_not_permitted(&proc, &arena));
	vt_proc_deinit(&proc);
	if (geteuid() != 0) {
		end(pid);
		skip();
	}
	assert_why_as_nobody(pid, "belongs to user root");
	end(pid);
	pid = start(protect, NULL);
	assert_why_as_nobody(pid, "protected from debuggers");
	end(pid);
	pid = start(unprotect, NULL);
	assert_why_as_nobody(pid, NULL);
	end(pid);

	/* kthreadd, where it is visible. */
	if (!vt_proc_init(&proc, 2)) {
		if (!strcmp(proc.name, "kthreadd")) {
			const char *why = vt_proc_why_not_permitted(&proc, &arena);

			assert_true(proc.kernel_thread);
			assert_non_null(why);
			assert_non_null(strstr(why, "kernel thread"));
		}
		vt_proc_deinit(&proc);
	}
	vt_arena_deinit(&arena);
}

#define ID "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define OTHER "fedcba9876543210fedcba9876543210fedcba9876543210fedcba9876543210"

static void container_ids(void **state)
{
	static const struct {
		const char *cgroup;
		const char *id;
	} cases[] = {
		{ "0::/system.slice/docker-" ID ".scope\n", "0123456789ab" },
		{ "12:pids:/docker/" ID "\n11:cpu:/docker/" ID "\n", "0123456789ab" },
		{ "1:name=systemd:/\n0::/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice/"
		  "cri-containerd-" ID ".scope\n",
		  "0123456789ab" },
		{ "0::/kubepods/besteffort/pod12345678-1234-1234-1234-123456789012/" ID,
		  "0123456789ab" },
		{ "0::/kubepods.slice/kubepods-pod1.slice/crio-" ID ".scope/container\n",
		  "0123456789ab" },
		{ "0::/user.slice/user-1000.slice/user@1000.service/user.slice/libpod-" ID
		  ".scope/container\n",
		  "0123456789ab" },
		{ "0::/machine.slice/libpod-conmon-" ID ".scope\n", "" },
		{ "0::/docker/" OTHER "/docker/" ID "/init\n", "0123456789ab" },
		{ "0::/../" ID "\n", "0123456789ab" },
		{ "0::/ecs/task/" ID "\n", "0123456789ab" },
		{ "0::/lxc.payload.web/init.scope\n", "web" },
		{ "3:cpu:/lxc/web\n", "web" },
		{ "0::/user.slice/user-0.slice/session-1.scope\n", "" },
		{ "0::/system.slice/containerd.service\n", "" },
		{ "0::/\n", "" },
		{ "", "" },
		{ "\n\n::\n:\nx", "" },
		{ "0::" ID, "0123456789ab" },
		{ "0::/" ID "0\n", "" },
		{ "0::/0123456789ABCDEF0123456789abcdef0123456789abcdef0123456789abcdef\n", "" },
		{ "0::/docker-.scope\n", "" },
		{ "0::/.scope/docker-\n", "" },
	};
	(void)state;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = strdup(cases[i].cgroup);
		char id[64] = "before", small[4];

		assert_int_equal(vt_container_of_cgroup(text, id, sizeof(id)),
				 cases[i].id[0] != '\0');
		assert_string_equal(id, cases[i].id);
		strcpy(text, cases[i].cgroup);
		vt_container_of_cgroup(text, small, sizeof(small));
		assert_true(strlen(small) < sizeof(small));
		free(text);
	}
}

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

/*
 * Children are in it, and the one that made it is not. Tells what its child is and sees, or 0 when
 * it may not.
 */
static void make_time_namespace(int out)
{
	uint64_t said[2] = { 0 };
	int fd;
	bool ok;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	fd = unshare(CLONE_NEWTIME) ? -1 : open("/proc/self/timens_offsets", O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, "monotonic 1000 5", 16) == 16;
	if (ok && !fork()) {
		struct timespec now;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		clock_gettime(CLOCK_MONOTONIC, &now);
		said[0] = (uint64_t)getpid();
		said[1] = (uint64_t)now.tv_sec * VT_NS_PER_S + (uint64_t)now.tv_nsec;
		ok = write(out, said, sizeof(said)) == sizeof(said);
		pause();
		_exit(!ok);
	}
	if (!ok)
		ok = write(out, said, sizeof(said)) == sizeof(said);
	pause();
	_exit(!ok);
}

static void other_clocks(void **state)
{
	int64_t ahead = 1;
	uint64_t said[2], before = vt_now_ns();
	int pipes[2];
	pid_t child;

	(void)state;
	assert_true(vt_timens_ahead(getpid(), &ahead));
	assert_int_equal(ahead, 0);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	child = fork();
	if (!child)
		make_time_namespace(pipes[1]);
	close(pipes[1]);
	assert_int_equal(read(pipes[0], said, sizeof(said)), sizeof(said));
	close(pipes[0]);
	if (said[0]) {
		assert_true(vt_timens_ahead((pid_t)said[0], &ahead));
		assert_int_equal(ahead, 1000 * (int64_t)VT_NS_PER_S + 5);
		assert_true(said[1] >= before + (uint64_t)ahead &&
			    said[1] <= vt_timens_now((pid_t)said[0]));
		/* The one that made it is still in ours. */
		assert_true(vt_timens_ahead(child, &ahead));
		assert_int_equal(ahead, 0);
	}
	kill(child, SIGKILL);
	assert_int_equal(waitpid(child, NULL, 0), child);
	if (!said[0])
		skip(); /* not permitted, or an old kernel */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(knows_itself),
		cmocka_unit_test(names_are_only_names),
		cmocka_unit_test(lists_threads),
		cmocka_unit_test(a_running_thread_is_in_no_call),
		cmocka_unit_test(zombies),
		cmocka_unit_test(main_thread_has_ended),
		cmocka_unit_test(numbers_that_are_no_process),
		cmocka_unit_test(static_and_musl_programs),
		cmocka_unit_test(namespaces),
		cmocka_unit_test(names_the_tracer),
		cmocka_unit_test(says_why_not),
		cmocka_unit_test(container_ids),
		cmocka_unit_test(other_clocks),
	};

	return cmocka_run_group_tests_name("proc", tests, NULL, NULL);
}
