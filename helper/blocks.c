/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks PyTorch for its blocks through the interpreter of the target, like
 * torch.cuda.memory_snapshot(). Nothing waits with the GIL held: the mutexes that PyTorch will take
 * are checked first, and PyTorch is not asked while one of them is locked.
 */
#include "python.h"

#include <stddef.h>
#include <string.h>

#include "ops.h"
#include "vramtap/freestanding.h"

#define MUTEX_PAUSE_NS UINT64_C(50000)
#define ROOM_SLACK 1024 /* blocks that may appear between the counters and the list */

/* Keys that are looked up for each block or counter; their objects are made once. */
/* clang-format off */
#define KEYS(X)                                                                                                      \
	X(segments) X(device) X(address) X(total_size) X(stream) X(segment_type) X(segment_pool_id) X(is_expandable) \
	X(blocks) X(size) X(requested_size) X(state) X(all) X(current) X(peak) X(allocated) X(freed)
/* clang-format on */

enum key {
#define KEY(name) KEY_##name,
	KEYS(KEY)
#undef KEY
		N_KEYS
};

struct ask {
	struct vt_py py; /* first: vt_py_with_gil() gives it back */
	struct vt_ask_pytorch_args args;
	struct object *keys[N_KEYS];
	struct object *functions; /* the dictionary of torch._C */
	struct vt_block_rec *recs;
	uint64_t n, capacity;
	uint64_t expected; /* blocks, according to the counters */
};

#define PY(ask, name, type) VT_PY(&(ask)->py, name, type)

static uint32_t fail(struct ask *ask, const char *why)
{
	return vt_py_fail(&ask->py, why);
}

static const char too_many[] = "there are too many blocks: PyTorch makes an object of each";

/* ---- objects ---- */

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
		vt_py_drop(&ask->py, ask->keys[i]);
}

/* ---- the functions of torch._C ---- */

static struct object *call_plain(struct ask *ask, const char *name)
{
	int flags;
	struct object *called = vt_py_function(&ask->py, ask->functions, name, &flags);

	return called ? vt_py_call_with(&ask->py, called, NULL) : NULL;
}

/*
 * (0, 0, False): blocks of all pools, without the trace of past allocations; 2.11 and later take
 * it.
 */
static struct object *make_all_pools(struct ask *ask)
{
	struct object *tuple = PY(ask, PyTuple_New, new_fn)(3);

	if (!tuple)
		return NULL;
	for (int i = 0; i < 3; i++) {
		struct object *item = i < 2 ? PY(ask, PyLong_FromLong, from_long_fn)(0) :
					      PY(ask, PyBool_FromLong, from_long_fn)(0);

		if (!item || PY(ask, PyTuple_SetItem, set_fn)(tuple, i, item)) {
			vt_py_drop(&ask->py, tuple);
			return NULL;
		}
	}
	return tuple;
}

static struct object *call_snapshot(struct ask *ask)
{
	int flags;
	struct object *called = vt_py_function(&ask->py, ask->functions, "_cuda_memorySnapshot",
					       &flags),
		      *argument;

	if (called && flags == VT_PY_NOARGS) /* up to 2.10 */
		return vt_py_call_with(&ask->py, called, NULL);
	if (!called || flags != VT_PY_O)
		return NULL;
	argument = make_all_pools(ask);
	return argument ? vt_py_call_with(&ask->py, called, argument) : NULL;
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

static int take_counter(struct ask *ask, struct object *dict, const struct counter *counter,
			struct vt_torch_stats *stats)
{
	struct object *object = PY(ask, PyDict_GetItemString, of_text_fn)(dict, counter->name);
	struct vt_torch_stat stat;

	if (!object)
		return 0;
	if (counter->is_number)
		return to_number(ask, object, (int64_t *)((char *)stats + counter->offset));
	object = get(ask, object, KEY_all);
	if (!object || !get_number(ask, object, KEY_current, &stat.current) ||
	    !get_number(ask, object, KEY_peak, &stat.peak) ||
	    !get_number(ask, object, KEY_allocated, &stat.allocated) ||
	    !get_number(ask, object, KEY_freed, &stat.freed))
		return 0;
	__builtin_memcpy((char *)stats + counter->offset, &stat, sizeof(stat));
	return 1;
}

static int read_stats(struct ask *ask, int device, struct vt_torch_stats *stats)
{
	int flags, ok;
	struct object *called =
		vt_py_function(&ask->py, ask->functions, "_cuda_memoryStats", &flags);
	struct object *argument =
		called && flags == VT_PY_O ? PY(ask, PyLong_FromLong, from_long_fn)(device) : NULL;
	struct object *dict = argument ? vt_py_call_with(&ask->py, called, argument) : NULL;

	ok = dict != NULL;
	for (unsigned int i = 0; ok && i < sizeof(counters) / sizeof(counters[0]); i++)
		ok = take_counter(ask, dict, &counters[i], stats);
	vt_py_drop(&ask->py, dict);
	return ok;
}

static int read_all_stats(struct ask *ask, struct vt_torch_stats *stats)
{
	for (int i = 0; i < ask->args.n_devices; i++)
		if (!read_stats(ask, i, &stats[i]))
			return 0;
	return 1;
}

/*
 * An upper bound: each block is active, or the rest of a split segment, or a segment that is
 * entirely free.
 */
static int count_expected(struct ask *ask)
{
	uint64_t n = 0;

	for (int i = 0; i < ask->args.n_devices; i++) {
		const struct vt_torch_stats *stats = &ask->py.shared->asked.before[i];
		int64_t counts[] = { stats->active.current, stats->inactive_split.current,
				     stats->segment.current };

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

/*
 * A thread that holds one for long is in the driver, and we must not wait for that with the GIL
 * held.
 */
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
		if (vt_py_is_text(&ask->py, text, states[i].name)) {
			*state = states[i].state;
			return 1;
		}
	}
	return 0;
}

static int take_block(struct ask *ask, struct object *dict, const struct segment *segment,
		      uint64_t at)
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
	rec->flags =
		(uint8_t)(segment->flags | (at == segment->address ? VT_BLOCK_SEGMENT_START : 0));
	if (!get_size(ask, dict, KEY_size, &rec->size) ||
	    !state_of(ask, get(ask, dict, KEY_state), &rec->state))
		return 0;
	if (!get_size(ask, dict, KEY_requested_size, &rec->requested))
		return 0;
	return 1;
}

static int take_segment_facts(struct ask *ask, struct object *dict, struct segment *segment)
{
	struct object *pool = get(ask, dict, KEY_segment_pool_id),
		      *type = get(ask, dict, KEY_segment_type);
	struct object *expandable = get(ask, dict, KEY_is_expandable);
	int64_t first, second;

	if (!get_number(ask, dict, KEY_device, &segment->device) || segment->device < 0 ||
	    segment->device >= ask->args.n_devices ||
	    !get_size(ask, dict, KEY_address, &segment->address) ||
	    !get_size(ask, dict, KEY_total_size, &segment->size) ||
	    !get_size(ask, dict, KEY_stream, &segment->stream))
		return 0;
	if (!pool || !to_number(ask, PY(ask, PyTuple_GetItem, at_fn)(pool, 0), &first) ||
	    !to_number(ask, PY(ask, PyTuple_GetItem, at_fn)(pool, 1), &second))
		return 0;
	if (first || second)
		segment->flags |= VT_BLOCK_PRIVATE_POOL;
	segment->pool = (uint64_t)first << 32 | (uint32_t)second;
	if (vt_py_is_text(&ask->py, type, "small"))
		segment->flags |= VT_BLOCK_SMALL_POOL;
	else if (!vt_py_is_text(&ask->py, type, "large"))
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
			ask->py.shared->room_needed =
				2 * ask->capacity * sizeof(struct vt_block_rec);
		if (status != VT_HELPER_OK)
			return status;
	}
	return VT_HELPER_OK;
}

/* ---- the operation ---- */

/*
 * The built-in functions of PyTorch, if it is loaded, uses its own allocator, and keeps no history.
 */
static uint32_t find_pytorch(struct ask *ask)
{
	struct object *answer;
	int is_native, history;

	ask->functions = vt_py_module(&ask->py, "torch._C");
	if (!ask->functions)
		return fail(ask, "the main interpreter has not imported torch");
	answer = call_plain(ask, "_cuda_getAllocatorBackend");
	is_native = vt_py_is_text(&ask->py, answer, "native");
	vt_py_drop(&ask->py, answer);
	if (!is_native)
		return fail(ask, "PyTorch does not say that its allocator is the native one");
	answer = call_plain(ask, "_cuda_isHistoryEnabled");
	history = answer ? PY(ask, PyObject_IsTrue, int_of_object_fn)(answer) : -1;
	vt_py_drop(&ask->py, answer);
	if (history)
		return fail(
			ask,
			history > 0 ?
				"PyTorch records its memory's history, and would spend long on its stacks" :
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
		ask->py.shared->room_needed =
			(ask->expected + ROOM_SLACK) * sizeof(struct vt_block_rec);
		return VT_HELPER_NO_ROOM;
	}
	if (!mutexes_are_free(ask))
		return fail(ask, "a thread holds the lock of PyTorch's allocator");
	snapshot = call_snapshot(ask);
	if (!snapshot)
		return fail(ask, "PyTorch's snapshot function failed or is not known");
	status = take_snapshot(ask, snapshot);
	vt_py_drop(&ask->py, snapshot);
	if (status != VT_HELPER_OK)
		return status;
	if (!read_all_stats(ask, ask->py.shared->asked.after))
		return fail(ask, "PyTorch's counters are not known");
	ask->py.shared->asked.n_blocks = ask->n;
	return VT_HELPER_OK;
}

static uint32_t ask_all(struct ask *ask)
{
	uint32_t status = find_pytorch(ask);

	if (status != VT_HELPER_OK)
		return status;
	if (!make_keys(ask))
		return fail(ask, "the interpreter has no memory");
	if (!mutexes_are_free(ask))
		return fail(ask, "a thread holds the lock of PyTorch's allocator");
	if (!read_all_stats(ask, ask->py.shared->asked.before))
		return fail(ask, "PyTorch's counters are not known");
	ask->py.shared->asked.n_devices = ask->args.n_devices;
	return ask->args.only_stats ? VT_HELPER_OK : list_blocks(ask);
}

static uint32_t with_gil(struct vt_py *py)
{
	struct ask *ask = (struct ask *)py;
	uint32_t status = ask_all(ask);

	drop_keys(ask);
	return status;
}

uint32_t vt_helper_op_ask_pytorch(struct vt_helper_shared *shared, void *room, uint64_t room_size)
{
	struct ask ask;

	memset(&ask, 0, sizeof(ask));
	shared->asked.n_devices = 0;
	shared->asked.n_blocks = 0;
	ask.args = shared->args.ask_pytorch;
	ask.py.shared = shared;
	ask.py.args = ask.args.python;
	ask.recs = room;
	ask.capacity = room_size / sizeof(struct vt_block_rec);
	shared->asked.blocks_offset = (uint64_t)room - (uint64_t)shared;
	if (ask.args.n_devices <= 0 || ask.args.n_devices > VT_TORCH_MAX_DEVICES) {
		vt_py_fail(&ask.py, "no devices");
		return VT_HELPER_BAD_ARGS;
	}
	return vt_py_with_gil(&ask.py, with_gil);
}
