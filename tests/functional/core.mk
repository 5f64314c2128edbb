functional_tests += tests/functional/core.py tests/functional/core_aarch64.py
EXTRA_DIST += tests/functional/core.py tests/functional/core_aarch64.py
