/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython runs Python functions in _PyEval_EvalFrameDefault. One C call of it is one native frame,
 * and runs one Python function (until 3.10) or that and all that it calls without leaving the
 * evaluator (since 3.11): a run of Python frames that ends with .entry. The k-th evaluator from
 * inside therefore belongs to the k-th run from inside. Where the end of a run says in which C
 * stack frame it began (3.12+), that decides, also in an interpreter without symbols.
 */
#include "explain/merge.h"

#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/map.h"
#include "base/str.h"

/* A name of the interpreter's own call machinery; a trailing '*' stands for any rest. */
static const char *const glue[] = {
	/* calling a Python function */
	"_PyEval_Vector",
	"_PyEval_Eval*",
	"PyEval_Eval*",
	"PyEval_Call*",
	"_PyFunction_*",
	"function_code_fastcall",
	"call_function",
	"fast_function",
	"do_call_core",
	/* calling any object */
	"PyObject_Call*",
	"PyObject_Vectorcall*",
	"_PyObject_Call*",
	"_PyObject_FastCall*",
	"_PyObject_Vectorcall*",
	"_PyObject_MakeTpCall",
	"PyVectorcall_*",
	"_PyVectorcall_*",
	"object_vacall",
	"vectorcall_*",
	"call_attribute",
	"call_method",
	"call_unbound*",
	"_PyStack_*",
	/* methods, built-in functions, classes, descriptors, partial objects */
	"method_vectorcall*",
	"method_call*",
	"_PyMethodDef_*",
	"_PyMethodDescr_*",
	"_PyCFunction_*",
	"cfunction_*",
	"classmethoddescr_*",
	"wrapperdescr_*",
	"wrapper_call",
	"wrap_*",
	"slot_*",
	"type_call",
	"partial_call*",
	"partial_vectorcall*",
	"property_descr_get*",
	"_PyType_Lookup*",
	"cm_*",
	/* generators and coroutines */
	"gen_iternext",
	"gen_send*",
	"_PyGen_*",
	"PyIter_Send",
	"PyIter_Next",
	"coro_wrapper_*",
	/* import, exec, class bodies: the Python lines say the same */
	"builtin_exec*",
	"builtin_eval*",
	"builtin_next",
	"builtin___build_class__",
	"builtin___import__",
	"import_name",
	"import_from",
	"PyImport_ImportModuleLevel*",
	"import_find_and_load*",
	/* start of the program and of threads */
	"run_mod",
	"run_eval_code_obj",
	"PyRun_*",
	"_PyRun_*",
	"pyrun_*",
	"pymain_*",
	"Py_RunMain",
	"Py_BytesMain",
	"Py_Main",
	"thread_run",
	"t_bootstrap",
	"pythread_wrapper",
};

/*
 * What lies outside of the outermost evaluator in a plain Python process or thread, in any module.
 */
static const char *const startup[] = {
	"_start",
	"main",
	"__libc_start_main*",
	"__libc_start_call_main",
	"start_thread",
	"clone",
	"__clone",
	"clone3",
	"__clone3",
};

static bool matches(const char *name, const char *pattern)
{
	size_t n = strlen(pattern);

	if (n > 0 && pattern[n - 1] == '*')
		return !strncmp(name, pattern, n - 1);
	return !strcmp(name, pattern);
}

static bool is_one_of(const char *name, const char *const *patterns, size_t n)
{
	for (size_t i = 0; name && i < n; i++)
		if (matches(name, patterns[i]))
			return true;
	return false;
}

#define IS_ONE_OF(name, table) is_one_of(name, table, sizeof(table) / sizeof((table)[0]))

/* Optimised builds split and clone it: _PyEval_EvalFrameDefault.cold, .constprop.0, .lto_priv.0. */
static bool is_evaluator(const struct vt_native_frame *frame)
{
	static const char name[] = "_PyEval_EvalFrameDefault";
	size_t n = sizeof(name) - 1;

	return frame->symbol && !strncmp(frame->symbol, name, n) &&
	       (frame->symbol[n] == '\0' || frame->symbol[n] == '.');
}

enum vt_merge_role vt_merge_role(const struct vt_native_frame *frame,
				 const struct vt_module *interpreter)
{
	const char *module = frame->module ? vt_base_name(frame->module->path) : "";
	bool libc = matches(module, "libc.so*") || matches(module, "libc-*") ||
		    matches(module, "libpthread*");

	if (is_evaluator(frame))
		return VT_MERGE_EVALUATOR;
	if (frame->function && IS_ONE_OF(frame->function, startup))
		return VT_MERGE_STARTUP;
	if (interpreter && frame->module == interpreter &&
	    (!frame->function || IS_ONE_OF(frame->function, glue)))
		return VT_MERGE_INTERPRETER;
	/* Without debug symbols the C library's have no names. */
	return libc && !frame->function ? VT_MERGE_STARTUP : VT_MERGE_OTHER;
}

/*
 * The model outlives what the strings belong to, and recursion repeats them: each is copied once.
 */
struct merge {
	const struct vt_native_stack *native;
	const struct vt_python_thread *python;
	struct vt_model_stack *stack;
	struct vt_arena *arena;
	struct vt_map copies; /* address of the original → the copy */
	bool nomem;
	/* the native side */
	const struct vt_module *interpreter; /* module of the evaluator, NULL when there is none */
	size_t n_evaluators;                 /* by their names */
	size_t first_evaluator;              /* index of frame; n_frames when there is none */
	/* the Python side */
	size_t n_runs;
	/* how they go together: the native frames of the first n_matched runs */
	size_t *matched;
	size_t n_matched;
};

static size_t native_frames(const struct merge *m)
{
	return m->native ? m->native->frames.n : 0;
}

static size_t inlined_frames(const struct merge *m)
{
	size_t n = 0;

	for (size_t i = 0; i < native_frames(m); i++)
		n += m->native->frames.data[i].n_inlined;
	return n;
}

static size_t python_frames(const struct merge *m)
{
	return m->python ? m->python->frames.n : 0;
}

static void look_at_native(struct merge *m)
{
	m->first_evaluator = native_frames(m);
	for (size_t i = 0; i < native_frames(m); i++) {
		const struct vt_native_frame *frame = &m->native->frames.data[i];

		if (!is_evaluator(frame))
			continue;
		if (m->n_evaluators++ == 0) {
			m->first_evaluator = i;
			m->interpreter = frame->module;
		}
	}
}

static void look_at_python(struct merge *m)
{
	size_t n = python_frames(m);

	for (size_t i = 0; i < n; i++)
		if (m->python->frames.data[i].entry || i == n - 1)
			m->n_runs++;
}

/*
 * The native frame, from `from` on, whose part of the stack has this address; n_frames when there
 * is none.
 */
static size_t frame_at(const struct merge *m, size_t from, uint64_t addr)
{
	for (size_t i = from; i < native_frames(m); i++) {
		const struct vt_native_frame *frame = &m->native->frames.data[i];

		if (addr < frame->cfa && (i == 0 || addr >= frame[-1].cfa))
			return i;
	}
	return native_frames(m);
}

/* False when a run does not know its place, or that is not an evaluator. */
static bool match_by_address(struct merge *m)
{
	size_t k = 0, from = 0;

	for (size_t i = 0; i < python_frames(m); i++) {
		const struct vt_python_frame *entry = &m->python->frames.data[i];

		if (!entry->entry && i < python_frames(m) - 1)
			continue;
		if (!entry->c_frame)
			return false;
		from = frame_at(m, from, entry->c_frame);
		if (from == native_frames(m))
			break;

		const struct vt_native_frame *frame = &m->native->frames.data[from];

		if (!frame->module || (frame->symbol && !is_evaluator(frame)))
			return false;
		m->matched[k++] = from++;
	}
	/* The outer ones may only be missing where the native stack ends early. */
	if (k == 0 || (k < m->n_runs && m->native->complete))
		return false;
	m->n_matched = k;
	m->interpreter = m->native->frames.data[m->matched[0]].module;
	return true;
}

/* Whether all inside of the innermost evaluator is the interpreter's own. */
static bool only_interpreter_inside(const struct merge *m)
{
	for (size_t i = 0; i < m->first_evaluator; i++)
		if (m->native->frames.data[i].module != m->interpreter)
			return false;
	return true;
}

/*
 * How many evaluators from inside have no run; and how many after them have one. False when that
 * cannot be said.
 */
static bool compare_counts(const struct merge *m, size_t *skipped, size_t *matched)
{
	*skipped = 0;
	*matched = m->n_runs;
	if (m->n_evaluators == m->n_runs)
		return true;
	/*
	 * Interrupted while the evaluator begins or ends, where it has no Python frame; it calls
	 * nothing else then.
	 */
	if (m->n_evaluators == m->n_runs + 1 && only_interpreter_inside(m)) {
		*skipped = 1;
		return true;
	}
	/* Both are known from inside outwards: the outer end of one is missing. */
	if (m->n_runs < m->n_evaluators && m->n_runs > 0 && m->python->truncated)
		return true;
	*matched = m->n_evaluators;
	return m->n_evaluators < m->n_runs && m->n_evaluators > 0 && !m->native->complete;
}

static bool match_by_name(struct merge *m)
{
	size_t skipped, matched, evaluator = 0;

	if (!compare_counts(m, &skipped, &matched))
		return false;
	for (size_t i = 0; i < native_frames(m); i++) {
		if (!is_evaluator(&m->native->frames.data[i]))
			continue;
		if (evaluator >= skipped && evaluator < skipped + matched)
			m->matched[m->n_matched++] = i;
		evaluator++;
	}
	return true;
}

/*
 * Whether nothing but the interpreter's and the C library's start-up code lies outside of the
 * outermost evaluator.
 */
static bool is_plain_startup(const struct merge *m)
{
	for (size_t i = m->matched[m->n_matched - 1] + 1; i < native_frames(m); i++) {
		const struct vt_native_frame *frame = &m->native->frames.data[i];
		const char *module = frame->module ? vt_base_name(frame->module->path) : "";
		bool ours = frame->module == m->interpreter || matches(module, "python*");
		/* Without debug symbols the C library's have no names. */
		bool libc = matches(module, "libc.so*") || matches(module, "libc-*") ||
			    matches(module, "libpthread*");
		bool known = ours || libc;

		if (is_evaluator(frame))
			return false;
		if (frame->function)
			known = (ours && IS_ONE_OF(frame->function, glue)) ||
				IS_ONE_OF(frame->function, startup);
		if (!known)
			return false;
	}
	return true;
}

/* Filling the result. */

static const char *copy_text(struct merge *m, const char *text)
{
	uint64_t key = (uint64_t)(uintptr_t)text;
	const uint64_t *known;
	char *copy;

	if (!text)
		return NULL;
	known = vt_map_get(&m->copies, key);
	if (known)
		return (const char *)(uintptr_t)*known;
	copy = vt_arena_strdup(m->arena, text);
	if (!copy || !vt_map_put(&m->copies, key, (uint64_t)(uintptr_t)copy))
		m->nomem = true;
	return copy;
}

static const char *copy_build_id(struct merge *m, const struct vt_module *module)
{
	char hex[2 * VT_BUILD_ID_MAX + 1] = "";
	uint64_t key = (uint64_t)(uintptr_t)module->build_id;
	const uint64_t *known = vt_map_get(&m->copies, key);
	char *copy;

	if (known)
		return (const char *)(uintptr_t)*known;
	for (size_t i = 0; i < module->build_id_len && i < VT_BUILD_ID_MAX; i++)
		snprintf(hex + 2 * i, 3, "%02x", module->build_id[i]);
	copy = vt_arena_strdup(m->arena, hex);
	if (!copy || !vt_map_put(&m->copies, key, (uint64_t)(uintptr_t)copy))
		m->nomem = true;
	return copy;
}

static struct vt_model_frame *add_one_native(struct merge *m, const struct vt_native_frame *frame)
{
	struct vt_model_frame *to = &m->stack->frames[m->stack->n_frames++];

	*to = (struct vt_model_frame){
		.kind = VT_FRAME_NATIVE,
		.function = copy_text(m, frame->function),
		.file = copy_text(m, frame->file),
		.line = frame->line,
		.build_id = "",
		.pc = frame->pc,
		.module_offset = frame->module_offset,
	};
	if (frame->module) {
		to->module = copy_text(m, vt_base_name(frame->module->path));
		to->build_id = copy_build_id(m, frame->module);
	}
	m->stack->has_native = true;
	return to;
}

/* With the functions that were inlined into it, but not those by which the interpreter calls. */
static void add_native(struct merge *m, const struct vt_native_frame *frame)
{
	bool ours = m->interpreter && frame->module == m->interpreter;

	for (size_t i = 0; i < frame->n_inlined; i++) {
		const struct vt_native_source *source = &frame->inlined[i];
		struct vt_model_frame *to;

		if (ours && source->function && IS_ONE_OF(source->function, glue))
			continue;
		to = add_one_native(m, frame);
		to->inlined = true;
		to->function = copy_text(m, source->function);
		to->file = copy_text(m, source->file);
		to->line = source->line;
	}
	add_one_native(m, frame);
}

static void copy_locals(struct merge *m, const struct vt_python_locals *locals,
			struct vt_model_frame *to)
{
	struct vt_model_local *copies = vt_arena_alloc(m->arena, locals->n * sizeof(*copies));

	if (!copies) {
		m->nomem = true;
		return;
	}
	for (size_t i = 0; i < locals->n; i++) {
		copies[i].name = copy_text(m, locals->items[i].name);
		copies[i].value = copy_text(m, locals->items[i].value);
	}
	to->locals = copies;
	to->n_locals = locals->n;
	to->locals_cut = locals->cut;
}

static void add_python(struct merge *m, const struct vt_python_frame *frame)
{
	struct vt_model_frame *to = &m->stack->frames[m->stack->n_frames++];

	*to = (struct vt_model_frame){
		.kind = VT_FRAME_PYTHON,
		.function = copy_text(m, frame->function),
		.name = copy_text(m, frame->name),
		.file = copy_text(m, frame->file),
		.line = frame->line,
		.interpreter = frame->interpreter,
	};
	if (frame->locals)
		copy_locals(m, frame->locals, to);
	m->stack->has_python = true;
}

/* The frames of one run, from *at on. */
static void add_run(struct merge *m, size_t *at)
{
	bool end = false;

	while (*at < python_frames(m) && !end) {
		const struct vt_python_frame *frame = &m->python->frames.data[(*at)++];

		add_python(m, frame);
		end = frame->entry;
	}
}

/*
 * Whether frame i says nothing beside the Python frames. A stripped interpreter has few names: its
 * functions without one are the way to what they called, which is shown; only where the thread
 * itself is in one, that is all there is to say.
 */
static bool is_noise(const struct merge *m, size_t i, bool plain_startup)
{
	const struct vt_native_frame *frame = &m->native->frames.data[i];

	if (plain_startup && i > m->matched[m->n_matched - 1])
		return true;
	if (!m->interpreter || frame->module != m->interpreter)
		return false;
	return frame->function ? IS_ONE_OF(frame->function, glue) : i > 0;
}

/* What becomes of a native frame. */
enum fate {
	FATE_SHOWN,
	FATE_HIDDEN,
	FATE_RUN, /* a run of Python frames is there instead */
};

/* k: how many of the matched frames are inside of frame i. */
static enum fate fate_of(const struct merge *m, size_t i, size_t k, bool plain_startup)
{
	if (k < m->n_matched && i == m->matched[k])
		return FATE_RUN;
	return m->n_matched == 0 || is_evaluator(&m->native->frames.data[i]) ||
			       !is_noise(m, i, plain_startup) ?
		       FATE_SHOWN :
		       FATE_HIDDEN;
}

static void fill_matched(struct merge *m)
{
	bool plain_startup = m->n_matched > 0 && is_plain_startup(m);
	size_t k = 0, at = 0;

	for (size_t i = 0; i < native_frames(m); i++) {
		switch (fate_of(m, i, k, plain_startup)) {
		case FATE_RUN:
			add_run(m, &at);
			k++;
			break;
		case FATE_SHOWN:
			add_native(m, &m->native->frames.data[i]);
			break;
		case FATE_HIDDEN:
			break;
		}
	}
	while (at < python_frames(m))
		add_run(m, &at);
}

static void fill_apart(struct merge *m)
{
	size_t at = 0;

	for (size_t i = 0; i < native_frames(m); i++)
		add_native(m, &m->native->frames.data[i]);
	while (at < python_frames(m))
		add_run(m, &at);
	m->stack->merge_uncertain = m->stack->has_native && m->stack->has_python;
}

/* m->matched has room for all runs. False when the two sides do not go together. */
static bool match(struct merge *m)
{
	return match_by_address(m) || match_by_name(m);
}

bool vt_merge_shown(const struct vt_native_stack *native, const struct vt_python_thread *python,
		    bool *shown)
{
	struct merge m = { .native = native, .python = python };

	look_at_native(&m);
	look_at_python(&m);

	VT_FREE size_t *matched = calloc(m.n_runs + 1, sizeof(*matched));

	m.matched = matched;
	if (!matched)
		return false;

	bool fits = match(&m), plain_startup = fits && m.n_matched > 0 && is_plain_startup(&m);

	for (size_t i = 0, k = 0; i < native_frames(&m); i++) {
		enum fate fate = fits ? fate_of(&m, i, k, plain_startup) : FATE_SHOWN;

		shown[i] = fate == FATE_SHOWN;
		k += fate == FATE_RUN;
	}
	return true;
}

bool vt_merge_stacks(const struct vt_native_stack *native, const struct vt_python_thread *python,
		     struct vt_model_stack *stack, struct vt_arena *arena)
{
	struct merge m = { .native = native, .python = python, .stack = stack, .arena = arena };
	size_t n = native_frames(&m) + inlined_frames(&m) + python_frames(&m);
	const char *why = native && native->why[0] ? native->why :
			  python && python->why[0] ? python->why :
						     NULL;

	*stack = (struct vt_model_stack){ 0 };
	stack->frames = vt_arena_alloc(arena, n * sizeof(*stack->frames));
	look_at_native(&m);
	look_at_python(&m);

	VT_FREE size_t *matched = calloc(m.n_runs + 1, sizeof(*matched));

	m.matched = matched;
	if (!stack->frames || !matched)
		return false;
	if (match(&m))
		fill_matched(&m);
	else
		fill_apart(&m);
	stack->truncated = (native && native->truncated) || (python && python->truncated);
	stack->why = copy_text(&m, why);
	vt_map_deinit(&m.copies);
	return !m.nomem;
}
