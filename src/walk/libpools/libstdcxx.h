/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Containers of libstdc++ in the memory of a process. Nothing is believed: both directions of every
 * link, the counts and the rules of red-black trees are checked. Private to this folder.
 */
#ifndef VT_WALK_LIBPOOLS_LIBSTDCXX_H
#define VT_WALK_LIBPOOLS_LIBSTDCXX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "walk/heap/pages.h"

/* Where an element begins in its node. */
enum {
	VT_CXX_TREE_NODE = 32, /* _Rb_tree_node_base: colour, parent, left, right */
	VT_CXX_LIST_NODE = 16, /* _List_node_base: next, previous */
};

/* Is told where an element is. False: it makes no sense, which ends the walk. */
typedef bool vt_cxx_visit(void *arg, uint64_t element);

/*
 * The elements of a std::set or std::map in their order. header: its _M_header, 8 bytes behind the
 * beginning of the object. False: it is damaged or changing, has more elements than max, or visit
 * said so.
 */
bool vt_cxx_tree(struct vt_pages *pages, uint64_t header, uint64_t max, vt_cxx_visit *visit,
		 void *arg);
/* The header of the tree that has this node; 0: none has it. */
uint64_t vt_cxx_tree_of(struct vt_pages *pages, uint64_t at);

/* The elements of the std::list at list, in the same way. */
bool vt_cxx_list(struct vt_pages *pages, uint64_t list, uint64_t max, vt_cxx_visit *visit,
		 void *arg);

#endif
