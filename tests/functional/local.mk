# Functional tests: they drive the built program against real processes. Each part adds its own.
functional_tests = \
	tests/functional/report_cli.py \
	tests/functional/report_hostile.py \
	tests/functional/report_soak.py \
	tests/functional/report_torch.py
# Of all of them: those that measure no time, or leave seconds, look at no process but their own, and need no idle processor.
tests_beside = \
	tests/functional/python_frames.py \
	tests/functional/triage_collectives.py \
	tests/gdb/frames.py \
	tests/functional/gdb_docs.py \
	tests/gdb/memory.py \
	tests/functional/triage_ras.py \
	tests/gdb/wrong_use.py \
	tests/functional/python_values.py \
	tests/gdb/outside.py \
	tests/functional/recorder_torch.py \
	tests/functional/report_official.py \
	tests/functional/recorder_oom.py \
	tests/functional/native_stacks.py \
	tests/functional/torch_history.py \
	tests/gdb/unchanged.py \
	tests/functional/recorder_report.py \
	tests/functional/native_lines.py \
	tests/gdb/inferiors.py \
	tests/functional/recorder_capture.py \
	tests/functional/report_pinned.py \
	tests/functional/recorder_driver.py \
	tests/functional/torch_walk.py \
	tests/functional/triage_engines.py \
	tests/functional/torch_layouts.py \
	tests/gdb/language.py
EXTRA_DIST += $(functional_tests) tests/functional/harness.py tests/functional/heartbeats.py tests/functional/torch_truth.py
include tests/functional/python.mk
include tests/functional/native.mk
include tests/functional/torch.mk
include tests/functional/inject.mk
include tests/functional/odd.mk
include tests/functional/stacks.mk
include tests/functional/core.mk
include tests/functional/capture.mk
include tests/functional/recorder.mk
include tests/functional/gdb_docs.mk
include tests/functional/triage.mk
