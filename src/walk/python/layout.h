/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CPython keeps what we read: one row of offsets for each release. The rows are generated
 * from the interpreters' own headers (walk/python/layouts.h). From 3.13 on the interpreter itself
 * has most offsets (_Py_DebugOffsets at the start of _PyRuntime). These take precedence, and the
 * row only adds the missing ones.
 */
#ifndef VT_WALK_PYTHON_LAYOUT_H
#define VT_WALK_PYTHON_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * All facts about a release are named numbers. Most are offsets in bytes; the groups RUNTIME to
 * UNICODE name the struct. The fields of one struct are adjacent: vt_python_layout_from_debug()
 * relies on it.
 */
/* clang-format off */
#define VT_PY_FIELDS(X)                                                                            \
	X(RUNTIME_INTERPRETERS) /* _PyRuntimeState.interpreters.head */                            \
	X(RUNTIME_GIL)          /* _PyRuntimeState.ceval.gil, up to 3.11 */                        \
	X(RUNTIME_GC) /* struct _gc_runtime_state, 3.8 only */                                     \
	X(INTERP_NEXT)                                                                             \
	X(INTERP_ID)                                                                               \
	X(INTERP_THREADS) /* head of the list of PyThreadState */                                  \
	X(INTERP_GIL)     /* ceval.gil: pointer to the GIL, 3.12 on */                             \
	X(INTERP_GC) /* the same struct, 3.9 on */                                                 \
	X(INTERP_MODULES) /* sys.modules */                                                        \
	X(INTERP_SYSDICT) /* sys's dict */                                                         \
	X(INTERP_BUILTINS) /* builtins' dict */                                                    \
	X(INTERP_IMPORTLIB)                                                                        \
	X(INTERP_IMPORT_FUNC)                                                                      \
	X(INTERP_DICT) /* PyInterpreterState_GetDict() */                                          \
	X(INTERP_CODEC_PATH) /* the codec registry */                                              \
	X(INTERP_CODEC_CACHE)                                                                      \
	X(INTERP_CODEC_ERRORS)                                                                     \
	X(INTERP_BEFORE_FORK) /* os.register_at_fork() */                                          \
	X(INTERP_AFTER_FORK_PARENT)                                                                \
	X(INTERP_AFTER_FORK_CHILD)                                                                 \
	X(INTERP_ATEXIT) /* 3.10 to 3.13: array of pointers to {function, args, kwargs} */         \
	X(INTERP_ATEXIT_N) /* int, how many */                                                     \
	X(INTERP_ATEXIT_LIST) /* the same as a list, 3.14 on */                                    \
	X(GC_SIZE) /* of struct _gc_runtime_state: heads of lists of objects lie in it */          \
	X(GC_COLLECTING) /* int */                                                                 \
	X(GC_GARBAGE) /* list, and the next one too */                                             \
	X(GC_CALLBACKS)                                                                            \
	X(GIL_LOCKED)     /* int: 1 taken, 0 free, -1 not yet there */                             \
	X(GIL_HOLDER)     /* PyThreadState that holds it or last held it */                        \
	X(GIL_ENABLED)    /* int, free-threaded builds only */                                     \
	X(GIL_SIZE)       /* of the whole struct: the locks that threads wait on lie in it */      \
	X(TSTATE_NEXT)                                                                             \
	X(TSTATE_INTERP)                                                                           \
	X(TSTATE_FRAME)   /* the innermost frame; 3.8 to 3.10, 3.13 on */                          \
	X(TSTATE_CFRAME)  /* _PyCFrame, which points to the innermost frame; 3.11 and 3.12 */      \
	/* pointer into the C stack, to a variable of the innermost evaluator; 3.10 to 3.12 */     \
	X(TSTATE_CSTACK)                                                                           \
	X(TSTATE_PTHREAD) /* thread_id: pthread_t */                                               \
	X(TSTATE_TID)     /* native_thread_id, 3.11 on */                                          \
	/* datastack_top: frames lie below it; only where TSTATE_CFRAME is */                      \
	X(TSTATE_STACK_TOP)                                                                        \
	X(TSTATE_STACK_LIMIT) /* datastack_limit */                                                \
	X(TSTATE_SIZE) /* of the whole struct */                                                   \
	X(CFRAME_FRAME)                                                                            \
	X(CFRAME_PREVIOUS)                                                                         \
	X(FRAME_LOCALS)   /* the array of local variables, cells among them */                     \
	X(FRAME_GLOBALS) /* up to 3.10 owned, then borrowed; the next one too */                   \
	X(FRAME_BUILTINS)                                                                          \
	X(FRAME_NAMES) /* f_locals: the mapping of names of a class body or of exec() */           \
	X(FRAME_FUNCTION) /* f_funcobj, 3.11 on */                                                 \
	X(FRAME_STACK) /* f_valuestack: where the evaluation stack begins, up to 3.10 */           \
	X(FRAME_STACK_TOP) /* pointer behind its end, or 0: unknown; 3.8, 3.9, 3.14 on */          \
	X(FRAME_EXECUTING) /* char; if not, an unknown end means that it is empty; 3.8, 3.9 */     \
	X(FRAME_STACK_DEPTH) /* int, its items, or -1; 3.10 */                                     \
	X(FRAME_STACK_END) /* int, items of FRAME_LOCALS with the stack, or -1; 3.11 to 3.13 */    \
	X(FRAME_TLBC)     /* int: which copy of the bytecode runs; free-threaded 3.14 on */        \
	X(FRAME_PREVIOUS)                                                                          \
	X(FRAME_CODE)                                                                              \
	X(FRAME_INSTR)    /* pointer into the code; 3.11 on */                                     \
	X(FRAME_LASTI)    /* int, in units of LASTI_SCALE bytes; up to 3.10 */                     \
	X(FRAME_GENERATOR) /* f_gen: its generator or 0; up to 3.10 */                             \
	X(FRAME_OWNER)    /* char, 3.11 on */                                                      \
	X(FRAME_IS_ENTRY) /* bool, 3.11 only */                                                    \
	X(FRAME_OBJECT)   /* PyFrameObject of the frame, 0 until code asks for one; 3.11 on */     \
	X(FRAMEOBJ_TRACE) /* f_trace: f_lineno counts only while it is set; 3.8 and 3.9 */         \
	X(FRAMEOBJ_LINENO) /* f_lineno; counts when it is not 0 */                                 \
	X(FRAMEOBJ_FRAME) /* the frame, 3.11 on */                                                 \
	X(FRAMEOBJ_BACK) /* f_back, 3.11 on */                                                     \
	/* tuples of the names of variables, of cells, and of an outer function's cells; */        \
	X(CODE_VARNAMES)                                                                           \
	X(CODE_CELLVARS)  /* up to 3.10 */                                                         \
	X(CODE_FREEVARS)                                                                           \
	X(CODE_LOCALSNAMES) /* tuple of all names; this and the next 3.11 on */                    \
	X(CODE_LOCALSKINDS) /* bytes: what each of them is */                                      \
	X(CODE_TLBC)        /* pointer to the copies of the bytecode; free-threaded 3.14 on */     \
	X(CODE_STACKSIZE) /* int, the most items on the evaluation stack */                        \
	X(CODE_NAME)                                                                               \
	X(CODE_QUALNAME) /* 3.11 on */                                                             \
	X(CODE_FILENAME)                                                                           \
	X(CODE_FIRSTLINENO)                                                                        \
	X(CODE_LINETABLE)                                                                          \
	X(CODE_FIRSTTRACEABLE) /* int, in code units; 3.11 on */                                   \
	X(CODE_BYTECODE)       /* the instructions; 3.11 on */                                     \
	X(OBJECT_TYPE)                                                                             \
	X(OBJECT_SIZE) /* PyVarObject.ob_size */                                                   \
	X(TYPE_NAME)   /* tp_name */                                                               \
	X(TYPE_FLAGS)  /* tp_flags */                                                              \
	X(TYPE_BASE)   /* tp_base */                                                               \
	X(TYPE_BASICSIZE)                                                                          \
	X(TYPE_ITEMSIZE)                                                                           \
	X(TYPE_WEAKLIST) /* tp_weaklistoffset */                                                   \
	X(TYPE_TRAVERSE)                                                                           \
	X(TYPE_MEMBERS) /* tp_members: PyMemberDef */                                              \
	X(TYPE_DICT)                                                                               \
	X(TYPE_DICTOFFSET)                                                                         \
	X(TYPE_BASES)                                                                              \
	X(TYPE_MRO)                                                                                \
	X(TYPE_CACHED_KEYS) /* ht_cached_keys, heap types only */                                  \
	X(TYPE_MODULE) /* ht_module, heap types only; 3.9 on */                                    \
	X(OBJECT_DICT) /* bytes before an object where its managed dict is; 3.11 on */             \
	X(OBJECT_VALUES) /* bytes before an object where the pointer to its values is; 3.11 */     \
	X(BYTES_DATA)                                                                              \
	X(TUPLE_ITEMS)                                                                             \
	X(LIST_ITEMS)  /* pointer to the items */                                                  \
	/* sign and number of digits, 3.12 on; before that they are in OBJECT_SIZE */              \
	X(LONG_TAG)                                                                                \
	X(LONG_DIGITS) /* uint32_t of 30 bits */                                                   \
	X(FLOAT_VALUE) /* double */                                                                \
	X(DICT_USED)                                                                               \
	X(DICT_KEYS)                                                                               \
	X(DICT_VALUES)     /* values of a dict that shares its keys with others, else 0 */         \
	X(KEYS_SIZE)       /* number of slots of the index; up to 3.10 */                          \
	X(KEYS_LOG2_INDEX) /* uint8_t: log2 of the index in bytes; 3.11 on */                      \
	X(KEYS_KIND)       /* uint8_t; 3.11 on */                                                  \
	X(KEYS_NENTRIES)                                                                           \
	X(KEYS_INDICES)    /* the index; the entries follow it */                                  \
	X(VALUES_ARRAY)    /* where the values begin in the struct that DICT_VALUES points to */   \
	X(VALUES_VALID) /* uint8_t: the instance has no dict with others; 3.13 on */               \
	X(SET_USED)                                                                                \
	X(SET_MASK)                                                                                \
	X(SET_TABLE)       /* pointer to pairs of key and hash */                                  \
	X(CELL_VALUE)                                                                              \
	X(EXC_ARGS)        /* tuple */                                                             \
	X(EXC_TRACEBACK)                                                                           \
	X(EXC_CONTEXT)                                                                             \
	X(EXC_CAUSE)                                                                               \
	X(TB_NEXT)                                                                                 \
	X(TB_FRAME)                                                                                \
	X(FUNC_GLOBALS)                                                                            \
	X(FUNC_CODE)                                                                               \
	X(FUNC_DEFAULTS)                                                                           \
	X(FUNC_KWDEFAULTS)                                                                         \
	X(FUNC_CLOSURE)                                                                            \
	X(GEN_FRAME) /* gi_frame, a pointer, up to 3.10; gi_iframe, the frame itself, 3.11 on */   \
	X(GEN_STATE) /* int8_t, gi_frame_state; 3.11 on */                                         \
	X(UNICODE_LENGTH)                                                                          \
	X(UNICODE_STATE)                                                                           \
	/* sizeof(PyASCIIObject): where the text of a compact ASCII string begins */               \
	X(UNICODE_ASCII_DATA)                                                                      \
	X(UNICODE_COMPACT_DATA) /* sizeof(PyCompactUnicodeObject) */                               \
	X(UNICODE_DATA)         /* PyUnicodeObject.data: pointer to the text of the others */      \
	X(STATE_KIND_SHIFT) /* lowest bit of the three of state.kind */                            \
	X(STATE_COMPACT)    /* masks of one bit of state */                                        \
	X(STATE_ASCII)                                                                             \
	X(STATE_READY)     /* up to 3.11 */                                                        \
	X(OWNER_GENERATOR) /* values of owner; 3.11 on */                                          \
	X(OWNER_FRAME_OBJECT)                                                                      \
	X(OWNER_SHIM)      /* this and above: no Python function; 3.12 on */                       \
	X(FRAME_CLEARED) /* value of GEN_STATE: this and above, there is no frame; 3.11 on */      \
	X(LASTI_SCALE)                                                                             \
	X(KIND_CELLS)       /* mask in LOCALSKINDS: the variable may be kept in a cell; 3.11 on */ \
	X(KEYS_KIND_GENERAL) /* value of KEYS_KIND: entries have a hash too; 3.11 on */            \
	X(CODE_TAGS) /* tag bits of the references in a frame; 3.14 on */
/* clang-format on */

enum vt_py_field {
#define VT_PY_ENUM(name) VT_PY_##name,
	VT_PY_FIELDS(VT_PY_ENUM)
#undef VT_PY_ENUM
		VT_PY_N_FIELDS
};

#define VT_PY_NONE UINT32_MAX /* this release has no such field */

enum vt_python_line_table {
	VT_PY_LINES_LNOTAB, /* co_lnotab, 3.8 and 3.9 */
	VT_PY_LINES_PEP626, /* co_linetable of 3.10 */
	VT_PY_LINES_PEP657, /* co_linetable with columns, 3.11 on */
};

struct vt_python_layout {
	uint8_t major, minor;
	bool free_threaded;
	enum vt_python_line_table lines;
	uint32_t at[VT_PY_N_FIELDS];
};

/*
 * For each field, the offset in _PyRuntime of the 64-bit word that has the field's offset;
 * VT_PY_NONE: there is none.
 */
struct vt_python_debug {
	uint8_t major, minor;
	uint32_t at[VT_PY_N_FIELDS];
};

#define VT_PYTHON_DEBUG_COOKIE "xdebugpy"
enum {
	VT_PYTHON_DEBUG_VERSION = 8,        /* uint64: PY_VERSION_HEX */
	VT_PYTHON_DEBUG_FREE_THREADED = 16, /* uint64: 1 when built without a GIL */
	VT_PYTHON_DEBUG_MAX = 4096,         /* bytes of _PyRuntime that hold the words */
};

/*
 * The offset of co_version, or VT_PY_NONE. From 3.12 on each code object has its own co_version (an
 * int). In 3.12 to 3.14 it follows co_firstlineno and five more ints (co_nlocalsplus, co_framesize,
 * co_nlocals, co_ncellvars, co_nfreevars).
 */
static inline uint32_t vt_py_code_version_at(const struct vt_python_layout *layout)
{
	if (layout->minor < 12 || layout->at[VT_PY_CODE_FIRSTLINENO] == VT_PY_NONE)
		return VT_PY_NONE;
	return layout->at[VT_PY_CODE_FIRSTLINENO] + 6 * (uint32_t)sizeof(int32_t);
}

/* The row of a release, or NULL. */
const struct vt_python_layout *vt_python_layout_find(unsigned int major, unsigned int minor,
						     bool free_threaded);

/* The i-th row of the table (from 0), or NULL after the last. */
const struct vt_python_layout *vt_python_layout_nth(size_t i);

/*
 * Makes a layout from the interpreter's own offsets. runtime has the first size bytes of _PyRuntime
 * and begins with the cookie. False when the release has no row, or a word cannot be an offset.
 */
bool vt_python_layout_from_debug(const uint8_t *runtime, size_t size,
				 struct vt_python_layout *layout);

#endif
