/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/torch/workspaces.h"

#include "walk/torch/abi.h"
#include "walk/torch/code.h"
#include "walk/torch/find.h"

enum {
	CODE_MAX = 96,  /* the pointer is in the first instructions, and again at the end */
	MAX_DEPTH = 64, /* of a tree: red-black, so more is damage */
};

/* Both return a std::map that is made at the first use and never destroyed. */
static const struct {
	const char *symbol, *library;
} entrances[] = {
	{ "_ZN2at4cuda33cublas_handle_stream_to_workspaceEv", "cuBLAS" },
	{ "_ZN2at4cuda35cublaslt_handle_stream_to_workspaceEv", "cuBLASLt" },
};

/*
 * Its value is std::pair<const std::tuple<void *, void *>, at::DataPtr>: the memory is what DataPtr
 * begins with.
 */
struct workspace_node {
	uint64_t colour, parent, left, right;
	uint64_t stream, handle;
	uint64_t data;
};

struct finder {
	struct vt_memsrc *src;
	struct vt_torch_workspace *workspaces;
	size_t n, max;
	const char *library;
};

static void walk_tree(struct finder *f, const struct vt_rbset *map)
{
	uint64_t left[MAX_DEPTH], at = map->root;
	size_t depth = 0;

	for (uint64_t n = 0; n < map->n && f->n < f->max; n++) {
		struct workspace_node node;

		if (!vt_is_object(at) || vt_mem_read(f->src, at, &node, sizeof(node)))
			return;
		f->workspaces[f->n++] = (struct vt_torch_workspace){ node.data, f->library };
		if (node.right && depth < MAX_DEPTH)
			left[depth++] = node.right;
		at = node.left;
		if (!at && depth)
			at = left[--depth];
	}
}

/* Whether the code's reference is a pointer to the map. */
static bool leads_to_map(struct finder *f, uint64_t target)
{
	struct vt_rbset map;
	uint64_t addr;

	if (!vt_is_object(target) || vt_mem_read_u64(f->src, target, &addr) ||
	    !vt_is_object(addr) || vt_mem_read(f->src, addr, &map, sizeof(map)) ||
	    !vt_rbset_plausible(&map, addr))
		return false;
	walk_tree(f, &map);
	return true;
}

static void find_map(struct finder *f, uint64_t function)
{
	uint8_t code[CODE_MAX];
	size_t n = vt_torch_read_some(f->src, function, code, sizeof(code));

	for (size_t i = 0; i + VT_CODE_REFERENCE_SIZE <= n; i++) {
		uint64_t next = function + i + VT_CODE_REFERENCE_SIZE;

		if (vt_code_is_reference(code + i) &&
		    leads_to_map(f, vt_code_relative(next, code + i + 3)))
			return;
	}
}

size_t vt_torch_workspaces(struct vt_modules *modules, struct vt_memsrc *src,
			   struct vt_torch_workspace *workspaces, size_t max)
{
	struct finder f = { .src = src, .workspaces = workspaces, .max = max };

	for (size_t i = 0; i < sizeof(entrances) / sizeof(entrances[0]); i++) {
		uint64_t function =
			vt_modules_symbol(modules, "libtorch_cuda.so", entrances[i].symbol);

		f.library = entrances[i].library;
		if (function)
			find_map(&f, function);
	}
	return f.n;
}
