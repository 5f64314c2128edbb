/* SPDX-License-Identifier: Apache-2.0 */
/* The order of what is thought about a graph. */
#include "owners/internal.h"

#include <stdlib.h>

static bool search_from_roots(struct vt_owners *o)
{
	const struct vt_graph_node *root = &o->graph.nodes.data[o->root];
	uint32_t *edges = calloc((size_t)root->n_edges + 1, sizeof(*edges));
	bool ok = edges && vt_owners_search_begin(o);

	if (ok) {
		for (uint32_t i = 0; i < root->n_edges; i++)
			edges[i] = root->first_edge + i;
		ok = vt_owners_search(o, edges, root->n_edges);
	}
	free(edges);
	return ok;
}

struct vt_error *vt_owners_think(struct vt_owners *o, const struct vt_owners_input *input)
{
	o->late_edges.n = 0;
	o->storages.n = 0;
	vt_owners_roles(o);
	if (!search_from_roots(o) || !vt_owners_rest(o) || !vt_owners_entries(o) ||
	    !vt_owners_storages(o, input) || (input->arrays && !vt_owners_arrays(o, input)))
		return vt_error_create(VT_ERR_NOMEM, "out of memory");
	vt_owners_sort_storages(o);
	return NULL;
}
