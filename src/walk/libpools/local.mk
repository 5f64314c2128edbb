# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/libpools/liblibpools.a
src_walk_libpools_liblibpools_a_SOURCES = \
	src/walk/libpools/libpools.c \
	src/walk/libpools/libpools.h
