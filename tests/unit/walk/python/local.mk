# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/walk/python/test_python_line
tests_unit_walk_python_test_python_line_SOURCES = tests/unit/walk/python/test_python_line.c
tests_unit_walk_python_test_python_line_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_python_test_python_line_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/python/test_python_walk
tests_unit_walk_python_test_python_walk_SOURCES = tests/unit/walk/python/test_python_walk.c tests/unit/walk/python/python_image.c tests/unit/walk/python/python_image.h
tests_unit_walk_python_test_python_walk_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_python_test_python_walk_LDADD = $(vt_walk) $(unit_libs)
