/* SPDX-License-Identifier: Apache-2.0 */
#include "prometheus/prometheus.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/hash.h"

void vt_prom_init(struct vt_prom *prom, FILE *out)
{
	/* Without a seed, two labels that were made to collide cost one of them its series. */
	*prom = (struct vt_prom){ .out = out, .seed = vt_hash_seed() };
}

struct vt_error *vt_prom_finish(struct vt_prom *prom)
{
	bool failed = prom->failed || prom->labels.failed;

	vt_map_deinit(&prom->seen);
	vt_str_deinit(&prom->labels);
	if (failed)
		return &vt_enomem;
	if (fflush(prom->out) || ferror(prom->out))
		return vt_error_create_os(errno ? errno : EIO, "cannot write the metrics");
	return NULL;
}

void vt_prom_family(struct vt_prom *prom, const struct vt_prom_family *family)
{
	prom->family = family;
	prom->begun = false;
	vt_map_deinit(&prom->seen);
}

/* ---- labels ---- */

/* Bytes of a text of at most max bytes, without half a character. */
static size_t length_within(const char *text, size_t max)
{
	size_t n = 0, length = strnlen(text, max + 1);

	while (n < length) {
		unsigned int code_point;
		size_t one = vt_utf8_sequence(text + n, length - n, &code_point);

		one = one ? one : 1;
		if (n + one > max)
			break;
		n += one;
	}
	return n;
}

static void add_quoted(struct vt_str *labels, const char *text)
{
	for (; *text; text++) {
		if (*text == '\\' || *text == '"')
			vt_str_add(labels, "\\");
		vt_str_addn(labels, text, 1);
	}
}

void vt_prom_label(struct vt_prom *prom, const char *name, const char *value)
{
	struct vt_str text = { 0 };
	size_t n = value ? length_within(value, VT_PROM_MAX_LABEL) : 0;

	if (n)
		vt_str_add_escaped(&text, value, n);
	if (n && value[n])
		vt_str_add(&text, "…");
	vt_str_addf(&prom->labels, "%s%s=\"", prom->labels.n ? "," : "", name);
	add_quoted(&prom->labels, vt_str_get(&text));
	vt_str_add(&prom->labels, "\"");
	prom->failed |= text.failed;
	vt_str_deinit(&text);
}

void vt_prom_label_known(struct vt_prom *prom, const char *name, int64_t value)
{
	char text[24] = "";

	if (value >= 0)
		snprintf(text, sizeof(text), "%" PRId64, value);
	vt_prom_label(prom, name, text);
}

void vt_prom_share(struct vt_prom *prom)
{
	prom->n_shared = prom->labels.n;
}

/* ---- samples ---- */

static bool is_new(struct vt_prom *prom)
{
	const char *labels = prom->labels.n ? prom->labels.data : "";
	uint64_t hash = vt_hash_bytes(prom->seed, labels, prom->labels.n);

	if (vt_map_get(&prom->seen, hash))
		return false;
	prom->failed |= !vt_map_put(&prom->seen, hash, 0);
	return true;
}

static void put(struct vt_prom *prom, const char *value)
{
	const struct vt_prom_family *family = prom->family;

	if (!prom->labels.failed && is_new(prom)) {
		if (!prom->begun)
			fprintf(prom->out, "# HELP %s %s\n# TYPE %s %s\n", family->name,
				family->help, family->name, family->type);
		prom->begun = true;
		if (prom->labels.n)
			fprintf(prom->out, "%s{%s} %s\n", family->name, prom->labels.data, value);
		else
			fprintf(prom->out, "%s %s\n", family->name, value);
	}
	vt_prom_none(prom);
}

void vt_prom_uint(struct vt_prom *prom, uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	put(prom, text);
}

void vt_prom_int(struct vt_prom *prom, int64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRId64, value);
	put(prom, text);
}

void vt_prom_bool(struct vt_prom *prom, bool value)
{
	put(prom, value ? "1" : "0");
}

void vt_prom_seconds(struct vt_prom *prom, double value)
{
	char text[48] = "";

	if (isfinite(value) && fabs(value) < 1e15)
		snprintf(text, sizeof(text), "%.6f", value);
	if (*text)
		put(prom, text);
	else
		vt_prom_none(prom);
}

void vt_prom_none(struct vt_prom *prom)
{
	vt_str_cut(&prom->labels, prom->n_shared);
}

/* ---- families that several commands have ---- */

void vt_prom_build(struct vt_prom *prom, const char *command, const char *version)
{
	vt_prom_label(prom, "command", command);
	vt_prom_label(prom, "version", version);
	vt_prom_uint(prom, 1);
}

void vt_prom_when(struct vt_prom *prom, const char *command, const struct timespec *when)
{
	vt_prom_label(prom, "command", command);
	vt_prom_seconds(prom, (double)when->tv_sec + (double)when->tv_nsec / 1e9);
}

void vt_prom_complete(struct vt_prom *prom, const char *command, bool complete)
{
	vt_prom_label(prom, "command", command);
	vt_prom_bool(prom, complete);
}
