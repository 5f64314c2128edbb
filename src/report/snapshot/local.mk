# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/report/snapshot/libsnapshot.a
src_report_snapshot_libsnapshot_a_SOURCES = \
	src/report/snapshot/events.c \
	src/report/snapshot/frames.c src/report/snapshot/internal.h \
	src/report/snapshot/parts.c \
	src/report/snapshot/pickle.c src/report/snapshot/pickle.h \
	src/report/snapshot/snapshot.c src/report/snapshot/snapshot.h
