/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stuck or slow? What further looks at the same process show, without a stop: which threads ran,
 * which moved, and what follows for the process. Part of the model. collect/again.c fills in the
 * looks; model/again.c judges them.
 */
#ifndef VT_MODEL_AGAIN_H
#define VT_MODEL_AGAIN_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/vec.h"
#include "model/doing.h"

struct vt_model;
struct vt_model_thread;

/* What a thread did from the first look to the last. */
enum vt_again_moved {
	VT_AGAIN_UNKNOWN, /* it ran, and its frames could not be compared */
	VT_AGAIN_STILL,   /* it slept all the time, at the same place */
	VT_AGAIN_SAME,    /* it ran, and was at the same place in each look */
	VT_AGAIN_MOVED,
	VT_AGAIN_ENDED, /* it ended meanwhile */
	VT_AGAIN_NEW,   /* it started meanwhile */
	VT_N_AGAIN_MOVED
};

/* What follows for the process. */
/* clang-format off */
#define VT_AGAIN_VERDICTS(X)                                                                \
	X(NONE, NULL)                                                                       \
	/* a thread has not moved in a wait that should end soon; nothing else works */     \
	X(STUCK, "stuck") /* an alarm */                                                    \
	/* a thread has not moved; its wait may take that long */                           \
	X(STANDS, "stands")                                                                 \
	X(IDLE, "idle") /* it waits for something to do */                                  \
	X(OTHERS_WORK, "others-work") /* it waits, another thread works */                  \
	X(SPINS, "spins") /* it runs, and was at the same place each time */                \
	/* it woke up now and then, and went on to wait at the same place */                \
	X(POLLS, "polls")                                                                   \
	X(MOVES, "moves")                                                                   \
	X(UNKNOWN, "unknown")                                                               \
	/* the process has ended, or has become another program, after the last look */     \
	X(ENDED, "ended")                                                                   \
	X(EXEC, "exec")
/* clang-format on */

#define VT_AGAIN_CODE(name, text) VT_AGAIN_IS_##name,
enum vt_again_verdict { VT_AGAIN_VERDICTS(VT_AGAIN_CODE) VT_N_AGAIN_VERDICTS };
#undef VT_AGAIN_CODE

/* A place where a thread was seen: what it does, and where in the program. */
struct vt_model_again_place {
	unsigned int looks; /* that saw it there */
	char state;
	struct vt_verdict verdict;
	struct vt_waits waits;
	const char *call;           /* its system call; NULL none */
	const char *function;       /* of the most telling Python frame, or NULL */
	const char *file, *library; /* its file; of a thread without Python: where it is */
	int line;
};

#define VT_AGAIN_MAX_PLACES 16 /* of a thread that are kept; the rest is counted */

struct vt_model_again_thread {
	pid_t tid;
	const char *name;
	bool is_main, idle; /* idle: a pool thread that waited for work in every look */
	bool deadlock;
	enum vt_again_moved moved;
	bool went_on; /* it moved only after the last look, when its streams were idle */
	bool cpu_known;
	uint64_t cpu_ns;    /* processor time */
	unsigned int looks; /* that saw it */
	struct vt_model_again_place *places;
	unsigned int n_places; /* most looks first */
	unsigned int more_places;
};

struct vt_model_again {
	enum vt_again_verdict verdict; /* NONE: there was no second look */
	bool alarm;
	pid_t subject;           /* the thread that the verdict is about; 0 the whole process */
	unsigned int looks;      /* the first one included */
	uint64_t interval_ns;    /* that was asked for */
	uint64_t span_ns;        /* from the first look to the last */
	bool interrupted;        /* by the user: fewer looks than asked for */
	bool cpu_known;          /* of all threads */
	uint64_t cpu_ns;         /* all threads together */
	uint64_t process_cpu_ns; /* with threads that came and went; in ticks of the clock */
	bool torch_known;        /* torch_count is */
	uint64_t torch_count;    /* blocks that PyTorch handed out and took back meanwhile */
	bool launches_known;     /* launches_ended is */
	uint64_t launches_ended; /* that vramtap's recorder saw end meanwhile */
	double look_ms;          /* how long the longest look took */
	double borrowed_us;      /* a thread, to ask the streams once more; 0: it was not */
	VT_VEC(struct vt_model_again_thread) threads; /* main first, then by tid */
};

/* Adds a look at a thread: its place, copied into the arena. False when out of memory. */
bool vt_again_add_place(struct vt_model_again_thread *to, const struct vt_model_thread *seen,
			struct vt_arena *arena);

bool vt_again_same_place(const struct vt_model_again_place *a,
			 const struct vt_model_again_place *b);

/*
 * After the last look: the verdict, and its headline, which goes where it belongs among the others.
 * False when out of memory.
 */
bool vt_again_account(struct vt_model *model);

/*
 * From so long on a wait for the device, for other ranks or for a disk is called stuck: a step, a
 * checkpoint of another rank or a large copy can take most of that. 30 looks, 1 s apart, span it.
 */
#define VT_AGAIN_LONG_NS (29 * VT_NS_PER_S)

/*
 * "is in cudaStreamSynchronize (train.py:88 train_step)", or without the verb; "" when nothing is
 * known.
 */
struct vt_str;
void vt_again_say_place(struct vt_str *text, const struct vt_model_again_place *place, bool verb);

const char *vt_again_verdict_name(unsigned int verdict); /* "stuck", ...; NULL of NONE */
const char *vt_again_moved_name(unsigned int moved);     /* "unknown", "still", "same", ... */

#endif
