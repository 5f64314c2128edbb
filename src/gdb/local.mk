# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/gdb/libgdb.a
src_gdb_libgdb_a_SOURCES = \
	src/gdb/answer.c src/gdb/answer.h \
	src/gdb/escape.c src/gdb/escape.h \
	src/gdb/print.c src/gdb/print.h \
	src/gdb/release.c src/gdb/release.h \
	src/gdb/rows.c src/gdb/rows.h \
	src/gdb/script.S \
	src/gdb/state.c src/gdb/state.h \
	src/gdb/values.c src/gdb/values.h

src/gdb/script.$(OBJEXT): $(top_srcdir)/gdbcmds/vramtap.gdb.in
