/* SPDX-License-Identifier: Apache-2.0 */
/* Layouts: bits/stl_tree.h, bits/stl_list.h; the same since GCC 5. */
#include "walk/libpools/libstdcxx.h"

#define MAX_DEPTH 128 /* of a tree: twice the logarithm of its size */
#define PAGE UINT64_C(4096)
#define MAX_ADDRESS (UINT64_C(1) << 47)

enum { RED, BLACK };

/* Also of a header: its parent is the root, left the first node and right the last one. */
struct node {
	uint64_t at, parent, left, right;
	uint32_t color;
};

static bool read_node(struct vt_pages *pages, uint64_t at, struct node *node)
{
	uint64_t words[4];

	if (at % 8 || at < PAGE || at >= MAX_ADDRESS ||
	    !vt_pages_read(pages, at, words, sizeof(words)))
		return false;
	*node = (struct node){ .at = at,
			       .parent = words[1],
			       .left = words[2],
			       .right = words[3],
			       .color = (uint32_t)words[0] }; /* padding behind it */
	return node->color <= BLACK;
}

struct walk {
	struct vt_pages *pages;
	struct node path[MAX_DEPTH]; /* from the root: nodes whose left side is done or in work */
	int black[MAX_DEPTH];        /* black nodes from the root to each of these */
	int depth;
	int leaf_black; /* black nodes above every empty place; -1: none was seen yet */
	uint64_t first, last, n;
};

/* What hangs at an empty place: all of them have as many black nodes above them. */
static bool end_of_path(struct walk *w, int black)
{
	if (w->leaf_black < 0)
		w->leaf_black = black;
	return w->leaf_black == black;
}

/* Goes down to the left from a node whose parent is known. */
static bool descend(struct walk *w, uint64_t at, uint64_t parent, uint32_t parent_color, int black)
{
	while (at) {
		struct node *node = &w->path[w->depth];

		if (w->depth >= MAX_DEPTH || !read_node(w->pages, at, node) ||
		    node->parent != parent || (node->color == RED && parent_color == RED))
			return false;
		black += node->color == BLACK;
		w->black[w->depth++] = black;
		parent = at;
		parent_color = node->color;
		at = node->left;
	}
	return end_of_path(w, black);
}

static bool visit_all(struct walk *w, uint64_t n, vt_cxx_visit *visit, void *arg)
{
	while (w->depth) {
		struct node node = w->path[--w->depth];
		int black = w->black[w->depth];

		if (++w->n > n || !visit(arg, node.at + VT_CXX_TREE_NODE))
			return false;
		if (!w->first)
			w->first = node.at;
		w->last = node.at;
		if (!descend(w, node.right, node.at, node.color, black))
			return false;
	}
	return w->n == n;
}

bool vt_cxx_tree(struct vt_pages *pages, uint64_t header, uint64_t max, vt_cxx_visit *visit,
		 void *arg)
{
	struct walk w = { .pages = pages, .leaf_black = -1 };
	struct node head, root;
	uint64_t n;

	if (!read_node(pages, header, &head) || !vt_pages_word(pages, header + 32, &n) || n > max)
		return false;
	if (!head.parent)
		return !n && head.left == header && head.right == header;
	/* A root is black, and so that it may hang below the red header. */
	if (!read_node(pages, head.parent, &root) || root.color != BLACK || head.color != RED)
		return false;
	return descend(&w, head.parent, header, RED, 0) && visit_all(&w, n, visit, arg) &&
	       head.left == w.first && head.right == w.last;
}

/* Only the root and the header are each other's parents. */
uint64_t vt_cxx_tree_of(struct vt_pages *pages, uint64_t at)
{
	struct node node, parent;

	if (!read_node(pages, at, &node))
		return 0;
	for (int i = 0; i < MAX_DEPTH; i++) {
		if (!read_node(pages, node.parent, &parent))
			return 0;
		if (parent.parent == node.at)
			return node.color == BLACK && parent.color == RED ? parent.at : 0;
		if (parent.left != node.at && parent.right != node.at)
			return 0;
		node = parent;
	}
	return 0;
}

bool vt_cxx_list(struct vt_pages *pages, uint64_t list, uint64_t max, vt_cxx_visit *visit,
		 void *arg)
{
	uint64_t head[3], node[2], prev = list;

	if (!vt_pages_read(pages, list, head, sizeof(head)) || head[2] > max)
		return false;
	node[0] = head[0];
	for (uint64_t i = 0; i < head[2]; i++) {
		uint64_t at = node[0];

		if (at % 8 || at < PAGE || at >= MAX_ADDRESS || at == list ||
		    !vt_pages_read(pages, at, node, sizeof(node)) || node[1] != prev ||
		    !visit(arg, at + VT_CXX_LIST_NODE))
			return false;
		prev = at;
	}
	return node[0] == list && head[1] == prev;
}
