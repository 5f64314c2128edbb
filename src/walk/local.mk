noinst_LIBRARIES += src/walk/libwalk.a
src_walk_libwalk_a_SOURCES = \
	src/explain/merge.h \
	src/walk/native/native.h \
	src/walk/python/python.h \
	src/walk/torch/torch.h \
	src/explain/wait.h
include src/walk/torch.mk
include src/walk/python.mk
include src/walk/native.mk
include src/walk/recorder.mk
