# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/target/core/libcore.a
src_target_core_libcore_a_SOURCES = \
	src/target/core/core.c src/target/core/core.h \
	src/target/core/files.c src/target/core/files.h \
	src/target/core/maps.c \
	src/target/core/memory.c \
	src/target/core/notes.c \
	src/target/core/internal.h
