/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's heap, damaged: a synthetic one, laid out as one of the releases, of which some words
 * were changed. Making the graph of it, and the words of all edges, must come to an end without
 * touching what is not there. (tests/functional/python_heap.py does it with those of interpreters.)
 *
 * An input is a byte (which release) and edits of 8 bytes each.
 */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "fuzz.h"
#include "target/arch/arch.h"
#include "walk/pyheap/pyheap.h"
#include "walk/python/layout.h"

#define SIZE ((size_t)256 << 10)
#define BEFORE 64 /* room for the collector's head and for values, before each object */
#define MAX_EDITS 16
#define EDIT_BYTES 8
#define MAX_PLANTED 64
#define TRAVERSE 0x1234000
#define ROOT 1

enum { MAX_NODES = 20000, MAX_EDGES = 200000, MAX_LISTED = 100000 };
enum what { SET_WORD, SET_BYTE, ADD, POINT, LARGE, COPY, N_WHAT };

enum flag {
	INLINE_VALUES = 1 << 2,
	MANAGED_DICT = 1 << 4,
	HEAP_TYPE = 1 << 9,
	READY = 1 << 12,
	HAVE_GC = 1 << 14,
	LIST = 1 << 25,
	TUPLE = 1 << 26,
	STR = 1 << 28,
	DICT = 1 << 29,
	EXCEPTION = 1 << 30,
};
#define TYPE_FLAG (UINT64_C(1) << 31)

static struct {
	struct vt_memsrc src;
	uint8_t *base;
	size_t used;
	const struct vt_python_layout *layout;
	uint64_t type, object, str, tuple, dict, bytes, code; /* types */
	uint64_t interpreter;
	uint64_t planted[MAX_PLANTED];
	size_t n_planted;
	struct vt_python py;
	struct vt_python_frame frame;
	struct vt_python_thread thread;
} image;

static int image_read(struct vt_memsrc *src, uint64_t addr, void *buf, size_t len)
{
	uint64_t base = (uintptr_t)image.base;

	if (addr < base || addr - base > SIZE || len > SIZE - (addr - base)) {
		src->fault_addr = addr;
		return -EFAULT;
	}
	memcpy(buf, image.base + (addr - base), len);
	return 0;
}

/* ---- building ---- */

static uint64_t alloc(size_t size)
{
	uint64_t addr = (uintptr_t)image.base + image.used + BEFORE;

	image.used += BEFORE + ((size + 15) & ~(size_t)15);
	fuzz_check(image.used <= SIZE, "the image is too small");
	return addr;
}

static void put_at(uint64_t addr, uint64_t value, size_t width)
{
	memcpy(image.base + (addr - (uintptr_t)image.base), &value, width);
}

static uint32_t at(enum vt_py_field field)
{
	return image.layout->at[field];
}

static bool has(enum vt_py_field field)
{
	return at(field) != VT_PY_NONE;
}

static void put(uint64_t object, enum vt_py_field field, uint64_t value)
{
	if (has(field))
		put_at(object + at(field), value, 8);
}

static void put_int(uint64_t object, enum vt_py_field field, uint32_t value, size_t width)
{
	if (has(field))
		put_at(object + at(field), value, width);
}

static uint64_t head(void)
{
	return at(VT_PY_OBJECT_SIZE);
}

static uint64_t make(uint64_t type, size_t size)
{
	uint64_t object = alloc(size);

	put_at(object, 5, 8);
	put(object, VT_PY_OBJECT_TYPE, type);
	return object;
}

static uint64_t plant(uint64_t object)
{
	fuzz_check(image.n_planted < MAX_PLANTED, "too many are planted");
	return image.planted[image.n_planted++] = object;
}

static uint64_t make_str(const char *text)
{
	uint64_t str = make(image.str, 200);
	uint32_t state = 1u << at(VT_PY_STATE_KIND_SHIFT) | at(VT_PY_STATE_COMPACT) |
			 at(VT_PY_STATE_ASCII);

	if (has(VT_PY_STATE_READY))
		state |= at(VT_PY_STATE_READY);
	put(str, VT_PY_UNICODE_LENGTH, strlen(text));
	put_int(str, VT_PY_UNICODE_STATE, state, 4);
	memcpy((void *)(uintptr_t)(str + at(VT_PY_UNICODE_ASCII_DATA)), text, strlen(text) + 1);
	return str;
}

static uint64_t make_tuple(const uint64_t *items, size_t n)
{
	uint64_t tuple = make(image.tuple, at(VT_PY_TUPLE_ITEMS) + n * 8 + 8);

	put(tuple, VT_PY_OBJECT_SIZE, n);
	for (size_t i = 0; i < n; i++)
		put_at(tuple + at(VT_PY_TUPLE_ITEMS) + i * 8, items[i], 8);
	return tuple;
}

static uint64_t make_keys(const char *const *names, const uint64_t *values, size_t n, bool general)
{
	uint64_t keys = alloc(at(VT_PY_KEYS_INDICES) + 16 + n * 24);
	size_t step = has(VT_PY_KEYS_KIND) && !general ? 16 : 24;

	put(keys, VT_PY_KEYS_SIZE, 16);
	put_int(keys, VT_PY_KEYS_LOG2_INDEX, 4, 1);
	if (has(VT_PY_KEYS_KIND))
		put_int(keys, VT_PY_KEYS_KIND,
			general ? at(VT_PY_KEYS_KIND_GENERAL) : at(VT_PY_KEYS_KIND_GENERAL) + 1, 1);
	put(keys, VT_PY_KEYS_NENTRIES, n);
	for (size_t i = 0; i < n; i++) {
		uint64_t entry = keys + at(VT_PY_KEYS_INDICES) + 16 + i * step + (step == 24) * 8;

		put_at(entry, make_str(names[i]), 8);
		put_at(entry + 8, values ? values[i] : 0, 8);
	}
	return keys;
}

static uint64_t make_dict(const char *const *names, const uint64_t *values, size_t n, bool general)
{
	uint64_t dict = make(image.dict, 80);

	put(dict, VT_PY_DICT_USED, n);
	put(dict, VT_PY_DICT_KEYS, make_keys(names, values, n, general));
	return dict;
}

static uint64_t make_type(const char *name, uint64_t flags, uint64_t base, size_t basicsize)
{
	uint64_t type = make(image.type, 1024), text = alloc(64);
	uint64_t mro[] = { type, base ? base : type, image.object };
	static const char *const module[] = { "__module__" };

	memcpy((void *)(uintptr_t)text, name, strlen(name) + 1);
	put(type, VT_PY_TYPE_NAME, text);
	put(type, VT_PY_TYPE_FLAGS, flags | READY);
	put(type, VT_PY_TYPE_BASE, base);
	put(type, VT_PY_TYPE_BASICSIZE, basicsize);
	if (image.dict) {
		put(type, VT_PY_TYPE_MRO, make_tuple(mro, 3));
		put(type, VT_PY_TYPE_DICT,
		    make_dict(module, &(uint64_t){ make_str("m") }, 1, true));
	}
	if (flags & HEAP_TYPE)
		put(type, VT_PY_TYPE_TRAVERSE, TRAVERSE);
	return type;
}

static uint64_t make_builtin(const char *name, size_t basicsize)
{
	return make_type(name, 0, image.object, basicsize);
}

static uint64_t make_code(void)
{
	uint64_t code = make(image.code, 512), bytes = make(image.bytes, 64);
	uint64_t names[] = { make_str("a"), make_str("b") }, empty = make_tuple(names, 0);

	put(bytes, VT_PY_OBJECT_SIZE, 2);
	put_at(bytes + at(VT_PY_BYTES_DATA), 0x8020, 2);
	put(code, VT_PY_CODE_LOCALSNAMES, make_tuple(names, 2));
	put(code, VT_PY_CODE_LOCALSKINDS, bytes);
	put(code, VT_PY_CODE_VARNAMES, make_tuple(names, 1));
	put(code, VT_PY_CODE_FREEVARS, make_tuple(names + 1, 1));
	put(code, VT_PY_CODE_CELLVARS, empty);
	put(code, VT_PY_CODE_NAME, make_str("run"));
	put(code, VT_PY_CODE_QUALNAME, make_str("run"));
	put(code, VT_PY_CODE_FILENAME, make_str("/x.py"));
	put(code, VT_PY_CODE_LINETABLE, bytes);
	put_int(code, VT_PY_CODE_FIRSTLINENO, 3, 4);
	put_int(code, VT_PY_CODE_STACKSIZE, 4, 4);
	return code;
}

static void fill_frame(uint64_t frame, uint64_t code, uint64_t local, uint64_t cell)
{
	put(frame, VT_PY_FRAME_CODE, code);
	put_at(frame + at(VT_PY_FRAME_LOCALS), local, 8);
	put_at(frame + at(VT_PY_FRAME_LOCALS) + 8, cell, 8);
	put_at(frame + at(VT_PY_FRAME_LOCALS) + 16, local, 8);
	put(frame, VT_PY_FRAME_STACK, frame + at(VT_PY_FRAME_LOCALS) + 16);
	put_int(frame, VT_PY_FRAME_STACK_END, 3, 4);
	put_int(frame, VT_PY_FRAME_STACK_DEPTH, 1, 4);
	put(frame, VT_PY_FRAME_STACK_TOP, frame + at(VT_PY_FRAME_LOCALS) + 24);
}

/* A list whose items are the others, so that each of them is reached. */
static uint64_t make_list(const uint64_t *items, size_t n)
{
	uint64_t list = make(make_type("list", LIST, image.object, head() + 24), 64);
	uint64_t array = alloc(n * 8);

	put(list, VT_PY_OBJECT_SIZE, n);
	put(list, VT_PY_LIST_ITEMS, array);
	put_at(list + at(VT_PY_LIST_ITEMS) + 8, n, 8);
	for (size_t i = 0; i < n; i++)
		put_at(array + i * 8, items[i], 8);
	return list;
}

static uint64_t make_instance(uint64_t thing)
{
	static const char *const names[] = { "x", "y" };
	bool managed = has(VT_PY_OBJECT_DICT), values = has(VT_PY_VALUES_VALID);
	uint64_t type = make_type("Plain",
				  HEAP_TYPE | HAVE_GC | (managed ? MANAGED_DICT : 0) |
					  (values ? INLINE_VALUES : 0),
				  image.object, head() + 16);
	uint64_t member = alloc(80), name = alloc(16), object = make(type, 128), array = alloc(64);

	memcpy((void *)(uintptr_t)name, "slot", 5);
	put_at(member, name, 8);
	put_at(member + 8, 16, 4); /* T_OBJECT_EX */
	put_at(member + 16, head(), 8);
	put(type, VT_PY_TYPE_MEMBERS, member);
	put(type, VT_PY_TYPE_CACHED_KEYS, make_keys(names, NULL, 2, false));
	put_at(object + head(), thing, 8);
	if (values) {
		array = object + head() + 16;
		put_at(array, 2, 1);
		put_int(array, VT_PY_VALUES_VALID, 1, 1);
	} else if (has(VT_PY_OBJECT_VALUES)) {
		put_at(object - at(VT_PY_OBJECT_VALUES), array, 8);
	} else if (managed) {
		put_at(object - at(VT_PY_OBJECT_DICT), array - 1, 8);
	} else {
		put(type, VT_PY_TYPE_DICTOFFSET, head() + 8);
		put_at(object + head() + 8, make_dict(names, (uint64_t[]){ thing, thing }, 2, true),
		       8);
	}
	put_at(array + at(VT_PY_VALUES_ARRAY), thing, 8);
	put_at(array + at(VT_PY_VALUES_ARRAY) + 8, thing, 8);
	return object;
}

static uint64_t make_set(uint64_t thing)
{
	uint64_t set = make(make_builtin("set", head() + 120), 200), table = alloc(128);

	put(set, VT_PY_SET_USED, 1);
	put(set, VT_PY_SET_MASK, 7);
	put(set, VT_PY_SET_TABLE, table);
	put_at(table + 32, thing, 8);
	return set;
}

static uint64_t make_deque(uint64_t thing)
{
	uint64_t deque = make(make_builtin("collections.deque", head() + 80), 128);
	uint64_t block = alloc(66 * 8), second = alloc(66 * 8);

	put(deque, VT_PY_OBJECT_SIZE, 40);
	put_at(deque + head() + 8, block, 8);
	put_at(deque + head() + 24, 30, 8);
	put_at(block + 8 + 65 * 8, second, 8);
	put_at(block + 8 + 64 * 8, second, 8);
	for (int i = 0; i < 64; i++) {
		put_at(block + 8 + (uint64_t)i * 8, thing, 8);
		put_at(second + 8 + (uint64_t)i * 8, thing, 8);
	}
	return deque;
}

static uint64_t make_queue(uint64_t thing)
{
	uint64_t queue = make(make_builtin("_queue.SimpleQueue", head() + 56), 128);
	uint64_t items = alloc(64);

	put_at(queue + head() + 16, 6, 8);
	put_at(queue + head() + 24, items, 8);
	put_at(queue + head() + 32, 8, 8);
	put_at(queue + head() + 40, 5, 8);
	for (uint64_t i = 0; i < 8; i++)
		put_at(items + i * 8, thing, 8);
	return queue;
}

static uint64_t make_words(const char *name, uint64_t flags, size_t words, uint64_t thing)
{
	uint64_t object = make(make_type(name, flags, image.object, head() + words * 8),
			       head() + words * 8 + 64);

	for (size_t i = 0; i < words; i++)
		put_at(object + head() + i * 8, thing, 8);
	return object;
}

static uint64_t make_generator(uint64_t code, uint64_t thing, uint64_t cell)
{
	uint64_t generator =
		make(make_builtin("generator", has(VT_PY_GEN_STATE) ? at(VT_PY_GEN_FRAME) + 80 :
								      at(VT_PY_GEN_FRAME) + 80),
		     640);

	put_int(generator, VT_PY_GEN_STATE, 0xff, 1);
	if (has(VT_PY_GEN_STATE)) {
		fill_frame(generator + at(VT_PY_GEN_FRAME), code, thing, cell);
	} else {
		uint64_t frame = make(make_builtin("frame", at(VT_PY_FRAME_LOCALS)), 512);

		fill_frame(frame, code, thing, cell);
		put(generator, VT_PY_GEN_FRAME, frame);
	}
	return generator;
}

static uint64_t make_function(uint64_t code, uint64_t cell, uint64_t thing)
{
	uint64_t function = make_words("function", 0, 14, 0);

	put(function, VT_PY_FUNC_CODE, code);
	put(function, VT_PY_FUNC_CLOSURE, make_tuple(&cell, 1));
	put(function, VT_PY_FUNC_DEFAULTS, make_tuple(&thing, 1));
	return function;
}

static void make_basics(void)
{
	static uint64_t *const basics[] = { &image.type, &image.object, &image.str, &image.tuple,
					    &image.dict };

	image.type = alloc(1024);
	put_at(image.type, 5, 8);
	put(image.type, VT_PY_OBJECT_TYPE, image.type);
	put(image.type, VT_PY_TYPE_FLAGS, READY | TYPE_FLAG);
	put(image.type, VT_PY_TYPE_BASICSIZE, 900);
	put(image.type, VT_PY_TYPE_NAME, alloc(16));
	image.object = make_type("object", 0, 0, head());
	image.str = make_type("str", STR, image.object, 56);
	image.tuple = make_type("tuple", TUPLE, image.object, at(VT_PY_TUPLE_ITEMS));
	image.dict = make_type("dict", DICT, image.object, head() + 32);
	for (size_t i = 0; i < sizeof(basics) / sizeof(basics[0]); i++)
		put(*basics[i], VT_PY_TYPE_MRO,
		    make_tuple((uint64_t[]){ *basics[i], image.object }, 2));
	image.bytes = make_builtin("bytes", 32);
	image.code = make_builtin("code", 200);
	put(image.type, VT_PY_TYPE_BASE, image.object);
	memcpy((void *)(uintptr_t)(image.type + 900), "type", 5);
	put(image.type, VT_PY_TYPE_NAME, image.type + 900);
}

/* The collector's list: all that is planted. */
static void make_list_of_collector(uint64_t gc)
{
	uint64_t last = gc + 16;

	for (size_t i = 0; i < image.n_planted; i++) {
		put_at(last, image.planted[i] - 16, 8);
		put_at(image.planted[i] - 8, last, 8);
		last = image.planted[i] - 16;
	}
	put_at(last, gc + 16, 8);
	put_at(gc + 24, last, 8);
}

static uint64_t make_interpreter(uint64_t module)
{
	uint64_t interpreter = alloc(32768), spec_class, spec_module, values[2];
	static const char *const names[] = { "__main__", "_frozen_importlib" };
	static const char *const spec[] = { "ModuleSpec" }, *const last[] = { "last_value" };
	uint64_t module_type = make_builtin("module", head() + 40);

	spec_class = make_type("ModuleSpec", HEAP_TYPE | HAVE_GC, image.object, head());
	spec_module = make(module_type, 96);
	put_at(spec_module + head(), make_dict(spec, &spec_class, 1, false), 8);
	values[0] = module;
	values[1] = spec_module;
	put(interpreter, VT_PY_INTERP_MODULES, make_dict(names, values, 2, false));
	put(interpreter, VT_PY_INTERP_SYSDICT, make_dict(last, &image.planted[0], 1, false));
	put(interpreter, VT_PY_INTERP_BUILTINS, make_dict(spec, &spec_class, 1, false));
	return interpreter;
}

static void build(const struct vt_python_layout *layout)
{
	static const struct vt_memsrc_ops ops = { .read = image_read };
	static const char *const names[] = { "all", "x" };
	uint64_t thing, code, cell, runtime, module, frame, gc, values[2];

	image.src = (struct vt_memsrc){ .ops = &ops, .coherent = true };
	image.used = image.n_planted = 0;
	image.tuple = image.dict = image.object = image.type = 0;
	image.layout = layout;
	memset(image.base, 0, SIZE);
	make_basics();
	runtime = alloc(8192);
	thing = make_words("Thing", HEAP_TYPE | HAVE_GC, 0, 0);
	cell = make(make_builtin("cell", head() + 8), 32);
	put(cell, VT_PY_CELL_VALUE, thing);
	code = make_code();
	plant(make_words("ValueError", EXCEPTION, 8, thing));
	plant(make_instance(thing));
	plant(make_set(thing));
	plant(make_deque(thing));
	plant(make_queue(thing));
	plant(make_words("_thing.Opaque", HEAP_TYPE, 12, thing));
	plant(make_words("method", 0, 2, thing));
	plant(make_words("traceback", 0, 3, thing));
	plant(make_generator(code, thing, cell));
	plant(make_function(code, cell, thing));
	plant(make_dict(names, (uint64_t[]){ thing, thing }, 2, true));
	plant(make_tuple(&thing, 1));
	plant(make_list(image.planted, image.n_planted));
	module = make(make_builtin("module", head() + 40), 96);
	values[0] = image.planted[image.n_planted - 1];
	values[1] = thing;
	put_at(module + head(), make_dict(names, values, 2, false), 8);
	image.interpreter = make_interpreter(module);
	put(runtime, VT_PY_RUNTIME_INTERPRETERS, image.interpreter);
	gc = has(VT_PY_RUNTIME_GC) ? runtime + at(VT_PY_RUNTIME_GC) :
				     image.interpreter + at(VT_PY_INTERP_GC);
	make_list_of_collector(gc);
	frame = make(make_builtin("frame", 400), 512);
	fill_frame(frame, code, thing, cell);
	image.frame = (struct vt_python_frame){ .frame = frame, .code = code };
	image.thread = (struct vt_python_thread){ .tstate = alloc(1024), .tid = 7 };
	image.thread.frames.data = &image.frame;
	image.thread.frames.n = 1;
	image.py = (struct vt_python){
		.major = layout->major,
		.minor = layout->minor,
		.free_threaded = layout->free_threaded,
		.arch = &vt_arch_x86_64, /* of its struct pthread */
		.runtime = runtime,
		.layout = layout,
		.types[VT_PYTHON_CODE].symbol = image.code,
		.types[VT_PYTHON_STR].symbol = image.str,
		.types[VT_PYTHON_BYTES].symbol = image.bytes,
	};
	image.py.threads.data = &image.thread;
	image.py.threads.n = 1;
}

/* ---- damage ---- */

static void apply(const uint8_t *data)
{
	uint16_t index, value;
	uint8_t *word_at;
	uint64_t word, other;

	memcpy(&index, data + 2, sizeof(index));
	memcpy(&value, data + 4, sizeof(value));
	word_at = image.base + (size_t)index * 8 % image.used;
	memcpy(&word, word_at, sizeof(word));
	memcpy(&other, image.base + (size_t)value * 8 % image.used, sizeof(other));
	switch (data[0] % N_WHAT) {
	case SET_WORD:
		word = value;
		break;
	case SET_BYTE:
		word = (word & ~UINT64_C(0xff)) | (value & 0xff);
		break;
	case ADD:
		word += (uint64_t)(int64_t)(int16_t)value;
		break;
	case POINT:
		word = (uintptr_t)image.base + (uint64_t)value * 8 % image.used;
		break;
	case COPY:
		word = other;
		break;
	default:
		word = UINT64_MAX << value % 64;
		break;
	}
	memcpy(word_at, &word, sizeof(word));
}

/* ---- reading ---- */

static void list(void *arg, uint64_t object)
{
	vt_graph_node(arg, object, VT_NODE_PYTHON);
}

static void explore(struct vt_pyheap *heap, size_t first)
{
	for (size_t i = first; i < heap->graph->nodes.n; i++) {
		vt_graph_explore(heap->graph, (uint32_t)i);
		if (heap->graph->nodes.data[i].kind == VT_NODE_ROOT)
			vt_pyheap_roots(heap);
		else
			vt_pyheap_edges(heap, (uint32_t)i);
	}
}

static void tell(struct vt_pyheap *heap, uint32_t i)
{
	const struct vt_graph_node node = heap->graph->nodes.data[i];
	struct vt_pyheap_where where;
	struct vt_str text = { 0 };

	vt_pyheap_count(heap, node.addr);
	if (node.kind == VT_NODE_FRAME)
		vt_pyheap_where(heap, i, &where);
	for (uint32_t e = 0; e < node.n_edges; e++) {
		const struct vt_graph_edge edge = heap->graph->edges.data[node.first_edge + e];

		fuzz_check(edge.to < heap->graph->nodes.n, "edge %u of node %u", e, i);
		vt_pyheap_edge_text(heap, i, &edge, e % 2, &text);
		vt_pyheap_key_is(heap, i, &edge, "x");
		vt_str_clear(&text);
	}
	vt_str_deinit(&text);
}

static void read_heap(bool damaged)
{
	struct vt_pages pages;
	struct vt_graph graph;
	struct vt_pyheap *heap = malloc(sizeof(*heap));
	size_t n;

	fuzz_check(heap && vt_graph_init(&graph, MAX_NODES, MAX_EDGES), "out of memory");
	vt_error_destroy(vt_pages_init(&pages, &image.src, SIZE * 2));
	struct vt_error *err = vt_pyheap_init(heap, &image.py, &pages, &graph);

	fuzz_check(!err, "%s", err ? err->message : "");
	vt_graph_node(&graph, ROOT, VT_NODE_ROOT);
	explore(heap, 0);
	n = graph.nodes.n;
	for (size_t i = 0; i < image.n_planted && !damaged; i++)
		fuzz_check(vt_graph_find(&graph, image.planted[i]) != VT_GRAPH_NONE,
			   "object %zu of CPython %d.%d%s is not found", i, image.py.major,
			   image.py.minor, image.py.free_threaded ? "t" : "");
	fuzz_check(vt_pyheap_collectable(heap, MAX_LISTED, list, &graph) || damaged ||
			   image.py.free_threaded,
		   "no lists");
	fuzz_check(damaged || graph.nodes.n == n, "the lists have others");
	explore(heap, n);
	for (size_t i = 0; i < graph.nodes.n; i++)
		tell(heap, (uint32_t)i);
	vt_pyheap_deinit(heap);
	vt_arena_deinit(&image.py.arena);
	vt_graph_deinit(&graph);
	vt_pages_deinit(&pages);
	free(heap);
}

static size_t n_rows(void)
{
	size_t n = 0;

	while (vt_python_layout_nth(n))
		n++;
	return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t n = 0;

	if (size < 1)
		return 0;
	if (!image.base) {
		/* At the same place each time: an input must mean the same. */
		image.base = mmap((void *)UINT64_C(0x200000000000), SIZE, PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		fuzz_check(image.base != MAP_FAILED, "no memory");
	}
	build(vt_python_layout_nth(data[0] % n_rows()));
	for (size_t i = 1; i + EDIT_BYTES <= size && n < MAX_EDITS; i += EDIT_BYTES, n++)
		apply(data + i);
	read_heap(n > 0);
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	size_t rows = n_rows(), n = 1 + (number >= rows ? EDIT_BYTES : 0);

	if (number >= rows * 4 || max < n)
		return 0;
	memset(data, 0, n);
	data[0] = (uint8_t)(number % rows);
	if (n > 1) {
		data[1] = (uint8_t)(number / rows);
		data[3] = (uint8_t)(number * 7);
		data[4] = (uint8_t)number;
		data[5] = 8;
	}
	return n;
}
