# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/target/libtarget.a
src_target_libtarget_a_SOURCES = \
	src/target/absent.c src/target/absent.h \
	src/target/confined.c src/target/confined.h \
	src/target/buildid.c src/target/buildid.h \
	src/target/children.c src/target/children.h \
	src/target/container.c src/target/container.h \
	src/target/elfsym.c src/target/elfsym.h \
	src/target/files.c src/target/files.h \
	src/target/glance.c src/target/glance.h \
	src/target/grace.c src/target/grace.h \
	src/target/in_root.c src/target/in_root.h \
	src/target/launch.c src/target/launch.h \
	src/target/asleep.c src/target/asleep.h \
	src/target/let_go.c src/target/let_go.h \
	src/target/live.c src/target/live.h \
	src/target/maps.c src/target/maps.h \
	src/target/proc.c src/target/proc.h \
	src/target/processes.c src/target/processes.h \
	src/target/processes_probe.c src/target/processes_probe.h \
	src/target/pthread.c src/target/pthread.h \
	src/target/readers.c src/target/readers.h \
	src/target/recorder_head.c src/target/recorder_head.h \
	src/target/replay.c src/target/replay.h \
	src/target/resident.c src/target/resident.h \
	src/target/session.c src/target/session.h \
	src/target/sleepers.c src/target/sleepers.h \
	src/target/snapshot.c src/target/snapshot.h \
	src/target/task.c src/target/task.h \
	src/target/timens.c src/target/timens.h \
	src/target/words.c src/target/words.h

include src/target/arch/local.mk
