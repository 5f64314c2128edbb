/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of a container are gathered on a stack, and copied side by side into the arena when it
 * ends: so each value is written twice, and nothing is linked.
 */
#include "json/parse.h"
#include "json/parser.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/str.h"
#include "json/limits.h"
#include "json/plain.h"

#define SMALL_NUMBER 64
#define MOST_DIGITS 18   /* of any number in an int64_t */
#define LONGEST_KNOWN 64 /* bytes of a key */

static inline void skip_blanks(struct vt_json_parser *p)
{
	while (p->p < p->end && (*p->p == ' ' || *p->p == '\n' || *p->p == '\t' || *p->p == '\r'))
		p->p++;
}

/* The next character that is no blank is this one: goes past it. */
static inline bool take(struct vt_json_parser *p, char c)
{
	skip_blanks(p);
	if (p->p == p->end || *p->p != c)
		return false;
	p->p++;
	return true;
}

static inline struct vt_json_value *push(struct vt_json_parser *p)
{
	struct vt_json_value *value = vt_vec_append(&p->stack);

	if (value)
		*value = (struct vt_json_value){ .type = VT_JSON_NULL };
	else
		p->nomem = true;
	return value;
}

static bool fail_nomem(struct vt_json_parser *p)
{
	p->nomem = true;
	return false;
}

/* ---- texts ---- */

/* Room for n bytes, unaligned; longer than all the rest of the text needs. */
static char *text_room(struct vt_json_parser *p, size_t n)
{
	char *room;

	if (n > p->n_room) {
		size_t want = n > VT_JSON_TEXT_ROOM / 4 ? n : VT_JSON_TEXT_ROOM;

		room = vt_arena_alloc(p->values, want);
		if (!room)
			return NULL;
		if (want == n)
			return room;
		p->room = room;
		p->n_room = want;
	}
	room = p->room;
	p->room += n;
	p->n_room -= n;
	return room;
}

/* Four hexadecimal digits; -1 they are none. */
static int hex4(const char *at, const char *end)
{
	int value = 0;

	if (end - at < 4)
		return -1;
	for (int i = 0; i < 4; i++) {
		char c = at[i];

		if (c >= '0' && c <= '9')
			value = value * 16 + c - '0';
		else if (c >= 'a' && c <= 'f')
			value = value * 16 + c - 'a' + 10;
		else if (c >= 'A' && c <= 'F')
			value = value * 16 + c - 'A' + 10;
		else
			return -1;
	}
	return value;
}

static char *put_utf8(char *to, unsigned int code)
{
	if (code < 0x80) {
		*to++ = (char)code;
	} else if (code < 0x800) {
		*to++ = (char)(0xc0 | code >> 6);
		*to++ = (char)(0x80 | (code & 0x3f));
	} else if (code < 0x10000) {
		*to++ = (char)(0xe0 | code >> 12);
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
		*to++ = (char)(0x80 | (code & 0x3f));
	} else {
		*to++ = (char)(0xf0 | code >> 18);
		*to++ = (char)(0x80 | (code >> 12 & 0x3f));
		*to++ = (char)(0x80 | (code >> 6 & 0x3f));
		*to++ = (char)(0x80 | (code & 0x3f));
	}
	return to;
}

/* *at is behind "\u". NULL: wrong. A NUL is refused, so texts are C strings. */
static char *unescape_unicode(const char **at, const char *end, char *to)
{
	int code = hex4(*at, end), low;

	if (code <= 0 || (code >= 0xdc00 && code < 0xe000))
		return NULL;
	*at += 4;
	if (code < 0xd800 || code >= 0xe000)
		return put_utf8(to, (unsigned int)code);
	if (end - *at < 6 || (*at)[0] != '\\' || (*at)[1] != 'u')
		return NULL;
	low = hex4(*at + 2, end);
	if (low < 0xdc00 || low >= 0xe000)
		return NULL;
	*at += 6;
	return put_utf8(to, 0x10000 + ((unsigned int)(code & 0x3ff) << 10 | (low & 0x3ff)));
}

/* *at is behind the backslash. */
static char *unescape(const char **at, const char *end, char *to)
{
	static const char from[] = "\"\\/bfnrt", into[] = "\"\\/\b\f\n\r\t";
	const char *found;

	if (*at == end || !**at)
		return NULL;
	if (**at == 'u') {
		++*at;
		return unescape_unicode(at, end, to);
	}
	found = strchr(from, **at);
	if (!found)
		return NULL;
	++*at;
	*to++ = into[found - from];
	return to;
}

/* Copies a text that begins at at, to its quote; NULL: it is wrong. */
static const char *copy_text(const char *at, const char *end, char *to, char **to_end)
{
	while (at < end && *at != '"') {
		const char *plain = vt_json_plain_end(at, end);
		unsigned int code;
		size_t n;

		memcpy(to, at, (size_t)(plain - at));
		to += plain - at;
		at = plain;
		if (at == end || *at == '"')
			break;
		if (*at == '\\') {
			at++;
			to = unescape(&at, end, to);
			if (!to)
				return NULL;
			continue;
		}
		n = (unsigned char)*at < 0x20 ? 0 : vt_utf8_sequence(at, (size_t)(end - at), &code);
		if (!n)
			return NULL;
		memcpy(to, at, n);
		to += n;
		at += n;
	}
	*to_end = to;
	return at < end ? at : NULL;
}

/* Where a text that begins at at may end at most: its first quote without a backslash. */
static const char *text_end(const char *at, const char *end)
{
	for (;;) {
		at = vt_json_plain_end(at, end);
		if (at == end)
			return NULL;
		if (*at == '"')
			return at;
		at += *at == '\\' && end - at > 1 ? 2 : 1;
	}
}

const char *vt_json_flat_end(const char *at, const char *end)
{
	char last = at == end ? 0 : *at == '{' ? '}' : *at == '[' ? ']' : 0;

	for (at++; last && at < end; at++)
		switch (*at) {
		case '"':
			at = text_end(at + 1, end);
			if (!at)
				return NULL;
			break;
		case '}':
		case ']':
			return *at == last ? at + 1 : NULL;
		case '{':
		case '[':
			return NULL;
		default:
			break;
		}
	return NULL;
}

/* The opening quote was taken. */
static bool parse_text(struct vt_json_parser *p, struct vt_json_value *value)
{
	const char *begin = p->p, *plain = vt_json_plain_end(begin, p->end);
	const char *end = text_end(plain, p->end);
	char *to, *to_end;
	size_t n;

	if (!end)
		return false;
	/* What it stands for is never longer than itself. */
	n = (size_t)(end - begin);
	if (n >= UINT32_MAX)
		return false;
	to = text_room(p, n + 1);
	if (!to)
		return fail_nomem(p);
	if (plain == end) {
		memcpy(to, begin, n);
		to_end = to + n;
	} else if (copy_text(begin, p->end, to, &to_end) != end) {
		return false;
	}
	*to_end = '\0';
	*value = (struct vt_json_value){ .text = to,
					 .n = (uint32_t)(to_end - to),
					 .type = VT_JSON_STRING };
	p->cost += VT_JANSSON_TEXT + n;
	p->p = end + 1;
	return true;
}

/* Keeps a copy of the key, unless there is another one. */
static bool learn(struct vt_json_parser *p, struct vt_json_value *known, struct vt_json_value *key)
{
	if (known->type == VT_JSON_STRING || key->n > LONGEST_KNOWN)
		return true;
	key->text = vt_arena_strndup(p->keys, key->text, key->n);
	if (!key->text)
		return fail_nomem(p);
	*known = *key;
	return true;
}

bool vt_json_parse_key(struct vt_json_parser *p, struct vt_json_value *value)
{
	const char *begin = p->p, *end = vt_json_plain_end(begin, p->end);
	size_t n = (size_t)(end - begin);
	struct vt_json_value *known;

	if (end == p->end)
		return false;
	if (*end != '"')
		return parse_text(p, value);
	known = &p->known[vt_hash_bytes(p->seed, begin, n) >> 32 & (VT_JSON_KNOWN - 1)];
	if (known->type != VT_JSON_STRING || known->n != n || memcmp(known->text, begin, n) != 0) {
		if (!parse_text(p, value) || !learn(p, known, value))
			return false;
	} else {
		*value = *known;
		p->p = end + 1;
		p->cost += VT_JANSSON_TEXT + n;
	}
	p->cost += VT_JANSSON_PAIR + n;
	return true;
}

/* ---- numbers ---- */

/* The first that is no digit. */
static const char *digits_end(const char *at, const char *end)
{
	while (at < end && *at >= '0' && *at <= '9')
		at++;
	return at;
}

static bool parse_integer(const char *at, const char *end, struct vt_json_value *value)
{
	bool negative = *at == '-';
	int64_t number = 0;

	for (at += negative; at < end; at++)
		if (__builtin_mul_overflow(number, 10, &number) ||
		    __builtin_sub_overflow(number, *at - '0', &number))
			return false;
	if (!negative && number == INT64_MIN)
		return false;
	*value = (struct vt_json_value){ .integer = negative ? number : -number,
					 .type = VT_JSON_INTEGER };
	return true;
}

/* The locale is always C: nothing here calls setlocale(). */
static bool parse_real(struct vt_json_parser *p, const char *at, const char *end,
		       struct vt_json_value *value)
{
	size_t n = (size_t)(end - at);
	char small[SMALL_NUMBER], *copy = n < sizeof(small) ? small : text_room(p, n + 1);
	double number;

	if (!copy)
		return fail_nomem(p);
	memcpy(copy, at, n);
	copy[n] = '\0';
	errno = 0;
	number = strtod(copy, NULL);
	if (errno == ERANGE && (number > 1 || number < -1))
		return false;
	*value = (struct vt_json_value){ .real = number, .type = VT_JSON_REAL };
	return true;
}

/* Most numbers are indices and amounts. False: it is another number, or not even one. */
static inline bool parse_plain(struct vt_json_parser *p, struct vt_json_value *value)
{
	const char *at = p->p, *most = p->end - at > MOST_DIGITS ? at + MOST_DIGITS : p->end;
	int64_t number = 0;

	while (at < most && (unsigned char)(*at - '0') < 10)
		number = number * 10 + (*at++ - '0');
	if (at == p->p || at == most || (*p->p == '0' && at - p->p > 1) || *at == '.' ||
	    *at == 'e' || *at == 'E')
		return false;
	value->integer = number;
	value->type = VT_JSON_INTEGER;
	p->p = at;
	p->cost += VT_JANSSON_NUMBER;
	return true;
}

static bool parse_number(struct vt_json_parser *p, struct vt_json_value *value)
{
	const char *begin = p->p, *at = begin + (*begin == '-'), *end = digits_end(at, p->end);
	bool real = false;

	if (end == at || (end - at > 1 && *at == '0'))
		return false;
	if (end < p->end && *end == '.') {
		at = end + 1;
		end = digits_end(at, p->end);
		if (end == at)
			return false;
		real = true;
	}
	if (end < p->end && (*end == 'e' || *end == 'E')) {
		at = end + 1;
		if (at < p->end && (*at == '+' || *at == '-'))
			at++;
		end = digits_end(at, p->end);
		if (end == at)
			return false;
		real = true;
	}
	p->p = end;
	p->cost += VT_JANSSON_NUMBER;
	return real ? parse_real(p, begin, end, value) : parse_integer(begin, end, value);
}

/* ---- containers ---- */

/* What is on the stack from first becomes the parts of its container. */
static bool end_container(struct vt_json_parser *p, size_t first, enum vt_json_type type)
{
	size_t parts = p->stack.n - first;
	struct vt_json_value *copy = NULL, *value;

	if (parts) {
		copy = vt_arena_alloc(p->values, parts * sizeof(*copy));
		if (!copy)
			return fail_nomem(p);
		memcpy(copy, &p->stack.data[first], parts * sizeof(*copy));
		p->stack.n = first;
	}
	value = &p->stack.data[first - 1];
	*value = (struct vt_json_value){
		.parts = copy,
		.n = (uint32_t)(type == VT_JSON_OBJECT ? parts / 2 : parts),
		.type = (uint8_t)type,
	};
	return true;
}

/* jansson's table of n: it begins with 8, doubles, and here frees nothing. */
static size_t table_cost(size_t n, size_t each)
{
	size_t cost = 8 * each;

	for (size_t size = 8; size < n; size *= 2)
		cost += 2 * size * each;
	return cost;
}

void vt_json_count_array(struct vt_json_parser *p, size_t elements)
{
	p->cost += VT_JANSSON_ARRAY + table_cost(elements, sizeof(void *));
}

void vt_json_count_object(struct vt_json_parser *p, size_t keys)
{
	p->cost += VT_JANSSON_OBJECT + table_cost(keys, 2 * sizeof(void *));
}

/* Plain numbers, as far as they follow each other; false: something else comes before a comma. */
static bool parse_numbers(struct vt_json_parser *p)
{
	do {
		struct vt_json_value *value;

		skip_blanks(p);
		if (p->p == p->end || (unsigned char)(*p->p - '0') >= 10)
			return false;
		value = push(p);
		if (!value || !parse_plain(p, value)) {
			p->stack.n -= value != NULL;
			return false;
		}
	} while (take(p, ','));
	return true;
}

static bool parse_array(struct vt_json_parser *p)
{
	size_t first = p->stack.n;

	if (!take(p, ']')) {
		do {
			if (parse_numbers(p))
				break;
			if (p->nomem || !vt_json_parse_value(p))
				return false;
		} while (take(p, ','));
		if (!take(p, ']'))
			return false;
	}
	vt_json_count_array(p, p->stack.n - first);
	return end_container(p, first, VT_JSON_ARRAY);
}

/* Whether an earlier key of the object whose keys begin at first is equal to the last one. */
static bool is_there_twice(const struct vt_json_parser *p, size_t first)
{
	const struct vt_json_value *last = &p->stack.data[p->stack.n - 1];

	for (size_t i = first; i < p->stack.n - 1; i += 2) {
		const struct vt_json_value *key = &p->stack.data[i];

		if (key->n == last->n &&
		    (key->text == last->text || !memcmp(key->text, last->text, key->n)))
			return true;
	}
	return false;
}

static bool parse_pair(struct vt_json_parser *p, size_t first)
{
	struct vt_json_value *key;

	if (!take(p, '"') || !(key = push(p)) || !vt_json_parse_key(p, key))
		return false;
	if (p->stack.n - first > (size_t)2 * VT_JSON_MAX_KEYS)
		p->doubtful = true;
	else if (is_there_twice(p, first))
		return false;
	return take(p, ':') && vt_json_parse_value(p);
}

static bool parse_object(struct vt_json_parser *p)
{
	size_t first = p->stack.n;

	if (!take(p, '}')) {
		do {
			if (!parse_pair(p, first))
				return false;
		} while (take(p, ','));
		if (!take(p, '}'))
			return false;
	}
	vt_json_count_object(p, (p->stack.n - first) / 2);
	return end_container(p, first, VT_JSON_OBJECT);
}

static bool parse_word(struct vt_json_parser *p, const char *word, struct vt_json_value *value,
		       enum vt_json_type type)
{
	size_t n = strlen(word);

	if ((size_t)(p->end - p->p) < n || memcmp(p->p, word, n) != 0)
		return false;
	p->p += n;
	value->type = (uint8_t)type;
	return true;
}

static bool parse_container(struct vt_json_parser *p)
{
	bool parsed;

	if (++p->depth > VT_JANSSON_DEPTH)
		return false;
	parsed = *p->p++ == '[' ? parse_array(p) : parse_object(p);
	p->depth--;
	return parsed;
}

bool vt_json_parse_value(struct vt_json_parser *p)
{
	struct vt_json_value *value = push(p);

	skip_blanks(p);
	if (!value || p->p == p->end)
		return false;
	switch (*p->p) {
	case '{':
	case '[':
		return parse_container(p);
	case '"':
		p->p++;
		return parse_text(p, value);
	case 't':
		return parse_word(p, "true", value, VT_JSON_TRUE);
	case 'f':
		return parse_word(p, "false", value, VT_JSON_FALSE);
	case 'n':
		return parse_word(p, "null", value, VT_JSON_NULL);
	default:
		return parse_plain(p, value) || parse_number(p, value);
	}
}

static bool parse_document(struct vt_json_parser *p, const struct vt_json_value **root)
{
	struct vt_json_value *copy;

	skip_blanks(p);
	if (p->p == p->end || (*p->p != '{' && *p->p != '[') || !vt_json_parse_value(p))
		return false;
	skip_blanks(p);
	if (p->p != p->end)
		return false;
	copy = vt_arena_alloc(p->values, sizeof(*copy));
	if (!copy)
		return fail_nomem(p);
	*copy = p->stack.data[0];
	*root = copy;
	return true;
}

enum vt_json_parsed vt_json_parse_result(const struct vt_json_parser *p, bool parsed, size_t n)
{
	if (p->nomem)
		return VT_JSON_NOMEM;
	if (!parsed)
		return VT_JSON_REFUSED;
	return p->doubtful || p->cost > vt_json_most_memory(n) ? VT_JSON_DOUBTFUL : VT_JSON_PARSED;
}

enum vt_json_parsed vt_json_parse(const char *text, size_t n, struct vt_arena *values,
				  const struct vt_json_value **root)
{
	struct vt_json_parser p = {
		.p = text, .end = text + n, .values = values, .keys = values, .seed = vt_hash_seed()
	};
	bool parsed = n <= VT_JSON_IN_MAX && parse_document(&p, root);

	vt_vec_deinit(&p.stack);
	return vt_json_parse_result(&p, parsed, n);
}
