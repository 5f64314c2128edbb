# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/walk/tensors/libtensors.a
src_walk_tensors_libtensors_a_SOURCES = \
	src/walk/tensors/count.c \
	src/walk/tensors/edges.c \
	src/walk/tensors/internal.h \
	src/walk/tensors/kind.c \
	src/walk/tensors/layout.c \
	src/walk/tensors/saved.c \
	src/walk/tensors/shape.c \
	src/walk/tensors/tensors.h
