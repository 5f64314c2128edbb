/* SPDX-License-Identifier: Apache-2.0 */
#include "model/advice.h"

#include <string.h>

#define VT_ADVICE_NAME(name, text) text,

const struct vt_advice_value *vt_model_advice_value(const struct vt_model_advice *advice,
						    const char *name, size_t n)
{
	for (size_t i = 0; i < advice->n_values; i++)
		if (!strncmp(advice->values[i].name, name, n) && !advice->values[i].name[n])
			return &advice->values[i];
	return NULL;
}

const char *vt_advice_rule_name(unsigned int rule)
{
	static const char *const names[] = { VT_ADVICE_RULES(VT_ADVICE_NAME) };

	return names[rule < VT_N_ADVICE_RULES ? rule : VT_ADVICE_OTHER];
}

const char *vt_advice_remedy_name(unsigned int remedy)
{
	static const char *const names[] = { VT_ADVICE_REMEDIES(VT_ADVICE_NAME) };

	return names[remedy < VT_N_ADVICE_REMEDIES ? remedy : VT_REMEDY_NONE];
}

const char *vt_advice_next_name(unsigned int next)
{
	static const char *const names[] = { VT_ADVICE_NEXTS(VT_ADVICE_NAME) };

	return names[next < VT_N_ADVICE_NEXTS ? next : VT_NEXT_NONE];
}

const char *vt_certainty_name(unsigned int certainty)
{
	static const char *const names[] = { "possible", "likely", "certain" };

	return names[certainty < VT_N_CERTAINTIES ? certainty : VT_SURE_POSSIBLE];
}
