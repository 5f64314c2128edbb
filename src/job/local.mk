# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/job/libjob.a
src_job_libjob_a_SOURCES = \
	src/job/add.c \
	src/job/amounts.c src/job/amounts.h \
	src/job/chain.c src/job/chain.h \
	src/job/devices.c \
	src/job/faults.c src/job/faults.h \
	src/job/finding.c src/job/finding.h \
	src/job/groups.c src/job/groups.h \
	src/job/job.c src/job/job.h \
	src/job/kernels.c src/job/kernels.h \
	src/job/lines.c src/job/lines.h \
	src/job/internal.h \
	src/job/set.c \
	src/job/state.c \
	src/job/tree.c
