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
	src/inject/space.c src/inject/space.h \
	src/inject/refuse.c src/inject/refuse.h \
	src/inject/seccomp.c src/inject/seccomp.h \
	src/inject/step.c src/inject/step.h \
	src/inject/symbols.c src/inject/symbols.h \
	src/inject/xstate.c src/inject/xstate.h \
	src/inject/stub/stub.h

src/inject/embed.$(OBJEXT): helper/vramtap-helper.so helper/vramtap-recorder.so src/inject/stub/stub.bin
