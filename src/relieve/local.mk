# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/relieve/librelieve.a
src_relieve_librelieve_a_SOURCES = \
	src/relieve/amounts.c \
	src/relieve/json.c \
	src/relieve/look.c src/relieve/look.h \
	src/relieve/relieve.c src/relieve/relieve.h \
	src/relieve/text.c \
	src/relieve/words.c src/relieve/words.h \
	src/relieve/write.h
