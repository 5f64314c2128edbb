# SPDX-License-Identifier: Apache-2.0
# All architectures, and what asks the kernel of the native one (VT_ARCH, configure.ac).
src_target_libtarget_a_SOURCES += \
	src/target/arch/arch.c src/target/arch/arch.h \
	src/target/arch/native.h \
	src/target/arch/regs.h \
	src/target/arch/syscalls.h
EXTRA_src_target_libtarget_a_SOURCES =
src_target_libtarget_a_LIBADD = src/target/arch/$(VT_ARCH)/live.$(OBJEXT)
src_target_libtarget_a_DEPENDENCIES = $(src_target_libtarget_a_LIBADD)
include src/target/arch/aarch64/local.mk
include src/target/arch/x86_64/local.mk
