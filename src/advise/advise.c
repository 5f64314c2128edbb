/* SPDX-License-Identifier: Apache-2.0 */
#include "advise/advise.h"

#include "advise/internal.h"

/* Alarms first; the order of the table otherwise, and of a rule's devices. */
static void alarms_first(struct vt_model_advices *advice)
{
	for (size_t i = 1; i < advice->items.n; i++) {
		struct vt_model_advice moved = advice->items.data[i];
		size_t at = i;

		for (; moved.alarm && at > 0 && !advice->items.data[at - 1].alarm; at--)
			advice->items.data[at] = advice->items.data[at - 1];
		advice->items.data[at] = moved;
	}
}

bool vt_advise(struct vt_model *model)
{
	struct vt_advise a = { .model = model };

	model->advice.items.n = 0;
	model->advice.next.n = 0;
	for (size_t i = 0; i < vt_advise_n_rules; i++) {
		a.row = &vt_advise_rules[i];
		a.row->test(&a);
	}
	alarms_first(&model->advice);
	vt_advise_next(&a);
	return !a.failed;
}
