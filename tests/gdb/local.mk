# gdb's commands, in every gdb that tests/setup/prepare.sh has brought and in the machine's own.
functional_tests += \
	tests/gdb/frames.py \
	tests/gdb/kernels.py \
	tests/gdb/language.py \
	tests/gdb/long_answers.py \
	tests/gdb/inferiors.py \
	tests/gdb/memory.py \
	tests/gdb/outside.py \
	tests/gdb/unchanged.py \
	tests/gdb/wrong_use.py
EXTRA_DIST += tests/gdb/session.py
