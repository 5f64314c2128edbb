/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads RAS's text output (all NCCL releases with RAS): a table of communicators, with one row for
 * equal ones, then the faults of each; for many ranks it gives only their number. Our tables have
 * every known line; a paragraph with any other line is kept unchanged, and nothing is concluded
 * from it.
 */
#include <limits.h>
#include <string.h>

#include "job/ras/reading.h"

#define MAX_NUMBERS 6
#define MAX_WORDS 3
#define MAX_DIGITS 18
#define MAX_ROWS 1024
#define MAX_RANK (1 << 24)

/* ---- a line ---- */

struct span {
	const char *at, *end;
};

struct fields {
	uint64_t numbers[MAX_NUMBERS];
	struct span words[MAX_WORDS];
	size_t n_numbers, n_words;
};

static size_t length(const struct span *span)
{
	return (size_t)(span->end - span->at);
}

static bool take_prefix(struct span *span, const char *text, size_t n)
{
	if (length(span) < n || memcmp(span->at, text, n) != 0)
		return false;
	span->at += n;
	return true;
}

static bool take_number(struct span *span, struct fields *fields)
{
	const char *begin = span->at;
	uint64_t value = 0;

	for (; span->at < span->end && *span->at >= '0' && *span->at <= '9' &&
	       span->at - begin <= MAX_DIGITS;
	     span->at++)
		value = value * 10 + (uint64_t)(*span->at - '0');
	if (span->at == begin || span->at - begin > MAX_DIGITS || fields->n_numbers == MAX_NUMBERS)
		return false;
	fields->numbers[fields->n_numbers++] = value;
	return true;
}

/* Up to a blank, or the whole text. */
static bool take_words(struct span *span, bool all, struct fields *fields)
{
	const char *blank = all ? NULL : memchr(span->at, ' ', length(span));
	struct span word = { span->at, blank ? blank : span->end };

	if (word.at == word.end || fields->n_words == MAX_WORDS)
		return false;
	fields->words[fields->n_words++] = word;
	span->at = word.end;
	return true;
}

static bool take_blanks(struct span *span)
{
	const char *begin = span->at;

	while (span->at < span->end && *span->at == ' ')
		span->at++;
	return span->at > begin;
}

/*
 * In a pattern, % is a number, @ a word, ~ the rest, _ blanks, and {...} is optional. It matches
 * the whole line.
 */
static bool is_line(struct span line, const char *pattern, struct fields *fields)
{
	bool ok = true;

	*fields = (struct fields){ 0 };
	for (; *pattern && ok; pattern++) {
		if (*pattern == '%') {
			ok = take_number(&line, fields);
		} else if (*pattern == '@' || *pattern == '~') {
			ok = take_words(&line, *pattern == '~', fields);
		} else if (*pattern == '_') {
			ok = take_blanks(&line);
		} else if (*pattern == '{') {
			size_t n = strcspn(pattern, "}");

			(void)take_prefix(&line, pattern + 1, n - 1);
			pattern += n;
		} else {
			ok = take_prefix(&line, pattern, 1);
		}
	}
	return ok && line.at == line.end;
}

/* ---- the document ---- */

enum section { SECTION_HEAD, SECTION_TABLE, SECTION_ERRORS, SECTION_WARNINGS };

struct reading {
	struct vt_ras_reading *r;
	enum section section;
	int sizes[MAX_ROWS]; /* of the communicators of each row */
	size_t n_rows;
	uint64_t n_ill, n_told;   /* faulty communicators: in the table, and with details */
	struct vt_ras_group like; /* what the lines are about */
	bool is_about;            /* like is known */
	const char *paragraph;    /* NULL between them */
	bool odd;                 /* it has an unknown line */
};

static const char *intern(struct reading *t, const struct span *text)
{
	const char *copy = vt_job_text(t->r->job, text->at, length(text));

	return copy ? copy : "";
}

static const char *nothing(struct reading *t)
{
	return intern(t, &(struct span){ "", "" });
}

/* Named ranks are among the number given before; a single one has no number. */
static void add_rank(struct reading *t, uint64_t rank, const struct fields *who)
{
	struct vt_ras_group *group = vt_ras_group(t->r, &t->like);
	struct span host = who->n_words ? who->words[who->n_words - 1] : (struct span){ "", "" };
	uint64_t said = group ? group->n : 0,
		 pid = who->n_numbers ? who->numbers[who->n_numbers - 1] : 0;

	if (!group)
		return;
	if ((rank > MAX_RANK && rank != UINT64_MAX) || pid > INT_MAX) {
		t->odd = true;
		return;
	}
	vt_ras_add_rank(t->r, group, rank == UINT64_MAX ? -1 : (int)rank, (pid_t)pid, host.at,
			length(&host));
	if (group->ranks.n <= said)
		group->n = said;
}

static void set_number(struct reading *t, uint64_t n)
{
	struct vt_ras_group *group = n <= MAX_RANK ? vt_ras_group(t->r, &t->like) : NULL;

	t->odd |= n > MAX_RANK;
	if (group && group->n < n)
		group->n = n;
}

static void begin(struct reading *t, enum vt_ras_about about)
{
	t->like.about = about;
	t->like.what = nothing(t);
	t->like.count = 0;
	t->is_about = true;
}

/* ---- effects of lines ---- */

typedef void line_fn(struct reading *t, const struct fields *f, enum vt_ras_about about);

static void on_nothing(struct reading *t, const struct fields *f, enum vt_ras_about about)
{
	(void)t;
	(void)f;
	(void)about;
}

/* About processes of the job. */
static void on_job(struct reading *t, const struct fields *f, enum vt_ras_about about)
{
	(void)f;
	t->like = (struct vt_ras_group){ .communicator = "", .size = -1 };
	begin(t, about);
}

/*
 * "#0-3 (0123456789abcdef) MISMATCH": row, index among its communicators, hash. Other lines tell
 * the subject.
 */
static void on_communicator(struct reading *t, const struct fields *f, enum vt_ras_about about)
{
	struct span hash = f->words[0];

	t->n_told++;
	if (hash.end[-1] == ')')
		hash.end--;
	t->like = (struct vt_ras_group){ .communicator = intern(t, &hash), .size = -1 };
	if (f->numbers[0] < t->n_rows)
		t->like.size = t->sizes[f->numbers[0]];
	begin(t, about);
	t->is_about = about == VT_RAS_ABSENT;
}

static void on_what(struct reading *t, const struct fields *f, enum vt_ras_about about)
{
	begin(t, about);
	if (about == VT_RAS_COUNT && f->n_words)
		t->like.what = intern(t, &f->words[0]);
}

static void on_number(struct reading *t, const struct fields *f, enum vt_ras_about about)
{
	(void)about;
	if (t->like.about == VT_RAS_COUNT)
		t->like.count = f->n_numbers > 1 ? f->numbers[1] : 0;
	else if (f->n_words)
		t->like.what = intern(t, &f->words[0]);
	set_number(t, f->numbers[0]);
}

static void on_process(struct reading *t, const struct fields *f, enum vt_ras_about about)
{
	struct fields who = {
		.numbers = { f->numbers[0] }, .n_numbers = 1, .words = { f->words[0] }, .n_words = 1
	};

	(void)about;
	add_rank(t, UINT64_MAX, &who);
}

/* 2.24 and 2.25: "  The missing ranks: 1,2,5". These releases do not know their processes. */
static void on_list(struct reading *t, const struct fields *f, enum vt_ras_about about)
{
	struct span list = f->words[0];

	(void)about;
	while (list.at < list.end) {
		struct fields rank = { 0 };

		if (!take_number(&list, &rank) ||
		    (list.at < list.end && !take_prefix(&list, ",", 1))) {
			t->odd = true;
			return;
		}
		add_rank(t, rank.numbers[0], &(struct fields){ 0 });
	}
}

#define IN(about) (1u << (about))
#define ANY (IN(VT_RAS_N_ABOUT) - 1)

/* The lines in the sections of errors and warnings. */
static const struct line {
	const char *pattern;
	unsigned int in; /* allowed subjects before it; 0: any */
	line_fn *fn;
	enum vt_ras_about about;
} lines[] = {
	{ "TIMEOUT", 0, on_nothing, 0 },
	{ "  Encountered % communication timeout{s} while gathering communicator data", 0,
	  on_nothing, 0 },
	{ "DEAD", 0, on_job, VT_RAS_DEAD },
	{ "INCOMPLETE", 0, on_job, VT_RAS_SILENT },
	{ "#%-% (@ INCOMPLETE", 0, on_communicator, VT_RAS_ABSENT },
	{ "#%-% (@ ERROR", 0, on_communicator, VT_RAS_ERROR },
	{ "#%-% (@ MISMATCH", 0, on_communicator, VT_RAS_STATUS },
	{ "  % job process{es are}{ is} considered dead (unreachable via the RAS network)",
	  IN(VT_RAS_DEAD), on_number, 0 },
	{ "  Missing communicator data from % job process{es}", IN(VT_RAS_SILENT), on_number, 0 },
	{ "  Process % on node @ managing GPU{s} ~", IN(VT_RAS_DEAD) | IN(VT_RAS_SILENT),
	  on_process, 0 },
	{ "  [could not find information on % process{es}]", IN(VT_RAS_DEAD) | IN(VT_RAS_SILENT),
	  on_nothing, 0 },
	{ "  Missing communicator data from % rank{s}", IN(VT_RAS_ABSENT), on_number, 0 },
	{ "  The missing rank{s}: @", IN(VT_RAS_ABSENT), on_list, 0 },
	{ "  Initialization error{s} on % rank{s}", 0, on_what, VT_RAS_ERROR },
	{ "  Asynchronous error{s} on % rank{s}", 0, on_what, VT_RAS_ERROR },
	{ "  % ranks reported ~", IN(VT_RAS_ERROR), on_number, 0 },
	{ "  Communicator ranks have different status", 0, on_what, VT_RAS_STATUS },
	{ "  % ranks have status @", IN(VT_RAS_STATUS), on_number, 0 },
	{ "  The unknown ranks: @", IN(VT_RAS_STATUS), on_list, 0 },
	{ "  Communicator ranks have different collective operation counts", 0, on_what,
	  VT_RAS_COUNT },
	{ "  Communicator ranks have different @ operation counts", 0, on_what, VT_RAS_COUNT },
	{ "  % ranks have launched up to operation %", IN(VT_RAS_COUNT), on_number, 0 },
	{ "  % ranks have not launched any operations", IN(VT_RAS_COUNT), on_number, 0 },
};

/* The text after "  Rank 3", up to " -- " and the process. */
static const struct rank_line {
	const char *pattern;
	unsigned int in;
} rank_lines[] = {
	{ "", ANY },
	{ " reported ~", IN(VT_RAS_ERROR) },
	{ " has status @", IN(VT_RAS_STATUS) },
	{ " has launched up to operation %", IN(VT_RAS_COUNT) },
	{ " has not launched any operations", IN(VT_RAS_COUNT) },
};

static const char *const who_lines[] = {
	"GPU % managed by process % on node @",
	"GPU % (NVML %) managed by process % on node @",
	"[process information not found]",
};

static bool is_about(const struct reading *t, unsigned int in)
{
	return !in || (t->is_about && in & IN(t->like.about));
}

static bool find_line(struct reading *t, struct span line)
{
	struct fields fields;

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		if (!is_about(t, lines[i].in) || !is_line(line, lines[i].pattern, &fields))
			continue;
		lines[i].fn(t, &fields, lines[i].about);
		return true;
	}
	return false;
}

static bool is_who(struct span text, struct fields *who)
{
	for (size_t i = 0; i < sizeof(who_lines) / sizeof(who_lines[0]); i++)
		if (is_line(text, who_lines[i], who))
			return true;
	return false;
}

/* Without a process: 2.24 and 2.25 know nothing else about a rank without status. */
static bool find_rank_line(struct reading *t, struct span line)
{
	struct fields rank = { 0 }, said, who = { 0 };
	const char *dash = memmem(line.at, length(&line), " -- ", 4);
	struct span middle;

	if (!take_prefix(&line, "  Rank ", 7) || !take_number(&line, &rank))
		return false;
	middle = (struct span){ line.at, dash ? dash : line.end };
	if (middle.end < middle.at ||
	    (dash ? !is_who((struct span){ dash + 4, line.end }, &who) : middle.at == middle.end))
		return false;
	for (size_t i = 0; i < sizeof(rank_lines) / sizeof(rank_lines[0]); i++) {
		if (!is_about(t, rank_lines[i].in) ||
		    !is_line(middle, rank_lines[i].pattern, &said))
			continue;
		if (said.n_words)
			t->like.what = intern(t, &said.words[0]);
		else if (i)
			t->like.count = said.n_numbers ? said.numbers[0] : 0;
		add_rank(t, rank.numbers[0], &who);
		return true;
	}
	return false;
}

/* ---- paragraphs and sections ---- */

static void add_lines(struct reading *t, const char *text, const char *end)
{
	while (text < end) {
		const char *newline = memchr(text, '\n', (size_t)(end - text)),
			   *stop = newline ? newline : end;

		vt_ras_add_line(t->r, text, (size_t)(stop - text));
		text = stop + 1;
	}
}

static void end_paragraph(struct reading *t, const char *at)
{
	if (t->paragraph && t->odd) {
		vt_ras_drop_groups(t->r, t->r->first_group);
		add_lines(t, t->paragraph, at);
		t->r->ras->understood = false;
	}
	t->paragraph = NULL;
	t->odd = false;
	vt_ras_end_part(t->r);
}

static bool is_underline(struct span line)
{
	while (line.at < line.end && *line.at == '=')
		line.at++;
	return line.at == line.end;
}

static bool begins_section(struct reading *t, struct span line)
{
	static const struct {
		const char *pattern;
		enum section after, section;
	} sections[] = {
		{ "Communicators...{ }~", SECTION_HEAD, SECTION_TABLE },
		{ "Errors", SECTION_TABLE, SECTION_ERRORS },
		{ "Warnings", SECTION_ERRORS, SECTION_WARNINGS },
	};
	struct fields fields;

	for (size_t i = 0; i < sizeof(sections) / sizeof(sections[0]); i++) {
		if (t->section != sections[i].after || !is_line(line, sections[i].pattern, &fields))
			continue;
		t->section = sections[i].section;
		t->is_about = false;
		return true;
	}
	return false;
}

static void read_head(struct reading *t, struct span line)
{
	struct fields f;

	if (is_line(line, "NCCL version @ compiled with CUDA ~", &f))
		t->r->ras->version = intern(t, &f.words[0]);
}

/* "OK", "INCOMPLETE,MISMATCH" */
static size_t count_ways(const struct span *errors)
{
	size_t n = 1;

	if (length(errors) == 2 && !memcmp(errors->at, "OK", 2))
		return 0;
	for (const char *p = errors->at; p < errors->end; p++)
		n += *p == ',';
	return n;
}

/* "    0         2         1         8         8         8   RUNNING      OK" */
static bool read_row(struct reading *t, struct span line)
{
	struct fields f;

	take_blanks(&line);
	if (!is_line(line, "%_%_%_@_%_%_@_@", &f) || f.numbers[0] != t->n_rows ||
	    t->n_rows == MAX_ROWS || f.numbers[1] > MAX_RANK || f.numbers[3] > MAX_RANK)
		return false;
	t->sizes[t->n_rows++] = (int)f.numbers[3];
	t->r->ras->communicators += f.numbers[1];
	t->n_ill += f.numbers[1] * count_ways(&f.words[2]);
	return true;
}

static bool read_table(struct reading *t, struct span line)
{
	static const char *const known[] = { "Group_Comms_~", "_#_in group_~",
					     "No communicator data collected!" };
	struct fields f;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (is_line(line, known[i], &f))
			return true;
	return read_row(t, line);
}

static void read_line(struct reading *t, struct span line)
{
	if (line.at == line.end || begins_section(t, line)) {
		end_paragraph(t, line.at);
		return;
	}
	if (is_underline(line))
		return;
	if (t->section == SECTION_HEAD) {
		read_head(t, line);
		return;
	}
	if (*line.at == '#') /* not always after an empty line */
		end_paragraph(t, line.at);
	t->paragraph = t->paragraph ? t->paragraph : line.at;
	if (t->section == SECTION_TABLE)
		t->odd |= !read_table(t, line);
	else if (!t->odd)
		t->odd = !find_line(t, line) && !find_rank_line(t, line);
}

void vt_ras_read_text(struct vt_ras_reading *r, const char *text)
{
	struct reading t = { .r = r, .like = { .communicator = "" } };
	const char *at = text, *end = text + strlen(text);

	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at)),
			   *stop = newline ? newline : end;

		read_line(&t, (struct span){ at, stop });
		at = newline ? stop + 1 : end;
	}
	end_paragraph(&t, end);
	if (t.section == SECTION_WARNINGS && r->whole && end[-1] == '\n' && t.n_told >= t.n_ill)
		return;
	/* It is truncated, or not an answer of RAS. */
	vt_ras_drop_groups(r, 0);
	r->ras->lines.n = 0;
	r->ras->understood = false;
	add_lines(&t, text, end);
}
