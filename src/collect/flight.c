/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Asks PyTorch for the state of its collectives, through the interpreter in the process: the
 * contents of its flight recorders. The function queries the driver, with the GIL, for the events
 * of unfinished operations; so it runs only after the driver has just answered, and only if the GIL
 * and the allocator's locks become free (doc/SAFETY.md).
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "collect/collect.h"
#include "inject/inject.h"
#include "model/flight.h"
#include "walk/python/ask.h"

#define MAX_TEXT (8u << 20) /* 10,000 operations */
#define USUAL_ENTRIES 2000  /* of a recorder with the default size */
#define MANY_ENTRIES 8000   /* from this on, only unfinished operations */

/* Why PyTorch cannot be asked now, or NULL. */
static const char *why_not(const struct vt_collect *c)
{
	if (c->driver == VT_DRIVER_SILENT)
		return "the driver did not answer";
	if (c->driver == VT_DRIVER_UNUSED)
		return "this process never used CUDA";
	if (c->torch_inherited)
		return "its PyTorch is a copy of the parent's";
	return NULL;
}

static uint64_t real_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * VT_NS_PER_S + (uint64_t)now.tv_nsec;
}

/* The text, copied: the target could change it. */
static struct vt_error *take_text(struct vt_helper *helper, char **text, size_t *n)
{
	struct vt_ask_flight_answer answer = vt_helper_shared(helper)->flight;
	size_t end = vt_helper_size(helper);

	if (answer.size > MAX_TEXT || answer.offset > end || answer.size > end - answer.offset)
		return vt_error_create(VT_ERR_FORMAT, "the helper's answer is out of bounds");
	*text = malloc(answer.size + 1);
	if (!*text)
		return &vt_enomem;
	memcpy(*text, (const char *)vt_helper_shared(helper) + answer.offset, answer.size);
	*n = answer.size;
	return NULL;
}

static struct vt_error *ask_one(struct vt_collect *c, struct vt_helper *helper,
				const struct vt_flight_recorder *recorder,
				const struct vt_ask_flight_args *args, bool *is_there)
{
	struct vt_ask_flight_args *theirs = &vt_helper_shared(helper)->args.ask_flight;
	VT_FREE char *text = NULL;
	uint64_t told_ns;
	size_t n = 0;

	*theirs = *args;
	strncpy(theirs->function, recorder->function, sizeof(theirs->function) - 1);
	strncpy(theirs->argument, recorder->argument, sizeof(theirs->argument) - 1);
	VT_TRY(vt_collect_call_python(c, helper, VT_OP_ASK_FLIGHT));
	told_ns = real_now_ns();
	if (!vt_helper_shared(helper)->flight.is_there)
		return NULL;
	*is_there = true;
	VT_TRY(take_text(helper, &text, &n));
	return vt_flight_parse(recorder, text, n, told_ns,
			       args->only_active || !vt_helper_shared(helper)->flight.entries,
			       &c->model->arena, &c->model->collectives);
}

static bool has_thread(const struct vt_thread_list *list, const char *name)
{
	for (size_t i = 0; i < list->threads.n; i++)
		if (!strncmp(list->threads.data[i].name, name, strlen(name)))
			return true;
	return false;
}

/*
 * The question creates a recorder that nothing has used so far; if its variable has its old name,
 * PyTorch then prints a warning.
 */
static bool may_be_asked(const struct vt_collect *c, const struct vt_flight_recorder *recorder,
			 const struct vt_thread_list *threads)
{
	return !c->flight.by_old_name || has_thread(threads, recorder->thread);
}

static struct vt_error *ask_each(struct vt_collect *c, struct vt_helper *helper,
				 const struct vt_ask_flight_args *args, bool *is_there)
{
	VT_CLEANUP(vt_thread_list_deinit) struct vt_thread_list threads = { 0 };
	size_t n = 0;

	VT_TRY(vt_thread_list_init(&threads, c->target.proc.pid));
	for (size_t i = 0; i < VT_FLIGHT_RECORDERS; i++) {
		if (!may_be_asked(c, &vt_flight_recorders[i], &threads))
			continue;
		VT_TRY(ask_one(c, helper, &vt_flight_recorders[i], args, is_there));
		n++;
	}
	if (!n)
		return vt_error_create(
			VT_ERR_UNSUPPORTED,
			"no process group was found, and TORCH_NCCL_TRACE_BUFFER_SIZE is set, which would make PyTorch print a warning");
	return NULL;
}

static struct vt_error *ask(struct vt_collect *c, struct vt_helper *helper, struct vt_python *py,
			    bool *is_there)
{
	struct vt_ask_flight_args args = {
		.max_bytes = MAX_TEXT,
		.entries = 1,
		.only_active = (c->flight.is_set ? c->flight.entries : USUAL_ENTRIES) >=
			       MANY_ENTRIES,
	};

	VT_TRY(vt_collect_watch_allocator(c));
	VT_TRY(vt_collect_prepare_python(c, py, &args.python));
	VT_TRY(vt_helper_grow(helper, VT_HELPER_ROOM_OFFSET + MAX_TEXT));
	return ask_each(c, helper, &args, is_there);
}

static void say(struct vt_collect *c, const char *code, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

static void say(struct vt_collect *c, const char *code, const char *format, ...)
{
	struct vt_str why = { 0 };
	va_list args;

	va_start(args, format);
	vt_str_vaddf(&why, format, args);
	va_end(args);
	c->model->collectives.why = vt_collect_copy(c, vt_str_get(&why), why.n);
	vt_model_diag(c->model, VT_DIAG_NOTE, VT_STAGE_TORCH, code,
		      "the state of collectives is not known: %s", vt_str_get(&why));
	vt_str_deinit(&why);
}

static void say_error(struct vt_collect *c, struct vt_helper *helper, struct vt_error *err)
{
	uint64_t size = vt_helper_shared(helper)->flight.size;

	if (size > MAX_TEXT)
		say(c, "flight-too-large",
		    "PyTorch's flight recorder has %llu MiB, more than the %u that vramtap reads",
		    (unsigned long long)(size >> 20), MAX_TEXT >> 20);
	else if (err->code == VT_ERR_TIMEOUT)
		say(c, "flight-no-answer", "PyTorch did not answer: %s", err->message);
	else
		say(c, "flight-not-asked", "PyTorch was not asked: %s", err->message);
	vt_error_destroy(err);
}

void vt_collect_flight(struct vt_collect *c, struct vt_helper *helper)
{
	struct vt_python py = { 0 };
	bool is_there = false;
	struct vt_error *err;

	if (c->torch.backend == VT_TORCH_ABSENT)
		return;
	if (why_not(c)) {
		say(c, "flight-not-asked", "PyTorch was not asked: %s", why_not(c));
		return;
	}
	err = ask(c, helper, &py, &is_there);
	if (err)
		say_error(c, helper, err);
	else if (!is_there)
		say(c, "flight-not-known",
		    "this release of PyTorch cannot be asked for it (%s and later can)",
		    vt_flight_recorders[0].since);
	c->flight_empty = !err && is_there && !c->model->collectives.groups.n;
	vt_python_deinit(&py);
	vt_live_drop_cache(c->target.live); /* the stacks are read later, and want today's */
}

/* Each process group of NCCL has one (PyTorch 2.4 on). */
static bool has_watchdog(const struct vt_model *model)
{
	for (size_t i = 0; i < model->threads.n; i++)
		if (!strncmp(model->threads.data[i].name, "pt_nccl_watchdg", 15))
			return true;
	return false;
}

void vt_collect_flight_finish(struct vt_collect *c)
{
	if (!c->flight_empty)
		return;
	if (has_watchdog(c->model) || (c->flight.is_set && !c->flight.entries))
		say(c, "flight-off",
		    "PyTorch's flight recorder is off; TORCH_FR_BUFFER_SIZE=2000 in the environment (TORCH_NCCL_TRACE_BUFFER_SIZE=2000 in "
		    "older releases) switches it on at the next start");
	else
		say(c, "no-process-group",
		    "this process has no process group of torch.distributed, or PyTorch's flight recorder is off");
}
