# The recorder: its hooks in PyTorch's allocator.
check_PROGRAMS += tests/functional/recorder_switch
tests_functional_recorder_switch_SOURCES = tests/functional/recorder_switch.c
tests_functional_recorder_switch_LDADD = \
	src/walk/libwalk.a src/inject/libinject.a src/target/libtarget.a src/base/libbase.a $(VT_LIBS)
functional_tests += tests/functional/recorder_hook.py
