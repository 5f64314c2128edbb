# The sources of src/cmd are in no library: those that are tested are compiled again.
cmd_gdb_state = src/gdb/state.c src/gdb/state.h src/collect/held.c src/collect/held.h

unit_tests += tests/unit/test_gdb_state
tests_unit_test_gdb_state_SOURCES = tests/unit/test_gdb_state.c $(cmd_gdb_state)
tests_unit_test_gdb_state_CPPFLAGS = $(unit_cppflags)
tests_unit_test_gdb_state_LDADD = $(unit_libs)

unit_tests += tests/unit/test_gdb_answer
tests_unit_test_gdb_answer_SOURCES = tests/unit/test_gdb_answer.c src/gdb/answer.c src/gdb/answer.h
tests_unit_test_gdb_answer_CPPFLAGS = $(unit_cppflags)
tests_unit_test_gdb_answer_LDADD = $(unit_libs)
unit_tests += tests/unit/test_triage
tests_unit_test_triage_SOURCES = tests/unit/test_triage.c src/triage/dir.c src/triage/find.c src/triage/gate.c \
	src/triage/label.c src/triage/moved.c
tests_unit_test_triage_CPPFLAGS = $(unit_cppflags)
tests_unit_test_triage_LDADD = src/report/libreport.a src/target/libtarget.a $(unit_libs) -lpthread
