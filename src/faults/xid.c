/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The form is that of the drivers 470 to 580; before, the address had no "PCI:", and before that
 * there was no "pid=".
 */
#include "faults/xid.h"

#include <string.h>

#include "base/span.h"

#define MAX_PID 4194304 /* PID_MAX_LIMIT of the kernel */
#define MAX_CODE 9999
#define MAX_INSTANCE 40 /* " GPU-I:05" of MIG */

static int digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' :
	       c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 :
				      16;
}

/* From min to max digits. */
static bool take_number(struct vt_span *rest, unsigned int base, size_t min, size_t max,
			uint64_t *number)
{
	uint64_t value = 0;
	size_t n = 0;

	for (; n < rest->n && n < max && digit(rest->p[n]) < (int)base; n++)
		value = value * base + (unsigned int)digit(rest->p[n]);
	if (n < min || (n < rest->n && digit(rest->p[n]) < (int)base))
		return false;
	vt_span_skip(rest, n);
	*number = value;
	return true;
}

bool vt_log_record_parse(const char *bytes, size_t n, struct vt_log_record *record)
{
	struct vt_span rest = { bytes, n };
	uint64_t priority, number, at_us;
	const char *end;

	if (!take_number(&rest, 10, 1, 9, &priority) || !vt_span_take(&rest, ",") ||
	    !take_number(&rest, 10, 1, 19, &number) || !vt_span_take(&rest, ",") ||
	    !take_number(&rest, 10, 1, 18, &at_us) || !vt_span_take(&rest, ","))
		return false;
	/* Fields may be added before the semicolon, says the kernel's ABI/testing/dev-kmsg. */
	end = memchr(rest.p, ';', rest.n);
	if (!end)
		return false;
	vt_span_skip(&rest, (size_t)(end + 1 - rest.p));
	/* Behind the line come lines with properties. */
	end = memchr(rest.p, '\n', rest.n);
	*record = (struct vt_log_record){
		.kernel = priority >> 3 == 0, /* the facility: devkmsg_write() lets nobody set 0 */
		.at_us = at_us,
		.text = rest.p,
		.n = end ? (size_t)(end - rest.p) : rest.n,
	};
	return true;
}

/* "0000:1B:00" or "0000:1B:00.0" */
static bool take_pci(struct vt_span *rest, struct vt_xid *xid)
{
	uint64_t domain, bus, slot, function;

	if (!take_number(rest, 16, 4, 8, &domain) || !vt_span_take(rest, ":") ||
	    !take_number(rest, 16, 2, 2, &bus) || !vt_span_take(rest, ":") ||
	    !take_number(rest, 16, 2, 2, &slot))
		return false;
	if (vt_span_take(rest, ".") && !take_number(rest, 10, 1, 1, &function))
		return false;
	xid->domain = (uint32_t)domain;
	xid->bus = (uint32_t)bus;
	xid->slot = (uint32_t)slot;
	return true;
}

static bool take_address(struct vt_span *rest, struct vt_xid *xid)
{
	const char *end;

	(void)vt_span_take(rest, "PCI:");
	if (!take_pci(rest, xid))
		return false;
	end = memchr(rest->p, ')', rest->n < MAX_INSTANCE ? rest->n : MAX_INSTANCE);
	if (!end || (end > rest->p && *rest->p != ' '))
		return false;
	vt_span_skip(rest, (size_t)(end - rest->p));
	return true;
}

static void copy(char *to, size_t size, const char *from, size_t n)
{
	n = n < size - 1 ? n : size - 1;
	memcpy(to, from, n);
	to[n] = '\0';
}

/*
 * "pid=672, name=python3, ". Of a process that it does not know, both are '<unknown>'. A name is
 * whatever the process calls itself, so a comma in it may end it here.
 */
static bool take_process(struct vt_span *rest, struct vt_xid *xid)
{
	uint64_t pid;
	const char *end;
	size_t n;

	if (!vt_span_take(rest, "pid="))
		return true;
	if (take_number(rest, 10, 1, 7, &pid)) {
		if (!pid || pid > MAX_PID)
			return false;
		xid->pid = (pid_t)pid;
	} else if (!vt_span_take(rest, "'<unknown>'") && !vt_span_take(rest, "<unknown>")) {
		return false;
	}
	if (rest->n && !vt_span_take(rest, ", "))
		return false;
	if (!vt_span_take(rest, "name="))
		return true;
	end = memmem(rest->p, rest->n, ", ", 2);
	n = end ? (size_t)(end - rest->p) : rest->n;
	if (xid->pid)
		copy(xid->name, sizeof(xid->name), rest->p, n);
	vt_span_skip(rest, n);
	(void)vt_span_take(rest, ", ");
	return true;
}

bool vt_xid_parse(const struct vt_log_record *record, struct vt_xid *xid)
{
	struct vt_span rest = { record->text, record->n };
	struct vt_xid found = { .at_us = record->at_us };
	uint64_t code;

	if (!record->kernel || !vt_span_take(&rest, "NVRM: Xid (") ||
	    !take_address(&rest, &found) || !vt_span_take(&rest, "): ") ||
	    !take_number(&rest, 10, 1, 4, &code) || !code || code > MAX_CODE ||
	    (rest.n && !vt_span_take(&rest, ",")))
		return false;
	(void)vt_span_take(&rest, " ");
	if (!take_process(&rest, &found))
		return false;
	found.code = (uint32_t)code;
	copy(found.text, sizeof(found.text), rest.p, rest.n);
	*xid = found;
	return true;
}

bool vt_xid_is_at(const struct vt_xid *xid, const char *pci)
{
	struct vt_span rest = { pci, strlen(pci) };
	struct vt_xid there;

	return take_pci(&rest, &there) && !rest.n && there.domain == xid->domain &&
	       there.bus == xid->bus && there.slot == xid->slot;
}
