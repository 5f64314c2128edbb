# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/report/text/libtext.a
src_report_text_libtext_a_SOURCES = \
	src/report/text/advice.c \
	src/report/text/again.c \
	src/report/text/bar.c src/report/text/bar.h \
	src/report/text/blocks.c \
	src/report/text/cells.c src/report/text/cells.h \
	src/report/text/faults.c \
	src/report/text/flight.c \
	src/report/text/found.c \
	src/report/text/host.c \
	src/report/text/jax.c \
	src/report/text/kernels.c \
	src/report/text/launches.c \
	src/report/text/libpools.c src/report/text/libpools.h \
	src/report/text/ledger.c src/report/text/ledger.h \
	src/report/text/line.c src/report/text/line.h \
	src/report/text/map.c \
	src/report/text/memory.c \
	src/report/text/oom.c \
	src/report/text/origin.c \
	src/report/text/owner.c \
	src/report/text/owners.c \
	src/report/text/owners_by.c \
	src/report/text/parts.c src/report/text/parts.h \
	src/report/text/pinned.c \
	src/report/text/recorder.c \
	src/report/text/sites.c \
	src/report/text/streams.c \
	src/report/text/table.c src/report/text/table.h \
	src/report/text/text.c src/report/text/text.h \
	src/report/text/tasks.c \
	src/report/text/threads.c \
	src/report/text/title.c \
	src/report/text/usage.c \
	src/report/text/where.c
