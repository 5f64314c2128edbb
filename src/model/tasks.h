/* SPDX-License-Identifier: Apache-2.0 */
/* asyncio's tasks: what a server does while its only thread waits for events. */
#ifndef VT_MODEL_TASKS_H
#define VT_MODEL_TASKS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum vt_task_state {
	VT_TASK_WAITING, /* its coroutine awaits something */
	VT_TASK_READY,   /* its event loop will run it */
	VT_TASK_RUNNING, /* a thread executes it; its frames are in that stack, too */
	VT_N_TASK_STATES
};

struct vt_model_task {
	const char *name; /* hostile */
	enum vt_task_state state;
	pid_t tid;               /* the thread that runs its event loop; 0 unknown */
	const char *awaits;      /* the type of what it waits for: "Future"; NULL none; hostile */
	const size_t *waits_for; /* indices of tasks, directly or in a group; the arena's */
	size_t n_waits_for;
	struct vt_model_stack stack; /* its coroutines, innermost first */
};

struct vt_model_tasks {
	bool used;       /* asyncio runs in this process, and its tasks were looked for */
	const char *why; /* why there is no list; NULL: there is one */
	bool exact;      /* the event loops' threads did not run while the tasks were read */
	bool cut;        /* tasks are missing */
	VT_VEC(struct vt_model_task) tasks;
};

const char *vt_task_state_name(enum vt_task_state state); /* "waiting", "ready", "running" */

#endif
