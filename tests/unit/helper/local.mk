# SPDX-License-Identifier: Apache-2.0
# The helper's operations, compiled like any program (and so with the sanitizers), in a process of their own.
unit_tests += tests/unit/helper/test_helper_ops
tests_unit_helper_test_helper_ops_SOURCES = tests/unit/helper/test_helper_ops.c $(torch_image) helper/torch.c helper/cuda.c helper/map.c helper/why.c
tests_unit_helper_test_helper_ops_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/helper
tests_unit_helper_test_helper_ops_LDADD = $(vt_walk) $(unit_libs)
tests_unit_helper_test_helper_ops_LDFLAGS = -pthread

unit_tests += tests/unit/helper/test_ranges
tests_unit_helper_test_ranges_SOURCES = tests/unit/helper/test_ranges.c helper/cuda.c helper/ranges.c helper/ranges_keep.c helper/ranges_walk.c helper/ranges_what.c helper/why.c
tests_unit_helper_test_ranges_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/helper
tests_unit_helper_test_ranges_LDADD = $(unit_libs)

# The recorder's own sources, compiled like any program (and so with the sanitizers).
recorder_core = helper/recorder/state.c helper/recorder/lanes.c helper/recorder/memo.c helper/recorder/memory.c helper/recorder/record.c \
	helper/recorder/blocks.c helper/recorder/launches.c helper/recorder/launch_names.c helper/recorder/oom.c helper/recorder/stacks.c tests/unit/helper/recorder_fakes.c tests/unit/helper/recorder_fakes.h
recorder_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/helper -I$(top_srcdir)/tests

unit_tests += tests/unit/helper/test_recorder
tests_unit_helper_test_recorder_SOURCES = tests/unit/helper/test_recorder.c $(recorder_core)
tests_unit_helper_test_recorder_CPPFLAGS = $(recorder_cppflags) $(CMOCKA_CFLAGS)
tests_unit_helper_test_recorder_LDADD = $(CMOCKA_LIBS)
tests_unit_helper_test_recorder_LDFLAGS = -pthread

# Likewise, its times, as the tool reads them.
unit_tests += tests/unit/helper/test_recorder_times
tests_unit_helper_test_recorder_times_SOURCES = tests/unit/helper/test_recorder_times.c $(recorder_core)
tests_unit_helper_test_recorder_times_CPPFLAGS = $(unit_cppflags) -I$(top_srcdir)/helper
tests_unit_helper_test_recorder_times_LDADD = $(vt_walk) $(unit_libs)
tests_unit_helper_test_recorder_times_LDFLAGS = -pthread

# Likewise, launches.
unit_tests += tests/unit/helper/test_launches
tests_unit_helper_test_launches_SOURCES = tests/unit/helper/test_launches.c $(recorder_core)
tests_unit_helper_test_launches_CPPFLAGS = $(recorder_cppflags) $(CMOCKA_CFLAGS)
tests_unit_helper_test_launches_LDADD = $(CMOCKA_LIBS)
tests_unit_helper_test_launches_LDFLAGS = -pthread

# Likewise, words of libraries and the entries.
unit_tests += tests/unit/helper/test_recorder_got
tests_unit_helper_test_recorder_got_SOURCES = tests/unit/helper/test_recorder_got.c helper/recorder/got.c helper/recorder/arch/$(VT_ARCH)/driver_entry.S
tests_unit_helper_test_recorder_got_CPPFLAGS = $(recorder_cppflags) $(CMOCKA_CFLAGS)
tests_unit_helper_test_recorder_got_LDADD = $(CMOCKA_LIBS)

# Likewise, recipes that go.
unit_tests += tests/unit/helper/test_recorder_native
tests_unit_helper_test_recorder_native_SOURCES = tests/unit/helper/test_recorder_native.c helper/recorder/native.c
tests_unit_helper_test_recorder_native_CPPFLAGS = $(recorder_cppflags) $(CMOCKA_CFLAGS)
tests_unit_helper_test_recorder_native_LDADD = $(CMOCKA_LIBS)

EXTRA_DIST += tests/unit/helper/recorder_tsan.sh
# Likewise, the driver's allocations.
recorder_driver_core = helper/recorder/driver.c helper/recorder/driver_calls.c helper/recorder/driver_table.c \
	helper/recorder/memory.c
unit_tests += tests/unit/helper/test_recorder_driver
tests_unit_helper_test_recorder_driver_SOURCES = tests/unit/helper/test_recorder_driver.c $(recorder_driver_core)
tests_unit_helper_test_recorder_driver_CPPFLAGS = $(recorder_cppflags) $(VT_CUDA_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_helper_test_recorder_driver_LDADD = $(CMOCKA_LIBS)
tests_unit_helper_test_recorder_driver_LDFLAGS = -pthread

# Once more with ThreadSanitizer, without the other sanitizers, which it cannot be combined with.
if HAVE_TSAN
check_PROGRAMS += tests/unit/helper/test_recorder_tsan
tests_unit_helper_test_recorder_tsan_SOURCES = tests/unit/helper/test_recorder.c $(recorder_core)
tests_unit_helper_test_recorder_tsan_CPPFLAGS = $(recorder_cppflags) $(CMOCKA_CFLAGS)
tests_unit_helper_test_recorder_tsan_CFLAGS = -std=gnu11 -fPIE $(VT_WARNINGS) -fsanitize=thread
tests_unit_helper_test_recorder_tsan_LDADD = $(CMOCKA_LIBS)
tests_unit_helper_test_recorder_tsan_LDFLAGS = -pthread -fsanitize=thread
check_PROGRAMS += tests/unit/helper/test_recorder_driver_tsan
tests_unit_helper_test_recorder_driver_tsan_SOURCES = tests/unit/helper/test_recorder_driver.c $(recorder_driver_core)
tests_unit_helper_test_recorder_driver_tsan_CPPFLAGS = $(recorder_cppflags) $(VT_CUDA_CPPFLAGS) $(CMOCKA_CFLAGS)
tests_unit_helper_test_recorder_driver_tsan_CFLAGS = -std=gnu11 -fPIE $(VT_WARNINGS) -fsanitize=thread
tests_unit_helper_test_recorder_driver_tsan_LDADD = $(CMOCKA_LIBS)
tests_unit_helper_test_recorder_driver_tsan_LDFLAGS = -pthread -fsanitize=thread
check_PROGRAMS += tests/unit/helper/test_launches_tsan
tests_unit_helper_test_launches_tsan_SOURCES = tests/unit/helper/test_launches.c $(recorder_core)
tests_unit_helper_test_launches_tsan_CPPFLAGS = $(recorder_cppflags) $(CMOCKA_CFLAGS)
tests_unit_helper_test_launches_tsan_CFLAGS = -std=gnu11 -fPIE $(VT_WARNINGS) -fsanitize=thread
tests_unit_helper_test_launches_tsan_LDADD = $(CMOCKA_LIBS)
tests_unit_helper_test_launches_tsan_LDFLAGS = -pthread -fsanitize=thread
unit_scripts += tests/unit/helper/recorder_tsan.sh
endif

# Figures, not a test; built with the tests so that it keeps compiling.
check_PROGRAMS += bench/recorder_parts
bench_recorder_parts_SOURCES = bench/recorder_parts.c $(recorder_core)
bench_recorder_parts_CPPFLAGS = $(recorder_cppflags)
bench_recorder_parts_LDFLAGS = -pthread
