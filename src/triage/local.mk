# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/triage/libtriage.a
src_triage_libtriage_a_SOURCES = \
	src/triage/collect.c src/triage/collect.h \
	src/triage/dir.c src/triage/dir.h \
	src/triage/find.c \
	src/triage/latch.c src/triage/latch.h \
	src/triage/label.c \
	src/triage/moved.c src/triage/moved.h \
	src/triage/none.c \
	src/triage/phase.c src/triage/phase.h \
	src/triage/ras.c src/triage/ras.h \
	src/triage/ras_ask.c \
	src/triage/ras_find.c \
	src/triage/triage.h \
	src/triage/worker.c
