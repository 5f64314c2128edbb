# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/triage/test_triage
tests_unit_triage_test_triage_SOURCES = tests/unit/triage/test_triage.c
tests_unit_triage_test_triage_CPPFLAGS = $(unit_cppflags)
tests_unit_triage_test_triage_LDADD = src/triage/libtriage.a $(vt_job) $(vt_collect) $(unit_libs)
