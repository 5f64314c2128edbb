/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Of a file, a window is in memory. A part that does not end in it is read once more, from a larger
 * one: it cannot be told from a part with a mistake. With a mistake the window so becomes the whole
 * document from that part on.
 */
#include "json/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/str.h"
#include "json/in.h"
#include "json/limits.h"

#define WINDOW ((size_t)1 << 20)

static bool init(struct vt_json_stream *s, int fd)
{
	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->first = WINDOW;
	s->parser.seed = vt_hash_seed();
	s->parser.keys = &s->keys;
	s->room = malloc(VT_JSON_TEXT_ROOM);
	return s->room;
}

bool vt_json_stream_init_text(struct vt_json_stream *s, const char *text, size_t n)
{
	bool ok = init(s, -1);

	s->text = text;
	s->n = s->size = n;
	s->ended = true;
	s->refused = n > VT_JSON_IN_MAX;
	s->parser.p = text;
	s->parser.end = text + n;
	return ok;
}

bool vt_json_stream_init_file(struct vt_json_stream *s, int fd)
{
	bool ok = init(s, fd);
	struct stat st;

	s->size = !fstat(fd, &st) && st.st_size > 0 ? (size_t)st.st_size : 0;
	return ok;
}

void vt_json_stream_deinit(struct vt_json_stream *s)
{
	for (size_t i = 0; i < VT_JSON_STREAM_DEPTH; i++) {
		vt_vec_deinit(&s->levels[i].keys);
		vt_arena_deinit(&s->levels[i].texts);
	}
	vt_vec_deinit(&s->parser.stack);
	vt_arena_deinit(&s->part);
	vt_arena_deinit(&s->keys);
	vt_error_destroy(s->err);
	free(s->window);
	free(s->room);
}

static bool is_over(const struct vt_json_stream *s)
{
	return s->refused || s->parser.nomem || s->err;
}

/* ---- the window ---- */

/* Room behind the n bytes that are in use. */
static bool make_room(struct vt_json_stream *s, size_t n)
{
	/* A small file fits, with a byte for its end. */
	size_t want = !s->window          ? (s->size < s->first ? s->size + 1 : s->first) :
		      n > s->capacity / 2 ? 2 * s->capacity :
					    s->capacity;
	char *window = want == s->capacity ? s->window : realloc(s->window, want);

	if (!window) {
		s->parser.nomem = true;
		return false;
	}
	s->window = window;
	s->capacity = want;
	return true;
}

/* What was not parsed moves to the front, and more comes behind it. False: there is no more. */
static bool read_more(struct vt_json_stream *s)
{
	size_t rest = (size_t)(s->parser.end - s->parser.p);
	ssize_t got;

	if (s->ended || is_over(s))
		return false;
	if (rest)
		memmove(s->window, s->parser.p, rest);
	if (!make_room(s, rest))
		return false;
	do
		got = read(s->fd, s->window + rest, s->capacity - rest);
	while (got < 0 && errno == EINTR);
	if (got < 0)
		s->err = vt_error_create_os(errno, "it cannot be read");
	s->ended = got <= 0;
	s->n += got > 0 ? (size_t)got : 0;
	s->refused |= s->n > VT_JSON_IN_MAX;
	s->parser.p = s->window;
	s->parser.end = s->window + rest + (got > 0 ? (size_t)got : 0);
	return !s->ended && !s->refused;
}

/* The next character that is no blank; -1: there is none. It stays. */
static int peek(struct vt_json_stream *s)
{
	struct vt_json_parser *p = &s->parser;

	do
		for (; p->p < p->end; p->p++)
			if (*p->p != ' ' && *p->p != '\n' && *p->p != '\t' && *p->p != '\r')
				return (unsigned char)*p->p;
	while (read_more(s));
	return -1;
}

static bool take(struct vt_json_stream *s, char c)
{
	if (is_over(s) || peek(s) != c)
		return false;
	s->parser.p++;
	return true;
}

/* ---- parts ---- */

/* What the parser does at p, into s->value. */
typedef bool parse_fn(struct vt_json_stream *s);

static bool parse_value(struct vt_json_stream *s)
{
	struct vt_json_parser *p = &s->parser;

	p->stack.n = 0;
	p->depth = (unsigned int)s->n_levels;
	if (!vt_json_parse_value(p))
		return false;
	s->value = p->stack.data[0];
	return true;
}

static bool parse_key(struct vt_json_stream *s)
{
	return vt_json_parse_key(&s->parser, &s->value);
}

/* What is kept longer than the part has its texts in its arena. */
static void begin_part(struct vt_json_stream *s, struct vt_arena *values)
{
	bool is_kept = values != &s->part;

	s->parser.values = values;
	s->parser.room = is_kept ? NULL : s->room;
	s->parser.n_room = is_kept ? 0 : VT_JSON_TEXT_ROOM;
}

/* A part at the very end of the window may go on behind it: a number does not say where it ends. */
static bool parse(struct vt_json_stream *s, parse_fn *fn, struct vt_arena *values)
{
	struct vt_json_parser *p = &s->parser;
	const size_t cost = p->cost;
	const bool doubtful = p->doubtful;

	for (;;) {
		const char *begin = p->p;
		bool parsed;

		if (values == &s->part)
			vt_arena_reset(&s->part);
		begin_part(s, values);
		parsed = fn(s);
		if (parsed && (p->p < p->end || s->ended))
			return true;
		p->p = begin;
		p->cost = cost;
		p->doubtful = doubtful;
		if (p->nomem || s->ended) {
			s->refused = true;
			return false;
		}
		read_more(s);
		if (is_over(s))
			return false;
	}
}

static bool keep_text(struct vt_json_stream *s, struct vt_arena *keep)
{
	if (vt_json_is(&s->value, VT_JSON_STRING))
		s->value.text = vt_arena_strndup(keep, s->value.text, s->value.n);
	s->parser.nomem |= vt_json_is(&s->value, VT_JSON_STRING) && !s->value.text;
	return !s->parser.nomem;
}

/* ---- jansson's word ---- */

static struct vt_error *judge_file(struct vt_json_stream *s, enum vt_json_parsed parsed)
{
	struct vt_str text = { 0 };
	off_t at = lseek(s->fd, 0, SEEK_CUR);
	struct vt_error *err = NULL;

	if (at < 0 || lseek(s->fd, 0, SEEK_SET))
		err = vt_error_create_os(errno, "it cannot be read");
	if (!err)
		err = vt_json_in_read_fd(s->fd, &text);
	if (!err)
		err = vt_json_in_judge(vt_str_get(&text), text.n, parsed);
	if (!err && lseek(s->fd, at, SEEK_SET) != at)
		err = vt_error_create_os(errno, "it cannot be read");
	vt_str_deinit(&text);
	return err;
}

/* In doubt jansson judges the text as a whole. */
static struct vt_error *judge(struct vt_json_stream *s, enum vt_json_parsed parsed)
{
	if (parsed == VT_JSON_PARSED)
		return NULL;
	return s->fd < 0 ? vt_json_in_judge(s->text, s->n, parsed) : judge_file(s, parsed);
}

/* What is going to be refused must not be built before. */
static bool is_too_heavy(struct vt_json_stream *s)
{
	if (s->weighed || s->parser.cost <= vt_json_most_memory(s->size))
		return false;
	s->weighed = true;
	s->err = judge(s, VT_JSON_DOUBTFUL);
	return s->err;
}

/* ---- parts as values ---- */

const struct vt_json_value *vt_json_stream_part(struct vt_json_stream *s, struct vt_arena *keep)
{
	int first = is_over(s) ? -1 : peek(s);
	bool is_container = first == '{' || first == '[';

	/* A document is a container. */
	s->refused |= first < 0 || (!s->n_levels && !is_container);
	if (is_over(s))
		return NULL;
	if (!parse(s, parse_value, keep && is_container ? keep : &s->part) || is_too_heavy(s))
		return NULL;
	return !keep || is_container || keep_text(s, keep) ? &s->value : NULL;
}

const char *vt_json_stream_ahead(struct vt_json_stream *s, size_t *n)
{
	if (is_over(s) || peek(s) < 0)
		return NULL;
	*n = (size_t)(s->parser.end - s->parser.p);
	return s->parser.p;
}

const char *vt_json_stream_flat(struct vt_json_stream *s, size_t *n)
{
	size_t ahead;
	const char *begin = vt_json_stream_ahead(s, &ahead);
	const char *end = begin ? vt_json_flat_end(begin, begin + ahead) : NULL;

	if (!end)
		return NULL;
	*n = (size_t)(end - begin);
	return begin;
}

void vt_json_stream_pass(struct vt_json_stream *s, size_t n, size_t cost)
{
	s->parser.p += n;
	s->parser.cost += cost;
}

size_t vt_json_stream_cost(const struct vt_json_stream *s)
{
	return s->parser.cost;
}

/* ---- containers ---- */

bool vt_json_stream_enter(struct vt_json_stream *s, enum vt_json_type type)
{
	struct vt_json_level *level = &s->levels[s->n_levels];

	if (s->n_levels == VT_JSON_STREAM_DEPTH || !take(s, type == VT_JSON_OBJECT ? '{' : '['))
		return false;
	level->is_object = type == VT_JSON_OBJECT;
	level->n = 0;
	level->keys.n = 0;
	vt_arena_reset(&level->texts);
	s->n_levels++;
	return true;
}

static bool is_there_twice(const struct vt_json_level *level, const struct vt_json_value *key)
{
	for (size_t i = 0; i < level->keys.n; i++)
		if (level->keys.data[i].n == key->n &&
		    !memcmp(level->keys.data[i].text, key->text, key->n))
			return true;
	return false;
}

/* As in one object of a whole document. */
static bool add_key(struct vt_json_stream *s, struct vt_json_level *level)
{
	struct vt_json_value *added;

	if (level->n > VT_JSON_MAX_KEYS) {
		s->parser.doubtful = true;
		return true;
	}
	if (is_there_twice(level, &s->value))
		return false;
	added = vt_vec_append(&level->keys);
	if (added)
		*added = s->value;
	s->parser.nomem |= !added;
	return added;
}

/* The next part may overwrite a key that the parser does not keep. */
static bool take_key(struct vt_json_stream *s, struct vt_json_level *level)
{
	if (!take(s, '"') || !parse(s, parse_key, &s->part) || !keep_text(s, &level->texts) ||
	    !add_key(s, level))
		return false;
	s->key = s->value.text;
	return take(s, ':');
}

static bool leave(struct vt_json_stream *s, const struct vt_json_level *level)
{
	if (!take(s, level->is_object ? '}' : ']')) {
		s->refused = true;
		return false;
	}
	if (level->is_object)
		vt_json_count_object(&s->parser, level->n);
	else
		vt_json_count_array(&s->parser, level->n);
	s->n_levels--;
	return false;
}

bool vt_json_stream_next(struct vt_json_stream *s)
{
	struct vt_json_level *level = s->n_levels ? &s->levels[s->n_levels - 1] : NULL;

	if (!level || is_over(s))
		return false;
	if (level->n ? !take(s, ',') : peek(s) == (level->is_object ? '}' : ']'))
		return leave(s, level);
	level->n++;
	if (!level->is_object || take_key(s, level))
		return !is_over(s);
	s->refused = true;
	return false;
}

/* Large arrays in objects, with small elements. */
void vt_json_stream_skip(struct vt_json_stream *s)
{
	if (vt_json_stream_enter(s, VT_JSON_OBJECT) || vt_json_stream_enter(s, VT_JSON_ARRAY))
		while (vt_json_stream_next(s))
			vt_json_stream_skip(s);
	else
		vt_json_stream_part(s, NULL);
}

/* ---- the end ---- */

struct vt_error *vt_json_stream_end(struct vt_json_stream *s)
{
	s->refused |= is_over(s) || s->n_levels || peek(s) >= 0 || !s->ended;
	if (s->err)
		return vt_steal(s->err);
	/* No longer needed, and jansson may need much. */
	vt_arena_deinit(&s->part);
	free(s->window);
	s->window = NULL;
	return judge(s, vt_json_parse_result(&s->parser, !s->refused, s->n));
}
