# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/inject/libinject.a
src_inject_libinject_a_SOURCES = \
	src/inject/borrow.c src/inject/borrow.h \
	src/inject/channel.c src/inject/channel.h \
	src/inject/choose.c src/inject/choose.h \
	src/inject/cuda_imports.c src/inject/cuda_imports.h \
	src/inject/embed.S \
	src/inject/helper.c \
	src/inject/image.c src/inject/image.h \
	src/inject/inject.h \
	src/inject/lock.c \
	src/inject/refuse.c src/inject/refuse.h \
	src/inject/seccomp.c src/inject/seccomp.h \
	src/inject/space.c src/inject/space.h \
	src/inject/step.c src/inject/step.h \
	src/inject/stub/leave.h src/inject/stub/stub.h \
	src/inject/symbols.c src/inject/symbols.h
src/inject/embed.$(OBJEXT): helper/vramtap-helper.so src/inject/stub/stub.bin

# What of it depends on the processor (VT_ARCH).
inject_arch = \
	src/inject/arch/$(VT_ARCH)/caught.$(OBJEXT) \
	src/inject/arch/$(VT_ARCH)/stack.$(OBJEXT) \
	src/inject/arch/$(VT_ARCH)/step.$(OBJEXT) \
	src/inject/arch/$(VT_ARCH)/xstate.$(OBJEXT)
src_inject_libinject_a_LIBADD = $(inject_arch)
src_inject_libinject_a_DEPENDENCIES = $(inject_arch)

# The recorder exists for some architectures only (VT_RECORDS, configure.ac).
recorder_embedded = src/inject/embed_recorder.S
recorder_missing = src/inject/without_recorder.S
if VT_RECORDS
src_inject_libinject_a_SOURCES += $(recorder_embedded)
src/inject/embed_recorder.$(OBJEXT): helper/vramtap-recorder.so
else
src_inject_libinject_a_SOURCES += $(recorder_missing)
endif

include src/inject/arch/local.mk
