# What vramtap relieve gives back, and what it refuses.
functional_tests += tests/functional/relieve.py
