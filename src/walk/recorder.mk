src_walk_libwalk_a_SOURCES += \
	src/walk/recorder/recorder.c src/walk/recorder/recorder.h \
	src/walk/recorder/find.c src/walk/recorder/find.h \
	src/walk/recorder/join.c src/walk/recorder/join.h \
	src/walk/recorder/stacks.c src/walk/recorder/stacks.h
