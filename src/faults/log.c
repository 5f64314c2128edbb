/* SPDX-License-Identifier: Apache-2.0 */
#include "faults/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"

#define PATH "/dev/kmsg"
#define MAX_RECORDS 100000
#define MAX_BYTES (64u << 20)
#define MAX_XIDS 512
#define MAX_RECORD 8192 /* CONSOLE_EXT_LOG_MAX of the kernel, PRINTK_MESSAGE_MAX since 6.4 */
#define PER_LOOK 64     /* records between two looks at the clock */

/*
 * Its own device or, in a sandbox, a FIFO with a record in each packet. Elsewhere it may be a link
 * to a terminal or to /dev/null, of which nothing must be read.
 */
static int open_log(int *error)
{
	struct stat st;
	int fd;

	*error = stat(PATH, &st) ? errno : 0;
	if (!*error && !S_ISFIFO(st.st_mode) &&
	    !(S_ISCHR(st.st_mode) && st.st_rdev == makedev(1, 11)))
		*error = ENODEV;
	if (*error)
		return -1;
	fd = open(PATH, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	*error = fd < 0 ? errno : 0;
	return fd;
}

/*
 * Records have the time of the scheduler's clock. Where that is the processor's counter nothing
 * adjusts it, and it drifts away from CLOCK_MONOTONIC by seconds a day, as CLOCK_MONOTONIC_RAW
 * does; in guests of KVM it may be one or the other.
 */
static void read_clocks(struct vt_fault_log *log)
{
	uint64_t raw_us = vt_clock_ns(CLOCK_MONOTONIC_RAW) / VT_NS_PER_US;

	log->boot_us = vt_clock_ns(CLOCK_BOOTTIME) / VT_NS_PER_US;
	log->now_us = vt_now_ns() / VT_NS_PER_US;
	log->drift_us = log->now_us > raw_us ? log->now_us - raw_us : raw_us - log->now_us;
}

/* Of a storm the last ones remain. */
static void keep(struct vt_fault_log *log, const struct vt_xid *xid)
{
	struct vt_xid *slot;

	if (log->xids.n == MAX_XIDS) {
		memmove(log->xids.data, log->xids.data + MAX_XIDS / 2,
			MAX_XIDS / 2 * sizeof(*log->xids.data));
		log->xids.n = MAX_XIDS / 2;
		log->lost = true;
	}
	slot = vt_vec_append(&log->xids);
	if (slot)
		*slot = *xid;
	else
		log->lost = true;
}

static void add(struct vt_fault_log *log, const char *bytes, size_t n)
{
	struct vt_log_record record;
	struct vt_xid xid;

	if (!vt_log_record_parse(bytes, n, &record))
		return;
	if (!log->begun)
		log->begin_us = record.at_us;
	log->begun = true;
	if (vt_xid_parse(&record, &xid))
		keep(log, &xid);
}

/* False: the log is at its end, or cannot be read. */
static bool read_record(struct vt_fault_log *log, int fd, size_t *bytes)
{
	char record[MAX_RECORD];
	ssize_t n = read(fd, record, sizeof(record));

	if (n > 0) {
		*bytes += (size_t)n;
		add(log, record, (size_t)n);
		return true;
	}
	/* EPIPE: it was overwritten before it was read. EINVAL: it is longer than any may be. */
	if (n < 0 && (errno == EPIPE || errno == EINVAL))
		log->lost = true;
	else if (n < 0 && errno != EAGAIN && errno != EINTR)
		log->error = errno;
	return n < 0 && (errno == EPIPE || errno == EINVAL || errno == EINTR);
}

void vt_fault_log_read(struct vt_fault_log *log, uint64_t deadline_ns)
{
	VT_CLOSE int fd = open_log(&log->error);
	size_t bytes = 0;

	read_clocks(log);
	if (fd < 0)
		return;
	while (read_record(log, fd, &bytes)) {
		if (++log->records < MAX_RECORDS && bytes < MAX_BYTES &&
		    (log->records % PER_LOOK || !vt_deadline_passed(deadline_ns)))
			continue;
		log->lost = true;
		return;
	}
}

void vt_fault_log_deinit(struct vt_fault_log *log)
{
	vt_vec_deinit(&log->xids);
}
