# gdb's commands, in every gdb that tests/setup/prepare.sh has brought and in the machine's own.
functional_tests += \
	tests/gdb/frames.py \
	tests/gdb/language.py \
	tests/gdb/memory.py
EXTRA_DIST += tests/gdb/session.py
