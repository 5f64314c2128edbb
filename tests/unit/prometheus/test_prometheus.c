/* SPDX-License-Identifier: Apache-2.0 */
/* The text format of Prometheus: what hostile labels become, and what is never written twice. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prometheus/prometheus.h"

#define FAMILY "# HELP vramtap_x_bytes What\n# TYPE vramtap_x_bytes gauge\n"

static const struct vt_prom_family family = { "vramtap_x_bytes", "gauge", "What" };
static const struct vt_prom_family other = { "vramtap_y_total", "counter", "Whatever" };

struct written {
	struct vt_prom prom;
	FILE *out;
	char *text;
	size_t n;
};

static struct vt_prom *begin(struct written *w)
{
	w->text = NULL;
	w->out = open_memstream(&w->text, &w->n);
	assert_non_null(w->out);
	vt_prom_init(&w->prom, w->out);
	vt_prom_family(&w->prom, &family);
	return &w->prom;
}

static void expect(struct written *w, const char *text)
{
	assert_null(vt_prom_finish(&w->prom));
	fclose(w->out);
	assert_string_equal(w->text, text);
	free(w->text);
}

static void samples(void **state)
{
	struct written w;
	struct vt_prom *prom = begin(&w);
	(void)state;

	vt_prom_uint(prom, UINT64_MAX);
	vt_prom_family(prom, &other); /* it has none: nothing is written */
	vt_prom_family(prom, &family);
	vt_prom_label(prom, "a", "b");
	vt_prom_share(prom);
	vt_prom_label_known(prom, "n", 7);
	vt_prom_label_known(prom, "m", -1);
	vt_prom_int(prom, -5);
	vt_prom_label(prom, "c", NULL);
	vt_prom_seconds(prom, 1.5);
	vt_prom_label(prom, "dropped", "x");
	vt_prom_none(prom);
	vt_prom_label(prom, "nan", "x");
	vt_prom_seconds(prom, 0.0 / 0.0);
	vt_prom_bool(prom, true);
	expect(&w, FAMILY "vramtap_x_bytes 18446744073709551615\n" FAMILY
			  "vramtap_x_bytes{a=\"b\",n=\"7\",m=\"\"} -5\n"
			  "vramtap_x_bytes{a=\"b\",c=\"\"} 1.500000\n"
			  "vramtap_x_bytes{a=\"b\"} 1\n");
}

/* The collector refuses the whole file for one of these. */
static void never_twice(void **state)
{
	struct written w;
	struct vt_prom *prom = begin(&w);
	(void)state;

	for (int i = 0; i < 3; i++) {
		vt_prom_label_known(prom, "pid", i / 2);
		vt_prom_int(prom, i);
	}
	vt_prom_family(prom, &other);
	vt_prom_label_known(prom, "pid", 0);
	vt_prom_int(prom, 9);
	expect(&w, FAMILY "vramtap_x_bytes{pid=\"0\"} 0\nvramtap_x_bytes{pid=\"1\"} 2\n"
			  "# HELP vramtap_y_total Whatever\n# TYPE vramtap_y_total counter\n"
			  "vramtap_y_total{pid=\"0\"} 9\n");
}

static void hostile(void **state)
{
	struct written w;
	struct vt_prom *prom = begin(&w);
	(void)state;

	vt_prom_label(prom, "a", "x\"} 1\nvramtap_x_bytes 2\\");
	vt_prom_label(prom, "b", "\x1b[2J\xff \xc3\xa4 \xe2\x80\xae");
	vt_prom_uint(prom, 0);
	expect(&w, FAMILY "vramtap_x_bytes{a=\"x\\\"} 1\\\\x0avramtap_x_bytes 2\\\\\","
			  "b=\"\\\\x1b[2J\\\\xff \xc3\xa4 \\\\xe2\\\\x80\\\\xae\"} 0\n");
}

/* Bounded, and no half character at the end. */
static void lengths(void **state)
{
	char text[10001], expected[512] = FAMILY "vramtap_x_bytes{a=\"";
	struct written w;
	struct vt_prom *prom = begin(&w);
	(void)state;

	memset(text, 'x', sizeof(text));
	text[10000] = '\0';
	text[VT_PROM_MAX_LABEL - 1] = '\xc3'; /* "ä" does not fit */
	text[VT_PROM_MAX_LABEL] = '\xa4';
	memset(expected + strlen(expected), 'x', VT_PROM_MAX_LABEL - 1);
	strcat(expected, "\xe2\x80\xa6\"} 0\n");
	vt_prom_label(prom, "a", text);
	vt_prom_uint(prom, 0);
	text[VT_PROM_MAX_LABEL - 1] = 'x';
	expect(&w, expected);

	prom = begin(&w);
	text[VT_PROM_MAX_LABEL] = '\0'; /* just fits */
	vt_prom_label(prom, "a", text);
	vt_prom_uint(prom, 0);
	strcpy(strstr(expected, "\xe2\x80\xa6"), "x\"} 0\n");
	expect(&w, expected);
}

static void full_disk(void **state)
{
	FILE *full = fopen("/dev/full", "w");
	struct vt_prom prom;
	struct vt_error *err;
	(void)state;

	assert_non_null(full);
	vt_prom_init(&prom, full);
	vt_prom_family(&prom, &family);
	vt_prom_uint(&prom, 1);
	err = vt_prom_finish(&prom);
	assert_non_null(err);
	assert_int_equal(err->code, VT_ERR_OS);
	vt_error_destroy(err);
	fclose(full);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(samples), cmocka_unit_test(never_twice), cmocka_unit_test(hostile),
		cmocka_unit_test(lengths), cmocka_unit_test(full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
