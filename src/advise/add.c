/* SPDX-License-Identifier: Apache-2.0 */
/* How tests put advice together. */
#include <stdarg.h>

#include "advise/internal.h"

struct vt_model_advice *vt_advise_add(struct vt_advise *a, int device)
{
	struct vt_model_advice *advice = vt_vec_append(&a->model->advice.items);

	if (!advice) {
		a->failed = true;
		return NULL;
	}
	*advice = (struct vt_model_advice){
		.rule = a->row->rule,
		.certainty = a->row->certainty,
		.alarm = a->row->alarm,
		.device = device,
		.remedy = a->row->remedy,
	};
	return advice;
}

/* More values than there is room for are a mistake of the rule: its unit test looks for each. */
static struct vt_advice_value *add_value(struct vt_model_advice *advice)
{
	return advice && advice->n_values < VT_ADVICE_MAX_VALUES ?
		       &advice->values[advice->n_values++] :
		       NULL;
}

void vt_advise_number(struct vt_model_advice *advice, const char *name, uint64_t number)
{
	struct vt_advice_value *value = add_value(advice);

	if (value)
		*value = (struct vt_advice_value){ .name = name, .number = number };
}

void vt_advise_text(struct vt_advise *a, struct vt_model_advice *advice, const char *name,
		    const char *text)
{
	const char *copy = advice && text ? vt_arena_strdup(&a->model->arena, text) : NULL;
	struct vt_advice_value *value = copy ? add_value(advice) : NULL;

	if (value)
		*value = (struct vt_advice_value){ .name = name, .text = copy };
	else if (advice && text && !copy)
		a->failed = true;
}

void vt_advise_sure(struct vt_model_advice *advice, enum vt_certainty certainty)
{
	if (advice)
		advice->certainty = certainty;
}

void vt_advise_remedy(struct vt_model_advice *advice, enum vt_advice_remedy remedy)
{
	if (advice)
		advice->remedy = remedy;
}

__attribute__((format(printf, 2, 0))) static const char *print(struct vt_advise *a,
							       const char *format, va_list args)
{
	const char *text = vt_arena_vprintf(&a->model->arena, format, args);

	a->failed |= !text;
	return text;
}

void vt_advise_setting(struct vt_advise *a, struct vt_model_advice *advice, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (advice)
		advice->setting = print(a, format, args);
	va_end(args);
}

void vt_advise_command(struct vt_advise *a, struct vt_model_advice *advice, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	if (advice)
		advice->command = print(a, format, args);
	va_end(args);
}
