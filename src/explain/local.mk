# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/explain/libexplain.a
src_explain_libexplain_a_SOURCES = \
	src/explain/merge.c src/explain/merge.h \
	src/explain/merge_recorded.c \
	src/explain/verdicts.c src/explain/verdicts.h \
	src/explain/wait.c src/explain/wait.h \
	src/explain/wait_core.c \
	src/explain/wait_fd.c \
	src/explain/wait_frames.c \
	src/explain/wait_futex.c \
	src/explain/wait_internal.h \
	src/explain/wait_say.c \
	src/explain/wait_socket.c
