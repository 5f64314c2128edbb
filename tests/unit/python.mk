unit_tests += tests/unit/test_python_line
tests_unit_test_python_line_SOURCES = tests/unit/test_python_line.c
tests_unit_test_python_line_CPPFLAGS = $(unit_cppflags)
tests_unit_test_python_line_LDADD = $(vt_walk) $(unit_libs)

unit_tests += tests/unit/test_python_walk
tests_unit_test_python_walk_SOURCES = tests/unit/test_python_walk.c tests/unit/python_image.c tests/unit/python_image.h
tests_unit_test_python_walk_CPPFLAGS = $(unit_cppflags)
tests_unit_test_python_walk_LDADD = $(vt_walk) $(unit_libs) $(VT_LIBS)
