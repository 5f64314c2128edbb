# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/model/test_account
tests_unit_model_test_account_SOURCES = tests/unit/model/test_account.c $(report_models)
tests_unit_model_test_account_CPPFLAGS = $(unit_cppflags)
tests_unit_model_test_account_LDADD = $(vt_model) $(unit_libs)

unit_tests += tests/unit/model/test_find
tests_unit_model_test_find_SOURCES = tests/unit/model/test_find.c $(report_models)
tests_unit_model_test_find_CPPFLAGS = $(unit_cppflags)
tests_unit_model_test_find_LDADD = $(vt_model) $(unit_libs)

unit_tests += tests/unit/model/test_flight
tests_unit_model_test_flight_SOURCES = tests/unit/model/test_flight.c
tests_unit_model_test_flight_CPPFLAGS = $(unit_cppflags)
tests_unit_model_test_flight_LDADD = $(vt_model) $(unit_libs)

unit_tests += tests/unit/model/test_ledger
tests_unit_model_test_ledger_SOURCES = tests/unit/model/test_ledger.c $(report_models)
tests_unit_model_test_ledger_CPPFLAGS = $(unit_cppflags)
tests_unit_model_test_ledger_LDADD = $(vt_model) $(unit_libs)

unit_tests += tests/unit/model/test_owners
tests_unit_model_test_owners_SOURCES = tests/unit/model/test_owners.c
tests_unit_model_test_owners_CPPFLAGS = $(unit_cppflags)
tests_unit_model_test_owners_LDADD = $(vt_model) $(unit_libs)

unit_tests += tests/unit/model/test_jax
tests_unit_model_test_jax_SOURCES = tests/unit/model/test_jax.c
tests_unit_model_test_jax_CPPFLAGS = $(unit_cppflags)
tests_unit_model_test_jax_LDADD = $(vt_model) $(unit_libs)

unit_tests += tests/unit/model/test_again
tests_unit_model_test_again_SOURCES = tests/unit/model/test_again.c
tests_unit_model_test_again_CPPFLAGS = $(unit_cppflags)
tests_unit_model_test_again_LDADD = $(vt_model) $(unit_libs)

unit_tests += tests/unit/model/test_streams
tests_unit_model_test_streams_SOURCES = tests/unit/model/test_streams.c
tests_unit_model_test_streams_CPPFLAGS = $(unit_cppflags)
tests_unit_model_test_streams_LDADD = $(vt_model) $(unit_libs)
