# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/usage/test_reading
tests_unit_usage_test_reading_SOURCES = tests/unit/usage/test_reading.c
tests_unit_usage_test_reading_CPPFLAGS = $(unit_cppflags)
tests_unit_usage_test_reading_LDADD = $(vt_usage) $(unit_libs)
