/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the process stands still, as one that hangs does. Only such a process is given to the
 * CUDA debugger. cuda-gdb 13.0 (driver 580, H100) that attached to a training job that was well, in
 * the middle of a launch or a copy, locked up with the driver in the process: 2 of 31 times, for
 * good; neither time nor SIGINT ended it. And once it has been attached, a kernel that a program
 * launches beside one that never ends does not start any more, also after it has gone: a program
 * that was served by a kernel of its own hung, 4 of 4 times.
 *
 * So the process is looked at for some time. At no look may a thread be in the driver, other than
 * in a call that only waits (collect/quiet.h); between looks none may come back from such a call,
 * or work elsewhere (collect/standing.h); and PyTorch may hand out no memory meanwhile.
 */
#include <string.h>

#include "base/clock.h"
#include "collect/again_torch.h"
#include "collect/collect.h"
#include "collect/quiet.h"
#include "collect/standing.h"
#include "collect/watchdog.h"

#define LOOKS 10
#define BETWEEN_NS (100 * VT_NS_PER_MS)
/* At first what the driver has on a stack needs names, and calls that wait are not known yet. */
#define FIRST_TRIES 8
/*
 * Later looks that may tell nothing: 1 in 20 does where a thread waits for a full H100, and many
 * more where one is at work.
 */
#define MAX_NOT_KNOWN 3
#define BETWEEN_TRIES_NS (4 * VT_NS_PER_MS)
#define STOP_NS (5 * VT_NS_PER_MS) /* for each thread */
#define JUDGE_NS (20 * VT_NS_PER_MS)
#define WATCHDOG_NS (10 * VT_NS_PER_S)

enum looked { QUIET, AT_WORK, NOT_KNOWN };

struct looks {
	struct vt_collect *c;
	struct vt_quiet *quiet;
	struct vt_standing standing;
	bool is_last;
	pid_t mover; /* a thread that did something between the looks */
};

/* The driver's own threads wake up now and then, whatever the process does. */
static bool is_drivers_own(pid_t pid, pid_t tid)
{
	struct vt_thread_info info = { 0 };
	VT_ERROR struct vt_error *err = vt_thread_info_read(&info, pid, tid);

	return err || !strncmp(info.name, "cuda", 4);
}

static enum looked judge(struct vt_collect *c, struct vt_quiet *quiet,
			 const struct vt_session *session)
{
	if (!vt_session_stands(session))
		return NOT_KNOWN;
	if (vt_quiet_judge(quiet, session, vt_now_ns() + JUDGE_NS))
		return QUIET;
	return vt_quiet_culprit(quiet) &&
			       !is_drivers_own(c->target.proc.pid, vt_quiet_culprit(quiet)) ?
		       AT_WORK :
		       NOT_KNOWN;
}

/* When the process runs again. False: that it stands still is not known. */
static bool take_note(struct looks *l, const struct vt_session *session)
{
	if (!vt_standing_note(&l->standing, l->quiet))
		return false;
	if (l->is_last)
		l->mover = vt_standing_mover(&l->standing, l->quiet, session);
	return !l->mover;
}

static enum looked try_once(struct looks *l)
{
	struct vt_collect *c = l->c;
	enum looked looked = NOT_KNOWN;
	struct vt_session session = { 0 };
	struct vt_error *err;

	if (!vt_quiet_prepare(l->quiet))
		return NOT_KNOWN;
	vt_watchdog_arm(WATCHDOG_NS, c->target.proc.pid, "it is seen whether it stands still");
	err = vt_session_stop_all(&session, c->target.proc.pid, c->target.live, STOP_NS);
	if (!err) {
		looked = judge(c, l->quiet, &session);
		vt_session_resume(&session);
	}
	vt_watchdog_disarm();
	if (!err && looked != QUIET)
		vt_quiet_learn(l->quiet, &session);
	if (looked == QUIET && !take_note(l, &session))
		looked = AT_WORK;
	vt_session_deinit(&session);
	vt_error_destroy(err);
	return looked;
}

static bool is_quiet_at_first(struct looks *l)
{
	for (int i = 0; i < FIRST_TRIES; i++) {
		if (try_once(l) == QUIET)
			return true;
		vt_sleep_ns(BETWEEN_TRIES_NS);
	}
	return false;
}

/* The last look must tell: what was done between them all is seen then. */
static bool is_quiet_for_long(struct looks *l)
{
	int not_known = 0;

	if (!is_quiet_at_first(l))
		return false;
	for (int looks = 2;; looks++) {
		enum looked looked;

		vt_standing_watch(&l->standing, vt_now_ns() + BETWEEN_NS);
		l->mover = l->standing.returned;
		l->is_last = looks >= LOOKS;
		looked = l->mover ? AT_WORK : try_once(l);
		if (looked == QUIET && l->is_last)
			return true;
		not_known += looked == NOT_KNOWN;
		if (looked == AT_WORK || not_known > MAX_NOT_KNOWN)
			return false;
	}
}

static const char *why_not_quiet(struct looks *l)
{
	struct vt_arena *arena = &l->c->model->arena;

	l->c->model->kernels.works = l->mover == l->c->target.proc.pid;
	if (l->mover)
		return vt_arena_printf(
			arena,
			"the process goes on: thread %d works, and a debugger that attaches to a process at work can block it for good",
			(int)l->mover);
	if (vt_quiet_culprit(l->quiet))
		return vt_arena_printf(
			arena,
			"the process goes on: thread %d works in the CUDA driver, and a debugger that attaches then can block both for good",
			(int)vt_quiet_culprit(l->quiet));
	return "the process goes on: what its threads do in the CUDA driver cannot be told, and a debugger that attaches while one works there can block both for good";
}

/* NULL: it stands still. */
static const char *find_why(struct looks *l, const struct vt_again_torch *torch)
{
	uint64_t count = 0;

	if (!is_quiet_for_long(l))
		return why_not_quiet(l);
	if (vt_again_torch_count(torch, &count) && count)
		return "the process goes on: PyTorch hands out memory, and a debugger that attaches to a process at work can block it for good";
	return NULL;
}

static const char *look(struct vt_collect *c, struct vt_quiet *quiet,
			const struct vt_subject *subject)
{
	struct looks looks = { .c = c, .quiet = quiet };
	struct vt_again_torch torch = { 0 };
	const char *why = "whether the process stands still is not known";

	if (vt_standing_init(&looks.standing, c->target.proc.pid, vt_live_source(c->target.live))) {
		vt_again_torch_begin(&torch, subject);
		why = find_why(&looks, &torch);
		vt_again_torch_end(&torch);
	}
	vt_standing_deinit(&looks.standing);
	return why;
}

const char *vt_collect_why_it_goes_on(struct vt_collect *c, const struct vt_subject *subject)
{
	struct vt_quiet_memory memory = { 0 };
	struct vt_quiet *quiet = NULL;
	const char *why;
	VT_ERROR struct vt_error *err = vt_quiet_create(&c->target, &memory, &quiet);

	if (err)
		return "whether the process stands still is not known";
	why = look(c, quiet, subject);
	vt_quiet_destroy(quiet);
	vt_quiet_memory_deinit(&memory);
	return why;
}
