# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/arrays/libarrays.a
src_walk_arrays_libarrays_a_SOURCES = \
	src/walk/arrays/arrays.h \
	src/walk/arrays/cupy.c \
	src/walk/arrays/dtype.c src/walk/arrays/dtype.h \
	src/walk/arrays/jax.c \
	src/walk/arrays/shape.c
