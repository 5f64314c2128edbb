/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the process stands still, as one that hangs does. Only such a process is given to the
 * CUDA debugger. cuda-gdb 13.0 (driver 580, H100) that attached to a training job that was well, in
 * the middle of a launch or a copy, locked up with the driver in the process: 2 of 31 times, for
 * good; neither time nor SIGINT ended it.
 *
 * So the process is looked at for some time. At no look may a thread be in the driver, other than
 * in a call that only waits (collect/quiet.h), and PyTorch may hand out no memory meanwhile.
 */
#include <string.h>

#include "base/clock.h"
#include "collect/again_torch.h"
#include "collect/collect.h"
#include "collect/quiet.h"
#include "collect/watchdog.h"

#define LOOKS 10
#define BETWEEN_NS (50 * VT_NS_PER_MS)
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

static enum looked try_once(struct vt_collect *c, struct vt_quiet *quiet)
{
	enum looked looked = NOT_KNOWN;
	struct vt_session session = { 0 };
	struct vt_error *err;

	if (!vt_quiet_prepare(quiet))
		return NOT_KNOWN;
	vt_watchdog_arm(WATCHDOG_NS, c->target.proc.pid, "it is seen whether it stands still");
	err = vt_session_stop_all(&session, c->target.proc.pid, c->target.live, STOP_NS);
	if (!err) {
		looked = judge(c, quiet, &session);
		vt_session_resume(&session);
	}
	vt_watchdog_disarm();
	if (!err && looked != QUIET)
		vt_quiet_learn(quiet, &session);
	vt_session_deinit(&session);
	vt_error_destroy(err);
	return looked;
}

static bool is_quiet_at_first(struct vt_collect *c, struct vt_quiet *quiet)
{
	for (int i = 0; i < FIRST_TRIES; i++) {
		if (try_once(c, quiet) == QUIET)
			return true;
		vt_sleep_ns(BETWEEN_TRIES_NS);
	}
	return false;
}

static bool is_quiet_for_long(struct vt_collect *c, struct vt_quiet *quiet)
{
	int not_known = 0;

	if (!is_quiet_at_first(c, quiet))
		return false;
	for (int looks = 1; looks < LOOKS; looks++) {
		enum looked looked;

		vt_sleep_ns(BETWEEN_NS);
		looked = try_once(c, quiet);
		not_known += looked == NOT_KNOWN;
		if (looked == AT_WORK || not_known > MAX_NOT_KNOWN)
			return false;
	}
	return true;
}

/* NULL: it stands still. */
static const char *find_why(struct vt_collect *c, struct vt_quiet *quiet,
			    const struct vt_again_torch *torch)
{
	uint64_t count = 0;

	if (!is_quiet_for_long(c, quiet))
		return vt_quiet_culprit(quiet) ?
			       vt_arena_printf(
				       &c->model->arena,
				       "the process goes on: thread %d works in the CUDA driver, and a debugger that attaches then can block both for good",
				       (int)vt_quiet_culprit(quiet)) :
			       "the process goes on: what its threads do in the CUDA driver cannot be told, and a debugger that attaches while one works there can block both for good";
	if (vt_again_torch_count(torch, &count) && count)
		return "the process goes on: PyTorch hands out memory, and a debugger that attaches to a process at work can block it for good";
	return NULL;
}

const char *vt_collect_why_it_goes_on(struct vt_collect *c, const struct vt_subject *subject)
{
	struct vt_quiet_memory memory = { 0 };
	struct vt_again_torch torch = { 0 };
	struct vt_quiet *quiet = NULL;
	const char *why;
	VT_ERROR struct vt_error *err = vt_quiet_create(&c->target, &memory, &quiet);

	if (err)
		return "whether the process stands still is not known";
	vt_again_torch_begin(&torch, subject);
	why = find_why(c, quiet, &torch);
	vt_again_torch_end(&torch);
	vt_quiet_destroy(quiet);
	vt_quiet_memory_deinit(&memory);
	return why;
}
