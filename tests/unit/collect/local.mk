# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/collect/test_limits
tests_unit_collect_test_limits_SOURCES = tests/unit/collect/test_limits.c
tests_unit_collect_test_limits_CPPFLAGS = $(unit_cppflags)
tests_unit_collect_test_limits_LDADD = $(vt_collect) $(unit_libs)
