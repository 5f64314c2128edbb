# The recorder: a library that the target loads. Freestanding like the helper, but a proper library with call frame
# information, so that C++ exceptions, and debuggers, find their way through it. Without vector registers: the target's stay as they
# are, and gcc does not pack into them what unwinding waits for. It unwinds on stacks that may be small, and keeps its own
# architecture's registers only.
recorder_sources = \
	helper/mem.c \
	helper/recorder/blocks.c \
	helper/recorder/cupti.c \
	helper/recorder/driver.c \
	helper/recorder/driver_calls.c \
	helper/recorder/arch/$(VT_ARCH)/driver_entry.S \
	helper/recorder/driver_table.c \
	helper/recorder/arch/$(VT_ARCH)/entry.S \
	helper/recorder/gate.c \
	helper/recorder/got.c \
	helper/recorder/hook.c \
	helper/recorder/lanes.c \
	helper/recorder/launches.c \
	helper/recorder/launch_names.c \
	helper/recorder/memo.c \
	helper/recorder/memory.c \
	helper/recorder/native.c \
	helper/recorder/oom.c \
	helper/recorder/python.c \
	helper/recorder/record.c \
	helper/recorder/stacks.c \
	helper/recorder/state.c \
	helper/recorder/unwind.c \
	src/walk/native/cfi.c
recorder_headers = \
	helper/recorder/driver.h \
	include/vramtap/gate.h \
	include/vramtap/recorder_calls.h \
	helper/recorder/lanes.h \
	helper/recorder/launch_names.h \
	helper/recorder/internal.h \
	helper/recorder/memo.h \
	helper/recorder/unwind.h \
	$(arch_headers) \
	include/vramtap/freestanding.h \
	include/vramtap/launches.h \
	include/vramtap/recorder.h \
	src/target/arch/arch.h \
	src/target/arch/regs.h \
	src/target/arch/x86_64/regs.h \
	src/walk/native/cfi.h

recorder_cflags = $(filter-out -fno-asynchronous-unwind-tables -fno-unwind-tables,$(freestanding_cflags)) \
	-fasynchronous-unwind-tables -mgeneral-regs-only -O2 -fPIC -DVT_RECORDER_BUILD -DVT_MAX_REGS=17 -I$(top_srcdir)/include -I$(top_srcdir)/src \
	-I$(top_srcdir)/helper
recorder_ldflags = $(freestanding_ldflags) -shared -Wl,-Bsymbolic -Wl,-z,defs -Wl,-z,now -Wl,-s -Wl,--eh-frame-hdr \
	-Wl,--build-id=sha1 -Wl,--hash-style=gnu -Wl,-soname,libvramtap-recorder.so -Wl,-e,vt_recorder_control

recorder_objects = $(call freestanding_objects,$(recorder_sources),recorder)
recorder_compile = $(CC) $(recorder_cflags) -c -o $@ $<

%.recorder.o: %.c $(recorder_headers) Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(recorder_compile)
%.recorder.o: %.S $(recorder_headers) Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_CPPAS)$(recorder_compile)

helper/vramtap-recorder.so: $(recorder_objects)
	$(AM_V_CCLD)$(CC) $(recorder_cflags) $(recorder_ldflags) -o $@ $(recorder_objects)

CLEANFILES += helper/vramtap-recorder.so $(recorder_objects)
EXTRA_DIST += $(recorder_sources) $(recorder_headers)
