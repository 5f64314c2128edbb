# SPDX-License-Identifier: Apache-2.0
# One folder for each architecture, with the same files. Automake sees all; the library gets the native one's (inject_arch).
src_inject_libinject_a_SOURCES += \
	src/inject/arch/arch.h \
	src/inject/arch/frame.h \
	src/inject/arch/xstate.h
EXTRA_src_inject_libinject_a_SOURCES =
include src/inject/arch/aarch64/local.mk
include src/inject/arch/x86_64/local.mk
