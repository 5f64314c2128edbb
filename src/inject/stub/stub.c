/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stub's C part. It is linked into a flat image of position-independent code without data
 * (stub.lds refuses anything else) and is placed in the zero padding behind a text segment of the
 * target. Its bytes are constant: a later session recognises and reuses them, so code that may be
 * running is never rewritten.
 *
 * Built freestanding and with integer registers only: the borrowed thread's floating point state is
 * saved around vt_stub_main(), but not around vt_stub_finish().
 */
#include "inject/stub/stub.h"

#include <linux/memfd.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/signal.h>

#include "inject/stub/leave.h"
#include "vramtap/freestanding.h"

#define NS_PER_US UINT64_C(1000)
#define NS_PER_S UINT64_C(1000000000)

#define DETACHED 1 /* PTHREAD_CREATE_DETACHED */
#define EINVAL_ 22

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

/* How many descriptors are closed one by one before Linux 5.9, which has close_range(). */
#define MANY_FDS 65536

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

/* pthread_attr_t is 56 bytes; glibc's ABI cannot change that. */
struct attr {
	uint64_t words[8];
};

int vt_stub_main(struct vt_stub_block *block, struct vt_stub_control *control);
void vt_stub_finish(struct vt_stub_block *block, int failure);
void *vt_stub_thread(struct vt_stub_control *control);
long vt_stub_start_file_thread(struct vt_stub_control *control);
void vt_stub_file(struct vt_stub_control *control);

static int create_thread(struct vt_stub_control *control, uint64_t stack_size)
{
	int (*attr_init)(struct attr *) = (void *)control->pthread_attr_init;
	int (*set_detached)(struct attr *, int) = (void *)control->pthread_attr_setdetachstate;
	int (*set_stack_size)(struct attr *, uint64_t) = (void *)control->pthread_attr_setstacksize;
	int (*create)(uint64_t *, struct attr *, void *, void *) = (void *)control->pthread_create;
	struct attr attr;
	uint64_t handle;

	attr_init(&attr);
	set_detached(&attr, DETACHED);
	if (stack_size)
		set_stack_size(&attr, stack_size);
	return create(&handle, &attr, (void *)control->thread, control);
}

/*
 * Runs on the borrowed thread, on the scratch stack, signals blocked. Starts the helper's thread;
 * returns 0 or minus what pthread_create returned.
 */
int vt_stub_main(struct vt_stub_block *block, struct vt_stub_control *control)
{
	const volatile uint64_t *from = (const uint64_t *)&block->control;
	volatile uint64_t *to = (volatile uint64_t *)control;

	for (size_t i = 0; i < sizeof(*control) / sizeof(*to); i++)
		to[i] = from[i];
	control->begin_ns = vt_sys_now_ns();

	int *(*errno_location)(void) = (void *)control->errno_location;
	int *errno_p = errno_location();
	int saved_errno = *errno_p;
	int ret = create_thread(control, control->stack_size);

	/* The target's static TLS does not fit. */
	if (ret == EINVAL_)
		ret = create_thread(control, 0);
	*errno_p = saved_errno;
	control->end_ns = vt_sys_now_ns();
	return -ret;
}

/* Would this handler have ended the system call with EINTR instead of letting it restart? */
static int interrupts(int sig, uint64_t restart)
{
	struct {
		uint64_t handler, flags, restorer, mask;
	} action;

	if (vt_sys4(SYS_rt_sigaction, sig, 0, (long)&action, 8) != 0)
		return 0;
	if (action.handler <= 1) /* SIG_DFL, SIG_IGN */
		return 0;
	return restart == VT_RESTART_NOHAND || !(action.flags & 0x10000000 /* SA_RESTART */);
}

/*
 * The handler of a signal that came while signals were blocked runs when the mask is restored,
 * outside of the system call. The EINTR that the signal would have caused is produced here.
 */
static void take_over_eintr(struct vt_stub_block *block)
{
	uint64_t pending = 0;

	if (block->restart != VT_RESTART_SYS && block->restart != VT_RESTART_NOHAND)
		return;
	vt_sys2(SYS_rt_sigpending, (long)&pending, 8);
	pending &= ~block->signal_mask;
	for (int sig = 1; pending && sig <= 64; sig++) {
		if (!(pending >> (sig - 1) & 1) || !interrupts(sig, block->restart))
			continue;
		vt_stub_end_call(block);
		return;
	}
}

/*
 * Runs on the borrowed thread and on its own stack, below the block, just before the registers are
 * restored.
 */
void vt_stub_finish(struct vt_stub_block *block, int failure)
{
	if (failure) {
		block->failed_errno = failure;
		block->failed_nonce = block->control.nonce;
	}
	take_over_eintr(block);
	vt_stub_prepare_leave(block);
}

/*
 * Waits for the tool's word. The first exchange decides: a GO that comes later finds
 * VT_STUB_CLOSED.
 */
static uint32_t wait_for_command(struct vt_stub_control *control)
{
	uint64_t start = vt_sys_now_ns();

	while (__atomic_load_n(&control->command, __ATOMIC_SEQ_CST) == VT_STUB_WAIT &&
	       vt_sys_now_ns() - start < control->patience_ns)
		vt_sys_sleep_ns(50 * NS_PER_US);
	return __atomic_exchange_n(&control->command, VT_STUB_CLOSED, __ATOMIC_SEQ_CST);
}

static void unmap_pieces(const struct vt_stub_control *control, int n)
{
	for (int i = 0; i < n; i++)
		if (control->pieces[i].size)
			vt_sys2(SYS_munmap, (long)control->pieces[i].addr,
				(long)control->pieces[i].size);
}

/*
 * Maps one piece at its exact address, never over another mapping; a fork() of the target does not
 * inherit it.
 */
static int map_piece(const struct vt_stub_piece *piece, int fd)
{
	if (!piece->size)
		return 0;

	long got = vt_sys6(SYS_mmap, (long)piece->addr, (long)piece->size, piece->prot,
			   (long)(piece->flags | MAP_FIXED_NOREPLACE), fd, (long)piece->offset);

	if (got != (long)piece->addr) {
		if ((unsigned long)got > -4096UL)
			return (int)-got;
		vt_sys2(SYS_munmap, got, (long)piece->size);
		return 17; /* EEXIST */
	}
	vt_sys4(SYS_madvise, got, (long)piece->size, MADV_DONTFORK, 0);
	return 0;
}

static int map_pieces(const struct vt_stub_control *control, int fd)
{
	for (int i = 0; i < VT_N_PIECES; i++) {
		int error = map_piece(&control->pieces[i], fd);

		if (error) {
			unmap_pieces(control, i);
			return error;
		}
	}
	return 0;
}

static void set_state(struct vt_stub_control *control, uint32_t state)
{
	__atomic_store_n(&control->state, state, __ATOMIC_SEQ_CST);
}

static void fail(struct vt_stub_control *control, uint32_t state, int error)
{
	control->error = error;
	set_state(control, state);
}

/*
 * The library's life: run it, unmap it. No other thread ever executes it, so unmapping it is safe.
 */
static void run_library(struct vt_stub_control *control)
{
	set_state(control, VT_STUB_RUNNING);

	const struct vt_stub_piece *session = &control->pieces[VT_PIECE_SESSION];
	uint32_t (*entry)(void *, uint64_t) = (void *)control->entry;
	uint32_t abandoned = entry((void *)session->addr, session->size);

	unmap_pieces(control, VT_N_PIECES);
	if (abandoned && control->stop_again)
		vt_sys2(SYS_kill, vt_sys0(SYS_getpid), SIGSTOP);
}

/*
 * The memory file. MFD_NOEXEC_SEAL (Linux 6.3) only clears the file's own x bits, which mmap does
 * not need, and is the only form that every setting of vm.memfd_noexec accepts; it implies
 * MFD_ALLOW_SEALING. Older kernels return EINVAL.
 */
static int create_file(const struct vt_stub_control *control)
{
	long fd =
		vt_sys2(SYS_memfd_create, (long)control->file_name, MFD_CLOEXEC | MFD_NOEXEC_SEAL);

	if (fd == -EINVAL_)
		fd = vt_sys2(SYS_memfd_create, (long)control->file_name,
			     MFD_CLOEXEC | MFD_ALLOW_SEALING);
	return (int)fd;
}

/*
 * Closes the copies of the target's descriptors: they must not keep a connection open that the
 * target closes.
 */
static void close_copies(void)
{
	if (!vt_sys4(SYS_close_range, 0, UINT32_MAX, 0, 0))
		return;
	for (int fd = 0; fd < MANY_FDS; fd++)
		vt_sys2(SYS_close, fd, 0);
}

/*
 * Runs on a thread of its own, which shares its descriptor table with no other thread. So the
 * target can neither close the memory file, nor put another in its place, nor pass it on to a
 * child; and we can never close or map a file of the target by mistake.
 */
void vt_stub_file(struct vt_stub_control *control)
{
	int fd, error;

	close_copies();
	fd = create_file(control);
	if (fd < 0) {
		fail(control, VT_STUB_NO_FILE, -fd);
		return;
	}
	control->fd = fd;
	control->file_tid = (int)vt_sys0(SYS_gettid);
	set_state(control, VT_STUB_READY);
	if (wait_for_command(control) != VT_STUB_GO) {
		set_state(control, VT_STUB_GAVE_UP);
		return;
	}
	error = map_pieces(control, fd);
	if (error)
		fail(control, VT_STUB_NO_MAP, error);
	else
		set_state(control, VT_STUB_MAPPED);
}

/*
 * The kernel clears file_busy, and wakes us, when the thread is off its stack; its descriptors are
 * closed just after.
 */
static void serve(struct vt_stub_control *control)
{
	long ret;

	control->file_busy = 1;
	ret = vt_stub_start_file_thread(control);
	if (ret < 0) {
		fail(control, VT_STUB_NO_FILE, (int)-ret);
		return;
	}
	while (__atomic_load_n(&control->file_busy, __ATOMIC_SEQ_CST))
		if (vt_sys4(SYS_futex, (long)&control->file_busy, 0 /* FUTEX_WAIT */, 1, 0))
			vt_sys_sleep_ns(50 * NS_PER_US);
	if (control->state == VT_STUB_MAPPED)
		run_library(control);
}

/*
 * After a failure: waits up to a second so that the tool can read the reason (on a busy machine the
 * tool may have to wait for a processor).
 */
static void wait_until_seen(struct vt_stub_control *control)
{
	for (int i = 0;
	     i < 2000 && __atomic_load_n(&control->command, __ATOMIC_SEQ_CST) != VT_STUB_SEEN; i++)
		vt_sys_sleep_ns(500 * NS_PER_US);
}

/*
 * The borrowed thread must leave the region first. If it gets no processor for 10 s, it is better
 * to leave 256 KiB of address space behind than to unmap its stack.
 */
static void unmap_region(struct vt_stub_control *control)
{
	for (int i = 0; i < 20000; i++) {
		if (__atomic_load_n(&control->borrower_done, __ATOMIC_SEQ_CST)) {
			vt_sys2(SYS_munmap, (long)control->region, VT_REGION_SIZE);
			return;
		}
		vt_sys_sleep_ns(500 * NS_PER_US);
	}
}

/*
 * With a real-time priority inherited from the borrowed thread, our work would displace the
 * target's.
 */
static void be_ordinary(void)
{
	int priority = 0;
	long policy = vt_sys2(SYS_sched_getscheduler, 0, 0);

	if (policy == 1 /* SCHED_FIFO */ || policy == 2 /* SCHED_RR */)
		vt_sys4(SYS_sched_setscheduler, 0, 0 /* SCHED_OTHER */, (long)&priority, 0);
}

/*
 * The helper's thread: an ordinary detached pthread of the target that inherited our mask. Every
 * signal is blocked except the C library's own 33 (setuid() and similar calls wait until each
 * thread has handled it).
 */
void *vt_stub_thread(struct vt_stub_control *control)
{
	/* "vramtap"; a string constant would be data */
	uint64_t name = UINT64_C(0x007061746d617276);

	vt_sys2(SYS_prctl, PR_SET_NAME, (long)&name);
	vt_sys4(SYS_madvise, (long)control->region, VT_REGION_SIZE, MADV_DONTFORK, 0);
	be_ordinary();
	serve(control);
	if (control->state != VT_STUB_RUNNING)
		wait_until_seen(control);
	unmap_region(control);
	return 0;
}
