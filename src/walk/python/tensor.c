/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A torch.Tensor holds a pointer to a c10::TensorImpl, right behind its PyObject head
 * (THPVariable.cdata; in older releases a MaybeOwned of it, one word further). Where a TensorImpl
 * keeps its fields differs between releases in few ways (the reference counts have one word or two;
 * the slot of its Python object has one or two), so the fields are found by what is in them: the
 * slot points back to the Python object, and what follows it is the shape (c10/core/TensorImpl.h;
 * tried with 2.11 and 2.15). What is printed passed:
 *   - the virtual tables are those of plain tensors and storages (sparse, nested and wrapped ones
 *     have others),
 *   - the Python object points to the tensor and the tensor to the Python object,
 *   - the product of the sizes is the number of elements that is kept apart,
 *   - the storage is on the same device, and has room for the last element.
 */
#include "walk/python/tensor.h"

#include <stdio.h>
#include <string.h>

enum {
	MAX_SHOWN_DIMS = 16,
	INLINE_DIMS = 5, /* C10_SIZES_AND_STRIDES_MAX_INLINE_SIZE */
	/* Itanium C++ ABI: offset to top and type information come before what objects point to */
	VTABLE_HEAD = 16,
	IMPL_BYTES = 256, /* of a TensorImpl that are read */
	STORAGE_BYTES = 96,
	SIZES_BYTES = 8 + 2 * INLINE_DIMS * 8, /* the number of dimensions, then they */
	SHAPE_BYTES = SIZES_BYTES + 24,        /* and what comes behind */
};

/*
 * c10::ScalarType (torch/headeronly/core/ScalarType.h); numbers are never reused. size 0: packed,
 * not read.
 */
static const struct {
	const char *name;
	uint64_t size;
} dtypes[] = {
	[0] = { "uint8", 1 },
	[1] = { "int8", 1 },
	[2] = { "int16", 2 },
	[3] = { "int32", 4 },
	[4] = { "int64", 8 },
	[5] = { "float16", 2 },
	[6] = { "float32", 4 },
	[7] = { "float64", 8 },
	[8] = { "complex32", 4 },
	[9] = { "complex64", 8 },
	[10] = { "complex128", 16 },
	[11] = { "bool", 1 },
	[12] = { "qint8", 1 },
	[13] = { "quint8", 1 },
	[14] = { "qint32", 4 },
	[15] = { "bfloat16", 2 },
	[23] = { "float8_e5m2", 1 },
	[24] = { "float8_e4m3fn", 1 },
	[25] = { "float8_e5m2fnuz", 1 },
	[26] = { "float8_e4m3fnuz", 1 },
	[27] = { "uint16", 2 },
	[28] = { "uint32", 4 },
	[29] = { "uint64", 8 },
	[44] = { "float8_e8m0fnu", 1 },
};

/* c10::DeviceType; those that tensors with a storage are on. */
static const char *const device_types[] = {
	[0] = "cpu",  [1] = "cuda", [9] = "xla",   [12] = "xpu",
	[13] = "mps", [15] = "hpu", [19] = "mtia",
};

void vt_py_tensor_abi_find(struct vt_py_tensor_abi *abi, struct vt_modules *modules)
{
	static const char *const names[] = { "_ZTVN3c1010TensorImplE", "_ZTVN3c1011StorageImplE" };
	uint64_t addrs[2] = { 0 };
	size_t index = 0;
	struct vt_module *module = vt_modules_by_name(modules, "libc10.so", &index);

	*abi = (struct vt_py_tensor_abi){ 0 };
	if (!module)
		return;

	struct vt_error *err = vt_module_open(modules, module);

	if (!err)
		err = vt_module_dynsyms(modules, module, names, 2, addrs);
	if (!err && addrs[0] && addrs[1])
		*abi = (struct vt_py_tensor_abi){ addrs[0] + VTABLE_HEAD, addrs[1] + VTABLE_HEAD };
	vt_error_destroy(err); /* without it tensors are told by their name only */
}

static uint64_t word_at(const uint8_t *bytes, size_t offset)
{
	uint64_t word;

	memcpy(&word, bytes + offset, sizeof(word));
	return word;
}

/* The TensorImpl of a Python object, and its first bytes. 0: none. */
static uint64_t find_impl(const struct vt_py_tensor_abi *abi, struct vt_memsrc *src,
			  uint64_t object, size_t head, uint8_t bytes[IMPL_BYTES])
{
	for (size_t i = 0; i < 2; i++) {
		uint64_t impl;

		if (!vt_mem_read_u64(src, object + head + i * 8, &impl) && impl && impl % 8 == 0 &&
		    !vt_mem_read(src, impl, bytes, IMPL_BYTES) && word_at(bytes, 0) == abi->tensor)
			return impl;
	}
	return 0;
}

/*
 * Where in the TensorImpl the shape begins: behind the pointer to the Python object (bit 0 was a
 * flag once). 0: nowhere.
 */
static size_t find_shape(const uint8_t bytes[IMPL_BYTES], uint64_t object)
{
	for (size_t at = 40; at <= 80; at += 8) {
		if ((word_at(bytes, at) & ~UINT64_C(1)) == object)
			return at + 8;
	}
	return 0;
}

/* Sizes and strides: five of each in place, or all of both in memory of their own. */
static bool read_shape(struct vt_memsrc *src, const uint8_t bytes[IMPL_BYTES], size_t at,
		       struct vt_py_tensor *tensor)
{
	size_t size;

	tensor->n_dims = word_at(bytes, at);
	if (tensor->n_dims > VT_PY_TENSOR_DIMS)
		return false;
	size = tensor->n_dims * sizeof(int64_t);
	if (tensor->n_dims > INLINE_DIMS) {
		uint64_t addr = word_at(bytes, at + 8);

		return !vt_mem_read(src, addr, tensor->sizes, size) &&
		       !vt_mem_read(src, addr + size, tensor->strides, size);
	}
	memcpy(tensor->sizes, bytes + at + 8, size);
	memcpy(tensor->strides, bytes + at + 8 + INLINE_DIMS * sizeof(int64_t), size);
	return true;
}

static bool shape_makes_sense(const struct vt_py_tensor *tensor)
{
	int64_t product = 1;

	for (size_t i = 0; i < tensor->n_dims; i++) {
		if (tensor->sizes[i] < 0 || tensor->strides[i] < 0 ||
		    __builtin_mul_overflow(product, tensor->sizes[i], &product))
			return false;
	}
	return product == tensor->n_elements && tensor->offset >= 0;
}

/*
 * storage_offset_, numel_, data_type_ (16 bits), device_opt_: a type, an index, and whether it is
 * set. That comes first in 2.0, where c10::optional is not std::optional.
 */
static bool read_rest(const uint8_t bytes[IMPL_BYTES], size_t at, struct vt_py_tensor *tensor)
{
	tensor->offset = (int64_t)word_at(bytes, at);
	tensor->n_elements = (int64_t)word_at(bytes, at + 8);
	memcpy(&tensor->dtype, bytes + at + 16, sizeof(tensor->dtype));

	bool set_last = bytes[at + 20] == 1;
	const uint8_t *device = bytes + at + (set_last ? 18 : 19);

	tensor->device_type = (int8_t)device[0];
	tensor->device_index = (int8_t)device[1];
	return (set_last || bytes[at + 18] == 1) &&
	       tensor->dtype < sizeof(dtypes) / sizeof(dtypes[0]) && dtypes[tensor->dtype].size &&
	       tensor->device_type >= 0 &&
	       (size_t)tensor->device_type < sizeof(device_types) / sizeof(device_types[0]) &&
	       device_types[tensor->device_type] && tensor->device_index >= -1;
}

bool vt_py_tensor_span(const struct vt_py_tensor *tensor, uint64_t *first, uint64_t *last)
{
	int64_t size = (int64_t)dtypes[tensor->dtype].size, end = tensor->offset, step, begin;

	if (__builtin_mul_overflow(tensor->offset, size, &begin))
		return false;
	*first = *last = (uint64_t)begin;
	if (!tensor->n_elements)
		return true;
	for (size_t i = 0; i < tensor->n_dims; i++) {
		if (__builtin_mul_overflow(tensor->sizes[i] - 1, tensor->strides[i], &step) ||
		    __builtin_add_overflow(end, step, &end))
			return false;
	}
	if (__builtin_add_overflow(end, 1, &end) || __builtin_mul_overflow(end, size, &end))
		return false;
	*last = (uint64_t)end;
	return true;
}

/* Bytes up to the end of the last element; -1 when that is no number. */
static int64_t bytes_needed(const struct vt_py_tensor *tensor)
{
	uint64_t first, last;

	if (!tensor->n_elements)
		return 0;
	return vt_py_tensor_span(tensor, &first, &last) ? (int64_t)last : -1;
}

/*
 * Both classes derive from intrusive_ptr_target: a virtual table and two counts, which have one
 * word together (2.11) or one each. What comes next is, in a tensor, the pointer to the storage; in
 * a storage the DataPtr (pointer, context, deleter, device: 32 bytes) and the size.
 */
static bool read_storage(const struct vt_py_tensor_abi *abi, struct vt_memsrc *src,
			 const uint8_t bytes[IMPL_BYTES], struct vt_py_tensor *tensor)
{
	for (size_t start = 16; start <= 24; start += 8) {
		uint64_t storage = word_at(bytes, start);
		uint8_t of[STORAGE_BYTES];

		if (!storage || storage % 8 || vt_mem_read(src, storage, of, sizeof(of)) ||
		    word_at(of, 0) != abi->storage)
			continue;
		tensor->storage_bytes = (int64_t)word_at(of, start + 32);

		int64_t needed = bytes_needed(tensor);

		return (int8_t)of[start + 24] == tensor->device_type &&
		       (int8_t)of[start + 25] == tensor->device_index && needed >= 0 &&
		       tensor->storage_bytes >= needed;
	}
	return false;
}

static void add_text(const struct vt_py_tensor *tensor, struct vt_str *out)
{
	vt_str_addf(out, "%s, (", dtypes[tensor->dtype].name);
	for (size_t i = 0; i < tensor->n_dims && i < MAX_SHOWN_DIMS; i++)
		vt_str_addf(out, "%s%lld", i ? ", " : "", (long long)tensor->sizes[i]);
	if (tensor->n_dims > MAX_SHOWN_DIMS)
		vt_str_add(out, ", …");
	vt_str_addf(out, "%s), %s", tensor->n_dims == 1 ? "," : "",
		    device_types[tensor->device_type]);
	if (tensor->device_index >= 0)
		vt_str_addf(out, ":%d", tensor->device_index);
	vt_str_addf(out, ", storage %lld bytes", (long long)tensor->storage_bytes);
}

bool vt_py_tensor_read(struct vt_memsrc *src, uint64_t impl, size_t at, struct vt_py_tensor *tensor)
{
	uint8_t bytes[IMPL_BYTES];

	if (at + SHAPE_BYTES > IMPL_BYTES || vt_mem_read(src, impl, bytes, at + SHAPE_BYTES))
		return false;
	return read_shape(src, bytes, at, tensor) && read_rest(bytes, at + SIZES_BYTES, tensor) &&
	       shape_makes_sense(tensor);
}

const char *vt_py_tensor_dtype(const struct vt_py_tensor *tensor)
{
	return dtypes[tensor->dtype].name;
}

bool vt_py_tensor_text(const struct vt_py_tensor_abi *abi, struct vt_memsrc *src, uint64_t object,
		       size_t head, struct vt_str *out)
{
	uint8_t bytes[IMPL_BYTES];
	struct vt_py_tensor tensor;
	size_t at;

	if (!abi->tensor || !find_impl(abi, src, object, head, bytes))
		return false;
	at = find_shape(bytes, object);
	if (!at || !read_shape(src, bytes, at, &tensor))
		return false;
	if (!read_rest(bytes, at + SIZES_BYTES, &tensor) || !shape_makes_sense(&tensor) ||
	    !read_storage(abi, src, bytes, &tensor))
		return false;
	add_text(&tensor, out);
	return true;
}
