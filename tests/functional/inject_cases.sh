#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the test program of this name; the suite knows tests by their ending.
[ -x "$VRAMTAP_BUILD_DIR/tests/functional/inject_cases" ] || {
	echo 'not built: cmocka is missing'
	exit 77
}
exec "$VRAMTAP_BUILD_DIR/tests/functional/inject_cases"
