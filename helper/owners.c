/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The question what holds the tensors: from the variables of functions that run and of modules, and
 * from PyTorch's modules and optimizers, which are found in the collector's lists. These are
 * visited in place: no list is made of them, and no audit event is raised.
 */
#include "owners.h"

#include <stddef.h>
#include <string.h>

#include "map.h"
#include "ops.h"
#include "vramtap/freestanding.h"

enum {
	MAX_FRAMES = 1000, /* of a thread */
	MAX_THREADS = 4096,
	MAX_NAMES = 1000, /* variables of a function */
	/*
	 * References that are followed from a variable: of a function or the program, of a module.
	 */
	NEAR = 5,
	FAR = 2,
};

/* ---- variables of modules ---- */

static int is_main(struct vt_own *own, struct object *name)
{
	return vt_py_is_text(&own->py, name, "__main__");
}

static void tell_module_of_python(struct vt_own *own, struct object *name, struct object *module,
				  int depth)
{
	struct vt_asked_rec *rec = vt_own_add(own, VT_ASKED_IMPORT, NULL, module);
	uint64_t before = own->n;

	if (!rec)
		return;
	vt_own_append(rec, PY(own, PyUnicode_AsUTF8, text_fn)(name));
	vt_own_clear_error(own);
	vt_own_follow_names(own, PY(own, PyModule_GetDict, of_one_fn)(module), VT_ASKED_GLOBAL,
			    module, depth);
	if (own->n == before)
		own->n--;
}

static void tell_imports(struct vt_own *own, int of_main)
{
	struct object *modules = PY(own, PyImport_GetModuleDict, object_fn)(), *key, *value;
	long at = 0;

	while (modules && !vt_own_is_late(own) && !own->full &&
	       PY(own, PyDict_Next, next_fn)(modules, &at, &key, &value))
		if (vt_own_is_text(own, key) && is_main(own, key) == of_main &&
		    OWN(own, PyType_IsSubtype, subtype_fn)(vt_py_type(&own->py, value),
							   TYPE(own, PyModule_Type)))
			tell_module_of_python(own, key, value, of_main ? NEAR : FAR);
}

/* ---- variables of functions ---- */

static void tell_variable(struct vt_own *own, struct object *frame, struct object *name)
{
	struct way way = { .kind = VT_ASKED_LOCAL, .from = frame, .text = name };
	struct object *value;

	if (!vt_own_is_text(own, name))
		return;
	value = OWN(own, PyFrame_GetVar, of_two_fn)(frame, name);
	if (!value) {
		vt_own_clear_error(own); /* it is not set yet */
		return;
	}
	vt_own_follow(own, &way, value, NEAR);
	vt_py_drop(&own->py, value); /* the frame has it */
}

/* names: a tuple, a new reference or NULL. */
static void tell_variables(struct vt_own *own, struct object *frame, struct object *names)
{
	long n = names ? OWN(own, PyTuple_Size, size_fn)(names) : 0;

	for (long i = 0; i < n && i < MAX_NAMES && !vt_own_is_late_now(own); i++)
		tell_variable(own, frame, PY(own, PyTuple_GetItem, at_fn)(names, i));
	if (names)
		vt_py_drop(&own->py, names); /* the code has it */
	vt_own_clear_error(own);
}

static int ends_with(const char *text, const char *end)
{
	uint64_t n = 0, m = 0;

	while (text[n])
		n++;
	while (end[m])
		m++;
	while (n && m && text[n - 1] == end[m - 1]) {
		n--;
		m--;
	}
	return !m;
}

/* Whether the path is that of the functions of PyTorch that start backward passes. */
static int is_autograd(const char *path)
{
	return path && (ends_with(path, "torch/autograd/graph.py") ||
			ends_with(path, "torch/autograd/__init__.py"));
}

/* An attribute of a code object that is a text: a new reference or NULL. */
static struct object *get_text(struct vt_own *own, struct object *code, const char *name)
{
	struct object *text = PY(own, PyUnicode_FromString, make_text_fn)(name);
	struct object *value = text ? OWN(own, PyObject_GenericGetAttr, of_two_fn)(code, text) :
				      NULL;

	if (text)
		vt_py_drop(&own->py, text);
	if (!value)
		vt_own_clear_error(own);
	return value;
}

static const char *base_name(const char *path)
{
	const char *base = path;

	for (; path && *path; path++)
		if (*path == '/')
			base = path + 1;
	return base;
}

/* "train TAB train.py" */
static void append_place(struct vt_own *own, struct vt_asked_rec *rec, struct object *code)
{
	struct object *file = get_text(own, code, "co_filename");
	const char *path = file ? PY(own, PyUnicode_AsUTF8, text_fn)(file) : NULL;

	vt_own_append_and_drop(own, rec, get_text(own, code, "co_name"));
	vt_own_append(rec, "\t");
	vt_own_append(rec, base_name(path));
	own->backward |= is_autograd(path);
	vt_own_clear_error(own);
	if (file)
		vt_py_drop(&own->py, file);
}

static void tell_frame(struct vt_own *own, struct object *thread, struct object *frame,
		       int variables)
{
	struct vt_asked_rec *rec = vt_own_add(own, VT_ASKED_FRAME, NULL, frame);
	struct object *code = OWN(own, PyFrame_GetCode, of_one_fn)(frame);
	uint64_t before = own->n;

	if (rec && code) {
		rec->value = (uint64_t)thread;
		rec->number = (uint32_t)OWN(own, PyFrame_GetLineNumber, int_of_object_fn)(frame);
		append_place(own, rec, code);
	}
	if (rec && code && variables) {
		tell_variables(own, frame, OWN(own, PyCode_GetVarnames, of_one_fn)(code));
		tell_variables(own, frame, OWN(own, PyCode_GetCellvars, of_one_fn)(code));
		tell_variables(own, frame, OWN(own, PyCode_GetFreevars, of_one_fn)(code));
	}
	if (rec && own->n == before)
		own->n--;
	if (code)
		vt_py_drop(&own->py, code);
}

/* False: there are more. */
static int tell_thread(struct vt_own *own, struct object *thread, int variables)
{
	struct object *frame = OWN(own, PyThreadState_GetFrame, of_one_fn)(thread);

	for (int i = 0; frame && i < MAX_FRAMES && !vt_own_is_late(own); i++) {
		struct object *back;

		tell_frame(own, thread, frame, variables);
		back = OWN(own, PyFrame_GetBack, of_one_fn)(frame);
		vt_py_drop(&own->py, frame);
		frame = back;
	}
	if (frame)
		vt_py_drop(&own->py, frame);
	return !frame;
}

/* variables 0: only whether a backward pass runs, which must be known before anything is asked. */
static int tell_frames(struct vt_own *own, int variables)
{
	struct object *thread = OWN(own, PyInterpreterState_ThreadHead,
				    of_one_fn)(OWN(own, PyInterpreterState_Main, object_fn)());
	int all = 1;

	for (int i = 0; thread && i < MAX_THREADS && !vt_own_is_late(own); i++) {
		all &= tell_thread(own, thread, variables);
		thread = OWN(own, PyThreadState_Next, of_one_fn)(thread);
	}
	return all && !thread && !own->late;
}

/* ---- the question ---- */

/* Called for each object of the collector's: may neither make nor free any. */
static int list_object(struct object *object, void *arg)
{
	struct vt_own *own = arg;
	enum class class = vt_own_class(own, object);

	own->n_objects++;
	if (class == CLASS_MODULE || class == CLASS_OPTIMIZER)
		vt_own_list(own, object);
	return !vt_own_is_late(own) && !own->full;
}

/* For no longer than half of the time that is left: what is found must be told, too. */
static void list_modules(struct vt_own *own)
{
	typedef void visit_all_fn(vt_py_visit_fn * visit, void *arg);
	uint64_t now = vt_sys_now_ns(), end = own->deadline_ns;

	if (own->late || own->full)
		return;
	own->deadline_ns = now + (end > now ? end - now : 0) / 2;
	((visit_all_fn *)own->args.imports.PyUnstable_GC_VisitObjects)(list_object, own);
	own->deadline_ns = end;
	own->py.shared->owners.late |= own->late;
	own->late = 0;
}

static uint32_t with_gil(struct vt_py *py)
{
	struct vt_own *own = (struct vt_own *)py;
	struct vt_ask_owners_answer *answer = &py->shared->owners;

	own->deadline_ns = vt_sys_now_ns() + own->args.held_ns;
	if (!vt_own_find_torch(own))
		return vt_py_fail(py, "this release of PyTorch cannot be asked for owners");
	own->backward = !tell_frames(own, 0) || own->backward;
	own->n = 0;
	tell_frames(own, 1);
	tell_imports(own, 1);
	vt_own_tell_listed(own);
	list_modules(own);
	vt_own_tell_listed(own);
	tell_imports(own, 0);
	vt_own_tell_listed(own);
	answer->n = own->n;
	answer->n_objects = own->n_objects;
	answer->late |= own->late;
	answer->full = own->full;
	answer->cut = own->cut;
	answer->no_gradients = own->backward;
	answer->without_facts = (int32_t)own->silent;
	return VT_HELPER_OK;
}

static int all_there(const struct vt_python_owner_imports *imports)
{
	const uint64_t *addrs = (const uint64_t *)imports;

	for (unsigned int i = 0; i < sizeof(*imports) / sizeof(*addrs); i++)
		if (!addrs[i])
			return 0;
	return 1;
}

/* At least twice as many as objects. */
static uint64_t slots_for(uint64_t n)
{
	uint64_t slots = 2;

	while (slots < 2 * n)
		slots *= 2;
	return slots;
}

uint32_t vt_helper_op_ask_owners(struct vt_helper_shared *shared, void *room, uint64_t room_size)
{
	struct vt_own own;
	uint64_t size;
	uint32_t status;
	char *memory;

	memset(&own, 0, sizeof(own));
	memset(&shared->owners, 0, sizeof(shared->owners));
	own.args = shared->args.ask_owners;
	own.py.shared = shared;
	own.py.args = own.args.python;
	own.recs = room;
	own.capacity = room_size / sizeof(*own.recs);
	own.n_slots = slots_for(own.args.max_objects);
	shared->owners.offset = (uint64_t)room - (uint64_t)shared;
	if (!all_there(&own.args.imports)) {
		vt_helper_say_why(shared, "there is no interpreter to ask", NULL);
		return VT_HELPER_BAD_ARGS;
	}
	size = N_CACHED * sizeof(*own.cache) + own.n_slots * sizeof(*own.known) +
	       own.args.max_objects * sizeof(struct object *);
	memory = vt_helper_map(size, 0);
	if (!memory)
		return vt_py_fail(&own.py, "the target has no memory left for the question");
	own.cache = (struct cached *)memory;
	own.known = (struct known *)(own.cache + N_CACHED);
	own.listed = (struct object **)(own.known + own.n_slots);
	status = vt_py_with_gil(&own.py, with_gil);
	vt_helper_unmap(memory, size);
	return status;
}
