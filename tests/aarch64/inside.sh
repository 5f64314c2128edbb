#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# The first process of the machine of tests/aarch64/run, on its disk: runs inside.py, what that prints goes to the second serial line and
# what it leaves in /vm/results to the third disk; then it switches the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TMPDIR=/tmp
mkdir -p /dev/shm /dev/pts /vm/results
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs -o size=1G,mode=1777 tmp /tmp
chmod 1777 /dev/shm
hostname vm
busybox ip link set lo up
ln -sf /proc/self/fd /dev/fd
exec </dev/null >/dev/ttyAMA1 2>&1
stty -F /dev/ttyAMA1 raw -echo
echo core.%p >/proc/sys/kernel/core_pattern
# shellcheck disable=SC3045 # dash has it
ulimit -c unlimited
export VRAMTAP_BUILD_DIR=/vm/build VRAMTAP_SOURCE_DIR=/vm/source VRAMTAP_CACHE=/vm/cache
cd /vm/build || exit
python3 /vm/source/tests/aarch64/inside.py
code=$?
tar -c -f /dev/vdc -C /vm/results . || echo 'vm: the results did not find room'
sync
echo "vm: ended with $code"
busybox poweroff -f
