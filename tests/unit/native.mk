native_test_libs = $(vt_walk) $(unit_libs) $(VT_LIBS) -lpthread

unit_tests += tests/unit/test_lines_memo
tests_unit_test_lines_memo_SOURCES = tests/unit/test_lines_memo.c
tests_unit_test_lines_memo_CPPFLAGS = $(unit_cppflags)
tests_unit_test_lines_memo_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/test_demangle
tests_unit_test_demangle_SOURCES = tests/unit/test_demangle.c
tests_unit_test_demangle_CPPFLAGS = $(unit_cppflags)
tests_unit_test_demangle_LDADD = $(native_test_libs)

unit_tests += tests/unit/test_cfi
tests_unit_test_cfi_SOURCES = tests/unit/test_cfi.c
tests_unit_test_cfi_CPPFLAGS = $(unit_cppflags)
tests_unit_test_cfi_LDADD = $(native_test_libs)

unit_tests += tests/unit/test_native
tests_unit_test_native_SOURCES = tests/unit/test_native.c
tests_unit_test_native_CPPFLAGS = $(unit_cppflags)
tests_unit_test_native_LDADD = $(native_test_libs)

unit_tests += tests/unit/test_merge
tests_unit_test_merge_SOURCES = tests/unit/test_merge.c
tests_unit_test_merge_CPPFLAGS = $(unit_cppflags)
tests_unit_test_merge_LDADD = $(vt_explain) $(unit_libs) $(VT_LIBS) -lpthread

unit_tests += tests/unit/test_wait
tests_unit_test_wait_SOURCES = tests/unit/test_wait.c
tests_unit_test_wait_CPPFLAGS = $(unit_cppflags)
tests_unit_test_wait_LDADD = $(vt_explain) $(unit_libs) $(VT_LIBS) -lpthread

unit_tests += tests/unit/test_sandbox
tests_unit_test_sandbox_SOURCES = tests/unit/test_sandbox.c
tests_unit_test_sandbox_CPPFLAGS = $(unit_cppflags)
tests_unit_test_sandbox_LDADD = $(native_test_libs)
