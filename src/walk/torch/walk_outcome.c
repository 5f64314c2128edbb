/* SPDX-License-Identifier: Apache-2.0 */
#include "walk/torch/walk_state.h"

#define DEADLINE_EVERY 4096 /* objects between two looks at the clock */

void vt_torch_why_text(char *to, size_t size, size_t *at, const char *text)
{
	while (*text && *at + 1 < size)
		to[(*at)++] = *text++;
	to[*at] = '\0';
}

void vt_torch_why_number(char *to, size_t size, size_t *at, uint64_t value)
{
	char digits[21];
	size_t n = sizeof(digits) - 1;

	digits[n] = '\0';
	do {
		digits[--n] = (char)('0' + value % 10);
		value /= 10;
	} while (value);
	vt_torch_why_text(to, size, at, digits + n);
}

static void set_why(struct vt_torch_walk *w, const char *why, uint64_t addr)
{
	size_t at = 0;

	if (w->result->why[0])
		return; /* the first failure is the telling one */
	vt_torch_why_text(w->result->why, sizeof(w->result->why), &at, why);
	w->result->bad_addr = addr;
}

/* An invariant does not hold. False: the walk ends here. */
bool vt_torch_walk_broken(struct vt_torch_walk *w, const char *why, uint64_t addr)
{
	set_why(w, why, addr);
	w->unstable = true;
	if (w->strict) {
		w->result->result = VT_WALK_REFUSED;
		w->stopped = true;
	}
	return !w->strict;
}

bool vt_torch_walk_refuse(struct vt_torch_walk *w, const char *why, uint64_t addr)
{
	w->result->why[0] = '\0';
	set_why(w, why, addr);
	w->result->result = VT_WALK_REFUSED;
	w->stopped = true;
	return false;
}

bool vt_torch_walk_truncate(struct vt_torch_walk *w, const char *why)
{
	w->result->why[0] = '\0';
	set_why(w, why, 0);
	w->result->result = VT_WALK_TRUNCATED;
	w->stopped = true;
	return false;
}

uint64_t vt_torch_walk_now(const struct vt_torch_walk *w)
{
	return w->limits.now_ns ? w->limits.now_ns() : 0;
}

/* Call with a running count; looks at the clock now and then. */
bool vt_torch_walk_in_time(struct vt_torch_walk *w, uint64_t count)
{
	if (count % DEADLINE_EVERY || !w->limits.now_ns ||
	    w->limits.now_ns() - w->away_ns < w->limits.deadline_ns)
		return true;
	return vt_torch_walk_truncate(w, "the walk took longer than it may");
}
