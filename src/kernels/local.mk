# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/kernels/libkernels.a
src_kernels_libkernels_a_SOURCES = \
	src/kernels/find.c \
	src/kernels/kernels.h \
	src/kernels/parse.c \
	src/kernels/run.c \
	src/kernels/session.c \
	src/kernels/triton.c src/kernels/triton.h
