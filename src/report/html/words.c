/* SPDX-License-Identifier: Apache-2.0 */
/* The words of codes, for the scripts: the texts have the same ones. */
#include "report/html/words.h"

#include <stdlib.h>

#include "base/cleanup.h"
#include "json/out.h"
#include "model/ledger.h"
#include "model/libpools.h"
#include "model/owners.h"
#include "report/state_words.h"

static const char *category_code(unsigned int i)
{
	return vt_category_code((enum vt_category)i);
}

static const char *category_words(unsigned int i)
{
	return vt_category_words((enum vt_category)i);
}

static const char *unowned_code(unsigned int i)
{
	return vt_unowned_code((enum vt_unowned)i);
}

static const char *unowned_words(unsigned int i)
{
	return vt_unowned_words((enum vt_unowned)i);
}

static const char *unowned_array_words(unsigned int i)
{
	return vt_unowned_array_words((enum vt_unowned)i);
}

static const char *owners_name(unsigned int i)
{
	return vt_owners_state_name((enum vt_owners_state)i);
}

static const char *owners_words(unsigned int i)
{
	return vt_owners_state_words((enum vt_owners_state)i);
}

static const char *bound_code(unsigned int i)
{
	return vt_owners_bound_code((enum vt_owners_bound)i);
}

static const char *bound_words(unsigned int i)
{
	return vt_owners_bound_words((enum vt_owners_bound)i);
}

static const char *untraced_name(unsigned int i)
{
	return vt_untraced_name((enum vt_untraced)i);
}

static const char *untraced_words(unsigned int i)
{
	return vt_untraced_words((enum vt_untraced)i);
}

static const struct {
	const char *key;
	const char *(*code)(unsigned int i); /* NULL: none */
	const char *(*words)(unsigned int i);
	unsigned int n;
} tables[] = {
	{ "category", category_code, category_words, VT_N_CATEGORIES },
	{ "claimer", vt_claimer_name, vt_claimer_label, VT_N_CLAIMERS },
	{ "range", vt_range_kind_name, vt_range_kind_label, VT_N_RANGE_KINDS },
	{ "unowned", unowned_code, unowned_words, VT_N_UNOWNED },
	{ "unowned array", unowned_code, unowned_array_words, VT_N_UNOWNED },
	{ "owners", owners_name, owners_words, VT_N_OWNERS_STATES },
	{ "bound", bound_code, bound_words, VT_N_OWNERS_BOUNDS },
	{ "untraced", untraced_name, untraced_words, VT_N_UNTRACED },
	{ "library", vt_libpool_kind_name, vt_libpool_library, VT_N_LIBPOOL_KINDS },
};

struct vt_error *vt_html_write_words(FILE *out)
{
	VT_FREE struct vt_json *json = malloc(sizeof(*json));

	if (!json)
		return &vt_enomem;
	vt_json_init(json, out);
	vt_json_object(json, NULL);
	for (size_t t = 0; t < sizeof(tables) / sizeof(tables[0]); t++) {
		vt_json_object(json, tables[t].key);
		for (unsigned int i = 0; i < tables[t].n; i++)
			if (tables[t].code(i))
				vt_json_text(json, tables[t].code(i), tables[t].words(i));
		vt_json_end_object(json);
	}
	vt_json_end_object(json);
	return vt_json_finish(json);
}
