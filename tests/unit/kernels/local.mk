# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/kernels/test_parse
tests_unit_kernels_test_parse_SOURCES = tests/unit/kernels/test_parse.c
tests_unit_kernels_test_parse_CPPFLAGS = $(unit_cppflags)
tests_unit_kernels_test_parse_LDADD = $(vt_kernels) $(unit_libs)
EXTRA_DIST += tests/unit/kernels/crash.txt tests/unit/kernels/idle.txt tests/unit/kernels/lines.txt tests/unit/kernels/pytorch.txt tests/unit/kernels/refused.txt tests/unit/kernels/two.txt
