# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/advise/test_advise
tests_unit_advise_test_advise_SOURCES = tests/unit/advise/test_advise.c $(report_models)
tests_unit_advise_test_advise_CPPFLAGS = $(unit_cppflags)
tests_unit_advise_test_advise_LDADD = src/advise/libadvise.a $(vt_report) $(unit_libs)

unit_tests += tests/unit/advise/test_advise_owners
tests_unit_advise_test_advise_owners_SOURCES = tests/unit/advise/test_advise_owners.c $(report_models)
tests_unit_advise_test_advise_owners_CPPFLAGS = $(unit_cppflags)
tests_unit_advise_test_advise_owners_LDADD = src/advise/libadvise.a $(vt_report) $(unit_libs)
