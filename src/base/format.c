/* SPDX-License-Identifier: Apache-2.0 */
#include "base/format.h"

#include <stdio.h>

static const unsigned int powers_of_ten[] = { 1, 10, 100 };

size_t vt_put_uint(char *p, uint64_t value)
{
	char digits[20];
	size_t n = 0;

	do
		digits[n++] = (char)('0' + value % 10);
	while ((value /= 10) > 0);
	for (size_t i = 0; i < n; i++)
		p[i] = digits[n - 1 - i];
	return n;
}

size_t vt_put_hex(char *p, uint64_t value)
{
	size_t n = value ? (size_t)(64 - __builtin_clzll(value) + 3) / 4 : 1;

	p[0] = '0';
	p[1] = 'x';
	for (size_t i = 0; i < n; i++)
		p[2 + i] = "0123456789abcdef"[value >> (4 * (n - 1 - i)) & 15];
	return n + 2;
}

/* value counts 10^-decimals of unit. No printf, for speed: a report may print a million sizes. */
static const char *put_decimal(char *buf, uint64_t value, unsigned int decimals, const char *unit)
{
	unsigned int power = powers_of_ten[decimals];
	char *p = buf + vt_put_uint(buf, value / power);

	if (decimals > 0) {
		uint64_t rest = value % power;

		*p++ = '.';
		if (decimals == 2)
			*p++ = (char)('0' + rest / 10);
		*p++ = (char)('0' + rest % 10);
	}
	*p++ = ' ';
	while ((*p++ = *unit++))
		;
	return buf;
}

/* bytes / 2^shift in units of 10^-decimals, rounded. */
static uint64_t scale(uint64_t bytes, unsigned int shift, unsigned int decimals)
{
	unsigned __int128 scaled = (unsigned __int128)bytes * powers_of_ten[decimals];

	return (uint64_t)((scaled + ((unsigned __int128)1 << shift >> 1)) >> shift);
}

const char *vt_format_size(char buf[VT_NUM_MAX], uint64_t bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB" };
	unsigned int u = 0;

	/* Rounding may carry into the next unit: 1023.9 KiB is 1.00 MiB. */
	while (u < 6 && scale(bytes, u * 10, 0) >= 1024)
		u++;
	if (u == 0)
		return put_decimal(buf, bytes, 0, units[0]);

	unsigned int decimals = 2;

	while (decimals > 0 && scale(bytes, u * 10, decimals) >= 1000)
		decimals--;
	return put_decimal(buf, scale(bytes, u * 10, decimals), decimals, units[u]);
}

const char *vt_format_change(char buf[VT_NUM_MAX], int64_t bytes)
{
	char *p = buf;

	if (bytes)
		*p++ = bytes < 0 ? '-' : '+';
	/* 12 characters at most */
	vt_format_size(p, bytes < 0 ? -(uint64_t)bytes : (uint64_t)bytes);
	return buf;
}

const char *vt_format_count(char buf[VT_NUM_MAX], uint64_t n)
{
	char digits[VT_NUM_MAX];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)n);
	char *p = buf;

	for (int i = 0; i < len; i++) {
		if (i > 0 && (len - i) % 3 == 0)
			*p++ = ',';
		*p++ = digits[i];
	}
	*p = '\0';
	return buf;
}

const char *vt_format_share(char buf[VT_NUM_MAX], uint64_t part, uint64_t whole)
{
	if (whole == 0) {
		buf[0] = '\0';
		return buf;
	}

	unsigned __int128 percent = ((unsigned __int128)part * 100 + whole / 2) / whole;

	if (percent == 0 && part > 0)
		snprintf(buf, VT_NUM_MAX, "<1 %%");
	else if (percent == 100 && part < whole)
		snprintf(buf, VT_NUM_MAX, ">99 %%");
	else
		snprintf(buf, VT_NUM_MAX, "%llu %%", (unsigned long long)percent);
	return buf;
}

const char *vt_format_ms(char buf[VT_NUM_MAX], double ms)
{
	if (!(ms > 0))
		ms = 0;
	if (ms > 1e12)
		ms = 1e12;
	if (ms < 0.0995)
		return put_decimal(buf, (uint64_t)(ms * 1000 + 0.5), 0, "µs");
	if (ms < 9.95)
		return put_decimal(buf, (uint64_t)(ms * 10 + 0.5), 1, "ms");
	if (ms < 999.5)
		return put_decimal(buf, (uint64_t)(ms + 0.5), 0, "ms");
	return put_decimal(buf, (uint64_t)(ms / 100 + 0.5), 1, "s");
}

const char *vt_format_age(char buf[VT_NUM_MAX], double seconds)
{
	uint64_t s = seconds > 0 ? (uint64_t)(seconds < 1e15 ? seconds : 1e15) : 0;
	unsigned long long days = s / 86400, hours = s / 3600 % 24, minutes = s / 60 % 60;

	if (days)
		snprintf(buf, VT_NUM_MAX, "%llu d %llu h", days, hours);
	else if (hours)
		snprintf(buf, VT_NUM_MAX, "%llu h %llu min", hours, minutes);
	else if (minutes)
		snprintf(buf, VT_NUM_MAX, "%llu min", minutes);
	else
		snprintf(buf, VT_NUM_MAX, "%llu s", (unsigned long long)s);
	return buf;
}
