# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/base/libbase.a
src_base_libbase_a_SOURCES = \
	src/base/arena.c src/base/arena.h \
	src/base/cleanup.h \
	src/base/clock.h \
	src/base/close.c src/base/close.h \
	src/base/ends.c src/base/ends.h \
	src/base/error.c src/base/error.h \
	src/base/exit.c src/base/exit.h \
	src/base/fault.c src/base/fault.h \
	src/base/format.c src/base/format.h \
	src/base/hash.h \
	src/base/huge.c src/base/huge.h \
	src/base/index.c src/base/index.h \
	src/base/map.c src/base/map.h \
	src/base/nearest.c src/base/nearest.h \
	src/base/memfd.c src/base/memfd.h \
	src/base/page.h \
	src/base/null.c src/base/null.h \
	src/base/parallel.c src/base/parallel.h \
	src/base/progress.c src/base/progress.h \
	src/base/random.c src/base/random.h \
	src/base/regular.c src/base/regular.h \
	src/base/room.c src/base/room.h \
	src/base/sandbox.c src/base/sandbox.h \
	src/base/sigbus.c src/base/sigbus.h \
	src/base/span.h \
	src/base/str.c src/base/str.h \
	src/base/terminal.c src/base/terminal.h \
	src/base/vec.c src/base/vec.h \
	src/base/width.c src/base/width.h
