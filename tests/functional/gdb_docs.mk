functional_tests += tests/functional/gdb_docs.py
EXTRA_DIST += tests/functional/gdb_docs.py
