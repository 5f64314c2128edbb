/* SPDX-License-Identifier: Apache-2.0 */
/*
 * {name} is a figure of the advice, with the unit that the end of its name tells; {name|hole} is
 * its number and the word, "1 hole" or "3 holes", {name|process|processes} the same. A part in
 * square brackets is left out if one of its figures is not known. {device}, {setting} and {command}
 * are the advice's own.
 */
#include "report/advice_words.h"

#include <inttypes.h>
#include <string.h>

#include "base/format.h"

struct words {
	const char *verdict, *evidence;
};

static const struct words rules[VT_N_ADVICE_RULES] = {
	[VT_ADVICE_OTHER] = { "advice of another version of vramtap", "" },
	[VT_ADVICE_STOPPED] = {
		"a signal has stopped the process",
		"it does nothing until it is continued",
	},
	[VT_ADVICE_CONTEXT_LOST] = {
		"[GPU {device}: ]the work of this process has failed there, and its CUDA context is lost",
		"[Xid {xid}][ ({fault})][, {ago_seconds} ago][: {said}]",
	},
	[VT_ADVICE_GPU_FAULT] = {
		"[GPU {device}: ]the device has a fault that a new process does not cure",
		"[Xid {xid}][ ({fault})][, {ago_seconds} ago][: {said}]"
		"[{ecc_errors|uncorrected error} of its memory since the last reset][; {rows}]",
	},
	[VT_ADVICE_DEADLOCK] = {
		"threads wait for each other, and none of them will go on",
		"thread {tid} waits for what {holder_tid} holds",
	},
	[VT_ADVICE_STREAM_DEADLOCK] = {
		"[GPU {device}: ]streams wait for each other, and none of them goes on",
		"{stream} waits for {other_stream} since {waits_seconds}[: {value}]; by what was recorded: the host, a kernel or "
		"another process could still write",
	},
	[VT_ADVICE_STUCK] = {
		"the process is likely stuck",
		"thread {tid} has not moved for {still_seconds}[: it {place}][; {stream} has unfinished work]",
	},
	[VT_ADVICE_THROTTLED] = {
		"[GPU {device}: ]the hardware holds its clocks down: {reason}",
		"[{celsius} °C][, {watt} W][, {mhz} of {mhz_limit} MHz]",
	},
	[VT_ADVICE_LAUNCHER] = {
		"this process does not use CUDA: {children|process that it started does|processes that it started do}",
		"pid {pids}",
	},
	[VT_ADVICE_GROWTH] = {
		"[GPU {device}: ]memory grows[: full in about {full_seconds}]",
		"{grown_bytes}[ in {during_seconds}, {per_hour_bytes} an hour][, most in {label}][; {room_bytes} of room]",
	},
	[VT_ADVICE_HOST_LIMIT] = {
		"the host's memory is at the limit of its cgroup: the kernel will soon end a process",
		"{used_bytes} of {limit_bytes}[; pinned: {pinned_bytes}][, unused by PyTorch: {pinned_unused_bytes}]"
		"[; tensors of {workers|worker}: {tensors_bytes}]",
	},
	[VT_ADVICE_SHM_FULL] = {
		"/dev/shm is nearly full: the next batch can end a worker with a bus error",
		"{shm_used_bytes} of {shm_total_bytes}[; tensors of {workers|worker}: {tensors_bytes}]",
	},
	[VT_ADVICE_ADDRESS_LIMIT] = {
		"a limit of address space (ulimit -v) is nearly reached",
		"{used_bytes} of {limit_bytes}; CUDA needs addresses for more than it allocates, and fails as if out of memory",
	},
	[VT_ADVICE_PINNED] = {
		"pinned memory is half of the host's or more, and cannot be moved or swapped",
		"{pinned_bytes} of {limit_bytes}[; {pinned_unused_bytes} unused by PyTorch][; tensors of {workers|worker}: "
		"{tensors_bytes}]",
	},
	[VT_ADVICE_TOO_LARGE] = {
		"GPU {device}: the request is larger than the whole device",
		"{needed_bytes} needed; the device has {total_bytes}",
	},
	[VT_ADVICE_LIMITED] = {
		"GPU {device}: PyTorch may not use more of the device",
		"{needed_bytes} needed, and {free_bytes} were free; PyTorch has reserved {reserved_bytes}"
		"[, so the limit is between that and {limit_below_bytes}][, and may have {limit_bytes}][: about {limit_percent} "
		"of the device]",
	},
	[VT_ADVICE_OTHERS] = {
		"GPU {device}: other processes hold {others_bytes} of it",
		"[{needed_bytes} needed; ]{free_bytes} free; {others|other process|other processes}, most: [{most_name} ][(pid {most_pid}) ]with "
		"{most_bytes}",
	},
	[VT_ADVICE_ENDED_HOLDERS] = {
		"GPU {device}: processes that have ended hold {ended_bytes} of it",
		"{ended|process has|processes have} ended, and something keeps their memory: a child that shares "
		"it, or work that the driver waits for",
	},
	[VT_ADVICE_BATCH_TOO_LARGE] = {
		"GPU {device}: what one step saves for backward() does not fit: the batch is too large",
		"{activation_bytes} of {used_bytes} in use are activations[ of {rows|row}][; {needed_bytes} more were "
		"needed][: by proportion {fitting_rows|row} fit at most]",
	},
	[VT_ADVICE_KEPT_GRAPHS] = {
		"{name} keeps the graphs that made its {items|item}: {held_bytes}",
		"{graph_bytes} of it are activations, saved for backward()[, of {versions|step}: only the latest can "
		"still be used]",
	},
	[VT_ADVICE_HELD_BY_EXCEPTION] = {
		"{exceptions|kept exception holds|kept exceptions hold} {held_bytes} by way of the traceback",
		"{name}[ ({type})] keeps {part_bytes}[: {kept}]",
	},
	[VT_ADVICE_GARBAGE] = {
		"{held_bytes} are garbage that Python has not collected",
		"the largest is {name}[; the collector: {collector}]",
	},
	[VT_ADVICE_LEFT_PARAMETERS] = {
		"{name} has {parameters|parameter} that no model has: {held_bytes}",
		"with gradients and state[; {state_bytes} of it are state]",
	},
	[VT_ADVICE_RAW_ALLOCATIONS] = {
		"GPU {device}: {raw_bytes} are allocated beside PyTorch, in this process",
		"{raw_allocations|cudaMalloc}, the largest {largest_bytes}[, most by {library}]; {free_bytes} free on the "
		"device",
	},
	[VT_ADVICE_STREAM_CACHE] = {
		"GPU {device}: {stream_cached_bytes} are cached for one stream, and others cannot have them",
		"stream {stream}; the largest hole has {largest_hole_bytes}; {free_bytes} free on the device",
	},
	[VT_ADVICE_PINNED_CACHE] = {
		"{cached_bytes} of host memory are pinned, cached by PyTorch, and in use by nobody",
		"of {pinned_bytes} pinned; {cached_blocks|block}, the largest {largest_bytes}, each rounded up to a power of "
		"two; nothing gives them back",
	},
	[VT_ADVICE_DATA_SET] = {
		"the data set {name} lies on the device: {held_bytes}",
		"[{type}; ]a step uses one batch of it",
	},
	[VT_ADVICE_STATE_COPY] = {
		"{name} is a copy of the parameters of {other}: {held_bytes}",
		"the same names, shapes and types, in other memory",
	},
	[VT_ADVICE_EQUAL_MODELS] = {
		"{name} and {other} are models with the same shapes: {held_bytes} each",
		"{models|model}; fine if each is needed (an EMA, a teacher)",
	},
	[VT_ADVICE_KEPT_GRADIENTS] = {
		"{held_bytes} of gradients are kept while the next ones are computed",
		"of {parameters|parameter}",
	},
	[VT_ADVICE_FROZEN_STATE] = {
		"{name} has state of {parameters|frozen parameter}: {held_bytes}",
		"requires_grad is False: they are not updated",
	},
	[VT_ADVICE_LOST_GRADIENTS] = {
		"{parameters|parameter} of {name} have gradients that no optimizer uses: {held_bytes}",
		"nothing but the model refers to them",
	},
	[VT_ADVICE_KEPT_ITEMS] = {
		"{name} keeps {held_bytes}",
		"{items|item}, {share_percent} of what PyTorch has in use; one report does not tell whether it grows",
	},
	[VT_ADVICE_FRAGMENTED] = {
		"GPU {device}: there is memory, but in pieces, and none is large enough",
		"{needed_bytes} needed; {holes_bytes} cached in {holes|hole}, the largest {largest_hole_bytes}, between "
		"{pinning_blocks|block} in use ({pinning_bytes}); {free_bytes} free on the device"
		"[; expandable segments would have satisfied this request: {joined_bytes} of the holes]"
		"[; max_split_size_mb would have kept {unsplit_segments|segment} with {unsplit_bytes} whole]",
	},
	[VT_ADVICE_ELSEWHERE] = {
		"GPU {device}: a cached block is large enough, but another stream or pool has it",
		"{needed_bytes} needed; [the largest hole has {largest_hole_bytes}, of stream {stream}; ]"
		"[{private_cached_bytes} cached by private pools; ]{free_bytes} free on the device"
		"[; expandable segments would have satisfied this request: {joined_bytes} of the holes]",
	},
	[VT_ADVICE_AWAITING_FREE] = {
		"GPU {device}: freed memory waits for streams",
		"{awaiting_bytes} in {awaiting_blocks|block}, freed while another stream may use them[, most of "
		"stream {stream}: {stream_bytes}][; {waits_for_bytes} wait for {waits_for}]",
	},
	[VT_ADVICE_PRIVATE_POOLS] = {
		"GPU {device}: private pools, as of CUDA graphs, keep {private_cached_bytes} to themselves",
		"{pools|pool} with {private_bytes} in all; what they cache serves no other request",
	},
	[VT_ADVICE_LIBRARY] = {
		"GPU {device}: {library} holds {library_bytes} that PyTorch cannot have",
		"[{library_used_bytes} of it in use; ]{free_bytes} free on the device",
	},
	[VT_ADVICE_CACHE_IN_PIECES] = {
		"GPU {device}: memory was short, and PyTorch's cache lies in pieces between blocks in use",
		"{holes_bytes} in {holes|hole}, the largest {largest_hole_bytes}, between "
		"{pinning_blocks|block} in use ({pinning_bytes})[; {errors|out-of-memory error}][; the cache was given "
		"back {retries|time}][; expandable segments could join {joined_bytes} of it]",
	},
	[VT_ADVICE_MIG] = {
		"GPU {device}: it is an instance of a device that MIG divides",
		"{total_bytes}[ of {whole_device_bytes}]",
	},
	[VT_ADVICE_PAST_OOM] = {
		"GPU {device}: memory has run out before, and what held it then is not known",
		"{errors|error} counted by PyTorch; {now_bytes} in use now[, {peak_bytes} at the peak]",
	},
	[VT_ADVICE_CACHE_KEPT] = {
		"GPU {device}: it is full, and PyTorch keeps {whole_bytes} here that it does not use",
		"{free_bytes} free; {cached_bytes} cached; {others|other process|other processes} with {others_bytes}",
	},
};

struct remedy_words {
	const char *remedy;  /* of the advice */
	const char *purpose; /* after the command or setting, at the end of a report */
};

static const struct remedy_words remedies[VT_N_ADVICE_REMEDIES] = {
	[VT_REMEDY_NONE] = { "", "" },
	[VT_REMEDY_CONTINUE] = { "{command} lets it go on", "lets it go on" },
	[VT_REMEDY_DEBUG_KERNEL] = {
		"restart the process: all its CUDA calls fail from now on; compute-sanitizer finds the kernel, or, with "
		"{setting}, the traceback is that of its launch",
		"at the next start: the traceback is that of the kernel that fails",
	},
	[VT_REMEDY_RESTART] = { "restart the process: all its CUDA calls fail from now on", "" },
	[VT_REMEDY_RESET_GPU] = {
		"drain the node, end all that uses the GPU, and reset it (nvidia-smi --gpu-reset); if the fault comes again, "
		"have it replaced",
		"",
	},
	[VT_REMEDY_REBOOT] = {
		"drain the node and restart it; if the fault comes again, have the GPU replaced",
		"",
	},
	[VT_REMEDY_COOL_GPU] = { "check the node's cooling and power supply; until then all on this GPU is slow", "" },
	[VT_REMEDY_ORDER_LOCKS] = {
		"end the process, and take the locks in one order[; {command} shows where each was taken]",
		"where each lock was taken",
	},
	[VT_REMEDY_ORDER_STREAMS] = {
		"end the process; let one of the streams write before it waits",
		"",
	},
	[VT_REMEDY_FIND_HOLDER] = {
		"find what it waits for[: {command}]",
		"all threads in full",
	},
	[VT_REMEDY_FIND_RANK] = {
		"find the rank that is missing or late[: {command}]",
		"which rank the others wait for",
	},
	[VT_REMEDY_FIND_KERNEL] = {
		"find what the GPU does not finish[: {command}; this stops the process for a moment]",
		"which kernel runs; this stops the process for a moment",
	},
	[VT_REMEDY_CHILDREN] = { "look at those: {command}", "looks at those that use CUDA" },
	[VT_REMEDY_STOP_GROWTH] = {
		"let go of what grows[: {label}]",
		"",
	},
	[VT_REMEDY_LESS_HOST_MEMORY] = {
		"fewer DataLoader workers, a smaller prefetch_factor, less pinned memory, or a higher limit",
		"",
	},
	[VT_REMEDY_LARGER_SHM] = {
		"make it larger (of a container: at its start[, {setting}]; of the host: remount it there), or use fewer workers",
		"at the container's start: makes /dev/shm larger",
	},
	[VT_REMEDY_NO_ADDRESS_LIMIT] = {
		"at the next start, lift it: {setting}",
		"at the next start",
	},
	[VT_REMEDY_LESS_PINNED] = {
		"pin less: pin_memory only where batches are copied, and fewer batches ahead",
		"",
	},
	[VT_REMEDY_SMALLER_REQUEST] = {
		"split the request: it can succeed on no device of this size",
		"",
	},
	[VT_REMEDY_RAISE_LIMIT] = {
		"raise the limit: {setting}",
		"gives this request its room",
	},
	[VT_REMEDY_OTHER_PROCESS] = {
		"end or move that process, or let it give back its cache[; {command} shows what it holds]",
		"what the other process holds",
	},
	[VT_REMEDY_END_HOLDERS] = {
		"end what keeps it[: {command} lists who has the devices open]",
		"who has the devices open",
	},
	[VT_REMEDY_EXPANDABLE_SEGMENTS] = {
		"at the next start, add {setting} to PYTORCH_CUDA_ALLOC_CONF",
		"add it to PYTORCH_CUDA_ALLOC_CONF at the next start",
	},
	[VT_REMEDY_MAX_SPLIT_SIZE] = {
		"at the next start, add {setting} to PYTORCH_CUDA_ALLOC_CONF",
		"add it to PYTORCH_CUDA_ALLOC_CONF at the next start",
	},
	[VT_REMEDY_LIFETIMES] = {
		"no setting is sure to join these pieces: allocate what stays before what comes and goes",
		"",
	},
	[VT_REMEDY_SHARE_POOL] = {
		"capture all graphs with one pool (torch.cuda.graph(g, pool=…)), and delete graphs that no longer run",
		"",
	},
	[VT_REMEDY_SYNCHRONIZE_STREAM] = {
		"let the program wait for that stream before it frees, or free less across streams (record_stream)",
		"",
	},
	[VT_REMEDY_LIMIT_LIBRARY] = {
		"let {library} take less[: {setting}]",
		"lets the other library take less",
	},
	[VT_REMEDY_SMALLER_BATCH] = {
		"a smaller batch, as many times (gradient accumulation), or torch.utils.checkpoint",
		"",
	},
	[VT_REMEDY_DETACH] = { "store .detach() or .item() instead", "" },
	[VT_REMEDY_DROP_EXCEPTION] = {
		"drop what keeps it, or store its text, or error.with_traceback(None)",
		"",
	},
	[VT_REMEDY_COLLECT_GARBAGE] = { "{setting} frees them", "frees the garbage" },
	[VT_REMEDY_REBUILD_OPTIMIZER] = { "make the optimizer anew, of the parameters that are trained", "" },
	[VT_REMEDY_FIND_ALLOCATOR] = {
		"let the library that has them free or limit them[; {command} records who allocates from now on]",
		"who allocates from now on",
	},
	[VT_REMEDY_ONE_STREAM] = {
		"allocate on the stream that uses the memory, and only copy on the other",
		"",
	},
	[VT_REMEDY_REUSE_BUFFERS] = {
		"use one buffer of the largest size again and again[; {command} shows what can be given back]",
		"what can be given back to the host",
	},
	[VT_REMEDY_HOST_DATA_SET] = {
		"keep it in pinned host memory, and copy each batch with non_blocking=True",
		"",
	},
	[VT_REMEDY_HOST_COPY] = { "keep the copy on the CPU", "" },
	[VT_REMEDY_ONE_MODEL] = { "use one for both, or keep the other on the CPU while it rests", "" },
	[VT_REMEDY_ZERO_GRAD] = {
		"optimizer.zero_grad() before the forward pass, unless they are accumulated on purpose",
		"",
	},
	[VT_REMEDY_FREEZE] = { "requires_grad_(False) for them, if nothing else uses them", "" },
	[VT_REMEDY_DROP_ITEMS] = {
		"let go of what is done, or keep it on the CPU[; {command} tells whether it grows]",
		"whether it grows",
	},
	[VT_REMEDY_LARGER_SLICE] = { "use a larger instance, or the whole device", "" },
	[VT_REMEDY_CATCH_OOM] = {
		"[{command} catches the next one, with who asked and who holds]",
		"catches the next out-of-memory error",
	},
	[VT_REMEDY_EMPTY_CACHE] = {
		"give it back to the device: {setting} in the program[, or {command}]",
		"gives the unused cache back to the device",
	},
};

static const char *const nexts[VT_N_ADVICE_NEXTS] = {
	[VT_NEXT_NONE] = "",
	[VT_NEXT_RECORD] = "records who allocates from now on",
	[VT_NEXT_ALLOW_RESUME] = "reads it from inside; it stops again",
	[VT_NEXT_TRIAGE] = "which rank the others wait for",
	[VT_NEXT_KERNELS] =
		"if it stays there: which kernel runs; this stops the process for a moment",
	[VT_NEXT_LOOK_AGAIN] = "whether it goes on",
	[VT_NEXT_GROW] = "what grows",
};

/* ---- a template and the figures of one advice ---- */

struct fill {
	const struct vt_model_advice *advice;
	const char *setting, *command;
};

static bool ends_with(const char *name, size_t n, const char *end)
{
	size_t len = strlen(end);

	return n >= len && !strncmp(name + n - len, end, len);
}

static void add_number(struct vt_str *text, const char *name, size_t n, uint64_t number)
{
	char buf[VT_NUM_MAX];

	if (ends_with(name, n, "_bytes"))
		vt_str_add(text, vt_format_size(buf, number));
	else if (ends_with(name, n, "_seconds"))
		vt_str_add(text, vt_format_age(buf, (double)number));
	else if (ends_with(name, n, "_percent"))
		vt_str_addf(text, "%" PRIu64 " %%", number);
	else if (ends_with(name, n, "pid") || ends_with(name, n, "tid"))
		vt_str_addf(text, "%" PRIu64, number);
	else
		vt_str_add(text, vt_format_count(buf, number));
}

/* After "{name|": "hole}" or "process|processes}". */
static void add_noun(struct vt_str *text, const char *words, size_t n, uint64_t number)
{
	const char *plural = memchr(words, '|', n);
	size_t one = plural ? (size_t)(plural - words) : n;

	vt_str_add(text, " ");
	if (plural && number != 1)
		vt_str_addn(text, plural + 1, n - one - 1);
	else
		vt_str_addn(text, words, one);
	if (!plural && number != 1)
		vt_str_add(text, "s");
}

/* Adds what stands between the braces; false: it is not known. */
static bool add_figure(struct vt_str *text, const struct fill *fill, const char *inner, size_t n)
{
	const char *bar = memchr(inner, '|', n);
	size_t name = bar ? (size_t)(bar - inner) : n;
	const struct vt_advice_value *value;

	if (name == 7 && !strncmp(inner, "setting", name)) {
		vt_str_add(text, fill->setting ? fill->setting : "");
		return fill->setting != NULL;
	}
	if (name == 7 && !strncmp(inner, "command", name)) {
		vt_str_add(text, fill->command ? fill->command : "");
		return fill->command != NULL;
	}
	if (!fill->advice)
		return false;
	if (name == 6 && !strncmp(inner, "device", name)) {
		vt_str_addf(text, "%d", fill->advice->device);
		return fill->advice->device >= 0;
	}
	value = vt_model_advice_value(fill->advice, inner, name);
	if (!value)
		return false;
	if (value->text)
		vt_str_add(text, value->text);
	else
		add_number(text, inner, name, value->number);
	if (bar)
		add_noun(text, bar + 1, n - name - 1, value->number);
	return true;
}

/* Up to the end of the template, or of the part in brackets; false: a figure is not known. */
static bool add_part(struct vt_str *text, const struct fill *fill, const char **at, char end)
{
	bool known = true;

	while (**at && **at != end) {
		size_t n = strcspn(*at, end == ']' ? "{]" : "{[");

		vt_str_addn(text, *at, n);
		*at += n;
		if (**at == '{') {
			n = strcspn(*at, "}");
			known = add_figure(text, fill, *at + 1, n - 1) && known;
			*at += n + ((*at)[n] == '}');
		} else if (**at == '[') {
			size_t before = text->n;

			++*at;
			if (!add_part(text, fill, at, ']'))
				vt_str_cut(text, before);
			*at += **at == ']';
		}
	}
	return known;
}

static void add_template(struct vt_str *text, const struct fill *fill, const char *template)
{
	if (template)
		add_part(text, fill, &template, '\0');
}

static struct fill of_advice(const struct vt_model_advice *advice)
{
	return (struct fill){ advice, advice->setting, advice->command };
}

void vt_advice_verdict(struct vt_str *text, const struct vt_model_advice *advice)
{
	struct fill fill = of_advice(advice);

	add_template(text, &fill, rules[advice->rule].verdict);
}

void vt_advice_evidence(struct vt_str *text, const struct vt_model_advice *advice)
{
	struct fill fill = of_advice(advice);

	add_template(text, &fill, rules[advice->rule].evidence);
}

void vt_advice_remedy(struct vt_str *text, const struct vt_model_advice *advice)
{
	struct fill fill = of_advice(advice);

	add_template(text, &fill, remedies[advice->remedy].remedy);
}

void vt_next_purpose(struct vt_str *text, const struct vt_model_next *next)
{
	struct fill fill = { NULL, next->setting, next->command };

	add_template(text, &fill,
		     next->code == VT_NEXT_REMEDY ? remedies[next->remedy].purpose :
						    nexts[next->code]);
}
