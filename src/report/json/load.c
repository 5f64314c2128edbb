/* SPDX-License-Identifier: Apache-2.0 */
#include "report/json/load.h"
#include "report/json/advice.h"
#include "report/json/again.h"
#include "report/json/ledger.h"
#include "report/json/owners.h"
#include "report/json/where.h"

#include <limits.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "model/flight.h"
#include "model/faults_json.h"
#include "model/usage_json.h"
#include "json/in.h"
#include "report/state_words.h"
#include "report/writer.h"

#define MAX_DEVICE 1023

struct load {
	struct vt_json_in in;
	struct vt_model *model;
};

static const char *state_name(unsigned int i)
{
	return vt_block_state_name((uint8_t)i);
}

static const char *method_name(unsigned int i)
{
	return vt_method_name((enum vt_method)i);
}

static const char *result_name(unsigned int i)
{
	return vt_walk_result_name((uint8_t)i);
}

static const char *untraced_name(unsigned int i)
{
	return vt_untraced_name((enum vt_untraced)i);
}

static const char *source_name(unsigned int i)
{
	return vt_trace_source_name((enum vt_trace_source)i);
}

static struct vt_model_amount load_amount(struct load *l, const struct vt_json_value *from,
					  const char *key)
{
	const struct vt_json_value *amount = vt_json_in_object(&l->in, from, key);

	return (struct vt_model_amount){ .bytes = vt_json_in_need_uint(&l->in, amount, "bytes"),
					 .blocks = vt_json_in_need_uint(&l->in, amount, "blocks") };
}

/* Seconds of our own JSON as nanoseconds. */
static uint64_t load_seconds(struct load *l, const struct vt_json_value *from, const char *key,
			     uint64_t otherwise)
{
	double seconds;

	if (!vt_json_in_real(&l->in, from, key, &seconds))
		return otherwise;
	if (!(seconds >= 0 && seconds < 1e9)) {
		vt_json_in_wrong(&l->in, key, "is not a time");
		return otherwise;
	}
	return (uint64_t)(seconds * (double)VT_NS_PER_S);
}

static struct vt_model_ages load_ages(struct load *l, const struct vt_json_value *from)
{
	return (struct vt_model_ages){
		.oldest_ns = load_seconds(l, from, "oldest_age_s", VT_NO_AGE),
		.newest_ns = load_seconds(l, from, "newest_age_s", VT_NO_AGE)
	};
}

/* ---- the head ---- */

static void load_process(struct load *l, const struct vt_json_value *root)
{
	const struct vt_json_value *from = vt_json_in_object(&l->in, root, "process"),
				   *core = vt_json_in_object(&l->in, root, "core");
	struct vt_model_process *p = &l->model->process;
	int pid = 0;

	if (!vt_json_in_int(&l->in, from, "pid", 0, INT_MAX, &pid))
		vt_json_in_wrong(&l->in, "pid", "is missing");
	p->pid = pid;
	p->name = vt_json_in_text(&l->in, from, "name");
	p->cmdline = vt_json_in_text(&l->in, from, "command_line");
	p->exe = vt_json_in_text(&l->in, from, "executable");
	p->container = vt_json_in_text(&l->in, from, "container");
	p->pod = vt_json_in_text(&l->in, from, "pod");
	p->job = vt_json_in_text(&l->in, from, "job");
	vt_json_in_int(&l->in, from, "own_pid", 0, INT_MAX, &p->ns_pid);
	vt_json_in_real(&l->in, from, "uptime_s", &p->uptime_s);
	vt_json_in_int(&l->in, from, "rank", 0, INT_MAX, &p->rank);
	vt_json_in_int(&l->in, from, "local_rank", 0, INT_MAX, &p->local_rank);
	vt_json_in_int(&l->in, from, "world_size", 0, INT_MAX, &p->world_size);
	vt_json_in_around(&l->in, from, &l->model->around);
	l->model->core.path = vt_json_in_text(&l->in, core, "path");
	l->model->held_by = vt_json_in_text(&l->in, root, "held_by");
}

/* A stage of a newer vramtap is another one: what it says counts as much. */
static enum vt_stage load_stage(struct load *l, const struct vt_json_value *from)
{
	const char *name = vt_json_in_need_text(&l->in, from, "stage");

	for (enum vt_stage stage = 0; stage < VT_N_STAGES; stage++)
		if (!strcmp(name, vt_stage_name(stage)))
			return stage;
	return VT_STAGE_OTHER;
}

static void load_diags(struct load *l, const struct vt_json_value *root)
{
	const struct vt_json_value *from = vt_json_in_array(&l->in, root, "diagnostics");

	for (size_t i = 0; i < vt_json_count(from); i++) {
		const struct vt_json_value *d = vt_json_in_element(&l->in, from, i, "diagnostics");
		struct vt_diag *diag = vt_vec_append(&l->model->diags);
		const char *level = vt_json_string(vt_json_get(d, "level"));

		if (!diag) {
			l->in.nomem = true;
			return;
		}
		*diag = (struct vt_diag){
			.level = level && !strcmp(level, "missing") ? VT_DIAG_MISSING :
								      VT_DIAG_NOTE,
			.stage = load_stage(l, d),
			.code = vt_json_in_need_text(&l->in, d, "code"),
			.text = vt_json_in_need_text(&l->in, d, "text"),
		};
	}
}

/* ---- devices ---- */

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static void load_uuid(struct load *l, const struct vt_json_value *from, struct vt_model_device *d)
{
	const char *text = vt_json_string(vt_json_get(from, "uuid"));
	size_t n = 0;

	if (!text)
		return;
	for (text += strncmp(text, "GPU-", 4) ? 0 : 4; n < sizeof(d->uuid); text += 2) {
		text += *text == '-';
		if (hex_digit(text[0]) < 0 || hex_digit(text[1]) < 0)
			break;
		d->uuid[n++] = (uint8_t)(hex_digit(text[0]) << 4 | hex_digit(text[1]));
	}
	d->have_uuid = n == sizeof(d->uuid) && !*text;
	if (!d->have_uuid)
		vt_json_in_wrong(&l->in, "uuid", "is none");
}

static void load_device(struct load *l, const struct vt_json_value *from)
{
	struct vt_model_device *d = vt_vec_append(&l->model->devices);
	const struct vt_json_value *memory = vt_json_in_object(&l->in, from, "memory");

	if (!d) {
		l->in.nomem = true;
		return;
	}
	*d = (struct vt_model_device){ 0 };
	if (!vt_json_in_int(&l->in, from, "ordinal", 0, MAX_DEVICE, &d->ordinal))
		vt_json_in_wrong(&l->in, "ordinal", "is missing");
	d->name = vt_json_in_text(&l->in, from, "name");
	load_uuid(l, from, d);
	vt_json_in_bool(&l->in, from, "context_active", &d->context_active);
	vt_json_in_hex(&l->in, from, "context", &d->context);
	d->have_memory = memory;
	if (!memory)
		return;
	d->memory_from = vt_json_in_text(&l->in, memory, "from");
	d->total_bytes = vt_json_in_need_uint(&l->in, memory, "total_bytes");
	d->free_bytes = vt_json_in_need_uint(&l->in, memory, "free_bytes");
	d->used_bytes = vt_json_in_need_uint(&l->in, memory, "used_bytes");
}

/* ---- the allocator ---- */

static void load_totals(struct load *l, const struct vt_json_value *from,
			struct vt_model_allocator *a)
{
	const struct vt_json_value *totals = vt_json_in_object(&l->in, from, "totals"),
				   *private_pools;
	struct vt_model_amount amount;

	a->exact = totals;
	if (!totals)
		return;
	a->result.segments = (uint32_t)vt_json_in_need_uint(&l->in, totals, "segments");
	a->reserved_bytes = vt_json_in_need_uint(&l->in, totals, "reserved_bytes");
	amount = load_amount(l, totals, "allocated");
	a->allocated_bytes = amount.bytes;
	a->allocated_blocks = amount.blocks;
	amount = load_amount(l, totals, "awaiting_free");
	a->awaiting_bytes = amount.bytes;
	a->awaiting_blocks = amount.blocks;
	amount = load_amount(l, totals, "cached");
	a->cached_bytes = amount.bytes;
	a->cached_blocks = amount.blocks;
	a->largest_cached = vt_json_in_need_uint(&l->in, totals, "largest_cached_bytes");
	a->requested_known =
		vt_json_in_uint(&l->in, totals, "requested_bytes", &a->requested_bytes);
	vt_json_in_uint(&l->in, totals, "rounding_bytes", &a->rounding_bytes);
	a->other_known = vt_json_in_uint(&l->in, totals, "everything_else_bytes", &a->other_bytes);
	private_pools = vt_json_in_object(&l->in, totals, "private_pools");
	a->private_bytes = vt_json_in_need_uint(&l->in, private_pools, "bytes");
	amount = load_amount(l, private_pools, "allocated");
	a->private_allocated_bytes = amount.bytes;
	a->private_allocated_blocks = amount.blocks;
	amount = load_amount(l, private_pools, "cached");
	a->private_cached_bytes = amount.bytes;
	a->private_cached_blocks = amount.blocks;
}

struct pool {
	bool small, is_private, expandable;
	uint64_t id;
};

/* "1:0" */
static bool parse_pool(const char *text, uint64_t *id)
{
	char *end;
	unsigned long first = strtoul(text, &end, 10), second;

	if (end == text || *end != ':')
		return false;
	text = end + 1;
	second = strtoul(text, &end, 10);
	if (end == text || *end || first > UINT32_MAX || second > UINT32_MAX)
		return false;
	*id = (uint64_t)first << 32 | second;
	return true;
}

static struct pool load_pool(struct load *l, const struct vt_json_value *from)
{
	const char *pool = vt_json_string(vt_json_get(from, "pool"));
	const char *id = vt_json_string(vt_json_get(from, "private_pool"));
	struct pool p = { .small = pool && !strcmp(pool, "small"), .is_private = id };

	vt_json_in_bool(&l->in, from, "expandable", &p.expandable);
	if (id && strcmp(id, "unknown") != 0 && !parse_pool(id, &p.id))
		vt_json_in_wrong(&l->in, "private_pool", "is none");
	return p;
}

static void load_groups(struct load *l, const struct vt_json_value *from, int device)
{
	const struct vt_json_value *groups = vt_json_in_array(&l->in, from, "groups");

	for (size_t i = 0; i < vt_json_count(groups); i++) {
		const struct vt_json_value *g = vt_json_in_element(&l->in, groups, i, "groups");
		struct vt_model_group *group = vt_vec_append(&l->model->groups);
		struct pool pool = load_pool(l, g);

		if (!group) {
			l->in.nomem = true;
			return;
		}
		*group = (struct vt_model_group){
			.device = device,
			.state = (uint8_t)vt_json_in_word(&l->in, g, "state", state_name,
							  VT_BLOCK_UNMAPPED + 1),
			.small_pool = pool.small,
			.private_pool = pool.is_private,
			.expandable = pool.expandable,
			.pool = pool.id,
			.stream = vt_json_in_need_hex(&l->in, g, "stream"),
			.size = vt_json_in_need_uint(&l->in, g, "block_bytes"),
			.blocks = vt_json_in_need_uint(&l->in, g, "blocks"),
			.bytes = vt_json_in_need_uint(&l->in, g, "bytes"),
		};
	}
}

static struct vt_model_record load_record(struct load *l, const struct vt_json_value *from)
{
	struct vt_model_record record = { .age_ns = load_seconds(l, from, "age_s", VT_NO_AGE) };
	const char *thread = vt_json_in_text(&l->in, from, "thread");
	int tid = 0;

	vt_json_in_int(&l->in, from, "tid", 0, INT_MAX, &tid);
	record.tid = tid;
	record.thread = thread ? thread : "";
	return record;
}

static void load_block(struct load *l, const struct vt_json_value *from, struct vt_block_rec *b,
		       uint32_t *trace)
{
	size_t n_traces = l->model->traces.n;
	uint64_t number;

	b->addr = vt_json_in_need_hex(&l->in, from, "address");
	b->size = vt_json_in_need_uint(&l->in, from, "bytes");
	b->state =
		(uint8_t)vt_json_in_word(&l->in, from, "state", state_name, VT_BLOCK_UNMAPPED + 1);
	vt_json_in_uint(&l->in, from, "requested_bytes", &b->requested);
	vt_json_in_hex(&l->in, from, "history", &b->context);
	vt_json_in_hex(&l->in, from, "object", &b->object);
	if (!trace)
		return;
	if (vt_json_in_uint(&l->in, from, "backtrace", &number)) {
		if (number >= n_traces)
			vt_json_in_wrong(&l->in, "backtrace", "names one that does not exist");
		*trace = number < n_traces ? (uint32_t)number : VT_UNTRACED(VT_UNTRACED_UNREADABLE);
	} else if (vt_json_get(from, "no_backtrace")) {
		*trace = VT_UNTRACED(vt_json_in_word(&l->in, from, "no_backtrace", untraced_name,
						     VT_N_UNTRACED));
	} else {
		*trace = VT_UNTRACED(VT_UNTRACED_NOT_RECORDED);
	}
}

/* The records of blocks, each NULL if there is none. */
struct of_blocks {
	uint32_t *traces;
	struct vt_model_record *records;
};

static void load_segment(struct load *l, const struct vt_json_value *from, int device,
			 const struct of_blocks *of)
{
	const struct vt_json_value *blocks = vt_json_in_array(&l->in, from, "blocks");
	struct pool pool = load_pool(l, from);
	uint64_t stream = vt_json_in_need_hex(&l->in, from, "stream");

	for (size_t i = 0; i < vt_json_count(blocks); i++) {
		struct vt_block_rec *b = &l->model->blocks[l->model->n_blocks];

		*b = (struct vt_block_rec){
			.stream = stream,
			.pool = pool.id,
			.device = (int16_t)device,
			.flags = (uint8_t)((pool.small ? VT_BLOCK_SMALL_POOL : 0) |
					   (pool.is_private ? VT_BLOCK_PRIVATE_POOL : 0) |
					   (pool.expandable ? VT_BLOCK_EXPANDABLE : 0) |
					   (i ? 0 : VT_BLOCK_SEGMENT_START)),
		};
		load_block(l, vt_json_in_element(&l->in, blocks, i, "blocks"), b,
			   of->traces ? &of->traces[l->model->n_blocks] : NULL);
		vt_json_in_owner(&l->in, vt_json_at(blocks, i), (uint32_t)l->model->n_blocks,
				 &l->model->owners);
		if (of->records)
			of->records[l->model->n_blocks] = load_record(l, vt_json_at(blocks, i));
		l->model->n_blocks++;
	}
}

static void load_allocator(struct load *l, const struct vt_json_value *from,
			   const struct of_blocks *of)
{
	struct vt_model_allocator *a = vt_vec_append(&l->model->allocators);
	const struct vt_json_value *segments = vt_json_in_array(&l->in, from, "segments");
	const struct vt_json_value *why = vt_json_get(from, "why");
	size_t why_len = vt_json_length(why); /* 0 if it is no string */

	if (!a) {
		l->in.nomem = true;
		return;
	}
	*a = (struct vt_model_allocator){ .first_block = l->model->n_blocks };
	if (!vt_json_in_int(&l->in, from, "device", 0, MAX_DEVICE, &a->device))
		vt_json_in_wrong(&l->in, "device", "is missing");
	a->method = (enum vt_method)vt_json_in_word(&l->in, from, "method", method_name,
						    VT_METHOD_INTERPRETER + 1);
	a->result.result = (uint8_t)vt_json_in_word(&l->in, from, "result", result_name,
						    VT_WALK_TRUNCATED + 1);
	if (why_len) /* it may lack a final NUL */
		memcpy(a->result.why, vt_json_string(why),
		       why_len < sizeof(a->result.why) ? why_len : sizeof(a->result.why));
	vt_json_in_hex(&l->in, from, "object", &a->result.allocator);
	load_totals(l, from, a);
	load_groups(l, from, a->device);
	for (size_t i = 0; i < vt_json_count(segments); i++)
		load_segment(l, vt_json_in_element(&l->in, segments, i, "segments"), a->device, of);
	a->n_blocks = l->model->n_blocks - a->first_block;
}

static size_t count_blocks(const struct vt_json_value *allocators)
{
	size_t n = 0;

	for (size_t i = 0; i < vt_json_count(allocators); i++) {
		const struct vt_json_value *segments =
			vt_json_get(vt_json_at(allocators, i), "segments");

		for (size_t s = 0; s < vt_json_count(segments); s++)
			n += vt_json_count(vt_json_get(vt_json_at(segments, s), "blocks"));
	}
	return n;
}

static void release_blocks(struct vt_block_rec *blocks, size_t n)
{
	(void)n;
	free(blocks);
}

/* After the backtraces, because blocks refer to them. */
static void load_allocators(struct load *l, const struct vt_json_value *torch, bool recorded)
{
	const struct vt_json_value *allocators = vt_json_in_array(&l->in, torch, "allocators");
	size_t n = count_blocks(allocators) + 1;
	struct vt_model *model = l->model;
	struct of_blocks of = {
		.traces = recorded ? vt_arena_alloc(&model->arena, n * sizeof(*of.traces)) : NULL,
		.records = model->recorder.state ?
				   vt_arena_alloc(&model->arena, n * sizeof(*of.records)) :
				   NULL,
	};

	model->blocks = malloc(n * sizeof(*model->blocks));
	model->blocks_release = release_blocks;
	if (!model->blocks || (recorded && !of.traces) || (model->recorder.state && !of.records)) {
		l->in.nomem = true;
		return;
	}
	for (size_t i = 0; i < vt_json_count(allocators); i++)
		load_allocator(l, vt_json_in_element(&l->in, allocators, i, "allocators"), &of);
	model->block_traces = of.traces;
	model->block_records = of.records;
}

/* ---- recorded backtraces ---- */

static void load_frame(struct load *l, const struct vt_json_value *from, struct vt_model_frame *f)
{
	const char *kind = vt_json_in_need_text(&l->in, from, "kind"), *build_id;

	f->kind = strcmp(kind, "python") ? VT_FRAME_NATIVE : VT_FRAME_PYTHON;
	f->function = vt_json_in_text(&l->in, from, "function");
	f->file = vt_json_in_text(&l->in, from, "file");
	vt_json_in_int(&l->in, from, "line", 0, INT_MAX, &f->line);
	if (f->kind == VT_FRAME_PYTHON)
		return;
	vt_json_in_bool(&l->in, from, "inlined", &f->inlined);
	f->module = vt_json_in_text(&l->in, from, "module");
	build_id = vt_json_in_text(&l->in, from, "build_id");
	f->build_id = build_id ? build_id : "";
	f->pc = vt_json_in_need_hex(&l->in, from, "pc");
	if (vt_json_in_hex(&l->in, from, "module_offset", &f->module_offset) && !f->module)
		f->module = ""; /* a file without a name */
}

static void load_frames(struct load *l, const struct vt_json_value *recorded)
{
	const struct vt_json_value *from = vt_json_in_array(&l->in, recorded, "frames");
	size_t n = vt_json_count(from);
	struct vt_model_frame *frames = vt_arena_alloc(&l->model->arena, (n + 1) * sizeof(*frames));

	if (!frames) {
		l->in.nomem = true;
		return;
	}
	for (size_t i = 0; i < n; i++)
		load_frame(l, vt_json_in_element(&l->in, from, i, "frames"), &frames[i]);
	l->model->trace_frames = frames;
	l->model->n_trace_frames = n;
}

/* The JSON names the title by the frame; the model by its place in the backtrace. */
static size_t load_title(struct load *l, const struct vt_json_value *from, const uint32_t *frames,
			 size_t n)
{
	uint64_t title;
	size_t i = 0;

	if (!vt_json_in_uint(&l->in, from, "title", &title))
		return n;
	while (i < n && frames[i] != title)
		i++;
	if (i == n)
		vt_json_in_wrong(&l->in, "title", "is not a frame of the backtrace");
	return i;
}

static void load_trace(struct load *l, const struct vt_json_value *from)
{
	struct vt_model_trace *t = vt_vec_append(&l->model->traces);
	const struct vt_json_value *array = vt_json_in_array(&l->in, from, "frames");
	size_t n = vt_json_count(array);
	uint32_t *frames = vt_arena_alloc(&l->model->arena, (n + 1) * sizeof(*frames));

	if (!t || !frames) {
		l->in.nomem = true;
		l->model->traces.n -= t != NULL;
		return;
	}
	for (size_t i = 0; i < n; i++)
		frames[i] = vt_json_in_index(&l->in, array, i, l->model->n_trace_frames, "frames");
	*t = (struct vt_model_trace){
		.source = (enum vt_trace_source)vt_json_in_word(&l->in, from, "source", source_name,
								VT_N_TRACE_SOURCES),
		.frames = frames,
		.n_frames = n,
		.bytes = vt_json_in_need_uint(&l->in, from, "bytes"),
		.blocks = vt_json_in_need_uint(&l->in, from, "blocks"),
		.largest = vt_json_in_need_uint(&l->in, from, "largest_bytes"),
		.title = load_title(l, from, frames, n),
		.site = VT_NO_SITE,
		.next_in_site = VT_NO_TRACE,
	};
	t->merge_uncertain = vt_json_in_need_bool(&l->in, from, "merge_uncertain");
	vt_json_in_bool(&l->in, from, "python_cut", &t->python_cut);
	vt_json_in_bool(&l->in, from, "native_cut", &t->native_cut);
	vt_json_in_bool(&l->in, from, "native_guess", &t->native_guess);
	t->ages = load_ages(l, from);
}

/* Each trace is in at most one site, so the chains end. */
static void load_site(struct load *l, const struct vt_json_value *from)
{
	struct vt_model_site *site = vt_vec_append(&l->model->sites);
	const struct vt_json_value *array = vt_json_in_array(&l->in, from, "backtraces");
	struct vt_model *model = l->model;
	uint64_t title = 0;
	size_t *link;

	if (!site) {
		l->in.nomem = true;
		return;
	}
	*site = (struct vt_model_site){
		.bytes = vt_json_in_need_uint(&l->in, from, "bytes"),
		.blocks = vt_json_in_need_uint(&l->in, from, "blocks"),
		.largest = vt_json_in_need_uint(&l->in, from, "largest_bytes"),
		.ages = load_ages(l, from),
		.first_trace = VT_NO_TRACE,
	};
	if (vt_json_in_uint(&l->in, from, "title", &title)) {
		if (title < model->n_trace_frames)
			site->title = &model->trace_frames[title];
		else
			vt_json_in_wrong(&l->in, "title", "is a frame that does not exist");
	}
	link = &site->first_trace;
	for (size_t i = 0; i < vt_json_count(array); i++) {
		uint32_t number = vt_json_in_index(&l->in, array, i, model->traces.n, "backtraces");

		if (number >= model->traces.n || model->traces.data[number].site != VT_NO_SITE) {
			vt_json_in_wrong(&l->in, "backtraces", "has one of another place");
			return;
		}
		model->traces.data[number].site = model->sites.n - 1;
		*link = number;
		link = &model->traces.data[number].next_in_site;
		site->n_traces++;
	}
	if (!site->n_traces)
		vt_json_in_wrong(&l->in, "backtraces", "has none");
}

static void load_recorded(struct load *l, const struct vt_json_value *recorded)
{
	const struct vt_json_value *traces = vt_json_in_array(&l->in, recorded, "backtraces"),
				   *sites = vt_json_in_array(&l->in, recorded, "sites");
	const struct vt_json_value *without = vt_json_in_object(&l->in, recorded, "without");
	static const char *const keys[VT_N_UNTRACED] = {
		[VT_UNTRACED_NOT_RECORDED] = "not_recorded", [VT_UNTRACED_CHANGED] = "changed",
		[VT_UNTRACED_UNREADABLE] = "unreadable",     [VT_UNTRACED_SAMPLED] = "sampled",
		[VT_UNTRACED_NO_STACK] = "no_stack",         [VT_UNTRACED_UNSEEN] = "unseen",
	};

	load_frames(l, recorded);
	for (size_t i = 0; i < vt_json_count(traces) && !l->in.nomem; i++)
		load_trace(l, vt_json_in_element(&l->in, traces, i, "backtraces"));
	for (size_t i = 0; i < vt_json_count(sites) && !l->in.nomem; i++)
		load_site(l, vt_json_in_element(&l->in, sites, i, "sites"));
	for (size_t i = 0; i < VT_N_UNTRACED; i++)
		l->model->untraced[i] = load_amount(l, without, keys[i]);
}

/* ---- states ---- */

/* What vramtap 0.1.0 wrote, without codes. Never change it, even if today's words change. */
struct old_words {
	const char *words;
	unsigned int state;
};

static const struct old_words old_allocator_states[] = {
	{ "not loaded", VT_ALLOCATOR_NOT_LOADED },
	{ "not initialised", VT_ALLOCATOR_NOT_INITIALISED },
	{ "native", VT_ALLOCATOR_NATIVE },
	{ "inherited", VT_ALLOCATOR_INHERITED },
	{ "cudaMallocAsync", VT_ALLOCATOR_ASYNC },
	{ "pluggable", VT_ALLOCATOR_PLUGGABLE },
	{ "refused", VT_ALLOCATOR_REFUSED },
	{ NULL, VT_ALLOCATOR_UNKNOWN },
};

static const struct old_words old_recordings[] = {
	{ "on", VT_RECORDING_ON },
	{ "off", VT_RECORDING_OFF },
	{ "inherited", VT_RECORDING_INHERITED },
	{ "other version", VT_RECORDING_OTHER_VERSION },
	{ "unreadable", VT_RECORDING_UNREADABLE },
	{ NULL, VT_RECORDING_UNKNOWN },
};

static const char *allocator_state_code(unsigned int i)
{
	return vt_allocator_state_code((enum vt_allocator_state)i);
}

static const char *recording_code(unsigned int i)
{
	return vt_recording_code((enum vt_recording)i);
}

/* The code counts, if there is one. The last of the old words stands for all unknown ones. */
static unsigned int load_state(struct load *l, const struct vt_json_value *from,
			       const char *(*code_of)(unsigned int), unsigned int n,
			       const struct old_words *old)
{
	const char *code = vt_json_in_text(&l->in, from, "state_code"),
		   *words = vt_json_in_text(&l->in, from, "state");

	for (unsigned int i = 0; code && i < n; i++)
		if (code_of(i) && !strcmp(code, code_of(i)))
			return i;
	while (old->words && (code || !words || strcmp(words, old->words) != 0))
		old++;
	return old->state;
}

/* ---- vramtap's recorder ---- */

static enum vt_driver_kind load_driver_kind(struct load *l, const struct vt_json_value *from)
{
	const char *name = vt_json_in_need_text(&l->in, from, "kind");

	for (enum vt_driver_kind kind = 0; kind < VT_N_DRIVER_KINDS; kind++)
		if (!strcmp(name, vt_driver_kind_name(kind)))
			return kind;
	return VT_DRIVER_KIND_OTHER;
}

static void load_driver_group(struct load *l, const struct vt_json_value *from)
{
	struct vt_model_driver_group *g = vt_vec_append(&l->model->driver_groups);
	uint64_t title = 0;

	if (!g) {
		l->in.nomem = true;
		return;
	}
	*g = (struct vt_model_driver_group){
		.kind = load_driver_kind(l, from),
		.on_device = vt_json_in_need_bool(&l->in, from, "device_memory"),
		.device = -1,
		.library = vt_json_in_text(&l->in, from, "library"),
		.bytes = vt_json_in_need_uint(&l->in, from, "bytes"),
		.blocks = vt_json_in_need_uint(&l->in, from, "blocks"),
		.largest = vt_json_in_need_uint(&l->in, from, "largest_bytes"),
		.ages = load_ages(l, from),
	};
	vt_json_in_int(&l->in, from, "device", 0, MAX_DEVICE, &g->device);
	if (vt_json_in_uint(&l->in, from, "title", &title) && title < l->model->n_trace_frames)
		g->title = &l->model->trace_frames[title];
}

/* After the frames, because groups refer to them. */
static void load_recorder(struct load *l, const struct vt_json_value *root)
{
	const struct vt_json_value *from = vt_json_in_object(&l->in, root, "recorder"),
				   *driver = vt_json_in_object(&l->in, from, "driver");
	const struct vt_json_value *groups = vt_json_in_array(&l->in, driver, "groups");
	const char *ages_from = vt_json_string(vt_json_get(from, "ages_from"));
	struct vt_model_recorder *r = &l->model->recorder;

	if (!from)
		return;
	vt_json_in_need_text(&l->in, from, "state");
	r->state = (enum vt_recording)load_state(l, from, recording_code, VT_N_RECORDINGS,
						 old_recordings);
	r->on_ns = load_seconds(l, from, "on_for_s", 0);
	r->since_last = ages_from && !strcmp(ages_from, "last-record");
	r->driver = vt_json_in_text(&l->in, driver, "seen_by");
	vt_json_in_uint(&l->in, from, "sample_bytes", &r->sample_bytes);
	vt_json_in_uint(&l->in, from, "sample_now_bytes", &r->sample_now_bytes);
	for (size_t i = 0; i < vt_json_count(groups) && !l->in.nomem; i++)
		load_driver_group(l, vt_json_in_element(&l->in, groups, i, "groups"));
}

/* ---- the whole report ---- */

/* Amounts of a file are added again if sites are merged: the sum must not overflow. */
static bool sums_are_sane(const struct vt_model *model)
{
	uint64_t bytes = 0, blocks = 0;
	bool wraps = false;

	for (size_t i = 0; i < model->sites.n; i++) {
		wraps |= __builtin_add_overflow(bytes, model->sites.data[i].bytes, &bytes);
		wraps |= __builtin_add_overflow(blocks, model->sites.data[i].blocks, &blocks);
	}
	for (size_t i = 0; i < model->traces.n; i++) {
		wraps |= __builtin_add_overflow(bytes, model->traces.data[i].bytes, &bytes);
		wraps |= __builtin_add_overflow(blocks, model->traces.data[i].blocks, &blocks);
	}
	for (size_t i = 0; i < model->groups.n; i++) {
		wraps |= __builtin_add_overflow(bytes, model->groups.data[i].bytes, &bytes);
		wraps |= __builtin_add_overflow(blocks, model->groups.data[i].blocks, &blocks);
	}
	for (size_t i = 0; i < model->driver_groups.n; i++) {
		wraps |= __builtin_add_overflow(bytes, model->driver_groups.data[i].bytes, &bytes);
		wraps |= __builtin_add_overflow(blocks, model->driver_groups.data[i].blocks,
						&blocks);
	}
	for (size_t i = 0; i < model->n_blocks; i++)
		wraps |= __builtin_add_overflow(bytes, model->blocks[i].size, &bytes);
	/* Differences are signed. */
	return !wraps && bytes <= INT64_MAX && blocks <= INT64_MAX;
}

static struct vt_error *check_schema(const struct vt_json_value *root)
{
	const char *schema = vt_json_string(vt_json_get(root, "schema"));
	const struct vt_json_value *version = vt_json_get(root, "schema_version");

	if (!schema || strcmp(schema, VT_REPORT_SCHEMA) != 0)
		return vt_error_create(VT_ERR_FORMAT,
				       "it is not a report; vramtap report --json writes one");
	if (!vt_json_is(version, VT_JSON_INTEGER) ||
	    vt_json_integer(version) != VT_REPORT_SCHEMA_VERSION)
		return vt_error_create(
			VT_ERR_FORMAT,
			"its schema version is %lld, but this vramtap reads only version %d: save it again with this one",
			(long long)vt_json_integer(version), VT_REPORT_SCHEMA_VERSION);
	return NULL;
}

static struct vt_error *load_root(struct load *l, const struct vt_json_value *root)
{
	const struct vt_json_value *torch = vt_json_in_object(&l->in, root, "pytorch"),
				   *recorded = vt_json_in_object(&l->in, torch, "recorded");
	const struct vt_json_value *cuda = vt_json_in_object(&l->in, root, "cuda"),
				   *devices = vt_json_in_array(&l->in, cuda, "devices");
	struct vt_model *model = l->model;
	const char *version;

	VT_TRY(check_schema(root));
	version = vt_json_in_text(&l->in, root, "tool_version");
	model->tool_version = version ? version : "";
	vt_json_in_time(&l->in, root, "time", &model->when);
	model->completeness = (enum vt_completeness)vt_json_in_word(
		&l->in, root, "completeness", vt_completeness_name, VT_NOTHING + 1);
	vt_json_in_where(&l->in, root, &model->where);
	load_process(l, root);
	load_diags(l, root);
	model->cuda_method = (enum vt_method)vt_json_in_word(&l->in, cuda, "method", method_name,
							     VT_METHOD_INTERPRETER + 1);
	for (size_t i = 0; i < vt_json_count(devices); i++)
		load_device(l, vt_json_in_element(&l->in, devices, i, "devices"));
	vt_usage_load(&l->in, vt_json_in_object(&l->in, cuda, "usage"), &model->usage);
	vt_faults_load(&l->in, vt_json_in_object(&l->in, root, "faults"), &model->faults);
	model->torch_method = (enum vt_method)vt_json_in_word(&l->in, torch, "method", method_name,
							      VT_METHOD_INTERPRETER + 1);
	model->torch_state = (enum vt_allocator_state)load_state(
		l, torch, allocator_state_code, VT_N_ALLOCATOR_STATES, old_allocator_states);
	vt_flight_load(&l->in, torch, &model->collectives);
	if (recorded)
		load_recorded(l, recorded);
	vt_json_in_advice(&l->in, root, &model->advice);
	vt_json_in_again(&l->in, root, &model->again);
	vt_json_in_owners(&l->in, root, &model->owners);
	vt_json_in_ledger(&l->in, root, &model->ledger);
	if (!l->in.nomem)
		load_recorder(l, root);
	if (!l->in.nomem)
		load_allocators(l, torch, recorded);
	if (l->in.nomem)
		return vt_error_create(VT_ERR_NOMEM, "not enough memory here");
	if (l->in.wrong[0])
		return vt_error_create(VT_ERR_FORMAT,
				       "it is damaged, or not written by vramtap: %s", l->in.wrong);
	if (!sums_are_sane(model))
		return vt_error_create(
			VT_ERR_FORMAT,
			"it is damaged, or not written by vramtap: it has impossible sizes");
	return NULL;
}

struct vt_error *vt_report_load_text(const char *text, size_t n, struct vt_model *model)
{
	struct vt_arena values = { 0 };
	struct load l = { .in = { .values = &values, .strings = &model->arena }, .model = model };
	const struct vt_json_value *root = NULL;
	struct vt_error *err = vt_json_in_parse(&l.in, text, n, &root);

	if (!err)
		err = load_root(&l, root);
	vt_arena_deinit(&values);
	return err;
}

struct vt_error *vt_report_load(const char *path, struct vt_model *model)
{
	struct vt_str text = { 0 };
	struct vt_error *err = vt_json_in_read(path, &text);

	if (!err) {
		err = vt_report_load_text(vt_str_get(&text), text.n, model);
		err = err ? vt_error_prefix(err, "%s",
					    strcmp(path, "-") ? path : "standard input") :
			    NULL;
	}
	vt_str_deinit(&text);
	return err;
}
