# SPDX-License-Identifier: Apache-2.0
# The asker: a dynamic program, embedded. Linked with a stand-in for the C library, so that it runs with the glibc of any
# machine; built by its own flags, as the helper is.
asker_cflags = $(freestanding_cflags) -O2 -fPIC $(VT_ARCH_PROGRAM_CFLAGS) -I$(top_srcdir)/include -I$(top_srcdir)/src
asker_sources = src/usage/asker/asker.c src/usage/asker/libdl.c
asker_headers = $(arch_headers) include/vramtap/freestanding.h include/vramtap/usage.h
asker_objects = $(call freestanding_objects,$(asker_sources),asker)
asker_libraries = src/usage/asker/libdl.so.2 src/usage/asker/libc.so.6

%.asker.o: %.c $(asker_headers) Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(CC) $(asker_cflags) -c -o $@ $<

$(asker_libraries): src/usage/asker/libdl.asker.o
	$(AM_V_CCLD)$(CC) $(asker_cflags) $(freestanding_ldflags) -shared -Wl,-soname,$(@F) -o $@ src/usage/asker/libdl.asker.o

src/usage/asker/asker: src/usage/asker/asker.asker.o $(asker_libraries)
	$(AM_V_CCLD)$(CC) $(asker_cflags) $(freestanding_ldflags) -pie -Wl,-z,now -Wl,-z,relro -Wl,-s -Wl,--build-id=none \
		-Wl,--no-as-needed -o $@ src/usage/asker/asker.asker.o $(asker_libraries)

CLEANFILES += src/usage/asker/asker $(asker_libraries) $(asker_objects)
EXTRA_DIST += $(asker_sources) $(asker_headers)
