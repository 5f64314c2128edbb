# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/gdb/test_gdb_answer
tests_unit_gdb_test_gdb_answer_SOURCES = tests/unit/gdb/test_gdb_answer.c
tests_unit_gdb_test_gdb_answer_CPPFLAGS = $(unit_cppflags)
tests_unit_gdb_test_gdb_answer_LDADD = src/gdb/libgdb.a $(vt_collect) $(unit_libs)

unit_tests += tests/unit/gdb/test_gdb_state
tests_unit_gdb_test_gdb_state_SOURCES = tests/unit/gdb/test_gdb_state.c
tests_unit_gdb_test_gdb_state_CPPFLAGS = $(unit_cppflags)
tests_unit_gdb_test_gdb_state_LDADD = src/gdb/libgdb.a $(vt_collect) $(unit_libs)
