/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The dialogue with NCCL's RAS, in lines (src/ras/client.cc of NCCL): the protocol version, the
 * longest wait for other processes, the format of the answer (unknown to NCCL before 2.28.7), and
 * the question. RAS closes the connection after the answer.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "triage/ras.h"
#include "target/proc.h"

#define MAX_ANSWER ((size_t)64 << 20) /* enough for 16,384 ranks in eight communicators */
#define MAX_LINE 1024
/*
 * RAS waits for a silent process, and longer for one that itself waits
 * (RAS_COLLECTIVE_EXTRA_TIMEOUT_SEC).
 */
#define RAS_TIMEOUT_S 5
#define RAS_EXTRA_S 5
/*
 * For replies that RAS gives without other processes. If several ranks listen at one address, the
 * kernel chooses one by our port: if this one is stopped, for example, another rank may get the
 * next connection.
 */
#define GREETING_NS (500 * VT_NS_PER_MS)
#define GREETINGS_PART 3                 /* the part of the time for all of them */
#define ACCEPTED_NS (300 * VT_NS_PER_MS) /* from being accepted to having a descriptor */
#define LOOK_NS (2 * VT_NS_PER_MS)
#define MAX_LOOK_NS (64 * VT_NS_PER_MS)

struct talk {
	int fd;
	const struct vt_ras_listener *listener;
	uint64_t deadline_ns;
};

static struct vt_error *too_late(const struct talk *t)
{
	return vt_error_create(VT_ERR_TIMEOUT, "it did not answer at %s in time",
			       t->listener->name);
}

static struct vt_error *closed(const struct talk *t)
{
	return vt_error_create(VT_ERR_FORMAT, "it closed the connection to %s before its answer",
			       t->listener->name);
}

/* ---- the connection ---- */

static struct vt_error *wait_for(const struct talk *t, short events)
{
	struct pollfd fd = { .fd = t->fd, .events = events };

	for (;;) {
		uint64_t now = vt_now_ns();
		int ret = now >= t->deadline_ns ?
				  0 :
				  poll(&fd, 1, (int)((t->deadline_ns - now) / VT_NS_PER_MS) + 1);

		if (ret > 0)
			return NULL;
		if (ret == 0)
			return too_late(t);
		if (errno != EINTR)
			return vt_error_create_os(errno, "cannot wait for it");
	}
}

static struct vt_error *connect_to(struct talk *t)
{
	const union vt_ras_address *address = &t->listener->address;
	socklen_t n = address->any.sa_family == AF_INET ? sizeof(address->v4) : sizeof(address->v6);
	int error = 0;
	socklen_t size = sizeof(error);

	t->fd = socket(address->any.sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return vt_error_create_os(errno, "cannot create a socket");
	if (!connect(t->fd, &address->any, n))
		return NULL;
	if (errno != EINPROGRESS)
		return vt_error_create_os(errno, "cannot connect to %s", t->listener->name);
	VT_TRY(wait_for(t, POLLOUT));
	if (getsockopt(t->fd, SOL_SOCKET, SO_ERROR, &error, &size) || error)
		return vt_error_create_os(error, "cannot connect to %s", t->listener->name);
	return NULL;
}

/*
 * Sockets may have been closed and opened since they were read, and the kernel chooses among the
 * listeners at one address: vramtap sends only to a process of the job.
 */
static struct vt_error *find_peer(const struct talk *t, const struct vt_suspects *suspects,
				  pid_t *pid)
{
	uint64_t pause_ns = LOOK_NS, foreign_ns = 0;
	union vt_ras_address from = { 0 };
	socklen_t n = sizeof(from);

	if (getsockname(t->fd, &from.any, &n))
		return vt_error_create_os(errno, "cannot check the connection to %s",
					  t->listener->name);
	for (;;) {
		*pid = vt_ras_accepted_by(suspects, t->listener, &from);
		if (*pid > 0)
			return NULL;
		foreign_ns = *pid ? foreign_ns ? foreign_ns : vt_now_ns() : 0;
		if (foreign_ns && vt_deadline_passed(foreign_ns + ACCEPTED_NS))
			return vt_error_create(VT_ERR_BUSY,
					       "a process outside this job answers at %s",
					       t->listener->name);
		if (vt_deadline_passed(t->deadline_ns))
			return too_late(t);
		vt_sleep_ns(pause_ns);
		pause_ns = pause_ns * 2 < MAX_LOOK_NS ? pause_ns * 2 : MAX_LOOK_NS;
	}
}

/* ---- lines ---- */

static struct vt_error *send_line(const struct talk *t, const char *line)
{
	while (*line) {
		ssize_t n = send(t->fd, line, strlen(line), MSG_NOSIGNAL);

		if (n >= 0)
			line += n;
		else if (errno == EAGAIN)
			VT_TRY(wait_for(t, POLLOUT));
		else if (errno != EINTR)
			return closed(t);
	}
	return NULL;
}

/* n is 0 at the end. */
static struct vt_error *receive(const struct talk *t, char *buf, size_t size, size_t *n)
{
	for (;;) {
		ssize_t got;

		VT_TRY(wait_for(t, POLLIN));
		got = recv(t->fd, buf, size, 0);
		if (got >= 0) {
			*n = (size_t)got;
			return NULL;
		}
		if (errno != EAGAIN && errno != EINTR)
			return closed(t);
	}
}

/* One byte at a time: what follows belongs to the next answer. */
static struct vt_error *receive_line(const struct talk *t, char line[MAX_LINE])
{
	for (size_t n = 0, got; n < MAX_LINE; n += got) {
		VT_TRY(receive(t, line + n, 1, &got));
		if (!got)
			return closed(t);
		if (line[n] != '\n')
			continue;
		line[n] = '\0';
		return NULL;
	}
	return vt_error_create(VT_ERR_FORMAT, "what answers at %s is not RAS", t->listener->name);
}

static struct vt_error *command(const struct talk *t, const char *text, char answer[MAX_LINE])
{
	VT_TRY(send_line(t, text));
	return receive_line(t, answer);
}

/* The remaining time, without what RAS adds to it; never 0, which makes RAS wait for ever. */
static unsigned int ras_timeout(uint64_t deadline_ns)
{
	uint64_t now = vt_now_ns(),
		 left_s = now < deadline_ns ? (deadline_ns - now) / VT_NS_PER_S : 0;

	if (left_s > RAS_TIMEOUT_S + RAS_EXTRA_S) /* and leave a second for the rest */
		return RAS_TIMEOUT_S;
	return left_s > RAS_EXTRA_S + 1 ? (unsigned int)(left_s - RAS_EXTRA_S) : 1;
}

uint64_t vt_ras_least_ns(void)
{
	return (RAS_EXTRA_S + 2) * VT_NS_PER_S;
}

static struct vt_error *begin(const struct talk *t, uint64_t deadline_ns, bool *json)
{
	char line[MAX_LINE], timeout[32];

	VT_TRY(command(t, "CLIENT PROTOCOL 2\n", line));
	if (strncasecmp(line, "SERVER PROTOCOL ", 16) != 0)
		return vt_error_create(VT_ERR_FORMAT, "what answers at %s is not RAS",
				       t->listener->name);
	snprintf(timeout, sizeof(timeout), "TIMEOUT %u\n", ras_timeout(deadline_ns));
	VT_TRY(command(t, timeout, line));
	VT_TRY(command(t, "SET FORMAT json\n", line));
	*json = !strcasecmp(line, "OK");
	return NULL;
}

/* A truncated answer is kept. */
static struct vt_error *read_answer(const struct talk *t, struct vt_ras_answer *answer)
{
	char buf[65536];
	size_t n;

	while (answer->text.n < MAX_ANSWER) {
		VT_ERROR struct vt_error *err = receive(t, buf, sizeof(buf), &n);

		if (err && !answer->text.n)
			return vt_steal(err);
		if (err)
			return NULL;
		if (!n) {
			answer->whole = true;
			return answer->text.n ? NULL : closed(t);
		}
		vt_str_addn(&answer->text, buf, n);
		if (answer->text.failed)
			return &vt_enomem;
	}
	return NULL;
}

static void hang_up(struct talk *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

static struct vt_error *greet(struct talk *t, const struct vt_suspects *suspects,
			      uint64_t deadline_ns, struct vt_ras_answer *answer)
{
	t->deadline_ns = vt_now_ns() + GREETING_NS;
	VT_TRY(connect_to(t));
	VT_TRY(find_peer(t, suspects, &answer->pid));
	t->deadline_ns = vt_now_ns() + GREETING_NS; /* a job may have many descriptors to read */
	return begin(t, deadline_ns, &answer->json);
}

static struct vt_error *talk(struct talk *t, const struct vt_suspects *suspects,
			     struct vt_ras_answer *answer)
{
	uint64_t now = vt_now_ns(), deadline_ns = t->deadline_ns;
	uint64_t until_ns = now < deadline_ns ? now + (deadline_ns - now) / GREETINGS_PART : now;
	struct vt_error *err = greet(t, suspects, deadline_ns, answer);

	while (err && err->code == VT_ERR_TIMEOUT && !vt_deadline_passed(until_ns)) {
		vt_error_destroy(err);
		hang_up(t);
		err = greet(t, suspects, deadline_ns, answer);
	}
	VT_TRY(err);
	t->deadline_ns = deadline_ns;
	VT_TRY(send_line(t, answer->json ? "STATUS\n" : "VERBOSE STATUS\n"));
	return read_answer(t, answer);
}

/* ---- the network namespace ---- */

static struct vt_error *enter(const struct vt_ras_listener *listener, int *own)
{
	char path[64];
	struct stat st;

	*own = -1;
	if (!stat("/proc/self/ns/net", &st) && st.st_ino == listener->netns)
		return NULL;
	snprintf(path, sizeof(path), "/proc/%d/ns/net",
		 (int)vt_proc_view(listener->rank->label.pid));

	VT_CLOSE int theirs = open(path, O_RDONLY | O_CLOEXEC),
		     back = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);

	/* Another process may have this pid by now. */
	if (theirs >= 0 && (fstat(theirs, &st) || st.st_ino != listener->netns))
		return vt_error_create(VT_ERR_GONE,
				       "process %d has ended, or now has another network namespace",
				       (int)listener->rank->label.pid);
	if (theirs < 0 || back < 0 || setns(theirs, CLONE_NEWNET))
		return vt_error_create(
			VT_ERR_PERMISSION,
			"not permitted to enter the network namespace of process %d (CAP_SYS_ADMIN would allow it)",
			(int)listener->rank->label.pid);
	*own = vt_steal_fd(back);
	return NULL;
}

struct vt_error *vt_ras_ask(const struct vt_suspects *suspects,
			    const struct vt_ras_listener *listener, uint64_t deadline_ns,
			    struct vt_ras_answer *answer)
{
	struct talk t = { .fd = -1, .listener = listener, .deadline_ns = deadline_ns };
	VT_CLOSE int own = -1;
	struct vt_error *err;

	VT_TRY(enter(listener, &own));
	err = talk(&t, suspects, answer);
	hang_up(&t);
	if (own >= 0)
		(void)setns(own, CLONE_NEWNET); /* every question enters its own namespace */
	return err;
}
