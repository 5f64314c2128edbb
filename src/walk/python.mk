src_walk_libwalk_a_SOURCES += \
	src/walk/python_ask.c src/walk/python_ask.h \
	src/walk/python_capture.c src/walk/python_capture.h \
	src/walk/python_find.c \
	src/walk/python_frame.c src/walk/python_frame.h \
	src/walk/python_join.c src/walk/python_join.h \
	src/walk/python_layout.c src/walk/python_layout.h \
	src/walk/python_layouts.h \
	src/walk/python_line.c src/walk/python_line.h \
	src/walk/python_locals.c src/walk/python_locals.h \
	src/walk/python_object.c src/walk/python_object.h \
	src/walk/python_pages.c src/walk/python_pages.h \
	src/walk/python_places.c src/walk/python_places.h \
	src/walk/python_resolve.c \
	src/walk/python_scan.c src/walk/python_scan.h \
	src/walk/python_tensor.c src/walk/python_tensor.h \
	src/walk/python_type.c src/walk/python_type.h \
	src/walk/python_value.c src/walk/python_value.h \
	src/walk/recorder_python.c src/walk/recorder_python.h
EXTRA_DIST += scripts/gen-python-layouts.sh
