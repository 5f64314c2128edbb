/* SPDX-License-Identifier: Apache-2.0 */
/* Private to src/target/core. */
#ifndef VT_TARGET_CORE_INTERNAL_H
#define VT_TARGET_CORE_INTERNAL_H

#include "target/core/core.h"

/* Reads len bytes of the file at this offset through the cache; false when the file lacks them. */
bool vt_core_read_file(struct vt_core *core, uint64_t offset, void *buf, size_t len);

/* Sets up the two memory sources. */
struct vt_error *vt_core_memory_init(struct vt_core *core);
void vt_core_memory_deinit(struct vt_core *core);

/*
 * Reads the notes in the size bytes at this offset and keeps what is needed. False when memory is
 * short; damaged notes are left out.
 */
bool vt_core_notes(struct vt_core *core, uint64_t offset, uint64_t size);

#endif
