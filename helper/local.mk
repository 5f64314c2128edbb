# The library that runs inside the target: freestanding, links nothing. It is built by its own rule and its own flags, not
# by $(CFLAGS): what distributions add there (stack protector, CET, LTO, sanitizers) must not get into foreign processes.
helper_sources = \
	helper/blocks.c \
	helper/cuda.c \
	helper/flight.c \
	helper/jax.c \
	helper/limits.c \
	helper/load.c \
	helper/main.c \
	helper/map.c \
	helper/mem.c \
	helper/owners.c \
	helper/owners_class.c \
	helper/owners_follow.c \
	helper/owners_record.c \
	helper/owners_tensor.c \
	helper/python.c \
	helper/ranges.c \
	helper/ranges_keep.c \
	helper/ranges_walk.c \
	helper/ranges_what.c \
	helper/relieve.c \
	helper/streams.c \
	helper/torch.c \
	helper/why.c \
	src/walk/torch/read.c \
	src/walk/torch/walk.c \
	src/walk/torch/walk_bulk.c \
	src/walk/torch/walk_events.c \
	src/walk/torch/walk_outcome.c \
	src/walk/torch/walk_sort.c
helper_headers = \
	helper/context.h \
	helper/map.h \
	helper/ops.h \
	helper/owners.h \
	helper/python.h \
	helper/ranges.h \
	include/vramtap/driver_abi.h \
	$(arch_headers) \
	include/vramtap/freestanding.h \
	include/vramtap/helper_abi.h \
	include/vramtap/libpools.h \
	include/vramtap/mem.h \
	include/vramtap/ranges.h \
	include/vramtap/recorder.h \
	include/vramtap/relieve.h \
	include/vramtap/torch.h \
	src/walk/torch/torch.h \
	src/walk/torch/abi.h \
	src/walk/torch/walk_state.h

# Common with the stub (src/inject/local.mk).
freestanding_cflags = -std=gnu11 -ffreestanding -fno-builtin -fno-stack-protector $(VT_ARCH_CFLAGS) -fvisibility=hidden \
	-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions -fno-lto -g0 -U_FORTIFY_SOURCE $(VT_WARNINGS)
freestanding_ldflags = -nostdlib -Wl,-z,noexecstack -Wl,-z,max-page-size=$(VT_ARCH_PAGE) -Wl,-z,noseparate-code

# $(call freestanding_objects,SOURCES,PART): each beside its source, under the name of the part that it is compiled for.
freestanding_objects = $(patsubst %.S,%.$(2).o,$(patsubst %.c,%.$(2).o,$(1)))

helper_cflags = $(freestanding_cflags) -O2 -fPIC -DVT_HELPER_BUILD -I$(top_srcdir)/include -I$(top_srcdir)/src
helper_ldflags = $(freestanding_ldflags) -shared -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,norelro -Wl,-z,now -Wl,-s \
	-Wl,--build-id=sha1 -Wl,--hash-style=gnu -Wl,-e,vt_helper_main

helper_objects = $(call freestanding_objects,$(helper_sources),helper)

%.helper.o: %.c $(helper_headers) Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(CC) $(helper_cflags) -c -o $@ $<

helper/vramtap-helper.so: $(helper_objects)
	$(AM_V_CCLD)$(CC) $(helper_cflags) $(helper_ldflags) -o $@ $(helper_objects)

CLEANFILES += helper/vramtap-helper.so $(helper_objects)
EXTRA_DIST += $(helper_sources) $(helper_headers)
