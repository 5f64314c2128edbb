# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/report/json/libjson.a
src_report_json_libjson_a_SOURCES = \
	src/report/json/json.c \
	src/report/json/allocator.c src/report/json/allocator.h \
	src/report/json/amount.c src/report/json/amount.h \
	src/report/json/advice.c src/report/json/advice.h \
	src/report/json/again.c src/report/json/again.h \
	src/report/json/growth.c src/report/json/growth.h \
	src/report/json/host.c src/report/json/host.h \
	src/report/json/jax.c src/report/json/jax.h \
	src/report/json/kernels.c src/report/json/kernels.h \
	src/report/json/launches.c src/report/json/launches.h \
	src/report/json/libpools.c src/report/json/libpools.h \
	src/report/json/ledger.c src/report/json/ledger.h \
	src/report/json/load.c src/report/json/load.h \
	src/report/json/owners.c src/report/json/owners.h \
	src/report/json/recorder.c src/report/json/recorder.h \
	src/report/json/report.h \
	src/report/json/streams.c src/report/json/streams.h \
	src/report/json/where.c src/report/json/where.h
