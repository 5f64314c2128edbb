# Reports of odd and hostile targets: no harm, no hang, no false word.
functional_tests += tests/functional/report_odd.py
