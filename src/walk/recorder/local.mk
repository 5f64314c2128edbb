# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/recorder/librecorder.a
src_walk_recorder_librecorder_a_SOURCES = \
	src/walk/recorder/find.c src/walk/recorder/find.h \
	src/walk/recorder/join.c src/walk/recorder/join.h \
	src/walk/recorder/launches.c src/walk/recorder/launches.h \
	src/walk/recorder/python.c src/walk/recorder/python.h \
	src/walk/recorder/recorder.c src/walk/recorder/recorder.h \
	src/walk/recorder/stacks.c src/walk/recorder/stacks.h
