# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/report/json/test_json
tests_unit_report_json_test_json_SOURCES = tests/unit/report/json/test_json.c $(report_models)
tests_unit_report_json_test_json_CPPFLAGS = $(unit_cppflags)
tests_unit_report_json_test_json_LDADD = $(vt_report) $(unit_libs)

unit_tests += tests/unit/report/json/test_load
tests_unit_report_json_test_load_SOURCES = tests/unit/report/json/test_load.c $(report_models)
tests_unit_report_json_test_load_CPPFLAGS = $(unit_cppflags)
tests_unit_report_json_test_load_LDADD = $(vt_report) $(unit_libs)
