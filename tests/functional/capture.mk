# The recorder's capture of frames, in every CPython that is here, against its own word and backtrace().
check_PROGRAMS += tests/functional/recorder_layout
tests_functional_recorder_layout_SOURCES = tests/functional/recorder_layout.c
tests_functional_recorder_layout_LDADD = \
	$(vt_walk) $(VT_LIBS)
functional_tests += tests/functional/recorder_capture.py
tests/functional/recorder_capture.so: tests/functional/recorder_capture.c $(recorder_objects) Makefile
	@$(MKDIR_P) tests/functional
	$(AM_V_CCLD)$(CC) $(recorder_cflags) $(recorder_ldflags) -o $@ $(recorder_objects) \
		$(top_srcdir)/tests/functional/recorder_capture.c
check_DATA = tests/functional/recorder_capture.so
CLEANFILES += tests/functional/recorder_capture.so
EXTRA_DIST += tests/functional/recorder_capture.c tests/functional/recorder_stacks.cc tests/targets/pyprog_recorder.py
