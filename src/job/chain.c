/* SPDX-License-Identifier: Apache-2.0 */
/* The names and words of chains of causes: what to do about each kind of cause. */
#include <string.h>

#include "base/str.h"
#include "job/internal.h"

#define MAX_PIDS 8 /* in a command */

/* In commands, %P are the pids, %p is the first pid, %t its tracer's, %c its core. */
struct step {
	const char *command, *words;
};

static const struct {
	const char *name;
	struct step steps[VT_MAX_STEPS];
} cures[VT_N_CURES] = {
	[VT_CURE_CONTINUE] = { "continue",
			       { { "kill -CONT %P", "lets it go on" },
				 { "vramtap stacks %p", "shows where it stands" } } },
	[VT_CURE_DETACH] = { "detach",
			     { { "ps -o user,tty,args -p %t", "whose debugger it is" },
			       { "", "detach there, or let it continue" } } },
	[VT_CURE_KERNEL] = { "kernel",
			     { { "vramtap stacks %p", "shows where in the kernel" },
			       { "", "no signal ends this: see to the disk, file server or "
				     "driver that it waits for" } } },
	[VT_CURE_RESTART] = { "restart",
			      { { "dmesg -T | grep -iE 'killed process|xid|segfault'",
				  "why it ended, if the kernel knows" },
				{ "", "the others wait in vain: read its log, then start the "
				      "job again" } } },
	[VT_CURE_CORE] = { "core",
			   { { "vramtap report --core %c", "what it died of" },
			     { "", "the others wait in vain: start the job again" } } },
	[VT_CURE_MEMORY] = { "memory",
			     { { "vramtap report %p", "who holds its GPU memory" }, { "", "" } } },
	[VT_CURE_LOCK] = { "lock",
			   { { "vramtap stacks %p", "which lock it is, and who holds it" },
			     { "", "" } } },
	[VT_CURE_LOOK] = { "look",
			   { { "vramtap stacks %p", "what it does instead" }, { "", "" } } },
	[VT_CURE_WORKER] = { "worker", { { "vramtap stacks %p", "what it loads" }, { "", "" } } },
	[VT_CURE_SAME_ORDER] = { "same-order",
				 { { "vramtap stacks %p", "where it called it" },
				   { "", "mend the program: all ranks have to begin the same "
					 "collectives in the same order" } } },
	[VT_CURE_GPU] = { "gpu",
			  { { "vramtap report --kernels %p",
			      "which kernel does not end; this stops the process for a moment" },
			    { "", "" } } },
	[VT_CURE_RESET] = { "reset",
			    { { "vramtap report %p", "what the driver said of the fault" },
			      { "",
				"the others wait in vain: drain the node, have the GPU reset or "
				"the machine restarted, then start the job again" } } },
	[VT_CURE_CONTEXT] = { "context",
			      { { "vramtap report %p", "by which fault, and what to do about it" },
				{ "", "all its CUDA calls fail, and the others wait in vain: start "
				      "the job again" } } },
	[VT_CURE_NETWORK] = { "network",
			      { { "dmesg -T | grep -iE 'killed process|xid|link'",
				  "whether its machine has lost it" },
				{ "", "look whether the process still runs there, and at the "
				      "network between" } } },
};

static const struct {
	const char *name, *words;
} doubts[VT_N_DOUBTS] = {
	[VT_DOUBT_LEFT_OUT] = { "left-out", "it may run, and be left out here" },
	[VT_DOUBT_UNSEEN] = { "unseen", "a rank that was not found or read may be awaited, too" },
	[VT_DOUBT_GROUPS] = { "groups", "those that wait may be in a process group of their own" },
	[VT_DOUBT_GPU] = { "gpu", "GPUs are waited for, and they may only be busy" },
	[VT_DOUBT_WORKERS] = { "workers", "its rank may wait for another of its workers" },
	[VT_DOUBT_SLOW] = { "slow", "it runs: it may only be slow" },
};

const char *vt_cure_name(enum vt_cure cure)
{
	return cures[cure].name;
}

const char *vt_doubt_name(enum vt_doubt doubt)
{
	return doubts[doubt].name;
}

const char *vt_doubt_words(enum vt_doubt doubt)
{
	return doubts[doubt].words;
}

/* ---- commands ---- */

/* For a shell: a path may have any byte but NUL. */
static void add_quoted(struct vt_str *command, const char *text)
{
	static const char plain[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=+@%";

	if (*text && !text[strspn(text, plain)]) {
		vt_str_add(command, text);
		return;
	}
	vt_str_add(command, "'");
	for (; *text; text++)
		if (*text == '\'')
			vt_str_add(command, "'\\''");
		else
			vt_str_addn(command, text, 1);
	vt_str_add(command, "'");
}

static void add_pids(const struct vt_job *job, const struct vt_member_set *set,
		     struct vt_str *command)
{
	for (size_t i = 0; i < set->n && i < MAX_PIDS; i++)
		vt_str_addf(command, "%s%d", i ? " " : "",
			    (int)job->members.data[set->members[i]].label.pid);
}

/* False: what the command needs is not known. */
static bool add_value(const struct vt_job *job, const struct vt_member_set *set, char what,
		      struct vt_str *command)
{
	const struct vt_member *m = set->n ? &job->members.data[set->members[0]] : NULL;

	if (!m)
		return false;
	switch (what) {
	case 'c':
		add_quoted(command, m->core ? m->core : "");
		return m->core;
	case 't':
		vt_str_addf(command, "%d", (int)m->tracer);
		return m->tracer > 0;
	case 'P':
		add_pids(job, set, command);
		break;
	default:
		vt_str_addf(command, "%d", (int)m->label.pid);
	}
	return m->label.pid > 0;
}

static bool fill(const struct vt_job *job, const struct vt_member_set *set, const char *template,
		 struct vt_str *command)
{
	for (const char *at = template; *at; at++) {
		if (*at != '%')
			vt_str_addn(command, at, 1);
		else if (!add_value(job, set, *++at, command))
			return false;
	}
	return true;
}

bool vt_chain_fill_steps(struct vt_job *job, struct vt_job_chain *chain)
{
	struct vt_str command = { 0 };
	bool ok = true;

	chain->n_steps = 0;
	for (int i = 0; i < VT_MAX_STEPS && ok; i++) {
		const struct step *s = &cures[chain->cure].steps[i];
		struct vt_job_step *step = &chain->steps[chain->n_steps];

		vt_str_clear(&command);
		if (!*s->words || !fill(job, &chain->links[0].members, s->command, &command))
			continue;
		step->words = s->words;
		step->command = vt_job_text(job, vt_str_get(&command), command.n);
		ok = step->command && !command.failed;
		chain->n_steps += ok;
	}
	vt_str_deinit(&command);
	return ok;
}

const char *vt_chain_host(const struct vt_job *job, const struct vt_job_chain *chain)
{
	const struct vt_member_set *set = &chain->links[0].members;
	const char *host = "";

	for (size_t i = 0; i < set->n; i++) {
		const char *of = job->members.data[set->members[i]].label.host;

		if (i && strcmp(of, host) != 0)
			return "";
		host = of;
	}
	return host;
}
