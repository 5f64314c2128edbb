/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a pickle of all kinds of values to standard output, for pickle_values.py. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "report/snapshot/pickle.h"

static struct vt_pickle pickle;

static void put_numbers(void)
{
	struct vt_pickle_list list = { 0 };

	vt_pickle_name(&pickle, "numbers");
	vt_pickle_list(&pickle);
	for (int bit = 0; bit < 64; bit++) {
		for (int d = -1; d <= 1; d++) {
			uint64_t value = (UINT64_C(1) << bit) + (uint64_t)(int64_t)d;

			vt_pickle_item(&pickle, &list);
			vt_pickle_uint(&pickle, value);
			vt_pickle_item(&pickle, &list);
			vt_pickle_int(&pickle, (int64_t)value);
			vt_pickle_item(&pickle, &list);
			vt_pickle_int(&pickle, (int64_t)-value);
		}
	}
	vt_pickle_end_list(&pickle, &list);
}

static void put_texts(void)
{
	static const char *const texts[] = {
		"",
		"plain",
		"</script>\x1b[31m\n",
		"\xe2\x86\x90 \xf0\x9f\x92\xa9",
		"\xff",
		"a\xc0\x80z",      /* overlong */
		"\xed\xa0\x80",    /* a surrogate */
		"cut \xe2\x86",    /* the end of a character is missing */
		"\xf5\x80\x80\x80" /* beyond Unicode */
	};
	static const size_t lengths[] = { 255, 256, 10000, VT_PICKLE_BUFFER * 2 + 1 };
	struct vt_pickle_list list = { 0 };

	vt_pickle_name(&pickle, "texts");
	vt_pickle_list(&pickle);
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		vt_pickle_item(&pickle, &list);
		vt_pickle_text(&pickle, texts[i]);
	}
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		char *text = calloc(lengths[i] + 1, 1);

		if (!text)
			abort();
		memset(text, 'x', lengths[i]);
		vt_pickle_item(&pickle, &list);
		vt_pickle_text(&pickle, text);
		free(text);
	}
	vt_pickle_end_list(&pickle, &list);
}

/* Enough that numbers of what is kept get long, in batches, with an empty one at the end. */
static void put_lists(void)
{
	static const size_t lengths[] = { 999, 1000, 1001, 2000, 0 };
	static char names[1001][8];
	struct vt_pickle_list lists = { 0 };

	vt_pickle_name(&pickle, "lists");
	vt_pickle_list(&pickle);
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		struct vt_pickle_list list = { 0 };

		vt_pickle_item(&pickle, &lists);
		vt_pickle_list(&pickle);
		for (size_t k = 0; k < lengths[i]; k++) {
			char *name = names[k % 1001];

			snprintf(name, sizeof(names[0]), "n%zu", k % 1001);
			vt_pickle_item(&pickle, &list);
			vt_pickle_name(&pickle, name);
		}
		vt_pickle_end_list(&pickle, &list);
	}
	vt_pickle_end_list(&pickle, &lists);
}

static void put_shared(void)
{
	struct vt_pickle_list list = { 0 };
	uint32_t kept;

	vt_pickle_name(&pickle, "shared");
	vt_pickle_list(&pickle);
	vt_pickle_item(&pickle, &list);
	vt_pickle_dict(&pickle);
	vt_pickle_end_dict(&pickle);
	kept = vt_pickle_keep(&pickle);
	vt_pickle_item(&pickle, &list);
	vt_pickle_again(&pickle, kept);
	vt_pickle_item(&pickle, &list);
	vt_pickle_bool(&pickle, true);
	vt_pickle_bool(&pickle, false);
	vt_pickle_pair(&pickle);
	vt_pickle_end_list(&pickle, &list);
}

int main(void)
{
	struct vt_error *err;

	vt_pickle_init(&pickle, stdout);
	vt_pickle_dict(&pickle);
	put_numbers();
	put_texts();
	put_lists();
	put_shared();
	vt_pickle_end_dict(&pickle);
	err = vt_pickle_finish(&pickle);
	vt_pickle_deinit(&pickle);
	vt_error_destroy(err);
	return err ? 1 : 0;
}
