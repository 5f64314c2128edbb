/* SPDX-License-Identifier: Apache-2.0 */
#include "relieve/look.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "collect/collect.h"
#include "target/proc.h"
#include "walk/python/ask.h"
#include "walk/torch/abi.h"

#define WATCH_GIL_NS VT_NS_PER_S
#define GIL_WAIT_NS (2 * VT_NS_PER_S)
#define LOCKED_NS (50 * VT_NS_PER_MS)
#define STILL_NS (300 * VT_NS_PER_MS)
/* minor release of CPython from which calls do not run the garbage collector */
#define COLLECTS_BETWEEN 12
#define MAX_STILL 64

bool vt_relieve_refuse(struct vt_relieve_result *result, unsigned int why, const char *text)
{
	result->outcome = VT_RELIEVE_REFUSED;
	result->why = why;
	snprintf(result->text, sizeof(result->text), "%s", text ? text : "");
	return false;
}

static bool refuse_error(struct vt_relieve_result *result, unsigned int why, struct vt_error *err)
{
	vt_relieve_refuse(result, why, err->message);
	vt_error_destroy(err);
	return false;
}

/* ---- PyTorch ---- */

static bool watch_locks(struct vt_memsrc *src, const struct vt_torch_layout *layout,
			const uint64_t *dcas, int n, struct vt_relieve_result *result)
{
	uint64_t start = vt_now_ns();

	for (int i = 0; i < n; i++) {
		int32_t tid;

		while ((tid = vt_torch_mutex_owner(src, layout, dcas[i])) != 0) {
			if (vt_now_ns() - start > LOCKED_NS) {
				result->tid = tid > 0 ? tid : 0;
				result->device = i;
				return vt_relieve_refuse(result, VT_RELIEVE_ALLOCATOR, NULL);
			}
			vt_sleep_ns(VT_NS_PER_MS);
		}
	}
	return true;
}

/* Whether the field is an int (2.0) or a vector (2.1 on). False: the release is not known. */
static bool knows_captures(const struct vt_torch_found *found, bool *counted)
{
	const char *version = found->version;

	*counted = !strncmp(version, "2.0.", 4);
	return *counted || (version[0] == '2' && version[1] == '.');
}

static bool find_captures(struct vt_memsrc *src, const struct vt_torch_found *found, int n,
			  const uint64_t *dcas, struct vt_relieve_args *args,
			  struct vt_relieve_result *result)
{
	bool counted;

	if (!knows_captures(found, &counted))
		return vt_relieve_refuse(result, VT_RELIEVE_LAYOUT, found->version);
	args->captures_are_counted = counted;
	for (int i = 0; i < n; i++) {
		uint64_t words[VT_CAPTURES_BYTES / 8];
		int captures;

		args->captures[i] = dcas[i] + found->layout.active_blocks + sizeof(struct vt_ska);
		captures = vt_mem_read(src, args->captures[i], words, sizeof(words)) ?
				   -1 :
				   vt_torch_captures_of(words, counted);
		result->device = i;
		if (captures < 0)
			return vt_relieve_refuse(result, VT_RELIEVE_LAYOUT, found->version);
		if (captures)
			return vt_relieve_refuse(result, VT_RELIEF_CAPTURE, NULL);
	}
	result->device = -1;
	return true;
}

static bool take_torch(struct vt_target *t, const struct vt_torch_found *found,
		       struct vt_relieve_args *args, struct vt_relieve_result *result)
{
	uint64_t dcas[VT_TORCH_MAX_DEVICES];
	int n = vt_torch_devices(t->mem, &found->layout, found->allocator, dcas);

	if (n <= 0)
		return vt_relieve_refuse(result, VT_RELIEVE_TORCH,
					 "its list of devices cannot be read");
	args->n_devices = n;
	for (int i = 0; i < n; i++)
		args->mutexes[i] = dcas[i] + found->layout.mutex;
	return find_captures(t->mem, found, n, dcas, args, result) &&
	       watch_locks(t->mem, &found->layout, dcas, n, result);
}

bool vt_relieve_look_at_torch(struct vt_target *t, struct vt_relieve_args *args,
			      struct vt_relieve_result *result)
{
	static const char *const states[] = {
		[VT_TORCH_ABSENT] = "the process has not loaded it",
		[VT_TORCH_UNUSED] = "its CUDA allocator is not set up, so it holds nothing",
		[VT_TORCH_ASYNC] = "its backend is cudaMallocAsync",
		[VT_TORCH_PLUGGABLE] = "it uses a pluggable allocator",
	};
	bool needs = result->request.what != VT_RELIEF_COLLECT_GARBAGE;
	struct vt_torch_found found;

	vt_target_find_torch(t, &found);
	if (found.backend == VT_TORCH_NATIVE)
		return take_torch(t, &found, args, result);
	if (found.backend == VT_TORCH_UNKNOWN)
		return vt_relieve_refuse(result, VT_RELIEVE_TORCH, found.why);
	return !needs || vt_relieve_refuse(result, VT_RELIEVE_TORCH, states[found.backend]);
}

/* ---- other libraries ---- */

/*
 * They capture graphs without PyTorch's knowing. The question whether the GPUs are idle would end a
 * capture with an error.
 */
static const struct library {
	const char *part, *name; /* of the file's path */
} capturing[] = {
	{ "/cupy/", "CuPy" },
	{ "/cupy_backends/", "CuPy" },
	{ "/jaxlib/", "JAX" },
	{ "/xla_cuda", "JAX" },
	{ "/libnvinfer.so", "TensorRT" },
	{ "/libnvinfer_lean.so", "TensorRT" },
	{ "/libnvinfer_dispatch.so", "TensorRT" },
	{ "/libggml-cuda", "ggml" },
	{ "/ggml-cuda", "ggml" },
	{ "/libtvm", "TVM" },
	{ "/tvm/", "TVM" },
	{ "libonnxruntime_providers_cuda", "ONNX Runtime" },
	{ "/tensorflow/", "TensorFlow" },
	{ "/cuda/bindings/", "cuda-python" },
	{ "/cuda/_cuda/", "cuda-python" },
	{ "/warp/bin/", "Warp" },
	{ "/paddle/", "Paddle" },
};

/*
 * Their allocators of pools call Python. PyTorch calls those with its allocator's lock held, and
 * without the GIL: with a thread that has the GIL and waits for the lock, that is for ever.
 */
static const struct library calling_python[] = {
	{ "/cumem_allocator", "vLLM's cumem_allocator" },
	{ "/camem_allocator", "camem_allocator" },
};

static const char *find_library(const struct vt_target *t, const struct library *libraries,
				size_t n)
{
	for (size_t i = 0; i < t->maps.entries.n; i++)
		for (size_t k = 0; k < n; k++)
			if (strstr(t->maps.entries.data[i].path, libraries[k].part))
				return libraries[k].name;
	return NULL;
}

bool vt_relieve_look_at_libraries(struct vt_target *t, struct vt_relieve_args *args,
				  struct vt_relieve_result *result)
{
	const char *captures = find_library(t, capturing, sizeof(capturing) / sizeof(capturing[0]));
	const char *calls =
		find_library(t, calling_python, sizeof(calling_python) / sizeof(calling_python[0]));

	args->asks_gpu = args->n_devices && !captures;
	if (result->request.what == VT_RELIEF_COLLECT_GARBAGE)
		return true;
	if (captures)
		return vt_relieve_refuse(result, VT_RELIEVE_CAPTURES, captures);
	return !calls || result->request.what != VT_RELIEF_EMPTY_CACHE ||
	       vt_relieve_refuse(result, VT_RELIEVE_CALLS_PYTHON, calls);
}

/* ---- threads ---- */

/* Certainly in the driver; a stack that is not whole says nothing. */
static bool is_in_driver(const struct vt_model_thread *t)
{
	return t->taken != VT_TAKEN_RUNNING && t->stack.has_native && !t->stack.truncated &&
	       !t->stack.why && vt_collect_may_be_in_driver(t);
}

/* A thread in the driver that sleeps all the time can be keeping the driver's locks. */
bool vt_relieve_look_at_threads(struct vt_relieve_result *result)
{
	struct vt_model *model = &result->before;
	struct vt_thread_sample samples[MAX_STILL];
	pid_t tids[MAX_STILL];
	size_t n = 0;

	for (size_t i = 0; i < model->threads.n && n < MAX_STILL; i++)
		if (is_in_driver(&model->threads.data[i])) {
			tids[n] = model->threads.data[i].tid;
			vt_thread_sample_take(&samples[n], model->process.pid, tids[n]);
			n += samples[n].asleep;
		}
	if (!n)
		return true;
	vt_sleep_ns(STILL_NS);
	for (size_t i = 0; i < n; i++)
		if (vt_thread_sample_holds(&samples[i], model->process.pid)) {
			result->tid = tids[i];
			return vt_relieve_refuse(result, VT_RELIEVE_IN_DRIVER, NULL);
		}
	return true;
}

/* ---- the interpreter ---- */

bool vt_relieve_look_at_python(struct vt_target *t, struct vt_python *py,
			       struct vt_ask_python_args *args, struct vt_relieve_result *result)
{
	struct vt_error *err = vt_python_find(py, &t->modules, t->live);

	args->gil_wait_ns = GIL_WAIT_NS;
	if (!err)
		err = vt_python_imports(py, &t->modules, &args->imports);
	if (err)
		return refuse_error(result, VT_RELIEVE_INTERPRETER, err);
	args->stop_collector = result->request.what != VT_RELIEF_COLLECT_GARBAGE &&
			       py->minor < COLLECTS_BETWEEN;
	err = vt_python_watch_gil(py, t->mem, WATCH_GIL_NS);
	return !err || refuse_error(result, VT_RELIEVE_GIL, err);
}
