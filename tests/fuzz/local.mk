# Fuzzers: each a source of its own and what it needs. Without libFuzzer driver.c runs them, for two seconds in "make check".
fuzz_programs =
fuzz_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests -I$(top_srcdir)/tests/fuzz
if VT_LIBFUZZER
fuzz_driver = tests/fuzz/fuzz.h
fuzz_ldflags = -fsanitize=fuzzer
else
fuzz_driver = tests/fuzz/driver.c tests/fuzz/fuzz.h
fuzz_ldflags =
TESTS += $(fuzz_programs)
endif
check_PROGRAMS += $(fuzz_programs)

fuzz_programs += tests/fuzz/fuzz_torch
tests_fuzz_fuzz_torch_SOURCES = tests/fuzz/fuzz_torch.c $(fuzz_driver) tests/unit/walk/torch/torch_image.c tests/unit/walk/torch/torch_image.h
tests_fuzz_fuzz_torch_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_torch_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_torch_LDADD = \
	$(vt_explain) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_pinned
tests_fuzz_fuzz_pinned_SOURCES = tests/fuzz/fuzz_pinned.c $(fuzz_driver) tests/unit/walk/torch/pinned_image.h
tests_fuzz_fuzz_pinned_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_pinned_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_pinned_LDADD = $(vt_walk) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_core
tests_fuzz_fuzz_core_SOURCES = tests/fuzz/fuzz_core.c $(fuzz_driver) tests/unit/target/core/core_image.c tests/unit/target/core/core_image.h
tests_fuzz_fuzz_core_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_core_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_core_LDADD = $(vt_target)

fuzz_programs += tests/fuzz/fuzz_recorder
tests_fuzz_fuzz_recorder_SOURCES = tests/fuzz/fuzz_recorder.c $(fuzz_driver) tests/unit/walk/recorder/recorder_image.h
tests_fuzz_fuzz_recorder_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_recorder_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_recorder_LDADD = $(vt_walk) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_pyheap
tests_fuzz_fuzz_pyheap_SOURCES = tests/fuzz/fuzz_pyheap.c $(fuzz_driver)
tests_fuzz_fuzz_pyheap_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_pyheap_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_pyheap_LDADD = $(vt_walk) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_load
tests_fuzz_fuzz_load_SOURCES = tests/fuzz/fuzz_load.c tests/fuzz/json_edits.c tests/fuzz/json_edits.h $(fuzz_driver)
tests_fuzz_fuzz_load_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_load_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_load_LDADD = $(vt_job) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_gdb_state
tests_fuzz_fuzz_gdb_state_SOURCES = tests/fuzz/fuzz_gdb_state.c $(fuzz_driver)
tests_fuzz_fuzz_gdb_state_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_gdb_state_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_gdb_state_LDADD = src/gdb/libgdb.a $(vt_collect) $(VT_LIBS)
fuzz_programs += tests/fuzz/fuzz_job
tests_fuzz_fuzz_job_SOURCES = tests/fuzz/fuzz_job.c tests/fuzz/json_edits.c tests/fuzz/json_edits.h $(fuzz_driver)
tests_fuzz_fuzz_job_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_job_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_job_LDADD = $(vt_job) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_ras
tests_fuzz_fuzz_ras_SOURCES = tests/fuzz/fuzz_ras.c $(fuzz_driver) tests/unit/job/ras/ras_words.h
tests_fuzz_fuzz_ras_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_ras_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_ras_LDADD = $(vt_job) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_flight
tests_fuzz_fuzz_flight_SOURCES = tests/fuzz/fuzz_flight.c $(fuzz_driver)
tests_fuzz_fuzz_flight_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_flight_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_flight_LDADD = $(vt_job) $(VT_LIBS)
