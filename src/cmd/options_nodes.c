/* SPDX-License-Identifier: Apache-2.0 */
#include "cmd/options_nodes.h"

#include <string.h>

#include "base/clock.h"
#include "cmd/arguments.h"
#include "cmd/output.h"

#define DEFAULT_MARGIN_S 20
#define DEFAULT_AT_ONCE 32
#define MAX_MARGIN_S 3600
#define MAX_AT_ONCE 1024

enum {
	KEY_SLURM = VT_KEY_COMMAND + 256, /* beside the command's own */
	KEY_KUBECTL,
	KEY_NAMESPACE,
	KEY_CONTAINER,
	KEY_MPIRUN,
	KEY_CLUSH,
	KEY_WORKER,
	KEY_NODE_PROGRAM,
	KEY_NODE_MARGIN,
	KEY_AT_ONCE,
};

static const struct argp_option options[] = {
	{ NULL, 0, NULL, 0, "On all nodes, each by a vramtap there, which are then compared:", 2 },
	{ "slurm", KEY_SLURM, "JOB", 0, "The nodes of this running Slurm job, with srun", 0 },
	{ "kubectl", KEY_KUBECTL, "SELECTOR", 0,
	  "The pods with these labels, such as job-name=train, with kubectl exec", 0 },
	{ "namespace", KEY_NAMESPACE, "NAME", 0, "The namespace of the pods", 0 },
	{ "container", KEY_CONTAINER, "NAME", 0, "Their container", 0 },
	{ "mpirun", KEY_MPIRUN, "HOSTS", 0,
	  "These hosts, with commas between, or those in a hostfile (a name with a slash), with "
	  "mpirun",
	  0 },
	{ "clush", KEY_CLUSH, "NODES", 0,
	  "These nodes, such as node[1-16] or @gpu, with ClusterShell", 0 },
	{ "worker", KEY_WORKER, "NAME", 0, "How clush reaches them", 0 },
	{ "node-program", KEY_NODE_PROGRAM, "PATH", 0,
	  "vramtap there (default: one of this version, else a copy that is gone afterwards)", 0 },
	{ "node-margin", KEY_NODE_MARGIN, "TIME", 0,
	  "How much longer than --timeout a node may take to answer; after that it is named and "
	  "left out (default 20s)",
	  0 },
	{ "at-once", KEY_AT_ONCE, "NUMBER", 0,
	  "How many nodes at once, where each is asked by itself (default 32)", 0 },
	{ 0 },
};

static void choose_engine(struct argp_state *state, struct vt_cluster_options *nodes,
			  const char *engine, const char *where)
{
	if (nodes->engine)
		argp_error(state, "--%s and --%s exclude each other", nodes->engine, engine);
	if (!*where)
		argp_error(state, "--%s is empty", engine);
	nodes->engine = engine;
	nodes->where = where;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct vt_cluster_options *nodes = state->input;

	switch (key) {
	case KEY_SLURM:
		choose_engine(state, nodes, "slurm", arg);
		return 0;
	case KEY_KUBECTL:
		choose_engine(state, nodes, "kubectl", arg);
		return 0;
	case KEY_NAMESPACE:
		nodes->namespace = arg;
		return 0;
	case KEY_CONTAINER:
		nodes->container = arg;
		return 0;
	case KEY_MPIRUN:
		choose_engine(state, nodes, "mpirun", arg);
		return 0;
	case KEY_CLUSH:
		choose_engine(state, nodes, "clush", arg);
		return 0;
	case KEY_WORKER:
		nodes->worker = arg;
		return 0;
	case KEY_NODE_PROGRAM:
		nodes->program = arg;
		return 0;
	case KEY_NODE_MARGIN:
		nodes->margin_ns = vt_parse_time(state, "--node-margin", arg, MAX_MARGIN_S);
		return 0;
	case KEY_AT_ONCE:
		nodes->at_once =
			(unsigned int)vt_parse_number(state, "--at-once", arg, 1, MAX_AT_ONCE);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

const struct argp vt_nodes_argp = { .options = options, .parser = parse_option };

static bool is_engine(const struct vt_cluster_options *nodes, const char *engine)
{
	return nodes->engine && !strcmp(nodes->engine, engine);
}

bool vt_nodes_is_slurm(const struct vt_cluster_options *nodes)
{
	return is_engine(nodes, "slurm");
}

void vt_nodes_check(struct argp_state *state, struct vt_cluster_options *nodes)
{
	if ((nodes->namespace || nodes->container) && !is_engine(nodes, "kubectl"))
		argp_error(state, "--namespace and --container go with --kubectl");
	if (nodes->worker && !is_engine(nodes, "clush"))
		argp_error(state, "--worker goes with --clush");
	if (!nodes->engine && (nodes->program || nodes->margin_ns || nodes->at_once))
		argp_error(state, "--node-program, --node-margin and --at-once go with --slurm, "
				  "--kubectl, --mpirun or --clush");
	if (is_engine(nodes, "slurm") && nodes->where[strspn(nodes->where, "0123456789_+")])
		argp_error(state, "--slurm takes the number of a job, not \"%s\"", nodes->where);
	if (!nodes->margin_ns)
		nodes->margin_ns = DEFAULT_MARGIN_S * VT_NS_PER_S;
	if (!nodes->at_once)
		nodes->at_once = DEFAULT_AT_ONCE;
	nodes->version = "vramtap " PACKAGE_VERSION;
}
