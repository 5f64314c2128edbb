# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/inject/test_inject
tests_unit_inject_test_inject_SOURCES = tests/unit/inject/test_inject.c
tests_unit_inject_test_inject_CPPFLAGS = $(unit_cppflags)
tests_unit_inject_test_inject_LDADD = $(vt_inject) $(unit_libs)

unit_tests += tests/unit/inject/test_seccomp
tests_unit_inject_test_seccomp_SOURCES = tests/unit/inject/test_seccomp.c
tests_unit_inject_test_seccomp_CPPFLAGS = $(unit_cppflags)
tests_unit_inject_test_seccomp_LDADD = $(vt_inject) $(unit_libs)
