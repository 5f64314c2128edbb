/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The helper asks the interpreter what holds the tensors: only with --ask-pytorch, and only where
 * this cannot be read from outside. It is bound by the same conditions as the question for blocks
 * (collect/ask.c), but for the allocator's locks: nothing in it takes those or calls the driver.
 */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/str.h"
#include "collect/collect.h"
#include "inject/inject.h"
#include "walk/python/ask.h"

#define HELD_NS (200 * VT_NS_PER_MS) /* the GIL: the look is cut short then */
#define MAX_OBJECTS 300000           /* that are remembered there: 56 bytes each at most */
#define MAX_RECORDS 400000           /* 51 MB */

/* Everything the helper told is the process's word. */
struct answer {
	struct vt_ask_owners_answer owners;
	double held_ms;
};

static struct vt_error *take(struct vt_collect *c, struct vt_helper *helper,
			     const struct vt_ask_owners_answer *answer)
{
	size_t end = vt_helper_size(helper);
	struct vt_asked_owners *asked = &c->asked_owners;

	if (answer->n > MAX_RECORDS || answer->offset > end ||
	    answer->n * sizeof(*asked->recs) > end - answer->offset)
		return vt_error_create(VT_ERR_FORMAT, "the helper's answer is out of bounds");
	/* A copy: the target could change it. */
	asked->recs = malloc((answer->n + 1) * sizeof(*asked->recs));
	if (!asked->recs)
		return &vt_enomem;
	memcpy(asked->recs, (const char *)vt_helper_shared(helper) + answer->offset,
	       answer->n * sizeof(*asked->recs));
	for (size_t i = 0; i < answer->n; i++)
		asked->recs[i].text[sizeof(asked->recs[i].text) - 1] = '\0';
	asked->n = answer->n;
	asked->n_objects = answer->n_objects;
	asked->late = answer->late;
	asked->full = answer->full;
	asked->told = true;
	return NULL;
}

static struct vt_error *ask(struct vt_collect *c, struct vt_helper *helper, struct vt_python *py,
			    struct answer *answer)
{
	struct vt_ask_owners_args args = { .held_ns = HELD_NS, .max_objects = MAX_OBJECTS };
	double before = c->model->timing.gil_held_ms;

	VT_TRY(vt_collect_prepare_python(c, py, &args.python));
	VT_TRY(vt_python_owner_imports(py, &c->target.modules, &args.imports));
	VT_TRY(vt_helper_grow(helper,
			      VT_HELPER_ROOM_OFFSET + MAX_RECORDS * sizeof(struct vt_asked_rec)));
	vt_helper_shared(helper)->args.ask_owners = args;
	VT_TRY(vt_collect_call_python(c, helper, VT_OP_ASK_OWNERS));
	answer->owners = vt_helper_shared(helper)->owners;
	answer->held_ms = c->model->timing.gil_held_ms - before;
	return take(c, helper, &answer->owners);
}

/* That code ran in the process, and what it cost; and what it could not tell. */
static void say_asked(struct vt_collect *c, const struct answer *answer)
{
	struct vt_str text = { 0 };

	vt_model_diag(
		c->model, VT_DIAG_NOTE, VT_STAGE_OWNERS, "asked-owners",
		"what holds the tensors cannot be read from outside (%s), so the process's Python interpreter "
		"was asked, by code that ran in the process; that held the GIL for %.1f ms",
		vt_collect_why_no_owners(c), answer->held_ms);
	vt_str_add(&text, "what only graphs, closures and native code hold has no owner");
	if (answer->owners.no_gradients)
		vt_str_add(
			&text,
			"; gradients were not asked for, because a backward pass may be running");
	if (answer->owners.without_facts)
		vt_str_addf(&text, "; tensors that told of no storage: %d",
			    answer->owners.without_facts);
	if (answer->owners.cut)
		vt_str_add(&text, "; only the first 100,000 items of a container were looked at");
	if (answer->owners.late)
		vt_str_add(&text, "; the time was over before all was told");
	else if (answer->owners.full)
		vt_str_add(&text, "; there was no room for all of it");
	vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_OWNERS, "asked-in-part", "%s",
		      vt_str_get(&text));
	vt_str_deinit(&text);
}

void vt_collect_ask_owners(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_python py = { 0 };
	struct answer answer = { 0 };
	struct vt_error *err;

	if (!vt_collect_wants_owners(c) || !c->model->n_blocks || !vt_collect_why_no_owners(c))
		return;
	err = ask(c, helper, &py, &answer);
	if (err)
		vt_collect_diag_error(c, VT_DIAG_NOTE, VT_STAGE_OWNERS,
				      err->code == VT_ERR_TIMEOUT ?
					      "the process did not tell what holds its tensors" :
					      "the process was not asked what holds its tensors",
				      err);
	else
		say_asked(c, &answer);
	vt_python_deinit(&py);
	vt_live_drop_cache(c->target.live); /* the stacks are read later, and want today's */
}
