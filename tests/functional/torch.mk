# PyTorch's allocator from outside, against its own snapshot.
check_PROGRAMS += tests/functional/torch_walk
tests_functional_torch_walk_SOURCES = \
	tests/functional/torch_compare.c tests/functional/torch_compare.h \
	tests/functional/torch_walk.c
tests_functional_torch_walk_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_functional_torch_walk_LDADD = \
	src/walk/libwalk.a src/target/libtarget.a src/base/libbase.a $(VT_LIBS)
functional_tests += tests/functional/torch_walk.py
# Without a stop: walks of a running allocator against a replay of what it does, and whole reports.
check_PROGRAMS += tests/functional/torch_replay
tests_functional_torch_replay_SOURCES = tests/functional/torch_replay.c
tests_functional_torch_replay_LDADD = \
	src/walk/libwalk.a src/target/libtarget.a src/base/libbase.a $(VT_LIBS)
functional_tests += tests/functional/report_no_stop.py

# The backtraces that PyTorch recorded, against its own snapshot.
functional_tests += tests/functional/torch_history.py

# With and without the table of known releases.
functional_tests += tests/functional/torch_layouts.py
# What the driver's pools and PyTorch itself say.
check_PROGRAMS += tests/functional/ask_python
tests_functional_ask_python_SOURCES = tests/functional/ask_python.c
tests_functional_ask_python_LDADD = \
	src/walk/libwalk.a src/inject/libinject.a src/target/libtarget.a src/base/libbase.a $(VT_LIBS) -lpthread
functional_tests += tests/functional/report_official.py
functional_tests += tests/functional/report_pinned.py
