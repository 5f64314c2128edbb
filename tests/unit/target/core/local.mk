# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/target/core/test_core
tests_unit_target_core_test_core_SOURCES = tests/unit/target/core/test_core.c tests/unit/target/core/core_image.c tests/unit/target/core/core_image.h
tests_unit_target_core_test_core_CPPFLAGS = $(unit_cppflags)
tests_unit_target_core_test_core_LDADD = $(vt_target) $(unit_libs)
