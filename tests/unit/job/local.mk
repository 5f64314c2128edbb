# SPDX-License-Identifier: Apache-2.0
job_models = $(report_models) tests/unit/job/job_models.c tests/unit/job/job_models.h

check_PROGRAMS += tests/unit/job/job_demo
tests_unit_job_job_demo_SOURCES = tests/unit/job/job_demo.c $(job_models)
tests_unit_job_job_demo_CPPFLAGS = $(unit_cppflags)
tests_unit_job_job_demo_LDADD = $(vt_job) $(VT_LIBS)
unit_scripts += tests/unit/job/job_schema.py

unit_tests += tests/unit/job/test_job
tests_unit_job_test_job_SOURCES = tests/unit/job/test_job.c $(job_models)
tests_unit_job_test_job_CPPFLAGS = $(unit_cppflags)
tests_unit_job_test_job_LDADD = $(vt_job) $(unit_libs)
