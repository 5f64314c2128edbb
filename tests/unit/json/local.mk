# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/json/test_stream
tests_unit_json_test_stream_SOURCES = tests/unit/json/test_stream.c
tests_unit_json_test_stream_CPPFLAGS = $(unit_cppflags)
tests_unit_json_test_stream_LDADD = $(vt_json) $(unit_libs)
