# Unit tests: cmocka programs, each linked to the layers that it tests, and scripts that look at the sources.
unit_tests =
unit_scripts = tests/unit/layers.sh
unit_cppflags = $(AM_CPPFLAGS) $(CMOCKA_CFLAGS)
unit_libs = src/base/libbase.a $(CMOCKA_LIBS)
EXTRA_DIST += $(unit_scripts) tests/with-timeout.sh
if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
include tests/unit/base.mk
include tests/unit/cmd.mk
include tests/unit/target.mk
include tests/unit/torch.mk
include tests/unit/python.mk
include tests/unit/native.mk
include tests/unit/report.mk
include tests/unit/inject.mk
include tests/unit/recorder.mk
endif
