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

/*
 * Makes the variables of a command (VT_GDB_x | ...) void until the command sets them: when it
 * fails, no value of an earlier command is left.
 */
void vt_gdb_values_forget(struct vt_gdb_answer *answer, unsigned int values);

/* The variables for the process and its allocators. Inexact values are void. */
void vt_gdb_values_memory(struct vt_gdb_answer *answer, const struct vt_model *model);

/* The variables for its devices, from the driver: void when the driver was not asked. */
void vt_gdb_values_devices(struct vt_gdb_answer *answer, const struct vt_model *model);

/* The variables for what is at an address. */
void vt_gdb_values_found(struct vt_gdb_answer *answer, const struct vt_model *model,
			 const struct vt_found *found);

/* The variables for all threads, and for one thread. */
void vt_gdb_values_threads(struct vt_gdb_answer *answer, const struct vt_model *model);
void vt_gdb_values_thread(struct vt_gdb_answer *answer, const struct vt_model_thread *thread);

/* The variables for a Python frame. */
void vt_gdb_values_python(struct vt_gdb_answer *answer, size_t number,
			  const struct vt_model_frame *frame);

#endif
