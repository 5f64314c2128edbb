# Native stacks, against eu-stack; merged stacks and waits, against programs that stand still in known places.
check_PROGRAMS += tests/functional/native_stacks tests/functional/native_stacks_target
tests_functional_native_stacks_SOURCES = tests/functional/native_stacks.c
tests_functional_native_stacks_LDADD = \
	$(vt_walk) $(VT_LIBS)
tests_functional_native_stacks_target_SOURCES = tests/functional/native_stacks_target.c
tests_functional_native_stacks_target_CFLAGS = $(VT_WARNINGS) -Wno-infinite-recursion -std=gnu11 -O2 -fomit-frame-pointer
tests_functional_native_stacks_target_LDFLAGS = -pthread
functional_tests += tests/functional/native_stacks.py tests/functional/native_lines.py
EXTRA_DIST += tests/functional/native_stacks_cxx.cc
