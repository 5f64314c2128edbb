# The recorder: its hooks in PyTorch's allocator.
check_PROGRAMS += tests/functional/recorder_switch
tests_functional_recorder_switch_SOURCES = tests/functional/recorder_switch.c
tests_functional_recorder_switch_LDADD = \
	$(vt_inject) $(vt_walk) $(VT_LIBS)
functional_tests += \
	tests/functional/recorder_hook.py \
	tests/functional/recorder_launches.py \
	tests/functional/stream_deadlocks.py
