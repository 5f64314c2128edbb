# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/inject/recorder/librecorder.a
src_inject_recorder_librecorder_a_SOURCES = \
	src/inject/recorder/cupti.c src/inject/recorder/cupti.h \
	src/inject/recorder/gate.c src/inject/recorder/gate.h \
	src/inject/recorder/got.c src/inject/recorder/got.h \
	src/inject/recorder/pointers.c src/inject/recorder/pointers.h \
	src/inject/recorder/recorder.c src/inject/recorder/recorder.h \
	src/inject/recorder/trap.c src/inject/recorder/trap.h
