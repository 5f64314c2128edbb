# SPDX-License-Identifier: Apache-2.0
EXTRA_src_inject_libinject_a_SOURCES += \
	src/inject/arch/aarch64/caught.c src/inject/arch/aarch64/caught.h \
	src/inject/arch/aarch64/frame.h \
	src/inject/arch/aarch64/stack.c \
	src/inject/arch/aarch64/step.c \
	src/inject/arch/aarch64/xstate.c
EXTRA_DIST += src/inject/arch/aarch64/entry.S src/inject/arch/aarch64/leave.c
