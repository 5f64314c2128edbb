/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds where the ranks of a job listen for clients of NCCL's RAS: the kernel's socket table of a
 * rank's network namespace has the addresses of listeners on that port, and their inodes; the
 * descriptors of the ranks tell which inodes are theirs. NCCL sets SO_REUSEPORT, so all ranks of a
 * host, and those of the user's other jobs, listen at one address.
 */
#include <arpa/inet.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "triage/ras.h"
#include "target/proc.h"

#define DEFAULT_PORT 28028
#define MAX_ENVIRONMENT ((size_t)1 << 20)
#define STATE_LISTEN 10 /* TCP_LISTEN */

/* ---- the kernel's table ---- */

struct entry {
	union vt_ras_address local, remote;
	unsigned int state;
	uint64_t inode;
};

typedef void entry_fn(void *arg, const struct entry *entry);

/* "0100007F:6D7C": 32-bit words of the address in host byte order, and the port. */
static bool read_address(const char *hex, union vt_ras_address *address)
{
	size_t n = strspn(hex, "0123456789ABCDEF");
	uint32_t words[4] = { 0 };
	uint16_t port;

	if ((n != 8 && n != 32) || hex[n] != ':')
		return false;
	for (size_t i = 0; i < n / 8; i++) {
		char word[9] = "";

		memcpy(word, hex + 8 * i, 8);
		words[i] = (uint32_t)strtoul(word, NULL, 16);
	}
	port = (uint16_t)strtoul(hex + n + 1, NULL, 16);
	*address = (union vt_ras_address){ .any.sa_family = n == 8 ? AF_INET : AF_INET6 };
	if (n == 8) {
		address->v4.sin_port = htons(port);
		memcpy(&address->v4.sin_addr, words, 4);
	} else {
		address->v6.sin6_port = htons(port);
		memcpy(&address->v6.sin6_addr, words, 16);
	}
	return true;
}

/*
 * Columns of the table: number, local and remote address, state, queues, timer, retransmits, uid,
 * timeout, inode, ...
 */
static bool read_entry(char *line, struct entry *entry)
{
	enum { LOCAL = 1, REMOTE = 2, STATE = 3, INODE = 9, N_COLUMNS };
	char *columns[N_COLUMNS] = { 0 }, *rest = NULL;

	for (size_t i = 0; i < N_COLUMNS; i++) {
		columns[i] = strtok_r(i ? NULL : line, " \n", &rest);
		if (!columns[i])
			return false;
	}
	entry->state = (unsigned int)strtoul(columns[STATE], NULL, 16);
	entry->inode = strtoull(columns[INODE], NULL, 10);
	return read_address(columns[LOCAL], &entry->local) &&
	       read_address(columns[REMOTE], &entry->remote);
}

static void for_each_in(pid_t pid, const char *table, entry_fn *fn, void *arg)
{
	char path[64], line[512];

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)vt_proc_view(pid), table);

	VT_FCLOSE FILE *file = fopen(path, "re");

	while (file && fgets(line, sizeof(line), file)) {
		struct entry entry;

		if (read_entry(line, &entry))
			fn(arg, &entry);
	}
}

/* All sockets in the network namespace of a process. */
static void for_each_socket(pid_t pid, entry_fn *fn, void *arg)
{
	for_each_in(pid, "tcp", fn, arg);
	for_each_in(pid, "tcp6", fn, arg);
}

static unsigned int port_of(const union vt_ras_address *address)
{
	return ntohs(address->any.sa_family == AF_INET ? address->v4.sin_port :
							 address->v6.sin6_port);
}

static bool is_same_address(const union vt_ras_address *a, const union vt_ras_address *b)
{
	if (a->any.sa_family != b->any.sa_family || port_of(a) != port_of(b))
		return false;
	return a->any.sa_family == AF_INET ?
		       a->v4.sin_addr.s_addr == b->v4.sin_addr.s_addr :
		       !memcmp(&a->v6.sin6_addr, &b->v6.sin6_addr, sizeof(a->v6.sin6_addr));
}

static bool is_any(const union vt_ras_address *a)
{
	return a->any.sa_family == AF_INET ? a->v4.sin_addr.s_addr == htonl(INADDR_ANY) :
					     IN6_IS_ADDR_UNSPECIFIED(&a->v6.sin6_addr);
}

/* A connection to one address may reach a listener at the other. */
static bool overlap(const union vt_ras_address *a, const union vt_ras_address *b)
{
	return port_of(a) == port_of(b) && (is_any(a) || is_any(b) || is_same_address(a, b));
}

/* ---- descriptors ---- */

/* Adds the inodes of a process's sockets, with this value; false if they may not be read. */
static bool add_sockets(pid_t pid, uint64_t value, struct vt_map *inodes, bool *nomem)
{
	char path[64], name[320], link[64];
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/fd", (int)vt_proc_view(pid));

	VT_CLOSEDIR DIR *dir = opendir(path);

	if (!dir)
		return errno != EACCES && errno != EPERM;
	while ((entry = readdir(dir))) {
		ssize_t n;

		snprintf(name, sizeof(name), "%s/%s", path, entry->d_name);
		n = readlink(name, link, sizeof(link) - 1);
		if (n <= 8 || strncmp(link, "socket:[", 8) != 0)
			continue;
		link[n] = '\0';
		*nomem |= !vt_map_put(inodes, strtoull(link + 8, NULL, 10), value);
	}
	return true;
}

/* Pids are reused. */
static bool is_of_job(const struct vt_suspect *suspect)
{
	struct vt_thread_info info = { 0 };

	if (!suspect->label.in_job || suspect->core || !suspect->label.start_ticks)
		return false;

	VT_ERROR struct vt_error *err =
		vt_thread_info_read(&info, suspect->label.pid, suspect->label.pid);

	return !err && info.start_ticks == suspect->label.start_ticks;
}

/* The socket inodes of a process of the job. */
static bool list_owners(const struct vt_suspects *suspects, struct vt_map *owners)
{
	bool nomem = false;

	for (size_t i = 0; i < suspects->list.n && !nomem; i++) {
		pid_t pid = suspects->list.data[i].label.pid;

		if (is_of_job(&suspects->list.data[i]))
			(void)add_sockets(pid, (uint64_t)pid, owners, &nomem);
	}
	return !nomem;
}

/* ---- where a rank would listen ---- */

static char *read_environment(pid_t pid, size_t *n)
{
	char path[64], *text = malloc(MAX_ENVIRONMENT + 1);

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)vt_proc_view(pid));

	VT_FCLOSE FILE *file = fopen(path, "re");

	*n = file && text ? fread(text, 1, MAX_ENVIRONMENT, file) : 0;
	if (text)
		text[*n] = '\0';
	return text;
}

static const char *variable(const char *environment, size_t n, const char *name)
{
	size_t length = strlen(name);

	for (size_t i = 0; environment && i < n; i += strlen(environment + i) + 1)
		if (!strncmp(environment + i, name, length) && environment[i + length] == '=')
			return environment + i + length + 1;
	return NULL;
}

/* NCCL_RAS_ADDR is "host:port" or "[address]:port"; 0 if RAS is off. */
static unsigned int wanted_port(pid_t pid)
{
	size_t n;
	VT_FREE char *environment = read_environment(pid, &n);
	const char *address = variable(environment, n, "NCCL_RAS_ADDR"),
		   *enable = variable(environment, n, "NCCL_RAS_ENABLE");
	const char *colon = address ? strrchr(address, ':') : NULL;
	unsigned long port = colon && isdigit((unsigned char)colon[1]) ?
				     strtoul(colon + 1, NULL, 10) :
				     DEFAULT_PORT;

	if (enable && !strcmp(enable, "0"))
		return 0;
	return port > 0 && port <= UINT16_MAX ? (unsigned int)port : DEFAULT_PORT;
}

/* ---- listeners ---- */

struct finding {
	struct vt_ras_listeners *listeners;
	const struct vt_map *owners;
	const struct vt_map *ranks_of; /* inode: the index of its rank */
	const struct vt_suspects *suspects;
	ino_t netns;
	unsigned int port;
	bool nomem;
};

/* The address that a client connects to. */
static void set_address(struct vt_ras_listener *listener, const union vt_ras_address *listens)
{
	char host[INET6_ADDRSTRLEN] = "";

	listener->address = *listens;
	if (is_any(listens) && listens->any.sa_family == AF_INET)
		listener->address.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	else if (is_any(listens))
		listener->address.v6.sin6_addr = in6addr_loopback;
	if (listener->address.any.sa_family == AF_INET) {
		inet_ntop(AF_INET, &listener->address.v4.sin_addr, host, sizeof(host));
		snprintf(listener->name, sizeof(listener->name), "%s:%u", host, port_of(listens));
	} else {
		inet_ntop(AF_INET6, &listener->address.v6.sin6_addr, host, sizeof(host));
		snprintf(listener->name, sizeof(listener->name), "[%s]:%u", host, port_of(listens));
	}
}

/* Adds the listeners of ranks: each address once. */
static void on_listener(void *arg, const struct entry *entry)
{
	struct finding *f = arg;
	const uint64_t *rank = vt_map_get(f->ranks_of, entry->inode);
	struct vt_ras_listener listener = { .netns = f->netns }, *added;

	if (entry->state != STATE_LISTEN || port_of(&entry->local) != f->port || !rank)
		return;
	listener.rank = &f->suspects->list.data[*rank];
	set_address(&listener, &entry->local);
	for (size_t i = 0; i < f->listeners->list.n; i++)
		if (f->listeners->list.data[i].netns == f->netns &&
		    is_same_address(&f->listeners->list.data[i].address, &listener.address))
			return;
	added = vt_vec_append(&f->listeners->list);
	f->nomem |= !added;
	if (added)
		*added = listener;
}

/* Marks addresses where other processes listen, too. */
static void on_other_listener(void *arg, const struct entry *entry)
{
	struct finding *f = arg;

	if (entry->state != STATE_LISTEN || port_of(&entry->local) != f->port ||
	    vt_map_get(f->owners, entry->inode))
		return;
	for (size_t i = 0; i < f->listeners->list.n; i++) {
		struct vt_ras_listener *listener = &f->listeners->list.data[i];

		if (listener->netns == f->netns && overlap(&listener->address, &entry->local))
			listener->foreign = true;
	}
}

static bool netns_of(pid_t pid, ino_t *netns)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%d/ns/net", (int)vt_proc_view(pid));
	if (stat(path, &st))
		return false;
	*netns = st.st_ino;
	return true;
}

/*
 * The listeners of one rank and all others at the same port: other ranks found here are not
 * searched again.
 */
static void look_at_rank(struct finding *f, size_t index, struct vt_map *done)
{
	pid_t pid = f->suspects->list.data[index].label.pid;

	f->port = wanted_port(pid);
	f->listeners->n_off += !f->port;
	if (!f->port || !netns_of(pid, &f->netns) || vt_map_get(done, f->netns << 16 | f->port))
		return;
	f->nomem |= !vt_map_put(done, f->netns << 16 | f->port, 0);
	for_each_socket(pid, on_listener, f);
	for_each_socket(pid, on_other_listener, f);
}

static bool is_rank(const struct vt_suspect *suspect)
{
	return is_of_job(suspect) && suspect->label.role == VT_ROLE_RANK;
}

struct vt_error *vt_ras_find(const struct vt_suspects *suspects, struct vt_ras_listeners *listeners)
{
	VT_CLEANUP(vt_map_deinit) struct vt_map owners = { 0 }, ranks_of = { 0 }, done = { 0 };
	struct finding f = { .listeners = listeners,
			     .owners = &owners,
			     .ranks_of = &ranks_of,
			     .suspects = suspects };

	f.nomem = !list_owners(suspects, &owners);
	for (size_t i = 0; i < suspects->list.n && !f.nomem; i++) {
		if (!is_rank(&suspects->list.data[i]))
			continue;
		listeners->n_ranks++;
		listeners->n_hidden +=
			!add_sockets(suspects->list.data[i].label.pid, i, &ranks_of, &f.nomem);
	}
	for (size_t i = 0; i < suspects->list.n && !f.nomem; i++)
		if (is_rank(&suspects->list.data[i]))
			look_at_rank(&f, i, &done);
	return f.nomem ? &vt_enomem : NULL;
}

void vt_ras_listeners_deinit(struct vt_ras_listeners *listeners)
{
	vt_vec_deinit(&listeners->list);
}

/* ---- which process accepted ---- */

struct search {
	const union vt_ras_address *from, *to;
	uint64_t inode;
};

static void on_connection(void *arg, const struct entry *entry)
{
	struct search *s = arg;

	if (is_same_address(&entry->local, s->to) && is_same_address(&entry->remote, s->from))
		s->inode = entry->inode;
}

pid_t vt_ras_accepted_by(const struct vt_suspects *suspects, const struct vt_ras_listener *listener,
			 const union vt_ras_address *from)
{
	VT_CLEANUP(vt_map_deinit) struct vt_map owners = { 0 };
	struct search search = { .from = from, .to = &listener->address };
	const uint64_t *pid;

	for_each_socket(listener->rank->label.pid, on_connection, &search);
	if (!search.inode || !list_owners(suspects, &owners))
		return 0;
	pid = vt_map_get(&owners, search.inode);
	return pid ? (pid_t)*pid : -1;
}
