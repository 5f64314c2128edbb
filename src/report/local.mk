# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/report/libreport.a
src_report_libreport_a_SOURCES = \
	src/report/advice_words.c src/report/advice_words.h \
	src/report/save.c src/report/save.h \
	src/report/state_words.c src/report/state_words.h \
	src/report/writer.h
