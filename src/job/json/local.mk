# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/job/json/libjson.a
src_job_json_libjson_a_SOURCES = \
	src/job/json/chains.c src/job/json/parts.h \
	src/job/json/faults.c \
	src/job/json/json.c src/job/json/json.h \
	src/job/json/kernels.c \
	src/job/json/load.c \
	src/job/json/seen.c src/job/json/seen.h
