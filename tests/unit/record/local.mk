# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/record/test_oom_file
tests_unit_record_test_oom_file_SOURCES = tests/unit/record/test_oom_file.c
tests_unit_record_test_oom_file_CPPFLAGS = $(unit_cppflags)
tests_unit_record_test_oom_file_LDADD = $(vt_all_rooms) $(unit_libs)
