# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/job/prometheus/libprometheus.a
src_job_prometheus_libprometheus_a_SOURCES = src/job/prometheus/prometheus.c src/job/prometheus/prometheus.h
