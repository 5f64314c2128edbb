# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/asyncio/libasyncio.a
src_walk_asyncio_libasyncio_a_SOURCES = \
	src/walk/asyncio/asyncio.c src/walk/asyncio/asyncio.h \
	src/walk/asyncio/internal.h \
	src/walk/asyncio/kind.c \
	src/walk/asyncio/list.c \
	src/walk/asyncio/task.c \
	src/walk/asyncio/waiters.c
