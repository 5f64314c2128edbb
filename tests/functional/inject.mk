# Injection: victims and spies, targets in trouble, and what is injected.
check_PROGRAMS += tests/targets/victim tests/targets/victim_malloc tests/functional/inject_soak \
	tests/functional/inject_steps
# What checks itself: the threads and the file of the programs that are injected into.
spy_sources = tests/targets/spy.c tests/targets/spy.h tests/targets/victim.h
victim_cflags = -std=gnu11 $(VT_WARNINGS)
tests_targets_victim_SOURCES = tests/targets/victim.c tests/targets/victim_probe.h tests/targets/victim_probe_aarch64.c \
	tests/targets/victim_probe_x86_64.c tests/targets/victim_probe_x86_64.S $(spy_sources)
tests_targets_victim_CFLAGS = $(victim_cflags)
tests_targets_victim_LDADD = -lpthread
tests_targets_victim_malloc_SOURCES = tests/targets/victim_malloc.c $(spy_sources)
tests_targets_victim_malloc_CFLAGS = $(victim_cflags)
tests_targets_victim_malloc_LDADD = -lpthread

victims_sources = tests/functional/victims.c tests/functional/victims.h tests/functional/census.h
inject_test_libs = $(vt_inject) -lpthread
tests_functional_inject_soak_SOURCES = tests/functional/inject_soak.c $(victims_sources)
tests_functional_inject_soak_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_functional_inject_soak_LDADD = $(inject_test_libs)

tests_functional_inject_steps_SOURCES = tests/functional/inject_steps.c $(victims_sources)
tests_functional_inject_steps_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_functional_inject_steps_LDADD = $(inject_test_libs)

functional_tests += \
	tests/functional/helper_elf.sh \
	tests/functional/inject_cases.sh \
	tests/functional/inject_soak.sh \
	tests/functional/inject_steps.sh
EXTRA_DIST += tests/targets/victim.py

if HAVE_CMOCKA
check_PROGRAMS += tests/functional/inject_cases
tests_functional_inject_cases_SOURCES = tests/functional/inject_cases.c tests/functional/census.h
tests_functional_inject_cases_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CMOCKA_CFLAGS)
tests_functional_inject_cases_LDADD = $(inject_test_libs) $(CMOCKA_LIBS)
endif
