# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/model/libmodel.a
src_model_libmodel_a_SOURCES = \
	src/model/account.c src/model/account.h \
	src/model/advice.c src/model/advice.h \
	src/model/again.c src/model/again.h \
	src/model/awaiting.c src/model/awaiting.h \
	src/model/around.h \
	src/model/cuda_error.c src/model/cuda_error.h \
	src/model/cxxname.c src/model/cxxname.h \
	src/model/doing.c src/model/doing.h \
	src/model/doing_json.c src/model/doing_json.h \
	src/model/faults.c src/model/faults.h \
	src/model/faults_json.c src/model/faults_json.h \
	src/model/find.c src/model/find.h \
	src/model/notices.c src/model/notices.h \
	src/model/flight.c src/model/flight.h \
	src/model/flight_load.c \
	src/model/flight_out.c \
	src/model/growth.h \
	src/model/headline.c \
	src/model/host.c src/model/host.h \
	src/model/ledger.c src/model/ledger.h \
	src/model/jax.c src/model/jax.h \
	src/model/kernels.c src/model/kernels.h \
	src/model/launches.h \
	src/model/libpools.c src/model/libpools.h \
	src/model/model.c src/model/model.h \
	src/model/streams.c src/model/streams.h \
	src/model/stream_order.c src/model/stream_order.h \
	src/model/stream_deadlock.c src/model/stream_deadlock.h \
	src/model/stream_waits.c src/model/stream_waits.h \
	src/model/oom.c \
	src/model/owners.c src/model/owners.h \
	src/model/owners_by.c src/model/owners_by.h \
	src/model/owners_match.c src/model/owners_match.h \
	src/model/pinned.c \
	src/model/place.c src/model/place.h \
	src/model/recorder.c \
	src/model/sites.c \
	src/model/tasks.h \
	src/model/threads.c \
	src/model/usage.c src/model/usage.h \
	src/model/usage_json.c src/model/usage_json.h \
	src/model/where.h \
	src/model/words.c src/model/words.h \
	src/model/words_0_1.c src/model/words_0_1.h \
	src/model/words_table.c \
	src/model/xid.c src/model/xid.h
