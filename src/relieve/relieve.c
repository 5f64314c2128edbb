/* SPDX-License-Identifier: Apache-2.0 */
/* The order: look, check from outside, go in, have it done there, look again. */
#include "relieve/relieve.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/fault.h"
#include "base/progress.h"
#include "collect/collect.h"
#include "inject/cuda_imports.h"
#include "inject/inject.h"
#include "relieve/look.h"

#define LOCK_WAIT_NS (10 * VT_NS_PER_S)
#define GPU_WAIT_GIL_NS (200 * VT_NS_PER_MS) /* no Python code runs in this time */
#define LOCK_WAIT_GIL_NS (5 * VT_NS_PER_MS)
/* For the helper's own waits beyond the GPUs and the GIL, on a busy machine. */
#define SPARE_NS (2 * VT_NS_PER_S)
#define CALL_WAIT_NS (60 * VT_NS_PER_S) /* for a call that has begun */
/*
 * The stack of a thread of Python's own has as much: what objects do at their end, recursion
 * included, must not run out of it.
 */
#define STACK_BYTES (UINT64_C(8) << 20)

static struct vt_error *look(pid_t pid, const struct vt_relieve_request *request, unsigned int want,
			     struct vt_model *model)
{
	struct vt_subject subject = { .origin = &vt_origin_process, .pid = pid };
	struct vt_collect_options options = {
		.want = want,
		.ledger = true,
		.budget_ns = request->budget_ns,
	};

	return vt_collect_report(&subject, &options, model);
}

/* ---- the helper's answer ---- */

static void take_answer(struct vt_helper *helper, struct vt_relieve_result *result)
{
	const struct vt_helper_shared *shared = vt_helper_shared(helper);
	/* first: what is written before it is there then */
	uint32_t stage = __atomic_load_n(&shared->relieve.stage, __ATOMIC_ACQUIRE);
	struct vt_relieve_answer answer = shared->relieve; /* a copy: the target could change it */
	uint64_t waited_ns = shared->gil.waited_ns;

	answer.stage = stage;
	if (answer.stage >= VT_N_RELIEF_STAGES)
		answer.stage = VT_RELIEF_NOT_BEGUN;
	if (answer.refusal >= VT_N_RELIEF_REFUSALS)
		answer.refusal = VT_RELIEF_MAY;
	if (answer.device < -1 || answer.device >= VT_MAX_CUDA_DEVICES)
		answer.device = -1;
	result->answer = answer;
	result->device = answer.device;
	result->gil_waited_ms =
		stage == VT_RELIEF_WAITS_GIL && !waited_ns ? -1 : (double)waited_ns / VT_NS_PER_MS;
}

/* It is not called any more, or has begun: never both. */
static bool cancel(uint32_t *word)
{
	uint32_t open = VT_RELIEF_OPEN;

	return __atomic_compare_exchange_n(word, &open, VT_RELIEF_CANCELLED, false,
					   __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST) ||
	       open == VT_RELIEF_CANCELLED;
}

static uint32_t *open_word; /* of the request that is being made */

const char *vt_relieve_cancel_at_once(void)
{
	uint32_t *word = __atomic_load_n(&open_word, __ATOMIC_ACQUIRE);

	if (!word)
		return NULL;
	return cancel(word) ? "interrupted; nothing was called" :
			      "interrupted; the call had begun, and goes on in the process";
}

static uint32_t word_of(struct vt_helper *helper)
{
	return __atomic_load_n(&vt_helper_shared(helper)->args.relieve.word, __ATOMIC_ACQUIRE);
}

static void judge_called(struct vt_relieve_result *result)
{
	result->outcome = result->answer.refusal == VT_RELIEF_RAISED ? VT_RELIEVE_RAISED :
								       VT_RELIEVE_DONE;
}

static bool has_returned(const struct vt_relieve_result *result)
{
	return result->answer.stage >= VT_RELIEF_RETURNED;
}

/* Without an answer: what the helper's thread does from now on. */
static void explain_silence(struct vt_helper *helper, struct vt_relieve_result *result)
{
	result->has_gil = __atomic_load_n(&vt_helper_shared(helper)->gil.has_gil, __ATOMIC_ACQUIRE);
	if (has_returned(result))
		judge_called(result);
	else if (word_of(helper) == VT_RELIEF_BEGUN)
		result->outcome = VT_RELIEVE_RUNS;
	else if (result->answer.refusal != VT_RELIEF_MAY)
		vt_relieve_refuse(result, result->answer.refusal, NULL);
	else if (result->answer.stage == VT_RELIEF_WAITS_GIL)
		vt_relieve_refuse(result, VT_RELIEVE_GIL_SILENT, NULL);
	else if (result->answer.in_driver)
		vt_relieve_refuse(result, VT_RELIEVE_SILENT, NULL);
	else
		vt_relieve_refuse(result, VT_RELIEVE_NO_ANSWER, NULL);
}

static void judge(struct vt_relieve_result *result, const struct vt_error *err)
{
	if (has_returned(result))
		judge_called(result);
	else if (!err)
		result->outcome = VT_RELIEVE_WOULD;
	else if (result->answer.refusal != VT_RELIEF_MAY)
		vt_relieve_refuse(result, result->answer.refusal, NULL);
	else
		vt_relieve_refuse(result, VT_RELIEVE_INTERPRETER, err->message);
}

/* A process that ends before it is called is an error. */
static struct vt_error *call(struct vt_helper *helper, struct vt_relieve_result *result)
{
	uint64_t begin_ns = result->request.budget_ns + GPU_WAIT_GIL_NS +
			    vt_helper_shared(helper)->args.relieve.python.gil_wait_ns + SPARE_NS;
	struct vt_error *err = vt_helper_call(helper, VT_OP_RELIEVE, vt_now_ns() + begin_ns);

	if (err && err->code == VT_ERR_TIMEOUT &&
	    !cancel(&vt_helper_shared(helper)->args.relieve.word)) {
		vt_progress("waiting for the call to return");
		vt_error_destroy(err);
		err = vt_helper_await(helper, vt_now_ns() + CALL_WAIT_NS);
	}
	take_answer(helper, result); /* again: it may have come until now */
	vt_fault_point("relieve.answered");
	if (err && err->code == VT_ERR_GONE && word_of(helper) != VT_RELIEF_BEGUN)
		return err;
	if (err && err->code == VT_ERR_GONE && !has_returned(result))
		result->outcome = VT_RELIEVE_ENDED;
	else if (err && err->code == VT_ERR_TIMEOUT)
		explain_silence(helper, result);
	else
		judge(result, err);
	vt_error_destroy(err);
	return NULL;
}

static struct vt_error *go_in(struct vt_target *t, const struct vt_relieve_args *args,
			      struct vt_relieve_result *result)
{
	struct vt_inject_options options = { .budget_ns = result->request.budget_ns,
					     .stack_bytes = STACK_BYTES };
	struct vt_inject_timing timing;
	struct vt_helper *helper = NULL;
	struct vt_error *err;

	vt_progress("getting inside the process");
	vt_fault_point("relieve.begin");
	err = vt_helper_create(&t->proc, &t->modules, t->live, &options, &timing, &helper);
	if (err && err->code != VT_ERR_GONE && err->code != VT_ERR_PERMISSION) {
		vt_relieve_refuse(result, VT_RELIEVE_INSIDE, err->message);
		vt_error_destroy(err);
		return NULL;
	}
	if (err)
		return err;
	result->borrowed_tid = timing.borrowed_tid;
	vt_cuda_imports(&t->modules, &vt_helper_shared(helper)->imports);
	vt_helper_shared(helper)->args.relieve = *args;
	vt_fault_point("relieve.inside");
	vt_progress("waiting for a safe moment in the process");
	__atomic_store_n(&open_word, &vt_helper_shared(helper)->args.relieve.word,
			 __ATOMIC_RELEASE);
	err = call(helper, result);
	__atomic_store_n(&open_word, NULL, __ATOMIC_RELEASE);
	vt_helper_destroy(helper);
	vt_fault_point("relieve.left");
	return err;
}

/* ---- all of it ---- */

static bool pinned_is_free(struct vt_relieve_result *result)
{
	pid_t owner = result->before.pinned.owner_tid;

	if (result->request.what != VT_RELIEF_TRIM_PINNED || !owner)
		return true;
	result->tid = owner;
	return vt_relieve_refuse(result, VT_RELIEVE_PINNED, NULL);
}

static struct vt_error *act_on(struct vt_target *t, struct vt_relieve_result *result)
{
	struct vt_relieve_args args = {
		.what = result->request.what,
		.dry_run = result->request.dry_run,
		.gpu_wait_ns = result->request.budget_ns,
		.gpu_wait_gil_ns = GPU_WAIT_GIL_NS,
		.lock_wait_ns = LOCK_WAIT_GIL_NS,
	};
	struct vt_python py = { 0 };
	struct vt_error *err = NULL;

	vt_progress("looking for reasons not to");
	if (vt_relieve_look_at_torch(t, &args, result) &&
	    vt_relieve_look_at_libraries(t, &args, result) && pinned_is_free(result) &&
	    vt_relieve_look_at_threads(result) &&
	    vt_relieve_look_at_python(t, &py, &args.python, result))
		err = go_in(t, &args, result);
	vt_python_deinit(&py);
	return err;
}

static struct vt_error *act(pid_t pid, struct vt_relieve_result *result)
{
	struct vt_subject subject = { .origin = &vt_origin_process, .pid = pid };
	struct vt_target target;
	struct vt_error *err;

	memset(&target, 0, sizeof(target));
	err = vt_target_open(&target, &subject);
	if (!err)
		err = vt_target_lock(&target, LOCK_WAIT_NS);
	if (!err)
		err = act_on(&target, result);
	vt_target_close(&target);
	return err;
}

static void look_again(pid_t pid, struct vt_relieve_result *result)
{
	struct vt_error *err;

	if (result->outcome == VT_RELIEVE_REFUSED || result->outcome == VT_RELIEVE_WOULD ||
	    result->outcome == VT_RELIEVE_RUNS || result->outcome == VT_RELIEVE_ENDED)
		return;
	err = look(pid, &result->request, VT_WANT_MEMORY, &result->after);
	if (!err)
		err = vt_diff_create(&result->diff, &result->before, &result->after);
	result->have_after = !err;
	if (err)
		snprintf(result->no_after, sizeof(result->no_after), "%s", err->message);
	vt_error_destroy(err);
}

struct vt_error *vt_relieve(pid_t pid, const struct vt_relieve_request *request,
			    struct vt_relieve_result *result)
{
	uint64_t start = vt_now_ns();

	memset(result, 0, sizeof(*result));
	result->request = *request;
	result->device = -1;
	vt_model_init(&result->before);
	vt_model_init(&result->after);
	VT_TRY(look(pid, request, VT_WANT_ALL, &result->before));
	VT_TRY(act(pid, result));
	look_again(pid, result);
	result->total_ms = (double)(vt_now_ns() - start) / VT_NS_PER_MS;
	return NULL;
}

void vt_relieve_deinit(struct vt_relieve_result *result)
{
	if (result->have_after)
		vt_diff_deinit(&result->diff);
	vt_model_deinit(&result->before);
	vt_model_deinit(&result->after);
}
