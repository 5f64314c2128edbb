/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cuda-gdb prints, 12.x and 13.x. Its tables have a line with the names of the columns; which
 * columns there are, and in which order, differs between versions, so rows are read by these names.
 * A cell is a word; the one cell of a row that is a text (a file, the invocation of a kernel, which
 * may have blanks or be empty) is what the words before and after it leave.
 */
#include <limits.h>
#include <string.h>

#include "base/span.h"
#include "kernels/kernels.h"

#define MAX_COLUMNS 16
#define MAX_ROWS 65536 /* of threads; the densest table of one device has 8448 warps */
#define MAX_TEXT 4096  /* names of PyTorch's kernels have up to 2000 bytes */

enum column {
	COL_OTHER, /* a word that nothing here needs */
	COL_KERNEL,
	COL_PARENT,
	COL_DEVICE,
	COL_GRID,
	COL_STATUS,
	COL_SMS,
	COL_GRID_DIM,
	COL_BLOCK_DIM,
	COL_INVOCATION,
	COL_COUNT,
	COL_PC,
	COL_FILE,
	COL_LINE,
};

/* Names of several words come before those that they begin with. */
static const struct {
	const char *name;
	enum column column;
} column_names[] = {
	{ "SMs Mask", COL_SMS },
	{ "Virtual PC", COL_PC },
	{ "To BlockIdx", COL_OTHER },
	{ "Kernel", COL_KERNEL },
	{ "Parent", COL_PARENT },
	{ "Dev", COL_DEVICE },
	{ "Grid", COL_GRID },
	{ "Status", COL_STATUS },
	{ "GridDim", COL_GRID_DIM },
	{ "BlockDim", COL_BLOCK_DIM },
	{ "Invocation", COL_INVOCATION },
	{ "Count", COL_COUNT },
	{ "PC", COL_PC },
	{ "Filename", COL_FILE },
	{ "Line", COL_LINE },
};

#define N_COLUMN_NAMES (sizeof(column_names) / sizeof(column_names[0]))

struct table {
	enum column columns[MAX_COLUMNS];
	size_t n, text; /* text: which column is one; n: none */
};

/* What the lines that follow belong to. */
enum part { PART_NONE, PART_KERNELS, PART_THREADS };

struct parser {
	struct vt_model_kernels *kernels;
	struct vt_arena *arena;
	struct table table;
	enum part part;
	struct vt_model_kernel *kernel; /* that rows of threads are of; NULL: of none */
	bool listed[VT_KERNELS_MAX];    /* by index: its threads were shown */
	bool have_focus;
	uint32_t wanted, focus; /* after "cuda kernel N": what was asked for, what is shown */
	bool focus_is_kernel;   /* the innermost frame is the kernel itself */
	bool saw_none, saw_devices, detached, answers;
	struct vt_span last; /* line before any answer that says something */
	const char *file;    /* the last one: most rows have the same */
	struct vt_span file_span;
	bool nomem;
};

/* ---- spans ---- */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

static struct vt_span trim(struct vt_span s)
{
	while (s.n && is_blank(*s.p)) {
		s.p++;
		s.n--;
	}
	while (s.n && is_blank(s.p[s.n - 1]))
		s.n--;
	return s;
}

static bool equals(struct vt_span s, const char *text)
{
	return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

static bool ends_with(struct vt_span s, const char *text)
{
	size_t n = strlen(text);

	return s.n >= n && !memcmp(s.p + s.n - n, text, n);
}

/* What is behind text, which is looked for in s. */
static bool find(struct vt_span s, const char *text, struct vt_span *behind)
{
	size_t n = strlen(text);
	const char *at = s.n ? memmem(s.p, s.n, text, n) : NULL;

	if (!at)
		return false;
	behind->p = at + n;
	behind->n = s.n - (size_t)(behind->p - s.p);
	return true;
}

static struct vt_span take_word(struct vt_span *s)
{
	struct vt_span word;

	*s = trim(*s);
	word = (struct vt_span){ s->p, 0 };
	while (s->n && !is_blank(*s->p)) {
		word.n++;
		s->p++;
		s->n--;
	}
	return word;
}

static struct vt_span take_last_word(struct vt_span *s)
{
	struct vt_span word;

	*s = trim(*s);
	word = (struct vt_span){ s->p + s->n, 0 };
	while (s->n && !is_blank(s->p[s->n - 1])) {
		word.p--;
		word.n++;
		s->n--;
	}
	return word;
}

static int digit_of(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	if (c >= 'A' && c <= 'F')
		return c - 'A' + 10;
	return INT_MAX;
}

/* Takes the digits off the begin; false: there are none, or too many. */
static bool take_digits(struct vt_span *s, int base, uint64_t *value)
{
	uint64_t all = 0;
	const char *begin = s->p;

	while (s->n && digit_of(*s->p) < base) {
		if (all > (UINT64_MAX - 15) / (unsigned int)base)
			return false;
		all = all * (unsigned int)base + (unsigned int)digit_of(*s->p);
		s->p++;
		s->n--;
	}
	*value = all;
	return s->p > begin;
}

/* All of s. */
static bool decimal(struct vt_span s, uint64_t most, uint64_t *value)
{
	return take_digits(&s, 10, value) && !s.n && *value <= most;
}

static bool take_hex(struct vt_span *s, uint64_t *value)
{
	return vt_span_take(s, "0x") && take_digits(s, 16, value);
}

static bool hex(struct vt_span s, uint64_t *value)
{
	return take_hex(&s, value) && !s.n;
}

/* "(40,1,1)" */
static bool triple(struct vt_span s, uint32_t dim[3])
{
	uint64_t value[3];

	for (int i = 0; i < 3; i++)
		if (!vt_span_take(&s, i ? "," : "(") || !take_digits(&s, 10, &value[i]) ||
		    value[i] > UINT32_MAX)
			return false;
	if (!equals(s, ")"))
		return false;
	for (int i = 0; i < 3; i++)
		dim[i] = (uint32_t)value[i];
	return true;
}

/* Each multiprocessor is a bit of a mask that has more than 64 of them. */
static unsigned int bits_of(struct vt_span s)
{
	unsigned int n = 0;

	if (!vt_span_take(&s, "0x"))
		return 0;
	for (size_t i = 0; i < s.n; i++) {
		if (digit_of(s.p[i]) >= 16)
			return 0;
		n += (unsigned int)__builtin_popcount((unsigned int)digit_of(s.p[i]));
	}
	return n;
}

static const char *copy(struct parser *p, struct vt_span s)
{
	size_t n = s.n < MAX_TEXT ? s.n : MAX_TEXT;
	const char *text = vt_arena_strndup(p->arena, n ? s.p : "", n); /* p: NULL for no cell */

	p->nomem |= !text;
	return text;
}

/* ---- tables ---- */

static enum column take_column(struct vt_span *s)
{
	for (size_t i = 0; i < N_COLUMN_NAMES; i++) {
		struct vt_span rest = *s;

		if (vt_span_take(&rest, column_names[i].name) && (!rest.n || is_blank(*rest.p))) {
			*s = rest;
			return column_names[i].column;
		}
	}
	(void)take_word(s);
	return COL_OTHER;
}

static bool has_column(const struct table *table, enum column column)
{
	for (size_t i = 0; i < table->n; i++)
		if (table->columns[i] == column)
			return true;
	return false;
}

/* Whether the line has the names of a table that is read here. */
static enum part begin_table(struct table *table, struct vt_span line)
{
	table->n = 0;
	for (line = trim(line); line.n; line = trim(line)) {
		if (table->n == MAX_COLUMNS)
			return PART_NONE;
		table->columns[table->n++] = take_column(&line);
	}
	table->text = table->n;
	for (size_t i = 0; i < table->n; i++)
		if (table->columns[i] == COL_INVOCATION || table->columns[i] == COL_FILE)
			table->text = i;
	if (has_column(table, COL_KERNEL) && has_column(table, COL_GRID) &&
	    has_column(table, COL_INVOCATION))
		return PART_KERNELS;
	if (has_column(table, COL_COUNT) && has_column(table, COL_PC))
		return PART_THREADS;
	return PART_NONE;
}

/* The cells of a row, by column; one that is not there is empty. False: it has another form. */
static bool split(const struct table *table, struct vt_span row, struct vt_span cells[COL_LINE + 1])
{
	memset(cells, 0, (COL_LINE + 1) * sizeof(*cells));
	row = trim(row);
	if (row.n && *row.p == '*') { /* the focus */
		row.p++;
		row.n--;
	}
	for (size_t i = 0; i < table->text; i++) {
		struct vt_span word = take_word(&row);

		if (!word.n)
			return false;
		cells[table->columns[i]] = word;
	}
	for (size_t i = table->n; i-- > table->text + 1;) {
		struct vt_span word = take_last_word(&row);

		if (!word.n)
			return false;
		cells[table->columns[i]] = word;
	}
	row = trim(row);
	if (table->text == table->n)
		return !row.n;
	cells[table->columns[table->text]] = row;
	return true;
}

/* "f(int)(n=3)" and "f()" without the arguments at the end. */
static struct vt_span without_arguments(struct vt_span s)
{
	int depth = 0;

	if (!s.n || s.p[s.n - 1] != ')')
		return s;
	for (size_t i = s.n; i-- > 1;) {
		depth += s.p[i] == ')';
		depth -= s.p[i] == '(';
		if (!depth)
			return (struct vt_span){ s.p, i };
	}
	return s;
}

static struct vt_model_kernel *kernel_of(struct parser *p, uint32_t number)
{
	for (size_t i = 0; i < p->kernels->kernels.n; i++)
		if (p->kernels->kernels.data[i].number == number)
			return &p->kernels->kernels.data[i];
	return NULL;
}

/* Below 0 where another kernel launched it. */
static bool grid_number(struct vt_span s, int64_t *number)
{
	bool below = vt_span_take(&s, "-");
	uint64_t value;

	if (!decimal(s, INT64_MAX, &value))
		return false;
	*number = below ? -(int64_t)value : (int64_t)value;
	return true;
}

static void add_kernel(struct parser *p, struct vt_span row)
{
	struct vt_span cells[COL_LINE + 1];
	struct vt_model_kernel kernel = { .parent = -1 }, *added;
	uint64_t number, device, parent;

	if (!split(&p->table, row, cells) || !decimal(cells[COL_KERNEL], UINT32_MAX, &number) ||
	    !decimal(cells[COL_DEVICE], 1023, &device) ||
	    !grid_number(cells[COL_GRID], &kernel.grid) || kernel_of(p, (uint32_t)number))
		return;
	if (p->kernels->kernels.n == VT_KERNELS_MAX) {
		p->kernels->more++;
		return;
	}
	kernel.number = (uint32_t)number;
	kernel.device = (int)device;
	if (decimal(cells[COL_PARENT], INT_MAX, &parent)) /* else "-" */
		kernel.parent = (int)parent;
	kernel.sms = bits_of(cells[COL_SMS]);
	if (!triple(cells[COL_GRID_DIM], kernel.grid_dim) ||
	    !triple(cells[COL_BLOCK_DIM], kernel.block_dim)) {
		memset(kernel.grid_dim, 0, sizeof(kernel.grid_dim));
		memset(kernel.block_dim, 0, sizeof(kernel.block_dim));
	}
	kernel.status = copy(p, cells[COL_STATUS]);
	kernel.name = copy(p, without_arguments(cells[COL_INVOCATION]));
	added = p->nomem ? NULL : vt_vec_append(&p->kernels->kernels);
	p->nomem |= !added;
	if (added)
		*added = kernel;
}

static const char *file_of(struct parser *p, struct vt_span file)
{
	if (!file.n)
		return NULL;
	if (p->file && p->file_span.n == file.n && !memcmp(p->file_span.p, file.p, file.n))
		return p->file;
	p->file = copy(p, file);
	p->file_span = file;
	return p->file;
}

static void add_threads(struct parser *p, struct vt_span row)
{
	struct vt_model_kernel_place place = { 0 }, *added;
	struct vt_span cells[COL_LINE + 1];
	uint64_t line;

	if (!p->kernel || p->kernels->places.n == MAX_ROWS || !split(&p->table, row, cells) ||
	    !decimal(cells[COL_COUNT], UINT32_MAX, &place.threads) ||
	    !hex(cells[COL_PC], &place.pc))
		return;
	place.kernel = (uint32_t)(p->kernel - p->kernels->kernels.data);
	/* Without line information the file is empty, and the line is 0. */
	if (decimal(cells[COL_LINE], INT_MAX, &line) && line) {
		place.file = file_of(p, cells[COL_FILE]);
		place.line = place.file ? (int)line : 0;
	}
	added = vt_vec_append(&p->kernels->places);
	p->nomem |= !added;
	if (added)
		*added = place;
}

/* Where the focus could not be moved, the same kernel is shown again. */
static void begin_threads(struct parser *p, uint32_t number)
{
	size_t i;

	p->kernel = kernel_of(p, number);
	if (!p->kernel)
		return;
	i = (size_t)(p->kernel - p->kernels->kernels.data);
	if (p->listed[i])
		p->kernel = NULL;
	p->listed[i] = true;
}

/* ---- lines ---- */

/* "@@ kernel 3": what we have it print before its answers. */
static void begin_answer(struct parser *p, struct vt_span what)
{
	uint64_t number;

	p->answers = true;
	p->part = PART_NONE;
	p->kernel = NULL;
	p->have_focus = p->focus_is_kernel = false;
	p->wanted = UINT32_MAX;
	if (vt_span_take(&what, "kernel ") && decimal(trim(what), UINT32_MAX - 1, &number))
		p->wanted = (uint32_t)number;
}

/* After "cuda kernel N"; a kernel that does not exist leaves the focus where it is. */
static bool read_focus(struct parser *p, struct vt_span line)
{
	uint64_t number;
	struct vt_span rest;

	if (p->wanted == UINT32_MAX)
		return false;
	if (equals(line, "CUDA focus unchanged.")) {
		p->have_focus = true;
		p->focus = p->wanted;
		return true;
	}
	if (!find(line, "[Switching focus to CUDA kernel ", &rest) || rest.p[-1] != ' ' ||
	    !take_digits(&rest, 10, &number))
		return false;
	p->have_focus = number == p->wanted;
	p->focus = p->wanted;
	return true;
}

/*
 * "Line 8 of "x.cu" starts at address 0x7f00 <f+176> and ends …", or "No line number information
 * available for address 0x7f00 <f+192>": where the code of the function begins.
 */
static void read_begin(struct parser *p, struct vt_span line)
{
	struct vt_model_kernel *kernel =
		p->have_focus && p->focus_is_kernel ? kernel_of(p, p->focus) : NULL;
	uint64_t address, offset = 0;
	struct vt_span rest;

	if (!kernel || kernel->have_begin)
		return;
	if (!find(line, " starts at address ", &rest) &&
	    !find(line, "No line number information available for address ", &rest))
		return;
	if (!take_hex(&rest, &address) || !vt_span_take(&rest, " <"))
		return;
	while (rest.n && *rest.p != '+' && *rest.p != '>') {
		rest.p++;
		rest.n--;
	}
	if (vt_span_take(&rest, "+") &&
	    (!take_digits(&rest, 10, &offset) || !vt_span_take(&rest, ">")))
		return;
	if (offset > address)
		return;
	kernel->have_begin = true;
	kernel->begin = address - offset;
}

static void add_raised(struct parser *p, struct vt_span text)
{
	const char **added;

	text = trim(text);
	if (!text.n || p->kernels->raised.n == VT_KERNELS_MAX_RAISED)
		return;
	for (size_t i = 0; i < p->kernels->raised.n; i++)
		if (equals(text, p->kernels->raised.data[i]))
			return;
	added = vt_vec_append(&p->kernels->raised);
	p->nomem |= !added;
	if (added)
		*added = copy(p, text);
}

/*
 * "CUDA Exception: Warp Illegal Address", and "Thread 1 "x" received signal CUDA_EXCEPTION_14, Warp
 * Illegal Address."
 */
static void read_raised(struct parser *p, struct vt_span line)
{
	struct vt_span rest = line;

	if (vt_span_take(&rest, "CUDA Exception: ")) {
		add_raised(p, rest);
		return;
	}
	if (!find(line, " received signal CUDA_EXCEPTION_", &rest) || !find(rest, ", ", &rest))
		return;
	if (ends_with(rest, "."))
		rest.n--;
	add_raised(p, rest);
}

/* What it says before the first answer tells why there is none; its crash report does not. */
static void remember(struct parser *p, struct vt_span line)
{
	struct vt_span rest = line;

	if (p->answers || !line.n || *line.p == '[')
		return;
	if (vt_span_take(&rest, "Fatal signal: "))
		p->answers = true;
	else if (!vt_span_take(&rest, "Using host libthread_db"))
		p->last = line;
}

static void read_line(struct parser *p, struct vt_span line)
{
	struct vt_span rest = trim(line);
	enum part part;
	uint64_t number;

	if (vt_span_take(&rest, "@@ ")) {
		begin_answer(p, rest);
		return;
	}
	remember(p, rest);
	p->saw_none |= equals(rest, "No CUDA kernels.");
	p->saw_devices |= vt_span_take(&rest, "Dev PCI Bus/Dev ID");
	p->detached |= vt_span_take(&rest, "[Inferior ") && ends_with(rest, " detached]");
	if (!rest.n || read_focus(p, rest)) {
		p->part = rest.n ? p->part : PART_NONE;
		return;
	}
	read_raised(p, rest);
	if (vt_span_take(&rest, "#0 ")) {
		p->focus_is_kernel = find(rest, "<<<(", &rest);
		return;
	}
	read_begin(p, rest);
	part = begin_table(&(struct table){ 0 }, rest);
	if (part != PART_NONE) {
		p->part = begin_table(&p->table, rest);
		p->kernel = NULL;
		return;
	}
	if (p->part == PART_THREADS && vt_span_take(&rest, "Kernel ") &&
	    decimal(trim(rest), UINT32_MAX, &number)) {
		begin_threads(p, (uint32_t)number);
		return;
	}
	if (p->part == PART_KERNELS)
		add_kernel(p, line);
	else if (p->part == PART_THREADS)
		add_threads(p, line);
}

static const char *why_failed(struct parser *p)
{
	if (p->last.n)
		return copy(p, p->last);
	if (p->saw_none && !p->saw_devices)
		return "it saw no CUDA device in the process";
	return NULL;
}

bool vt_kernels_parse(struct vt_model_kernels *kernels, struct vt_arena *arena, const char *said,
		      size_t n, bool holds)
{
	struct parser p = { .kernels = kernels, .arena = arena, .wanted = UINT32_MAX };

	while (n && !p.nomem) {
		const char *end = memchr(said, '\n', n);
		size_t length = end ? (size_t)(end - said) : n;

		/* The last line may be cut. */
		if (end)
			read_line(&p, (struct vt_span){ said, length });
		else
			remember(&p, trim((struct vt_span){ said, length }));
		said += length + (end ? 1 : 0);
		n -= length + (end ? 1 : 0);
	}
	vt_model_kernels_finish(kernels);
	if (kernels->kernels.n)
		kernels->state = VT_KERNELS_TOLD;
	else if (p.saw_none && p.saw_devices && (p.detached || holds))
		kernels->state = VT_KERNELS_NONE;
	else
		kernels->state = VT_KERNELS_FAILED;
	if (kernels->state == VT_KERNELS_FAILED)
		kernels->why = why_failed(&p);
	return !p.nomem;
}
