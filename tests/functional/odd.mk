# Reports of odd and hostile targets: no harm, no hang, no false word.
functional_tests += tests/functional/report_odd.py
# Who uses the devices, by a management library that a test tells what to say.
functional_tests += tests/functional/faults.py tests/functional/usage.py
# All processes of the machine.
functional_tests += tests/functional/ps.py
# Where and when: host, time, device, container, job.
functional_tests += tests/functional/where.py
