# vramtap stacks: its options and formats, what it says about waits, and stacks without stopping.
functional_tests += \
	tests/functional/again.py \
	tests/functional/stacks_cli.py \
	tests/functional/stacks_no_stop.py \
	tests/functional/stacks_waits.py
