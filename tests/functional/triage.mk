# vramtap triage.
functional_tests += tests/functional/triage.py
functional_tests += tests/functional/triage_slurm.py tests/functional/triage_engines.py
EXTRA_DIST += tests/functional/cluster.py
