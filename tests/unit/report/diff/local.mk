# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/report/diff/test_diff
tests_unit_report_diff_test_diff_SOURCES = tests/unit/report/diff/test_diff.c $(report_models)
tests_unit_report_diff_test_diff_CPPFLAGS = $(unit_cppflags)
tests_unit_report_diff_test_diff_LDADD = $(vt_report) $(unit_libs)

unit_tests += tests/unit/report/diff/test_course
tests_unit_report_diff_test_course_SOURCES = tests/unit/report/diff/test_course.c
tests_unit_report_diff_test_course_CPPFLAGS = $(unit_cppflags)
tests_unit_report_diff_test_course_LDADD = $(vt_report) $(unit_libs)
