/* SPDX-License-Identifier: Apache-2.0 */
/* The words of the answer, and who does the same. */
#include "job/rules/look.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/cxxname.h"

#define SET_COLUMNS 72 /* of a set in a sentence */
#define MAX_NAME 120 /* bytes of a target's name in a sentence */
#define FOR_RETRY ", for the caching allocator, which retries a request" /* explain/verdicts.c */

const struct vt_member *vt_look_member(const struct vt_job_look *look, uint32_t index)
{
	return &look->job->members.data[index];
}

void vt_look_say(struct vt_job_look *look, const char *code, bool alarm, bool outliers, const struct vt_job_indices *members,
		 const struct vt_str *text)
{
	const char *copy = text->failed ? NULL : vt_job_text(look->job, vt_str_get(text), text->n);
	struct vt_job_verdict *v = copy ? vt_vec_append(&look->job->verdicts) : NULL;

	if (!v) {
		look->failed = true;
		return;
	}
	*v = (struct vt_job_verdict){ .code = code, .alarm = alarm, .text = copy, .members = vt_job_set(look->job, members) };
	for (size_t i = 0; outliers && i < members->n; i++)
		look->job->members.data[members->data[i]].outlier = true;
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
	return a->members.data[0] < b->members.data[0] ? -1 : a->members.data[0] > b->members.data[0];
}

static void add_does(const struct vt_job_look *look, const struct vt_member *member, bool with_line, struct vt_str *text);

static const char *intern_does(struct vt_job_look *look, uint32_t index, bool with_line)
{
	struct vt_str does = { 0 };
	const char *text;

	add_does(look, vt_look_member(look, index), with_line, &does);
	text = does.failed ? NULL : vt_job_text(look->job, vt_str_get(&does), does.n);
	vt_str_deinit(&does);
	return text;
}

/* Ranks that run one function are on any of its lines: that line is said only when all agree. */
static bool add_to_group(struct vt_job_look *look, struct vt_map *by_text, struct vt_job_groups *groups, uint32_t index)
{
	bool runs = vt_look_member(look, index)->state == VT_STATE_RUNS;
	const char *text = intern_does(look, index, true), *key = runs ? intern_does(look, index, false) : text;
	struct vt_job_group *group;
	const uint64_t *found;

	if (!text || !key)
		return false;
	found = vt_map_get(by_text, (uintptr_t)key);
	if (found) {
		group = &groups->data[*found];
		group->text = group->text == text ? text : key;
		return vt_job_indices_add(&group->members, index);
	}
	group = vt_vec_append(groups);
	if (!group)
		return false;
	*group = (struct vt_job_group){ .text = text };
	return vt_job_indices_add(&group->members, index) && vt_map_put(by_text, (uintptr_t)key, groups->n - 1);
}

bool vt_look_group(struct vt_job_look *look, const struct vt_job_indices *members, struct vt_job_groups *groups)
{
	struct vt_map by_text = { 0 };
	bool ok = true;

	*groups = (struct vt_job_groups){ 0 };
	for (size_t i = 0; i < members->n && ok; i++)
		ok = add_to_group(look, &by_text, groups, members->data[i]);
	vt_map_deinit(&by_text);
	if (groups->n && ok)
		qsort(groups->data, groups->n, sizeof(*groups->data), compare_groups);
	look->failed |= !ok;
	return ok;
}

/* ---- who ---- */

static bool are_numbered_ranks(const struct vt_job_look *look, const struct vt_job_indices *members)
{
	for (size_t i = 0; i < members->n; i++) {
		const struct vt_label *label = &vt_look_member(look, members->data[i])->label;

		if (label->role != VT_ROLE_RANK || label->rank < 0 || !label->in_job)
			return false;
	}
	return members->n;
}

void vt_look_add_who(const struct vt_job_look *look, const struct vt_job_indices *members, struct vt_str *text)
{
	struct vt_member_set set = { .members = members->data, .n = members->n };
	bool ranks = are_numbered_ranks(look, members);
	int world_size = members->n ? vt_look_member(look, members->data[0])->label.world_size : -1;

	if (ranks && members->n == look->ranks.n && members->n > 1 && (world_size <= 0 || members->n >= (size_t)world_size)) {
		if (members->n == 2)
			vt_str_add(text, "both ranks");
		else
			vt_str_addf(text, "all %zu ranks", members->n);
		return;
	}
	if (ranks)
		vt_str_add(text, members->n == 1 ? "rank " : "ranks ");
	vt_job_add_set(look->job, &set, SET_COLUMNS, text);
}

/* ---- does ---- */

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/* " (train.py:88 train_step)": where in the program, or nothing. */
static void add_place(const struct vt_job_look *look, const struct vt_member *member, bool with_line, struct vt_str *text)
{
	const struct vt_job_frame *f;

	if (member->place == VT_NO_PLACE)
		return;
	f = &look->job->frames.data[member->place];
	vt_str_add(text, " (");
	if (f->file)
		vt_str_addf(text, "%.*s", MAX_NAME, base_name(f->file));
	if (f->file && f->line > 0 && with_line)
		vt_str_addf(text, ":%d", f->line);
	vt_str_add(text, f->file ? " " : "");
	if (f->function && f->kind == VT_FRAME_NATIVE)
		vt_cxx_short_name(text, f->function, strcspn(f->function, "@"), "...");
	else
		vt_str_addf(text, "%.*s", MAX_NAME, f->function ? f->function : f->module ? f->module : "??");
	vt_str_add(text, ")");
}

void vt_look_add_plural(const char *does, bool many, struct vt_str *text)
{
	static const char *const with_is[] = { "in ", "idle ", "out ", "stopped", "held" };
	size_t word = strcspn(does, " ");

	for (size_t i = 0; i < sizeof(with_is) / sizeof(with_is[0]); i++) {
		if (strncmp(does, with_is[i], strlen(with_is[i])) != 0)
			continue;
		vt_str_addf(text, "%s %s", many ? "are" : "is", does);
		return;
	}
	if (many && !strncmp(does, "has ", 4))
		vt_str_addf(text, "have %s", does + 4);
	else if (many && !strncmp(does, "is ", 3))
		vt_str_addf(text, "are %s", does + 3);
	else if (many && word > 1 && does[word - 1] == 's')
		vt_str_addf(text, "%.*s%s", (int)word - 1, does, does + word);
	else
		vt_str_add(text, does);
}

static bool is_python(const struct vt_job_look *look, const struct vt_job_doing *doing)
{
	const struct vt_job_stack *stack = &look->job->stacks.data[doing->stack];

	return doing->gil == 1 || (stack->n && look->job->frames.data[stack->frames[0]].kind == VT_FRAME_PYTHON);
}

/* "runs Python", "runs at::native::foo" */
static void add_running(const struct vt_job_look *look, const struct vt_job_doing *doing, struct vt_str *text)
{
	const struct vt_job_stack *stack = &look->job->stacks.data[doing->stack];

	vt_str_add(text, "runs");
	if (is_python(look, doing)) {
		vt_str_add(text, " Python");
		return;
	}
	for (size_t i = 0; i < stack->n; i++) {
		const char *function = look->job->frames.data[stack->frames[i]].function;

		if (!function)
			continue;
		vt_str_add(text, " ");
		vt_cxx_short_name(text, function, strcspn(function, "@"), "...");
		return;
	}
}

static void add_stuck(const struct vt_job_doing *doing, struct vt_str *text)
{
	vt_str_add(text, "is in uninterruptible sleep (D)");
	if (doing->kernel)
		vt_str_addf(text, " in %.*s", MAX_NAME, doing->kernel);
	if (doing->verdict)
		vt_str_addf(text, ", %.*s", MAX_NAME, doing->verdict);
}

/* "in cudaFree, for the caching allocator, ..." */
static bool gives_back(const char *verdict)
{
	static const char *const calls[] = { "in cudaFree", "in cuMemRelease", "in cuMemUnmap", "in cuMemFree" };

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		if (!strncmp(verdict, calls[i], strlen(calls[i])))
			return true;
	return false;
}

/* Of ranks with retries, what PyTorch counts of them is said: it tells a cache that is emptied from one that is too small. */
static void add_allocator(const struct vt_member *member, const struct vt_job_doing *doing, struct vt_str *text)
{
	const struct vt_job_requests *r = &member->requests;
	const char *verdict = doing->verdict ? doing->verdict : "in the caching allocator", *retry = strstr(verdict, FOR_RETRY);
	bool many = r->known && r->retries;

	if (retry && gives_back(verdict))
		vt_str_addf(text, "retries an allocation: it gives back cached memory, %.*s", (int)(retry - verdict), verdict);
	else
		vt_str_addf(text, "is %.*s%s", MAX_NAME, verdict, many && gives_back(verdict) ? ": it gives back cached memory" : "");
	if (many && gives_back(verdict))
		vt_str_addf(text, ", as it did %llu time%s before to retry a request", (unsigned long long)r->retries,
			    r->retries == 1 ? "" : "s");
}

/* "; pid 4711 on node3 has its rank now" */
static void add_successor(const struct vt_job_look *look, const struct vt_member *core, struct vt_str *text)
{
	for (size_t i = 0; i < look->ranks.n && core->label.rank >= 0; i++) {
		const struct vt_member *m = vt_look_member(look, look->ranks.data[i]);

		if (m->core || m->label.rank != core->label.rank)
			continue;
		vt_str_addf(text, "; pid %d on %.64s has its rank now", (int)m->label.pid, m->label.host);
		return;
	}
}

static void add_does(const struct vt_job_look *look, const struct vt_member *member, bool with_line, struct vt_str *text)
{
	const struct vt_job_doing *doing = vt_job_telling_doing(look->job, member);

	switch (member->state) {
	case VT_STATE_GONE:
		if (member->process_state == 'Z')
			vt_str_add(text, "has ended, and its parent has not collected it");
		else
			vt_str_addf(text, "could not be read: %.*s", 200, member->error ? member->error : "it has ended");
		return;
	case VT_STATE_CRASHED:
		vt_str_addf(text, "left a core: %.300s", member->headline ? member->headline : "nothing more is known");
		add_successor(look, member, text);
		return; /* that says where */
	case VT_STATE_STOPPED:
		vt_str_add(text, "is stopped by a signal");
		break;
	case VT_STATE_TRACED:
		vt_str_add(text, "is held by a debugger");
		if (member->tracer > 0)
			vt_str_addf(text, " (%.*s, pid %d)", 40, *member->tracer_name ? member->tracer_name : "?",
				    (int)member->tracer);
		break;
	case VT_STATE_COLLECTIVE:
		vt_str_addf(text, "waits in %.*s", MAX_NAME, member->operation ? member->operation : "a collective");
		break;
	case VT_STATE_STORE:
		vt_str_add(text, "waits for other ranks (TCPStore)");
		break;
	case VT_STATE_LOADER:
		vt_str_add(text, "waits for loader workers");
		break;
	case VT_STATE_RUNS:
		add_running(look, doing, text);
		break;
	case VT_STATE_STUCK:
		add_stuck(doing, text);
		break;
	case VT_STATE_ALLOCATOR:
		add_allocator(member, doing, text);
		break;
	default:
		if (!doing)
			vt_str_add(text, "does something that is not known");
		else
			vt_look_add_plural(vt_job_does(doing), false, text);
	}
	add_place(look, member, with_line, text);
}
