# Models made by hand and a program that prints them, for looking at the report and for report_schema.py.
report_models = tests/unit/report_models.c tests/unit/report_models.h
report_parts = tests/unit/report_parts.c tests/unit/report_parts.h
job_models = $(report_models) tests/unit/job_models.c tests/unit/job_models.h
report_cppflags = $(unit_cppflags) -I$(top_srcdir)/tests/unit
report_libs = $(vt_job) $(unit_libs)

check_PROGRAMS += tests/unit/report_demo
tests_unit_report_demo_SOURCES = tests/unit/report_demo.c $(report_models) $(report_parts)
tests_unit_report_demo_CPPFLAGS = $(report_cppflags)
tests_unit_report_demo_LDADD = $(vt_job)

unit_tests += tests/unit/test_account tests/unit/test_text tests/unit/test_json
unit_scripts += tests/unit/report_schema.py

tests_unit_test_account_SOURCES = tests/unit/test_account.c $(report_models)
tests_unit_test_account_CPPFLAGS = $(report_cppflags)
tests_unit_test_account_LDADD = $(report_libs)

tests_unit_test_text_SOURCES = tests/unit/test_text.c $(report_models) $(report_parts)
tests_unit_test_text_CPPFLAGS = $(report_cppflags)
tests_unit_test_text_LDADD = $(report_libs)

tests_unit_test_json_SOURCES = tests/unit/test_json.c $(report_models)
tests_unit_test_json_CPPFLAGS = $(report_cppflags)
tests_unit_test_json_LDADD = $(report_libs)

unit_tests += tests/unit/test_report_nomem
tests_unit_test_report_nomem_SOURCES = tests/unit/test_report_nomem.c tests/unit/ras_words.h $(job_models) $(report_parts)
tests_unit_test_report_nomem_CPPFLAGS = $(report_cppflags)
tests_unit_test_report_nomem_LDFLAGS = -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc
tests_unit_test_report_nomem_LDADD = $(report_libs) $(VT_LIBS)

unit_tests += tests/unit/test_load tests/unit/test_diff
tests_unit_test_load_SOURCES = tests/unit/test_load.c $(report_models)
tests_unit_test_load_CPPFLAGS = $(report_cppflags)
tests_unit_test_load_LDADD = $(report_libs) $(VT_LIBS)
tests_unit_test_diff_SOURCES = tests/unit/test_diff.c $(report_models)
tests_unit_test_diff_CPPFLAGS = $(report_cppflags)
tests_unit_test_diff_LDADD = $(report_libs)

unit_tests += tests/unit/test_find tests/unit/test_parts
tests_unit_test_find_SOURCES = tests/unit/test_find.c $(report_models)
tests_unit_test_find_CPPFLAGS = $(report_cppflags)
tests_unit_test_find_LDADD = $(report_libs)
tests_unit_test_parts_SOURCES = tests/unit/test_parts.c $(report_models) $(report_parts)
tests_unit_test_parts_CPPFLAGS = $(report_cppflags)
tests_unit_test_parts_LDADD = $(report_libs)

check_PROGRAMS += tests/unit/job_demo
tests_unit_job_demo_SOURCES = tests/unit/job_demo.c $(job_models)
tests_unit_job_demo_CPPFLAGS = $(report_cppflags)
tests_unit_job_demo_LDADD = $(vt_job) $(VT_LIBS)
unit_tests += tests/unit/test_job
unit_scripts += tests/unit/job_schema.py
tests_unit_test_job_SOURCES = tests/unit/test_job.c $(job_models)
tests_unit_test_job_CPPFLAGS = $(report_cppflags)
tests_unit_test_job_LDADD = $(report_libs) $(VT_LIBS)
unit_tests += tests/unit/test_ras
tests_unit_test_ras_SOURCES = tests/unit/test_ras.c tests/unit/ras_words.h $(job_models)
tests_unit_test_ras_CPPFLAGS = $(report_cppflags)
tests_unit_test_ras_LDADD = $(report_libs) $(VT_LIBS)

unit_tests += tests/unit/test_flight
tests_unit_test_flight_SOURCES = tests/unit/test_flight.c
tests_unit_test_flight_CPPFLAGS = $(report_cppflags)
tests_unit_test_flight_LDADD = $(report_libs) $(VT_LIBS)
