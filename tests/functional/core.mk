functional_tests += tests/functional/core.py
EXTRA_DIST += tests/functional/core.py
