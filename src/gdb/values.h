/* SPDX-License-Identifier: Apache-2.0 */
/* gdb's convenience variables: doc/vramtap-gdb.7 lists them. */
#ifndef VT_GDB_VALUES_H
#define VT_GDB_VALUES_H

#include "gdb/answer.h"
#include "model/find.h"
#include "model/model.h"

enum vt_gdb_values {
	VT_GDB_MEMORY = 1 << 0,
	VT_GDB_DEVICES = 1 << 1,
	VT_GDB_FOUND = 1 << 2,
	VT_GDB_THREADS = 1 << 3,
	VT_GDB_THREAD = 1 << 4,
	VT_GDB_PYTHON = 1 << 5,
};

/* Those of a command (VT_GDB_x | ...) are void until it sets them: none is left of the command before when it fails. */
void vt_gdb_values_forget(struct vt_gdb_answer *answer, unsigned int values);

/* Of the process and its allocators. What is not exact is void. */
void vt_gdb_values_memory(struct vt_gdb_answer *answer, const struct vt_model *model);

/* Of its devices, as the driver said: void when it was not asked. */
void vt_gdb_values_devices(struct vt_gdb_answer *answer, const struct vt_model *model);

/* Of what is at an address. */
void vt_gdb_values_found(struct vt_gdb_answer *answer, const struct vt_model *model, const struct vt_found *found);

/* Of the threads; of one. */
void vt_gdb_values_threads(struct vt_gdb_answer *answer, const struct vt_model *model);
void vt_gdb_values_thread(struct vt_gdb_answer *answer, const struct vt_model_thread *thread);

/* Of a Python frame. */
void vt_gdb_values_python(struct vt_gdb_answer *answer, size_t number, const struct vt_model_frame *frame);

#endif
