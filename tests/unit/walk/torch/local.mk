# SPDX-License-Identifier: Apache-2.0
torch_image = tests/unit/walk/torch/torch_image.c tests/unit/walk/torch/torch_image.h

unit_tests += tests/unit/walk/torch/test_torch_events
tests_unit_walk_torch_test_torch_events_SOURCES = tests/unit/walk/torch/test_torch_events.c $(torch_image)
tests_unit_walk_torch_test_torch_events_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_torch_test_torch_events_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/torch/test_torch_find
tests_unit_walk_torch_test_torch_find_SOURCES = tests/unit/walk/torch/test_torch_find.c $(torch_image)
tests_unit_walk_torch_test_torch_find_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_torch_test_torch_find_LDADD = $(vt_inject) $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/torch/test_torch_history
tests_unit_walk_torch_test_torch_history_SOURCES = tests/unit/walk/torch/test_torch_history.c tests/unit/walk/python/python_image.c tests/unit/walk/python/python_image.h
tests_unit_walk_torch_test_torch_history_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_torch_test_torch_history_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/torch/test_torch_pinned
tests_unit_walk_torch_test_torch_pinned_SOURCES = tests/unit/walk/torch/test_torch_pinned.c tests/unit/walk/torch/pinned_image.h
tests_unit_walk_torch_test_torch_pinned_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_torch_test_torch_pinned_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/torch/test_torch_told
tests_unit_walk_torch_test_torch_told_SOURCES = tests/unit/walk/torch/test_torch_told.c $(torch_image)
tests_unit_walk_torch_test_torch_told_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_torch_test_torch_told_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/torch/test_torch_walk
tests_unit_walk_torch_test_torch_walk_SOURCES = tests/unit/walk/torch/test_torch_walk.c $(torch_image)
tests_unit_walk_torch_test_torch_walk_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_torch_test_torch_walk_LDADD = $(vt_walk) $(unit_libs)

# A figure of the README, not a test; built with the tests so that it keeps compiling.
check_PROGRAMS += bench/walk
bench_walk_SOURCES = bench/walk.c $(torch_image)
bench_walk_CPPFLAGS = $(unit_cppflags)
bench_walk_LDADD = $(vt_walk) $(VT_LIBS)
