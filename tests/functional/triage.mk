functional_tests += tests/functional/triage.py
EXTRA_DIST += tests/functional/triage.py tests/targets/triage_job.py
