/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The words for what threads do (model/doing.h). All writers share one table, words_table.c. No
 * stage decides by these words: to reword something, change that table and nothing else.
 */
#ifndef VT_MODEL_WORDS_H
#define VT_MODEL_WORDS_H

#include "base/str.h"
#include "model/doing.h"

/* The sentence that the words are part of. */
enum vt_form {
	VT_FORM_ALONE, /* "in dlopen", "waits for the GIL": after a thread's name */
	VT_FORM_ONE,   /* "is in dlopen", "waits for the GIL": after a singular subject */
	VT_FORM_MANY,  /* "are in dlopen", "wait for the GIL": after a plural subject */
	VT_N_FORMS,
};

/* How much detail about what a system call waits for. */
enum vt_detail {
	VT_DETAIL_NONE,   /* "waits in poll" */
	VT_DETAIL_SHARED, /* only what processes that do the same have in common */
	VT_DETAIL_ALL,    /* "waits in poll on 3 descriptors (a socket, a pipe), for at most 5 s" */
};

/* The table. A test replaces it with nonsense and expects the same decisions. */
struct vt_phrase {
	const char *forms[VT_N_FORMS];
};
struct vt_words {
	struct vt_phrase verdicts[VT_N_VERDICTS];
	struct vt_phrase waits[VT_N_WAITS];
	const char *purposes[VT_N_PURPOSES];
	const char *purpose; /* between a function and its purpose */
	const char *holder;  /* between the GIL and the thread that holds it */
};
extern const struct vt_words vt_words;

/* Each adds nothing for a code of NONE. */
void vt_words_verdict(struct vt_str *out, const struct vt_verdict *verdict, enum vt_form form);
void vt_words_waits(struct vt_str *out, const struct vt_waits *waits, enum vt_form form,
		    enum vt_detail detail);

#endif
