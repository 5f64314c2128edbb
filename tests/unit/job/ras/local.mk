# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/job/ras/test_ras
tests_unit_job_ras_test_ras_SOURCES = tests/unit/job/ras/test_ras.c tests/unit/job/ras/ras_words.h $(job_models)
tests_unit_job_ras_test_ras_CPPFLAGS = $(unit_cppflags)
tests_unit_job_ras_test_ras_LDADD = $(vt_job) $(unit_libs)
