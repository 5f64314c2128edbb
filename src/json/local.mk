# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/json/libjson.a
src_json_libjson_a_SOURCES = \
	src/json/in.c src/json/in.h \
	src/json/jansson.c src/json/jansson.h \
	src/json/limits.h \
	src/json/parse.c src/json/parse.h \
	src/json/parser.h src/json/plain.h \
	src/json/stream.c src/json/stream.h \
	src/json/value.c src/json/value.h \
	src/json/out.c src/json/out.h
