# A cross build for aarch64, in an emulated machine of that architecture (tests/setup/aarch64.sh).
EXTRA_DIST += tests/aarch64/initrd.sh tests/aarch64/inside.py tests/aarch64/inside.sh tests/aarch64/run tests/aarch64/stacks.py tests/aarch64/tests

# Not of check-functional: an emulated processor takes minutes. In the build for aarch64 itself, without building it once more.
check-aarch64: all
	-$(MAKE) -k check TESTS=
	python3 -B $(srcdir)/tests/aarch64/run --build '$(abs_top_builddir)' $(AARCH64_ARGUMENTS)
AARCH64_ARGUMENTS =
.PHONY: check-aarch64
