# SPDX-License-Identifier: Apache-2.0
check_PROGRAMS += tests/unit/report/snapshot/pickle_values
tests_unit_report_snapshot_pickle_values_SOURCES = tests/unit/report/snapshot/pickle_values.c
tests_unit_report_snapshot_pickle_values_LDADD = src/report/snapshot/libsnapshot.a $(vt_base) $(VT_LIBS)
unit_scripts += tests/unit/report/snapshot/pickle_values.py
