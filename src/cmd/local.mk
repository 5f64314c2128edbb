# SPDX-License-Identifier: Apache-2.0
bin_PROGRAMS += vramtap
vramtap_SOURCES = \
	src/cmd/arguments.c src/cmd/arguments.h \
	src/cmd/again.c src/cmd/again.h \
	src/cmd/cmd.h \
	src/cmd/diff.c \
	src/cmd/documents.c src/cmd/documents.h \
	src/cmd/gdb.c \
	src/cmd/gdb_script.c \
	src/cmd/layouts.c \
	src/cmd/grow_lines.c src/cmd/grow_lines.h \
	src/cmd/html.c \
	src/cmd/main.c \
	src/cmd/options_core.c src/cmd/options_core.h \
	src/cmd/options_nodes.c src/cmd/options_nodes.h \
	src/cmd/options_record.c src/cmd/options_record.h \
	src/cmd/output.c src/cmd/output.h \
	src/cmd/ps.c \
	src/cmd/record.c \
	src/cmd/relieve.c \
	src/cmd/report.c \
	src/cmd/run.c \
	src/cmd/stacks.c \
	src/cmd/symptoms.c src/cmd/symptoms.h \
	src/cmd/triage.c \
	src/cmd/watch.c src/cmd/watch.h \
	src/cmd/watch_grow.c \
	src/cmd/watch_oom.c \
	src/cmd/watch_signals.c
vramtap_LDADD = $(vt_all_rooms) $(VT_LIBS)
# tests/unit/notices.sh compares what the linker took in (its map) with NOTICES.md.
vramtap_LDFLAGS = $(VT_STATIC_FLAGS) $(VT_HARDEN_LDFLAGS) -pthread -Wl,-Map=vramtap.map
CLEANFILES += vramtap.map
