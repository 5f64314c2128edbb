/* SPDX-License-Identifier: Apache-2.0 */
/*
 * vramtap triage on many nodes: shell programs (*.sh here) start it on each, by the cluster's own
 * tools, and bring what it has written.
 */
#ifndef VT_CLUSTER_CLUSTER_H
#define VT_CLUSTER_CLUSTER_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "base/vec.h"

struct vt_cluster_options {
	const char *engine;          /* "slurm", "kubectl", "mpirun" or "clush" */
	const char *where;           /* the job, pods, hosts or nodes; as the engine takes it */
	const char *namespace;       /* of the pods; NULL: kubectl's own default */
	const char *container;       /* the same */
	const char *worker;          /* how clush reaches the nodes; NULL: as configured */
	const char *program;         /* vramtap there; NULL: one of this version, else a copy */
	const char *version;         /* what --version prints */
	uint64_t timeout_ns;         /* for vramtap on each node */
	uint64_t margin_ns;          /* how much longer a node may take to answer */
	unsigned int at_once;        /* nodes */
	const char *directory;       /* where results go; NULL: only until deinit */
	const char *const *for_node; /* options of vramtap triage there, NULL at the end */
};

/* A node and the directory of its results; or what is missing, and why. */
struct vt_cluster_node {
	char *directory; /* NULL: none */
	char *why;       /* NULL: the directory is there */
};

struct vt_cluster {
	pid_t shell;
	int hold;  /* the shell removes what nobody wants when this is closed */
	FILE *out; /* what it says */
	VT_VEC(struct vt_cluster_node) nodes;
};

/*
 * Asks all nodes. Ends within a time that the options bound. Needs deinit, also after an error; and
 * in a handler of a signal vt_cluster_interrupt().
 */
struct vt_error *vt_cluster_collect(struct vt_cluster *cluster,
				    const struct vt_cluster_options *options);
void vt_cluster_deinit(struct vt_cluster *cluster);

/*
 * Ends what runs, here and on the nodes, and waits until nothing is left of it, or for ten
 * seconds. Async-signal-safe.
 */
void vt_cluster_interrupt(const struct vt_cluster *cluster);

#endif
