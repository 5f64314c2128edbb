/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver calls when it is initialised (vramtap run): see gate.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct ucred */
#endif
#include "vramtap/freestanding.h"

#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

#include "internal.h"
#include "vramtap/gate.h"

#define NS_PER_MS UINT64_C(1000000)
#define EINTR_ 4

/*
 * Functions of the C library, which every process with a loader has: weak, because this library
 * names no library that it needs. Both are called on a thread of the target, within cuInit().
 */
extern char *getenv(const char *name) __attribute__((weak, visibility("default")));
extern int unsetenv(const char *name) __attribute__((weak, visibility("default")));

int InitializeInjection(void);
uint32_t vt_recorder_control(uint32_t op, void *arg);

static struct vt_gate_request request; /* too large for a stack that is not ours */

/*
 * The process at the other end can make this process call any address, and any process can take the
 * name of a socket that is gone. So the other end must run as the user of this process, or as root.
 */
static bool is_ours(int fd)
{
	struct ucred peer;
	unsigned int size = sizeof(peer);

	return !vt_sys6(SYS_getsockopt, fd, SOL_SOCKET, SO_PEERCRED, (long)&peer, (long)&size, 0) &&
	       size == sizeof(peer) && (!peer.uid || (long)peer.uid == vt_sys0(SYS_geteuid));
}

/* The wait for a stopped tool with a full queue is limited, too. */
static void limit_wait(int fd)
{
	const struct timeval limit = { .tv_sec = VT_GATE_PATIENCE_MS / 1000 };

	vt_sys6(SYS_setsockopt, fd, SOL_SOCKET, SO_SNDTIMEO, (long)&limit, sizeof(limit), 0);
}

static int connect_to(const char *name)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	unsigned int n = 0;
	long fd;

	while (name[n] && n < sizeof(address.sun_path) - 1) {
		address.sun_path[n + 1] = name[n];
		n++;
	}
	if (!n || name[n])
		return -1;
	fd = vt_sys4(SYS_socket, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, 0);
	if (fd < 0)
		return -1;
	limit_wait((int)fd);
	if (vt_sys4(SYS_connect, fd, (long)&address,
		    (long)(offsetof(struct sockaddr_un, sun_path) + 1 + n), 0) ||
	    !is_ours((int)fd)) {
		vt_sys2(SYS_close, fd, 0);
		return -1;
	}
	return (int)fd;
}

/* Whether there is something to read before the deadline; a tool that is gone counts as well. */
static bool wait_for_word(int fd, uint64_t deadline_ns)
{
	for (;;) {
		struct pollfd poll = { .fd = fd, .events = POLLIN };
		uint64_t now = vt_sys_now_ns();
		long n;

		if (now >= deadline_ns)
			return false;
		n = vt_sys4(SYS_poll, (long)&poll, 1, (long)((deadline_ns - now) / NS_PER_MS) + 1,
			    0);
		if (n > 0)
			return true;
		if (n < 0 && n != -EINTR_)
			return false;
	}
}

static bool receive(int fd, uint64_t until_ns)
{
	uint64_t now = vt_sys_now_ns();
	uint64_t deadline = now + VT_GATE_PATIENCE_MS * NS_PER_MS < until_ns ?
				    now + VT_GATE_PATIENCE_MS * NS_PER_MS :
				    until_ns;
	size_t head = offsetof(struct vt_gate_request, got);
	long n;

	if (!wait_for_word(fd, deadline))
		return false;
	n = vt_sys6(SYS_recvfrom, fd, (long)&request, sizeof(request), MSG_DONTWAIT, 0, 0);
	return n >= (long)head && request.config.n_got <= VT_GATE_MAX_GOT &&
	       (uint64_t)n == head + request.config.n_got * sizeof(request.got[0]);
}

static uint32_t forget_variables(void)
{
	if (!unsetenv)
		return VT_RECORDER_BAD;
	unsetenv(VT_GATE_INJECTION);
	unsetenv(VT_GATE_VARIABLE);
	return VT_RECORDER_OK;
}

static bool send_word(int fd, const void *what, size_t size)
{
	return vt_sys6(SYS_sendto, fd, (long)what, (long)size, MSG_NOSIGNAL | MSG_DONTWAIT, 0, 0) ==
	       (long)size;
}

static bool obey(int fd)
{
	struct vt_gate_answer answer;

	if (request.op == VT_GATE_GO)
		return false;
	request.config.got = (uint64_t)request.got;
	answer.status = request.op == VT_GATE_FORGET ?
				forget_variables() :
				vt_recorder_control(request.op, request.op == VT_RECORD_OFF ?
									NULL :
									&request.config);
	return send_word(fd, &answer, sizeof(answer));
}

/* The driver ignores the return value; NVIDIA's examples return 1. */
__attribute__((visibility("default"))) int InitializeInjection(void)
{
	static uint32_t entered;
	const struct vt_gate_hello hello = { VT_GATE_MAGIC, VT_GATE_ABI };
	const char *name = getenv ? getenv(VT_GATE_VARIABLE) : NULL;
	uint64_t until = vt_sys_now_ns() + VT_GATE_TOTAL_MS * NS_PER_MS;
	int fd;

	if (!name || __atomic_exchange_n(&entered, 1, __ATOMIC_ACQ_REL))
		return 1;
	fd = connect_to(name);
	if (fd < 0)
		return 1;
	if (send_word(fd, &hello, sizeof(hello)))
		while (receive(fd, until) && obey(fd))
			;
	vt_sys2(SYS_close, fd, 0);
	return 1;
}
