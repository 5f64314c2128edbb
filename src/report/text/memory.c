/* SPDX-License-Identifier: Apache-2.0 */
/* Devices, what holds their memory, and PyTorch's statistics. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/format.h"
#include "model/awaiting.h"
#include "report/state_words.h"
#include "report/text/bar.h"
#include "report/text/ledger.h"
#include "report/text/libpools.h"
#include "report/text/table.h"
#include "report/text/text.h"

#define MAX_TABLES 4 /* more GPUs than that get one line each */
#define MAX_BAR 48
#define MIN_BAR_BESIDE 12 /* a bar that leaves room for what tells the device apart */

/* ---- devices ---- */

static const struct vt_model_allocator *allocator_of(const struct vt_model *model, int ordinal)
{
	for (size_t i = 0; i < model->allocators.n; i++)
		if (model->allocators.data[i].device == ordinal)
			return &model->allocators.data[i];
	return NULL;
}

/*
 * PyTorch creates an allocator for every visible device; one that never had a segment is not shown.
 */
static bool never_used(const struct vt_model_allocator *a)
{
	return a->exact && a->n_blocks == 0 && a->result.have_stats &&
	       a->result.stats.reserved_bytes.peak == 0;
}

static bool is_used(const struct vt_model *model, const struct vt_model_device *d)
{
	const struct vt_model_allocator *a = allocator_of(model, d->ordinal);

	return d->context_active || d->have_memory || (a && !never_used(a));
}

/* "NVIDIA H100 80GB HBM3": the vendor's name adds nothing. */
static const char *short_device_name(const struct vt_model_device *d)
{
	const char *name = d->name && *d->name ? d->name : "unknown device";

	return strncmp(name, "NVIDIA ", 7) ? name : name + 7;
}

/* "79.1 of 79.6 GiB"; the first unit only if it differs. */
static void format_part(char *buf, size_t size, uint64_t part, uint64_t whole)
{
	char a[VT_NUM_MAX], b[VT_NUM_MAX];
	const char *unit_a, *unit_b;

	vt_format_size(a, part);
	vt_format_size(b, whole);
	unit_a = strchr(a, ' ');
	unit_b = strchr(b, ' ');
	if (!strcmp(unit_a, unit_b))
		snprintf(buf, size, "%.*s of %s", (int)(unit_a - a), a, b);
	else
		snprintf(buf, size, "%s of %s", a, b);
}

/* a: of PyTorch, gpu: as NVML knows it; NULL unknown. */
static void print_device(struct vt_line *line, const struct vt_model_device *d,
			 const struct vt_model_allocator *a, const struct vt_model_gpu *gpu,
			 const char *label, int name_columns)
{
	char part[VT_NUM_MAX * 2 + 8], free_text[VT_NUM_MAX], text[128], id[VT_TEXT_MAX];

	vt_line_add(line, VT_BOLD, label);
	vt_line_pad(line, line->want + 1 + (strlen(label) < sizeof("GPU 10") - 1));
	vt_line_cell(line, VT_PLAIN, short_device_name(d), name_columns, VT_CUT_END);
	vt_line_pad(line, line->want + 2);
	if (!d->have_memory) {
		const char *why = d->why_no_memory  ? d->why_no_memory :
				  d->context_active ? "not read" :
						      "no context";

		vt_line_addf(line, VT_PLAIN, "memory not known: %s", why);
		vt_line_end(line);
		return;
	}
	format_part(part, sizeof(part), d->used_bytes, d->total_bytes);
	snprintf(text, sizeof(text), "%s used%s, %s free", part,
		 line->columns >= 100 ? " by all processes" : "",
		 vt_format_size(free_text, d->free_bytes));

	int bar = vt_line_room(line) - (int)strlen(text) - 2,
	    id_columns = (int)strlen(vt_text_gpu_id(id, d, gpu, false)) + 3;
	bool beside = id_columns > 3 && bar - id_columns >= MIN_BAR_BESIDE;

	if (beside)
		bar -= id_columns;
	if (bar >= 6) {
		vt_bar_add(line, d, a, bar < MAX_BAR ? bar : MAX_BAR);
		vt_line_pad(line, line->want + 2);
	}
	vt_line_add(line, VT_PLAIN, text);
	vt_line_pad(line, line->want + 3);
	vt_line_add(line, VT_DIM, beside ? id : "");
	vt_line_end(line);
	if (!beside && *vt_text_gpu_id(id, d, gpu, true)) {
		vt_line_pad(line, 2);
		vt_line_add(line, VT_DIM, id);
		vt_line_end(line);
	}
}

/* "GPU 1, 3 to 7" */
static void print_unused(struct vt_line *line, const struct vt_model *model, size_t n_unused)
{
	struct vt_str text = { 0 };

	if (n_unused == 0)
		return;
	for (size_t i = 0; i < model->devices.n; i++) {
		size_t end = i;

		while (end < model->devices.n && !is_used(model, &model->devices.data[end]))
			end++;
		if (end == i)
			continue;

		int first = model->devices.data[i].ordinal,
		    last = model->devices.data[end - 1].ordinal;

		vt_str_addf(&text, "%s%d", text.n ? ", " : "GPU ", first);
		if (last != first)
			vt_str_addf(&text, " to %d", last);
		i = end - 1;
	}
	vt_str_add(&text, n_unused == 1 ? "  no context of this process" :
					  "  no contexts of this process");
	vt_line_add(line, VT_DIM, vt_str_get(&text));
	vt_line_end(line);
	if (text.failed)
		line->buf.failed = true;
	vt_str_deinit(&text);
}

/*
 * Those that only the kernel driver tells of: which numbers they have in the process is not known.
 */
static bool print_unnumbered(struct vt_line *line, const struct vt_model *model)
{
	bool any = false;

	for (size_t i = 0; i < model->usage.gpus.n; i++) {
		const struct vt_model_gpu *gpu = &model->usage.gpus.data[i];
		struct vt_model_device d = {
			.name = gpu->name,
			.context_active = true,
			.have_memory = gpu->memory_known,
			.total_bytes = gpu->total_bytes,
			.used_bytes = gpu->used_bytes,
			.free_bytes = gpu->total_bytes - gpu->used_bytes,
		};
		char label[16];

		if (!gpu->is_ours || gpu->ordinal >= 0 || gpu->used_bytes > gpu->total_bytes)
			continue;
		if (!any)
			vt_line_blank(line);
		any = true;
		snprintf(label, sizeof(label), "%.12s", *gpu->uuid ? gpu->uuid : "GPU ?");
		print_device(line, &d, NULL, gpu, label, line->columns / 4);
		vt_text_gpu_processes(line, model, gpu, false, gpu->used_bytes);
	}
	return any;
}

static void print_numbered(struct vt_line *line, const struct vt_model *model,
			   const struct vt_model_device *d, int name_columns, bool briefly)
{
	const struct vt_model_gpu *gpu = vt_model_gpu(&model->usage, d->ordinal);
	char label[16];

	snprintf(label, sizeof(label), "GPU %d", d->ordinal);
	print_device(line, d, allocator_of(model, d->ordinal), gpu, label, name_columns);
	vt_text_gpu_processes(line, model, gpu, briefly, d->used_bytes);
}

void vt_text_devices(struct vt_line *line, const struct vt_model *model)
{
	int name_columns = 0, most = line->columns / 4;
	size_t n_unused = 0;

	if (model->devices.n == 0 && model->process.uses_cuda) {
		print_unnumbered(line, model); /* if there is nothing, a diagnostic says why */
		return;
	}
	vt_line_blank(line);
	if (model->devices.n == 0) {
		vt_line_add(line, VT_PLAIN,
			    "This process does not use CUDA: libcuda is not mapped.");
		vt_line_end(line);
		return;
	}
	for (size_t i = 0; i < model->devices.n; i++) {
		const struct vt_model_device *d = &model->devices.data[i];
		int width = vt_line_width(line, short_device_name(d));

		if (!is_used(model, d))
			n_unused++;
		else if (width > name_columns)
			name_columns = width;
	}
	for (size_t i = 0; i < model->devices.n; i++)
		if (is_used(model, &model->devices.data[i]))
			print_numbered(line, model, &model->devices.data[i],
				       name_columns < most ? name_columns : most,
				       model->devices.n - n_unused > MAX_TABLES);
	print_unused(line, model, n_unused);
}

void vt_text_not_asked(struct vt_line *line, const struct vt_model *model)
{
	struct vt_str text = { 0 };

	if (model->devices.n > 0 || !model->process.uses_cuda || !model->held_by)
		return;
	for (size_t i = 0; i < model->usage.gpus.n; i++)
		if (model->usage.gpus.data[i].is_ours)
			return;
	vt_str_addf(
		&text,
		"Memory of the devices, total and free: not known while %s holds the process.%s%s",
		model->held_by, line->hints->devices ? " " : "",
		line->hints->devices ? line->hints->devices : "");
	vt_line_blank(line);
	vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 0, 3);
	if (text.failed)
		line->buf.failed = true;
	vt_str_deinit(&text);
}

/* ---- what holds the memory ---- */

static void print_head(const struct vt_table *t, const struct vt_model_allocator *a)
{
	char segments[VT_NUM_MAX];

	vt_line_blank(t->line);
	vt_line_addf(t->line, VT_BOLD, "Memory of GPU %d", a->device);
	vt_line_addf(t->line, VT_DIM, ", %s segment%s",
		     vt_format_count(segments, a->result.segments),
		     a->result.segments == 1 ? "" : "s");
	vt_line_pad(t->line, 2 + t->label_columns);
	vt_line_right(t->line, VT_DIM, "size", VT_TABLE_BYTES_COLUMNS);
	vt_line_right(t->line, VT_DIM, "blocks", VT_TABLE_BLOCKS_COLUMNS);
	vt_line_right(t->line, VT_DIM, t->device ? "of GPU" : "", VT_TABLE_SHARE_COLUMNS);
	vt_line_end(t->line);
}

#define MAX_WAITS 6

/* A block that several streams use is in the row of each. */
static void print_waits(const struct vt_table *t, const struct vt_model_allocator *a)
{
	const struct vt_torch_waits *waits = &a->result.waits;

	for (size_t i = 0; i < waits->n && i < MAX_WAITS; i++) {
		const struct vt_torch_wait *wait = &waits->list[i];
		struct vt_str label = { 0 };

		vt_str_add(&label, "wait for ");
		vt_torch_wait_say(&label, wait, a->device);
		vt_table_row(t, &(struct vt_table_row){ 1, vt_str_get(&label), wait->bytes,
							wait->blocks, NULL, false });
		t->line->buf.failed |= label.failed;
		vt_str_deinit(&label);
	}
	if (waits->n > MAX_WAITS) {
		vt_line_pad(t->line, 4);
		vt_line_addf(t->line, VT_DIM, "%u more streams in the JSON report",
			     (unsigned int)(waits->n - MAX_WAITS));
		vt_line_end(t->line);
	}
	if (waits->eventless_blocks)
		vt_table_row(t, &(struct vt_table_row){ 1, "wait for the end of a capture",
							waits->eventless_bytes,
							waits->eventless_blocks, NULL, false });
}

static void print_awaiting(const struct vt_table *t, const struct vt_model_allocator *a)
{
	bool known = a->result.waits.state == VT_TORCH_WAITS_KNOWN;

	vt_table_row(t, &(struct vt_table_row){ 0, "awaiting free", a->awaiting_bytes,
						a->awaiting_blocks,
						known ? "freed, in use by another stream" :
							"freed, in use; by what is not known",
						.shade = VT_SHADE_IN_USE });
	print_waits(t, a);
}

static void print_torch_rows(const struct vt_table *t, const struct vt_model_allocator *a)
{
	vt_table_row(t, &(struct vt_table_row){ 0, "in use by PyTorch", a->allocated_bytes,
						a->allocated_blocks, .shade = VT_SHADE_IN_USE });
	if (a->private_allocated_bytes > 0)
		vt_table_row(t, &(struct vt_table_row){ 1, "of which in private pools",
							a->private_allocated_bytes,
							a->private_allocated_blocks,
							"CUDA graphs, MemPool", false });
	if (a->requested_known && a->rounding_bytes > 0)
		vt_table_row(t, &(struct vt_table_row){ 1, "of which lost to rounding",
							a->rounding_bytes, VT_NO_BLOCKS, NULL,
							false });
	if (a->awaiting_bytes > 0)
		print_awaiting(t, a);
	vt_table_row(t, &(struct vt_table_row){ 0, "cached by PyTorch", a->cached_bytes,
						a->cached_blocks, .shade = VT_SHADE_CACHED });
	if (a->private_cached_bytes > 0)
		vt_table_row(t, &(struct vt_table_row){ 1, "of which in private pools",
							a->private_cached_bytes,
							a->private_cached_blocks, NULL, false });
	if (a->cached_blocks > 0)
		vt_table_row(t, &(struct vt_table_row){ 1, "largest hole", a->largest_cached,
							VT_NO_BLOCKS, NULL, false });
}

/*
 * PyTorch's own counters: each is exact for its own moment, even if the blocks could not be walked.
 */
static void print_counters(const struct vt_table *t, const struct vt_model_allocator *a)
{
	const struct vt_torch_stats *s = &a->result.stats;

	if (!a->result.have_stats || a->result.result == VT_WALK_REFUSED)
		return;
	if (s->allocated_bytes.current >= 0)
		vt_table_row(t, &(struct vt_table_row){ 0, "in use, PyTorch's own counter",
							(uint64_t)s->allocated_bytes.current,
							VT_NO_BLOCKS, NULL, false });
	if (s->reserved_bytes.current >= 0)
		vt_table_row(t, &(struct vt_table_row){ 0, "reserved, PyTorch's own counter",
							(uint64_t)s->reserved_bytes.current,
							VT_NO_BLOCKS, NULL, false });
}

/* The driver's own pools, outside PyTorch: another library uses cudaMallocAsync. */
static void print_pools_beside(const struct vt_table *t, const struct vt_model_allocator *a)
{
	uint64_t reserved = vt_model_pools_reserved(t->device), used = 0;
	char number[VT_NUM_MAX], note[VT_NUM_MAX + 32];

	if (reserved == 0 || reserved > a->other_bytes)
		return; /* read a moment later: the numbers may not match */
	for (size_t i = 0; i < t->device->n_pools; i++)
		used += t->device->pools[i].used_bytes;
	snprintf(note, sizeof(note), "cudaMallocAsync, %s used", vt_format_size(number, used));
	vt_table_row(t, &(struct vt_table_row){ 1, "of which in the driver's pools", reserved,
						VT_NO_BLOCKS, note, true });
}

/*
 * The kernel driver's count tells this process's part from the others'. Only if it is of the same
 * moment.
 */
static bool print_shares(const struct vt_table *t, const struct vt_model_gpu *gpu,
			 const struct vt_model_allocator *a)
{
	if (!gpu || !gpu->is_ours || !gpu->ours_known || !gpu->memory_known ||
	    gpu->used_bytes != t->device->used_bytes || gpu->ours_bytes > gpu->used_bytes ||
	    gpu->ours_bytes < a->reserved_bytes)
		return false;
	vt_table_row(t, &(struct vt_table_row){ 0, "everything else", a->other_bytes, VT_NO_BLOCKS,
						NULL, false });
	vt_table_row(t, &(struct vt_table_row){ 1, "of which of this process",
						gpu->ours_bytes - a->reserved_bytes, VT_NO_BLOCKS,
						"other libraries, CUDA context", true });
	vt_table_row(t, &(struct vt_table_row){ 1, "of which of others",
						gpu->used_bytes - gpu->ours_bytes, VT_NO_BLOCKS,
						NULL, false });
	return true;
}

static void print_device_rows(const struct vt_table *t, const struct vt_model *model,
			      const struct vt_model_allocator *a)
{
	bool listed;

	if (!t->device)
		return;
	listed = vt_text_ledger_rows(t, model, a->device);
	if (a->other_known && !listed &&
	    !print_shares(t, vt_model_gpu(&model->usage, a->device), a))
		vt_table_row(t, &(struct vt_table_row){
					0, "everything else", a->other_bytes, VT_NO_BLOCKS,
					"other libraries, CUDA context, other processes", true });
	if (a->other_known && !listed)
		print_pools_beside(t, a);
	vt_table_row(t, &(struct vt_table_row){ 0, "free", t->device->free_bytes, VT_NO_BLOCKS,
						.shade = VT_SHADE_FREE });
}

__attribute__((format(printf, 2, 3))) static void add_stat(struct vt_str *text, const char *format,
							   ...)
{
	va_list args;

	vt_str_add(text, text->n ? " · " : "");
	va_start(args, format);
	vt_str_vaddf(text, format, args);
	va_end(args);
}

static void print_stats(struct vt_line *line, const struct vt_model_allocator *a)
{
	const struct vt_torch_stats *s = &a->result.stats;
	char number[VT_NUM_MAX];
	struct vt_str text = { 0 };

	if (!a->result.have_stats || a->result.result == VT_WALK_REFUSED)
		return;
	if (s->allocated_bytes.peak > 0)
		add_stat(&text, "peak %s in use",
			 vt_format_size(number, (uint64_t)s->allocated_bytes.peak));
	if (s->allocated_bytes.peak > 0 && s->reserved_bytes.peak > 0)
		vt_str_addf(&text, ", %s reserved",
			    vt_format_size(number, (uint64_t)s->reserved_bytes.peak));
	if (s->num_alloc_retries >= 0)
		add_stat(&text, "%s retr%s",
			 vt_format_count(number, (uint64_t)s->num_alloc_retries),
			 s->num_alloc_retries == 1 ? "y" : "ies");
	if (s->num_ooms >= 0)
		add_stat(&text, "%s out-of-memory error%s",
			 vt_format_count(number, (uint64_t)s->num_ooms),
			 s->num_ooms == 1 ? "" : "s");
	if (text.n > 0) {
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_PLAIN, vt_str_get(&text), 2, 3);
	}
	if (text.failed)
		line->buf.failed = true;
	vt_str_deinit(&text);
}

const char *vt_text_why_inexact(const struct vt_model_allocator *a)
{
	static const char *const why[] = {
		[VT_WALK_UNSTABLE] = "no exact totals: PyTorch's allocator was changing",
		[VT_WALK_REFUSED] = "not shown: PyTorch's allocator failed a check",
		[VT_WALK_TRUNCATED] = "no totals: the walk of PyTorch's allocator stopped early",
	};

	return a->result.result <= VT_WALK_TRUNCATED && why[a->result.result] ?
		       why[a->result.result] :
		       why[VT_WALK_REFUSED];
}

static void print_table(struct vt_line *line, const struct vt_model *model,
			const struct vt_model_allocator *a)
{
	const struct vt_model_device *device = vt_model_device(model, a->device);
	struct vt_table t = vt_table(line, device);
	uint64_t parts[VT_N_SHADES];

	if (a->exact) {
		t.shaded = device && vt_bar_fits(line) && vt_bar_parts(device, a, parts);
		print_head(&t, a);
		print_torch_rows(&t, a);
		print_device_rows(&t, model, a);
	} else {
		vt_text_title(line, NULL, "Memory of GPU %d", a->device);
		vt_line_pad(line, 2);
		vt_line_wrap(line, VT_WARN, vt_text_why_inexact(a), 2, 2);
		print_counters(&t, a);
	}
	print_stats(line, a);
	vt_text_ledger_beside(line, model, a->device);
}

/* ---- many devices: one line each ---- */

enum { GPU_COLUMNS = 6, CELL_COLUMNS = 10 };

static void print_cell(struct vt_line *line, bool known, uint64_t bytes)
{
	char number[VT_NUM_MAX];

	vt_line_right(line, VT_PLAIN, known ? vt_format_size(number, bytes) : "", CELL_COLUMNS);
}

/* Without a ledger, all that is not PyTorch's is in the rest. */
struct many {
	const struct vt_model_allocator *a;
	const struct vt_model_device *d;
	const struct vt_model_ledger_device *ledger; /* NULL: whose the rest is, is not known */
};

static bool many_in_use(const struct many *m, uint64_t *bytes)
{
	*bytes = m->a->allocated_bytes + m->a->awaiting_bytes;
	return true;
}

static bool many_cached(const struct many *m, uint64_t *bytes)
{
	*bytes = m->a->cached_bytes;
	return true;
}

static bool many_largest(const struct many *m, uint64_t *bytes)
{
	*bytes = m->a->largest_cached;
	return m->a->cached_blocks > 0;
}

static bool many_pools(const struct many *m, uint64_t *bytes)
{
	*bytes = 0;
	for (int i = VT_CLAIMER_LIBPOOLS; m->ledger && i < VT_N_CLAIMERS; i++)
		*bytes += m->ledger->claimed[i].bytes;
	return m->ledger;
}

static bool many_raw(const struct many *m, uint64_t *bytes)
{
	if (m->ledger)
		*bytes = m->ledger->kinds[VT_RANGE_DEVICE].bytes +
			 m->ledger->kinds[VT_RANGE_MAPPED].bytes;
	return m->ledger;
}

static bool many_others(const struct many *m, uint64_t *bytes)
{
	*bytes = 0;
	for (int kind = 0; m->ledger && kind < VT_N_RANGE_KINDS; kind++)
		if (vt_range_is_of_device((uint8_t)kind) && kind != VT_RANGE_DEVICE &&
		    kind != VT_RANGE_MAPPED)
			*bytes += m->ledger->kinds[kind].bytes;
	return m->ledger;
}

static bool many_rest(const struct many *m, uint64_t *bytes)
{
	*bytes = m->ledger ? m->ledger->rest_bytes : m->a->other_bytes;
	return m->ledger ? m->ledger->rest_known : m->a->other_known;
}

static bool many_free(const struct many *m, uint64_t *bytes)
{
	*bytes = m->d ? m->d->free_bytes : 0;
	return m->d && m->d->have_memory;
}

static const struct {
	const char *head;
	bool (*of)(const struct many *m, uint64_t *bytes);
	int columns; /* that the terminal must have */
	bool listed; /* there if the driver's list is known */
} many_columns[] = {
	{ "in use", many_in_use, 0, false },    { "cached", many_cached, 0, false },
	{ "largest", many_largest, 88, false }, { "libraries", many_pools, 68, true },
	{ "raw", many_raw, 68, true },          { "driver's", many_others, 78, true },
	{ "rest", many_rest, 68, false },       { "free", many_free, 0, false },
};

#define N_MANY (sizeof(many_columns) / sizeof(many_columns[0]))

static bool is_many_shown(const struct vt_line *line, size_t column, bool listed)
{
	return line->columns >= many_columns[column].columns &&
	       (listed || !many_columns[column].listed);
}

static void print_many_row(struct vt_line *line, const struct many *m, bool listed)
{
	vt_line_pad(line, 2);
	vt_line_addf(line, VT_PLAIN, "%d", m->a->device);
	vt_line_pad(line, 2 + GPU_COLUMNS);
	if (!m->a->exact) {
		vt_line_add(line, VT_WARN, vt_text_why_inexact(m->a));
		vt_line_end(line);
		return;
	}
	for (size_t i = 0; i < N_MANY; i++) {
		uint64_t bytes = 0;
		bool known = many_columns[i].of(m, &bytes);

		if (is_many_shown(line, i, listed))
			print_cell(line, known, bytes);
	}
	vt_line_end(line);
}

static void print_many_note(struct vt_line *line, bool listed)
{
	static const char *const words[N_MANY] = {
		"in use, cached: PyTorch's",
		NULL,
		"largest: hole of its cache",
		"libraries: pools of others",
		"raw: cudaMalloc and cuMemMap that nobody claims",
		"driver's: its pools, graphs, arrays, code",
		NULL,
		NULL,
	};
	struct vt_str text = { 0 };

	if (vt_bar_fits(line))
		vt_str_add(&text, "Bars: █ in use, ▓ others, ▒ cached, ░ free. ");
	for (size_t i = 0; i < N_MANY; i++)
		if (words[i] && is_many_shown(line, i, listed))
			vt_str_addf(&text, "%s. ", words[i]);
	if (is_many_shown(line, N_MANY - 2, listed))
		vt_str_add(&text, listed ? "rest: contexts, other processes" :
					   "rest: other libraries, contexts, other processes");
	else
		vt_str_add(&text, "A wider terminal shows more");
	vt_line_pad(line, 2);
	vt_line_wrap(line, VT_DIM, vt_str_get(&text), 2, 3);
	line->buf.failed |= text.failed;
	vt_str_deinit(&text);
}

static void print_many(struct vt_line *line, const struct vt_model *model)
{
	bool listed = model->ledger.known;

	vt_text_title(line, NULL, "Memory by GPU");
	vt_line_pad(line, 2 + GPU_COLUMNS);
	for (size_t i = 0; i < N_MANY; i++)
		if (is_many_shown(line, i, listed))
			vt_line_right(line, VT_DIM, many_columns[i].head, CELL_COLUMNS);
	vt_line_end(line);
	for (size_t i = 0; i < model->allocators.n; i++) {
		const struct vt_model_allocator *a = &model->allocators.data[i];
		struct many m = { a, vt_model_device(model, a->device),
				  vt_model_ledger_device(model, a->device) };

		if (m.ledger && !m.ledger->claims_known)
			m.ledger = NULL;
		if (!never_used(a))
			print_many_row(line, &m, listed);
	}
	print_many_note(line, listed);
}

/* ---- the driver's pools, if PyTorch has no memory ---- */

static void print_pool_rows(const struct vt_table *t, const struct vt_model_pool *pool)
{
	vt_table_row(t,
		     &(struct vt_table_row){ 0,
					     pool->is_current ? "in use from the process's pool" :
								"in use from the driver's pool",
					     pool->used_bytes, VT_NO_BLOCKS, NULL, false });
	vt_table_row(t, &(struct vt_table_row){ 0,
						pool->is_current ? "kept by the process's pool" :
								   "kept by the driver's pool",
						pool->reserved_bytes - pool->used_bytes,
						VT_NO_BLOCKS, NULL, false });
}

static void print_pool_peaks(struct vt_line *line, const struct vt_model_pool *pool)
{
	char used[VT_NUM_MAX], reserved[VT_NUM_MAX];

	vt_line_pad(line, 2);
	vt_line_addf(line, VT_PLAIN, "peak %s in use, %s reserved",
		     vt_format_size(used, pool->used_high_bytes),
		     vt_format_size(reserved, pool->reserved_high_bytes));
	vt_line_end(line);
}

static void print_pools(struct vt_line *line, const struct vt_model_device *d)
{
	uint64_t reserved = vt_model_pools_reserved(d);
	struct vt_table t = vt_table(line, d);

	vt_line_blank(line);
	vt_line_addf(line, VT_BOLD, "Memory of GPU %d", d->ordinal);
	vt_line_add(line, VT_DIM, ", cudaMallocAsync");
	vt_line_pad(line, 2 + t.label_columns);
	vt_line_right(line, VT_DIM, "size", VT_TABLE_BYTES_COLUMNS);
	vt_line_right(line, VT_DIM, "", VT_TABLE_BLOCKS_COLUMNS);
	vt_line_right(line, VT_DIM, t.device ? "of GPU" : "", VT_TABLE_SHARE_COLUMNS);
	vt_line_end(line);
	for (size_t i = 0; i < d->n_pools; i++)
		print_pool_rows(&t, &d->pools[i]);
	if (t.device && d->used_bytes >= reserved)
		vt_table_row(&t,
			     &(struct vt_table_row){
				     0, "everything else", d->used_bytes - reserved, VT_NO_BLOCKS,
				     "other libraries, CUDA context, other processes", true });
	if (t.device)
		vt_table_row(&t, &(struct vt_table_row){ 0, "free", d->free_bytes, VT_NO_BLOCKS,
							 NULL, false });
	for (size_t i = 0; i < d->n_pools; i++)
		print_pool_peaks(line, &d->pools[i]);
}

static void print_all_pools(struct vt_line *line, const struct vt_model *model)
{
	for (size_t i = 0; i < model->devices.n; i++) {
		const struct vt_model_device *d = &model->devices.data[i];
		uint64_t ever = 0;

		for (size_t k = 0; k < d->n_pools; k++)
			ever |= d->pools[k].reserved_high_bytes | d->pools[k].reserved_bytes;
		if (ever)
			print_pools(line, d);
	}
}

void vt_text_memory(struct vt_line *line, const struct vt_model *model)
{
	size_t used = 0;

	for (size_t i = 0; i < model->allocators.n; i++)
		used += !never_used(&model->allocators.data[i]);
	if (used > MAX_TABLES) {
		print_many(line, model);
		return;
	}
	for (size_t i = 0; i < model->allocators.n; i++)
		if (!never_used(&model->allocators.data[i]) || used == 0)
			print_table(line, model, &model->allocators.data[i]);
	if (model->allocators.n == 0 && model->process.uses_cuda && model->torch_state &&
	    !(model->torch_state == VT_ALLOCATOR_NOT_LOADED && model->ledger.known)) {
		vt_line_blank(line);
		vt_line_addf(line, VT_PLAIN, "PyTorch's allocator: %s.",
			     vt_allocator_state_words(model->torch_state));
		vt_line_end(line);
	}
	if (model->allocators.n == 0 && !vt_text_ledger(line, model))
		print_all_pools(line, model);
	if (!model->ledger.known)
		vt_text_libpools_alone(line, model);
	vt_text_libpool_blocks(line, model);
}
