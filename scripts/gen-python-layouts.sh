#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints src/walk/python/layouts.h: where each CPython release keeps what vramtap reads.
#
#   sh scripts/gen-python-layouts.sh PREFIX… > src/walk/python/layouts.h
#
# Each PREFIX has include/python3.X with the internal headers (a normal installation, or a -dev package of a distribution).
# A small program is compiled against them and prints offsetof() and sizeof(); nothing of the interpreter is run. From 3.13 on
# there is a second row for the free-threaded build. The keys of a dict are in no header before 3.11: there gdb reads them off
# the debug information of PREFIX/lib/libpython3.X.so.1.0 or PREFIX/bin/python3.X.
set -eu

[ $# -gt 0 ] || { echo "usage: $0 PREFIX..." >&2; exit 64; }
here=$(cd "$(dirname "$0")/.." && pwd)
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cc=${CC:-cc}

cat > "$tmp/row.c" <<'PROGRAM'
#define Py_BUILD_CORE 1
#include "Python.h"
#if PY_VERSION_HEX < 0x030b0000
#include "frameobject.h"
#else
#include "internal/pycore_frame.h"
#endif
#if PY_VERSION_HEX < 0x03090000
#include "internal/pycore_pystate.h"
#else
#include "internal/pycore_interp.h"
#include "internal/pycore_runtime.h"
#include "internal/pycore_gc.h"
#endif
#if PY_VERSION_HEX >= 0x030d0000
#include "internal/pycore_object.h"
#include "internal/pycore_genobject.h"
#endif
#if PY_VERSION_HEX >= 0x030b0000
#include "internal/pycore_code.h"
#include "internal/pycore_dict.h"
#endif
#if PY_VERSION_HEX >= 0x030e0000
#include "internal/pycore_interpframe_structs.h"
#include "internal/pycore_interp_structs.h"
#include "internal/pycore_runtime_structs.h"
#include "internal/pycore_debug_offsets.h"
#include "internal/pycore_stackref.h"
#endif
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include "walk/python/layout.h"

static uint32_t at[VT_PY_N_FIELDS];
static const char *const names[] = {
#define NAME(name) #name,
	VT_PY_FIELDS(NAME)
#undef NAME
};

#if PY_VERSION_HEX < 0x030b0000
typedef PyFrameObject vt_frame;
#else
typedef _PyInterpreterFrame vt_frame;
#endif

#define IN(field, type, member) at[VT_PY_##field] = (uint32_t)offsetof(type, member)

/* The value of the state word when only one bit field is set. */
#define STATE_WORD(member, value)                                         \
	({                                                                \
		PyASCIIObject object;                                     \
		uint32_t word;                                            \
		memset(&object, 0, sizeof(object));                       \
		object.state.member = (value);                            \
		memcpy(&word, &object.state, sizeof(word));               \
		word;                                                     \
	})

static void print_at(void)
{
	for (int i = 0; i < VT_PY_N_FIELDS; i++) {
		if (at[i] == VT_PY_NONE)
			printf("\t\t\t[VT_PY_%s] = VT_PY_NONE,\n", names[i]);
		else
			printf("\t\t\t[VT_PY_%s] = %u,\n", names[i], (unsigned int)at[i]);
	}
}

static void fill_row(void)
{
	IN(RUNTIME_INTERPRETERS, _PyRuntimeState, interpreters.head);
	IN(INTERP_NEXT, PyInterpreterState, next);
	IN(INTERP_ID, PyInterpreterState, id);
#if PY_VERSION_HEX < 0x03090000
	IN(RUNTIME_GC, _PyRuntimeState, gc);
#else
	IN(INTERP_GC, PyInterpreterState, gc);
#endif
	IN(INTERP_SYSDICT, PyInterpreterState, sysdict);
	IN(INTERP_BUILTINS, PyInterpreterState, builtins);
	IN(INTERP_DICT, PyInterpreterState, dict);
	IN(INTERP_BEFORE_FORK, PyInterpreterState, before_forkers);
	IN(INTERP_AFTER_FORK_PARENT, PyInterpreterState, after_forkers_parent);
	IN(INTERP_AFTER_FORK_CHILD, PyInterpreterState, after_forkers_child);
#if PY_VERSION_HEX < 0x030c0000
	IN(INTERP_MODULES, PyInterpreterState, modules);
	IN(INTERP_IMPORTLIB, PyInterpreterState, importlib);
	IN(INTERP_IMPORT_FUNC, PyInterpreterState, import_func);
#else
	IN(INTERP_MODULES, PyInterpreterState, imports.modules);
	IN(INTERP_IMPORTLIB, PyInterpreterState, imports.importlib);
	IN(INTERP_IMPORT_FUNC, PyInterpreterState, imports.import_func);
#endif
#if PY_VERSION_HEX < 0x030d0000
	IN(INTERP_CODEC_PATH, PyInterpreterState, codec_search_path);
	IN(INTERP_CODEC_CACHE, PyInterpreterState, codec_search_cache);
	IN(INTERP_CODEC_ERRORS, PyInterpreterState, codec_error_registry);
#else
	IN(INTERP_CODEC_PATH, PyInterpreterState, codecs.search_path);
	IN(INTERP_CODEC_CACHE, PyInterpreterState, codecs.search_cache);
	IN(INTERP_CODEC_ERRORS, PyInterpreterState, codecs.error_registry);
#endif
#if PY_VERSION_HEX >= 0x030e0000
	IN(INTERP_ATEXIT_LIST, PyInterpreterState, atexit.callbacks);
#elif PY_VERSION_HEX >= 0x030a0000
	IN(INTERP_ATEXIT, PyInterpreterState, atexit.callbacks);
	IN(INTERP_ATEXIT_N, PyInterpreterState, atexit.ncallbacks);
#endif
	at[VT_PY_GC_SIZE] = sizeof(struct _gc_runtime_state);
	IN(GC_COLLECTING, struct _gc_runtime_state, collecting);
	IN(GC_GARBAGE, struct _gc_runtime_state, garbage);
	IN(GC_CALLBACKS, struct _gc_runtime_state, callbacks);
	IN(GIL_LOCKED, struct _gil_runtime_state, locked);
	IN(GIL_HOLDER, struct _gil_runtime_state, last_holder);
	at[VT_PY_GIL_SIZE] = sizeof(struct _gil_runtime_state);
	IN(TSTATE_NEXT, PyThreadState, next);
	IN(TSTATE_INTERP, PyThreadState, interp);
#if PY_VERSION_HEX >= 0x030a0000 && PY_VERSION_HEX < 0x030d0000
	IN(TSTATE_CSTACK, PyThreadState, cframe);
#endif
	IN(TSTATE_PTHREAD, PyThreadState, thread_id);
	at[VT_PY_TSTATE_SIZE] = sizeof(PyThreadState);
	IN(FRAME_GLOBALS, vt_frame, f_globals);
	IN(FRAME_BUILTINS, vt_frame, f_builtins);
	IN(FRAME_NAMES, vt_frame, f_locals);
	IN(CODE_STACKSIZE, PyCodeObject, co_stacksize);
#if PY_VERSION_HEX < 0x030b0000
	IN(FRAME_STACK, PyFrameObject, f_valuestack);
#if PY_VERSION_HEX < 0x030a0000
	IN(FRAME_STACK_TOP, PyFrameObject, f_stacktop);
	IN(FRAME_EXECUTING, PyFrameObject, f_executing);
#else
	IN(FRAME_STACK_DEPTH, PyFrameObject, f_stackdepth);
#endif
	IN(GEN_FRAME, PyGenObject, gi_frame);
#else
#if PY_VERSION_HEX < 0x030c0000
	IN(FRAME_FUNCTION, _PyInterpreterFrame, f_func);
#else
	IN(FRAME_FUNCTION, _PyInterpreterFrame, f_funcobj);
#endif
#if PY_VERSION_HEX < 0x030e0000
	IN(FRAME_STACK_END, _PyInterpreterFrame, stacktop);
#else
	IN(FRAME_STACK_TOP, _PyInterpreterFrame, stackpointer);
#endif
	IN(FRAMEOBJ_FRAME, PyFrameObject, f_frame);
	IN(FRAMEOBJ_BACK, PyFrameObject, f_back);
	at[VT_PY_OWNER_FRAME_OBJECT] = FRAME_OWNED_BY_FRAME_OBJECT;
	at[VT_PY_FRAME_CLEARED] = FRAME_CLEARED;
	IN(GEN_FRAME, PyGenObject, gi_iframe);
	IN(GEN_STATE, PyGenObject, gi_frame_state);
#if PY_VERSION_HEX < 0x030d0000
	/* _PyObject_DictPointer() and _PyObject_ValuesPointer() of 3.11, _PyObject_DictOrValuesPointer() of 3.12 */
	at[VT_PY_OBJECT_DICT] = 3 * sizeof(PyObject *);
#if PY_VERSION_HEX < 0x030c0000
	at[VT_PY_OBJECT_VALUES] = 4 * sizeof(PyObject *);
#endif
#else
	at[VT_PY_OBJECT_DICT] = (uint32_t)-(MANAGED_DICT_OFFSET);
#endif
#if PY_VERSION_HEX >= 0x030d0000
	IN(VALUES_VALID, PyDictValues, valid);
#endif
#endif
#if PY_VERSION_HEX < 0x030b0000
	IN(INTERP_THREADS, PyInterpreterState, tstate_head);
	IN(TSTATE_FRAME, PyThreadState, frame);
	IN(FRAME_PREVIOUS, PyFrameObject, f_back);
	IN(FRAME_CODE, PyFrameObject, f_code);
	IN(FRAME_LASTI, PyFrameObject, f_lasti);
	IN(FRAME_GENERATOR, PyFrameObject, f_gen);
	IN(FRAME_LOCALS, PyFrameObject, f_localsplus);
	IN(CODE_VARNAMES, PyCodeObject, co_varnames);
	IN(CODE_CELLVARS, PyCodeObject, co_cellvars);
	IN(CODE_FREEVARS, PyCodeObject, co_freevars);
	at[VT_PY_KEYS_SIZE] = KEYS_SIZE;
	at[VT_PY_KEYS_NENTRIES] = KEYS_NENTRIES;
	at[VT_PY_KEYS_INDICES] = KEYS_INDICES;
	at[VT_PY_VALUES_ARRAY] = 0;
#if PY_VERSION_HEX < 0x030a0000
	IN(FRAMEOBJ_TRACE, PyFrameObject, f_trace);
	IN(CODE_LINETABLE, PyCodeObject, co_lnotab);
	at[VT_PY_LASTI_SCALE] = 1;
#else
	IN(CODE_LINETABLE, PyCodeObject, co_linetable);
	at[VT_PY_LASTI_SCALE] = sizeof(_Py_CODEUNIT);
#endif
#else
	IN(INTERP_THREADS, PyInterpreterState, threads.head);
	IN(TSTATE_TID, PyThreadState, native_thread_id);
#if PY_VERSION_HEX < 0x030d0000
	IN(TSTATE_CFRAME, PyThreadState, cframe);
	IN(TSTATE_STACK_TOP, PyThreadState, datastack_top);
	IN(TSTATE_STACK_LIMIT, PyThreadState, datastack_limit);
	IN(CFRAME_FRAME, _PyCFrame, current_frame);
	IN(CFRAME_PREVIOUS, _PyCFrame, previous);
	IN(FRAME_CODE, _PyInterpreterFrame, f_code);
	IN(FRAME_INSTR, _PyInterpreterFrame, prev_instr);
#else
	IN(TSTATE_FRAME, PyThreadState, current_frame);
	IN(FRAME_CODE, _PyInterpreterFrame, f_executable);
	IN(FRAME_INSTR, _PyInterpreterFrame, instr_ptr);
#endif
	IN(FRAME_PREVIOUS, _PyInterpreterFrame, previous);
	IN(FRAME_OWNER, _PyInterpreterFrame, owner);
	IN(FRAME_OBJECT, _PyInterpreterFrame, frame_obj);
	IN(FRAME_LOCALS, _PyInterpreterFrame, localsplus);
	IN(CODE_LOCALSNAMES, PyCodeObject, co_localsplusnames);
	IN(CODE_LOCALSKINDS, PyCodeObject, co_localspluskinds);
	at[VT_PY_KIND_CELLS] = CO_FAST_CELL | CO_FAST_FREE;
	at[VT_PY_KEYS_KIND_GENERAL] = DICT_KEYS_GENERAL;
	IN(KEYS_LOG2_INDEX, PyDictKeysObject, dk_log2_index_bytes);
	IN(KEYS_KIND, PyDictKeysObject, dk_kind);
	IN(KEYS_NENTRIES, PyDictKeysObject, dk_nentries);
	IN(KEYS_INDICES, PyDictKeysObject, dk_indices);
	IN(VALUES_ARRAY, PyDictValues, values);
#if defined(Py_GIL_DISABLED) && PY_VERSION_HEX >= 0x030e0000
	IN(FRAME_TLBC, _PyInterpreterFrame, tlbc_index);
	IN(CODE_TLBC, PyCodeObject, co_tlbc);
#endif
#if PY_VERSION_HEX < 0x030c0000
	IN(FRAME_IS_ENTRY, _PyInterpreterFrame, is_entry);
#elif PY_VERSION_HEX < 0x030e0000
	at[VT_PY_OWNER_SHIM] = FRAME_OWNED_BY_CSTACK;
#else
	at[VT_PY_OWNER_SHIM] = FRAME_OWNED_BY_INTERPRETER;
	at[VT_PY_CODE_TAGS] = Py_TAG_BITS;
#endif
	at[VT_PY_OWNER_GENERATOR] = FRAME_OWNED_BY_GENERATOR;
	at[VT_PY_LASTI_SCALE] = sizeof(_Py_CODEUNIT);
	IN(CODE_QUALNAME, PyCodeObject, co_qualname);
	IN(CODE_LINETABLE, PyCodeObject, co_linetable);
	IN(CODE_FIRSTTRACEABLE, PyCodeObject, _co_firsttraceable);
	IN(CODE_BYTECODE, PyCodeObject, co_code_adaptive);
#endif
#if PY_VERSION_HEX < 0x030c0000
	IN(RUNTIME_GIL, _PyRuntimeState, ceval.gil);
	at[VT_PY_STATE_READY] = STATE_WORD(ready, 1);
#else
	IN(INTERP_GIL, PyInterpreterState, ceval.gil);
#endif
#ifdef Py_GIL_DISABLED
	IN(GIL_ENABLED, struct _gil_runtime_state, enabled);
#endif
	IN(FRAMEOBJ_LINENO, PyFrameObject, f_lineno);
	IN(CODE_NAME, PyCodeObject, co_name);
	IN(CODE_FILENAME, PyCodeObject, co_filename);
	IN(CODE_FIRSTLINENO, PyCodeObject, co_firstlineno);
	IN(OBJECT_TYPE, PyObject, ob_type);
	IN(OBJECT_SIZE, PyVarObject, ob_size);
	IN(TYPE_NAME, PyTypeObject, tp_name);
	IN(TYPE_FLAGS, PyTypeObject, tp_flags);
	IN(TYPE_BASE, PyTypeObject, tp_base);
	IN(TYPE_BASICSIZE, PyTypeObject, tp_basicsize);
	IN(TYPE_ITEMSIZE, PyTypeObject, tp_itemsize);
	IN(TYPE_WEAKLIST, PyTypeObject, tp_weaklistoffset);
	IN(TYPE_TRAVERSE, PyTypeObject, tp_traverse);
	IN(TYPE_MEMBERS, PyTypeObject, tp_members);
	IN(TYPE_DICT, PyTypeObject, tp_dict);
	IN(TYPE_DICTOFFSET, PyTypeObject, tp_dictoffset);
	IN(TYPE_BASES, PyTypeObject, tp_bases);
	IN(TYPE_MRO, PyTypeObject, tp_mro);
	IN(TYPE_CACHED_KEYS, PyHeapTypeObject, ht_cached_keys);
#if PY_VERSION_HEX >= 0x03090000
	IN(TYPE_MODULE, PyHeapTypeObject, ht_module);
#endif
	IN(TUPLE_ITEMS, PyTupleObject, ob_item);
	IN(LIST_ITEMS, PyListObject, ob_item);
	IN(FLOAT_VALUE, PyFloatObject, ob_fval);
	IN(DICT_USED, PyDictObject, ma_used);
	IN(DICT_KEYS, PyDictObject, ma_keys);
	IN(DICT_VALUES, PyDictObject, ma_values);
	IN(SET_USED, PySetObject, used);
	IN(SET_MASK, PySetObject, mask);
	IN(SET_TABLE, PySetObject, table);
	IN(CELL_VALUE, PyCellObject, ob_ref);
	IN(EXC_ARGS, PyBaseExceptionObject, args);
	IN(EXC_TRACEBACK, PyBaseExceptionObject, traceback);
	IN(EXC_CONTEXT, PyBaseExceptionObject, context);
	IN(EXC_CAUSE, PyBaseExceptionObject, cause);
	IN(TB_NEXT, PyTracebackObject, tb_next);
	IN(TB_FRAME, PyTracebackObject, tb_frame);
	IN(FUNC_GLOBALS, PyFunctionObject, func_globals);
	IN(FUNC_CODE, PyFunctionObject, func_code);
	IN(FUNC_DEFAULTS, PyFunctionObject, func_defaults);
	IN(FUNC_KWDEFAULTS, PyFunctionObject, func_kwdefaults);
	IN(FUNC_CLOSURE, PyFunctionObject, func_closure);
#if PY_VERSION_HEX < 0x030c0000
	IN(LONG_DIGITS, struct _longobject, ob_digit);
#else
	IN(LONG_TAG, struct _longobject, long_value.lv_tag);
	IN(LONG_DIGITS, struct _longobject, long_value.ob_digit);
#endif
	IN(BYTES_DATA, PyBytesObject, ob_sval);
	IN(UNICODE_LENGTH, PyASCIIObject, length);
	IN(UNICODE_STATE, PyASCIIObject, state);
	at[VT_PY_UNICODE_ASCII_DATA] = sizeof(PyASCIIObject);
	at[VT_PY_UNICODE_COMPACT_DATA] = sizeof(PyCompactUnicodeObject);
	IN(UNICODE_DATA, PyUnicodeObject, data);
	at[VT_PY_STATE_KIND_SHIFT] = (uint32_t)__builtin_ctz(STATE_WORD(kind, 1));
	at[VT_PY_STATE_COMPACT] = STATE_WORD(compact, 1);
	at[VT_PY_STATE_ASCII] = STATE_WORD(ascii, 1);
	if (at[VT_PY_CODE_TAGS] == VT_PY_NONE)
		at[VT_PY_CODE_TAGS] = 0;
}

#if PY_VERSION_HEX >= 0x030d0000
#define WORD(field, member) IN(field, _Py_DebugOffsets, member)
static void fill_debug(void)
{
	WORD(RUNTIME_INTERPRETERS, runtime_state.interpreters_head);
	WORD(INTERP_NEXT, interpreter_state.next);
	WORD(INTERP_ID, interpreter_state.id);
	WORD(INTERP_THREADS, interpreter_state.threads_head);
	WORD(INTERP_GIL, interpreter_state.ceval_gil);
	WORD(INTERP_GC, interpreter_state.gc);
	WORD(INTERP_MODULES, interpreter_state.imports_modules);
	WORD(INTERP_SYSDICT, interpreter_state.sysdict);
	WORD(INTERP_BUILTINS, interpreter_state.builtins);
	WORD(GC_SIZE, gc.size);
	WORD(GC_COLLECTING, gc.collecting);
	WORD(TSTATE_SIZE, thread_state.size);
	/* The words about the GIL's own fields count from the interpreter that has it inside; the row serves for both. */
	WORD(TSTATE_NEXT, thread_state.next);
	WORD(TSTATE_INTERP, thread_state.interp);
	WORD(TSTATE_FRAME, thread_state.current_frame);
	WORD(TSTATE_PTHREAD, thread_state.thread_id);
	WORD(TSTATE_TID, thread_state.native_thread_id);
	WORD(FRAME_PREVIOUS, interpreter_frame.previous);
	WORD(FRAME_CODE, interpreter_frame.executable);
	WORD(FRAME_INSTR, interpreter_frame.instr_ptr);
	WORD(FRAME_OWNER, interpreter_frame.owner);
	WORD(CODE_NAME, code_object.name);
	WORD(CODE_QUALNAME, code_object.qualname);
	WORD(CODE_FILENAME, code_object.filename);
	WORD(CODE_FIRSTLINENO, code_object.firstlineno);
	WORD(CODE_LINETABLE, code_object.linetable);
	WORD(CODE_BYTECODE, code_object.co_code_adaptive);
	WORD(OBJECT_TYPE, pyobject.ob_type);
	WORD(TYPE_NAME, type_object.tp_name);
	WORD(TYPE_FLAGS, type_object.tp_flags);
	WORD(FRAME_LOCALS, interpreter_frame.localsplus);
	WORD(CODE_LOCALSNAMES, code_object.localsplusnames);
	WORD(CODE_LOCALSKINDS, code_object.localspluskinds);
	WORD(TUPLE_ITEMS, tuple_object.ob_item);
	WORD(LIST_ITEMS, list_object.ob_item);
	WORD(LONG_TAG, long_object.lv_tag);
	WORD(LONG_DIGITS, long_object.ob_digit);
	WORD(FLOAT_VALUE, float_object.ob_fval);
	WORD(DICT_KEYS, dict_object.ma_keys);
	WORD(DICT_VALUES, dict_object.ma_values);
#if PY_VERSION_HEX >= 0x030e0000
	WORD(FRAME_STACK_TOP, interpreter_frame.stackpointer);
	WORD(GEN_FRAME, gen_object.gi_iframe);
	WORD(GEN_STATE, gen_object.gi_frame_state);
	WORD(SET_USED, set_object.used);
	WORD(SET_MASK, set_object.mask);
	WORD(SET_TABLE, set_object.table);
	WORD(FRAME_TLBC, interpreter_frame.tlbc_index);
	WORD(CODE_TLBC, code_object.co_tlbc);
#endif
	WORD(BYTES_DATA, bytes_object.ob_sval);
	WORD(OBJECT_SIZE, bytes_object.ob_size);
	WORD(UNICODE_LENGTH, unicode_object.length);
	WORD(UNICODE_STATE, unicode_object.state);
	WORD(UNICODE_ASCII_DATA, unicode_object.asciiobject_size);
}
#endif

int main(int argc, char **argv)
{
	int debug = argc > 1 && !strcmp(argv[1], "debug");

	memset(at, 0xff, sizeof(at));
#if PY_VERSION_HEX >= 0x030d0000
	if (debug)
		fill_debug();
#endif
	if (!debug)
		fill_row();
	printf("\t{ /* made from the headers of %s%s */\n", PY_VERSION,
#ifdef Py_GIL_DISABLED
	       " with Py_GIL_DISABLED"
#else
	       ""
#endif
	);
	printf("\t\t.major = %d, .minor = %d,\n", PY_MAJOR_VERSION, PY_MINOR_VERSION);
	if (!debug) {
#ifdef Py_GIL_DISABLED
		printf("\t\t.free_threaded = true,\n");
#endif
		printf("\t\t.lines = %s,\n", PY_VERSION_HEX < 0x030a0000 ? "VT_PY_LINES_LNOTAB" :
		       PY_VERSION_HEX < 0x030b0000 ? "VT_PY_LINES_PEP626" : "VT_PY_LINES_PEP657");
	}
	printf("\t\t.at = {\n");
	print_at();
	printf("\t\t},\n\t},\n");
	return 0;
}
PROGRAM

# read_keys PREFIX MINOR: where the fields of its struct _dictkeysobject are, as flags for the compiler
read_keys() {
	program=$1/lib/libpython3.$2.so.1.0
	[ -e "$program" ] || program=$1/bin/python3.$2
	for field in size nentries indices; do
		name=$(echo "$field" | tr '[:lower:]' '[:upper:]')
		gdb -nx -batch -ex "printf \"-DKEYS_$name=%d\\n\", (int)(long)&((struct _dictkeysobject *)0)->dk_$field" "$program" \
			2>/dev/null | grep "^-DKEYS_$name=[0-9]*\$"
	done
}

# build NAME INCLUDE-DIRECTORY [FLAG…]: compiles $tmp/NAME
build() {
	name=$1 dir=$2
	shift 2
	set -- "$@" "-I$here/src" "-I$dir" "-I$dir/internal" "-I$(dirname "$dir")"
	"$cc" -std=gnu11 -w "$@" -c "$tmp/row.c" -o "$tmp/$name.o"
	# The inline functions of the headers refer to the interpreter; the program never calls them.
	"$cc" "$tmp/$name.o" -Wl,--unresolved-symbols=ignore-all -o "$tmp/$name"
}

: > "$tmp/rows"
: > "$tmp/debug"
for prefix; do
	dir=
	for candidate in "$prefix"/include/python3.*; do
		[ -d "$candidate/internal" ] && dir=$candidate
	done
	[ -n "$dir" ] || { echo "$0: $prefix has no internal headers of Python 3" >&2; exit 1; }
	minor=${dir##*python3.}
	minor=${minor%%[!0-9]*}
	keys=
	[ "$minor" -ge 11 ] || keys=$(read_keys "$prefix" "$minor")
	# shellcheck disable=SC2086 # flags
	build plain "$dir" $keys
	"$tmp/plain" >> "$tmp/rows"
	if [ "$minor" -ge 13 ]; then
		build free "$dir" -DPy_GIL_DISABLED=1
		"$tmp/free" >> "$tmp/rows"
		"$tmp/plain" debug >> "$tmp/debug"
	fi
done

cat <<'HEAD'
/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GENERATED by scripts/gen-python-layouts.sh from the headers of the interpreters named below (x86-64, offsetof() and
 * sizeof()); do not edit, run it again.
 */
HEAD
printf '\nstatic const struct vt_python_layout vt_python_rows[] = {\n'
cat "$tmp/rows"
printf '};\n\nstatic const struct vt_python_debug vt_python_debug_rows[] = {\n'
cat "$tmp/debug"
printf '};\n'
