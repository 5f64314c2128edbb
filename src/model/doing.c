/* SPDX-License-Identifier: Apache-2.0 */
#include "model/doing.h"

#include <stddef.h>
#include <string.h>

#define NAME(name, text) text,
static const char *const verdict_names[] = { VT_VERDICTS(NAME) };
static const char *const purpose_names[] = { VT_PURPOSES(NAME) };
static const char *const waits_names[] = { VT_WAITS(NAME) };
#undef NAME

static bool same(const char *a, const char *b)
{
	return a == b || !strcmp(a ? a : "", b ? b : "");
}

bool vt_verdict_equal(const struct vt_verdict *a, const struct vt_verdict *b)
{
	return a->code == b->code && a->purpose == b->purpose && a->holder == b->holder &&
	       same(a->function, b->function) && same(a->for_function, b->for_function) &&
	       same(a->holder_name, b->holder_name);
}

bool vt_waits_equal(const struct vt_waits *a, const struct vt_waits *b)
{
	return a->code == b->code && same(a->call, b->call) && same(a->detail, b->detail);
}

/* FNV-1a */
static uint64_t mix_byte(uint64_t hash, unsigned char byte)
{
	return (hash ^ byte) * UINT64_C(1099511628211);
}

static uint64_t mix_text(uint64_t hash, const char *text)
{
	for (; text && *text; text++)
		hash = mix_byte(hash, (unsigned char)*text);
	return mix_byte(hash, 0);
}

uint64_t vt_verdict_hash(const struct vt_verdict *verdict)
{
	uint64_t hash = UINT64_C(14695981039346656037);

	hash = mix_byte(hash, (unsigned char)verdict->code);
	hash = mix_byte(hash, (unsigned char)verdict->purpose);
	hash = mix_text(hash, verdict->function);
	hash = mix_text(hash, verdict->for_function);
	for (unsigned int shift = 0; shift < 32; shift += 8)
		hash = mix_byte(hash, (unsigned char)((uint32_t)verdict->holder >> shift));
	return mix_text(hash, verdict->holder_name);
}

bool vt_verdict_is_in(const struct vt_verdict *verdict, const char *family)
{
	return verdict->code == VT_VERDICT_IN_FUNCTION && verdict->function &&
	       !strncmp(verdict->function, family, strlen(family));
}

static const char *name_of(const char *const *names, size_t n, unsigned int code)
{
	return code < n ? names[code] : NULL;
}

static unsigned int code_of(const char *const *names, size_t n, const char *name)
{
	for (unsigned int i = 0; name && i < n; i++)
		if (names[i] && !strcmp(names[i], name))
			return i;
	return 0;
}

const char *vt_verdict_code_name(enum vt_verdict_code code)
{
	return name_of(verdict_names, VT_N_VERDICTS, code);
}

const char *vt_purpose_name(enum vt_purpose purpose)
{
	return name_of(purpose_names, VT_N_PURPOSES, purpose);
}

const char *vt_waits_code_name(enum vt_waits_code code)
{
	return name_of(waits_names, VT_N_WAITS, code);
}

enum vt_verdict_code vt_verdict_code_of(const char *name)
{
	return (enum vt_verdict_code)code_of(verdict_names, VT_N_VERDICTS, name);
}

enum vt_purpose vt_purpose_of(const char *name)
{
	return (enum vt_purpose)code_of(purpose_names, VT_N_PURPOSES, name);
}

enum vt_waits_code vt_waits_code_of(const char *name)
{
	return (enum vt_waits_code)code_of(waits_names, VT_N_WAITS, name);
}
