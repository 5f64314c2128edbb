#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gdb's commands forget the same variables that vramtap gdb sets: the lists of gdbcmds/vramtap.gdb.in and src/gdb/values.c
# are equal. (The commands are embedded as they are, so that the list is not generated.)
set -eu
cd "${VRAMTAP_SOURCE_DIR:-$(dirname "$0")/../../..}"

set_by_vramtap=$(sed -n 's/^	{ VT_GDB_.*"\(vt_[a-z_]*\)" },$/\1/p' src/gdb/values.c)
forgotten=$(sed -n '/^define _vramtap forget/,/^end/s/^  set \$\(vt_[a-z_]*\) = (void)0$/\1/p' gdbcmds/vramtap.gdb.in)

[ "$(printf '%s\n' "$set_by_vramtap" | wc -l)" -gt 20 ] || { echo "no variables in src/gdb/values.c"; exit 1; }
if [ "$set_by_vramtap" != "$forgotten" ]; then
	echo "variables of src/gdb/values.c, then those that gdbcmds/vramtap.gdb.in forgets:"
	printf '%s\n\n%s\n' "$set_by_vramtap" "$forgotten"
	exit 1
fi
