# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/python/libpython.a
src_walk_python_libpython_a_SOURCES = \
	src/walk/python/ask.c src/walk/python/ask.h \
	src/walk/python/capture.c \
	src/walk/python/find.c \
	src/walk/python/frame.c \
	src/walk/python/internal.h \
	src/walk/python/join.c \
	src/walk/python/layout.c src/walk/python/layout.h \
	src/walk/python/layouts.h \
	src/walk/python/line.c src/walk/python/line.h \
	src/walk/python/locals.c \
	src/walk/python/object.c src/walk/python/object.h \
	src/walk/python/pages.c src/walk/python/pages.h \
	src/walk/python/places.c src/walk/python/places.h \
	src/walk/python/python.h \
	src/walk/python/resolve.c \
	src/walk/python/scan.c \
	src/walk/python/tensor.c src/walk/python/tensor.h \
	src/walk/python/type.c src/walk/python/type.h \
	src/walk/python/value.c src/walk/python/value.h
