# Unit tests: cmocka programs, each linked to the layers that it tests.
if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
TESTS += $(unit_tests)
endif
unit_tests =
unit_cppflags = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
unit_libs = src/base/libbase.a $(CMOCKA_LIBS)
include tests/unit/base.mk
include tests/unit/target.mk
include tests/unit/torch.mk
include tests/unit/python.mk
include tests/unit/native.mk
include tests/unit/report.mk
