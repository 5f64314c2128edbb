# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/json/libjson.a
src_json_libjson_a_SOURCES = \
	src/json/in.c src/json/in.h \
	src/json/out.c src/json/out.h
