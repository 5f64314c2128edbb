# A campaign against our own injector: hostile targets that check themselves, random commands, kills.
check_PROGRAMS += tests/safety/hostile_calls tests/safety/hostile_confined tests/safety/hostile_exec tests/safety/hostile_spawn \
	tests/safety/hostile_state tests/safety/hostile_threads tests/safety/hostile_timers \
	tests/safety/reborn
hostile_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests
tests_safety_hostile_calls_SOURCES = tests/safety/hostile_calls.c $(spy_sources)
tests_safety_hostile_calls_CPPFLAGS = $(hostile_cppflags)
tests_safety_hostile_calls_CFLAGS = $(victim_cflags)
tests_safety_hostile_calls_LDADD = -lpthread
tests_safety_hostile_spawn_SOURCES = tests/safety/hostile_spawn.c $(spy_sources)
tests_safety_hostile_spawn_CPPFLAGS = $(hostile_cppflags)
tests_safety_hostile_spawn_CFLAGS = $(victim_cflags)
tests_safety_hostile_spawn_LDADD = -lpthread
tests_safety_hostile_threads_SOURCES = tests/safety/hostile_threads.c $(spy_sources)
tests_safety_hostile_threads_CPPFLAGS = $(hostile_cppflags)
tests_safety_hostile_threads_CFLAGS = $(victim_cflags)
tests_safety_hostile_threads_LDADD = -lpthread
tests_safety_hostile_confined_SOURCES = tests/safety/hostile_confined.c
tests_safety_hostile_confined_CPPFLAGS = $(hostile_cppflags)
tests_safety_hostile_confined_CFLAGS = $(victim_cflags)
tests_safety_hostile_confined_LDADD = -lpthread
tests_safety_hostile_exec_SOURCES = tests/safety/hostile_exec.c $(spy_sources)
tests_safety_hostile_exec_CPPFLAGS = $(hostile_cppflags)
tests_safety_hostile_exec_CFLAGS = $(victim_cflags)
tests_safety_hostile_exec_LDADD = -lpthread
tests_safety_hostile_state_SOURCES = tests/safety/hostile_state.c $(spy_sources)
tests_safety_hostile_state_CPPFLAGS = $(hostile_cppflags)
tests_safety_hostile_state_CFLAGS = $(victim_cflags)
tests_safety_hostile_state_LDADD = -lpthread
tests_safety_hostile_timers_SOURCES = tests/safety/hostile_timers.c $(spy_sources)
tests_safety_hostile_timers_CPPFLAGS = $(hostile_cppflags)
tests_safety_hostile_timers_CFLAGS = $(victim_cflags)
tests_safety_hostile_timers_LDADD = -lpthread -lrt
tests_safety_reborn_SOURCES = tests/safety/reborn.c
tests_safety_reborn_CPPFLAGS = $(AM_CPPFLAGS)
functional_tests += tests/safety/campaign.py tests/safety/pid_reuse.py
EXTRA_DIST += tests/safety/campaign.py tests/safety/attacks.py tests/safety/census.py tests/safety/hostile.py tests/safety/hostile_train.py \
	tests/safety/keeper.py tests/safety/pid_reuse.py

# All of it: INJECTIONS and KILLS are how many there must be at least, all times together. It goes on from the last one's state; STATE
# names the file.
INJECTIONS = 10000
KILLS = 10000
STATE = $(abs_top_builddir)/safety-campaign.json
check-safety: all $(check_PROGRAMS)
	VRAMTAP_SOURCE_DIR='$(abs_top_srcdir)' VRAMTAP_BUILD_DIR='$(abs_top_builddir)' python3 -B $(srcdir)/tests/safety/campaign.py \
		--minutes=0 --injections=$(INJECTIONS) --kills=$(KILLS) --state='$(STATE)'
.PHONY: check-safety
