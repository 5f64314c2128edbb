/* SPDX-License-Identifier: Apache-2.0 */
#include "model/notices.h"

#include <string.h>

#include "base/format.h"

enum { MAX_NAME = 120 }; /* bytes of a name of the target's in a sentence */

static const char *const whys[VT_N_WHYS] = {
	[VT_WHY_NONE] = "",
	[VT_WHY_OFF] = "off",
	[VT_WHY_THRESHOLD] = "threshold",
	[VT_WHY_FROZEN] = "frozen",
	[VT_WHY_OLD] = "old",
	[VT_WHY_YOUNG] = "young",
	[VT_WHY_HANDLED] = "handled",
	[VT_WHY_OUTDATED] = "outdated",
	[VT_WHY_GROWS] = "grows",
};

/* Why the collector has not freed garbage, as the end of a sentence. */
static const char *const because[VT_N_WHYS] = {
	[VT_WHY_NONE] = ", as gc.collect() would",
	[VT_WHY_OFF] = ": it is off (gc.disable()); gc.collect() would free them",
	[VT_WHY_THRESHOLD] =
		": its threshold is 0 (gc.set_threshold(0)); gc.collect() would free them",
	[VT_WHY_FROZEN] = ": gc.freeze() keeps it from most; gc.unfreeze() and gc.collect() would "
			  "free them",
	[VT_WHY_OLD] = ": most is in its oldest generation, which it seldom looks at; "
		       "gc.collect() would free them",
	[VT_WHY_YOUNG] = " yet: it will come to it soon",
};

/* ---- words ---- */

struct saying {
	struct vt_str *out;
	const struct vt_model_notice *n;
	char bytes[VT_NUM_MAX], part[VT_NUM_MAX], count[VT_NUM_MAX];
};

#define NAME(text) MAX_NAME, (text)

/* Where the variable of a name is, if it is the one of another name, too: that says it. Else "". */
static const char *common_place(const char *name, const char *other)
{
	const char *place = strstr(name, " in "), *others = strstr(other, " in ");

	return place && others && !strcmp(place, others) ? place : "";
}

/* A name without that. */
static void add_name(struct vt_str *out, const char *name, const char *place)
{
	size_t n = strlen(name) - strlen(place);

	vt_str_addf(out, "%.*s", n < MAX_NAME ? (int)n : MAX_NAME, name);
}

/* What to let go of. An exception that the interpreter printed has up to three names in sys. */
static const char *what_to_drop(const struct vt_model_notice *n)
{
	if (!strncmp(n->name, "sys.last_", strlen("sys.last_")))
		return "delete the sys.last_* variables";
	return n->count > 1 ? "drop these or their __traceback__" : "drop it or its __traceback__";
}

static void say_exception(const struct saying *s)
{
	if (s->n->count > 1)
		vt_str_addf(s->out, "%s are held by nothing but the tracebacks of %s exceptions: ",
			    s->bytes, s->count);
	else
		vt_str_addf(s->out,
			    "%s are held by nothing but an exception's traceback: ", s->bytes);
	vt_str_addf(s->out, "%.*s", NAME(s->n->name));
	if (*s->n->type)
		vt_str_addf(s->out, " (%.*s)", NAME(s->n->type));
	vt_str_add(s->out, " keeps");
	if (s->n->count > 1)
		vt_str_addf(s->out, " %s", s->part);
	if (s->n->count > 1 && *s->n->other)
		vt_str_add(s->out, ", the largest");
	if (*s->n->other || s->n->count < 2)
		vt_str_addf(s->out, " %.*s", NAME(*s->n->other ? s->n->other : "it"));
	if (s->n->why == VT_WHY_HANDLED)
		vt_str_add(s->out, "; it is being handled at the moment");
	else
		vt_str_addf(s->out, "; %s to free them", what_to_drop(s->n));
}

static void say_garbage(const struct saying *s)
{
	static const char prefix[] = "garbage: ";
	const char *name = s->n->name;

	if (!strncmp(name, prefix, strlen(prefix)))
		name += strlen(prefix);
	vt_str_addf(s->out, "%s are garbage", s->bytes);
	if (*name)
		vt_str_addf(s->out, " (the largest is %.*s)", NAME(name));
	vt_str_addf(s->out, " that Python's collector has not freed%s",
		    because[s->n->why] ? because[s->n->why] : "");
}

static void say_kept_graphs(const struct saying *s)
{
	char versions[VT_NUM_MAX];

	vt_str_addf(s->out, "%.*s (%s items) keeps %s alive", NAME(s->n->name), s->count, s->bytes);
	if (strcmp(s->bytes, s->part) != 0)
		vt_str_addf(s->out, ", %s of it", s->part);
	vt_str_add(s->out, " for the graphs that made its items");
	if (s->n->why == VT_WHY_GROWS)
		vt_str_addf(s->out,
			    "; a tensor they saved changed in between (%s versions), so backward() "
			    "can use the latest at most: store .detach() or .item() instead",
			    vt_format_count(versions, s->n->versions));
	if (s->n->why == VT_WHY_OUTDATED)
		vt_str_add(s->out, "; a tensor they saved has changed since, so backward() cannot "
				   "use them all: .detach() would free them");
}

static void say_left_parameters(const struct saying *s)
{
	vt_str_addf(
		s->out,
		"%.*s holds %s parameter%s that nothing else holds, %s with gradients and state: "
		"was it made for another model? Without it they are free",
		NAME(s->n->name), s->count, s->n->count == 1 ? "" : "s", s->bytes);
}

static void say_frozen_state(const struct saying *s)
{
	vt_str_addf(s->out,
		    "%s in %.*s are state of %s frozen parameter%s (requires_grad is False), "
		    "such as ",
		    s->bytes, NAME(s->n->name), s->count, s->n->count == 1 ? "" : "s");
	add_name(s->out, s->n->other, common_place(s->n->other, s->n->name));
	vt_str_add(s->out, ": an optimizer without them has none");
}

static void say_lost_gradients(const struct saying *s)
{
	const char *place = common_place(s->n->name, s->n->other);

	vt_str_addf(s->out, "%s are gradients of %s parameter%s of ", s->bytes, s->count,
		    s->n->count == 1 ? "" : "s");
	add_name(s->out, s->n->name, "");
	vt_str_add(s->out, " that no optimizer has, such as ");
	add_name(s->out, s->n->other, place);
	vt_str_add(s->out, ": if nothing else uses them, requires_grad_(False) avoids them");
}

static void say_kept_gradients(const struct saying *s)
{
	vt_str_addf(
		s->out,
		"%s of gradients are kept while %.*s runs: zero_grad() before it would free them, "
		"unless they are accumulated",
		s->bytes, NAME(s->n->name));
}

static void say_dataset(const struct saying *s)
{
	vt_str_addf(s->out, "%s are held by a data set, %.*s", s->bytes, NAME(s->n->name));
	if (*s->n->type)
		vt_str_addf(s->out, " (%.*s)", NAME(s->n->type));
	vt_str_add(s->out, ": in host memory it leaves the device to the rest");
}

static void say_equal_models(const struct saying *s)
{
	char more[VT_NUM_MAX];

	add_name(s->out, s->n->name, common_place(s->n->name, s->n->other));
	vt_str_addf(s->out, " and %.*s", NAME(s->n->other));
	if (s->n->count > 2)
		vt_str_addf(s->out, " and %s more", vt_format_count(more, s->n->count - 2));
	vt_str_addf(
		s->out,
		" are models of one class with the same shapes, %s each: fine if each is needed "
		"(an EMA, a teacher)",
		s->bytes);
}

static void say_state_copy(const struct saying *s)
{
	add_name(s->out, s->n->name, common_place(s->n->name, s->n->other));
	vt_str_addf(s->out,
		    " holds a copy of the parameters of %.*s, %s: on the CPU it needs none of the "
		    "device's memory",
		    NAME(s->n->other), s->bytes);
}

/* ---- which is an alarm ---- */

static bool never(const struct vt_model_notice *n)
{
	(void)n;
	return false;
}

/* Nothing else holds it, as all references were found. */
static bool if_certain(const struct vt_model_notice *n)
{
	return n->certain;
}

/* It goes when the thread leaves the except. */
static bool is_left_over(const struct vt_model_notice *n)
{
	return n->certain && n->why != VT_WHY_HANDLED;
}

/* The collector frees young garbage soon, in a program that runs. */
static bool is_not_young(const struct vt_model_notice *n)
{
	return n->certain && n->why != VT_WHY_YOUNG;
}

/*
 * A list of outputs is what a forward pass may have, too, and with retain_graph they are outdated
 * after a step. Those of several steps are a leak.
 */
static bool grows(const struct vt_model_notice *n)
{
	return n->why == VT_WHY_GROWS;
}

/*
 * The rules. Condition and evidence are in src/owners/, where the graph is: find_lost.c,
 * find_graphs.c, find_parameters.c, find_copies.c, find_dataset.c. Doubt: why it may be no alarm.
 *
 *   code               condition and evidence                          doubt
 *   held-by-exception  every path to the block goes through the        it is being handled: it
 *                      traceback of an exception                       goes soon
 *   garbage            no root and nothing unseen holds it; the        young: the collector
 *                      collector's switch, and its list                comes soon
 *   kept-graphs        what goes with a container is mostly saved by   not of several versions:
 *                      graphs; outdated: the version of a tensor that  backward() may be still
 *                      a graph saved is not that of the tensor now;    to come, or it is to be
 *                      grows: they saved one in several versions       dropped now
 *   left-parameters    all references to a Parameter are an            (none)
 *                      optimizer's, by counts
 *   frozen-state       requires_grad is False, an optimizer has state  frozen for a moment (GAN)
 *   lost-gradients     all references to a Parameter are its module's, the program updates them
 *                      by counts, and an optimizer has others of the   itself
 *                      same model and type
 *   kept-gradients     a thread is in forward(), none in backward()    they may be accumulated
 *                      or step()
 *   data-set           a Dataset or DataLoader holds tensors           on purpose: it is fast
 *   equal-models       same class, names, shapes, types; other memory  on purpose: EMA, teacher
 *   state-copy         a dict with all names and shapes of a model;    on purpose: EMA, the
 *                      other memory                                    best state so far
 */
static const struct {
	const char *code;
	bool (*is_alarm)(const struct vt_model_notice *n);
	void (*say)(const struct saying *s);
} rules[VT_N_NOTICES] = {
	[VT_NOTICE_EXCEPTION] = { "held-by-exception", is_left_over, say_exception },
	[VT_NOTICE_GARBAGE] = { "garbage", is_not_young, say_garbage },
	[VT_NOTICE_KEPT_GRAPHS] = { "kept-graphs", grows, say_kept_graphs },
	[VT_NOTICE_LEFT_PARAMETERS] = { "left-parameters", if_certain, say_left_parameters },
	[VT_NOTICE_LOST_GRADIENTS] = { "lost-gradients", never, say_lost_gradients },
	[VT_NOTICE_DATASET] = { "data-set", never, say_dataset },
	[VT_NOTICE_STATE_COPY] = { "state-copy", never, say_state_copy },
	[VT_NOTICE_EQUAL_MODELS] = { "equal-models", never, say_equal_models },
	[VT_NOTICE_FROZEN_STATE] = { "frozen-state", never, say_frozen_state },
	[VT_NOTICE_KEPT_GRADIENTS] = { "kept-gradients", never, say_kept_gradients },
};

const char *vt_notice_code(enum vt_notice code)
{
	return rules[code].code;
}

const char *vt_notice_why(enum vt_why why)
{
	return whys[why];
}

bool vt_notice_is_alarm(const struct vt_model_notice *notice)
{
	return rules[notice->code].is_alarm(notice);
}

void vt_notice_words(struct vt_str *out, const struct vt_model_notice *notice)
{
	struct saying s = { .out = out, .n = notice };

	vt_format_size(s.bytes, notice->bytes);
	vt_format_size(s.part, notice->part_bytes);
	vt_format_count(s.count, notice->count);
	rules[notice->code].say(&s);
	if (!notice->certain)
		vt_str_add(out, " (probably)");
}
