# SPDX-License-Identifier: Apache-2.0
noinst_LIBRARIES += src/job/html/libhtml.a
src_job_html_libhtml_a_SOURCES = src/job/html/html.c src/job/html/html.h
