# SPDX-License-Identifier: Apache-2.0
# Unit tests: cmocka programs, each in the folder of its room and linked to that room (src/local.mk), and scripts that
# look at the sources.
unit_tests =
unit_scripts = tests/unit/gdb/forget.sh tests/unit/helper/driver_abi.sh tests/unit/circles.py tests/unit/docs.sh tests/unit/hardening.sh tests/unit/install.sh tests/unit/layers.sh tests/unit/notices.sh tests/unit/test_circles.py
unit_cppflags = $(AM_CPPFLAGS) -I$(top_srcdir)/tests $(CMOCKA_CFLAGS)
unit_libs = $(CMOCKA_LIBS) $(VT_LIBS) -lpthread
EXTRA_DIST += $(unit_scripts) tests/unit/install.list tests/alone.py tests/with-timeout.sh
if HAVE_CMOCKA
check_PROGRAMS += $(unit_tests)
include tests/unit/base/local.mk
include tests/unit/faults/local.mk
include tests/unit/json/local.mk
include tests/unit/prometheus/local.mk
include tests/unit/target/local.mk
include tests/unit/target/arch/local.mk
include tests/unit/target/core/local.mk
include tests/unit/walk/torch/local.mk
include tests/unit/walk/python/local.mk
include tests/unit/walk/heap/local.mk
include tests/unit/walk/native/local.mk
include tests/unit/walk/recorder/local.mk
include tests/unit/model/local.mk
include tests/unit/advise/local.mk
include tests/unit/explain/local.mk
include tests/unit/owners/local.mk
include tests/unit/collect/local.mk
include tests/unit/record/local.mk
include tests/unit/report/local.mk
include tests/unit/report/text/local.mk
include tests/unit/report/profile/local.mk
include tests/unit/report/json/local.mk
include tests/unit/report/diff/local.mk
include tests/unit/report/snapshot/local.mk
include tests/unit/job/local.mk
include tests/unit/job/ras/local.mk
include tests/unit/triage/local.mk
include tests/unit/kernels/local.mk
include tests/unit/usage/local.mk
include tests/unit/gdb/local.mk
include tests/unit/inject/local.mk
if VT_RECORDS
include tests/unit/helper/local.mk
endif
endif
