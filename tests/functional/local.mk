# Functional tests: they drive the built program against real processes. Each part adds its own.
functional_tests = \
	tests/functional/completion.py \
	tests/functional/hostile_output.py \
	tests/functional/kernels.py \
	tests/functional/old_kernel.py \
	tests/functional/page_diff.py \
	tests/functional/page_job.py \
	tests/functional/page_pictures.py \
	tests/functional/page_owners.py \
	tests/functional/page_report.py \
	tests/functional/page_threads.py \
	tests/functional/privileges.py \
	tests/functional/quickstart.py \
	tests/functional/readme.py \
	tests/functional/report_cli.py \
	tests/functional/report_hostile.py \
	tests/functional/report_map.py \
	tests/functional/report_soak.py \
	tests/functional/report_torch.py \
	tests/functional/texts.py \
	tests/functional/tutorial.py
EXTRA_DIST += $(functional_tests) tests/functional/browser.py tests/functional/harness.py tests/functional/heartbeats.py tests/functional/nursery.py tests/functional/prometheus_text.py tests/functional/torch_truth.py tests/functional/victims.py
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
include tests/functional/relieve.mk
include tests/functional/triage.mk
