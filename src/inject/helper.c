/* SPDX-License-Identifier: Apache-2.0 */
/* The session with the helper, from the search for a thread to the last request. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/page.h"
#include "base/random.h"
#include "base/str.h"
#include "inject/borrow.h"
#include "inject/channel.h"
#include "inject/choose.h"
#include "inject/image.h"
#include "inject/inject.h"
#include "inject/space.h"
#include "inject/refuse.h"
#include "inject/symbols.h"
#include "inject/arch/xstate.h"

/*
 * The helper ends by itself this long after the tool's last sign of life (any call of this file).
 */
#define PATIENCE_NS (5 * VT_NS_PER_S)

/* Room for 8,000 blocks at first; the maximum is address space of the target, not memory. */
#define FIRST_ROOM (UINT64_C(1) << 19)
#define MAX_ROOM (UINT64_C(1) << 28)

/* How long to wait for the end of the helper's thread. */
#define QUIT_NS (100 * VT_NS_PER_MS)
#define SLICE_NS (50 * VT_NS_PER_MS)
/* VT_OP_RELIEVE waits for a sign of life with the GIL held */
#define SLICE_RELIEVE_NS (10 * VT_NS_PER_MS)

/*
 * When the search starts to consider threads with more exposure (choose.h): after this time, or
 * sooner when no thread has moved for so many looks, because then nothing better will come.
 */
static const struct {
	uint64_t after_ns;
	unsigned int after_still;
	int exposure;
} search_steps[] = {
	{ 0, 0, VT_EXPOSURE_QUIET },
	{ 20 * VT_NS_PER_MS, 2, VT_EXPOSURE_VISIBLE },
	{ 100 * VT_NS_PER_MS, 3, VT_EXPOSURE_LAST_RESORT },
};

/*
 * The stack of the helper's thread: room for the driver's calls and the target's static TLS. The
 * target's default may be GiBs.
 */
#define STACK_SIZE UINT64_C(0x80000)

#define MAX_CANDIDATES 4
#define MAX_GROWS 4

struct vt_helper {
	pid_t pid;
	int pidfd; /* -1 before Linux 5.3 */
	int fd;
	struct vt_helper_shared *shared;
	uint64_t offset;   /* of the session's part in the file */
	uint64_t size;     /* of the session's part, as mapped here */
	uint64_t max_size; /* as mapped there */
	uint32_t seq;      /* of the last request */
	uint64_t slice_ns; /* between signs of life while it is answered */
	bool stop_again;   /* a signal had stopped the process before we came */
};

/* Everything that one attempt to inject needs. */
struct injection {
	const struct vt_proc *proc;
	struct vt_modules *modules;
	struct vt_live *live;
	const struct vt_inject_options *options;
	struct vt_maps maps; /* newer than modules->maps: threads come and go */
	struct vt_target_symbols symbols;
	struct vt_helper_image image;
	struct vt_borrow_plan plan;
	struct vt_borrow_record record;
	pid_t borrowed_tid;
	bool continued; /* SIGCONT was sent */
};

/* Preparations */

static uint64_t session_size(void)
{
	return VT_HELPER_ROOM_OFFSET + FIRST_ROOM;
}

/* A limited address space gets no more than what is needed at the start. */
static uint64_t session_map_size(pid_t pid)
{
	struct rlimit limit;

	if (!prlimit(pid, RLIMIT_AS, NULL, &limit) && limit.rlim_cur != RLIM_INFINITY)
		return session_size();
	return VT_HELPER_ROOM_OFFSET + MAX_ROOM + MAX_ROOM / 4;
}

/* Lays region and pieces out in one hole, a guard page between them. */
static struct vt_error *plan_addresses(struct injection *in)
{
	const uint64_t guard = vt_page_size();
	struct vt_stub_control *control = &in->plan.control;
	uint64_t text = in->image.text_size, data = in->image.data_size;
	uint64_t session = session_map_size(in->proc->pid);
	uint64_t at;

	VT_TRY(vt_space_for_region(&in->maps, VT_REGION_SIZE + text + data + session + 2 * guard,
				   &at));
	control->region = at;
	at += VT_REGION_SIZE + guard;
	control->pieces[VT_PIECE_TEXT] =
		(struct vt_stub_piece){ at, text, 0, PROT_READ | PROT_EXEC, MAP_PRIVATE };
	control->pieces[VT_PIECE_DATA] = (struct vt_stub_piece){ at + text, data, text,
								 PROT_READ | PROT_WRITE,
								 MAP_PRIVATE };
	control->entry = at + in->image.entry;
	at += text + data + guard;
	control->pieces[VT_PIECE_SESSION] = (struct vt_stub_piece){ at, session, text + data,
								    PROT_READ | PROT_WRITE,
								    MAP_SHARED | MAP_NORESERVE };
	return NULL;
}

static struct vt_error *plan_control(struct injection *in)
{
	struct vt_stub_control *control = &in->plan.control;

	if (!vt_random(&control->nonce, sizeof(control->nonce)))
		return vt_error_create_os(errno, "cannot get random numbers");
	control->nonce |= 1; /* what was never written is 0 */
	control->patience_ns = PATIENCE_NS;
	control->pthread_create = in->symbols.pthread_create;
	control->pthread_attr_init = in->symbols.pthread_attr_init;
	control->pthread_attr_setdetachstate = in->symbols.pthread_attr_setdetachstate;
	control->pthread_attr_setstacksize = in->symbols.pthread_attr_setstacksize;
	control->errno_location = in->symbols.errno_location;
	control->thread = in->plan.stub + VT_STUB_THREAD;
	control->stack_size = in->options->stack_bytes ? in->options->stack_bytes : STACK_SIZE;
	control->stop_again = in->continued;
	snprintf(control->file_name, sizeof(control->file_name), VT_HELPER_FILE_NAME "-%.16s",
		 in->image.build_id);
	return plan_addresses(in);
}

/* Writes the stub to its place, unless an earlier session has left it there. */
static struct vt_error *put_stub(struct injection *in)
{
	struct vt_error *err;
	bool present;

	VT_TRY(vt_space_for_stub(in->modules, in->live, vt_stub_blob, vt_stub_size(),
				 &in->plan.stub, &present));
	if (present)
		return NULL;
	err = vt_live_write(in->live, in->plan.stub, vt_stub_blob, vt_stub_size());
	/* Some kernels allow the write only to a tracer: the next try is during the stop. */
	if (err && err->code != VT_ERR_GONE) {
		vt_error_destroy(err);
		in->plan.write_stub = true;
		return NULL;
	}
	vt_fault_point("inject.stub-placed");
	return err;
}

static struct vt_error *prepare(struct injection *in)
{
	uint32_t xstate_size;

	VT_TRY(vt_inject_refusal(in->proc));
	VT_TRY(vt_helper_image_describe(&in->image));
	VT_TRY(vt_xstate_describe(&in->plan.xstate, &xstate_size));
	if (xstate_size > VT_XSAVE_MAX)
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "this processor's extended state has %u bytes", xstate_size);
	VT_TRY(vt_target_symbols_init(&in->symbols, in->modules));
	VT_TRY(vt_maps_init(&in->maps, in->proc->pid));
	VT_TRY(put_stub(in));
	in->plan.proc = in->proc;
	in->plan.live = in->live;
	in->plan.maps = &in->maps;
	in->plan.use = in->options->loads ? VT_SECCOMP_RECORDER : VT_SECCOMP_HELPER;
	return plan_control(in);
}

/* Finding and borrowing a thread */

static bool is_stopped(pid_t pid)
{
	struct vt_thread_info info = { 0 };
	struct vt_error *err = vt_thread_info_read(&info, pid, pid);

	vt_error_destroy(err);
	return !err && info.state == 'T';
}

/* With permission, a stopped process is continued for as long as the session lasts. */
static struct vt_error *continue_stopped(struct injection *in)
{
	if (!in->options->allow_resume)
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "process %d is stopped by a signal (SIGSTOP or job control)",
				       (int)in->proc->pid);
	if (!in->continued && kill(in->proc->pid, SIGCONT))
		return vt_error_create_os(errno, "cannot continue process %d", (int)in->proc->pid);
	in->continued = true;
	in->plan.control.stop_again = 1;
	return NULL;
}

static int exposure_at(uint64_t elapsed_ns, unsigned int still)
{
	int exposure = 0;

	for (size_t i = 0; i < sizeof(search_steps) / sizeof(search_steps[0]); i++)
		if (elapsed_ns >= search_steps[i].after_ns || still >= search_steps[i].after_still)
			exposure = search_steps[i].exposure;
	return exposure;
}

/* One look at the threads; sets *done when a thread is on its way. */
static struct vt_error *borrow_one(struct injection *in, int max_exposure, bool *done,
				   uint64_t *scene)
{
	struct vt_candidate candidates[MAX_CANDIDATES];
	struct vt_choice choice = {
		.pid = in->proc->pid,
		.only_tid = in->options->only_tid,
		.live = in->live,
		.symbols = &in->symbols,
		.max_exposure = max_exposure,
	};
	size_t n;

	VT_TRY(vt_choose(&choice, candidates, MAX_CANDIDATES, &n, scene));
	for (size_t i = 0; i < n; i++) {
		enum vt_borrow_result result;

		VT_TRY(vt_borrow(&in->plan, &candidates[i], &result, &in->record));
		if (result == VT_BORROW_STOPPED)
			return continue_stopped(in);
		if (result == VT_BORROWED) {
			in->borrowed_tid = candidates[i].tid;
			*done = true;
			return NULL;
		}
	}
	return n == 0 && is_stopped(in->proc->pid) ? continue_stopped(in) : NULL;
}

static struct vt_error *refresh_maps(struct injection *in)
{
	vt_maps_deinit(&in->maps);
	in->maps = (struct vt_maps){ 0 };
	return vt_maps_init(&in->maps, in->proc->pid);
}

static struct vt_error *borrow(struct injection *in)
{
	uint64_t start = vt_now_ns();
	uint64_t pause = 500 * VT_NS_PER_US;
	uint64_t last_scene = 0, scene;
	unsigned int still = 0;
	bool done = false;

	for (;;) {
		uint64_t elapsed = vt_now_ns() - start;

		VT_TRY(borrow_one(in, exposure_at(elapsed, still), &done, &scene));
		if (done)
			return NULL;
		still = scene == last_scene ? still + 1 : 0;
		last_scene = scene;
		if (elapsed > in->options->budget_ns)
			return vt_error_create(
				VT_ERR_TIMEOUT,
				"no thread of process %d was safe to borrow within %llu ms (a thread qualifies "
				"while it waits in a system call and holds no lock of the C library)",
				(int)in->proc->pid,
				(unsigned long long)(in->options->budget_ns / VT_NS_PER_MS));
		vt_sleep_ns(pause);
		if (pause < 10 * VT_NS_PER_MS)
			pause *= 2;
		VT_TRY(refresh_maps(in));
	}
}

/* The session */

static struct vt_error *create_session(const struct injection *in,
				       const struct vt_channel_result *channel,
				       struct vt_helper **ret)
{
	struct vt_helper *helper = calloc(1, sizeof(*helper));

	if (!helper) {
		munmap(channel->shared, session_size());
		close(channel->fd);
		return &vt_enomem;
	}
	*helper = (struct vt_helper){
		.pid = in->proc->pid,
		.pidfd = (int)syscall(SYS_pidfd_open, in->proc->pid, 0),
		.fd = channel->fd,
		.shared = channel->shared,
		.offset = channel->offset,
		.size = session_size(),
		.max_size = in->plan.control.pieces[VT_PIECE_SESSION].size,
		.stop_again = in->continued,
	};
	*ret = helper;
	return NULL;
}

static struct vt_error *inject(struct injection *in, struct vt_inject_timing *timing,
			       struct vt_helper **ret)
{
	struct vt_channel channel = {
		.live = in->live,
		.image = &in->image,
		.control = &in->plan.control,
		.file_size = session_size(),
		.pid = in->proc->pid,
	};
	struct vt_channel_result result;

	VT_TRY(prepare(in));
	VT_TRY(borrow(in));
	channel.block = in->record.block;
	timing->borrowed_tid = in->borrowed_tid;
	VT_TRY(vt_channel_open(&channel, in->options->budget_ns, &result));
	if (result.end_ns > in->record.stop_ns)
		timing->borrowed_ns = result.end_ns - in->record.stop_ns;
	return create_session(in, &result, ret);
}

struct vt_error *vt_helper_create(const struct vt_proc *proc, struct vt_modules *modules,
				  struct vt_live *live, const struct vt_inject_options *options,
				  struct vt_inject_timing *timing, struct vt_helper **ret)
{
	struct injection in = {
		.proc = proc, .modules = modules, .live = live, .options = options
	};
	uint64_t start = vt_now_ns();

	*timing = (struct vt_inject_timing){ 0 };

	struct vt_error *err = inject(&in, timing, ret);

	if (err && in.continued && vt_proc_is_alive(proc))
		kill(proc->pid, SIGSTOP);
	vt_maps_deinit(&in.maps);
	timing->total_ns = vt_now_ns() - start;
	return err;
}

static void beat(struct vt_helper *helper)
{
	__atomic_store_n(&helper->shared->heartbeat_ns, vt_now_ns(), __ATOMIC_RELEASE);
}

struct vt_helper_shared *vt_helper_shared(struct vt_helper *helper)
{
	beat(helper);
	return helper->shared;
}

pid_t vt_helper_tid(const struct vt_helper *helper)
{
	int tid = (int)__atomic_load_n(&helper->shared->helper_tid, __ATOMIC_ACQUIRE);

	return tid > 0 ? vt_channel_find_thread(helper->pid, tid) : 0;
}

uint64_t vt_helper_size(const struct vt_helper *helper)
{
	return helper->size;
}

const void *vt_helper_room(struct vt_helper *helper, uint64_t offset, uint64_t n, size_t size)
{
	beat(helper);
	if (offset > helper->size || helper->size - offset < VT_HELPER_ROOM_OFFSET ||
	    n > (helper->size - offset - VT_HELPER_ROOM_OFFSET) / size)
		return NULL;
	return (const char *)helper->shared + VT_HELPER_ROOM_OFFSET + offset;
}

static bool is_gone(const struct vt_helper *helper)
{
	struct pollfd poll_fd = { .fd = helper->pidfd, .events = POLLIN };

	if (helper->pidfd < 0)
		return kill(helper->pid, 0) && errno == ESRCH;
	return poll(&poll_fd, 1, 0) > 0;
}

static void send_request(struct vt_helper *helper, enum vt_helper_op op)
{
	struct vt_helper_shared *shared = helper->shared;

	shared->op = op;
	helper->slice_ns = op == VT_OP_RELIEVE ? SLICE_RELIEVE_NS : SLICE_NS;
	beat(helper);
	vt_fault_point("inject.request");
	__atomic_store_n(&shared->request_seq, ++helper->seq, __ATOMIC_RELEASE);
	syscall(SYS_futex, &shared->request_seq, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
	vt_fault_point("inject.requested");
}

static bool is_done(const struct vt_helper *helper, uint32_t *seen)
{
	*seen = __atomic_load_n(&helper->shared->done_seq, __ATOMIC_ACQUIRE);
	return *seen == helper->seq;
}

/* Waits for the last request's answer. False at the deadline or when the process is gone. */
static bool wait_for_answer(struct vt_helper *helper, uint64_t deadline_ns)
{
	uint32_t seen;

	while (!is_done(helper, &seen)) {
		uint64_t now = vt_now_ns();
		struct timespec slice = { 0, (long)helper->slice_ns };

		if (now >= deadline_ns || is_gone(helper))
			return is_done(helper, &seen);
		if (deadline_ns - now < helper->slice_ns)
			slice.tv_nsec = (long)(deadline_ns - now);
		syscall(SYS_futex, &helper->shared->done_seq, FUTEX_WAIT, seen, &slice, NULL, 0);
		beat(helper);
	}
	return true;
}

static struct vt_error *answer_error(const struct vt_helper *helper)
{
	char why[sizeof(helper->shared->why)];
	struct vt_error *err;
	struct vt_str text = { 0 };

	switch (helper->shared->status) {
	case VT_HELPER_OK:
		return NULL;
	case VT_HELPER_NO_ROOM:
		return vt_error_create(VT_ERR_NOTFOUND, "the helper's answer does not fit");
	case VT_HELPER_BAD_ARGS:
		return vt_error_create(VT_ERR_FORMAT, "the helper does not know the request");
	default:
		break;
	}
	/* The target can write there while it is read. */
	memcpy(why, helper->shared->why, sizeof(why));
	vt_str_add_escaped(&text, why, strnlen(why, sizeof(why)));
	err = vt_error_create(VT_ERR_NOTFOUND, "the helper could not answer: %s",
			      vt_str_get(&text));
	vt_str_deinit(&text);
	return err;
}

struct vt_error *vt_helper_grow(struct vt_helper *helper, uint64_t size)
{
	void *p;

	size = (size + 4095) & ~UINT64_C(4095);
	if (size <= helper->size)
		return NULL;
	if (size > helper->max_size)
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"the helper's answer would take %llu MiB, more than its limit",
			(unsigned long long)(size >> 20));
	/* Allocated here, so that it counts as our memory and not as the target's. */
	if (TEMP_FAILURE_RETRY(fallocate(helper->fd, 0, (off_t)helper->offset, (off_t)size)))
		return vt_error_create_os(errno, "cannot grow the helper's memory file");
	p = mremap(helper->shared, helper->size, size, MREMAP_MAYMOVE);
	if (p == MAP_FAILED)
		return vt_error_create_os(errno, "cannot map the helper's memory file");
	helper->shared = p;
	helper->size = size;
	beat(helper);
	__atomic_store_n(&helper->shared->file_size, size, __ATOMIC_RELEASE);
	return NULL;
}

static struct vt_error *await_answer(struct vt_helper *helper, uint64_t deadline_ns)
{
	if (wait_for_answer(helper, deadline_ns))
		return NULL;
	if (is_gone(helper))
		return vt_error_create(VT_ERR_GONE, "process %d ended", (int)helper->pid);
	return vt_error_create(VT_ERR_TIMEOUT, "the helper in process %d did not answer in time",
			       (int)helper->pid);
}

static struct vt_error *call_once(struct vt_helper *helper, enum vt_helper_op op,
				  uint64_t deadline_ns)
{
	uint32_t seen;

	if (!is_done(helper, &seen))
		return vt_error_create(VT_ERR_BUSY,
				       "the helper has not answered the previous request");
	send_request(helper, op);
	return await_answer(helper, deadline_ns);
}

struct vt_error *vt_helper_call(struct vt_helper *helper, enum vt_helper_op op,
				uint64_t deadline_ns)
{
	VT_TRY(call_once(helper, op, deadline_ns));
	/* The answer grows while the target allocates; a quarter more makes a third try rare. */
	for (int tries = 0; helper->shared->status == VT_HELPER_NO_ROOM && tries < MAX_GROWS;
	     tries++) {
		uint64_t room = __atomic_load_n(&helper->shared->room_needed, __ATOMIC_RELAXED);

		if (room > MAX_ROOM)
			room = MAX_ROOM;
		VT_TRY(vt_helper_grow(helper, VT_HELPER_ROOM_OFFSET + room + room / 4));
		VT_TRY(call_once(helper, op, deadline_ns));
	}
	return answer_error(helper);
}

struct vt_error *vt_helper_await(struct vt_helper *helper, uint64_t deadline_ns)
{
	VT_TRY(await_answer(helper, deadline_ns));
	return answer_error(helper);
}

static void release_blocks(struct vt_block_rec *blocks, size_t n)
{
	if (blocks)
		munmap(blocks, n * sizeof(*blocks));
}

static struct vt_error *take_records(struct vt_helper *helper, uint64_t offset, uint64_t count,
				     struct vt_block_rec **blocks, size_t *n,
				     void (**release)(struct vt_block_rec *blocks, size_t n))
{
	void *copy;

	beat(helper);
	if (offset > helper->size || count > (helper->size - offset) / sizeof(**blocks))
		return vt_error_create(VT_ERR_FORMAT, "the helper's answer is out of bounds");
	*release = release_blocks;
	*n = count;
	*blocks = NULL;
	if (!count)
		return NULL;
	copy = mmap(NULL, count * sizeof(**blocks), PROT_READ | PROT_WRITE,
		    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		return &vt_enomem;
	memcpy(copy, (const char *)helper->shared + offset, count * sizeof(**blocks));
	*blocks = copy;
	return NULL;
}

/* Offset and number are read once each: the target can change them. */
struct vt_error *vt_helper_take_blocks(struct vt_helper *helper, struct vt_block_rec **blocks,
				       size_t *n,
				       void (**release)(struct vt_block_rec *blocks, size_t n))
{
	return take_records(helper,
			    __atomic_load_n(&helper->shared->torch.blocks_offset, __ATOMIC_RELAXED),
			    __atomic_load_n(&helper->shared->torch.n_blocks, __ATOMIC_RELAXED),
			    blocks, n, release);
}

struct vt_error *vt_helper_take_told(struct vt_helper *helper, struct vt_block_rec **blocks,
				     size_t *n,
				     void (**release)(struct vt_block_rec *blocks, size_t n))
{
	return take_records(helper,
			    __atomic_load_n(&helper->shared->asked.blocks_offset, __ATOMIC_RELAXED),
			    __atomic_load_n(&helper->shared->asked.n_blocks, __ATOMIC_RELAXED),
			    blocks, n, release);
}

void vt_helper_destroy(struct vt_helper *helper)
{
	if (!helper)
		return;
	/*
	 * A helper that is still busy sees this when it is done. If it never is done, its patience
	 * runs out because our heartbeat stops.
	 */
	send_request(helper, VT_OP_QUIT);
	wait_for_answer(helper, vt_now_ns() + QUIT_NS);
	if (helper->stop_again && !is_gone(helper))
		kill(helper->pid, SIGSTOP);
	munmap(helper->shared, helper->size);
	close(helper->fd);
	if (helper->pidfd >= 0)
		close(helper->pidfd);
	free(helper);
}
