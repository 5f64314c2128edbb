/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walkers over the damaged memory of a process, in the ways that a report of a core does not go
 * (that is fuzz_report): of a process that runs, so that what is read changes; of one that is
 * asked, which needs to know where functions and locks are; searches that only some reports make.
 * An input is what core_memory.h says; the second byte says which of them.
 */
#include "base/clock.h"
#include "core_memory.h"
#include "fuzz.h"
#include "target/core/files.h"
#include "target/elfsym.h"
#include "target/resident.h"
#include "walk/arrays/arrays.h"
#include "walk/asyncio/asyncio.h"
#include "walk/heap/chunks.h"
#include "walk/heap/seek.h"
#include "walk/libpools/libpools.h"
#include "walk/native/native.h"
#include "walk/native/rtti.h"
#include "walk/native/symtab.h"
#include "walk/native/variables.h"
#include "walk/python/ask.h"
#include "walk/python/internal.h"
#include "walk/recorder/find.h"
#include "walk/recorder/join.h"
#include "walk/recorder/launches.h"
#include "walk/recorder/recorder.h"
#include "walk/recorder/stacks.h"
#include "walk/torch/history.h"
#include "walk/torch/streams.h"
#include "walk/torch/told.h"
#include "walk/torch/torch.h"
#include "target/arch/x86_64/regs.h"

enum {
	MAX_NODES = 30000,
	MAX_EDGES = 100000,
	MAX_PAGES = 32 << 20,
	MAX_SEARCHED = 6 << 20,
	MAX_CHUNKS = 50000,
	MAX_BLOCKS = 20000,
	N_TARGETS = 8,
	N_VARIABLES = 32,
	MAX_SHAREABLE = 256,
};

/* What the second byte says: a bit each. */
enum part {
	MOVES = 1, /* the process runs */
	PYTHON = 2,
	ARRAYS = 4,
	HEAP = 8,
	POOLS = 16,
	TORCH = 32,
	RECORDER = 64,
	NATIVE = 128,
	ALL = 254,
};

/* And two bits of the first: symbols that the interpreter does not export. */
enum hidden { HIDE_RUNTIME = 0x40, HIDE_VERSION = 0x80 };

struct process {
	struct vt_core *core;
	struct vt_maps maps;
	struct vt_files *files;
	struct vt_modules modules;
	struct vt_memsrc *src;
	struct vt_python python;
	bool has_python;
	const char *path; /* of the core */
	uint64_t until_ns;
};

/* ---- Python ---- */

static unsigned int hidden;

typedef struct vt_error *dynsyms_fn(struct vt_modules *modules, struct vt_module *module,
				    const char *const *names, size_t n, uint64_t *addrs);

dynsyms_fn __real_vt_module_dynsyms, __wrap_vt_module_dynsyms;

/* The linker puts it in the place of the real one (local.mk). */
struct vt_error *__wrap_vt_module_dynsyms(struct vt_modules *modules, struct vt_module *module,
					  const char *const *names, size_t n, uint64_t *addrs)
{
	struct vt_error *err = __real_vt_module_dynsyms(modules, module, names, n, addrs);

	for (size_t i = 0; !err && i < n; i++)
		if ((hidden & HIDE_RUNTIME && !strcmp(names[i], "_PyRuntime")) ||
		    (hidden & HIDE_VERSION && !strcmp(names[i], "Py_Version")))
			addrs[i] = 0;
	return err;
}

/* What decides the release, who runs, and what tasks wait for. */
static void note_python(struct process *p, const struct vt_asyncio *asyncio)
{
	static const char *const version = "Py_Version";
	uint64_t addr = 0;

	if (p->python.module)
		vt_error_destroy(__real_vt_module_dynsyms(
			&p->modules, (struct vt_module *)p->python.module, &version, 1, &addr));
	core_memory_note(addr, 0);
	core_memory_note(p->python.runtime, 0);
	for (size_t i = 0; i < p->python.gils.n; i++)
		core_memory_note(p->python.gils.data[i].addr, 0);
	for (size_t i = 0; i < p->python.threads.n && i < 4; i++)
		core_memory_note(p->python.threads.data[i].tstate, 1);
	for (size_t i = 0; i < asyncio->tasks.n && i < 16; i++)
		core_memory_note(asyncio->tasks.data[i].addr, 1);
}

static void read_python(struct process *p)
{
	struct vt_python_imports imports;
	struct vt_python_owner_imports owner_imports;
	struct vt_asyncio asyncio = { 0 };
	int version[3];

	vt_error_destroy(vt_python_capture(&p->python, p->src));
	vt_error_destroy(vt_python_resolve(&p->python, p->src));
	vt_error_destroy(vt_python_imports(&p->python, &p->modules, &imports));
	vt_error_destroy(vt_python_owner_imports(&p->python, &p->modules, &owner_imports));
	vt_error_destroy(vt_python_watch_gil(&p->python, p->src, VT_NS_PER_MS / 10));
	vt_error_destroy(vt_asyncio_read(&asyncio, &p->python, &p->modules, p->src, p->until_ns));
	note_python(p, &asyncio);
	vt_asyncio_deinit(&asyncio);
	for (size_t i = 0; i < p->python.threads.n; i++) {
		const struct vt_python_thread *t = &p->python.threads.data[i];
		const struct vt_python_gil *gil = p->python.gils.n ? &p->python.gils.data[0] : NULL;

		vt_python_holds_gil(&p->python, t);
		vt_python_waits_for_gil(&p->python, t, gil ? gil->addr + 8 : 0);
	}
	vt_py_scan_version(&p->modules, p->python.module, p->src, version);
	vt_py_scan_runtime(&p->modules, p->python.module, p->src, NULL);
	vt_py_scan_runtime(&p->modules, p->python.module, p->src, p->python.layout);
}

static void list_object(void *arg, uint64_t object)
{
	vt_graph_node(arg, object, VT_NODE_PYTHON);
}

/* As when the process stands still for the second look. */
static void copy_again(struct vt_pages *pages)
{
	vt_pages_remember(pages, 1);
	vt_pages_first_changed(pages, 16, 0, UINT64_MAX);
	vt_error_destroy(vt_pages_copy_again(pages));
	vt_pages_have_changed(pages, 1);
	vt_pages_moment_is_over(pages);
	vt_pages_watch_later(pages);
}

static void read_arrays(struct process *p)
{
	struct vt_pyheap *heap = malloc(sizeof(*heap));
	struct vt_pages pages;
	struct vt_graph graph;

	fuzz_check(heap && vt_graph_init(&graph, MAX_NODES, MAX_EDGES), "memory");
	fuzz_check(!vt_pages_init(&pages, p->src, MAX_PAGES), "memory");

	VT_ERROR struct vt_error *err = vt_pyheap_init(heap, &p->python, &pages, &graph);

	if (!err) {
		struct vt_arrays arrays = { .heap = heap };

		vt_graph_node(&graph, 1, VT_NODE_ROOT);
		vt_graph_explore(&graph, 0);
		vt_pyheap_roots(heap);
		vt_pyheap_collectable(heap, MAX_NODES, list_object, &graph);
		/* What they hold, too: memory and pointers are in no list. */
		for (size_t i = 1; i < graph.nodes.n && !graph.full; i++) {
			vt_graph_explore(&graph, (uint32_t)i);
			vt_pyheap_edges(heap, (uint32_t)i);
		}
		copy_again(&pages);
		for (size_t i = 0; i < graph.nodes.n; i++) {
			struct vt_arrays_memory memory;
			struct vt_arrays_pointer pointer;
			struct vt_arrays_array array;
			struct vt_arrays_jax jax;
			uint64_t addr = graph.nodes.data[i].addr;

			vt_arrays_memory(&arrays, addr, &memory);
			vt_arrays_pointer(&arrays, addr, &pointer);
			vt_arrays_array(&arrays, addr, &array);
			vt_arrays_jax(&arrays, addr, &jax);
		}
		vt_pyheap_deinit(heap);
	}
	vt_graph_deinit(&graph);
	vt_pages_deinit(&pages);
	free(heap);
}

/* ---- malloc()'s memory ---- */

#define LIBRARIES UINT64_C(0x7e0000000000)

static bool leave_out_some(void *arg, const struct vt_seek_hit *hit)
{
	(void)arg;
	return hit->at % 4096 == 8;
}

static void check_chunks(const struct vt_chunks *chunks)
{
	for (size_t i = 0; i < chunks->chunks.n; i++) {
		const struct vt_chunk *c = &chunks->chunks.data[i];

		fuzz_check(i == 0 || c[-1].addr + c[-1].bytes <= c->addr, "chunks %zu overlap", i);
		fuzz_check(vt_chunks_bytes(chunks, c->addr) == c->bytes, "chunk %zu", i);
		fuzz_check(vt_chunks_at(chunks, c->addr + c->bytes / 2) == c, "in chunk %zu", i);
	}
}

/* A core does not say which memory is that of brk(): what comes last before the libraries. */
static void name_heap(struct vt_maps *maps)
{
	struct vt_map_entry *heap = NULL;

	for (size_t i = 0; i < maps->entries.n; i++) {
		struct vt_map_entry *e = &maps->entries.data[i];

		if (e->start < LIBRARIES && !*e->path && e->flags & VT_MAP_WRITE)
			heap = e;
	}
	if (heap)
		heap->path = "[heap]";
}

static void read_heap(struct process *p)
{
	static const char *const own[] = { "libcuda.so", "libc10_cuda.so" };
	struct vt_resident resident = { 0 };
	struct vt_chunks chunks = { 0 };
	struct vt_seek_stack stacks[8];
	struct vt_seek_options options = {
		.maps = &p->maps,
		.resident = &resident,
		.chunks = &chunks,
		.stacks = stacks,
		.max_levels = 3,
		.max_hits = 5000,
		.max_hits_each = 64,
		.deadline_ns = p->until_ns,
		.own_modules = own,
		.n_own_modules = 2,
		.leave_out = leave_out_some,
	};
	uint64_t targets[N_TARGETS];
	struct vt_seek seek = { 0 };
	size_t n = 0;

	name_heap(&p->maps);
	vt_error_destroy(vt_resident_init_all(&resident, &p->maps, MAX_SEARCHED));
	vt_error_destroy(vt_chunks_init(&chunks, p->src, &p->maps, &resident, MAX_CHUNKS));
	if (p->src->coherent)
		check_chunks(&chunks);
	for (size_t i = 0; i < p->core->threads.n && options.n_stacks < 8; i++) {
		uint64_t sp = p->core->threads.data[i].regs.r[VT_REG_RSP];
		const struct vt_map_entry *e = vt_maps_find(&p->maps, sp);

		if (e)
			stacks[options.n_stacks++] =
				(struct vt_seek_stack){ p->core->threads.data[i].tid, sp, e->end };
	}
	for (size_t i = 0; i < N_TARGETS && chunks.chunks.n; i++)
		targets[n++] = chunks.chunks.data[i * chunks.chunks.n / N_TARGETS].addr;
	vt_error_destroy(vt_seek_init(&seek, p->src, &options, targets, n));
	for (size_t i = 0; i < seek.n_targets; i++) {
		const struct vt_seek_hit *chain[VT_SEEK_MAX_LEVELS];
		size_t length = vt_seek_chain(&seek, (uint32_t)i, chain);

		fuzz_check(length <= VT_SEEK_MAX_LEVELS, "%zu", length);
		for (size_t k = 0; k < length; k++)
			fuzz_check(chain[k]->to < seek.nodes.n, "a hit of nothing");
	}
	vt_seek_deinit(&seek);
	vt_chunks_deinit(&chunks);
	vt_resident_deinit(&resident);
}

/* ---- pools of other libraries ---- */

/*
 * What the driver would say: lines of addresses and sizes beside the core, "NAME.core.shareable".
 */
static size_t read_shareable(const struct process *p, struct vt_libpool_region *regions)
{
	char path[4096];
	unsigned long long start, size;
	size_t n = 0;
	FILE *file;

	snprintf(path, sizeof(path), "%s.shareable", p->path);
	file = fopen(path, "re");
	while (file && n < MAX_SHAREABLE && fscanf(file, "%llx %llx", &start, &size) == 2)
		regions[n++] = (struct vt_libpool_region){ start, size };
	if (file)
		fclose(file);
	return n;
}

static void read_pools(struct process *p)
{
	struct vt_libpool_region shareable[MAX_SHAREABLE];
	struct vt_libpools_target target = {
		.maps = &p->maps,
		.modules = &p->modules,
		.mem = p->src,
		.python = p->has_python ? &p->python : NULL,
		.stands_still = p->src->coherent,
		.deadline_ns = p->until_ns,
		.shareable = shareable,
		.n_shareable = read_shareable(p, shareable),
	};
	struct vt_libpools pools = { 0 };
	struct vt_error *why = NULL;

	if (!vt_libpools_may_be_in(&target))
		return;
	vt_libpools_init(&pools, &target, &why);
	vt_error_destroy(why);
	for (size_t i = 0; i < pools.pools.n; i++) {
		const struct vt_libpool *pool = &pools.pools.data[i];

		core_memory_note(pool->rec.object, 3);
		fuzz_check(pool->rec.state == VT_LIBPOOL_EXACT || !pool->chunks.n,
			   "chunks of a pool that is not exact");
		for (size_t k = 0; k < pool->chunks.n; k++)
			fuzz_check(k == 0 || pool->chunks.data[k - 1].start +
							     pool->chunks.data[k - 1].size <=
						     pool->chunks.data[k].start,
				   "chunks %zu of pool %zu overlap", k, i);
	}
	vt_libpools_deinit(&pools);
}

/* ---- PyTorch ---- */

struct room {
	struct vt_torch_sink sink; /* first */
	struct vt_block_rec recs[MAX_BLOCKS];
	size_t n;
};

static struct vt_block_rec *reserve(struct vt_torch_sink *sink, uint64_t n)
{
	struct room *room = (struct room *)(void *)sink;
	struct vt_block_rec *at = &room->recs[room->n];

	if (n > MAX_BLOCKS - room->n)
		return NULL;
	return at;
}

static void read_history(struct process *p, const struct vt_torch_layout *layout,
			 const struct room *room)
{
	struct vt_torch_history history = { 0 };
	struct vt_history_target target = {
		.src = p->src,
		.names_src = p->src,
		.vtable = vt_torch_history_vtable(&p->modules),
		.maps = &p->maps,
		.python = p->has_python ? &p->python : NULL,
		.layout = layout,
		.blocks = room->recs,
		.n_blocks = room->n,
		.segments = true,
		.deadline_ns = p->until_ns,
	};

	if (!vt_torch_history_any(room->recs, room->n))
		return;
	vt_error_destroy(vt_torch_history_read(&target, &history));
	vt_torch_history_deinit(&history);
}

static void walk_device(struct process *p, const struct vt_torch_layout *layout, uint64_t dca,
			int device, struct room *room)
{
	struct vt_torch_walk_limits limits = { MAX_BLOCKS, p->until_ns, vt_now_ns };
	struct vt_torch_device_result result = { 0 };
	struct vt_torch_scratch scratch = { .size = vt_torch_scratch_size(MAX_BLOCKS) };
	uint64_t allocated, reserved;

	if (vt_torch_count_blocks(p->src, layout, dca) > MAX_BLOCKS)
		return;
	scratch.base = aligned_alloc(16, (scratch.size + 15) / 16 * 16);
	fuzz_check(scratch.base, "memory");
	vt_torch_mutex_owner(p->src, layout, dca);
	vt_torch_totals(p->src, layout, dca, &allocated, &reserved);
	vt_torch_walk_device(p->src, layout, dca, device, &limits, &scratch, &room->sink, &result);
	fuzz_check(result.blocks <= MAX_BLOCKS - room->n, "more than there is room for");
	room->n += result.blocks;
	free(scratch.base);
}

static void read_torch(struct process *p)
{
	static struct room room = { .sink.reserve = reserve };
	struct vt_torch_found found = { 0 };
	uint64_t devices[VT_TORCH_MAX_DEVICES];
	struct vt_torch_streams streams = { 0 };
	struct vt_module *module;
	size_t index = 0;
	int n;

	room.n = 0;
	vt_error_destroy(vt_torch_find(&p->modules, &p->maps, p->src, &found));
	module = vt_modules_by_name(&p->modules, "libc10_cuda.so", &index);
	if (module)
		vt_error_destroy(vt_torch_streams_read(&p->modules, module, p->src, &streams));
	vt_torch_streams_deinit(&streams);
	if (!found.allocator)
		return;
	n = vt_torch_mutexes(p->src, found.allocator, devices);
	for (int i = 0; i < n; i++)
		vt_torch_mutex_tid(p->src, devices[i]);
	if (found.backend != VT_TORCH_NATIVE)
		return;
	n = vt_torch_devices(p->src, &found.layout, found.allocator, devices);
	for (int i = 0; i < n; i++)
		walk_device(p, &found.layout, devices[i], i, &room);
	read_history(p, &found.layout, &room);
}

/* ---- our recorder ---- */

static void read_stacks(struct process *p, uint64_t head, const struct vt_recorder_pass *pass,
			const struct vt_recorder_launches_pass *launches)
{
	struct vt_recorder_stacks stacks = { 0 };
	uint32_t trace;

	(void)launches;
	for (size_t i = 0; i < pass->blocks.n; i++)
		fuzz_check(vt_recorder_stacks_want(&stacks, pass->blocks.data[i].stack, &trace),
			   "memory");
	vt_error_destroy(vt_recorder_stacks_read(p->src, head, &stacks));
	if (p->has_python)
		vt_error_destroy(vt_recorder_stacks_name(&stacks, &p->python, p->src, p->src));
	for (size_t i = 0; i < stacks.traces.n; i++) {
		const struct vt_recorder_trace *t = &stacks.traces.data[i];

		for (uint32_t k = 0; k < t->n_python + t->n_native; k++)
			fuzz_check(t->frames[k] <
					   (k < t->n_python ? stacks.python.n : stacks.native.n),
				   "frame %u of trace %zu", k, i);
	}
	vt_recorder_stacks_deinit(&stacks);
}

static void read_recorder(struct process *p)
{
	uint64_t head_addr = vt_recorder_find(&p->maps, p->src);
	struct vt_recorder_head head;
	enum vt_recorder_found found;
	struct vt_recorder_pass pass = { 0 };
	struct vt_recorder_driver_pass driver = { 0 };
	struct vt_recorder_launches_pass launches = { 0 };
	struct vt_recorder_oom ooms[VT_RECORDER_MAX_OOMS];
	pid_t tids[VT_RECORDER_MAX_OOMS];
	size_t n;

	if (!head_addr)
		return;
	core_memory_note(head_addr, 1);

	VT_ERROR struct vt_error *err = vt_recorder_head_read(p->src, head_addr, &head, &found);

	if (err || (found != VT_RECORDER_IS_ON && found != VT_RECORDER_IS_OFF))
		return;
	vt_recorder_ooms(&head, ooms);
	vt_recorder_kept(p->src, head_addr, tids, &n);
	vt_error_destroy(vt_recorder_pass_read(p->src, head_addr, &pass));
	vt_error_destroy(vt_recorder_driver_read(p->src, head_addr, &driver));
	vt_error_destroy(vt_recorder_launches_read(p->src, head_addr, &launches));
	read_stacks(p, head_addr, &pass, &launches);
	vt_recorder_pass_deinit(&pass);
	vt_recorder_driver_deinit(&driver);
	vt_recorder_launches_deinit(&launches);
}

/* ---- native code ---- */

static void name_variables(struct process *p)
{
	struct vt_native_static statics[] = { { .name = "main_arena" }, { .name = "" } };
	struct vt_native_variable variables[N_VARIABLES] = { 0 };
	struct vt_arena arena = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < p->modules.modules.n && n + 2 <= N_VARIABLES; i++) {
		struct vt_module *m = &p->modules.modules.data[i];

		variables[n++] = (struct vt_native_variable){ .addr = m->end - 1000,
							      .module_start = m->start };
		variables[n++] = (struct vt_native_variable){ .addr = m->end + 64,
							      .module_start = m->start };
		if (i < 3)
			vt_error_destroy(vt_native_statics(&p->modules, m, statics, 2));
	}
	fuzz_check(!vt_native_variables(&p->modules, variables, n, &arena), "memory");
	vt_arena_deinit(&arena);
}

/* Places where a thread may be that no call frame information covers: data, nowhere, in stubs. */
static uint64_t odd_place(const struct process *p, const struct vt_core_thread *t, size_t i)
{
	const struct vt_map_entry *e = &p->maps.entries.data[i * 7 % p->maps.entries.n];

	switch (i % 4) {
	case 0:
		return 0;
	case 1:
		return t->regs.r[VT_REG_RSP];
	case 2:
		return e->start + 16;
	default:
		return p->modules.modules.n ?
			       p->modules.modules.data[i % p->modules.modules.n].end - 16 :
			       1;
	}
}

static void unwind_from(struct vt_unwinder *unwinder, const struct vt_core_thread *t, uint64_t pc)
{
	struct vt_native_stack stack = { 0 };
	struct vt_regs regs = t->regs;

	regs.r[VT_REG_RIP] = pc;
	fuzz_check(!vt_unwinder_walk(unwinder, t->tid, &regs, &stack), "memory");
	fuzz_check(stack.frames.n <= VT_NATIVE_MAX_FRAMES, "%zu frames", stack.frames.n);
	vt_native_stack_deinit(&stack);
}

static void unwind(struct process *p, bool hurry)
{
	struct vt_unwinder *unwinder;

	fuzz_check(!vt_unwinder_create(&p->modules, p->src, &unwinder), "memory");
	vt_unwinder_hurry(unwinder, hurry);
	for (size_t i = 0; i < p->core->threads.n && i < 16; i++) {
		const struct vt_core_thread *t = &p->core->threads.data[i];

		unwind_from(unwinder, t, t->regs.r[VT_REG_RIP]);
		for (size_t k = 0; k < 8 && p->maps.entries.n; k++)
			unwind_from(unwinder, t, odd_place(p, t, i * 8 + k));
	}
	vt_unwinder_destroy(unwinder);
}

static void classify(struct process *p)
{
	struct vt_rtti rtti;

	vt_rtti_init(&rtti, p->src, &p->maps);
	for (size_t i = 0; i < p->maps.entries.n; i++)
		for (uint64_t at = 0; at < 4; at++)
			vt_rtti_of_vtable(&rtti, p->maps.entries.data[i].start + at * 0x150);
	vt_rtti_deinit(&rtti);
}

/* ---- all of it ---- */

static void walk(const char *path, unsigned int parts)
{
	struct process p = { .path = path, .until_ns = vt_now_ns() + 2 * VT_NS_PER_S };
	struct vt_core_paths paths = { 0 };
	VT_ERROR struct vt_error *err = vt_core_open(path, &p.core);

	if (err)
		return;
	if (!vt_core_maps(p.core, &p.maps) &&
	    !vt_core_files_create(p.core, &p.maps, &paths, &p.files) &&
	    !vt_modules_init_files(&p.modules, p.files, &p.maps)) {
		vt_core_set_modules(p.core, &p.modules);
		p.src = vt_core_source(p.core);
		err = vt_python_init(&p.python, &p.modules, p.src);
		p.has_python = !err;
		if (parts & PYTHON && p.has_python)
			read_python(&p);
		if (parts & ARRAYS && p.has_python)
			read_arrays(&p);
		if (parts & HEAP)
			read_heap(&p);
		if (parts & POOLS)
			read_pools(&p);
		if (parts & TORCH)
			read_torch(&p);
		if (parts & RECORDER)
			read_recorder(&p);
		if (parts & NATIVE) {
			name_variables(&p);
			unwind(&p, parts & MOVES);
			classify(&p);
		}
		vt_python_deinit(&p.python);
	}
	vt_core_set_modules(p.core, NULL);
	vt_modules_deinit(&p.modules);
	vt_files_destroy(p.files);
	vt_maps_deinit(&p.maps);
	vt_core_close(p.core);
}

static void look(const char *path, unsigned int part)
{
	hidden = 0;
	walk(path, 1u << part);
}

/* What is changed is read by the first of them. */
static unsigned int first_of(unsigned int parts)
{
	return parts & ALL ? (unsigned int)__builtin_ctz(parts & ALL) : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *path;

	if (size < 2)
		return 0;
	path = core_memory_begin(data, size, first_of(data[1]), look);
	if (data[1] & MOVES)
		core_memory_moves();
	hidden = data[0] & ~CORE_MEMORY_WHICH;
	walk(path, data[1]);
	return 0;
}

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	static const uint8_t parts[] = { PYTHON, ARRAYS, HEAP, POOLS, TORCH, RECORDER, NATIVE };
	unsigned int n = sizeof(parts) / sizeof(parts[0]), which = number / n,
		     n_cores = (unsigned int)core_memory_cores(), round = which / n_cores;

	/*
	 * Each as it is; with some edits; with edits while it runs; and without the symbols that
	 * say where the interpreter is.
	 */
	if (round >= 4 || max < 2 + 64)
		return 0;
	data[0] = (uint8_t)(which % n_cores);
	data[1] = parts[number % n];
	if (round == 2)
		data[1] |= MOVES;
	if (round == 3)
		data[0] |= (uint8_t)(number % 3 + 1) << 6;
	return 2 + (round == 1 || round == 2 ? core_memory_seed(number, data + 2) : 0);
}
