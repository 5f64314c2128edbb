noinst_LIBRARIES += src/target/libtarget.a
src_target_libtarget_a_SOURCES = \
	src/target/elfsym.h \
	src/target/live.h \
	src/target/maps.h \
	src/target/proc.h \
	src/target/regs.h \
	src/target/session.h \
	src/target/snapshot.h
