/* SPDX-License-Identifier: Apache-2.0 */
#include "model/cxxname.h"

#include <stdbool.h>
#include <string.h>

/* The scanner walks over a name once; what it keeps goes to `out`. */
struct scanner {
	const char *p, *end;
	struct vt_str *out;
	const char *ellipsis;
	size_t name_start; /* in out: after the last space, so that a return type can be dropped */
	bool failed;
};

static bool starts_with(const struct scanner *s, const char *word)
{
	size_t len = strlen(word);

	return (size_t)(s->end - s->p) >= len && !memcmp(s->p, word, len);
}

static void copy_text(struct scanner *s, size_t n)
{
	vt_str_addn(s->out, s->p, n);
	s->p += n;
}

/*
 * Skips a balanced (…), <…> or {…}, whose opening bracket is at p. "->" and ">>" of expressions
 * count as they come.
 */
static void skip_brackets(struct scanner *s)
{
	int round = 0, angle = 0, curly = 0;

	do {
		switch (*s->p) {
		case '(':
			round++;
			break;
		case ')':
			round--;
			break;
		case '{':
			curly++;
			break;
		case '}':
			curly--;
			break;
		case '<':
			/*
			 * A comparison inside (…) is no bracket; demanglers put those in
			 * parentheses.
			 */
			angle += round == 0;
			break;
		case '>':
			angle -= round == 0 && s->p[-1] != '-';
			break;
		}
		s->p++;
	} while (s->p < s->end && (round > 0 || angle > 0 || curly > 0));
	if (round != 0 || angle != 0 || curly != 0)
		s->failed = true;
}

static bool is_word_char(char c)
{
	return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z');
}

/* "operator" with its symbol, which may look like a bracket. */
static bool keep_operator(struct scanner *s, const char *begin)
{
	/* Longest first. */
	static const char *const symbols[] = { "<=>", "<<=", ">>=", "->*", "()", "[]", "<<",
					       ">>",  "<=",  ">=",  "->",  "<",  ">" };

	if (!starts_with(s, "operator") || (s->p > begin && is_word_char(s->p[-1])) ||
	    (s->end - s->p > 8 && is_word_char(s->p[8])))
		return false;
	copy_text(s, 8);
	for (size_t i = 0; i < sizeof(symbols) / sizeof(symbols[0]); i++) {
		if (starts_with(s, symbols[i])) {
			copy_text(s, strlen(symbols[i]));
			return true;
		}
	}
	/* A conversion, or new and delete: the space belongs to the name. */
	if (s->p < s->end && *s->p == ' ')
		while (s->p < s->end && *s->p != '(' && *s->p != '<')
			copy_text(s, 1);
	return true;
}

/* "{lambda(int)#1}" is kept as "{lambda#1}", "{unnamed type#1}" as it is. */
static void keep_braces(struct scanner *s)
{
	while (s->p < s->end && *s->p != '}') {
		if (*s->p == '(')
			skip_brackets(s);
		else
			copy_text(s, 1);
	}
	if (s->p < s->end)
		copy_text(s, 1);
}

/* decltype(…) is a return type although it has parentheses. */
static bool after_decltype(const struct scanner *s)
{
	static const char word[] = "decltype";
	size_t n = s->out->n;

	if (n > 0 && s->out->data[n - 1] == ' ')
		n--;
	return n >= strlen(word) && !memcmp(s->out->data + n - strlen(word), word, strlen(word));
}

/* Parameters end the name, unless it goes on with "::" (a local class or a lambda). */
static void skip_parameters(struct scanner *s)
{
	bool ends = !after_decltype(s);

	skip_brackets(s);
	if (starts_with(s, " const::"))
		s->p += strlen(" const");
	if (ends && !starts_with(s, "::"))
		s->p = s->end;
}

static void scan(struct scanner *s)
{
	const char *begin = s->p;

	while (s->p < s->end && !s->failed) {
		if (keep_operator(s, begin))
			continue;
		if (starts_with(s, "(anonymous namespace)")) {
			copy_text(s, strlen("(anonymous namespace)"));
		} else if (*s->p == '{') {
			keep_braces(s);
		} else if (starts_with(s, "[abi:")) {
			while (s->p < s->end && *s->p != ']')
				s->p++;
			s->p += s->p < s->end;
		} else if (starts_with(s, " [clone")) {
			s->p = s->end;
		} else if (*s->p == '<') {
			skip_brackets(s);
			vt_str_add(s->out, "<");
			vt_str_add(s->out, s->ellipsis);
			vt_str_add(s->out, ">");
		} else if (*s->p == '(') {
			skip_parameters(s);
		} else if (starts_with(s, " <")) {
			s->p++; /* operator< <int> */
		} else if (*s->p == ' ') {
			copy_text(s, 1);
			s->name_start = s->out->n;
		} else {
			copy_text(s, 1);
		}
	}
}

static bool looks_like_cxx(const char *name, size_t n)
{
	return memchr(name, '(', n) || memchr(name, '<', n) || memmem(name, n, "::", 2);
}

void vt_cxx_short_name(struct vt_str *out, const char *name, size_t n, const char *ellipsis)
{
	struct vt_str kept = { 0 };
	struct scanner s = { .p = name, .end = name + n, .out = &kept, .ellipsis = ellipsis };

	if (looks_like_cxx(name, n))
		scan(&s);
	if (kept.failed)
		out->failed = true;
	if (s.failed || kept.n <= s.name_start)
		vt_str_addn(out, name, n);
	else
		vt_str_addn(out, vt_str_get(&kept) + s.name_start, kept.n - s.name_start);
	vt_str_deinit(&kept);
}
