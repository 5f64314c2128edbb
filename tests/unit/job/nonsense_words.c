/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of words in which nothing means anything: it takes the place of src/model/words_table.c
 * in decisions_nonsense.
 */
#include "model/words.h"

#define NONSENSE(kind, name)                                                \
	{                                                                   \
		{                                                           \
			"zork-" kind #name "-0 ", "zork-" kind #name "-1 ", \
				"zork-" kind #name "-2 "                    \
		}                                                           \
	}
#define VERDICT(name, text) [VT_VERDICT_##name] = NONSENSE("v", name),
#define WAITS(name, text) [VT_WAITS_##name] = NONSENSE("w", name),
#define PURPOSE(name, text) [VT_PURPOSE_##name] = "zork-p" #name "-0 ",

const struct vt_words vt_words = {
	.verdicts = { VT_VERDICTS(VERDICT) },
	.waits = { VT_WAITS(WAITS) },
	.purposes = { VT_PURPOSES(PURPOSE) },
	.purpose = "zork-to",
	.holder = "zork-by",
};
