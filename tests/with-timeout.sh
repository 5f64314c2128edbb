#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one test of the suite with a time limit and without standard input; a test that hangs fails. The last line of its log
# says how long it took.
begin=$(date +%s)
timeout -k 10 "${VRAMTAP_TEST_TIMEOUT:-600}" "$@" </dev/null
status=$?
printf 'took %s s\n' "$(($(date +%s) - begin))"
exit $status
