torch_image = tests/unit/torch_image.c tests/unit/torch_image.h
torch_ldadd = $(vt_walk) $(unit_libs) $(VT_LIBS)

unit_tests += tests/unit/test_torch_walk
tests_unit_test_torch_walk_SOURCES = tests/unit/test_torch_walk.c $(torch_image)
tests_unit_test_torch_walk_CPPFLAGS = $(unit_cppflags)
tests_unit_test_torch_walk_LDADD = $(torch_ldadd)

unit_tests += tests/unit/test_torch_find
tests_unit_test_torch_find_SOURCES = tests/unit/test_torch_find.c $(torch_image)
tests_unit_test_torch_find_CPPFLAGS = $(unit_cppflags)
tests_unit_test_torch_find_LDADD = $(vt_inject) $(torch_ldadd)

unit_tests += tests/unit/test_torch_pinned
tests_unit_test_torch_pinned_SOURCES = tests/unit/test_torch_pinned.c tests/unit/pinned_image.h
tests_unit_test_torch_pinned_CPPFLAGS = $(unit_cppflags)
tests_unit_test_torch_pinned_LDADD = $(torch_ldadd)

unit_tests += tests/unit/test_torch_told
tests_unit_test_torch_told_SOURCES = tests/unit/test_torch_told.c $(torch_image)
tests_unit_test_torch_told_CPPFLAGS = $(unit_cppflags)
tests_unit_test_torch_told_LDADD = $(torch_ldadd)

# The helper's operations, compiled like any program (and so with the sanitizers), in a process of their own.
unit_tests += tests/unit/test_helper_ops
tests_unit_test_helper_ops_SOURCES = tests/unit/test_helper_ops.c $(torch_image) helper/torch.c helper/cuda.c helper/why.c
tests_unit_test_helper_ops_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/helper $(VT_CUDA_CPPFLAGS)
tests_unit_test_helper_ops_LDADD = $(torch_ldadd)
tests_unit_test_helper_ops_LDFLAGS = -pthread

# A figure of the README, not a test; built with the tests so that it keeps compiling.
check_PROGRAMS += bench/walk
bench_walk_SOURCES = bench/walk.c $(torch_image)
bench_walk_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests/unit
bench_walk_LDADD = $(vt_walk) $(VT_LIBS)

unit_tests += tests/unit/test_torch_history
tests_unit_test_torch_history_SOURCES = tests/unit/test_torch_history.c tests/unit/python_image.c tests/unit/python_image.h
tests_unit_test_torch_history_CPPFLAGS = $(unit_cppflags)
tests_unit_test_torch_history_LDADD = $(torch_ldadd)

unit_tests += tests/unit/test_recorder_read
tests_unit_test_recorder_read_SOURCES = tests/unit/test_recorder_read.c tests/unit/recorder_image.h tests/unit/python_image.c tests/unit/python_image.h
tests_unit_test_recorder_read_CPPFLAGS = $(unit_cppflags)
tests_unit_test_recorder_read_LDADD = $(torch_ldadd)
