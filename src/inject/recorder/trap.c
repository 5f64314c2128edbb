/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/recorder/trap.h"

#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "target/live.h"

/* The recorder expects one at least every 100 ms. */
#define BEAT_NS (25 * VT_NS_PER_MS)
/* By then another watcher would have given a sign of life. */
#define OTHERS_NS (250 * VT_NS_PER_MS)

struct vt_trap {
	struct vt_live *live; /* not that of the report, whose pages are cached and must stay */
	pthread_mutex_t lock; /* of live */
	pid_t pid;
	uint64_t recorder, at; /* addresses of vt_recorder and of the trap in it */
	pthread_t thread;
	uint32_t seen;      /* the last event that was looked at */
	bool beating;       /* the thread runs */
	bool ended;         /* it must end */
	uint64_t let_go_ns; /* when to let go of let_go_seq; 0: not */
	uint32_t let_go_seq;
};

#define WORD(trap, member) ((trap)->at + offsetof(struct vt_recorder_trap, member))

static struct vt_error *gone(const struct vt_trap *trap)
{
	return vt_error_create(VT_ERR_GONE, "process %d has ended, or runs another program now",
			       (int)trap->pid);
}

static struct vt_error *read_words(struct vt_trap *trap, uint64_t addr, void *buf, size_t len)
{
	pthread_mutex_lock(&trap->lock);

	int ret = vt_mem_read(vt_live_source(trap->live), addr, buf, len);

	pthread_mutex_unlock(&trap->lock);
	return ret ? gone(trap) : NULL;
}

static struct vt_error *write_word(struct vt_trap *trap, uint64_t addr, uint32_t value)
{
	pthread_mutex_lock(&trap->lock);

	struct vt_error *err = vt_live_write(trap->live, addr, &value, sizeof(value));

	pthread_mutex_unlock(&trap->lock);
	return err;
}

/* After an exec() something else is at that address. */
static struct vt_error *check_head(struct vt_trap *trap, bool first)
{
	struct {
		uint64_t magic;
		uint32_t abi, size;
	} head;

	VT_TRY(read_words(trap, trap->recorder, &head, sizeof(head)));
	if (head.magic != VT_RECORDER_MAGIC)
		return gone(trap);
	if (first && (head.abi != VT_RECORDER_ABI || head.size != sizeof(struct vt_recorder_head)))
		return vt_error_create(VT_ERR_UNSUPPORTED,
				       "the recorder in process %d is of another version of "
				       "vramtap; switch it off with: vramtap record %d off",
				       (int)trap->pid, (int)trap->pid);
	return NULL;
}

struct vt_error *vt_trap_create(pid_t pid, uint64_t recorder, struct vt_trap **ret)
{
	struct vt_trap *trap = calloc(1, sizeof(*trap));
	struct vt_error *err;

	if (!trap)
		return &vt_enomem;
	*trap = (struct vt_trap){
		.pid = pid,
		.recorder = recorder,
		.at = recorder + offsetof(struct vt_recorder_head, trap),
		.lock = PTHREAD_MUTEX_INITIALIZER,
	};
	err = vt_live_create(pid, &trap->live);
	if (!err)
		err = check_head(trap, true);
	if (err) {
		vt_trap_destroy(trap);
		return err;
	}
	*ret = trap;
	return NULL;
}

/* ---- signs of life ---- */

static struct vt_error *let_go_in_time(struct vt_trap *trap)
{
	uint64_t deadline = __atomic_load_n(&trap->let_go_ns, __ATOMIC_ACQUIRE);

	if (!deadline || !vt_deadline_passed(deadline))
		return NULL;
	__atomic_store_n(&trap->let_go_ns, 0, __ATOMIC_RELAXED);
	return write_word(trap, WORD(trap, taken),
			  __atomic_load_n(&trap->let_go_seq, __ATOMIC_RELAXED));
}

/* Gives signs of life until it must end, or the target is gone. */
static void *beat(void *arg)
{
	struct vt_trap *trap = arg;
	uint32_t heartbeat = 0;
	struct vt_error *err =
		read_words(trap, WORD(trap, heartbeat), &heartbeat, sizeof(heartbeat));

	while (!err && !__atomic_load_n(&trap->ended, __ATOMIC_ACQUIRE)) {
		err = write_word(trap, WORD(trap, heartbeat), ++heartbeat);
		if (!err)
			err = let_go_in_time(trap);
		vt_sleep_ns(BEAT_NS);
	}
	vt_error_destroy(err);
	return NULL;
}

/* Signals are for the main thread, which waits for them. */
static struct vt_error *start_beating(struct vt_trap *trap)
{
	sigset_t all, before;
	int ret;

	sigfillset(&all);
	pthread_sigmask(SIG_BLOCK, &all, &before);
	ret = pthread_create(&trap->thread, NULL, beat, trap);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (ret)
		return vt_error_create_os(ret, "cannot start a thread");
	trap->beating = true;
	return NULL;
}

void vt_trap_destroy(struct vt_trap *trap)
{
	if (!trap)
		return;
	if (trap->beating) {
		__atomic_store_n(&trap->ended, true, __ATOMIC_RELEASE);
		pthread_join(trap->thread, NULL);
	}
	vt_live_destroy(trap->live);
	free(trap);
}

/* ---- arming ---- */

static struct vt_error *refuse_if_watched(struct vt_trap *trap)
{
	uint64_t until = vt_now_ns() + OTHERS_NS;
	uint32_t armed, first, now;

	VT_TRY(read_words(trap, WORD(trap, armed), &armed, sizeof(armed)));
	VT_TRY(read_words(trap, WORD(trap, heartbeat), &first, sizeof(first)));
	while (armed && vt_now_ns() < until) {
		vt_sleep_ns(5 * VT_NS_PER_MS);
		VT_TRY(read_words(trap, WORD(trap, heartbeat), &now, sizeof(now)));
		if (now != first)
			return vt_error_create(VT_ERR_BUSY,
					       "another vramtap already watches process %d",
					       (int)trap->pid);
	}
	return NULL;
}

struct vt_error *vt_trap_arm(struct vt_trap *trap, uint32_t patience_ms, uint32_t *seq)
{
	VT_TRY(refuse_if_watched(trap));
	VT_TRY(vt_trap_raised(trap, seq));
	VT_TRY(write_word(trap, WORD(trap, taken), *seq));
	VT_TRY(write_word(trap, WORD(trap, patience_ms), patience_ms));
	VT_TRY(start_beating(trap));
	return write_word(trap, WORD(trap, armed), 1);
}

void vt_trap_set_patience(struct vt_trap *trap, uint32_t patience_ms)
{
	vt_error_destroy(write_word(trap, WORD(trap, patience_ms), patience_ms));
}

void vt_trap_disarm(struct vt_trap *trap)
{
	struct vt_error *err;

	if (!trap->beating) /* it is another watcher's */
		return;
	err = check_head(trap, false);
	if (!err)
		err = write_word(trap, WORD(trap, armed), 0);
	vt_error_destroy(err);
}

/* ---- events ---- */

/* Called all the time, so one read must be enough as long as nothing happens. */
struct vt_error *vt_trap_raised(struct vt_trap *trap, uint32_t *seq)
{
	struct {
		uint32_t armed, heartbeat, raised;
	} now;

	_Static_assert(offsetof(struct vt_recorder_trap, raised) ==
			       offsetof(__typeof__(now), raised),
		       "read at once");
	VT_TRY(read_words(trap, trap->at, &now, sizeof(now)));
	if (!trap->beating || !now.armed || now.raised != trap->seen)
		VT_TRY(check_head(trap, false));
	if (trap->beating && !now.armed && now.raised == trap->seen)
		return vt_error_create(VT_ERR_INTERRUPTED,
				       "another vramtap switched recording off in process %d: "
				       "it is no longer watched",
				       (int)trap->pid);
	*seq = trap->seen = now.raised;
	return NULL;
}

struct vt_error *vt_trap_event(struct vt_trap *trap, uint32_t seq, struct vt_recorder_oom *event)
{
	uint64_t addr = WORD(trap, ooms) + (seq - 1) % VT_RECORDER_MAX_OOMS * sizeof(*event);
	uint32_t after;

	VT_TRY(read_words(trap, addr, event, sizeof(*event)));
	VT_TRY(read_words(trap, addr, &after, sizeof(after)));
	if (event->seq != seq || after != seq)
		return vt_error_create(VT_ERR_NOTFOUND,
				       "the event is no longer kept: too many came after it");
	return NULL;
}

#define PAGE UINT64_C(4096)

/* Up to a NUL, page by page: what comes after the text may not be there. */
static void read_text(struct vt_trap *trap, uint64_t addr, char *text, size_t size)
{
	size_t n = 0;

	text[0] = '\0';
	while (n + 1 < size) {
		size_t piece = PAGE - (addr + n) % PAGE;
		struct vt_error *err;

		piece = piece < size - 1 - n ? piece : size - 1 - n;
		err = read_words(trap, addr + n, text + n, piece);
		vt_error_destroy(err);
		text[err ? n : n + piece] = '\0';
		if (err || strlen(text) < n + piece)
			return;
		n += piece;
	}
}

void vt_trap_message(struct vt_trap *trap, const struct vt_recorder_oom *event, char *text,
		     size_t size)
{
	uint64_t addr = 0;
	struct vt_recorder_oom after;
	struct vt_error *err;

	text[0] = '\0';
	if (!event->thrown || event->thrown > UINT64_MAX - VT_OOM_THROWN_TEXT)
		return;
	err = read_words(trap, event->thrown + VT_OOM_THROWN_TEXT, &addr, sizeof(addr));
	if (!err)
		read_text(trap, addr, text, size);
	vt_error_destroy(err);
	/* A thread that went on may have freed it. */
	err = vt_trap_event(trap, event->seq, &after);
	if (err || after.waited_ns)
		text[0] = '\0';
	vt_error_destroy(err);
}

void vt_trap_let_go_by(struct vt_trap *trap, uint32_t seq, uint64_t deadline_ns)
{
	__atomic_store_n(&trap->let_go_seq, seq, __ATOMIC_RELAXED);
	__atomic_store_n(&trap->let_go_ns, deadline_ns, __ATOMIC_RELEASE);
}

struct vt_error *vt_trap_let_go(struct vt_trap *trap, uint32_t seq)
{
	__atomic_store_n(&trap->let_go_ns, 0, __ATOMIC_RELAXED);
	return write_word(trap, WORD(trap, taken), seq);
}
