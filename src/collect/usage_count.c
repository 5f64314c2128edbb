/* SPDX-License-Identifier: Apache-2.0 */
/* The asker's answer as a part of the model. */
#include "collect/usage.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The inode of the first pid namespace of a machine (PROC_PID_INIT_INO of the kernel). */
#define FIRST_PID_NAMESPACE 0xEFFFFFFCu
#define MAX_CONFIRMATIONS 3

bool vt_usage_is_first_namespace(void)
{
	struct stat st;

	return !stat("/proc/self/ns/pid", &st) && st.st_ino == FIRST_PID_NAMESPACE;
}

/*
 * Since 545.23.06 the driver tells each process the numbers of its own pid namespace, and leaves
 * out what that does not have. Before, it told everybody those of the first one.
 */
static bool tells_own_numbers(const char *driver)
{
	static const unsigned long since[] = { 545, 23, 6 };

	for (size_t i = 0; i < sizeof(since) / sizeof(since[0]); i++) {
		char *end;
		unsigned long number = strtoul(driver, &end, 10);

		if (end == driver)
			return false;
		if (number != since[i])
			return number > since[i];
		driver = *end ? end + 1 : end;
	}
	return true;
}

static const char *text_of(struct vt_arena *arena, const char *text)
{
	const char *copy = vt_arena_strdup(arena, text);

	return copy ? copy : "";
}

/* ---- devices ---- */

static uint64_t changed(const struct vt_usage_device *now, const struct vt_usage_device *then)
{
	return now->used_bytes > then->used_bytes ? now->used_bytes - then->used_bytes :
						    then->used_bytes - now->used_bytes;
}

static bool add_device(struct vt_model_usage *usage, const struct vt_usage_device *from,
		       const struct vt_usage_device *then, const struct vt_usage_health *health,
		       struct vt_arena *arena)
{
	struct vt_model_gpu *gpu = vt_vec_append(&usage->gpus);

	if (!gpu)
		return false;
	*gpu = (struct vt_model_gpu){
		.uuid = text_of(arena, from->uuid),
		.pci = text_of(arena, from->pci),
		.name = text_of(arena, from->name),
		.ordinal = -1,
		.parent = from->parent == VT_USAGE_NONE ? -1 : (int)from->parent,
		.divided = from->mig_mode,
		.memory_known = from->memory_known,
		.total_bytes = from->total_bytes,
		.used_bytes = from->used_bytes,
		.reserved_known = from->reserved_known,
		.reserved_bytes = from->reserved_bytes,
		.processes_known = from->processes_known,
	};
	if (health)
		gpu->health = *health;
	if (then && then->memory_known && from->memory_known && !strcmp(then->uuid, from->uuid)) {
		gpu->compared = true;
		gpu->changed_bytes = changed(from, then);
	}
	return true;
}

static bool add_devices(struct vt_model_usage *usage, const struct vt_usage *asker,
			const struct vt_usage_reading *reading,
			const struct vt_usage_reading *first, struct vt_arena *arena)
{
	for (size_t i = 0; i < reading->devices.n; i++) {
		const struct vt_usage_device *then =
			first && i < first->devices.n ? &first->devices.data[i] : NULL;

		if (!add_device(usage, &reading->devices.data[i], then,
				vt_usage_health(asker, reading->devices.data[i].uuid), arena))
			return false;
	}
	return true;
}

/* ---- processes ---- */

/*
 * MIG's instances are devices of their own in the answer; a list of a whole device names the
 * instance of each process, too.
 */
static bool add_processes(struct vt_model_usage *usage, const struct vt_usage_reading *reading,
			  const enum vt_counted_life *lives, pid_t ours)
{
	for (size_t i = 0; i < reading->processes.n; i++) {
		const struct vt_usage_process *from = &reading->processes.data[i];
		struct vt_model_counted *p = vt_vec_append(&usage->processes);

		if (!p)
			return false;
		*p = (struct vt_model_counted){
			.pid = from->pid,
			.gpu = from->device,
			.life = lives[i],
			.ours = lives[i] != VT_LIFE_UNKNOWN && ours && from->pid == ours,
			.bytes_known = from->bytes_known,
			.bytes = from->bytes,
			.graphics = from->kinds & VT_USAGE_GRAPHICS,
			.mps = from->kinds & VT_USAGE_MPS,
			.rank = -1,
			.name = "",
			.command = "",
			.user = "",
			.container = "",
			.pod = "",
		};
	}
	return true;
}

/* True: all that are gone were gone before the question, so their memory did stay. */
static bool find_lives(const struct vt_usage_reading *reading, bool foreign,
		       const struct vt_usage_reading *before,
		       const enum vt_counted_life *before_lives, enum vt_counted_life *lives)
{
	bool proven = true;

	for (size_t i = 0; i < reading->processes.n; i++) {
		pid_t pid = reading->processes.data[i].pid;
		bool was_gone = false;

		lives[i] = foreign ? VT_LIFE_UNKNOWN : vt_usage_life_of(pid);
		if (lives[i] != VT_LIFE_GONE)
			continue;
		for (size_t k = 0; before_lives && k < before->processes.n; k++)
			was_gone = was_gone || (before->processes.data[k].pid == pid &&
						before_lives[k] == VT_LIFE_GONE);
		proven = proven && was_gone;
	}
	return proven;
}

/* ---- the whole answer ---- */

static const char *nvml_error(struct vt_arena *arena, const char *what, int error)
{
	/* nvmlReturn_t */
	static const struct {
		int number;
		const char *words;
	} known[] = {
		{ 3, "not supported" },
		{ 4, "no permission" },
		{ 9, "the driver is not loaded" },
		{ 15, "a device has fallen off the bus" },
		{ 18, "the library and the kernel's driver are of different versions" },
		{ 999, "unknown error" },
	};
	const char *text = NULL;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].number == error)
			text = vt_arena_printf(arena, "%s: %s (NVML error %d)", what,
					       known[i].words, error);
	if (!text)
		text = vt_arena_printf(arena, "%s: NVML error %d", what, error);
	return text ? text : "";
}

static void say_state(struct vt_model_usage *usage, const struct vt_usage_reading *reading,
		      struct vt_arena *arena)
{
	const char *why;

	usage->state = VT_COUNTED_REFUSED;
	usage->why = "";
	switch (reading->outcome) {
	case VT_USAGE_COMPLETE:
		break;
	case VT_USAGE_LATE:
		usage->state = VT_COUNTED_LATE;
		usage->why = "NVML did not answer in time";
		return;
	case VT_USAGE_ENDED:
		usage->why = vt_usage_has_loader() ?
				     "the process that asks NVML ended before it had the answer" :
				     "NVML needs a C library, and there is no ld-linux-x86-64.so.2 "
				     "here, as in a container of one static file";
		return;
	case VT_USAGE_NONSENSE:
		why = vt_arena_printf(arena, "NVML's answer makes no sense (%s)",
				      reading->what ? reading->what : "");
		usage->why = why ? why : "";
		return;
	default:
		usage->why = "the process that asks NVML could not be started, or the one of the "
			     "look before still hangs in the driver";
		return;
	}
	switch (reading->state) {
	case VT_USAGE_ANSWERED:
		usage->state = VT_COUNTED_READ;
		return;
	case VT_USAGE_NO_LIBRARY:
		usage->state = VT_COUNTED_NO_NVML;
		usage->why = "there is no libnvidia-ml.so.1 here";
		return;
	case VT_USAGE_OLD:
		usage->why = "libnvidia-ml.so.1 lacks a function that is needed";
		return;
	default:
		usage->why = nvml_error(arena, "NVML failed", reading->error);
	}
}

void vt_collect_count_none(const struct vt_usage_reading *reading, struct vt_arena *arena,
			   struct vt_model_usage *usage)
{
	say_state(usage, reading, arena);
}

/* An answer, with what was known of its processes right after it. */
struct answer {
	struct vt_usage_reading reading;
	enum vt_counted_life *lives;
};

static void answer_deinit(struct answer *answer)
{
	vt_usage_reading_deinit(&answer->reading);
	free(answer->lives);
	*answer = (struct answer){ 0 };
}

/*
 * The last answer in which all that are gone had been gone before the question. A process that ends
 * at this moment is in the next answer no longer.
 */
static bool take(struct vt_usage *asker, uint64_t deadline_ns, struct vt_model_usage *usage,
		 struct answer *last)
{
	struct answer answer = { 0 };
	bool proven = false;

	for (int i = 0; !proven && i <= MAX_CONFIRMATIONS; i++) {
		if (i)
			vt_usage_ask(asker);
		answer = (struct answer){ 0 };
		vt_usage_take(asker, deadline_ns, &answer.reading);
		answer.lives = calloc(answer.reading.processes.n + 1, sizeof(*answer.lives));
		if (!answer.lives) {
			answer_deinit(&answer);
			return false;
		}
		if (answer.reading.outcome != VT_USAGE_COMPLETE || answer.reading.state) {
			answer_deinit(last);
			*last = answer;
			return true;
		}
		usage->foreign = !usage->whole && !tells_own_numbers(answer.reading.driver);
		proven = find_lives(&answer.reading, usage->foreign, &last->reading, last->lives,
				    answer.lives);
		answer_deinit(last);
		*last = answer;
	}
	/* They come and go: which of them are gone for good is not known. */
	for (size_t i = 0; !proven && i < last->reading.processes.n; i++)
		if (last->lives[i] == VT_LIFE_GONE)
			last->lives[i] = VT_LIFE_UNKNOWN;
	return true;
}

void vt_collect_count(struct vt_usage *asker, uint64_t deadline_ns,
		      const struct vt_usage_reading *first, pid_t ours, struct vt_arena *arena,
		      struct vt_model_usage *usage)
{
	struct answer last = { 0 };
	bool ok;

	if (!asker)
		last.reading.outcome = VT_USAGE_NOT_ASKED;
	usage->whole = vt_usage_is_first_namespace();
	ok = !asker || take(asker, deadline_ns, usage, &last);
	say_state(usage, &last.reading, arena);
	if (!ok)
		*usage = (struct vt_model_usage){ .state = VT_COUNTED_REFUSED,
						  .why = "not enough memory here" };
	if (usage->state == VT_COUNTED_READ) {
		usage->begin_ns = last.reading.begin_ns;
		if (add_devices(usage, asker, &last.reading, first, arena) &&
		    add_processes(usage, &last.reading, last.lives, ours)) {
			vt_model_usage_account(usage);
			vt_usage_identify(usage, arena);
		} else {
			vt_model_usage_deinit(usage);
			*usage = (struct vt_model_usage){ .state = VT_COUNTED_REFUSED,
							  .why = "not enough memory here" };
		}
	}
	answer_deinit(&last);
}
