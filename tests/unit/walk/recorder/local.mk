# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/walk/recorder/test_recorder_read
tests_unit_walk_recorder_test_recorder_read_SOURCES = tests/unit/walk/recorder/test_recorder_read.c tests/unit/walk/recorder/recorder_image.h tests/unit/walk/python/python_image.c tests/unit/walk/python/python_image.h
tests_unit_walk_recorder_test_recorder_read_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_recorder_test_recorder_read_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/recorder/test_launches_read
tests_unit_walk_recorder_test_launches_read_SOURCES = tests/unit/walk/recorder/test_launches_read.c tests/unit/walk/recorder/recorder_image.h tests/unit/walk/python/python_image.c tests/unit/walk/python/python_image.h
tests_unit_walk_recorder_test_launches_read_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_recorder_test_launches_read_LDADD = $(vt_walk) $(unit_libs)
