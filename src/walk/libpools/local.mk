# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/libpools/liblibpools.a
src_walk_libpools_liblibpools_a_SOURCES = \
	src/walk/libpools/internal.h \
	src/walk/libpools/libpool.c \
	src/walk/libpools/libpools.c \
	src/walk/libpools/libpools.h \
	src/walk/libpools/xla.c \
	src/walk/libpools/xla_find.c \
	src/walk/libpools/xla_read.c
