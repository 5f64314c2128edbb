# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/heap/libheap.a
src_walk_heap_libheap_a_SOURCES = \
	src/walk/heap/chunk.c src/walk/heap/chunk.h \
	src/walk/heap/chunks.c src/walk/heap/chunks.h \
	src/walk/heap/graph.c src/walk/heap/graph.h \
	src/walk/heap/holder.c src/walk/heap/holder.h \
	src/walk/heap/pages.c src/walk/heap/pages.h \
	src/walk/heap/seek.c src/walk/heap/seek.h
