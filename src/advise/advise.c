/* SPDX-License-Identifier: Apache-2.0 */
#include "advise/advise.h"

#include "advise/internal.h"

static int rank(const struct vt_model_advice *advice)
{
	return advice->alarm ? 0 : advice->certainty == VT_SURE_POSSIBLE ? 2 : 1;
}

/* Alarms first, what is only possible last; the order of the table otherwise, and of devices. */
static void sort(struct vt_model_advices *advice)
{
	for (size_t i = 1; i < advice->items.n; i++) {
		struct vt_model_advice moved = advice->items.data[i];
		size_t at = i;

		for (; at > 0 && rank(&moved) < rank(&advice->items.data[at - 1]); at--)
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
	sort(&model->advice);
	vt_advise_next(&a);
	return !a.failed;
}
