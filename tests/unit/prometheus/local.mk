# SPDX-License-Identifier: Apache-2.0
unit_tests += tests/unit/prometheus/test_prometheus
tests_unit_prometheus_test_prometheus_SOURCES = tests/unit/prometheus/test_prometheus.c
tests_unit_prometheus_test_prometheus_CPPFLAGS = $(unit_cppflags)
tests_unit_prometheus_test_prometheus_LDADD = $(vt_prometheus) $(unit_libs)
