inject_test_unit_libs = $(vt_inject) $(unit_libs) -lpthread

unit_tests += tests/unit/test_seccomp
tests_unit_test_seccomp_SOURCES = tests/unit/test_seccomp.c
tests_unit_test_seccomp_CPPFLAGS = $(unit_cppflags)
tests_unit_test_seccomp_LDADD = $(inject_test_unit_libs)

unit_tests += tests/unit/test_inject
tests_unit_test_inject_SOURCES = tests/unit/test_inject.c
tests_unit_test_inject_CPPFLAGS = $(unit_cppflags)
tests_unit_test_inject_LDADD = $(inject_test_unit_libs)
