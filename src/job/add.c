/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the report of a process into a member. */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "job/internal.h"
#include "model/place.h"

#define MAX_SITES 8    /* of a member: the places that allocated most of its memory */
#define MAX_FRAMES 256 /* of a stack: the innermost; deep recursion says nothing new */

/* "" when there is none. */
static const char *name_of(struct vt_job *job, const char *text)
{
	const char *copy = vt_job_copy(job, text ? text : "");

	return copy ? copy : "";
}

/* ---- threads ---- */

/* NULL and "" are the same to a doing. */
static const char *word_of(struct vt_job *job, const char *text)
{
	return text && *text ? vt_job_copy(job, text) : NULL;
}

/* The tid that holds the GIL differs in every process. */
static struct vt_verdict verdict_of(struct vt_job *job, const struct vt_verdict *verdict)
{
	return (struct vt_verdict){
		.code = verdict->code,
		.purpose = verdict->purpose,
		.function = word_of(job, verdict->function),
		.for_function = word_of(job, verdict->for_function),
	};
}

static struct vt_waits waits_of(struct vt_job *job, const struct vt_waits *waits)
{
	return (struct vt_waits){
		.code = waits->code,
		.call = word_of(job, waits->call),
		.detail = word_of(job, waits->detail),
		.shared = word_of(job, waits->shared ? waits->shared : waits->detail),
	};
}

static bool is_nameless(const struct vt_job_frame *frame)
{
	return frame->kind == VT_FRAME_NATIVE && !frame->function;
}

/*
 * Several nameless frames of one library (a driver's) become one: their number varies from moment
 * to moment.
 */
static uint32_t add_stack(struct vt_job *job, const struct vt_model_stack *stack)
{
	uint32_t frames[MAX_FRAMES];
	const char *nameless = NULL;
	size_t n = 0;

	for (size_t i = 0; i < stack->n_frames && n < MAX_FRAMES; i++) {
		const struct vt_model_frame *f = &stack->frames[i];
		struct vt_job_frame frame = { .kind = f->kind,
					      .line = f->line,
					      .program = vt_model_is_program(f) };

		frame.function = f->function && *f->function ? vt_job_copy(job, f->function) : NULL;
		frame.file = vt_job_copy(job, f->file);
		frame.module = f->kind == VT_FRAME_NATIVE ? vt_job_copy(job, f->module) : NULL;
		if (is_nameless(&frame) && frame.module && frame.module == nameless)
			continue;
		nameless = is_nameless(&frame) ? frame.module : NULL;
		frames[n] = vt_job_intern_frame(job, &frame);
		if (frames[n] == VT_NO_INDEX)
			return VT_NO_INDEX;
		n++;
	}
	return vt_job_intern_stack(job, frames, n);
}

/* "rpc_wait_bit_killable+0x24/0xa0" */
static const char *kernel_function(struct vt_job *job, const struct vt_model_thread *t)
{
	if (t->state != 'D')
		return NULL;
	if (t->n_kernel && t->kernel[0])
		return vt_job_text(job, t->kernel[0], strcspn(t->kernel[0], "+"));
	return t->wchan && *t->wchan ? vt_job_copy(job, t->wchan) : NULL;
}

static bool add_thread(struct vt_job *job, struct vt_member *member,
		       const struct vt_model_thread *t)
{
	struct vt_job_doing doing = {
		.name = name_of(job, t->name),
		.stack = add_stack(job, &t->stack),
		.state = t->state ? t->state : '?',
		.is_main = t->is_main,
		.idle = t->idle && !t->deadlock && t->gil != 1,
		.has_python = t->has_python,
		.deadlock = t->deadlock,
		.gil = t->gil,
		.verdict = verdict_of(job, &t->verdict),
		.waits = waits_of(job, &t->waits),
		.kernel = kernel_function(job, t),
	};
	struct vt_job_thread *thread;
	uint32_t index;

	if (doing.stack == VT_NO_INDEX)
		return false;
	index = vt_job_intern_doing(job, &doing);
	thread = index != VT_NO_INDEX ? vt_vec_append(&member->threads) : NULL;
	if (!thread)
		return false;
	*thread = (struct vt_job_thread){ .tid = t->tid, .doing = index };
	return true;
}

/* ---- memory ---- */

static const char *uuid_of(struct vt_job *job, const struct vt_model_device *d)
{
	char text[64] = "GPU-", *p = text + 4;

	if (!d || !d->have_uuid)
		return "";
	for (size_t i = 0; i < sizeof(d->uuid); i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			*p++ = '-';
		p += snprintf(p, 3, "%02x", d->uuid[i]);
	}
	return name_of(job, text);
}

static struct vt_job_memory *memory_of(struct vt_member *member, int ordinal)
{
	struct vt_job_memory *memory;

	for (size_t i = 0; i < member->memory.n; i++)
		if (member->memory.data[i].ordinal == ordinal)
			return &member->memory.data[i];
	memory = vt_vec_append(&member->memory);
	if (memory)
		*memory = (struct vt_job_memory){ .ordinal = ordinal, .uuid = "" };
	return memory;
}

/* A device that is only visible to the process is not in use by it. */
static bool add_device(struct vt_job *job, struct vt_member *member,
		       const struct vt_model_device *d)
{
	struct vt_job_memory *memory;

	if (!d->context_active)
		return true;
	memory = memory_of(member, d->ordinal);
	if (!memory)
		return false;
	memory->uuid = uuid_of(job, d);
	memory->device_known = d->have_memory;
	memory->total = d->have_memory ? d->total_bytes : 0;
	memory->free_bytes = d->have_memory ? d->free_bytes : 0;
	return true;
}

static bool add_allocator(struct vt_job *job, struct vt_member *member,
			  const struct vt_model *model, const struct vt_model_allocator *a)
{
	const struct vt_model_device *d = vt_model_device(model, a->device);
	struct vt_job_memory *memory;

	if (!a->exact || (!a->reserved_bytes && (!d || !d->context_active)))
		return true;
	memory = memory_of(member, a->device);
	if (!memory)
		return false;
	if (d && !*memory->uuid)
		memory->uuid = uuid_of(job, d);
	memory->known = true;
	memory->reserved = a->reserved_bytes;
	memory->allocated = a->allocated_bytes + a->awaiting_bytes;
	memory->cached = a->cached_bytes;
	return true;
}

/* Only a list that is complete can be compared with those of other ranks. */
static bool add_ledger(struct vt_member *member, const struct vt_model *model,
		       const struct vt_model_ledger_device *d)
{
	struct vt_job_memory *memory;

	if (!model->ledger.whole || !d->claims_known)
		return true;
	memory = memory_of(member, d->device);
	if (!memory)
		return false;
	memory->ledger_known = true;
	for (int i = 0; i < VT_N_CLAIMERS; i++)
		memory->claimed[i] = d->claimed[i].bytes;
	for (int kind = 0; kind < VT_N_RANGE_KINDS; kind++)
		memory->kinds[kind] = vt_range_is_of_device((uint8_t)kind) ? d->kinds[kind].bytes :
									     d->kinds[kind].asked;
	return true;
}

static void add_requests(struct vt_member *member, const struct vt_model *model)
{
	struct vt_job_requests *r = &member->requests;
	const struct vt_model_oom *last = model->ooms.n ? &model->ooms.data[model->ooms.n - 1] :
							  NULL;

	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_torch_device_result *result = &model->allocators.data[i].result;

		if (!result->have_stats || result->stats.num_alloc_retries < 0 ||
		    result->stats.num_ooms < 0)
			continue;
		r->known = true;
		r->retries += (uint64_t)result->stats.num_alloc_retries;
		r->failed += (uint64_t)result->stats.num_ooms;
	}
	if (model->caught.oom)
		last = model->caught.oom;
	r->last_failed = last ? last->requested : 0;
	r->waits = model->caught.oom;
}

static bool add_site(struct vt_job *job, struct vt_member *member, const struct vt_model_site *s)
{
	struct vt_job_site *site = vt_vec_append(&member->sites);
	struct vt_str title = { 0 };

	if (!site)
		return false;
	vt_place_add_function(&title, s->title, true);
	vt_str_add(&title, " ");
	vt_place_add_where(&title, s->title);
	*site = (struct vt_job_site){ .title = name_of(job, vt_str_get(&title)),
				      .bytes = s->bytes,
				      .blocks = s->blocks };
	job->failed |= title.failed;
	vt_str_deinit(&title);
	return true;
}

/* The largest come first in the model. */
static bool add_sites(struct vt_job *job, struct vt_member *member, const struct vt_model *model)
{
	for (size_t i = 0; i < model->sites.n && member->sites.n < MAX_SITES; i++)
		if (model->sites.data[i].title && model->sites.data[i].bytes &&
		    !add_site(job, member, &model->sites.data[i]))
			return false;
	return true;
}

static void add_owners(struct vt_member *member, const struct vt_model_owners *owners)
{
	member->owners = (struct vt_job_owners){
		.state = owners->state,
		.ran = owners->ran,
		.whole = owners->whole,
	};
	for (size_t i = 0; i < VT_N_CATEGORIES && owners->state == VT_OWNERS_READ; i++)
		member->owners.bytes[i] = owners->categories[i].bytes;
}

static bool add_collectives(struct vt_job *job, struct vt_member *member,
			    const struct vt_model_collectives *from)
{
	struct vt_model_collectives *to = &member->collectives;

	to->told_ms = from->told_ms;
	to->why = from->why;
	if (!vt_vec_reserve(&to->groups, from->groups.n))
		return false;
	for (size_t i = 0; i < from->groups.n; i++)
		to->groups.data[to->groups.n++] = from->groups.data[i];
	return vt_job_intern_collectives(job, to);
}

/* ---- the whole member ---- */

static bool add_parts(struct vt_job *job, struct vt_member *member, const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++)
		if (!add_thread(job, member, &model->threads.data[i]))
			return false;
	for (size_t i = 0; i < model->devices.n; i++)
		if (!add_device(job, member, &model->devices.data[i]))
			return false;
	for (size_t i = 0; i < model->allocators.n; i++)
		if (!add_allocator(job, member, model, &model->allocators.data[i]))
			return false;
	for (size_t i = 0; i < model->ledger.devices.n; i++)
		if (!add_ledger(member, model, &model->ledger.devices.data[i]))
			return false;
	add_requests(member, model);
	add_owners(member, &model->owners);
	if (!add_collectives(job, member, &model->collectives))
		return false;
	if (!vt_job_kernels_add(job, &member->kernels, &model->kernels))
		return false;
	return add_sites(job, member, model);
}

static const char *first_missing(struct vt_job *job, const struct vt_model *model)
{
	for (size_t i = 0; i < model->diags.n; i++)
		if (model->diags.data[i].level == VT_DIAG_MISSING)
			return vt_job_copy(job, model->diags.data[i].text);
	return NULL;
}

static void add_process(struct vt_job *job, struct vt_member *member, const struct vt_model *model)
{
	const struct vt_model_process *p = &model->process;
	struct vt_label *label = &member->label;
	const struct vt_model_xid *xid;

	if (!*label->name)
		label->name = name_of(job, p->name);
	if (!*label->command)
		label->command = name_of(job, p->cmdline);
	if (!*label->container)
		label->container = name_of(job, p->container);
	member->core = vt_job_copy(job, model->core.path);
	member->process_state = p->state ? p->state : '?';
	member->tracer = p->tracer;
	member->tracer_name = name_of(job, p->tracer_name);
	member->completeness = model->completeness;
	member->total_ms = model->timing.total_ms;
	member->stopped_ms = model->timing.stopped_ms;
	member->stopped_ns = model->timing.stop_begin_ns;
	member->released_ns = model->timing.stop_end_ns;
	member->have_moment = model->timing.stop_end_ns != 0;
	member->headline = model->headlines.n ? vt_job_copy(job, model->headlines.data[0].text) :
						NULL;
	member->diag = first_missing(job, model);
	member->lost = vt_model_context_lost(model, &xid);
	member->lost_by = xid ? xid->code : 0;
}

static void add_label(struct vt_job *job, struct vt_member *member, const struct vt_label *label)
{
	struct vt_label *to = &member->label;

	*to = *label;
	to->host = name_of(job, label->host);
	to->system = name_of(job, label->system);
	to->name = name_of(job, label->name);
	to->command = name_of(job, label->command);
	to->container = name_of(job, label->container);
	to->pod = name_of(job, label->pod);
	to->job = name_of(job, label->job);
	to->visible = vt_job_copy(job, label->visible);
}

bool vt_job_add_usage(struct vt_job *job, const char *host, const char *system,
		      struct vt_model_usage *usage, struct vt_model_faults *faults)
{
	struct vt_job_usage *added = vt_vec_append(&job->usages);

	if (added) {
		*added = (struct vt_job_usage){ .host = name_of(job, host),
						.system = name_of(job, system),
						.usage = *usage,
						.faults = *faults };
	} else {
		vt_model_usage_deinit(usage);
		vt_model_faults_deinit(faults);
		job->failed = true;
	}
	*usage = (struct vt_model_usage){ 0 };
	*faults = (struct vt_model_faults){ 0 };
	return !job->failed;
}

bool vt_job_add(struct vt_job *job, const struct vt_label *label, const struct vt_model *model,
		const char *error)
{
	struct vt_member *member = vt_job_new_member(job);

	if (!member)
		return false;
	add_label(job, member, label);
	member->error = vt_job_copy(job, error);
	if (!model)
		return !job->failed;
	if (!job->when.tv_sec)
		job->when = model->when;
	if (model->tool_version && !*job->tool_version)
		job->tool_version = name_of(job, model->tool_version);
	add_process(job, member, model);
	if (!add_parts(job, member, model))
		job->failed = true;
	return !job->failed;
}
