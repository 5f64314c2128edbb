# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/report/profile/libprofile.a
src_report_profile_libprofile_a_SOURCES = \
	src/report/profile/building.c src/report/profile/building.h \
	src/report/profile/comments.c \
	src/report/profile/folded.c src/report/profile/formats.h \
	src/report/profile/gzip.c src/report/profile/gzip.h \
	src/report/profile/memory.c src/report/profile/memory.h \
	src/report/profile/others.c \
	src/report/profile/owner_path.c \
	src/report/profile/pprof.c \
	src/report/profile/profile.c src/report/profile/profile.h \
	src/report/profile/protobuf.c src/report/profile/protobuf.h \
	src/report/profile/speedscope.c \
	src/report/profile/stacks.c src/report/profile/stacks.h \
	src/report/profile/texts.c src/report/profile/texts.h \
	src/report/profile/threads.c src/report/profile/threads.h
