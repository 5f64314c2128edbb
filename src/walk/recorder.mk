src_walk_libwalk_a_SOURCES += \
	src/walk/recorder.c src/walk/recorder.h \
	src/walk/recorder_find.c src/walk/recorder_find.h \
	src/walk/recorder_join.c src/walk/recorder_join.h \
	src/walk/recorder_stacks.c src/walk/recorder_stacks.h
