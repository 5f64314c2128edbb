/* SPDX-License-Identifier: Apache-2.0 */
/* Options for asking the nodes of a job, of vramtap triage. */
#ifndef VT_CMD_OPTIONS_NODES_H
#define VT_CMD_OPTIONS_NODES_H

#include <argp.h>
#include <stdbool.h>

#include "cluster/cluster.h"

/* An argp child, with group 2 of options; its input is a zeroed struct vt_cluster_options. */
extern const struct argp vt_nodes_argp;

/*
 * After all options: a usage error where they do not fit together; else fills in what is not given.
 */
void vt_nodes_check(struct argp_state *state, struct vt_cluster_options *nodes);

/* Whether Slurm's job says which processes it is about. */
bool vt_nodes_is_slurm(const struct vt_cluster_options *nodes);

#endif
