#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# tar, as "make dist" calls it: what differs from machine to machine is not in the archive.
#
# usage: tar.sh ARGUMENT...     tar's own, the old bundle of letters first
set -eu
epoch=$(sh "$(dirname -- "$0")/epoch.sh")
LC_ALL=C exec tar "$@" --sort=name --owner=0 --group=0 --numeric-owner --mode=u=rwX,go=rX --mtime="@$epoch"
