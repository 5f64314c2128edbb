# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/base/libbase.a
src_base_libbase_a_SOURCES = \
	src/base/arena.c src/base/arena.h \
	src/base/cleanup.h \
	src/base/clock.h \
	src/base/error.c src/base/error.h \
	src/base/exit.c src/base/exit.h \
	src/base/fault.c src/base/fault.h \
	src/base/format.c src/base/format.h \
	src/base/map.c src/base/map.h \
	src/base/nearest.c src/base/nearest.h \
	src/base/parallel.c src/base/parallel.h \
	src/base/progress.c src/base/progress.h \
	src/base/regular.c src/base/regular.h \
	src/base/room.c src/base/room.h \
	src/base/sandbox.c src/base/sandbox.h \
	src/base/sigbus.c src/base/sigbus.h \
	src/base/str.c src/base/str.h \
	src/base/terminal.c src/base/terminal.h \
	src/base/vec.c src/base/vec.h \
	src/base/width.c src/base/width.h
