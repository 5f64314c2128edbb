/* SPDX-License-Identifier: Apache-2.0 */
#include "target/asleep.h"

#include <fcntl.h>
#include <string.h>

#include "target/task.h"

/* "running", "-1 SP PC", or "NR A0 ... A5 SP PC", all but NR in hexadecimal. */
enum { SP = 7, PC, N_VALUES };

/* "0x1f" or "31" at *text, which is moved behind it; strtoull() is not async-signal-safe. */
static bool take_number(const char **text, uint64_t *value)
{
	const char *p = *text;
	unsigned int base = 10;
	const char *first;

	while (*p == ' ')
		p++;
	if (p[0] == '0' && p[1] == 'x') {
		base = 16;
		p += 2;
	}
	first = p;
	for (*value = 0;; p++) {
		unsigned int digit = 16;

		if (*p >= '0' && *p <= '9')
			digit = (unsigned int)(*p - '0');
		else if (*p >= 'a' && *p <= 'f')
			digit = (unsigned int)(*p - 'a') + 10;
		if (digit >= base)
			break;
		*value = *value * base + digit;
	}
	*text = p;
	return p > first;
}

/* False unless it sleeps in a system call. */
static bool read_values(pid_t tid, uint64_t values[N_VALUES])
{
	char path[VT_TASK_PATH], text[256];
	const char *p = text;

	vt_task_path(path, tid, "/syscall");
	if (vt_task_record(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return false;
	for (int i = 0; i < N_VALUES; i++)
		if (!take_number(&p, &values[i]))
			return false;
	return true;
}

void vt_asleep_read(pid_t tid, struct vt_asleep *asleep)
{
	uint64_t values[N_VALUES];

	*asleep = (struct vt_asleep){ .nr = -1 };
	if (!read_values(tid, values))
		return;
	asleep->nr = (int64_t)values[0];
	memcpy(asleep->args, values + 1, sizeof(asleep->args));
	asleep->sp = values[SP];
	asleep->pc = values[PC];
}

bool vt_asleep_is_same(const struct vt_asleep *a, const struct vt_asleep *b)
{
	return a->nr == b->nr && a->sp == b->sp && a->pc == b->pc &&
	       !memcmp(a->args, b->args, sizeof(a->args));
}
