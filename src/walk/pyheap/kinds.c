/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is known of types of C by their names: where their references are, and which of their words
 * look like references and do not count. Of all other types any word may be one.
 */
#include "walk/pyheap/internal.h"

#define NO_REFERENCE VT_N_EDGE_KINDS
#define BEHIND VT_PYHEAP_BEHIND
#define PLACES(...)                                                     \
	.n_places = sizeof((struct vt_pyheap_place[]){ __VA_ARGS__ }) / \
		    sizeof(struct vt_pyheap_place),                     \
	.places = { __VA_ARGS__ }
#define LEAF(text)                                    \
	{                                             \
		.name = text, .shape = VT_PYHEAP_LEAF \
	}
/* PyWeakReference: the object, which it does not own, the callback, its hash, its neighbours. */
#define WEAKREF(text)                                                                             \
	{                                                                                         \
		.name = text, .shape = VT_PYHEAP_WEAKREF, PLACES({ BEHIND(8), VT_EDGE_CALLBACK }) \
	}
/*
 * Up to 3.9 only one byte of the second word is written. A generator's word before its frame, with
 * flags between them, is only that of coroutines and asynchronous generators; nobody writes it for
 * the others. (From 3.10 on the second word has the code, or a name.)
 */
#define GENERATOR(text, ...)                                                                  \
	{                                                                                     \
		.name = text, .shape = VT_PYHEAP_GENERATOR, .walk = VT_PYHEAP_WALK_GENERATOR, \
		.others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY,                        \
		PLACES({ VT_PY_GEN_FRAME, NO_REFERENCE }, { BEHIND(8), NO_REFERENCE },        \
		       ##__VA_ARGS__)                                                         \
	}

/* clang-format off */
static const struct vt_pyheap_kind kinds[] = {
	/* By flag, for derived types have it, too. */
	{ .flag = VT_PYHEAP_LONG, .shape = VT_PYHEAP_LEAF },
	{ .flag = VT_PYHEAP_BYTES, .shape = VT_PYHEAP_LEAF },
	{ .flag = VT_PYHEAP_STR, .shape = VT_PYHEAP_LEAF },
	{ .flag = VT_PYHEAP_LIST_FLAG, .name = "list", .shape = VT_PYHEAP_LIST,
	  .walk = VT_PYHEAP_WALK_LIST },
	{ .flag = VT_PYHEAP_TUPLE_FLAG, .name = "tuple", .shape = VT_PYHEAP_TUPLE,
	  .walk = VT_PYHEAP_WALK_TUPLE },
	{ .flag = VT_PYHEAP_DICT_FLAG, .name = "dict", .shape = VT_PYHEAP_DICT,
	  .walk = VT_PYHEAP_WALK_DICT },
	{ .flag = VT_PYHEAP_TYPE, .name = "type", .shape = VT_PYHEAP_CLASS,
	  .walk = VT_PYHEAP_WALK_CLASS,
	  PLACES({ VT_PY_TYPE_DICT, VT_EDGE_DICT }, { VT_PY_TYPE_BASES, VT_EDGE_BASES },
		 { VT_PY_TYPE_MRO, VT_EDGE_BASES }, { VT_PY_TYPE_BASE, VT_EDGE_BASES }) },
	{ .flag = VT_PYHEAP_EXCEPTION_FLAG, .name = "BaseException", .shape = VT_PYHEAP_EXCEPTION,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY,
	  PLACES({ VT_PY_EXC_ARGS, VT_EDGE_ARGS }, { VT_PY_EXC_TRACEBACK, VT_EDGE_TRACEBACK },
		 { VT_PY_EXC_CONTEXT, VT_EDGE_CAUSE }, { VT_PY_EXC_CAUSE, VT_EDGE_CAUSE }) },
	/* By name. */
	{ .name = "object", .shape = VT_PYHEAP_PLAIN },
	{ .name = "set", .shape = VT_PYHEAP_SET, .walk = VT_PYHEAP_WALK_SET },
	{ .name = "frozenset", .shape = VT_PYHEAP_SET, .walk = VT_PYHEAP_WALK_SET },
	{ .name = "collections.deque", .shape = VT_PYHEAP_DEQUE, .walk = VT_PYHEAP_WALK_DEQUE },
	{ .name = "cell", .shape = VT_PYHEAP_CELL, PLACES({ VT_PY_CELL_VALUE, VT_EDGE_CELL }) },
	{ .name = "function", .shape = VT_PYHEAP_FUNCTION, .walk = VT_PYHEAP_WALK_FUNCTION,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_CODE,
	  PLACES({ VT_PY_FUNC_GLOBALS, VT_EDGE_GLOBALS }, { VT_PY_FUNC_CODE, VT_EDGE_CODE },
		 { VT_PY_FUNC_DEFAULTS, VT_EDGE_DEFAULTS },
		 { VT_PY_FUNC_KWDEFAULTS, VT_EDGE_DEFAULTS },
		 { VT_PY_FUNC_CLOSURE, VT_EDGE_CLOSURE }) },
	{ .name = "method", .shape = VT_PYHEAP_METHOD,
	  PLACES({ BEHIND(0), VT_EDGE_FUNCTION }, { BEHIND(8), VT_EDGE_SELF }) },
	{ .name = "instancemethod", .shape = VT_PYHEAP_METHOD,
	  PLACES({ BEHIND(0), VT_EDGE_FUNCTION }) },
	/* PyCFunctionObject: m_ml, m_self, m_module. */
	{ .name = "builtin_function_or_method", .shape = VT_PYHEAP_METHOD,
	  PLACES({ BEHIND(8), VT_EDGE_SELF }, { BEHIND(16), VT_EDGE_BODY }) },
	/* PyModuleObject: its dict comes first. What else it has is of C. */
	{ .name = "module", .shape = VT_PYHEAP_MODULE, PLACES({ BEHIND(0), VT_EDGE_DICT }) },
	/* Up to 3.10 a frame; from 3.11 on it refers to one, or has it at its end. */
	{ .name = "frame", .shape = VT_PYHEAP_FRAME, .walk = VT_PYHEAP_WALK_FRAME,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY,
	  PLACES({ VT_PY_FRAMEOBJ_BACK, VT_EDGE_BACK }, { VT_PY_FRAMEOBJ_FRAME, NO_REFERENCE }) },
	{ .name = "traceback", .shape = VT_PYHEAP_TRACEBACK,
	  PLACES({ VT_PY_TB_NEXT, VT_EDGE_TB_NEXT }, { VT_PY_TB_FRAME, VT_EDGE_TB_FRAME }) },
	GENERATOR("generator", { VT_PYHEAP_BEFORE_FRAME(16), NO_REFERENCE }),
	GENERATOR("coroutine"),
	GENERATOR("async_generator"),
	WEAKREF("weakref"),
	WEAKREF("weakref.ReferenceType"),
	WEAKREF("weakproxy"),
	WEAKREF("weakref.ProxyType"),
	WEAKREF("weakcallableproxy"),
	WEAKREF("weakref.CallableProxyType"),
	/* Of no interest. */
	LEAF("bool"),
	LEAF("float"),
	LEAF("complex"),
	LEAF("bytearray"),
	LEAF("NoneType"),
	LEAF("ellipsis"),
	LEAF("NotImplementedType"),
	LEAF("code"),
	LEAF("range"),
	LEAF("getset_descriptor"),
	LEAF("member_descriptor"),
	LEAF("wrapper_descriptor"),
	LEAF("method_descriptor"),
	LEAF("classmethod_descriptor"),
	LEAF("_thread.lock"),
	LEAF("functools._PlaceholderType"),
	LEAF("torch.dtype"),
	LEAF("torch.device"),
	LEAF("torch.layout"),
	LEAF("torch.memory_format"),
	/*
	 * Words that are borrowed. Modules/_functoolsmodule.c: a list through the links, which the
	 * cache's dict owns. Python/context.c: the last value and whose it was.
	 * Objects/memoryobject.c: view.obj is that of the buffer behind it.
	 */
	{ .name = "functools._lru_cache_wrapper", .shape = VT_PYHEAP_OPAQUE,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY,
	  PLACES({ BEHIND(0), NO_REFERENCE }, { BEHIND(8), NO_REFERENCE }) },
	{ .name = "functools._lru_list_elem", .shape = VT_PYHEAP_OPAQUE,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY,
	  PLACES({ BEHIND(0), NO_REFERENCE }, { BEHIND(8), NO_REFERENCE }) },
	{ .name = "ContextVar", .shape = VT_PYHEAP_OPAQUE,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY,
	  PLACES({ BEHIND(16), NO_REFERENCE }) },
	{ .name = "_contextvars.ContextVar", .shape = VT_PYHEAP_OPAQUE,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY,
	  PLACES({ BEHIND(16), NO_REFERENCE }) },
	{ .name = "memoryview", .shape = VT_PYHEAP_OPAQUE,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY,
	  PLACES({ BEHIND(48), NO_REFERENCE }) },
	/* Modules/_threadmodule.c, up to 3.12: a thread's dict, which its own dict owns. */
	{ .name = "_thread._localdummy", .shape = VT_PYHEAP_OPAQUE },
	/* Modules/itertoolsmodule.c: iterator, how many of the items are there, next one, items. */
	{ .name = "itertools._tee_dataobject", .shape = VT_PYHEAP_OPAQUE,
	  .walk = VT_PYHEAP_WALK_TEE,
	  PLACES({ BEHIND(0), VT_EDGE_BODY }, { BEHIND(16), VT_EDGE_BODY }) },
	{ .name = "_queue.SimpleQueue", .shape = VT_PYHEAP_OPAQUE, .walk = VT_PYHEAP_WALK_QUEUE,
	  .others = VT_PYHEAP_OTHERS_ANY, .other = VT_EDGE_BODY },
	/* PyTorch's: what is in them is that of C++. */
	{ .name = "torch._C.TensorBase", .shape = VT_PYHEAP_OPAQUE },
	{ .name = "torch._C._TensorBase", .shape = VT_PYHEAP_OPAQUE },
	{ .name = "torch._C.StorageBase", .shape = VT_PYHEAP_OPAQUE },
	{ .name = "torch._C._FunctionBase", .shape = VT_PYHEAP_OPAQUE },
};
/* clang-format on */

/* Names of heap types are the program's own: only those of modules of C count. */
static bool matches(const struct vt_pyheap_kind *kind, const char *name, uint64_t flags)
{
	if (kind->flag && !(flags & kind->flag))
		return false;
	if (!kind->name)
		return true;
	return !strcmp(kind->name, name) && (!(flags & VT_PYHEAP_HEAP_TYPE) || strchr(name, '.'));
}

const struct vt_pyheap_kind *vt_pyheap_kind(const struct vt_pyheap *heap, const char *name,
					    uint64_t flags)
{
	(void)heap;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		if (matches(&kinds[i], name, flags))
			return &kinds[i];
	}
	return NULL;
}

uint32_t vt_pyheap_place(const struct vt_pyheap *heap, uint32_t where)
{
	if (where >= VT_PYHEAP_BEFORE_FRAME(0)) {
		/* Up to 3.10 the frame is an object. */
		if (!vt_pyheap_has(heap, VT_PY_GEN_STATE))
			return VT_PY_NONE;
		return vt_pyheap_at(heap, VT_PY_GEN_FRAME) - (where - VT_PYHEAP_BEFORE_FRAME(0));
	}
	if (where >= VT_PYHEAP_BEHIND(0))
		return heap->head + (where - VT_PYHEAP_BEHIND(0));
	return vt_pyheap_at(heap, (enum vt_py_field)where);
}

uint16_t vt_pyheap_is(const char *module, const char *name)
{
	static const struct {
		const char *module, *name;
		uint16_t is;
	} classes[] = {
		/* torch/csrc/autograd/python_variable.cpp: of 2.1 on, and before it */
		{ "torch._C", "TensorBase", VT_PYHEAP_IS_TENSOR },
		{ "torch._C", "_TensorBase", VT_PYHEAP_IS_TENSOR },
		{ "torch._C", "StorageBase", VT_PYHEAP_IS_STORAGE },
		{ "torch._C", "_FunctionBase", VT_PYHEAP_IS_NODE },
		{ "torch._C._autograd", "SavedTensor", VT_PYHEAP_IS_SAVED },
		{ "torch.nn.parameter", "Parameter", VT_PYHEAP_IS_PARAMETER },
		{ "torch.nn.modules.module", "Module", VT_PYHEAP_IS_MODULE },
		{ "torch.optim.optimizer", "Optimizer", VT_PYHEAP_IS_OPTIMIZER },
		{ "torch.utils.data.dataset", "Dataset", VT_PYHEAP_IS_DATASET },
		{ "torch.utils.data.dataloader", "DataLoader", VT_PYHEAP_IS_DATASET },
		/* cupy/_core/core.pxd, cupy/cuda/memory.pxd: of 12.0 on */
		{ "cupy._core.core", "_ndarray_base", VT_PYHEAP_IS_CUPY_ARRAY },
		{ "cupy.cuda.memory", "MemoryPointer", VT_PYHEAP_IS_CUPY_POINTER },
		{ "cupy.cuda.memory", "BaseMemory", VT_PYHEAP_IS_CUPY_MEMORY },
		{ "cupy.cuda.memory", "PooledMemory", VT_PYHEAP_IS_CUPY_POOLED },
		{ "cupy.cuda.memory", "UnownedMemory", VT_PYHEAP_IS_CUPY_BORROWED },
		{ "cupy._core.dlpack", "DLPackMemory", VT_PYHEAP_IS_CUPY_BORROWED },
	};

	for (size_t i = 0; i < sizeof(classes) / sizeof(classes[0]); i++) {
		if (!strcmp(classes[i].name, name) && !strcmp(classes[i].module, module))
			return classes[i].is;
	}
	return 0;
}
