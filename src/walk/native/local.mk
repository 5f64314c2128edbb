# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/native/libnative.a
src_walk_native_libnative_a_SOURCES = \
	src/walk/native/cfi.c src/walk/native/cfi.h \
	src/walk/native/debugfile.c src/walk/native/debugfile.h \
	src/walk/native/debuginfod.c src/walk/native/debuginfod.h \
	src/walk/native/demangle.c src/walk/native/demangle.h \
	src/walk/native/dwarf_lines.c src/walk/native/dwarf_lines.h \
	src/walk/native/lines.c \
	src/walk/native/lines_memo.c src/walk/native/lines_memo.h \
	src/walk/native/native.h \
	src/walk/native/pcs.c src/walk/native/pcs.h \
	src/walk/native/rtti.c src/walk/native/rtti.h \
	src/walk/native/symbols.c \
	src/walk/native/symfile.c src/walk/native/symfile.h \
	src/walk/native/symtab.c src/walk/native/symtab.h \
	src/walk/native/unwind.c \
	src/walk/native/variables.c src/walk/native/variables.h
