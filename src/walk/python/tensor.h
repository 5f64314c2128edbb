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

enum { VT_PY_TENSOR_DIMS = 64 };

/* What a TensorImpl says of itself. All numbers are in elements. */
struct vt_py_tensor {
	uint64_t n_dims;
	int64_t sizes[VT_PY_TENSOR_DIMS], strides[VT_PY_TENSOR_DIMS];
	int64_t offset, n_elements;
	uint16_t dtype; /* c10::ScalarType: one that has a name and a size */
	int8_t device_type, device_index;
	int64_t storage_bytes; /* private */
};

/*
 * Reads the TensorImpl at impl, whose shape begins shape_at bytes from there. False when what is
 * there makes no sense.
 */
bool vt_py_tensor_read(struct vt_memsrc *src, uint64_t impl, size_t shape_at,
		       struct vt_py_tensor *tensor);

/* Which bytes of its storage it shows: [*first, *last). False: that is no number. */
bool vt_py_tensor_span(const struct vt_py_tensor *tensor, uint64_t *first, uint64_t *last);

/* "float32"; ours. */
const char *vt_py_tensor_dtype(const struct vt_py_tensor *tensor);

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
