# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/walk/native/test_aarch64
tests_unit_walk_native_test_aarch64_SOURCES = tests/unit/walk/native/test_aarch64.c
tests_unit_walk_native_test_aarch64_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_native_test_aarch64_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/native/test_cfi
tests_unit_walk_native_test_cfi_SOURCES = tests/unit/walk/native/test_cfi.c
tests_unit_walk_native_test_cfi_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_native_test_cfi_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/native/test_demangle
tests_unit_walk_native_test_demangle_SOURCES = tests/unit/walk/native/test_demangle.c
tests_unit_walk_native_test_demangle_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_native_test_demangle_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/native/test_lines_memo
tests_unit_walk_native_test_lines_memo_SOURCES = tests/unit/walk/native/test_lines_memo.c
tests_unit_walk_native_test_lines_memo_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_native_test_lines_memo_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/native/test_native
tests_unit_walk_native_test_native_SOURCES = tests/unit/walk/native/test_native.c
tests_unit_walk_native_test_native_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_native_test_native_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/walk/native/test_variables
tests_unit_walk_native_test_variables_SOURCES = tests/unit/walk/native/test_variables.c
tests_unit_walk_native_test_variables_CPPFLAGS = $(unit_cppflags)
tests_unit_walk_native_test_variables_LDADD = $(vt_walk) $(unit_libs)
