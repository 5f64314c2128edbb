/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of /dev/kmsg as drivers write them, and such as others write. The log as a whole is read
 * in tests/functional/faults.py.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "faults/xid.h"

/* As an allocation of its own size: a read behind its end is seen by valgrind and ASan. */
static bool parse(const char *text, struct vt_xid *xid)
{
	size_t n = strlen(text);
	char *bytes = malloc(n ? n : 1);
	struct vt_log_record record;
	bool found;

	assert_non_null(bytes);
	memcpy(bytes, text, n);
	memset(xid, 0, sizeof(*xid));
	found = vt_log_record_parse(bytes, n, &record) && vt_xid_parse(&record, xid);
	free(bytes);
	return found;
}

static struct vt_xid need(const char *text)
{
	struct vt_xid xid;

	if (!parse(text, &xid))
		fail_msg("it is an Xid: %s", text);
	return xid;
}

static void check_device(const struct vt_xid *xid, uint32_t domain, uint32_t bus, uint32_t slot)
{
	assert_int_equal(xid->domain, domain);
	assert_int_equal(xid->bus, bus);
	assert_int_equal(xid->slot, slot);
}

/* By the driver 580.159, on an H100. */
static void test_illegal_address(void **arg)
{
	struct vt_xid xid = need(
		"4,1201,8123456789,-;NVRM: Xid (PCI:0000:00:06): 31, pid=672, name=python3, channel 0x0000000a, intr 00000000. MMU "
		"Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x0_00001000. Fault is of type FAULT_PDE "
		"ACCESS_TYPE_VIRT_WRITE\n SUBSYSTEM=pci\n DEVICE=+pci:0000:00:06.0\n");

	(void)arg;
	assert_int_equal(xid.code, 31);
	assert_int_equal(xid.at_us, 8123456789);
	check_device(&xid, 0, 0, 6);
	assert_int_equal(xid.pid, 672);
	assert_string_equal(xid.name, "python3");
	assert_string_equal(
		xid.text,
		"channel 0x0000000a, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x0_00001000. Fault is "
		"of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE");
}

static void test_assert(void **arg)
{
	struct vt_xid xid = need(
		"4,9,77,-;NVRM: Xid (PCI:0000:00:06): 43, pid=729, name=python3, channel 0x0000000a\n");

	(void)arg;
	assert_int_equal(xid.code, 43);
	assert_int_equal(xid.pid, 729);
	assert_string_equal(xid.text, "channel 0x0000000a");
}

static void test_other_forms(void **arg)
{
	struct vt_xid xid;

	(void)arg;
	xid = need(
		"4,9,77,-;NVRM: Xid (PCI:0000:c1:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n");
	assert_int_equal(xid.code, 79);
	assert_int_equal(xid.pid, 0);
	assert_string_equal(xid.name, "");
	assert_string_equal(xid.text, "GPU has fallen off the bus.");
	check_device(&xid, 0, 0xc1, 0);

	xid = need(
		"4,9,77,-;NVRM: Xid (PCI:0000:C1:00 GPU-I:05): 43, pid=5, name=a b, Ch 00000008\n");
	assert_string_equal(xid.name, "a b");
	check_device(&xid, 0, 0xc1, 0);

	/* older drivers */
	xid = need("4,9,77,-;NVRM: Xid (PCI:10000:10:1c): 63, pid=1896, Row Remapper: New row\n");
	check_device(&xid, 0x10000, 0x10, 0x1c);
	assert_int_equal(xid.pid, 1896);
	assert_string_equal(xid.name, "");
	assert_string_equal(xid.text, "Row Remapper: New row");
	assert_true(vt_xid_is_at(&xid, "00010000:10:1C.0"));
	assert_true(vt_xid_is_at(&xid, "10000:10:1c"));
	assert_false(vt_xid_is_at(&xid, "00000000:10:1C.0"));
	assert_false(vt_xid_is_at(&xid, "00010000:11:1C.0"));
	assert_false(vt_xid_is_at(&xid, "00010000:10:1C.0x"));
	assert_false(vt_xid_is_at(&xid, ""));
	xid = need("4,9,77,-;NVRM: Xid (0000:03:00): 14, Channel 00000001\n");
	assert_int_equal(xid.code, 14);
	assert_int_equal(xid.pid, 0);
	assert_string_equal(xid.text, "Channel 00000001");
	xid = need("4,9,77,-;NVRM: Xid (PCI:0000:03:00.0): 154\n");
	assert_int_equal(xid.code, 154);
	assert_string_equal(xid.text, "");

	/* further fields of the record, and no end of the line */
	xid = need("4,9,77,c,caller=T672;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x");
	assert_int_equal(xid.pid, 7);
	assert_string_equal(xid.name, "x");
	assert_string_equal(xid.text, "");
}

/* What others have written there, or may have. */
static void test_none(void **arg)
{
	static const char *const none[] = {
		"",
		"4",
		"4,",
		"4,1,2",
		"4,1,2,-",
		"4,1,2,-;",
		"4,1,2,-\nNVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		",,,;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		"-4,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		"99999999999999999999,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		"4,1,99999999999999999999,-;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		/* of a process: facility user (1), or any other that it chose */
		"12,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		"30,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		/* not at the beginning: a name that a process gave itself */
		"4,1,2,-;traps: NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		"4,1,2,-; NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		"6,1,2,-;NVRM: Xid (PCI:[27]: segfault at 0 ip 0 sp 0 error 4",
		"6,1,2,-;hello\n NVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		"6,1,2,-;hello\nNVRM: Xid (PCI:0000:00:06): 43, pid=7, name=x",
		/* no Xid, or none of a form that is known */
		"4,1,2,-;NVRM: GPU at PCI:0000:00:06: GPU-b850f46d-d5ea-c752-ddf3-c4453e44d3f7",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): ",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): abc",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): 0, pid=7, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): 12345, pid=7, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): 43 pid=7, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=0, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=-1, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=7x, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=4194305, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06): 43, pid=99999999, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06x): 43, pid=7, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:066): 43, pid=7, name=x",
		"4,1,2,-;NVRM: Xid (PCI:000:00:06): 43, pid=7, name=x",
		"4,1,2,-;NVRM: Xid (PCI:123456789:00:06): 43, pid=7, name=x",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:06 a name of an instance that is longer than any is): 43, pid=7",
		"4,1,2,-;NVRM: Xid (PCI:0000:00:0",
	};
	struct vt_xid xid;

	(void)arg;
	for (size_t i = 0; i < sizeof(none) / sizeof(none[0]); i++)
		if (parse(none[i], &xid))
			fail_msg("it is no Xid: %s", none[i]);
}

/* Each beginning of a real one: a part of it or nothing, and never more than is there. */
static void test_cut(void **arg)
{
	static const char whole[] =
		"4,1201,8123456789,-;NVRM: Xid (PCI:0000:00:06): 31, pid=672, name=python3, channel 0x0000000a\n";
	char text[sizeof(whole)];
	struct vt_xid xid;

	(void)arg;
	for (size_t n = 0; n < sizeof(whole); n++) {
		memcpy(text, whole, n);
		text[n] = '\0';
		if (!parse(text, &xid))
			continue;
		assert_true(xid.code == 3 || xid.code == 31);
		check_device(&xid, 0, 0, 6);
	}
}

static void test_long(void **arg)
{
	char text[8192];
	size_t n;
	struct vt_xid xid;

	(void)arg;
	n = (size_t)snprintf(text, sizeof(text),
			     "4,1,2,-;NVRM: Xid (PCI:0000:00:06): 13, pid=7, name=");
	memset(text + n, 'x', sizeof(text) - n - 1);
	text[sizeof(text) - 1] = '\0';
	xid = need(text);
	assert_int_equal(strlen(xid.name), sizeof(xid.name) - 1);
	memcpy(text + n, "a, ", 3);
	xid = need(text);
	assert_string_equal(xid.name, "a");
	assert_int_equal(strlen(xid.text), VT_XID_TEXT - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_illegal_address),
		cmocka_unit_test(test_assert),
		cmocka_unit_test(test_other_forms),
		cmocka_unit_test(test_none),
		cmocka_unit_test(test_cut),
		cmocka_unit_test(test_long),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
