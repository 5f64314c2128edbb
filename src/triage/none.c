/* SPDX-License-Identifier: Apache-2.0 */
/* That nothing was found: by which words it was looked for, where, and what may be hidden. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/str.h"
#include "triage/triage.h"

static void add(struct vt_str *text, const char *option, const char *value)
{
	vt_str_addf(text, "%s%s", text->n ? " or " : "", option);
	if (!value)
		return;
	vt_str_add(text, " ");
	vt_str_add_escaped(text, value, strlen(value));
}

static void add_pids(struct vt_str *text, const struct vt_triage_choice *choice)
{
	for (size_t i = 0; i < choice->pids.n; i++) {
		char pid[24];

		snprintf(pid, sizeof(pid), "%d", (int)choice->pids.data[i]);
		add(text, pid, NULL);
	}
}

struct vt_error *vt_triage_none(const struct vt_triage_choice *choice)
{
	/* By its number a process is named that is there, whoever may see it. */
	bool hidden = geteuid() != 0 && (choice->all_gpu || choice->slurm || choice->cgroup ||
					 choice->match || choice->children_of);
	char host[256] = "", parent[24];
	struct vt_str text = { 0 };
	struct vt_error *err;

	if (gethostname(host, sizeof(host) - 1))
		host[0] = '\0';
	if (choice->all_gpu)
		add(&text, "--all-gpu", NULL);
	if (choice->slurm)
		add(&text, "--job", choice->slurm);
	if (choice->cgroup)
		add(&text, "--cgroup", choice->cgroup);
	if (choice->match)
		add(&text, "--match", choice->match);
	snprintf(parent, sizeof(parent), "%d", (int)choice->children_of);
	if (choice->children_of)
		add(&text, "--children-of", parent);
	add_pids(&text, choice);
	err = vt_error_create(VT_ERR_NOTFOUND, "no process on %s matches %.400s%s",
			      *host ? host : "this machine", vt_str_get(&text),
			      hidden ? "; there may be processes of other users that cannot be "
				       "seen: run as root" :
				       "");
	vt_str_deinit(&text);
	return err;
}
