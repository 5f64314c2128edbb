/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers for people. Each fills buf and returns it; none depends on the locale. */
#ifndef VT_BASE_FORMAT_H
#define VT_BASE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define VT_NUM_MAX 32

/* The fast variants: they write no NUL and return the length (at most 20). */
size_t vt_put_uint(char *p, uint64_t value);
size_t vt_put_hex(char *p, uint64_t value); /* with 0x */

/*
 * Binary units, three significant digits (four from 1000 on): "512 B", "1.20 GiB", "79.1 GiB",
 * "1023 KiB".
 */
const char *vt_format_size(char buf[VT_NUM_MAX], uint64_t bytes);

/* A difference of sizes: "+1.20 GiB", "-512 B", "0 B". */
const char *vt_format_change(char buf[VT_NUM_MAX], int64_t bytes);

/* Thousands separators: "14,211". */
const char *vt_format_count(char buf[VT_NUM_MAX], uint64_t n);

/* Whole percent: "89 %", "<1 %", ">99 %"; "" when whole is 0. */
const char *vt_format_share(char buf[VT_NUM_MAX], uint64_t part, uint64_t whole);

/* A short time: "12 µs", "0.2 ms", "84 ms", "2.3 s". */
const char *vt_format_ms(char buf[VT_NUM_MAX], double ms);

/* A long time in its two largest units: "9 d 4 h", "38 min", "12 s". */
const char *vt_format_age(char buf[VT_NUM_MAX], double seconds);

#endif
