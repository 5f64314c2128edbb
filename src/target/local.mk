noinst_LIBRARIES += src/target/libtarget.a
src_target_libtarget_a_SOURCES = \
	src/target/buildid.c src/target/buildid.h \
	src/target/container.c src/target/container.h \
	src/target/core/core.c src/target/core/core.h src/target/core/parts.h \
	src/target/core/files.c src/target/core/files.h \
	src/target/core/maps.c src/target/core/memory.c src/target/core/notes.c \
	src/target/elfsym.c src/target/elfsym.h \
	src/target/files.c src/target/files.h \
	src/target/grace.c src/target/grace.h \
	src/target/live.c src/target/live.h \
	src/target/maps.c src/target/maps.h \
	src/target/proc.c src/target/proc.h \
	src/target/processes.c src/target/processes.h \
	src/target/processes_probe.c src/target/processes_probe.h \
	src/target/pthread.c src/target/pthread.h \
	src/target/recorder_head.c src/target/recorder_head.h \
	src/target/regs.c src/target/regs.h \
	src/target/readers.c src/target/readers.h \
	src/target/replay.c src/target/replay.h \
	src/target/session.c src/target/session.h \
	src/target/sleepers.c src/target/sleepers.h \
	src/target/snapshot.c src/target/snapshot.h \
	src/target/task.c src/target/task.h \
	src/target/timens.c src/target/timens.h
