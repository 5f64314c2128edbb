/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory source: how every walker reads another process's memory. A walker never sees a pid.
 * The tool uses it (live process, snapshot, core), and so does the helper, with another
 * implementation; hence no allocation and no libc here.
 */
#ifndef VRAMTAP_MEM_H
#define VRAMTAP_MEM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vt_memvec {
	uint64_t addr; /* in the target */
	void *buf;     /* of the caller */
	size_t len;
};

struct vt_memsrc;

/*
 * read: fills all of buf or fails; returns 0 or a negative errno: -ESRCH the target is gone,
 * -EFAULT not mapped or not in the core, -EPERM not allowed; sets src->fault_addr to the first bad
 * address on -EFAULT. buf's contents are undefined after a failure. readv: the same for n pieces in
 * one go; a failure says nothing about which were filled, except that fault_addr lies in the first
 * bad one. NULL: vt_mem_readv() calls read n times. direct: a pointer through which len bytes at
 * addr can be read now without a copy, valid until the source changes; NULL when there is none
 * (then use read). The function itself may be NULL.
 */
struct vt_memsrc_ops {
	int (*read)(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len);
	int (*readv)(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n);
	const void *(*direct)(struct vt_memsrc *src, uint64_t addr, size_t len);
};

struct vt_memsrc {
	const struct vt_memsrc_ops *ops;
	uint64_t fault_addr;
	/*
	 * The target cannot change while this source is read (stopped, core, lock held); else
	 * walkers re-validate.
	 */
	bool coherent;
};

static inline int vt_mem_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	return src->ops->read(src, addr, buf, len);
}

static inline int vt_mem_readv(struct vt_memsrc *src, const struct vt_memvec *vec, size_t n)
{
	if (src->ops->readv)
		return src->ops->readv(src, vec, n);
	for (size_t i = 0; i < n; i++) {
		int ret = src->ops->read(src, vec[i].addr, vec[i].buf, vec[i].len);

		if (ret)
			return ret;
	}
	return 0;
}

static inline const void *vt_mem_direct(struct vt_memsrc *src, uint64_t addr, size_t len)
{
	return src->ops->direct ? src->ops->direct(src, addr, len) : NULL;
}

static inline int vt_mem_read_u64(struct vt_memsrc *src, uint64_t addr, uint64_t *value)
{
	return vt_mem_read(src, addr, value, sizeof(*value));
}

static inline int vt_mem_read_u32(struct vt_memsrc *src, uint64_t addr, uint32_t *value)
{
	return vt_mem_read(src, addr, value, sizeof(*value));
}

#endif
