#!/usr/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# The first process of the virtual machine of machine.py: runs /vm/command with its output on the second serial line, says how that ended,
# and switches the machine off.
export PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root
busybox mount -t proc proc /proc
# Those that the root has as programs of their own stay.
busybox --install -s /usr/bin 2>/dev/null
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t tmpfs shm /dev/shm
mount -t devpts pts /dev/pts
mount -t securityfs security /sys/kernel/security
! [ -d /sys/fs/selinux ] || mount -t selinuxfs selinux /sys/fs/selinux
chmod 1777 /tmp /dev/shm
exec </dev/null >/dev/ttyS1 2>&1
stty -F /dev/ttyS1 raw
sh /vm/command
echo "vm: the command has ended with $?"
poweroff -f
