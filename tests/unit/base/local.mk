# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/base/test_base
tests_unit_base_test_base_SOURCES = tests/unit/base/test_base.c
tests_unit_base_test_base_CPPFLAGS = $(unit_cppflags)
tests_unit_base_test_base_LDADD = $(vt_base) $(unit_libs)

unit_tests += tests/unit/base/test_sandbox
tests_unit_base_test_sandbox_SOURCES = tests/unit/base/test_sandbox.c
tests_unit_base_test_sandbox_CPPFLAGS = $(unit_cppflags)
tests_unit_base_test_sandbox_LDADD = $(vt_walk) $(unit_libs)
