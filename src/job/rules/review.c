/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the verdicts, and groups of members that do the same. */
#include "job/rules/review.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/str.h"
#include "model/cxxname.h"

#define SET_COLUMNS 72 /* of a set in a sentence */
#define MAX_NAME 120   /* bytes of a target's name in a sentence */

const struct vt_member *vt_review_member(const struct vt_review *review, uint32_t index)
{
	return &review->job->members.data[index];
}

/*
 * A core may be from another world, and its rank may have restarted: they are adjacent and count
 * once.
 */
size_t vt_review_whole_world(const struct vt_review *review)
{
	int world_size = -1, before = -1;
	size_t n = 0;

	for (size_t i = 0; i < review->ranks.n && review->comparable; i++) {
		const struct vt_member *m = vt_review_member(review, review->ranks.data[i]);

		if (world_size < 0 && m->state != VT_STATE_CRASHED)
			world_size = m->label.world_size;
		n += m->label.rank >= 0 && m->label.rank != before;
		before = m->label.rank;
	}
	return world_size > 0 && n == (size_t)world_size ? n : 0;
}

void vt_review_say(struct vt_review *review, enum vt_finding code, bool alarm, bool outliers,
		   const struct vt_job_indices *members, const struct vt_str *text)
{
	const char *copy = text->failed ? NULL :
					  vt_job_text(review->job, vt_str_get(text), text->n);
	struct vt_job_verdict *v = copy ? vt_vec_append(&review->job->verdicts) : NULL;

	if (!v) {
		review->failed = true;
		return;
	}
	*v = (struct vt_job_verdict){ .code = code,
				      .alarm = alarm,
				      .text = copy,
				      .members = vt_job_set(review->job, members) };
	for (size_t i = 0; outliers && i < members->n; i++)
		review->job->members.data[members->data[i]].outlier = true;
}

bool vt_review_is_of_two(const char *operation)
{
	static const char *const names[] = { "send",
					     "recv",
					     "isend",
					     "irecv",
					     "batch_isend_irecv",
					     "send_object_list",
					     "recv_object_list" };

	for (size_t i = 0; operation && i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(operation, names[i]))
			return true;
	return false;
}

static struct vt_job_verdict *last_verdict(struct vt_review *review)
{
	struct vt_job *job = review->job;

	return review->failed || !job->verdicts.n ? NULL : &job->verdicts.data[job->verdicts.n - 1];
}

void vt_review_waiting(struct vt_review *review, const struct vt_job_indices *waiting)
{
	struct vt_job_verdict *v = last_verdict(review);

	if (v)
		v->waiting = vt_job_set(review->job, waiting);
}

void vt_review_brief(struct vt_review *review, const char *brief)
{
	struct vt_job_verdict *v = last_verdict(review);

	if (v)
		v->brief = vt_job_copy(review->job, brief);
}

/* ---- groups ---- */

void vt_job_groups_deinit(struct vt_job_groups *groups)
{
	for (size_t i = 0; i < groups->n; i++)
		free(groups->data[i].members.data);
	vt_vec_deinit(groups);
}

static int compare_groups(const void *pa, const void *pb)
{
	const struct vt_job_group *a = pa, *b = pb;

	if (a->members.n != b->members.n)
		return a->members.n > b->members.n ? -1 : 1;
	return a->members.data[0] < b->members.data[0] ? -1 :
							 a->members.data[0] > b->members.data[0];
}

/* Identifies what is done, without words, so that wording cannot change groups. Interned. */
static const char *key_of(struct vt_review *review, const struct vt_member *member, bool with_line);

/* Ranks in one function can be on any of its lines: the line is shown only if all agree. */
static bool add_to_group(struct vt_review *review, struct vt_map *by_key,
			 struct vt_job_groups *groups, uint32_t index)
{
	const struct vt_member *member = vt_review_member(review, index);
	const char *exact = key_of(review, member, true);
	const char *key = member->state == VT_STATE_RUNS ? key_of(review, member, false) : exact;
	struct vt_job_group *group;
	const uint64_t *found;

	if (!exact || !key)
		return false;
	found = vt_map_get(by_key, (uintptr_t)key);
	if (found) {
		group = &groups->data[*found];
		group->place = group->exact == exact ? group->place : VT_SAME_FUNCTION;
		return vt_job_indices_add(&group->members, index);
	}
	group = vt_vec_append(groups);
	if (!group)
		return false;
	*group = (struct vt_job_group){ .exact = exact, .place = VT_SAME_LINE };
	return vt_job_indices_add(&group->members, index) &&
	       vt_map_put(by_key, (uintptr_t)key, groups->n - 1);
}

bool vt_review_group(struct vt_review *review, const struct vt_job_indices *members,
		     struct vt_job_groups *groups)
{
	struct vt_map by_key = { 0 };
	bool ok = true;

	*groups = (struct vt_job_groups){ 0 };
	for (size_t i = 0; i < members->n && ok; i++)
		ok = add_to_group(review, &by_key, groups, members->data[i]);
	vt_map_deinit(&by_key);
	if (!ok)
		vt_job_groups_deinit(groups);
	if (groups->n)
		qsort(groups->data, groups->n, sizeof(*groups->data), compare_groups);
	review->failed |= !ok;
	return ok;
}

/* ---- names of members ---- */

static bool are_numbered_ranks(const struct vt_review *review, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++) {
		const struct vt_label *label = &vt_review_member(review, members->data[i])->label;

		if (label->role != VT_ROLE_RANK || label->rank < 0 || !label->in_job)
			return false;
	}
	return members->n;
}

void vt_review_add_who(const struct vt_review *review, const struct vt_job_indices *members,
		       struct vt_str *text)
{
	struct vt_member_set set = { .members = members->data, .n = members->n };
	bool ranks = are_numbered_ranks(review, members);
	int world_size = members->n ? vt_review_member(review, members->data[0])->label.world_size :
				      -1;

	if (ranks && members->n == review->ranks.n && members->n > 1 &&
	    (world_size <= 0 || members->n >= (size_t)world_size)) {
		if (members->n == 2)
			vt_str_add(text, "both ranks");
		else
			vt_str_addf(text, "all %zu ranks", members->n);
		return;
	}
	if (ranks)
		vt_str_add(text, members->n == 1 ? "rank " : "ranks ");
	vt_job_add_set(review->job, &set, SET_COLUMNS, text);
}

/* ---- what members do ---- */

/* " (train.py:88 train_step)": where in the program, or nothing. */
static void add_place(const struct vt_review *review, const struct vt_member *member,
		      enum vt_same_place same, struct vt_str *text)
{
	const struct vt_job_frame *f;

	if (member->place == VT_NO_PLACE || same == VT_SAME_NOTHING)
		return;
	f = &review->job->frames.data[member->place];
	vt_str_add(text, " (");
	if (f->file)
		vt_str_addf(text, "%.*s", MAX_NAME, vt_base_name(f->file));
	if (f->file && f->line > 0 && same == VT_SAME_LINE)
		vt_str_addf(text, ":%d", f->line);
	vt_str_add(text, f->file ? " " : "");
	if (f->function && f->kind == VT_FRAME_NATIVE)
		vt_cxx_short_name(text, f->function, strcspn(f->function, "@"), "...");
	else
		vt_str_addf(text, "%.*s", MAX_NAME,
			    f->function ? f->function :
			    f->module   ? f->module :
					  "??");
	vt_str_add(text, ")");
}

static bool is_python(const struct vt_review *review, const struct vt_job_doing *doing)
{
	const struct vt_job_stack *stack = &review->job->stacks.data[doing->stack];

	return doing->gil == 1 ||
	       (stack->n && review->job->frames.data[stack->frames[0]].kind == VT_FRAME_PYTHON);
}

/* The innermost named function of the program or a library; NULL none. */
static const char *running_function(const struct vt_review *review,
				    const struct vt_job_doing *doing)
{
	const struct vt_job_stack *stack = &review->job->stacks.data[doing->stack];

	for (size_t i = 0; i < stack->n; i++) {
		const char *function = review->job->frames.data[stack->frames[i]].function;

		if (function)
			return function;
	}
	return NULL;
}

/* "runs Python", "runs at::native::foo" */
static void add_running(const struct vt_review *review, const struct vt_job_doing *doing, bool many,
			struct vt_str *text)
{
	const char *function = is_python(review, doing) ? NULL : running_function(review, doing);

	vt_str_add(text, many ? "run" : "runs");
	if (is_python(review, doing))
		vt_str_add(text, " Python");
	if (!function)
		return;
	vt_str_add(text, " ");
	vt_cxx_short_name(text, function, strcspn(function, "@"), "...");
}

static void add_stuck(const struct vt_job_doing *doing, bool many, struct vt_str *text)
{
	vt_str_addf(text, "%s in uninterruptible sleep (D)", many ? "are" : "is");
	if (doing->kernel)
		vt_str_addf(text, " in %.*s", MAX_NAME, doing->kernel);
	if (!doing->verdict.code)
		return;
	vt_str_add(text, ", ");
	vt_words_verdict(text, &doing->verdict, VT_FORM_ALONE);
}

/* "in cudaFree, for the caching allocator, ..." */
static bool gives_back(const struct vt_verdict *verdict)
{
	static const char *const calls[] = { "cudaFree", "cuMemRelease", "cuMemUnmap",
					     "cuMemFree" };

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (vt_verdict_is_in(verdict, calls[i]))
			return true;
	return false;
}

/* Adds PyTorch's count of retries: it tells a cache that is emptied from one that is too small. */
static void add_allocator(const struct vt_member *member, const struct vt_job_doing *doing,
			  bool many, struct vt_str *text)
{
	static const struct vt_verdict somewhere = { 0 };
	const struct vt_job_requests *r = &member->requests;
	struct vt_verdict verdict = doing ? doing->verdict : somewhere;
	bool back = gives_back(&verdict), counted = r->known && r->retries;

	if (back && verdict.purpose == VT_PURPOSE_RETRY) {
		verdict.purpose = VT_PURPOSE_NONE;
		vt_str_addf(text, "%s an allocation: %s back cached memory, ",
			    many ? "retry" : "retries", many ? "they give" : "it gives");
		vt_words_verdict(text, &verdict, VT_FORM_ALONE);
	} else {
		vt_words_verdict(text, &verdict, many ? VT_FORM_MANY : VT_FORM_ONE);
		if (!verdict.code)
			vt_str_addf(text, "%s in the caching allocator", many ? "are" : "is");
		if (counted && back)
			vt_str_addf(text, ": %s back cached memory",
				    many ? "they give" : "it gives");
	}
	if (counted && back)
		vt_str_addf(text, ", as %s did %llu time%s before to retry a request",
			    many ? "they" : "it", (unsigned long long)r->retries,
			    r->retries == 1 ? "" : "s");
}

/* "; pid 4711 on node3 has its rank now" */
static void add_successor(const struct vt_review *review, const struct vt_member *core,
			  struct vt_str *text)
{
	for (size_t i = 0; i < review->ranks.n && core->label.rank >= 0; i++) {
		const struct vt_member *m = vt_review_member(review, review->ranks.data[i]);

		if (m->core || m->label.rank != core->label.rank)
			continue;
		vt_str_addf(text, "; pid %d on %.64s has its rank now", (int)m->label.pid,
			    m->label.host);
		return;
	}
}

static void add_does(const struct vt_review *review, const struct vt_member *member,
		     enum vt_same_place same, bool many, struct vt_str *text)
{
	const struct vt_job_doing *doing = vt_job_telling_doing(review->job, member);
	const char *is = many ? "are" : "is", *waits = many ? "wait" : "waits";

	switch (member->state) {
	case VT_STATE_GONE:
		if (member->process_state == 'Z' && many)
			vt_str_add(text, "have ended, but their parents have not reaped them");
		else if (member->process_state == 'Z')
			vt_str_add(text, "has ended, but its parent has not reaped it");
		else
			vt_str_addf(text, "could not be read: %.*s", 200,
				    member->error ? member->error : "it has ended");
		return;
	case VT_STATE_CRASHED:
		vt_str_addf(text, "left a core: %.300s",
			    member->headline ? member->headline : "nothing more is known");
		add_successor(review, member, text);
		return; /* that tells the place */
	case VT_STATE_STOPPED:
		vt_str_addf(text, "%s stopped by a signal", is);
		break;
	case VT_STATE_TRACED:
		vt_str_addf(text, "%s held by a debugger", is);
		if (member->tracer > 0)
			vt_str_addf(text, " (%.*s, pid %d)", 40,
				    *member->tracer_name ? member->tracer_name : "?",
				    (int)member->tracer);
		break;
	case VT_STATE_COLLECTIVE:
		vt_str_addf(text, "%s in %.*s", waits, MAX_NAME,
			    member->operation ? member->operation : "a collective");
		break;
	case VT_STATE_STORE:
		vt_str_addf(text, "%s for other ranks (TCPStore)", waits);
		break;
	case VT_STATE_LOADER:
		vt_str_addf(text, "%s for loader workers", waits);
		break;
	case VT_STATE_RUNS:
		add_running(review, doing, many, text);
		break;
	case VT_STATE_STUCK:
		add_stuck(doing, many, text);
		break;
	case VT_STATE_ALLOCATOR:
		add_allocator(member, doing, many, text);
		break;
	default:
		if (!doing)
			vt_str_addf(text, "%s something unknown", many ? "do" : "does");
		else
			vt_job_add_does(doing, many ? VT_FORM_MANY : VT_FORM_ONE,
					many ? VT_DETAIL_SHARED : VT_DETAIL_ALL, text);
	}
	add_place(review, member, same, text);
}

void vt_review_add_does(const struct vt_review *review, const struct vt_job_group *group,
			struct vt_str *text)
{
	add_does(review, vt_review_member(review, group->members.data[0]), group->place,
		 group->members.n > 1, text);
}

/* ---- equal or different ---- */

static void add_word(struct vt_str *key, const char *word)
{
	vt_str_addf(key, "|%s", word ? word : "");
}

static void add_doing_key(const struct vt_job_doing *doing, struct vt_str *key)
{
	vt_str_addf(key, "|%d %d %d %c", (int)doing->verdict.code, (int)doing->verdict.purpose,
		    doing->verdict.code ? 0 : (int)doing->waits.code,
		    doing->verdict.code || doing->waits.code ? ' ' : doing->state);
	add_word(key, doing->verdict.function);
	add_word(key, doing->verdict.for_function);
	if (doing->verdict.code)
		return;
	add_word(key, doing->waits.call);
	add_word(key, doing->waits.shared);
}

static void add_place_key(const struct vt_review *review, const struct vt_member *member,
			  bool with_line, struct vt_str *key)
{
	const struct vt_job_frame *f =
		member->place != VT_NO_PLACE ? &review->job->frames.data[member->place] : NULL;

	if (!f)
		return;
	add_word(key, f->file);
	add_word(key, f->function);
	add_word(key, f->module);
	vt_str_addf(key, "|%d", f->file && with_line ? f->line : 0);
}

static const char *key_of(struct vt_review *review, const struct vt_member *member, bool with_line)
{
	const struct vt_job_doing *doing = vt_job_telling_doing(review->job, member);
	const char *text;
	struct vt_str key = { 0 };

	vt_str_addf(&key, "%d", (int)member->state);
	switch (member->state) {
	case VT_STATE_GONE:
		vt_str_addf(&key, "|%c", member->process_state == 'Z' ? 'Z' : ' ');
		add_word(&key, member->error);
		break;
	case VT_STATE_CRASHED:
		add_word(&key, member->headline);
		add_successor(review, member, &key);
		break;
	case VT_STATE_TRACED:
		vt_str_addf(&key, "|%d|%s", (int)member->tracer, member->tracer_name);
		break;
	case VT_STATE_COLLECTIVE:
		add_word(&key, member->operation);
		break;
	case VT_STATE_RUNS:
		add_word(&key, is_python(review, doing) ? "" : running_function(review, doing));
		vt_str_addf(&key, "|%d", is_python(review, doing));
		break;
	case VT_STATE_ALLOCATOR:
		vt_str_addf(&key, "|%llu",
			    member->requests.known ? (unsigned long long)member->requests.retries :
						     0);
		add_doing_key(doing, &key);
		break;
	case VT_STATE_STUCK:
		add_word(&key, doing->kernel);
		add_doing_key(doing, &key);
		break;
	case VT_STATE_STOPPED:
	case VT_STATE_STORE:
	case VT_STATE_LOADER:
		break;
	default:
		if (doing)
			add_doing_key(doing, &key);
	}
	if (member->state != VT_STATE_GONE && member->state != VT_STATE_CRASHED)
		add_place_key(review, member, with_line, &key);
	text = key.failed ? NULL : vt_job_text(review->job, vt_str_get(&key), key.n);
	vt_str_deinit(&key);
	return text;
}
