# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/pyheap/libpyheap.a
src_walk_pyheap_libpyheap_a_SOURCES = \
	src/walk/pyheap/add.c \
	src/walk/pyheap/class.c \
	src/walk/pyheap/collector.c \
	src/walk/pyheap/containers.c \
	src/walk/pyheap/count.c \
	src/walk/pyheap/dict.c \
	src/walk/pyheap/edges.c \
	src/walk/pyheap/frame.c \
	src/walk/pyheap/function.c \
	src/walk/pyheap/heap.c \
	src/walk/pyheap/internal.h \
	src/walk/pyheap/instance.c \
	src/walk/pyheap/kinds.c \
	src/walk/pyheap/lookup.c \
	src/walk/pyheap/pyheap.h \
	src/walk/pyheap/roots.c \
	src/walk/pyheap/table.c \
	src/walk/pyheap/text.c \
	src/walk/pyheap/where.c
