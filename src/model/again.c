/* SPDX-License-Identifier: Apache-2.0 */
#include "model/again.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/format.h"
#include "base/str.h"
#include "model/account.h"
#include "model/model.h"
#include "model/place.h"
#include "model/stream_deadlock.h"
#include "model/words.h"

#define MAX_NAME 120                  /* bytes of a target's name in a sentence */
#define LEAST_NS (900 * VT_NS_PER_MS) /* a thread that stood for less is not called stuck */
#define WORKS_SHARE 100               /* a thread that used more than this part of the time works */
#define COUNTED_SHARE 20              /* a process that used more than this part works */
#define SPINS_SHARE 2                 /* a thread that used more than this part of the time runs */

/* ---- places ---- */

bool vt_again_same_place(const struct vt_model_again_place *a, const struct vt_model_again_place *b)
{
	return a->state == b->state && vt_verdict_equal(&a->verdict, &b->verdict) &&
	       a->waits.code == b->waits.code && vt_same_text(a->call, b->call) &&
	       vt_same_text(a->function, b->function) && vt_same_text(a->file, b->file) &&
	       vt_same_text(a->library, b->library) && a->line == b->line;
}

static const char *copy(struct vt_arena *arena, const char *text, bool *failed)
{
	const char *copied = text ? vt_arena_strdup(arena, text) : NULL;

	*failed |= text && !copied;
	return copied;
}

static bool copy_place(struct vt_model_again_place *place, struct vt_arena *arena)
{
	bool failed = false;

	place->call = copy(arena, place->call, &failed);
	place->function = copy(arena, place->function, &failed);
	place->file = copy(arena, place->file, &failed);
	place->library = copy(arena, place->library, &failed);
	place->verdict.function = copy(arena, place->verdict.function, &failed);
	place->verdict.for_function = copy(arena, place->verdict.for_function, &failed);
	place->verdict.holder_name = copy(arena, place->verdict.holder_name, &failed);
	place->waits.call = copy(arena, place->waits.call, &failed);
	place->waits.detail = copy(arena, place->waits.detail, &failed);
	place->waits.shared = copy(arena, place->waits.shared, &failed);
	return !failed;
}

/* The first frame with a name, of a thread without Python: its library is told for want of more. */
static const char *library_of(const struct vt_model_stack *stack)
{
	for (size_t i = 0; i < stack->n_frames; i++)
		if (vt_model_is_telling(&stack->frames[i]))
			return stack->frames[i].module;
	return NULL;
}

bool vt_again_add_place(struct vt_model_again_thread *to, const struct vt_model_thread *seen,
			struct vt_arena *arena)
{
	const struct vt_model_frame *f = vt_place_telling(&seen->stack);
	struct vt_model_again_place place = {
		.looks = 1,
		.state = seen->state,
		.verdict = seen->verdict,
		.waits = seen->waits,
		.call = seen->syscall,
		.function = f ? f->function : NULL,
		.file = f ? f->file : NULL,
		.line = f ? f->line : 0,
		.library = f ? NULL : library_of(&seen->stack),
	};

	to->looks++;
	to->idle = to->idle && seen->idle;
	for (unsigned int i = 0; i < to->n_places; i++) {
		if (!vt_again_same_place(&to->places[i], &place))
			continue;
		to->places[i].looks++;
		/* most looks first; of equals, the one that was seen first */
		for (; i > 0 && to->places[i - 1].looks < to->places[i].looks; i--) {
			struct vt_model_again_place more = to->places[i];

			to->places[i] = to->places[i - 1];
			to->places[i - 1] = more;
		}
		return true;
	}
	if (to->n_places == VT_AGAIN_MAX_PLACES) {
		to->more_places++;
		return true;
	}
	if (!to->places)
		to->places = vt_arena_alloc(arena, VT_AGAIN_MAX_PLACES * sizeof(*to->places));
	if (!to->places || !copy_place(&place, arena))
		return false;
	to->places[to->n_places++] = place;
	return true;
}

static void say_doing(struct vt_str *text, const struct vt_model_again_place *place, bool verb)
{
	enum vt_form form = verb ? VT_FORM_ONE : VT_FORM_ALONE;

	if (place->verdict.code)
		vt_words_verdict(text, &place->verdict, form);
	else if (place->waits.code)
		vt_words_waits(text, &place->waits, form, VT_DETAIL_NONE);
	else if (place->state == 'D')
		vt_str_addf(text, "%sin uninterruptible sleep", verb ? "is " : "");
	else if (place->state == 'R')
		vt_str_addf(text, "%srunning", verb ? "is " : "");
	else if (place->call)
		vt_str_addf(text, "%sin %.*s", verb ? "is " : "", MAX_NAME, place->call);
}

void vt_again_say_place(struct vt_str *text, const struct vt_model_again_place *place, bool verb)
{
	size_t before = text->n;

	say_doing(text, place, verb);

	const char *space = text->n > before ? " " : "";

	if (place->function && place->file && place->line > 0)
		vt_str_addf(text, "%s(%.*s:%d %.*s)", space, MAX_NAME, vt_base_name(place->file),
			    place->line, MAX_NAME, place->function);
	else if (place->function)
		vt_str_addf(text, "%s(%.*s)", space, MAX_NAME, place->function);
	else if (place->library)
		vt_str_addf(text, "%s(%.*s)", space, MAX_NAME, place->library);
}

/* ---- what may be expected of a wait ---- */

enum nature {
	NATURE_UNKNOWN, /* it may take long, or not */
	NATURE_SOON,    /* it should end soon */
	NATURE_LATER,   /* it should end within VT_AGAIN_LONG_NS */
	NATURE_OTHERS,  /* it lasts as long as what other threads or processes do */
	NATURE_IDLE,    /* it lasts until there is something to do */
};

static const enum nature verdict_natures[VT_N_VERDICTS] = {
	[VT_VERDICT_GIL] = NATURE_OTHERS,
	[VT_VERDICT_PYTHON_WORLD] = NATURE_SOON,
	[VT_VERDICT_OOM] = NATURE_OTHERS,
	[VT_VERDICT_BACKWARD_WAITS] = NATURE_OTHERS,
	[VT_VERDICT_LOADER] = NATURE_OTHERS,
	[VT_VERDICT_STORE] = NATURE_OTHERS,
	[VT_VERDICT_PDB] = NATURE_IDLE,
	[VT_VERDICT_COLLECTIVE_NCCL] = NATURE_LATER,
	[VT_VERDICT_COLLECTIVE_GLOO] = NATURE_LATER,
	[VT_VERDICT_COLLECTIVE] = NATURE_LATER,
	[VT_VERDICT_COMPILATION] = NATURE_OTHERS,
	[VT_VERDICT_CHILD] = NATURE_OTHERS,
	[VT_VERDICT_IMPORT] = NATURE_OTHERS,
	[VT_VERDICT_OTHER_THREADS] = NATURE_OTHERS,
	[VT_VERDICT_JOIN] = NATURE_OTHERS,
	[VT_VERDICT_MALLOC_LOCK] = NATURE_SOON,
	[VT_VERDICT_LOADER_LOCK] = NATURE_SOON,
	[VT_VERDICT_PYTHON_EVENT] = NATURE_IDLE,
	[VT_VERDICT_PYTHON_CONDITION] = NATURE_IDLE,
	[VT_VERDICT_PYTHON_QUEUE] = NATURE_IDLE,
	[VT_VERDICT_PYTHON_LOCK] = NATURE_SOON,
	[VT_VERDICT_PROCESS_LOCK] = NATURE_LATER,
	[VT_VERDICT_ASYNCIO] = NATURE_IDLE,
	[VT_VERDICT_USERFAULTFD] = NATURE_LATER,
	[VT_VERDICT_VFORK] = NATURE_OTHERS,
	[VT_VERDICT_NFS] = NATURE_LATER,
	[VT_VERDICT_FUSE] = NATURE_LATER,
	[VT_VERDICT_LUSTRE] = NATURE_LATER,
	[VT_VERDICT_NVIDIA_DRIVER] = NATURE_LATER,
	[VT_VERDICT_FAULT_DISK] = NATURE_LATER,
	[VT_VERDICT_DISK] = NATURE_LATER,
	[VT_VERDICT_JOURNAL] = NATURE_LATER,
	[VT_VERDICT_KERNEL_LOCK] = NATURE_LATER,
};

static const enum nature wait_natures[VT_N_WAITS] = {
	[VT_WAITS_SLEEP] = NATURE_IDLE,
	[VT_WAITS_SELECT_NOTHING] = NATURE_IDLE,
	[VT_WAITS_CHILD] = NATURE_OTHERS,
	[VT_WAITS_ANY_CHILD] = NATURE_OTHERS,
	[VT_WAITS_PROCESS] = NATURE_OTHERS,
	[VT_WAITS_VFORK] = NATURE_OTHERS,
	[VT_WAITS_SIGNAL] = NATURE_IDLE,
	[VT_WAITS_LOCK] = NATURE_SOON,
	[VT_WAITS_LOCK_OWN] = NATURE_SOON,
	[VT_WAITS_LOCK_HELD] = NATURE_SOON,
	[VT_WAITS_RWLOCK] = NATURE_SOON,
	[VT_WAITS_JOIN] = NATURE_OTHERS,
	[VT_WAITS_OPENMP_BARRIER] = NATURE_OTHERS,
	[VT_WAITS_BARRIER] = NATURE_OTHERS,
	[VT_WAITS_INITIALISATION] = NATURE_OTHERS,
};

/* System calls in which servers, shells and event loops wait for something to do. */
static bool waits_for_events(const char *call)
{
	static const char *const calls[] = { "epoll*",          "poll",     "ppoll",
					     "select",          "pselect6", "accept*",
					     "rt_sigtimedwait", "pause",    "io_uring_enter",
					     "io_getevents",    "mq_*" };

	for (size_t i = 0; call && i < sizeof(calls) / sizeof(calls[0]); i++)
		if (vt_glob(calls[i], call))
			return true;
	return false;
}

/* Making a communicator takes as long as the slowest rank needs to come. */
static bool makes_communicator(const struct vt_verdict *verdict)
{
	return verdict->function && (vt_glob("ncclCommInit*", verdict->function) ||
				     vt_glob("ncclGroupEnd*", verdict->function));
}

static enum nature nature_of(const struct vt_model_again_place *place)
{
	const struct vt_verdict *verdict = &place->verdict;

	if (verdict->code == VT_VERDICT_IN_FUNCTION)
		return (vt_verdict_is_in(verdict, "cu") || vt_verdict_is_in(verdict, "nccl")) &&
				       !makes_communicator(verdict) ?
			       NATURE_LATER :
			       NATURE_UNKNOWN;
	if (vt_verdict_is_idle(verdict->code))
		return NATURE_IDLE;
	if (verdict->code)
		return verdict_natures[verdict->code];
	if (place->waits.code == VT_WAITS_CALL)
		return waits_for_events(place->waits.call) || waits_for_events(place->call) ?
			       NATURE_IDLE :
			       NATURE_UNKNOWN;
	return wait_natures[place->waits.code];
}

/* ---- the verdict ---- */

struct judge {
	struct vt_model *model;
	struct vt_model_again *again;
	const struct vt_model_again_thread *main, *subject;
	const struct vt_model_again_thread *busiest; /* of the others that work */
};

static const struct vt_model_again_thread *thread_of(const struct vt_model_again *again, pid_t tid)
{
	for (size_t i = 0; i < again->threads.n; i++)
		if (again->threads.data[i].tid == tid)
			return &again->threads.data[i];
	return NULL;
}

static bool used_part(const struct vt_model_again *again, const struct vt_model_again_thread *t,
		      uint64_t part)
{
	return t->cpu_known && t->cpu_ns > again->span_ns / part;
}

static bool stands(const struct vt_model_again_thread *t)
{
	return t->moved == VT_AGAIN_STILL && t->n_places == 1;
}

/* Or wanted to in every look: on a busy machine it gets little of a processor. */
static bool runs(const struct judge *j, const struct vt_model_again_thread *t)
{
	return used_part(j->again, t, SPINS_SHARE) ||
	       (t->n_places == 1 && t->places[0].state == 'R');
}

/* A thread that waits for the GIL wakes up all the time. It stands if the holder does. */
static const struct vt_model_again_thread *standing_holder(const struct judge *j,
							   const struct vt_model_again_thread *t)
{
	const struct vt_model_thread *seen = vt_model_thread(j->model, t->tid);
	const struct vt_model_again_thread *holder =
		seen && seen->waits_for ? thread_of(j->again, seen->waits_for) : NULL;

	return (t->moved == VT_AGAIN_STILL || t->moved == VT_AGAIN_SAME) && t->n_places == 1 &&
			       t->places[0].verdict.code == VT_VERDICT_GIL && holder &&
			       stands(holder) ?
		       holder :
		       NULL;
}

/* How long it has to stand where it does before that is called stuck; UINT64_MAX: any time. */
static uint64_t patience(const struct judge *j, const struct vt_model_again_thread *t)
{
	const struct vt_model_again_thread *holder = standing_holder(j, t);

	if (holder)
		return nature_of(&holder->places[0]) == NATURE_LATER ? VT_AGAIN_LONG_NS : LEAST_NS;
	switch (stands(t) ? nature_of(&t->places[0]) : NATURE_UNKNOWN) {
	case NATURE_SOON:
		return LEAST_NS;
	case NATURE_LATER:
		return VT_AGAIN_LONG_NS;
	default:
		return UINT64_MAX;
	}
}

static bool is_stuck(const struct judge *j, const struct vt_model_again_thread *t)
{
	if (t->idle || t->n_places != 1)
		return false;
	if (t->deadlock && (t->moved == VT_AGAIN_STILL || t->moved == VT_AGAIN_SAME))
		return true;
	return patience(j, t) <= j->again->span_ns;
}

/* It has not moved in a wait that should end, although later. */
static bool is_late(const struct vt_model_again_thread *t)
{
	return !t->idle && stands(t) && nature_of(&t->places[0]) == NATURE_LATER;
}

/* The first thread that is stuck, a thread of a deadlock before all others. */
static const struct vt_model_again_thread *find_stuck(const struct judge *j)
{
	const struct vt_model_again_thread *found = NULL;

	for (size_t i = 0; i < j->again->threads.n; i++) {
		const struct vt_model_again_thread *t = &j->again->threads.data[i];

		if (!is_stuck(j, t))
			continue;
		if (t->deadlock)
			return t;
		found = found ? found : t;
	}
	return found;
}

/* Of the main thread, before all others; NULL: none. */
static const struct vt_model_again_thread *find_late(const struct judge *j)
{
	if (j->main && is_late(j->main))
		return j->main;
	for (size_t i = 0; i < j->again->threads.n; i++)
		if (is_late(&j->again->threads.data[i]))
			return &j->again->threads.data[i];
	return NULL;
}

/* With threads that began and ended between two looks; less than that is waking up now and then. */
static bool process_works(const struct judge *j)
{
	return j->again->process_cpu_ns > j->again->span_ns / COUNTED_SHARE;
}

/*
 * A thread of a pool that works belongs to what is done: only one that was idle in every look does
 * not count, for those wake up for a moment now and then.
 */
static const struct vt_model_again_thread *find_busiest(const struct judge *j)
{
	const struct vt_model_again_thread *busiest = NULL;

	for (size_t i = 0; i < j->again->threads.n; i++) {
		const struct vt_model_again_thread *t = &j->again->threads.data[i];

		if (t == j->main || !used_part(j->again, t, WORKS_SHARE) ||
		    (t->idle && !used_part(j->again, t, SPINS_SHARE)))
			continue;
		if (!busiest || t->cpu_ns > busiest->cpu_ns)
			busiest = t;
	}
	return busiest;
}

static enum vt_again_verdict judge_main(struct judge *j)
{
	const struct vt_model_again_thread *t = j->main;

	j->subject = t;
	switch (t ? t->moved : VT_AGAIN_UNKNOWN) {
	case VT_AGAIN_MOVED:
		return VT_AGAIN_IS_MOVES;
	case VT_AGAIN_SAME:
		if (runs(j, t))
			return VT_AGAIN_IS_SPINS;
		return j->busiest                              ? VT_AGAIN_IS_OTHERS_WORK :
		       nature_of(&t->places[0]) == NATURE_IDLE ? VT_AGAIN_IS_IDLE :
								 VT_AGAIN_IS_POLLS;
	case VT_AGAIN_STILL:
		return j->busiest || process_works(j)          ? VT_AGAIN_IS_OTHERS_WORK :
		       nature_of(&t->places[0]) == NATURE_IDLE ? VT_AGAIN_IS_IDLE :
								 VT_AGAIN_IS_STANDS;
	default:
		return VT_AGAIN_IS_UNKNOWN;
	}
}

/*
 * PyTorch hands out memory: something in the process moves, although no look has seen it. That it
 * does not proves nothing: a CUDA graph runs without.
 */
static bool torch_moves(const struct judge *j)
{
	return j->again->torch_known && j->again->torch_count > 0;
}

/* Launches were seen to end, by a thread that waited for them. That none was proves nothing. */
static bool launches_move(const struct judge *j)
{
	return j->again->launches_known && j->again->launches_ended > 0;
}

static enum vt_again_verdict judge(struct judge *j)
{
	const struct vt_model_again_thread *stuck = find_stuck(j);
	enum vt_again_verdict verdict;

	j->busiest = find_busiest(j);
	if (stuck && stuck->deadlock) {
		j->subject = stuck;
		return VT_AGAIN_IS_STUCK;
	}
	verdict = judge_main(j);
	/* Only one that slept all the time certainly did not do it. */
	if (torch_moves(j) || launches_move(j))
		return j->main && j->main->moved == VT_AGAIN_STILL ? VT_AGAIN_IS_OTHERS_WORK :
								     VT_AGAIN_IS_MOVES;
	/* The main thread waits for something to do, and what another does may take long. */
	if (!stuck && verdict == VT_AGAIN_IS_IDLE && find_late(j)) {
		j->subject = find_late(j);
		return VT_AGAIN_IS_STANDS;
	}
	if (!stuck || j->busiest || process_works(j) || verdict == VT_AGAIN_IS_MOVES ||
	    verdict == VT_AGAIN_IS_SPINS)
		return verdict;
	/* A main thread that ran may have worked. */
	if (verdict == VT_AGAIN_IS_UNKNOWN && j->main && j->main->moved == VT_AGAIN_UNKNOWN &&
	    (!j->main->cpu_known || used_part(j->again, j->main, WORKS_SHARE)))
		return verdict;
	j->subject = stuck;
	return VT_AGAIN_IS_STUCK;
}

/* ---- the headline ---- */

/* "main thread", "thread 4711 (loader)" */
static void say_thread(struct vt_str *text, const struct vt_model_again_thread *t)
{
	if (!t || t->is_main)
		vt_str_add(text, "main thread");
	else if (t->name && *t->name)
		vt_str_addf(text, "thread %d (%.*s)", (int)t->tid, MAX_NAME, t->name);
	else
		vt_str_addf(text, "thread %d", (int)t->tid);
}

/* ", 12 ms of processor" */
static void say_cpu(struct vt_str *text, const char *before, const struct vt_model_again_thread *t)
{
	if (t->cpu_known)
		vt_str_addf(text, "%s%.0f ms of processor", before,
			    (double)t->cpu_ns / (double)VT_NS_PER_MS);
}

static void say_where(struct vt_str *text, const char *before,
		      const struct vt_model_again_thread *t)
{
	size_t length = text->n;

	vt_str_add(text, before);

	size_t with = text->n;

	if (t->n_places)
		vt_again_say_place(text, &t->places[0], true);
	if (text->n == with)
		vt_str_cut(text, length);
}

/* "; PyTorch handed out and took back 1,204 blocks" */
static void say_torch(struct vt_str *text, const struct vt_model_again *again)
{
	char count[VT_NUM_MAX];

	if (again->torch_known && again->torch_count)
		vt_str_addf(text, "; PyTorch handed out and took back %s blocks",
			    vt_format_count(count, again->torch_count));
	else if (again->torch_known && again->verdict == VT_AGAIN_IS_SPINS)
		vt_str_add(text, "; PyTorch handed out no memory");
}

/* "; 314 launches on the GPU ended" */
static void say_launches(struct vt_str *text, const struct vt_model_again *again)
{
	char count[VT_NUM_MAX];

	if (again->launches_known && again->launches_ended)
		vt_str_addf(text, "; %s launch%s on the GPU ended",
			    vt_format_count(count, again->launches_ended),
			    again->launches_ended == 1 ? "" : "es");
}

/* What else it may be: nobody can see it from here. */
static const char *doubt(const struct vt_model_again_place *place)
{
	switch (place->verdict.code) {
	case VT_VERDICT_IN_FUNCTION:
		return vt_verdict_is_in(&place->verdict, "nccl") ?
			       "; another rank is missing, or late" :
			       "; the GPU hangs, or works on something long";
	case VT_VERDICT_COLLECTIVE_NCCL:
	case VT_VERDICT_COLLECTIVE_GLOO:
	case VT_VERDICT_COLLECTIVE:
		return "; another rank is missing, or late";
	default:
		return "";
	}
}

static void say(struct judge *j, struct vt_str *text)
{
	const struct vt_model_again *again = j->again;
	const struct vt_model_again_thread *t = j->subject;
	double seconds = (double)again->span_ns / (double)VT_NS_PER_S;

	switch (again->verdict) {
	case VT_AGAIN_IS_STUCK:
		vt_str_add(text, t->deadlock ? "stuck: " : "likely stuck: ");
		say_thread(text, t);
		vt_str_addf(text, " has not moved for %.1f s", seconds);
		say_cpu(text, ", ", t);
		say_where(text, ": it ", t);
		vt_str_add(text, doubt(&t->places[0]));
		break;
	case VT_AGAIN_IS_STANDS:
		say_thread(text, t);
		vt_str_addf(text, " has not moved for %.1f s", seconds);
		say_cpu(text, ", ", t);
		say_where(text, ": it ", t);
		break;
	case VT_AGAIN_IS_IDLE:
		vt_str_add(text, "idle: main thread");
		say_where(text, " ", t);
		say_cpu(text, "; ", t);
		vt_str_addf(text, " in %.1f s", seconds);
		break;
	case VT_AGAIN_IS_OTHERS_WORK:
		vt_str_add(text, "main thread waits, another works");
		if (j->busiest) {
			vt_str_add(text, ": ");
			say_thread(text, j->busiest);
			say_cpu(text, " used ", j->busiest);
		} else if (process_works(j))
			vt_str_addf(text, ": threads that came and went used %.0f ms of processor",
				    (double)again->process_cpu_ns / (double)VT_NS_PER_MS);
		vt_str_addf(text, " in %.1f s", seconds);
		say_torch(text, again);
		say_launches(text, again);
		break;
	case VT_AGAIN_IS_SPINS:
		say_cpu(text, "main thread spins: ", t);
		vt_str_addf(text, " in %.1f s, at the same place in each look", seconds);
		say_where(text, ": it ", t);
		say_torch(text, again);
		if (t->n_places && vt_verdict_is_in(&t->places[0].verdict, "cu"))
			vt_str_add(text,
				   "; CUDA waits so by default, for a GPU that works or hangs");
		break;
	case VT_AGAIN_IS_POLLS:
		vt_str_addf(text, "main thread only woke up for moments in %.1f s", seconds);
		say_cpu(text, ", ", t);
		say_where(text, ": it ", t);
		break;
	case VT_AGAIN_IS_MOVES:
		if (t && t->moved == VT_AGAIN_MOVED)
			vt_str_addf(text, "not stuck: main thread %s %.1f s",
				    t->went_on ? "went on after" : "moved within", seconds);
		else
			vt_str_addf(text, "not stuck: it worked in %.1f s", seconds);
		if (t)
			say_cpu(text, ", ", t);
		say_torch(text, again);
		say_launches(text, again);
		break;
	case VT_AGAIN_IS_ENDED:
	case VT_AGAIN_IS_EXEC:
		vt_str_add(text, again->verdict == VT_AGAIN_IS_ENDED ?
					 "the process ended" :
					 "the process became another program (exec)");
		if (again->looks < 2)
			vt_str_add(text, " before a second look");
		else
			vt_str_addf(text, " after %u looks", again->looks);
		break;
	case VT_AGAIN_IS_UNKNOWN:
		vt_str_addf(text, "whether main thread moved in %.1f s is not known", seconds);
		if (t)
			say_cpu(text, "; ", t);
		break;
	default:
		break;
	}
}

/* An alarm comes before what the main thread does; the rest right after it. */
static size_t position(const struct vt_model *model, bool alarm)
{
	for (size_t i = 0; i < model->headlines.n; i++)
		if (!strcmp(model->headlines.data[i].code, "main-thread"))
			return alarm ? i : i + 1;
	return alarm ? 0 : model->headlines.n;
}

static bool add_headline(struct vt_model *model, const char *text, bool alarm)
{
	size_t at = position(model, alarm);
	const char *copied = vt_arena_strdup(&model->arena, text);
	const struct vt_model_headline *last = copied ? vt_vec_append(&model->headlines) : NULL;
	struct vt_model_headline *headlines = model->headlines.data;

	if (!last)
		return false;

	memmove(&headlines[at + 1], &headlines[at],
		(model->headlines.n - 1 - at) * sizeof(*headlines));
	headlines[at] =
		(struct vt_model_headline){ .code = "again", .alarm = alarm, .text = copied };
	return true;
}

bool vt_again_account(struct vt_model *model)
{
	struct vt_model_again *again = &model->again;
	struct judge j = { .model = model, .again = again };
	struct vt_str text = { 0 };
	bool ok = true;

	if (!again->looks)
		return true;
	if (vt_withdraw_stream_deadlocks(model)) {
		model->headlines.n = 0;
		ok = vt_make_headlines(model);
	}
	again->cpu_known = again->threads.n > 0;
	for (size_t i = 0; i < again->threads.n; i++) {
		const struct vt_model_again_thread *t = &again->threads.data[i];

		if (t->is_main)
			j.main = t;
		again->cpu_known = again->cpu_known && t->cpu_known;
		again->cpu_ns += t->cpu_ns;
	}
	if (again->verdict != VT_AGAIN_IS_ENDED && again->verdict != VT_AGAIN_IS_EXEC)
		again->verdict = again->looks < 2 ? VT_AGAIN_IS_NONE : judge(&j);
	again->alarm = again->verdict == VT_AGAIN_IS_STUCK;
	again->subject = j.subject ? j.subject->tid : 0;
	say(&j, &text);
	if (text.n)
		ok &= !text.failed && add_headline(model, vt_str_get(&text), again->alarm);
	vt_str_deinit(&text);
	return ok;
}

/* ---- names ---- */

const char *vt_again_verdict_name(unsigned int verdict)
{
#define VT_AGAIN_NAME(name, text) [VT_AGAIN_IS_##name] = text,
	static const char *const names[VT_N_AGAIN_VERDICTS] = { VT_AGAIN_VERDICTS(VT_AGAIN_NAME) };
#undef VT_AGAIN_NAME

	return names[verdict < VT_N_AGAIN_VERDICTS ? verdict : VT_AGAIN_IS_UNKNOWN];
}

const char *vt_again_moved_name(unsigned int moved)
{
	static const char *const names[VT_N_AGAIN_MOVED] = {
		[VT_AGAIN_UNKNOWN] = "unknown", [VT_AGAIN_STILL] = "still",
		[VT_AGAIN_SAME] = "same",       [VT_AGAIN_MOVED] = "moved",
		[VT_AGAIN_ENDED] = "ended",     [VT_AGAIN_NEW] = "new",
	};

	return names[moved < VT_N_AGAIN_MOVED ? moved : VT_AGAIN_UNKNOWN];
}
