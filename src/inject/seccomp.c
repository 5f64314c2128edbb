/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/seccomp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>

#include "inject/stub/stub.h"
#include "vramtap/arch.h"

#ifndef SYS_clone3
#define SYS_clone3 435
#endif
#ifndef SYS_close_range
#define SYS_close_range 436
#endif
#ifndef SYS_rseq
#define SYS_rseq 334
#endif

#define MAX_FILTERS 64

/* The clone() flags of glibc's pthread_create(). */
#define CLONE_THREAD_FLAGS                                                                  \
	(CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SYSVSEM | CLONE_SIGHAND | CLONE_THREAD | \
	 CLONE_SETTLS | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID)

enum need {
	MUST_WORK, /* anything but "allow" would break the borrowed thread or the session */
	MAY_FAIL,  /* an error is fine, a signal is not */
};

/*
 * Every system call of the stub, of the helper, and of glibc when it creates and ends a thread.
 * Arguments that filters can check are those that are really passed; pointers are 0.
 */
struct call {
	const char *name;
	enum need need;
	struct seccomp_data data;
};
#define CALL(call, must, ...)                                                            \
	{                                                                                \
#call, must,                                                             \
		{                                                                        \
			.nr = SYS_##call, .arch = VT_ARCH_AUDIT, .args = { __VA_ARGS__ } \
		}                                                                        \
	}

static const struct call helper_calls[] = {
	VT_FRAME_CALLS CALL(rt_sigprocmask, MUST_WORK, SIG_SETMASK, 0, 0, 8),
	CALL(rt_sigpending, MUST_WORK, 0, 8),
	CALL(rt_sigaction, MUST_WORK, SIGUSR1, 0, 0, 8),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | 0x100000, (__u64)-1, 0),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
	     (__u64)-1, 0),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | 0x100000, 5, 0),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | 0x100000, 5, 0),
	CALL(munmap, MUST_WORK, 0, 4096),
	CALL(mprotect, MUST_WORK, 0, 4096, PROT_READ | PROT_WRITE),
	CALL(brk, MAY_FAIL, 0),
	CALL(getrandom, MAY_FAIL, 0, 8, 1), /* malloc seeds itself with it, glibc 2.34 on */
	CALL(clock_gettime, MUST_WORK, 1),
	CALL(clone3, MAY_FAIL, 0, 88),
	CALL(clone, MUST_WORK, CLONE_THREAD_FLAGS),
	CALL(clone, MUST_WORK, VT_FILE_THREAD_FLAGS),
	CALL(close_range, MAY_FAIL, 0, UINT32_MAX, 0),
	CALL(set_robust_list, MUST_WORK, 0, 24),
	CALL(rseq, MAY_FAIL, 0, 32, 0, 0x53053053),
	CALL(madvise, MAY_FAIL, 0, 4096, MADV_DONTNEED),
	CALL(madvise, MAY_FAIL, 0, 4096, MADV_DONTFORK),
	CALL(madvise, MAY_FAIL, 0, 4096, 23 /* MADV_POPULATE_WRITE, of newer headers */),
	CALL(exit, MUST_WORK, 0),
	CALL(futex, MUST_WORK, 0, FUTEX_WAIT),
	CALL(futex, MUST_WORK, 0, FUTEX_WAKE),
	CALL(futex, MUST_WORK, 0, FUTEX_WAKE | FUTEX_PRIVATE_FLAG),
	CALL(memfd_create, MUST_WORK, 0, 9),
	CALL(memfd_create, MAY_FAIL, 0, 3),
	CALL(close, MUST_WORK, 5),
	CALL(nanosleep, MUST_WORK, 0, 0),
	CALL(gettid, MUST_WORK, 0),
	CALL(getpid, MUST_WORK, 0),
	CALL(kill, MAY_FAIL, 1, SIGSTOP),
	CALL(openat, MAY_FAIL, AT_FDCWD, 0, O_RDONLY | O_CLOEXEC),
	CALL(read, MAY_FAIL, 5, 0, 4096),
	CALL(prctl, MAY_FAIL, PR_SET_NAME, 0),
	CALL(sched_getscheduler, MAY_FAIL, 0),
	CALL(sched_setscheduler, MAY_FAIL, 0, 0, 0),
	CALL(process_vm_readv, MAY_FAIL, 1, 0, 1, 0, 1, 0),
};

/*
 * In addition: the calls of dlopen() in glibc (elf/dl-load.c; it reports a failed call as an
 * error), of the code that makes its file (helper/load.c), and of the recorder, also on threads
 * that allocate (helper/recorder/).
 */
static const struct call recorder_calls[] = {
	CALL(openat, MUST_WORK, AT_FDCWD, 0, O_RDONLY | O_CLOEXEC),
	CALL(read, MUST_WORK, 5, 0, 832),
	CALL(write, MUST_WORK, 5, 0, 65536),
	CALL(pread64, MAY_FAIL, 5, 0, 832, 64),
	CALL(newfstatat, MAY_FAIL, 5, 0, 0, AT_EMPTY_PATH),
	CALL(fstat, MAY_FAIL, 5, 0),
	CALL(lseek, MAY_FAIL, 5, 0, SEEK_SET),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_DENYWRITE, 5, 0),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_DENYWRITE | MAP_FIXED, 5, 0),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_READ | PROT_WRITE,
	     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, (__u64)-1, 0),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
	     (__u64)-1, 0),
	CALL(mmap, MUST_WORK, 0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
	     (__u64)-1, 0),
	CALL(mprotect, MUST_WORK, 0, 4096, PROT_READ),
	CALL(fcntl, MAY_FAIL, 5, F_ADD_SEALS,
	     F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE),
	CALL(fcntl, MAY_FAIL, 5, F_DUPFD_CLOEXEC, 1000),
	CALL(madvise, MAY_FAIL, 0, 4096, 18 /* MADV_WIPEONFORK */),
	CALL(madvise, MAY_FAIL, 0, 4096, 19 /* MADV_KEEPONFORK */),
	CALL(madvise, MAY_FAIL, 0, 4096, MADV_NOHUGEPAGE),
	CALL(sched_yield, MAY_FAIL, 0),
};
#undef CALL

/* A 32-bit word of the data, as BPF_LD | BPF_W | BPF_ABS sees it. */
static bool load_word(const struct seccomp_data *data, uint32_t offset, uint32_t *value)
{
	if (offset % 4 || offset > sizeof(*data) - 4)
		return false;
	memcpy(value, (const char *)data + offset, 4);
	return true;
}

static uint32_t compute(uint32_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_ADD:
		return a + b;
	case BPF_SUB:
		return a - b;
	case BPF_MUL:
		return a * b;
	case BPF_DIV:
		return b ? a / b : 0;
	case BPF_OR:
		return a | b;
	case BPF_AND:
		return a & b;
	case BPF_XOR:
		return a ^ b;
	case BPF_LSH:
		return b < 32 ? a << b : 0;
	case BPF_RSH:
		return b < 32 ? a >> b : 0;
	default: /* BPF_NEG */
		return -a;
	}
}

static bool compare(uint32_t op, uint32_t a, uint32_t b)
{
	switch (op) {
	case BPF_JEQ:
		return a == b;
	case BPF_JGT:
		return a > b;
	case BPF_JGE:
		return a >= b;
	default: /* BPF_JSET */
		return a & b;
	}
}

/*
 * The classic BPF of seccomp(2): words of seccomp_data are loaded by absolute offset, jumps go
 * forward only, so every program ends.
 */
uint32_t vt_seccomp_run(const struct sock_filter *program, size_t n,
			const struct seccomp_data *data)
{
	uint32_t a = 0, x = 0, mem[BPF_MEMWORDS] = { 0 };

	for (uint64_t pc = 0; pc < n; pc++) {
		const struct sock_filter *f = &program[pc];
		uint32_t operand = BPF_SRC(f->code) == BPF_X ? x : f->k;

		switch (BPF_CLASS(f->code)) {
		case BPF_LD:
			if (f->code == (BPF_LD | BPF_W | BPF_ABS)) {
				if (!load_word(data, f->k, &a))
					return SECCOMP_RET_KILL_PROCESS;
			} else if (BPF_MODE(f->code) == BPF_LEN) {
				a = sizeof(*data);
			} else {
				a = BPF_MODE(f->code) == BPF_MEM ? mem[f->k % BPF_MEMWORDS] : f->k;
			}
			break;
		case BPF_LDX:
			x = BPF_MODE(f->code) == BPF_LEN ? sizeof(*data) :
			    BPF_MODE(f->code) == BPF_MEM ? mem[f->k % BPF_MEMWORDS] :
							   f->k;
			break;
		case BPF_ST:
			mem[f->k % BPF_MEMWORDS] = a;
			break;
		case BPF_STX:
			mem[f->k % BPF_MEMWORDS] = x;
			break;
		case BPF_ALU:
			a = compute(BPF_OP(f->code), a, operand);
			break;
		case BPF_JMP:
			if (BPF_OP(f->code) == BPF_JA)
				pc += f->k;
			else
				pc += compare(BPF_OP(f->code), a, operand) ? f->jt : f->jf;
			break;
		case BPF_RET:
			return BPF_RVAL(f->code) == BPF_A ? a : f->k;
		default: /* BPF_MISC */
			if (BPF_MISCOP(f->code) == BPF_TAX)
				x = a;
			else
				a = x;
		}
	}
	return SECCOMP_RET_KILL_PROCESS;
}

static bool is_fine(uint32_t answer, enum need need)
{
	switch (answer & SECCOMP_RET_ACTION_FULL) {
	case SECCOMP_RET_ALLOW:
	case SECCOMP_RET_LOG:
		return true;
	case SECCOMP_RET_ERRNO:
		return need == MAY_FAIL;
	default:
		return false;
	}
}

static const char *forbidden(const struct sock_filter *program, size_t n, const struct call *calls,
			     size_t n_calls)
{
	for (size_t i = 0; i < n_calls; i++)
		if (!is_fine(vt_seccomp_run(program, n, &calls[i].data), calls[i].need))
			return calls[i].name;
	return NULL;
}

const char *vt_seccomp_forbidden(const struct sock_filter *program, size_t n,
				 enum vt_seccomp_use use)
{
	const char *name =
		forbidden(program, n, helper_calls, sizeof(helper_calls) / sizeof(helper_calls[0]));

	if (!name && use == VT_SECCOMP_RECORDER)
		name = forbidden(program, n, recorder_calls,
				 sizeof(recorder_calls) / sizeof(recorder_calls[0]));
	return name;
}

/* The i-th filter of the thread; *n is 0 when there are no more. */
static struct vt_error *get_filter(pid_t tid, unsigned long i, struct sock_filter *program,
				   size_t *n)
{
	long count = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)i, NULL);

	*n = 0;
	if (count < 0 && errno == ENOENT)
		return NULL;
	if (count >= 0 && count <= BPF_MAXINSNS)
		count = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, (void *)i, program);
	if (count < 0 || count > BPF_MAXINSNS)
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"the process has a seccomp filter that may not be read: %s (reading "
			"it needs CAP_SYS_ADMIN, and no seccomp filter on this tool: sudo on the host, or "
			"a privileged container, as of kubectl debug --profile=sysadmin)",
			strerror(errno));
	*n = (size_t)count;
	return NULL;
}

struct vt_error *vt_seccomp_check(pid_t tid, enum vt_seccomp_use use)
{
	VT_FREE struct sock_filter *program = calloc(BPF_MAXINSNS, sizeof(*program));

	if (!program)
		return &vt_enomem;
	for (unsigned long i = 0; i < MAX_FILTERS; i++) {
		const char *name;
		size_t n;

		VT_TRY(get_filter(tid, i, program, &n));
		if (!n)
			return NULL;
		name = vt_seccomp_forbidden(program, n, use);
		if (name)
			return vt_error_create(
				VT_ERR_UNSUPPORTED,
				"the process has a seccomp filter that forbids %s(), which the %s needs",
				name, use == VT_SECCOMP_RECORDER ? "recorder" : "helper");
	}
	return vt_error_create(VT_ERR_UNSUPPORTED, "the process has more than %d seccomp filters",
			       MAX_FILTERS);
}
