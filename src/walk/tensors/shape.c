/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/python/tensor.h"
#include "walk/tensors/internal.h"

bool vt_tensors_storage(const struct vt_tensors *tensors, uint64_t addr,
			struct vt_tensors_storage *storage)
{
	const struct vt_tensors_layout *layout = &tensors->layout;
	int8_t device[2];

	/* c10::DataPtr: pointer, context, deleter, device (type and index, a byte each). */
	if (!layout->known ||
	    !vt_pages_word(tensors->pages, addr + layout->storage_data, &storage->data) ||
	    !vt_pages_word(tensors->pages, addr + layout->storage_bytes, &storage->bytes) ||
	    !vt_pages_read(tensors->pages, addr + layout->storage_data + 24, device,
			   sizeof(device)))
		return false;
	storage->device_type = device[0];
	storage->device = device[1];
	return true;
}

bool vt_tensors_shape(const struct vt_tensors *tensors, uint64_t addr,
		      struct vt_tensors_shape *shape)
{
	const struct vt_tensors_layout *layout = &tensors->layout;
	struct vt_py_tensor tensor;
	uint64_t meta, fn = 0;
	uint8_t flag = 0;

	if (!layout->known ||
	    !vt_py_tensor_read(&tensors->pages->src, addr, layout->impl_sizes, &tensor))
		return false;
	*shape = (struct vt_tensors_shape){
		.dtype = vt_py_tensor_dtype(&tensor),
		.n_dims = tensor.n_dims,
	};
	for (size_t i = 0; i < tensor.n_dims && i < VT_TENSORS_MAX_DIMS; i++)
		shape->sizes[i] = tensor.sizes[i];
	if (!vt_py_tensor_span(&tensor, &shape->first, &shape->last))
		return false;
	meta = vt_pages_u64(tensors->pages, addr + layout->impl_meta);
	if (meta && layout->meta_grad_fn)
		fn = vt_pages_u64(tensors->pages, meta + layout->meta_grad_fn);
	shape->has_grad_fn = fn;
	/* What no graph knows needs no gradient; what one computed does; a leaf says. */
	if (meta && !fn && layout->meta_requires_grad &&
	    vt_pages_read(tensors->pages, meta + layout->meta_requires_grad, &flag, sizeof(flag)))
		shape->requires_grad_known = flag <= 1;
	else
		shape->requires_grad_known = !meta || fn;
	shape->requires_grad = fn || flag == 1;
	return true;
}
