# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/job/text/libtext.a
src_job_text_libtext_a_SOURCES = \
	src/job/text/categories.c \
	src/job/text/chains.c \
	src/job/text/faults.c \
	src/job/text/figures.c src/job/text/figures.h \
	src/job/text/frames.c \
	src/job/text/groups.c \
	src/job/text/holders.c \
	src/job/text/kernels.c \
	src/job/text/ledger.c \
	src/job/text/memory.c \
	src/job/text/ras.c \
	src/job/text/text.c src/job/text/text.h \
	src/job/text/tree.c
