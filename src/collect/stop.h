/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The moment at which the process is stopped: one for all that need it. A participant is a row of a
 * table, which collect/collect.c has. Participants know nothing of each other and never stop
 * anything; the stop does not know what they read.
 */
#ifndef VT_COLLECT_STOP_H
#define VT_COLLECT_STOP_H

#include <stdbool.h>
#include <stddef.h>

#include "collect/touch.h"
#include "target/session.h"

struct vt_collect;

/*
 * All functions may be NULL. Each is called for all participants before the next one is for any,
 * in the order of the table; prepare from the last to the first, so that what the first one
 * prepares is newest.
 */
struct vt_participant {
	unsigned int want; /* of enum vt_want: it takes part only if this is wanted */
	/*
	 * While the process runs: slow preparations. False: it does not need the moment. If no
	 * participant does, nothing is stopped; if another one does, the rest is called anyway.
	 */
	bool (*prepare)(struct vt_collect *c);
	/* While it runs, if it is to be stopped: makes the stop short, and is best done last. */
	void (*rehearse)(struct vt_collect *c);
	/*
	 * Only copies. c->stop.stands says whether the process is stopped. If it is not (nothing
	 * may be stopped, or it could not be), this is the moment anyway, for participants that can
	 * read a running process.
	 */
	void (*copy)(struct vt_collect *c);
	/* It was stopped and runs again, just now: urgent work. */
	void (*resumed)(struct vt_collect *c);
	/* All slow work: sorting, unwinding, names, the model. Also if nothing was copied. */
	void (*finish)(struct vt_collect *c);
};

/* What became of it. */
struct vt_stop {
	bool stands;               /* it is stopped now: by us, or by itself */
	struct vt_session session; /* the threads that we stopped, also after they run again */
	size_t n_escaped;          /* of them, those that could not be stopped */
};

/* From prepare to resumed; the pause is in model->timing. */
void vt_stop_copy(struct vt_collect *c, const struct vt_participant *const *participants, size_t n);
void vt_stop_finish(struct vt_collect *c, const struct vt_participant *const *participants,
		    size_t n);
void vt_stop_deinit(struct vt_stop *stop);

/*
 * It should have been stopped and was not. One that has ended (as the helper's own does) is no
 * loss.
 */
bool vt_stop_has_escaped(const struct vt_collect *c, const struct vt_session_thread *thread);

#endif
