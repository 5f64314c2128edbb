# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/job/ras/libras.a
src_job_ras_libras_a_SOURCES = \
	src/job/ras/build.c \
	src/job/ras/json.c \
	src/job/ras/reading.h \
	src/job/ras/ras.c src/job/ras/ras.h \
	src/job/ras/text.c \
	src/job/ras/told.c
