torch_image = tests/unit/torch_image.c tests/unit/torch_image.h

unit_tests += tests/unit/test_torch_walk
tests_unit_test_torch_walk_SOURCES = tests/unit/test_torch_walk.c $(torch_image)
tests_unit_test_torch_walk_CPPFLAGS = $(unit_cppflags)
tests_unit_test_torch_walk_LDADD = src/walk/libwalk.a src/target/libtarget.a $(unit_libs) $(VT_LIBS)
