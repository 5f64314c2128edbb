# SPDX-License-Identifier: Apache-2.0
src_target_libtarget_a_SOURCES += \
	src/target/arch/x86_64/code.c src/target/arch/x86_64/code.h \
	src/target/arch/x86_64/kernel.h \
	src/target/arch/x86_64/pthread.c src/target/arch/x86_64/pthread.h \
	src/target/arch/x86_64/regs.c src/target/arch/x86_64/regs.h \
	src/target/arch/x86_64/syscall_names.h
EXTRA_src_target_libtarget_a_SOURCES += src/target/arch/x86_64/live.c
