/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a socket of the target is connected to. /proc/PID/fd has only its inode. The tables in
 * /proc/PID/net, which show the target's network namespace, have the addresses. The tables can be
 * long, so we read them once, and only when a thread waits on a socket.
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "explain/wait_internal.h"

#define MAX_LINES 65536 /* of each table */

/*
 * The states in include/net/tcp_states.h that tell a person something; all others are transitions.
 */
enum { ESTABLISHED = 1, SYN_SENT = 2, CLOSE_WAIT = 8, LISTEN = 10 };

/* The n-th word of a line, from 0; "" when there are fewer. */
static const char *word_of(const char *line, int n)
{
	line += strspn(line, " ");
	for (; n > 0; n--) {
		line += strcspn(line, " \n");
		line += strspn(line, " ");
	}
	return line;
}

/*
 * "0100007F:1F90": each 32-bit word in the byte order of the machine, as the kernel prints its
 * __be32 as a number.
 */
static bool parse_address(const char *text, char *out, size_t size)
{
	size_t digits = strspn(text, "0123456789ABCDEF"), n = digits / 8;
	char host[INET6_ADDRSTRLEN];
	uint32_t words[4];

	if ((digits != 8 && digits != 32) || text[digits] != ':')
		return false;
	for (size_t i = 0; i < n; i++) {
		char word[9] = "";

		memcpy(word, text + 8 * i, 8);
		words[i] = (uint32_t)strtoul(word, NULL, 16);
	}
	/* ::ffff:a.b.c.d is IPv4 through an IPv6 socket. */
	if (n == 4 && !words[0] && !words[1] && words[2] == htonl(0xffff)) {
		words[0] = words[3];
		n = 1;
	}
	if (!inet_ntop(n == 1 ? AF_INET : AF_INET6, words, host, sizeof(host)))
		return false;
	snprintf(out, size, n == 1 ? "%s:%lu" : "[%s]:%lu", host,
		 strtoul(text + digits + 1, NULL, 16));
	return true;
}

static const char *describe_inet(struct vt_arena *arena, const char *protocol, unsigned int state,
				 const char *local, const char *remote)
{
	switch (state) {
	case LISTEN:
		return vt_arena_printf(arena, "a %s socket that listens on %s", protocol, local);
	case ESTABLISHED:
		return vt_arena_printf(arena, "a %s connection from %s to %s", protocol, local,
				       remote);
	case SYN_SENT:
		return vt_arena_printf(arena, "a %s connection to %s that is not answered yet",
				       protocol, remote);
	case CLOSE_WAIT:
		return vt_arena_printf(
			arena, "a %s connection from %s to %s, which the other side has closed",
			protocol, local, remote);
	default:
		return vt_arena_printf(arena, "a %s socket at %s", protocol, local);
	}
}

/* A line of tcp, tcp6, udp, udp6 (net/ipv4/tcp_ipv4.c, get_tcp4_sock() and its kin). */
static const char *parse_inet(struct vt_arena *arena, const char *protocol, const char *line,
			      uint64_t *inode)
{
	char local[64], remote[64];

	if (!parse_address(word_of(line, 1), local, sizeof(local)) ||
	    !parse_address(word_of(line, 2), remote, sizeof(remote)))
		return NULL;
	*inode = strtoull(word_of(line, 9), NULL, 10);
	return describe_inet(arena, protocol, (unsigned int)strtoul(word_of(line, 3), NULL, 16),
			     local, remote);
}

/*
 * A line of unix (net/unix/af_unix.c, unix_seq_show()): the path is there only for a socket that
 * has one.
 */
static const char *parse_unix(struct vt_arena *arena, const char *line, uint64_t *inode)
{
	const char *path = word_of(line, 7);
	size_t n = strcspn(path, "\n");

	/*
	 * The zero bytes of an abstract name are shown as '@'; some programs pass all of sun_path.
	 */
	while (path[0] == '@' && n > 1 && path[n - 1] == '@')
		n--;
	*inode = strtoull(word_of(line, 6), NULL, 10); /* 0 in the line of titles */
	return n ? vt_arena_printf(arena, "the Unix socket %.*s", (int)n, path) : "a Unix socket";
}

static void read_table(struct vt_wait_sockets *sockets, pid_t tid, const char *name,
		       const char *protocol)
{
	char path[64], line[512];

	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)tid, name);

	VT_FCLOSE FILE *file = fopen(path, "re");

	for (int i = 0; file && i < MAX_LINES && fgets(line, sizeof(line), file); i++) {
		uint64_t inode = 0;
		const char *text = protocol ? parse_inet(&sockets->arena, protocol, line, &inode) :
					      parse_unix(&sockets->arena, line, &inode);

		/* Out of memory leaves it "a socket". */
		if (text && inode)
			(void)vt_map_put(&sockets->by_inode, inode, (uint64_t)(uintptr_t)text);
	}
}

const char *wait_socket(struct vt_wait_sockets *sockets, pid_t tid, uint64_t inode)
{
	static const struct {
		const char *name;
		const char *protocol; /* NULL: Unix */
	} tables[] = { { "tcp", "TCP" },
		       { "tcp6", "TCP" },
		       { "unix", NULL },
		       { "udp", "UDP" },
		       { "udp6", "UDP" } };

	for (size_t i = 0; !sockets->read && i < sizeof(tables) / sizeof(tables[0]); i++)
		read_table(sockets, tid, tables[i].name, tables[i].protocol);
	sockets->read = true;

	const uint64_t *text = vt_map_get(&sockets->by_inode, inode);

	return text ? (const char *)(uintptr_t)*text : "a socket";
}
