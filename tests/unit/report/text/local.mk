# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/report/text/test_parts
tests_unit_report_text_test_parts_SOURCES = tests/unit/report/text/test_parts.c $(report_models) $(report_parts)
tests_unit_report_text_test_parts_CPPFLAGS = $(unit_cppflags)
tests_unit_report_text_test_parts_LDADD = $(vt_report) $(unit_libs)

unit_tests += tests/unit/report/text/test_text
tests_unit_report_text_test_text_SOURCES = tests/unit/report/text/test_text.c $(report_models) $(report_parts)
tests_unit_report_text_test_text_CPPFLAGS = $(unit_cppflags)
tests_unit_report_text_test_text_LDADD = $(vt_report) $(unit_libs)

unit_tests += tests/unit/report/text/test_bar
tests_unit_report_text_test_bar_SOURCES = tests/unit/report/text/test_bar.c
tests_unit_report_text_test_bar_CPPFLAGS = $(unit_cppflags)
tests_unit_report_text_test_bar_LDADD = $(vt_report) $(unit_libs)

unit_tests += tests/unit/report/text/test_cells
tests_unit_report_text_test_cells_SOURCES = tests/unit/report/text/test_cells.c
tests_unit_report_text_test_cells_CPPFLAGS = $(unit_cppflags)
tests_unit_report_text_test_cells_LDADD = $(vt_report) $(unit_libs)
