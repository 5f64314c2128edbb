# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/prometheus/libprometheus.a
src_prometheus_libprometheus_a_SOURCES = src/prometheus/prometheus.c src/prometheus/prometheus.h
