noinst_LIBRARIES += src/inject/libinject.a
src_inject_libinject_a_SOURCES = \
	src/inject/borrow.c src/inject/borrow.h \
	src/inject/channel.c src/inject/channel.h \
	src/inject/choose.c src/inject/choose.h \
	src/inject/embed.S \
	src/inject/recorder/gate.c src/inject/recorder/gate.h \
	src/inject/helper.c \
	src/inject/image.c src/inject/image.h \
	src/inject/inject.h \
	src/inject/lock.c \
	src/inject/place.c src/inject/place.h \
	src/inject/recorder/recorder.c src/inject/recorder/recorder.h \
	src/inject/recorder/cupti.c src/inject/recorder/cupti.h \
	src/inject/recorder/got.c src/inject/recorder/got.h \
	src/inject/refuse.c src/inject/refuse.h \
	src/inject/seccomp.c src/inject/seccomp.h \
	src/inject/stub/stub.h \
	src/inject/symbols.c src/inject/symbols.h \
	src/inject/recorder/trap.c src/inject/recorder/trap.h \
	src/inject/xstate.c src/inject/xstate.h

# The stub: flat code that runs in a borrowed thread of the target. Built like the helper, and linked by a script that
# refuses data, relocations and calls to anything outside.
stub_sources = src/inject/stub/entry.S src/inject/stub/stub.c
stub_cflags = $(freestanding_cflags) -Os -fPIE -fno-jump-tables -mgeneral-regs-only -fomit-frame-pointer \
	-I$(top_srcdir)/src
src/inject/stub/stub.bin: $(stub_sources) src/inject/stub/stub.h src/inject/stub/stub.lds helper/sys.h Makefile
	@$(MKDIR_P) src/inject/stub
	$(AM_V_CCLD)$(CC) $(stub_cflags) $(freestanding_ldflags) -static -Wl,--build-id=none \
		-Wl,-T,$(top_srcdir)/src/inject/stub/stub.lds -o src/inject/stub/stub.elf \
		$(top_srcdir)/src/inject/stub/entry.S $(top_srcdir)/src/inject/stub/stub.c
	$(AM_V_at)$(OBJCOPY) -O binary -j .text src/inject/stub/stub.elf $@

src/inject/embed.$(OBJEXT): helper/vramtap-helper.so helper/vramtap-recorder.so src/inject/stub/stub.bin

CLEANFILES += src/inject/stub/stub.bin src/inject/stub/stub.elf
EXTRA_DIST += $(stub_sources) src/inject/stub/stub.lds
