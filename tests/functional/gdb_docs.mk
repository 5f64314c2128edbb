functional_tests += tests/functional/gdb_docs.py
