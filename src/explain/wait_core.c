/* SPDX-License-Identifier: Apache-2.0 */
/* What the threads of a core wait for. A core shows one instant, without the kernel's side. */
#include <stdio.h>

#include "explain/wait_internal.h"

static pid_t core_thread_of(const struct wait_context *c, pid_t tid)
{
	const uint64_t *found = vt_map_get(c->wait->by_inner, (uint64_t)tid);

	return found ? (pid_t)*found : 0;
}

static void core_name_of(const struct wait_context *c, pid_t tid, char name[WAIT_NAME_MAX])
{
	name[0] = '\0';
	for (size_t i = 0; i < c->wait->list->threads.n; i++)
		if (c->wait->list->threads.data[i].tid == tid)
			snprintf(name, WAIT_NAME_MAX, "%.*s", WAIT_NAME_MAX - 1,
				 c->wait->list->threads.data[i].name);
}

const struct vt_wait_ops vt_wait_core = {
	.absent = "which is not in the core", /* but maybe in the process: cuda-gdb omits some */
	.thread_of = core_thread_of,
	.name_of = core_name_of,
};
