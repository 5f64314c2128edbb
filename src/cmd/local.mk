bin_PROGRAMS += vramtap
vramtap_SOURCES = src/cmd/main.c
vramtap_LDADD = \
	src/report/libreport.a src/walk/libwalk.a src/inject/libinject.a \
	src/target/libtarget.a src/base/libbase.a $(VT_LIBS)
vramtap_LDFLAGS = $(VT_STATIC_FLAGS) -pthread
