/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PyTorch asked for its blocks through the interpreter of the target, as torch.cuda.memory_snapshot() does it.
 * doc/SAFETY.md has what can go wrong; the rules here:
 *
 * - Nothing of the target is held while we wait for the GIL. It cannot be waited for with a limit: a GIL that comes too
 *   late, or after the tool went on, is given back at once.
 * - With the GIL nothing waits: the mutexes that PyTorch will take are looked at first, and it is not asked while one is
 *   locked.
 * - No Python code is evaluated. Only built-in functions of torch._C are called, and attributes are looked up in the
 *   modules' own dictionaries: no import, no audit event, no call that a profiler or debugger sees. Nor does a finaliser
 *   run: since 3.12 the garbage collector does only between two instructions of Python code, and in older releases it is
 *   off meanwhile. So the GIL is not let go in between either (2.11 and 2.15 do not in these functions).
 * - An exception ends here; nothing is printed.
 *
 * Objects are borrowed references unless a function is called make_ or call_.
 */
#include "sys.h"

#include <string.h>

#include "ops.h"

#define MUTEX_PAUSE_NS UINT64_C(50000)
#define ROOM_SLACK 1024 /* blocks that may come into being between the counters and the list */
#define METH_NOARGS_ 4
#define METH_O_ 8
#define METH_CALL 0x8f /* VARARGS, KEYWORDS, NOARGS, O, FASTCALL: how it is called */

struct object; /* PyObject */

typedef struct object *from_long_fn(long value);
typedef int int_of_object_fn(struct object *object);
typedef int int_fn(void);
typedef void void_fn(void);
typedef void release_fn(int state);
typedef void of_object_fn(struct object *object);
typedef struct object *object_fn(void);
typedef struct object *of_one_fn(struct object *object);
typedef struct object *of_two_fn(struct object *object, struct object *other);
typedef struct object *of_text_fn(struct object *object, const char *text);
typedef struct object *at_fn(struct object *object, long index);
typedef long size_fn(struct object *object);
typedef long long value_fn(struct object *object);
typedef struct object *new_fn(long size);
typedef int set_fn(struct object *object, long index, struct object *item);
typedef const char *text_fn(struct object *object);
typedef struct object *make_text_fn(const char *text);

/* What is looked up once for each block or counter, made into objects once. */
#define KEYS(X)                                                                                                      \
	X(segments) X(device) X(address) X(total_size) X(stream) X(segment_type) X(segment_pool_id) X(is_expandable) \
	X(blocks) X(size) X(requested_size) X(state) X(all) X(current) X(peak) X(allocated) X(freed)

enum key {
#define KEY(name) KEY_##name,
	KEYS(KEY)
#undef KEY
	N_KEYS
};

struct ask {
	struct vt_helper_shared *shared;
	struct vt_ask_pytorch_args args;
	struct object *keys[N_KEYS];
	struct object *functions; /* the dictionary of torch._C */
	struct vt_block_rec *recs;
	uint64_t n, capacity;
	uint64_t expected; /* blocks, by the counters */
};

#define PY(ask, name, type) ((type *)(ask)->args.python.name)

static void set_why(struct ask *ask, const char *why)
{
	char *to = ask->shared->why;
	unsigned int i = 0;

	for (; why[i] && i + 1 < sizeof(ask->shared->why); i++)
		to[i] = why[i];
	to[i] = '\0';
}

static uint32_t fail(struct ask *ask, const char *why)
{
	set_why(ask, why);
	return VT_HELPER_FAILED;
}

static const char too_many[] = "there are too many blocks: PyTorch makes an object of each";

/* ---- objects ---- */

static void drop(struct ask *ask, struct object *object)
{
	PY(ask, Py_DecRef, of_object_fn)(object); /* NULL is fine */
}

static struct object *get(struct ask *ask, struct object *dict, enum key key)
{
	return PY(ask, PyDict_GetItemWithError, of_two_fn)(dict, ask->keys[key]);
}

static int to_number(struct ask *ask, struct object *object, int64_t *value)
{
	if (!object)
		return 0;
	*value = PY(ask, PyLong_AsLongLong, value_fn)(object);
	return *value != -1 || !PY(ask, PyErr_Occurred, object_fn)();
}

static int get_number(struct ask *ask, struct object *dict, enum key key, int64_t *value)
{
	return to_number(ask, get(ask, dict, key), value);
}

/* A size or an address: no CUDA object is beyond 2^47. */
static int get_size(struct ask *ask, struct object *dict, enum key key, uint64_t *value)
{
	int64_t number;

	if (!get_number(ask, dict, key, &number) || number < 0)
		return 0;
	*value = (uint64_t)number;
	return 1;
}

static int is_text(struct ask *ask, struct object *object, const char *text)
{
	const char *theirs = object ? PY(ask, PyUnicode_AsUTF8, text_fn)(object) : NULL;

	while (theirs && *theirs == *text) {
		if (!*text)
			return 1;
		theirs++;
		text++;
	}
	return 0;
}

static int make_keys(struct ask *ask)
{
	static const char *const names[] = {
#define NAME(name) #name,
		KEYS(NAME)
#undef NAME
	};

	for (int i = 0; i < N_KEYS; i++) {
		ask->keys[i] = PY(ask, PyUnicode_FromString, make_text_fn)(names[i]);
		if (!ask->keys[i])
			return 0;
	}
	return 1;
}

static void drop_keys(struct ask *ask)
{
	for (int i = 0; i < N_KEYS; i++)
		drop(ask, ask->keys[i]);
}

/* ---- the functions of torch._C ---- */

/* A built-in function; NULL when it is none, or somebody has put something else in its place. */
static struct object *function(struct ask *ask, const char *name, int *flags)
{
	struct object *found = PY(ask, PyDict_GetItemString, of_text_fn)(ask->functions, name);

	*flags = found ? PY(ask, PyCFunction_GetFlags, int_of_object_fn)(found) : -1;
	if (*flags < 0)
		return NULL;
	*flags &= METH_CALL;
	return found;
}

/* Calls it with the one argument (stolen), or with none. */
static struct object *call_with(struct ask *ask, struct object *called, struct object *argument)
{
	struct object *tuple = PY(ask, PyTuple_New, new_fn)(argument ? 1 : 0);
	struct object *result;

	if (!tuple) {
		drop(ask, argument);
		return NULL;
	}
	if (argument && PY(ask, PyTuple_SetItem, set_fn)(tuple, 0, argument)) {
		drop(ask, tuple);
		return NULL;
	}
	PY(ask, Py_IncRef, of_object_fn)(called); /* whatever it does, it lives until it returns */
	result = PY(ask, PyObject_CallObject, of_two_fn)(called, tuple);
	drop(ask, called);
	drop(ask, tuple);
	return result;
}

static struct object *call_plain(struct ask *ask, const char *name)
{
	int flags;
	struct object *called = function(ask, name, &flags);

	return called ? call_with(ask, called, NULL) : NULL;
}

/* (0, 0, False): blocks of all pools, without the trace of past allocations; 2.11 and later take it. */
static struct object *make_all_pools(struct ask *ask)
{
	struct object *tuple = PY(ask, PyTuple_New, new_fn)(3);

	if (!tuple)
		return NULL;
	for (int i = 0; i < 3; i++) {
		struct object *item = i < 2 ? PY(ask, PyLong_FromLong, from_long_fn)(0) :
					      PY(ask, PyBool_FromLong, from_long_fn)(0);

		if (!item || PY(ask, PyTuple_SetItem, set_fn)(tuple, i, item)) {
			drop(ask, tuple);
			return NULL;
		}
	}
	return tuple;
}

static struct object *call_snapshot(struct ask *ask)
{
	int flags;
	struct object *called = function(ask, "_cuda_memorySnapshot", &flags), *argument;

	if (called && flags == METH_NOARGS_) /* up to 2.10 */
		return call_with(ask, called, NULL);
	if (!called || flags != METH_O_)
		return NULL;
	argument = make_all_pools(ask);
	return argument ? call_with(ask, called, argument) : NULL;
}

/* ---- what PyTorch counts ---- */

struct counter {
	const char *name;
	uint16_t offset;
	uint8_t is_number; /* else a dictionary: ["all"]["current"] and so on */
};

static const struct counter counters[] = {
#define OFFSET(field) (uint16_t) offsetof(struct vt_torch_stats, field)
	{ "allocation", OFFSET(allocation), 0 },
	{ "segment", OFFSET(segment), 0 },
	{ "active", OFFSET(active), 0 },
	{ "inactive_split", OFFSET(inactive_split), 0 },
	{ "allocated_bytes", OFFSET(allocated_bytes), 0 },
	{ "reserved_bytes", OFFSET(reserved_bytes), 0 },
	{ "active_bytes", OFFSET(active_bytes), 0 },
	{ "inactive_split_bytes", OFFSET(inactive_split_bytes), 0 },
	{ "requested_bytes", OFFSET(requested_bytes), 0 },
	{ "num_alloc_retries", OFFSET(num_alloc_retries), 1 },
	{ "num_ooms", OFFSET(num_ooms), 1 },
#undef OFFSET
};

static int take_counter(struct ask *ask, struct object *dict, const struct counter *counter, struct vt_torch_stats *stats)
{
	struct object *object = PY(ask, PyDict_GetItemString, of_text_fn)(dict, counter->name);
	struct vt_torch_stat stat;

	if (!object)
		return 0;
	if (counter->is_number)
		return to_number(ask, object, (int64_t *)((char *)stats + counter->offset));
	object = get(ask, object, KEY_all);
	if (!object || !get_number(ask, object, KEY_current, &stat.current) || !get_number(ask, object, KEY_peak, &stat.peak) ||
	    !get_number(ask, object, KEY_allocated, &stat.allocated) || !get_number(ask, object, KEY_freed, &stat.freed))
		return 0;
	__builtin_memcpy((char *)stats + counter->offset, &stat, sizeof(stat));
	return 1;
}

static int read_stats(struct ask *ask, int device, struct vt_torch_stats *stats)
{
	int flags, ok;
	struct object *called = function(ask, "_cuda_memoryStats", &flags);
	struct object *argument = called && flags == METH_O_ ? PY(ask, PyLong_FromLong, from_long_fn)(device) : NULL;
	struct object *dict = argument ? call_with(ask, called, argument) : NULL;

	ok = dict != NULL;
	for (unsigned int i = 0; ok && i < sizeof(counters) / sizeof(counters[0]); i++)
		ok = take_counter(ask, dict, &counters[i], stats);
	drop(ask, dict);
	return ok;
}

static int read_all_stats(struct ask *ask, struct vt_torch_stats *stats)
{
	for (int i = 0; i < ask->args.n_devices; i++)
		if (!read_stats(ask, i, &stats[i]))
			return 0;
	return 1;
}

/* A bound: each block is active, or the rest of a segment that was split, or a segment that is free as a whole. */
static int count_expected(struct ask *ask)
{
	uint64_t n = 0;

	for (int i = 0; i < ask->args.n_devices; i++) {
		const struct vt_torch_stats *stats = &ask->shared->asked.before[i];
		int64_t counts[] = { stats->active.current, stats->inactive_split.current, stats->segment.current };

		for (unsigned int k = 0; k < sizeof(counts) / sizeof(counts[0]); k++) {
			if (counts[k] < 0 || (uint64_t)counts[k] > ask->args.max_blocks)
				return 0;
			n += (uint64_t)counts[k];
		}
	}
	ask->expected = n;
	return n <= ask->args.max_blocks;
}

/* ---- its locks ---- */

static int is_locked(uint64_t mutex)
{
	uint32_t lock;

	return vt_sys_peek(mutex, &lock, sizeof(lock)) != 0 || lock != 0;
}

/* Whoever holds one for long is in the driver, and with the GIL we must not wait for that. */
static int mutexes_are_free(struct ask *ask)
{
	uint64_t start = vt_sys_now_ns();

	for (int i = 0; i < ask->args.n_devices; i++) {
		while (is_locked(ask->args.mutexes[i])) {
			if (vt_sys_now_ns() - start > ask->args.mutex_wait_ns)
				return 0;
			vt_sys_sleep_ns(MUTEX_PAUSE_NS);
		}
	}
	return 1;
}

/* ---- the blocks ---- */

/* What the blocks of a segment have in common. */
struct segment {
	int64_t device;
	uint64_t address, size, stream, pool;
	uint8_t flags;
};

static int state_of(struct ask *ask, struct object *text, uint8_t *state)
{
	static const struct {
		const char *name;
		uint8_t state;
	} states[] = {
		{ "active_allocated", VT_BLOCK_ALLOCATED },
		{ "inactive", VT_BLOCK_CACHED },
		{ "active_pending_free", VT_BLOCK_AWAITING_FREE },
		{ "active_awaiting_free", VT_BLOCK_AWAITING_FREE },
	};

	for (unsigned int i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
		if (is_text(ask, text, states[i].name)) {
			*state = states[i].state;
			return 1;
		}
	}
	return 0;
}

static int take_block(struct ask *ask, struct object *dict, const struct segment *segment, uint64_t at)
{
	struct vt_block_rec *rec = &ask->recs[ask->n];
	struct object *address = get(ask, dict, KEY_address); /* since 2.1 */
	uint64_t told = at;
	int64_t number;

	memset(rec, 0, sizeof(*rec));
	if (address && (!to_number(ask, address, &number) || (told = (uint64_t)number) != at))
		return 0;
	rec->addr = at;
	rec->device = (int16_t)segment->device;
	rec->stream = segment->stream;
	rec->pool = segment->pool;
	rec->flags = (uint8_t)(segment->flags | (at == segment->address ? VT_BLOCK_SEGMENT_START : 0));
	if (!get_size(ask, dict, KEY_size, &rec->size) || !state_of(ask, get(ask, dict, KEY_state), &rec->state))
		return 0;
	if (rec->state == VT_BLOCK_ALLOCATED && !get_size(ask, dict, KEY_requested_size, &rec->requested))
		return 0;
	return 1;
}

static int take_segment_facts(struct ask *ask, struct object *dict, struct segment *segment)
{
	struct object *pool = get(ask, dict, KEY_segment_pool_id), *type = get(ask, dict, KEY_segment_type);
	struct object *expandable = get(ask, dict, KEY_is_expandable);
	int64_t first, second;

	if (!get_number(ask, dict, KEY_device, &segment->device) || segment->device < 0 ||
	    segment->device >= ask->args.n_devices || !get_size(ask, dict, KEY_address, &segment->address) ||
	    !get_size(ask, dict, KEY_total_size, &segment->size) || !get_size(ask, dict, KEY_stream, &segment->stream))
		return 0;
	if (!pool || !to_number(ask, PY(ask, PyTuple_GetItem, at_fn)(pool, 0), &first) ||
	    !to_number(ask, PY(ask, PyTuple_GetItem, at_fn)(pool, 1), &second))
		return 0;
	if (first || second)
		segment->flags |= VT_BLOCK_PRIVATE_POOL;
	segment->pool = (uint64_t)first << 32 | (uint32_t)second;
	if (is_text(ask, type, "small"))
		segment->flags |= VT_BLOCK_SMALL_POOL;
	else if (!is_text(ask, type, "large"))
		return 0;
	if (expandable && PY(ask, PyObject_IsTrue, int_of_object_fn)(expandable) == 1)
		segment->flags |= VT_BLOCK_EXPANDABLE;
	return 1;
}

static uint32_t take_segment(struct ask *ask, struct object *dict)
{
	struct object *blocks = get(ask, dict, KEY_blocks);
	long n = blocks ? PY(ask, PyList_Size, size_fn)(blocks) : -1;
	struct segment segment;
	uint64_t at;

	memset(&segment, 0, sizeof(segment));
	if (n < 0 || !take_segment_facts(ask, dict, &segment))
		return fail(ask, "PyTorch describes a segment in a way that is not known");
	at = segment.address;
	for (long i = 0; i < n; i++) {
		if (ask->n >= ask->args.max_blocks)
			return fail(ask, too_many);
		if (ask->n >= ask->capacity)
			return VT_HELPER_NO_ROOM;
		if (!take_block(ask, PY(ask, PyList_GetItem, at_fn)(blocks, i), &segment, at))
			return fail(ask, "PyTorch describes a block in a way that is not known");
		at += ask->recs[ask->n++].size;
	}
	if (at - segment.address != segment.size)
		return fail(ask, "the blocks of a segment do not fill it");
	return VT_HELPER_OK;
}

static uint32_t take_snapshot(struct ask *ask, struct object *snapshot)
{
	struct object *segments = get(ask, snapshot, KEY_segments);
	long n = segments ? PY(ask, PyList_Size, size_fn)(segments) : -1;

	if (n < 0)
		return fail(ask, "PyTorch's snapshot has no list of segments");
	for (long i = 0; i < n; i++) {
		uint32_t status = take_segment(ask, PY(ask, PyList_GetItem, at_fn)(segments, i));

		if (status == VT_HELPER_NO_ROOM)
			ask->shared->room_needed = 2 * ask->capacity * sizeof(struct vt_block_rec);
		if (status != VT_HELPER_OK)
			return status;
	}
	return VT_HELPER_OK;
}

/* ---- the operation ---- */

/* The built-in functions of PyTorch, when it is loaded, uses its own allocator, and keeps no history. */
static uint32_t find_pytorch(struct ask *ask)
{
	struct object *modules = PY(ask, PyImport_GetModuleDict, object_fn)();
	struct object *module = modules ? PY(ask, PyDict_GetItemString, of_text_fn)(modules, "torch._C") : NULL;
	struct object *answer;
	int is_native, history;

	ask->functions = module ? PY(ask, PyModule_GetDict, of_one_fn)(module) : NULL;
	if (!ask->functions)
		return fail(ask, "the main interpreter has not imported torch");
	answer = call_plain(ask, "_cuda_getAllocatorBackend");
	is_native = is_text(ask, answer, "native");
	drop(ask, answer);
	if (!is_native)
		return fail(ask, "PyTorch does not say that its allocator is the native one");
	answer = call_plain(ask, "_cuda_isHistoryEnabled");
	history = answer ? PY(ask, PyObject_IsTrue, int_of_object_fn)(answer) : -1;
	drop(ask, answer);
	if (history)
		return fail(ask, history > 0 ? "PyTorch records its memory's history, and would spend long on its stacks" :
					       "PyTorch does not say whether it records its memory's history");
	return VT_HELPER_OK;
}

static uint32_t list_blocks(struct ask *ask)
{
	struct object *snapshot;
	uint32_t status;

	if (!count_expected(ask))
		return fail(ask, too_many);
	if (ask->expected + ROOM_SLACK > ask->capacity) {
		ask->shared->room_needed = (ask->expected + ROOM_SLACK) * sizeof(struct vt_block_rec);
		return VT_HELPER_NO_ROOM;
	}
	if (!mutexes_are_free(ask))
		return fail(ask, "a thread holds the lock of PyTorch's allocator");
	snapshot = call_snapshot(ask);
	if (!snapshot)
		return fail(ask, "PyTorch's snapshot function failed or is not known");
	status = take_snapshot(ask, snapshot);
	drop(ask, snapshot);
	if (status != VT_HELPER_OK)
		return status;
	if (!read_all_stats(ask, ask->shared->asked.after))
		return fail(ask, "PyTorch's counters are not known");
	ask->shared->asked.n_blocks = ask->n;
	return VT_HELPER_OK;
}

static uint32_t with_gil(struct ask *ask)
{
	uint32_t status = find_pytorch(ask);

	if (status != VT_HELPER_OK)
		return status;
	if (!make_keys(ask))
		return fail(ask, "the interpreter has no memory");
	if (!mutexes_are_free(ask))
		return fail(ask, "a thread holds the lock of PyTorch's allocator");
	if (!read_all_stats(ask, ask->shared->asked.before))
		return fail(ask, "PyTorch's counters are not known");
	ask->shared->asked.n_devices = ask->args.n_devices;
	return ask->args.only_stats ? VT_HELPER_OK : list_blocks(ask);
}

/* While the tool waits for this very request. */
static int is_wanted(const struct ask *ask, uint32_t seq, uint64_t start)
{
	return __atomic_load_n(&ask->shared->request_seq, __ATOMIC_ACQUIRE) == seq &&
	       vt_sys_now_ns() - start <= ask->args.gil_wait_ns;
}

static int all_there(const struct vt_python_imports *imports)
{
	const uint64_t *addrs = (const uint64_t *)imports;

	for (unsigned int i = 0; i < sizeof(*imports) / sizeof(*addrs); i++)
		if (!addrs[i])
			return 0;
	return 1;
}

static uint32_t take_gil_and_ask(struct ask *ask)
{
	uint32_t seq = __atomic_load_n(&ask->shared->request_seq, __ATOMIC_ACQUIRE);
	uint64_t start = vt_sys_now_ns(), got;
	uint32_t status = VT_HELPER_FAILED;
	int state;

	/* Both may be called without the GIL. */
	if (!PY(ask, Py_IsInitialized, int_fn)() || PY(ask, Py_IsFinalizing, int_fn)())
		return fail(ask, "the interpreter is ending");
	state = PY(ask, PyGILState_Ensure, int_fn)();
	got = vt_sys_now_ns();
	__atomic_store_n(&ask->shared->asked.has_gil, 1, __ATOMIC_RELEASE);
	if (is_wanted(ask, seq, start)) {
		int collects = ask->args.stop_collector ? PY(ask, PyGC_Disable, int_fn)() : 0;

		status = with_gil(ask);
		PY(ask, PyErr_Clear, void_fn)();
		drop_keys(ask);
		if (collects)
			PY(ask, PyGC_Enable, int_fn)();
	} else {
		set_why(ask, "the GIL came too late");
	}
	ask->shared->asked.waited_ns += got - start;
	ask->shared->asked.held_ns += vt_sys_now_ns() - got;
	PY(ask, PyGILState_Release, release_fn)(state);
	__atomic_store_n(&ask->shared->asked.has_gil, 0, __ATOMIC_RELEASE);
	return status;
}

uint32_t vt_helper_op_ask_pytorch(struct vt_helper_shared *shared, void *room, uint64_t room_size)
{
	struct ask ask;

	memset(&ask, 0, sizeof(ask));
	shared->asked.n_devices = 0;
	shared->asked.n_blocks = 0;
	ask.shared = shared;
	ask.args = shared->args.ask_pytorch;
	ask.recs = room;
	ask.capacity = room_size / sizeof(struct vt_block_rec);
	shared->asked.blocks_offset = (uint64_t)room - (uint64_t)shared;
	if (ask.args.n_devices <= 0 || ask.args.n_devices > VT_TORCH_MAX_DEVICES || !all_there(&ask.args.python)) {
		set_why(&ask, "no devices, or no interpreter to ask");
		return VT_HELPER_BAD_ARGS;
	}
	return take_gil_and_ask(&ask);
}
