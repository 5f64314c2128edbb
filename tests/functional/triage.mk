# vramtap triage.
functional_tests += tests/functional/triage.py
