/* SPDX-License-Identifier: Apache-2.0 */
/* PyTorch's tensors, read from outside: type, shape, device and storage, never the contents. */
#ifndef VT_WALK_PYTHON_TENSOR_H
#define VT_WALK_PYTHON_TENSOR_H

#include "base/str.h"
#include "target/elfsym.h"
#include "vramtap/mem.h"

/* The vtables of exactly c10::TensorImpl and c10::StorageImpl; 0: tensors are not read. */
struct vt_py_tensor_abi {
	uint64_t tensor, storage;
};

/* Looks them up in libc10.so, if the target has it. */
void vt_py_tensor_abi_find(struct vt_py_tensor_abi *abi, struct vt_modules *modules);

/*
 * Adds "float32, (3, 4), cuda:0, storage 1024 bytes" for the tensor whose Python object is at
 * object. head is the size of a PyObject. Adds nothing and returns false when it is not a plain
 * tensor with a plausible storage.
 */
bool vt_py_tensor_text(const struct vt_py_tensor_abi *abi, struct vt_memsrc *src, uint64_t object,
		       size_t head, struct vt_str *out);

#endif
