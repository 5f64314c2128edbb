# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/report/profile/test_profile
tests_unit_report_profile_test_profile_SOURCES = tests/unit/report/profile/test_profile.c $(report_models)
tests_unit_report_profile_test_profile_CPPFLAGS = $(unit_cppflags)
tests_unit_report_profile_test_profile_LDADD = $(vt_report) $(unit_libs)
