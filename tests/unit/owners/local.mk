# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/owners/test_graphs
tests_unit_owners_test_graphs_SOURCES = tests/unit/owners/test_graphs.c
tests_unit_owners_test_graphs_CPPFLAGS = $(unit_cppflags)
tests_unit_owners_test_graphs_LDADD = $(vt_owners_alone) $(unit_libs)
