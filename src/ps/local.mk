# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/ps/libps.a
src_ps_libps_a_SOURCES = \
	src/ps/json.c \
	src/ps/prometheus.c \
	src/ps/ps.c src/ps/ps.h \
	src/ps/text.c \
	src/ps/torch.c
