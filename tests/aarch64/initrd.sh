#!/bin/busybox sh
# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=sh
# The first process of the machine of tests/aarch64/run: finds the disk, and goes on with what the second disk brings (see run).
/bin/busybox --install -s /bin
export PATH=/bin
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
for module in virtio_pci virtio_blk crc32c_generic ext4; do
	modprobe $module 2>/dev/null # some are in the kernel
done
tries=0
until [ -b /dev/vdc ] || [ $tries -ge 100 ]; do
	sleep 0.1
	tries=$((tries + 1))
done
if mount -t ext4 /dev/vda /new && mkdir -p /new/vm && tar -x -C /new/vm -f /dev/vdb; then
	mount -o move /proc /new/proc
	mount -o move /sys /new/sys
	mount -o move /dev /new/dev
	exec switch_root /new /bin/sh /vm/source/tests/aarch64/inside.sh
fi
echo 'aarch64: no disk' >/dev/console
poweroff -f
