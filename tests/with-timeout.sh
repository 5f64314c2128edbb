#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs one test of the suite with a time limit and without standard input; a test that hangs fails. The last line of its log
# says how long it took, and how long processors worked for it: beside other work only the latter tells what a test costs.
begin=$(date +%s)
timeout -k 10 "${VRAMTAP_TEST_TIMEOUT:-600}" "$@" </dev/null
status=$?
# cutime and cstime of proc(5): what this shell has waited for, in ticks of USER_HZ, which is 100.
read -r _ _ _ _ _ _ _ _ _ _ _ _ _ _ _ cutime cstime _ </proc/$$/stat
printf 'took %s s, %s s of processors\n' "$(($(date +%s) - begin))" "$(((cutime + cstime + 50) / 100))"
exit $status
