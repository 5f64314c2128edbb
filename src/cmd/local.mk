bin_PROGRAMS += vramtap
vramtap_SOURCES = \
	src/cmd/cmd.h \
	src/collect/collect.c src/collect/collect.h \
	src/collect/ask.c \
	src/collect/capture.c src/collect/stacks.h \
	src/collect/origin_core.c \
	src/collect/deadlock.c \
	src/collect/flight.c \
	src/collect/history.c \
	src/collect/identity.c \
	src/collect/inside.c \
	src/collect/outside.c src/collect/outside.h \
	src/collect/passes.c \
	src/collect/pinned.c \
	src/collect/origin_process.c \
	src/collect/recorded.c \
	src/collect/stacks.c \
	src/collect/torch.c \
	src/collect/traces.c src/collect/traces.h \
	src/collect/origin_held.c src/collect/origin_held.h \
	src/cmd/diff.c \
	src/cmd/gdb.c \
	src/gdb/answer.c src/gdb/answer.h \
	src/gdb/script.S \
	src/gdb/release.c src/gdb/release.h \
	src/cmd/gdb_script.c \
	src/gdb/state.c src/gdb/state.h \
	src/gdb/values.c src/gdb/values.h \
	src/collect/held.c src/collect/held.h \
	src/cmd/layouts.c \
	src/cmd/main.c \
	src/cmd/options_core.c src/cmd/options_core.h \
	src/cmd/options_record.c src/cmd/options_record.h \
	src/cmd/output.c src/cmd/output.h \
	src/base/progress.c src/base/progress.h \
	src/cmd/record.c \
	src/record/driver.c \
	src/record/target.c src/record/target.h \
	src/cmd/report.c \
	src/cmd/run.c \
	src/record/run_gate.c src/record/run_gate.h \
	src/cmd/stacks.c \
	src/cmd/triage.c src/triage/triage.h \
	src/triage/collect.c src/triage/collect.h \
	src/triage/dir.c src/triage/dir.h \
	src/triage/find.c \
	src/triage/gate.c src/triage/gate.h \
	src/triage/label.c \
	src/triage/moved.c src/triage/moved.h \
	src/triage/ras.c src/triage/ras.h \
	src/triage/ras_ask.c \
	src/triage/ras_find.c \
	src/triage/worker.c \
	src/cmd/watch.c src/cmd/watch.h \
	src/cmd/watch_grow.c \
	src/cmd/watch_oom.c \
	src/collect/watchdog.c src/collect/watchdog.h
vramtap_LDADD = \
	src/report/libreport.a src/walk/libwalk.a src/inject/libinject.a \
	src/target/libtarget.a src/base/libbase.a $(VT_LIBS)
vramtap_LDFLAGS = $(VT_STATIC_FLAGS) -pthread

# The assembler finds what is embedded from the source directory.
vramtap_CCASFLAGS = -Wa,-I$(top_srcdir)
src/gdb/vramtap-script.$(OBJEXT): $(top_srcdir)/gdbcmds/vramtap.gdb.in
