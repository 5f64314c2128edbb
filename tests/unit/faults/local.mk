# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/faults/test_xid
tests_unit_faults_test_xid_SOURCES = tests/unit/faults/test_xid.c
tests_unit_faults_test_xid_CPPFLAGS = $(unit_cppflags)
tests_unit_faults_test_xid_LDADD = $(vt_faults) $(unit_libs)
