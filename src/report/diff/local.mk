# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/report/diff/libdiff.a
src_report_diff_libdiff_a_SOURCES = \
	src/report/diff/course.c src/report/diff/course.h \
	src/report/diff/diff.c src/report/diff/diff.h \
	src/report/diff/growth.c src/report/diff/growth.h \
	src/report/diff/grown.c src/report/diff/grown.h \
	src/report/diff/headlines.c src/report/diff/headlines.h \
	src/report/diff/keepers.c src/report/diff/keepers.h \
	src/report/diff/json.c \
	src/report/diff/ledger.c src/report/diff/ledger.h \
	src/report/diff/lines.c src/report/diff/lines.h \
	src/report/diff/owners.c src/report/diff/owners.h \
	src/report/diff/text.c
