noinst_LIBRARIES += src/inject/libinject.a
src_inject_libinject_a_SOURCES = \
	src/inject/inject.h
