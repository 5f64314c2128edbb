/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of the kernel's log, damaged: what is read of one lies within it, and an Xid is one only
 * where the kernel's own record begins like one, with numbers and texts that are there.
 */
#include <string.h>

#include "fuzz.h"
#include "faults/xid.h"

#define BEGIN "NVRM: Xid ("
#define MAX_PID 4194304

size_t fuzz_seed(unsigned int number, uint8_t *data, size_t max)
{
	static const char *const seeds[] = {
		"4,1201,8123456789,-;NVRM: Xid (PCI:0000:00:06): 31, pid=672, name=python3, channel 0x0000000a, intr 00000000. MMU Fault\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:06.0\n",
		"4,9,77,-;NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n",
		"4,9,77,-;NVRM: Xid (PCI:0000:C1:00 GPU-I:05): 43, pid=5, name=a b, Ch 00000008\n",
		"4,9,77,-;NVRM: Xid (0000:03:00): 14, Channel 00000001\n",
		"4,9,77,-;NVRM: Xid (PCI:10000:03:00.0): 154\n",
		"4,9,77,c,caller=T672;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		"12,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
	};

	return fuzz_seed_of(seeds, sizeof(seeds) / sizeof(seeds[0]), number, data, max);
}

/* Without the function that is tested: in decimal, up to the first comma. */
static bool is_by_kernel(const char *bytes, size_t n)
{
	unsigned long priority = 0;

	for (size_t i = 0; i < n && bytes[i] >= '0' && bytes[i] <= '9' && priority < 1000; i++)
		priority = priority * 10 + (unsigned long)(bytes[i] - '0');
	return priority < 8;
}

static void check_record(const char *bytes, size_t n, const struct vt_log_record *record)
{
	fuzz_check(record->text > bytes && record->text + record->n <= bytes + n, "outside");
	fuzz_check(record->text[-1] == ';', "it begins elsewhere");
	fuzz_check(!record->n || !memchr(record->text, '\n', record->n), "more than a line");
	fuzz_check(record->kernel == is_by_kernel(bytes, n), "by whom");
}

static void check_text(const struct vt_log_record *record, const char *text, size_t size)
{
	size_t n = strnlen(text, size);

	fuzz_check(n < size, "without an end");
	fuzz_check(!n || memmem(record->text, record->n, text, n), "it is not there: %s", text);
}

static void check_xid(const struct vt_log_record *record, const struct vt_xid *xid)
{
	char pci[32], code[16];

	fuzz_check(record->kernel && record->n > strlen(BEGIN) &&
			   !memcmp(record->text, BEGIN, strlen(BEGIN)),
		   "it is none");
	fuzz_check(xid->code > 0 && xid->code <= 9999, "code %u", xid->code);
	snprintf(code, sizeof(code), "%u", xid->code);
	fuzz_check(memmem(record->text, record->n, code, strlen(code)), "code %u", xid->code);
	fuzz_check(xid->pid >= 0 && xid->pid <= MAX_PID, "pid %d", (int)xid->pid);
	fuzz_check(xid->pid || !*xid->name, "a name of no process");
	fuzz_check(xid->at_us == record->at_us, "time");
	check_text(record, xid->name, sizeof(xid->name));
	check_text(record, xid->text, sizeof(xid->text));
	snprintf(pci, sizeof(pci), "%08X:%02X:%02X.0", xid->domain, xid->bus, xid->slot);
	fuzz_check(vt_xid_is_at(xid, pci), "it is not at %s", pci);
	snprintf(pci, sizeof(pci), "%08X:%02X:%02X.0", xid->domain, xid->bus ^ 1, xid->slot);
	fuzz_check(!vt_xid_is_at(xid, pci), "it is at %s", pci);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of its own size, so that a sanitizer sees what is read behind it. */
	char *bytes = malloc(size ? size : 1);
	struct vt_log_record record;
	struct vt_xid xid;

	if (!bytes)
		exit(1);
	if (size)
		memcpy(bytes, data, size);
	if (vt_log_record_parse(bytes, size, &record)) {
		check_record(bytes, size, &record);
		if (vt_xid_parse(&record, &xid))
			check_xid(&record, &xid);
	}
	free(bytes);
	return 0;
}
