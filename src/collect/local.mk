# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/collect/libcollect.a
src_collect_libcollect_a_SOURCES = \
	src/collect/again.c src/collect/again.h \
	src/collect/again_launches.c src/collect/again_launches.h \
	src/collect/again_streams.c src/collect/again_streams.h \
	src/collect/again_torch.c src/collect/again_torch.h \
	src/collect/around.c \
	src/collect/ask.c \
	src/collect/asyncio.c \
	src/collect/ask_jax.c \
	src/collect/ask_owners.c \
	src/collect/capture.c \
	src/collect/collect.c src/collect/collect.h \
	src/collect/context.c \
	src/collect/deadlock.c \
	src/collect/driver_waits.c src/collect/driver_waits.h \
	src/collect/faults.c src/collect/faults.h \
	src/collect/faults_job.c src/collect/faults_job.h \
	src/collect/flight.c \
	src/collect/held.c src/collect/held.h \
	src/collect/history.c \
	src/collect/identity.c \
	src/collect/inside.c \
	src/collect/kernels.c src/collect/kernels_fork.c src/collect/kernels_meet.c \
	src/collect/kernels_source.c src/collect/kernels_still.c \
	src/collect/launches.c src/collect/launches.h \
	src/collect/launch_values.c \
	src/collect/ledger.c \
	src/collect/libpools.c \
	src/collect/limits.c \
	src/collect/origin_core.c \
	src/collect/origin_held.c src/collect/origin_held.h \
	src/collect/origin_process.c \
	src/collect/outside.c src/collect/outside.h \
	src/collect/outside_again.c \
	src/collect/outside_read.c \
	src/collect/owners.c src/collect/owners.h \
	src/collect/owners_arrays.c \
	src/collect/owners_asked.c \
	src/collect/owners_blocks.c \
	src/collect/owners_jax.c \
	src/collect/owners_native.c \
	src/collect/owners_unseen.c \
	src/collect/passes.c \
	src/collect/pinned.c \
	src/collect/quiet.c src/collect/quiet.h \
	src/collect/standing.c src/collect/standing.h \
	src/collect/recorded.c \
	src/collect/shared.c \
	src/collect/stacks.c src/collect/stacks.h \
	src/collect/stop.c src/collect/stop.h \
	src/collect/streams.c \
	src/collect/target.c src/collect/target.h \
	src/collect/torch.c \
	src/collect/touch.h \
	src/collect/traces.c src/collect/traces.h \
	src/collect/usage.c src/collect/usage.h \
	src/collect/usage_count.c \
	src/collect/usage_who.c \
	src/collect/where.c \
	src/collect/watchdog.c src/collect/watchdog.h
