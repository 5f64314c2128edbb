#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the test program of this name; the suite knows tests by their ending.
[ -x "$VRAMTAP_BUILD_DIR/tests/functional/inject_steps" ] || {
	echo 'not built: cmocka is missing'
	exit 77
}
VT_STUB_INSTRUCTIONS=$(objdump -d "$VRAMTAP_BUILD_DIR/src/inject/stub/stub.elf" | grep -c '^ *[0-9a-f]*:	')
export VT_STUB_INSTRUCTIONS
exec "$VRAMTAP_BUILD_DIR/tests/functional/inject_steps"
