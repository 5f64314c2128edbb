/* SPDX-License-Identifier: Apache-2.0 */
/*
 * {name} is a figure of the advice, with the unit that the end of its name tells; {name|hole} is
 * its number and the word, "1 hole" or "3 holes", {name|process|processes} the same. A part in
 * square brackets is left out if one of its figures is not known. {device}, {setting} and {command}
 * are the advice's own.
 */
#include "report/advice_words.h"

#include <inttypes.h>
#include <string.h>

#include "base/format.h"

struct words {
	const char *verdict, *evidence;
};

static const struct words rules[VT_N_ADVICE_RULES] = {
	[VT_ADVICE_OTHER] = { "advice of another version of vramtap", "" },
	[VT_ADVICE_STOPPED] = {
		"a signal has stopped the process",
		"it does nothing until it is continued",
	},
	[VT_ADVICE_FRAGMENTED] = {
		"GPU {device}: free memory is in pieces, and none is large enough",
		"{needed_bytes} needed; {holes_bytes} cached in {holes|hole}, the largest {largest_hole_bytes}; "
		"{free_bytes} free on the device",
	},
};

struct remedy_words {
	const char *remedy;  /* of the advice */
	const char *purpose; /* after the command or setting, at the end of a report */
};

static const struct remedy_words remedies[VT_N_ADVICE_REMEDIES] = {
	[VT_REMEDY_NONE] = { "", "" },
	[VT_REMEDY_CONTINUE] = { "{command} lets it go on", "lets it go on" },
	[VT_REMEDY_EXPANDABLE_SEGMENTS] = {
		"at the next start, set {setting}",
		"at the next start",
	},
};

static const char *const nexts[VT_N_ADVICE_NEXTS] = {
	[VT_NEXT_NONE] = "",
	[VT_NEXT_RECORD] = "records who allocates from now on",
};

/* ---- a template and the figures of one advice ---- */

struct fill {
	const struct vt_model_advice *advice;
	const char *setting, *command;
};

static bool ends_with(const char *name, size_t n, const char *end)
{
	size_t len = strlen(end);

	return n >= len && !strncmp(name + n - len, end, len);
}

static void add_number(struct vt_str *text, const char *name, size_t n, uint64_t number)
{
	char buf[VT_NUM_MAX];

	if (ends_with(name, n, "_bytes"))
		vt_str_add(text, vt_format_size(buf, number));
	else if (ends_with(name, n, "_seconds"))
		vt_str_add(text, vt_format_age(buf, (double)number));
	else if (ends_with(name, n, "_percent"))
		vt_str_addf(text, "%" PRIu64 " %%", number);
	else if (ends_with(name, n, "pid") || ends_with(name, n, "tid"))
		vt_str_addf(text, "%" PRIu64, number);
	else
		vt_str_add(text, vt_format_count(buf, number));
}

/* After "{name|": "hole}" or "process|processes}". */
static void add_noun(struct vt_str *text, const char *words, size_t n, uint64_t number)
{
	const char *plural = memchr(words, '|', n);
	size_t one = plural ? (size_t)(plural - words) : n;

	vt_str_add(text, " ");
	if (plural && number != 1)
		vt_str_addn(text, plural + 1, n - one - 1);
	else
		vt_str_addn(text, words, one);
	if (!plural && number != 1)
		vt_str_add(text, "s");
}

/* Adds what stands between the braces; false: it is not known. */
static bool add_figure(struct vt_str *text, const struct fill *fill, const char *inner, size_t n)
{
	const char *bar = memchr(inner, '|', n);
	size_t name = bar ? (size_t)(bar - inner) : n;
	const struct vt_advice_value *value;

	if (name == 7 && !strncmp(inner, "setting", name)) {
		vt_str_add(text, fill->setting);
		return fill->setting != NULL;
	}
	if (name == 7 && !strncmp(inner, "command", name)) {
		vt_str_add(text, fill->command);
		return fill->command != NULL;
	}
	if (!fill->advice)
		return false;
	if (name == 6 && !strncmp(inner, "device", name)) {
		vt_str_addf(text, "%d", fill->advice->device);
		return fill->advice->device >= 0;
	}
	value = vt_model_advice_value(fill->advice, inner, name);
	if (!value)
		return false;
	if (value->text)
		vt_str_add(text, value->text);
	else
		add_number(text, inner, name, value->number);
	if (bar)
		add_noun(text, bar + 1, n - name - 1, value->number);
	return true;
}

/* Up to the end of the template, or of the part in brackets; false: a figure is not known. */
static bool add_part(struct vt_str *text, const struct fill *fill, const char **at, char end)
{
	bool known = true;

	while (**at && **at != end) {
		size_t n = strcspn(*at, end == ']' ? "{]" : "{[");

		vt_str_addn(text, *at, n);
		*at += n;
		if (**at == '{') {
			n = strcspn(*at, "}");
			known = add_figure(text, fill, *at + 1, n - 1) && known;
			*at += n + ((*at)[n] == '}');
		} else if (**at == '[') {
			size_t before = text->n;

			++*at;
			if (!add_part(text, fill, at, ']'))
				vt_str_cut(text, before);
			*at += **at == ']';
		}
	}
	return known;
}

static void add_template(struct vt_str *text, const struct fill *fill, const char *template)
{
	if (template)
		add_part(text, fill, &template, '\0');
}

static struct fill of_advice(const struct vt_model_advice *advice)
{
	return (struct fill){ advice, advice->setting, advice->command };
}

void vt_advice_verdict(struct vt_str *text, const struct vt_model_advice *advice)
{
	struct fill fill = of_advice(advice);

	add_template(text, &fill, rules[advice->rule].verdict);
}

void vt_advice_evidence(struct vt_str *text, const struct vt_model_advice *advice)
{
	struct fill fill = of_advice(advice);

	add_template(text, &fill, rules[advice->rule].evidence);
}

void vt_advice_remedy(struct vt_str *text, const struct vt_model_advice *advice)
{
	struct fill fill = of_advice(advice);

	add_template(text, &fill, remedies[advice->remedy].remedy);
}

void vt_next_purpose(struct vt_str *text, const struct vt_model_next *next)
{
	struct fill fill = { NULL, next->setting, next->command };

	add_template(text, &fill,
		     next->code == VT_NEXT_REMEDY ? remedies[next->remedy].purpose :
						    nexts[next->code]);
}
