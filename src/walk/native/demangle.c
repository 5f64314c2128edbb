/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/native/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "base/cleanup.h"
#include "base/str.h"

/* The demangler keeps its working set on the stack: 64 to 128 bytes for each byte of the symbol. */
#define MAX_MANGLED (8 * 1024)
/* Back references let a short symbol describe an output of exponential length. */
#define MAX_DEMANGLED (64 * 1024)
#define MAX_SHOWN 512
#define MAX_SHOWN_ARGUMENTS 24
/* Text whose brackets do not match would cost quadratic time. */
#define MAX_UNCLOSED 8

struct collector {
	struct vt_str text;
	jmp_buf give_up;
};

/*
 * The demangler has no way to be stopped from its callback, hence the jump. libiberty (2.32 and
 * later) holds its C++ parse on the stack; of Rust only the buffer of one punycode identifier can
 * be lost.
 */
static void collect(const char *text, size_t n, void *opaque)
{
	struct collector *c = opaque;

	if (n > 0) /* that of Rust comes with NULL for an empty identifier */
		vt_str_addn(&c->text, text, n);
	if (c->text.failed || c->text.n > MAX_DEMANGLED)
		longjmp(c->give_up, 1);
}

typedef int demangler(const char *mangled, int options, demangle_callbackref callback,
		      void *opaque);

/* False when the symbol is not of this language, or is too much. c->text has the result. */
static bool run_demangler(demangler *demangle, const char *mangled, struct collector *c)
{
	vt_str_clear(&c->text);
	if (setjmp(c->give_up))
		return false;
	/*
	 * Without DMGL_PARAMS the outermost parameter list is left out, but not those of enclosing
	 * functions.
	 */
	return demangle(mangled, DMGL_ANSI, collect, c) && !c->text.failed && c->text.n > 0;
}

static bool is_word(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
	       c == '_' || (unsigned char)c >= 0x80;
}

/*
 * Length of the word "operator" and the punctuation of its name at text + i, or 0 when there is no
 * operator.
 */
static size_t operator_length(const char *text, size_t n, size_t i)
{
	/* Longer ones first; those without brackets need no care. */
	static const char *const names[] = { "<=>", "<<=", ">>=", "->*", "()", "[]", "<<",
					     ">>",  "<=",  ">=",  "->",  "<",  ">" };
	static const char word[] = "operator";
	size_t len = sizeof(word) - 1;

	if (n - i < len || memcmp(text + i, word, len) || (i && is_word(text[i - 1])))
		return 0;
	if (n - i > len && is_word(text[i + len]))
		return 0;
	for (size_t k = 0; k < sizeof(names) / sizeof(names[0]); k++) {
		size_t l = strlen(names[k]);

		if (n - i - len >= l && !memcmp(text + i + len, names[k], l))
			return len + l;
	}
	return len;
}

/* The index after the bracket that closes the one at text[i], or 0 when it is not closed. */
static size_t closing(const char *text, size_t n, size_t i)
{
	size_t depth = 0;

	while (i < n) {
		size_t skip = operator_length(text, n, i);

		if (skip) {
			i += skip;
			continue;
		}
		if (strchr("<({[", text[i]) && text[i]) {
			depth++;
		} else if (text[i] && strchr(">)}]", text[i]) &&
			   !(text[i] == '>' && i && text[i - 1] == '-')) {
			if (--depth == 0)
				return i + 1;
		}
		i++;
	}
	return 0;
}

static bool begins(const char *text, size_t n, const char *prefix)
{
	size_t len = strlen(prefix);

	return n >= len && !memcmp(text, prefix, len);
}

/* Length of the qualifiers that may follow a parameter list: " const", " volatile", " &", " &&". */
static size_t qualifiers(const char *text, size_t n)
{
	static const char *const words[] = { " const", " volatile", " &&", " &" };
	size_t len = 0;

	for (size_t k = 0; k < sizeof(words) / sizeof(words[0]); k++) {
		if (begins(text + len, n - len, words[k]))
			len += strlen(words[k]);
	}
	return len;
}

struct shortener {
	const char *text;
	size_t n, i;
	unsigned int unclosed;
	/* inside the name of a conversion operator, operator new, ...: spaces belong to it */
	bool conversion;
	bool whole; /* with all template arguments */
	struct vt_str *out;
};

static void copy(struct shortener *s, size_t end)
{
	vt_str_addn(s->out, s->text + s->i, end - s->i);
	s->i = end;
}

static void shorten_arguments(struct shortener *s, size_t end)
{
	if (s->whole || end - s->i <= MAX_SHOWN_ARGUMENTS + 2) {
		copy(s, end);
		return;
	}
	vt_str_add(s->out, "<...>");
	s->i = end;
}

/* A parameter list of an enclosing function, or "(anonymous namespace)". */
static void shorten_parameters(struct shortener *s, size_t end)
{
	if (begins(s->text + s->i, s->n - s->i, "(anonymous namespace)")) {
		copy(s, end);
		return;
	}
	vt_str_add(s->out, "()");
	s->i = end + qualifiers(s->text + end, s->n - end);
}

/* "{lambda(long, long)#2}" becomes "{lambda#2}"; "{unnamed type#1}" stays. */
static void shorten_braces(struct shortener *s, size_t end)
{
	static const char lambda[] = "{lambda(";
	size_t open = s->i + sizeof(lambda) - 2;

	if (begins(s->text + s->i, s->n - s->i, lambda)) {
		size_t close = closing(s->text, s->n, open);

		if (close && close <= end) {
			copy(s, open);
			s->i = close;
		}
	}
	copy(s, end);
}

static void shorten_operator(struct shortener *s, size_t len)
{
	copy(s, s->i + len);
	if (s->i >= s->n || s->text[s->i] != ' ')
		return;
	/* The demangler keeps "operator<" and its template arguments apart with a space. */
	if (s->i + 1 < s->n && s->text[s->i + 1] == '<')
		s->i++;
	else
		s->conversion = true;
}

/* One piece at depth 0; false at the end. */
static bool shorten_piece(struct shortener *s)
{
	if (s->i >= s->n)
		return false;

	size_t skip = operator_length(s->text, s->n, s->i);

	if (skip) {
		shorten_operator(s, skip);
		return true;
	}

	char c = s->text[s->i];
	bool opens = c == '<' || c == '(' || c == '{' || c == '[';
	size_t end = opens ? closing(s->text, s->n, s->i) : 0;

	if (opens && !end)
		s->unclosed++;
	if (s->unclosed > MAX_UNCLOSED) {
		copy(s, s->n);
	} else if (end && c == '<') {
		shorten_arguments(s, end);
	} else if (end && c == '(') {
		shorten_parameters(s, end);
	} else if (end && c == '{') {
		shorten_braces(s, end);
	} else if (end && c == '[') {
		s->i = end; /* an ABI tag: [abi:cxx11] */
	} else if (c == ' ' && begins(s->text + s->i, s->n - s->i, " [clone")) {
		return false;
	} else if (c == ' ' && !s->conversion) {
		/* What came before was the return type of an enclosing function template. */
		vt_str_clear(s->out);
		s->i++;
	} else {
		copy(s, s->i + 1);
	}
	return true;
}

/* A thunk's function comes with its parameter list. */
static void drop_empty_list(struct vt_str *out)
{
	static const char call[] = "operator()";

	if (out->n < 2 || strcmp(out->data + out->n - 2, "()") != 0)
		return;
	if (out->n >= sizeof(call) - 1 && !strcmp(out->data + out->n - (sizeof(call) - 1), call))
		return;
	out->n -= 2;
	out->data[out->n] = '\0';
}

static void shorten_cxx(const char *text, size_t n, bool whole, struct vt_str *out)
{
	/* A thunk is its function to a reader. */
	static const char *const thunks[] = { "non-virtual thunk to ", "virtual thunk to ",
					      "covariant return thunk to " };
	/* Special names keep their spaces. */
	static const char *const special[] = { "vtable for ",
					       "VTT for ",
					       "typeinfo for ",
					       "typeinfo name for ",
					       "guard variable for ",
					       "TLS init function for ",
					       "TLS wrapper function for ",
					       "global constructors keyed to ",
					       "global destructors keyed to " };
	struct shortener s = { .text = text, .n = n, .whole = whole, .out = out };

	for (size_t k = 0; k < sizeof(thunks) / sizeof(thunks[0]); k++) {
		if (begins(text, n, thunks[k]))
			s.i = strlen(thunks[k]);
	}
	for (size_t k = 0; k < sizeof(special) / sizeof(special[0]); k++) {
		if (begins(text, n, special[k]))
			s.conversion = true;
	}
	while (shorten_piece(&s))
		;
	drop_empty_list(out);
}

/*
 * The length of a plain symbol without its version ("poll@@GLIBC_2.2.5") and without the suffixes
 * of compiler clones ("f.constprop.0.cold"). A dot at the start belongs to the name.
 */
static size_t plain_length(const char *symbol, size_t n)
{
	static const char *const clones[] = { ".cold",  ".constprop.", ".isra.",
					      ".part.", ".lto_priv.",  ".localalias",
					      ".llvm.", ".warm",       ".hot" };
	const char *at = memchr(symbol, '@', n);

	if (at && at > symbol)
		n = (size_t)(at - symbol);
	for (size_t i = 1; i < n; i++) {
		if (symbol[i] != '.')
			continue;
		for (size_t k = 0; k < sizeof(clones) / sizeof(clones[0]); k++) {
			if (begins(symbol + i, n - i, clones[k]))
				return i;
		}
	}
	return n;
}

static const char *keep_name(struct vt_arena *arena, const char *text, size_t n)
{
	if (n <= MAX_SHOWN)
		return vt_arena_strndup(arena, text, n);
	return vt_arena_printf(arena, "%.*s...", MAX_SHOWN - 3, text);
}

static const char *demangle(struct vt_arena *arena, const char *mangled, bool whole,
			    struct collector *c)
{
	/* Rust's older mangling is valid C++ too, with a hash at the end: ask for Rust first. */
	if (run_demangler(rust_demangle_callback, mangled, c))
		return keep_name(arena, c->text.data, c->text.n);
	if (!run_demangler(cplus_demangle_v3_callback, mangled, c))
		return NULL;

	struct vt_str out = { 0 };
	const char *result = NULL;

	shorten_cxx(c->text.data, c->text.n, whole, &out);
	if (!out.failed)
		result = keep_name(arena, vt_str_get(&out), out.n);
	vt_str_deinit(&out);
	return result;
}

static const char *readable(struct vt_arena *arena, const char *symbol, size_t n, bool whole)
{
	struct collector c = { 0 };
	size_t plain = plain_length(symbol, n);
	const char *result = NULL;

	if (n > 2 && symbol[0] == '_' && (symbol[1] == 'Z' || symbol[1] == 'R') &&
	    plain <= MAX_MANGLED) {
		VT_FREE char *mangled = strndup(symbol, plain);

		if (!mangled)
			return NULL;
		result = demangle(arena, mangled, whole, &c);
		vt_str_deinit(&c.text);
	}
	return result ? result : keep_name(arena, symbol, plain);
}

const char *vt_demangle(struct vt_arena *arena, const char *symbol, size_t n)
{
	return readable(arena, symbol, n, false);
}

const char *vt_demangle_whole(struct vt_arena *arena, const char *symbol, size_t n)
{
	return readable(arena, symbol, n, true);
}
