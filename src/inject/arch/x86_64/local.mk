# SPDX-License-Identifier: Apache-2.0
EXTRA_src_inject_libinject_a_SOURCES += \
	src/inject/arch/x86_64/caught.c src/inject/arch/x86_64/caught.h \
	src/inject/arch/x86_64/frame.h \
	src/inject/arch/x86_64/stack.c \
	src/inject/arch/x86_64/step.c \
	src/inject/arch/x86_64/xstate.c
EXTRA_DIST += src/inject/arch/x86_64/entry.S src/inject/arch/x86_64/leave.c
