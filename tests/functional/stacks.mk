# vramtap stacks: its options and formats, what it says about waits, and stacks without stopping.
functional_tests += \
	tests/functional/again.py \
	tests/functional/stacks_cli.py \
	tests/functional/stacks_no_stop.py \
	tests/functional/stacks_waits.py

# Memory and stacks as profiles, against what reads those.
functional_tests += tests/functional/profiles.py
EXTRA_DIST += tests/functional/profile_files.py tests/targets/torch_profile.py
