# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/explain/test_merge
tests_unit_explain_test_merge_SOURCES = tests/unit/explain/test_merge.c
tests_unit_explain_test_merge_CPPFLAGS = $(unit_cppflags)
tests_unit_explain_test_merge_LDADD = $(vt_explain) $(unit_libs)

unit_tests += tests/unit/explain/test_wait
tests_unit_explain_test_wait_SOURCES = tests/unit/explain/test_wait.c
tests_unit_explain_test_wait_CPPFLAGS = $(unit_cppflags)
tests_unit_explain_test_wait_LDADD = $(vt_explain) $(unit_libs)
