# States of privileges, and kernels, that the machine of the tests does not have: in a virtual machine (tests/setup/vm.sh).
check_PROGRAMS += tests/targets/guarded
tests_targets_guarded_SOURCES = tests/targets/guarded.c $(spy_sources)
tests_targets_guarded_CFLAGS = $(victim_cflags)
tests_targets_guarded_LDADD = -lpthread -ldl
EXTRA_DIST += tests/vm/init.sh tests/vm/kernels.py tests/vm/machine.py tests/vm/privileges.py tests/vm/states.py

# Not of check-functional: an emulated processor takes minutes. The kernels that are not in the cache are brought.
check-vm: all $(check_PROGRAMS)
	sh $(srcdir)/tests/setup/vm.sh 6.1 $(VM_KERNELS)
	for script in privileges kernels; do \
		VRAMTAP_SOURCE_DIR='$(abs_top_srcdir)' VRAMTAP_BUILD_DIR='$(abs_top_builddir)' PYTHONPATH='$(abs_top_srcdir)/tests/functional' VM_KERNELS='$(VM_KERNELS)' \
			python3 -B $(srcdir)/tests/vm/$$script.py || exit 1; \
	done
VM_KERNELS = 5.10 6.1 6.12 new
.PHONY: check-vm
