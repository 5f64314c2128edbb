# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/walk/heap/test_chunks
tests_unit_walk_heap_test_chunks_SOURCES = tests/unit/walk/heap/test_chunks.c
tests_unit_walk_heap_test_chunks_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_heap_test_chunks_LDADD = $(vt_walk) $(unit_libs) -ldl

unit_tests += tests/unit/walk/heap/test_graph
tests_unit_walk_heap_test_graph_SOURCES = tests/unit/walk/heap/test_graph.c
tests_unit_walk_heap_test_graph_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_heap_test_graph_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/heap/test_pages
tests_unit_walk_heap_test_pages_SOURCES = tests/unit/walk/heap/test_pages.c
tests_unit_walk_heap_test_pages_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_heap_test_pages_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/heap/test_seek
tests_unit_walk_heap_test_seek_SOURCES = tests/unit/walk/heap/test_seek.c
tests_unit_walk_heap_test_seek_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_heap_test_seek_LDADD = $(vt_walk) $(unit_libs) -ldl

# Figures, not a test; built with the tests so that it keeps compiling.
check_PROGRAMS += bench/heap
bench_heap_SOURCES = bench/heap.c
bench_heap_CPPFLAGS = $(unit_cppflags)
bench_heap_LDADD = $(vt_walk) $(VT_LIBS) -lpthread
