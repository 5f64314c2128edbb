# SPDX-License-Identifier: Apache-2.0
# The stub: flat code that runs in a borrowed thread of the target. Built like the helper, and linked by a script that
# refuses data, relocations and calls to anything outside.
stub_sources = \
	src/inject/arch/$(VT_ARCH)/entry.S \
	src/inject/arch/$(VT_ARCH)/leave.c \
	src/inject/stub/stub.c
stub_cflags = $(freestanding_cflags) -Os -fPIE -fno-jump-tables -mgeneral-regs-only -fomit-frame-pointer \
	-I$(top_srcdir)/include -I$(top_srcdir)/src
stub_headers = src/inject/stub/leave.h src/inject/stub/stub.h src/inject/arch/frame.h src/inject/arch/$(VT_ARCH)/frame.h \
	$(arch_headers) include/vramtap/freestanding.h
stub_objects = $(call freestanding_objects,$(stub_sources),stub)
stub_compile = $(CC) $(stub_cflags) -c -o $@ $<

%.stub.o: %.c $(stub_headers) Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_CC)$(stub_compile)
%.stub.o: %.S $(stub_headers) Makefile
	@$(MKDIR_P) $(@D)
	$(AM_V_CPPAS)$(stub_compile)

src/inject/stub/stub.bin: $(stub_objects) src/inject/stub/stub.lds Makefile
	$(AM_V_CCLD)$(CC) $(stub_cflags) $(freestanding_ldflags) -static -Wl,--build-id=none \
		-Wl,-T,$(top_srcdir)/src/inject/stub/stub.lds -o src/inject/stub/stub.elf $(stub_objects)
	$(AM_V_at)$(OBJCOPY) -O binary -j .text src/inject/stub/stub.elf $@

CLEANFILES += src/inject/stub/stub.bin src/inject/stub/stub.elf $(stub_objects)
EXTRA_DIST += src/inject/stub/stub.c src/inject/stub/stub.lds
