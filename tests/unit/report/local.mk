# SPDX-License-Identifier: Apache-2.0
# Models made by hand and a program that prints them, for looking at the report and for report_schema.py.
report_models = tests/unit/report/report_models.c tests/unit/report/report_models.h
report_parts = tests/unit/report/report_parts.c tests/unit/report/report_parts.h

check_PROGRAMS += tests/unit/report/report_demo
tests_unit_report_report_demo_SOURCES = tests/unit/report/report_demo.c $(report_models) $(report_parts)
tests_unit_report_report_demo_CPPFLAGS = $(unit_cppflags)
tests_unit_report_report_demo_LDADD = $(vt_report) $(VT_LIBS)
unit_scripts += tests/unit/report/report_schema.py

unit_tests += tests/unit/report/test_report_nomem
tests_unit_report_test_report_nomem_SOURCES = tests/unit/report/test_report_nomem.c tests/unit/job/ras/ras_words.h $(job_models) $(report_parts)
tests_unit_report_test_report_nomem_CPPFLAGS = $(unit_cppflags)
tests_unit_report_test_report_nomem_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
tests_unit_report_test_report_nomem_LDADD = $(vt_job) $(unit_libs)
