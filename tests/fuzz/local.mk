# Fuzzers: each a source of its own and what it needs. Without libFuzzer driver.c runs them, for two seconds in "make check".
fuzz_programs =
fuzz_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests -I$(top_srcdir)/tests/fuzz
if VT_LIBFUZZER
fuzz_driver = tests/fuzz/no_sleep.c tests/fuzz/fuzz.h
fuzz_ldflags = -fsanitize=fuzzer -Wl,--wrap=nanosleep
else
fuzz_driver = tests/fuzz/driver.c tests/fuzz/no_sleep.c tests/fuzz/fuzz.h
fuzz_ldflags = -Wl,--wrap=nanosleep
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
tests_fuzz_fuzz_core_SOURCES = tests/fuzz/fuzz_core.c tests/fuzz/scratch.c tests/fuzz/scratch.h $(fuzz_driver) tests/unit/target/core/core_image.c tests/unit/target/core/core_image.h
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

fuzz_programs += tests/fuzz/fuzz_json
tests_fuzz_fuzz_json_SOURCES = tests/fuzz/fuzz_json.c $(fuzz_driver)
tests_fuzz_fuzz_json_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_json_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_json_LDADD = src/json/libjson.a src/base/libbase.a $(VT_LIBS)

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

fuzz_programs += tests/fuzz/fuzz_kernels
tests_fuzz_fuzz_kernels_SOURCES = tests/fuzz/fuzz_kernels.c $(fuzz_driver)
tests_fuzz_fuzz_kernels_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_kernels_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_kernels_LDADD = src/kernels/libkernels.a $(vt_report) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_xid
tests_fuzz_fuzz_xid_SOURCES = tests/fuzz/fuzz_xid.c $(fuzz_driver)
tests_fuzz_fuzz_xid_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_xid_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_xid_LDADD = $(vt_faults) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_triton
tests_fuzz_fuzz_triton_SOURCES = tests/fuzz/fuzz_triton.c $(fuzz_driver)
tests_fuzz_fuzz_triton_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_triton_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_triton_LDADD = src/kernels/libkernels.a $(vt_report) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_flight
tests_fuzz_fuzz_flight_SOURCES = tests/fuzz/fuzz_flight.c $(fuzz_driver)
tests_fuzz_fuzz_flight_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_flight_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_flight_LDADD = $(vt_job) $(VT_LIBS)

# These read the memory of a core through the fuzzer: vt_core_source() is the fuzzer's.
fuzz_core_memory = tests/fuzz/core_memory.c tests/fuzz/core_memory.h tests/unit/target/core/core_image.c tests/unit/target/core/core_image.h
fuzz_programs += tests/fuzz/fuzz_report
tests_fuzz_fuzz_report_SOURCES = tests/fuzz/fuzz_report.c $(fuzz_driver) $(fuzz_core_memory)
tests_fuzz_fuzz_report_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_report_LDFLAGS = $(fuzz_ldflags) -Wl,--wrap=vt_core_source
tests_fuzz_fuzz_report_LDADD = $(vt_report) $(vt_collect) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_walkers
tests_fuzz_fuzz_walkers_SOURCES = tests/fuzz/fuzz_walkers.c $(fuzz_driver) $(fuzz_core_memory)
tests_fuzz_fuzz_walkers_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_walkers_LDFLAGS = $(fuzz_ldflags) -Wl,--wrap=vt_core_source -Wl,--wrap=vt_module_dynsyms
tests_fuzz_fuzz_walkers_LDADD = $(vt_report) $(vt_collect) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_elf
tests_fuzz_fuzz_elf_SOURCES = tests/fuzz/fuzz_elf.c $(fuzz_driver)
tests_fuzz_fuzz_elf_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_elf_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_elf_LDADD = $(vt_collect) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_demangle
tests_fuzz_fuzz_demangle_SOURCES = tests/fuzz/fuzz_demangle.c $(fuzz_driver)
tests_fuzz_fuzz_demangle_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_demangle_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_demangle_LDADD = $(vt_walk) $(VT_LIBS)

fuzz_programs += tests/fuzz/fuzz_told
tests_fuzz_fuzz_told_SOURCES = tests/fuzz/fuzz_told.c tests/fuzz/scratch.c tests/fuzz/scratch.h $(fuzz_driver)
tests_fuzz_fuzz_told_CPPFLAGS = $(fuzz_cppflags)
tests_fuzz_fuzz_told_LDFLAGS = $(fuzz_ldflags)
tests_fuzz_fuzz_told_LDADD = $(vt_collect) $(VT_LIBS)

EXTRA_DIST += tests/fuzz/corpus tests/fuzz/cores.py tests/fuzz/elf/seed.c tests/fuzz/elf/seed.cc tests/fuzz/elf/seed.S tests/fuzz/elf/seeds.sh tests/fuzz/elf/small.c scripts/fuzz.py

# Hours with libFuzzer, in builds of its own: see doc/HOWTO_TEST.md.
check-fuzz:
	python3 -B $(top_srcdir)/scripts/fuzz.py $(FUZZ_ARGUMENTS)
.PHONY: check-fuzz
