/* SPDX-License-Identifier: Apache-2.0 */
#include "triage/moved.h"

#include <sys/syscall.h>

#include "base/clock.h"

#define FALL_ASLEEP_NS (10 * VT_NS_PER_MS)
#define MAX_GLANCES 6
#define BETWEEN_NS (200 * VT_NS_PER_MS)

void vt_moved_begin(struct vt_moved *moved, pid_t pid)
{
	*moved = (struct vt_moved){ .pid = pid };
	for (int i = 0; i < MAX_GLANCES && !moved->sample.asleep; i++) {
		vt_sleep_ns(FALL_ASLEEP_NS);
		vt_thread_sample_take(&moved->sample, pid, pid);
	}
	moved->glanced_ns = vt_now_ns();
}

/* A thread that sleeps with a timeout may only poll, again and again, and still hang. */
static bool polls(const struct vt_thread_info *info)
{
	return info->in_syscall &&
	       (info->syscall_nr == SYS_nanosleep || info->syscall_nr == SYS_clock_nanosleep);
}

/* It went on already. But a thread that always runs may wait, too: for a GPU, in a loop. */
static bool has_changed(char was, char is)
{
	return (was == 'D' && is == 'S') || ((was == 'S' || was == 'D') && is == 'R');
}

int vt_moved_end(const struct vt_moved *moved, char was, uint64_t deadline_ns)
{
	uint64_t until = moved->glanced_ns + BETWEEN_NS, now = vt_now_ns();

	if (!moved->pid)
		return -1;
	if (has_changed(was, moved->sample.info.state) && (!moved->sample.asleep || was == 'D'))
		return 1;
	if (!moved->sample.asleep || polls(&moved->sample.info))
		return -1;
	if (now < until && until < deadline_ns)
		vt_sleep_ns(until - now);
	if (until >= deadline_ns)
		return -1;
	return vt_thread_sample_holds(&moved->sample, moved->pid) ? 0 : 1;
}
