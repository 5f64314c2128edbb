# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/target/arch/test_arch
tests_unit_target_arch_test_arch_SOURCES = tests/unit/target/arch/test_arch.c
tests_unit_target_arch_test_arch_CPPFLAGS = $(unit_cppflags)
tests_unit_target_arch_test_arch_LDADD = $(vt_target) $(unit_libs)
