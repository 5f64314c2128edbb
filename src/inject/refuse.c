/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/refuse.h"

#include <linux/kcmp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/str.h"

static bool is_gone(const struct vt_proc *proc)
{
	return proc->state == 'Z' || proc->state == 'X' || !vt_proc_is_alive(proc);
}

static bool is_kernel_thread(const struct vt_proc *proc)
{
	return proc->kernel_thread;
}

static bool is_32bit(const struct vt_proc *proc)
{
	return proc->is_32bit;
}

static bool is_musl(const struct vt_proc *proc)
{
	return proc->is_musl;
}

/* SECCOMP_MODE_STRICT: read, write, exit and sigreturn only. Filters are looked at later, when a thread is stopped. */
static bool is_seccomp_strict(const struct vt_proc *proc)
{
	return proc->seccomp == 1;
}

static bool has_shadow_stack(const struct vt_proc *proc)
{
	return proc->shadow_stack;
}

/* Between vfork() and execve() a process runs in the memory of its parent. */
static bool shares_memory_with_parent(const struct vt_proc *proc)
{
	return proc->ppid > 0 && syscall(SYS_kcmp, proc->pid, proc->ppid, KCMP_VM, 0, 0) == 0;
}

static const struct {
	bool (*applies)(const struct vt_proc *proc);
	enum vt_error_code code;
	const char *why;
} refusals[] = {
	{ is_gone, VT_ERR_GONE, "has ended" },
	{ is_kernel_thread, VT_ERR_UNSUPPORTED, "is a thread of the kernel" },
	{ is_32bit, VT_ERR_UNSUPPORTED, "is a 32-bit program" },
	{ is_musl, VT_ERR_UNSUPPORTED, "uses musl; only the GNU C library is supported" },
	{ is_seccomp_strict, VT_ERR_UNSUPPORTED, "is in seccomp strict mode, which would kill it" },
	{ has_shadow_stack, VT_ERR_UNSUPPORTED, "uses a shadow stack (CET), which our way back would violate" },
	{ shares_memory_with_parent, VT_ERR_UNSUPPORTED, "shares its memory with its parent (it is between vfork and exec)" },
};

struct vt_error *vt_inject_refusal(const struct vt_proc *proc)
{
	for (size_t i = 0; i < sizeof(refusals) / sizeof(refusals[0]); i++)
		if (refusals[i].applies(proc))
			return vt_error_create(refusals[i].code, "process %d %s", (int)proc->pid, refusals[i].why);
	if (proc->tracer) {
		struct vt_str name = { 0 };
		struct vt_error *err;

		vt_str_add_escaped(&name, proc->tracer_name, strlen(proc->tracer_name));
		err = vt_error_create(VT_ERR_BUSY, "process %d is traced by process %d (%s)", (int)proc->pid,
				      (int)proc->tracer, vt_str_get(&name));
		vt_str_deinit(&name);
		return err;
	}
	return NULL;
}
