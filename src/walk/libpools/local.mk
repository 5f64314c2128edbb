# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/libpools/liblibpools.a
src_walk_libpools_liblibpools_a_SOURCES = \
	src/walk/libpools/cupy.c src/walk/libpools/cupy.h \
	src/walk/libpools/cupy_objects.c \
	src/walk/libpools/cupy_pool.c \
	src/walk/libpools/cupy_root.c src/walk/libpools/cupy_root.h \
	src/walk/libpools/internal.h \
	src/walk/libpools/libpool.c \
	src/walk/libpools/libpools.c \
	src/walk/libpools/libpools.h \
	src/walk/libpools/nccl.c src/walk/libpools/nccl.h \
	src/walk/libpools/nccl_follow.c \
	src/walk/libpools/libstdcxx.c src/walk/libpools/libstdcxx.h \
	src/walk/libpools/rmm.c src/walk/libpools/rmm.h \
	src/walk/libpools/rmm_find.c \
	src/walk/libpools/rmm_read.c \
	src/walk/libpools/xla.c \
	src/walk/libpools/xla_find.c \
	src/walk/libpools/xla_read.c
