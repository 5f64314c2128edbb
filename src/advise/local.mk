# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/advise/libadvise.a
src_advise_libadvise_a_SOURCES = \
	src/advise/add.c \
	src/advise/advise.c src/advise/advise.h \
	src/advise/batch.c \
	src/advise/blocks.c \
	src/advise/device.c \
	src/advise/elsewhere.c \
	src/advise/faults.c \
	src/advise/fragmentation.c \
	src/advise/growth.c \
	src/advise/host.c \
	src/advise/internal.h \
	src/advise/next.c \
	src/advise/owners.c \
	src/advise/pressure.c \
	src/advise/process.c \
	src/advise/rules.c \
	src/advise/simulate.c src/advise/simulate.h \
	src/advise/stuck.c
