target_test_libs = src/target/libtarget.a $(unit_libs) $(VT_LIBS) -lpthread

unit_tests += tests/unit/test_session
tests_unit_test_session_SOURCES = tests/unit/test_session.c
tests_unit_test_session_CPPFLAGS = $(unit_cppflags)
tests_unit_test_session_LDADD = $(target_test_libs)
