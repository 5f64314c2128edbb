# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/report/libreport.a
src_report_libreport_a_SOURCES = \
	src/report/save.c src/report/save.h \
	src/report/writer.h
