# SPDX-License-Identifier: Apache-2.0
# What each room is linked with: itself, and the rooms that it may know (tests/unit/layers.sh has the same table for
# includes). Tests link one of these and no more.
vt_base = src/base/libbase.a
vt_prometheus = src/prometheus/libprometheus.a $(vt_base)
vt_json = src/json/libjson.a $(vt_base)
vt_target = src/target/core/libcore.a src/target/libtarget.a $(vt_base)
vt_usage = src/usage/libusage.a $(vt_base)
vt_kernels = src/kernels/libkernels.a $(vt_model)
vt_faults = src/faults/libfaults.a $(vt_base)
vt_inject = src/inject/recorder/librecorder.a src/inject/libinject.a $(vt_target)
vt_owners_alone = src/owners/libowners.a src/walk/tensors/libtensors.a src/walk/arrays/libarrays.a src/walk/pyheap/libpyheap.a \
	src/walk/heap/libheap.a src/walk/python/libpython.a src/walk/native/libnative.a src/model/libmodel.a \
	$(vt_target) $(vt_json)
vt_walk = src/walk/torch/libtorch.a src/walk/recorder/librecorder.a src/walk/pyheap/libpyheap.a src/walk/python/libpython.a \
	src/walk/heap/libheap.a src/walk/native/libnative.a $(vt_target)
vt_model = src/model/libmodel.a $(vt_json)
vt_advise = src/advise/libadvise.a $(vt_model)
vt_explain = src/explain/libexplain.a src/model/libmodel.a $(vt_walk)
vt_report = src/report/html/libhtml.a src/report/diff/libdiff.a src/report/text/libtext.a src/report/profile/libprofile.a \
	src/report/snapshot/libsnapshot.a \
	src/report/json/libjson.a src/report/libreport.a $(vt_model)
vt_job = src/job/html/libhtml.a src/job/profile/libprofile.a src/job/text/libtext.a src/job/prometheus/libprometheus.a src/prometheus/libprometheus.a src/job/json/libjson.a src/job/ras/libras.a src/job/rules/librules.a src/job/libjob.a \
	$(vt_report)
vt_owners = src/owners/libowners.a src/walk/tensors/libtensors.a src/walk/arrays/libarrays.a src/walk/pyheap/libpyheap.a \
	src/walk/heap/libheap.a
vt_collect = src/collect/libcollect.a src/advise/libadvise.a src/usage/libusage.a src/kernels/libkernels.a src/faults/libfaults.a $(vt_owners) src/explain/libexplain.a src/inject/recorder/librecorder.a \
	src/inject/libinject.a src/walk/torch/libtorch.a src/walk/recorder/librecorder.a src/walk/libpools/liblibpools.a src/walk/asyncio/libasyncio.a src/walk/pyheap/libpyheap.a \
	src/walk/python/libpython.a src/walk/heap/libheap.a src/walk/native/libnative.a src/model/libmodel.a src/target/core/libcore.a src/target/libtarget.a $(vt_json)
vt_engines = src/cluster/libcluster.a src/ps/libps.a src/relieve/librelieve.a src/triage/libtriage.a src/record/librecord.a src/gdb/libgdb.a
vt_all_rooms = $(vt_engines) src/job/html/libhtml.a src/job/profile/libprofile.a src/job/text/libtext.a src/job/prometheus/libprometheus.a src/prometheus/libprometheus.a src/job/json/libjson.a src/job/ras/libras.a \
	src/job/rules/librules.a src/job/libjob.a src/report/html/libhtml.a src/report/diff/libdiff.a src/report/text/libtext.a \
	src/report/profile/libprofile.a src/report/snapshot/libsnapshot.a src/report/json/libjson.a src/report/libreport.a $(vt_collect)

include src/base/local.mk
include src/json/local.mk
include src/prometheus/local.mk
include src/target/local.mk
include src/target/core/local.mk
include src/faults/local.mk
include src/kernels/local.mk
include src/usage/local.mk
include src/usage/asker/local.mk
include src/inject/local.mk
include src/inject/stub/local.mk
include src/inject/recorder/local.mk
include src/walk/native/local.mk
include src/walk/heap/local.mk
include src/walk/python/local.mk
include src/walk/pyheap/local.mk
include src/walk/asyncio/local.mk
include src/walk/tensors/local.mk
include src/walk/arrays/local.mk
include src/walk/libpools/local.mk
include src/walk/torch/local.mk
include src/walk/recorder/local.mk
include src/model/local.mk
include src/advise/local.mk
include src/explain/local.mk
include src/owners/local.mk
include src/collect/local.mk
include src/report/local.mk
include src/report/text/local.mk
include src/report/profile/local.mk
include src/report/snapshot/local.mk
include src/report/json/local.mk
include src/report/html/local.mk
include src/report/diff/local.mk
include src/job/local.mk
include src/job/rules/local.mk
include src/job/ras/local.mk
include src/job/html/local.mk
include src/job/json/local.mk
include src/job/prometheus/local.mk
include src/job/text/local.mk
include src/job/profile/local.mk
include src/ps/local.mk
include src/cluster/local.mk
include src/triage/local.mk
include src/record/local.mk
include src/relieve/local.mk
include src/gdb/local.mk
include src/cmd/local.mk
include src/cmd/completion/local.mk
