# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/faults/libfaults.a
src_faults_libfaults_a_SOURCES = \
	src/faults/log.c src/faults/log.h \
	src/faults/xid.c src/faults/xid.h
