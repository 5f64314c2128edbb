#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The recorder's own tests with ThreadSanitizer. With 32 random bits in addresses (vm.mmap_rnd_bits) that of gcc 12 and
# clang 14 does not start.
set -u
status=0
for test in test_recorder_tsan test_recorder_driver_tsan test_launches_tsan; do
	if setarch "$(uname -m)" -R true 2>/dev/null; then
		setarch "$(uname -m)" -R "$VRAMTAP_BUILD_DIR/tests/unit/helper/$test" || status=1
	else
		"$VRAMTAP_BUILD_DIR/tests/unit/helper/$test" || status=1
	fi
done
exit $status
