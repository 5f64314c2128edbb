/* SPDX-License-Identifier: Apache-2.0 */
#include "inject/recorder/gate.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/random.h"
#include "inject/recorder/recorder.h"

/* from the connection to the first word, which is sent at once */
#define HELLO_NS (2 * VT_NS_PER_S)

/*
 * The number is high, so that a later process with our pid is unlikely to have this descriptor:
 * programs started from here may keep the path in their environment for longer than we live.
 */
static struct vt_error *make_file(struct vt_gate *gate)
{
	struct rlimit limit = { .rlim_cur = 1024 };
	VT_CLOSE int fd = -1;
	int most;

	VT_TRY(vt_recorder_file(&fd));
	getrlimit(RLIMIT_NOFILE, &limit);
	most = limit.rlim_cur > 65000 ? 65000 : (int)limit.rlim_cur - 16;
	gate->file = fcntl(fd, F_DUPFD_CLOEXEC, most);
	if (gate->file < 0)
		return vt_error_create_os(errno, "cannot get a descriptor for the recorder");
	snprintf(gate->path, sizeof(gate->path), "/proc/%d/fd/%d", (int)getpid(), gate->file);
	return NULL;
}

static struct vt_error *make_listener(struct vt_gate *gate)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	uint64_t random[2];
	size_t len;

	if (!vt_random(random, sizeof(random)))
		return vt_error_create_os(errno, "cannot get random numbers");
	len = (size_t)snprintf(gate->name, sizeof(gate->name), "vramtap-run-%016llx%016llx",
			       (unsigned long long)random[0], (unsigned long long)random[1]);
	memcpy(address.sun_path + 1, gate->name, len);
	gate->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (gate->listener < 0 ||
	    bind(gate->listener, (struct sockaddr *)&address,
		 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + len)) ||
	    listen(gate->listener, 256))
		return vt_error_create_os(errno, "cannot create a socket for the gate");
	return NULL;
}

struct vt_error *vt_gate_init(struct vt_gate *gate)
{
	struct vt_error *err;

	*gate = (struct vt_gate){ .file = -1, .listener = -1 };
	err = make_file(gate);
	if (!err)
		err = make_listener(gate);
	if (err)
		vt_gate_deinit(gate);
	return err;
}

void vt_gate_deinit(struct vt_gate *gate)
{
	if (gate->file >= 0)
		close(gate->file);
	if (gate->listener >= 0)
		close(gate->listener);
	gate->file = gate->listener = -1;
}

static bool wait_for(int fd, uint64_t deadline_ns)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };

	for (uint64_t now = vt_now_ns(); now < deadline_ns; now = vt_now_ns()) {
		int n = poll(&poll_fd, 1, (int)((deadline_ns - now) / VT_NS_PER_MS) + 1);

		if (n > 0)
			return true;
		if (n < 0 && errno != EINTR)
			return false;
	}
	return false;
}

struct vt_error *vt_gate_accept(struct vt_gate *gate, pid_t *pid, int *ret_fd)
{
	VT_CLOSE int fd = accept4(gate->listener, NULL, NULL, SOCK_CLOEXEC);
	struct vt_gate_hello hello;
	struct ucred peer;
	socklen_t size = sizeof(peer);

	/*
	 * The kernel tells which process connected, as a pid of our namespace; 0 is a process
	 * without a pid here. The names of these sockets are public (/proc/net/unix), so another
	 * user's process may try.
	 */
	if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) || peer.pid <= 0 ||
	    (geteuid() && peer.uid != geteuid()))
		return vt_error_create(VT_ERR_NOTFOUND, "no process is at the gate");
	if (!wait_for(fd, vt_now_ns() + HELLO_NS) ||
	    recv(fd, &hello, sizeof(hello), MSG_DONTWAIT) != sizeof(hello) ||
	    hello.magic != VT_GATE_MAGIC || hello.abi != VT_GATE_ABI)
		return vt_error_create(VT_ERR_NOTFOUND,
				       "process %d connected to the gate but sent nothing",
				       (int)peer.pid);
	*pid = peer.pid;
	*ret_fd = vt_steal_fd(fd);
	return NULL;
}

struct vt_error *vt_gate_call(int fd, uint32_t op, const struct vt_recorder_config *config,
			      uint64_t deadline_ns, uint32_t *status)
{
	VT_FREE struct vt_gate_request *request = calloc(1, sizeof(*request));
	struct vt_gate_answer answer;
	size_t n_got = config ? config->n_got : 0;
	size_t size = offsetof(struct vt_gate_request, got) + n_got * sizeof(request->got[0]);

	if (!request)
		return &vt_enomem;
	if (n_got > VT_GATE_MAX_GOT)
		return vt_error_create(VT_ERR_NOTFOUND, "%zu entries for the gate", n_got);
	request->op = op;
	if (config)
		request->config = *config;
	if (n_got)
		memcpy(request->got, (const void *)config->got, n_got * sizeof(request->got[0]));
	if (send(fd, request, size, MSG_NOSIGNAL) != (ssize_t)size)
		return vt_error_create(VT_ERR_GONE, "the process no longer waits at the gate");
	if (!wait_for(fd, deadline_ns))
		return vt_error_create(VT_ERR_TIMEOUT, "the process at the gate does not answer");
	if (recv(fd, &answer, sizeof(answer), MSG_DONTWAIT) != sizeof(answer))
		return vt_error_create(VT_ERR_GONE,
				       "the process did not wait at the gate long enough");
	*status = answer.status;
	return NULL;
}

void vt_gate_go(int fd)
{
	VT_FREE struct vt_gate_request *request = calloc(1, sizeof(*request));

	/* Without an answer it goes on when the connection is closed. */
	if (!request)
		return;
	request->op = VT_GATE_GO;
	if (send(fd, request, offsetof(struct vt_gate_request, got), MSG_NOSIGNAL) < 0)
		return;
}
