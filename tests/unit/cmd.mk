unit_tests += tests/unit/test_gdb_state
tests_unit_test_gdb_state_SOURCES = tests/unit/test_gdb_state.c
tests_unit_test_gdb_state_CPPFLAGS = $(unit_cppflags)
tests_unit_test_gdb_state_LDADD = src/gdb/libgdb.a $(vt_collect) $(unit_libs) $(VT_LIBS)

unit_tests += tests/unit/test_gdb_answer
tests_unit_test_gdb_answer_SOURCES = tests/unit/test_gdb_answer.c
tests_unit_test_gdb_answer_CPPFLAGS = $(unit_cppflags)
tests_unit_test_gdb_answer_LDADD = src/gdb/libgdb.a $(unit_libs)

unit_tests += tests/unit/test_triage
tests_unit_test_triage_SOURCES = tests/unit/test_triage.c
tests_unit_test_triage_CPPFLAGS = $(unit_cppflags)
tests_unit_test_triage_LDADD = src/triage/libtriage.a $(vt_job) $(vt_target) $(unit_libs) $(VT_LIBS) -lpthread
