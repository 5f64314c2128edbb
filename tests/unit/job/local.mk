# SPDX-License-Identifier: Apache-2.0
job_models = $(report_models) tests/unit/job/job_models.c tests/unit/job/job_models.h

check_PROGRAMS += tests/unit/job/job_demo
tests_unit_job_job_demo_SOURCES = tests/unit/job/job_demo.c $(job_models)
tests_unit_job_job_demo_CPPFLAGS = $(unit_cppflags)
tests_unit_job_job_demo_LDADD = $(vt_job) $(VT_LIBS)
unit_scripts += tests/unit/job/job_profile.py tests/unit/job/job_schema.py tests/unit/job/job_prometheus.py

unit_tests += tests/unit/job/test_job
tests_unit_job_test_job_SOURCES = tests/unit/job/test_job.c $(job_models)
tests_unit_job_test_job_CPPFLAGS = $(unit_cppflags)
tests_unit_job_test_job_LDADD = $(vt_job) $(unit_libs)

unit_tests += tests/unit/job/test_categories
tests_unit_job_test_categories_SOURCES = tests/unit/job/test_categories.c $(job_models)
tests_unit_job_test_categories_CPPFLAGS = $(unit_cppflags)
tests_unit_job_test_categories_LDADD = $(vt_job) $(unit_libs)

# All decisions about the models, with today's words and with nonsense in their place (words.py).
decisions_sources = tests/unit/job/decisions.c $(job_models)
check_PROGRAMS += tests/unit/job/decisions tests/unit/job/decisions_nonsense
tests_unit_job_decisions_SOURCES = $(decisions_sources)
tests_unit_job_decisions_CPPFLAGS = $(unit_cppflags)
tests_unit_job_decisions_LDADD = $(vt_job) $(VT_LIBS)
tests_unit_job_decisions_nonsense_SOURCES = $(decisions_sources) tests/unit/job/nonsense_words.c
tests_unit_job_decisions_nonsense_CPPFLAGS = $(unit_cppflags)
tests_unit_job_decisions_nonsense_LDADD = $(vt_job) $(VT_LIBS)
unit_scripts += tests/unit/job/words.py

unit_tests += tests/unit/job/test_chains
tests_unit_job_test_chains_SOURCES = tests/unit/job/test_chains.c $(job_models)
tests_unit_job_test_chains_CPPFLAGS = $(unit_cppflags)
tests_unit_job_test_chains_LDADD = $(vt_job) $(unit_libs)

unit_tests += tests/unit/job/test_text
tests_unit_job_test_text_SOURCES = tests/unit/job/test_text.c $(job_models)
tests_unit_job_test_text_CPPFLAGS = $(unit_cppflags)
tests_unit_job_test_text_LDADD = $(vt_job) $(unit_libs)
