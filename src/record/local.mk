# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/record/librecord.a
src_record_librecord_a_SOURCES = \
	src/record/driver.c \
	src/record/loaded.c src/record/loaded.h \
	src/record/oom_catch.c src/record/oom_catch.h \
	src/record/oom_file.c src/record/oom_file.h \
	src/record/run_gate.c src/record/run_gate.h \
	src/record/run_oom.c src/record/run_oom.h \
	src/record/target.c src/record/target.h \
	src/record/watchers.c src/record/watchers.h
