# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/usage/libusage.a
src_usage_libusage_a_SOURCES = \
	src/usage/ask.c \
	src/usage/embed.S \
	src/usage/health.c src/usage/health.h \
	src/usage/reading.c \
	src/usage/usage.h

src/usage/embed.$(OBJEXT): src/usage/asker/asker
