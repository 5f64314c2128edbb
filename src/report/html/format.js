/* SPDX-License-Identifier: Apache-2.0 */
"use strict";
/*
 * The page's scripts share one object. Each file adds what its name says. Texts of the target are only
 * ever put into text nodes and attributes (dom.js): no file may use innerHTML and its like.
 */
const vt = {};

/* ---- figures, as the text report writes them ---- */

{
	const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

	const unknown = (n) => n === null || n === undefined || Number.isNaN(Number(n));

	/* What a table has for a key of a document; undefined for "constructor" and other names that every object knows. */
	vt.lookup = (table, key) => (table && Object.hasOwn(table, key) ? table[key] : undefined);

	/* "1.21 GiB": three digits, and whole bytes */
	vt.bytes = (bytes) => {
		if (unknown(bytes))
			return "unknown";
		let unit = 0, value = Math.abs(bytes);

		while (value >= 1023.5 && unit < UNITS.length - 1) {
			value /= 1024;
			unit++;
		}
		const digits = unit === 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;

		return (bytes < 0 ? "−" : "") + value.toFixed(digits) + " " + UNITS[unit];
	};

	/* "+1.21 GiB" */
	vt.change = (bytes) => (bytes > 0 ? "+" : "") + vt.bytes(bytes);

	/* "80,400" */
	vt.count = (n) => (unknown(n) ? "unknown" : String(Math.round(n)).replace(/\B(?=(\d{3})+$)/g, ","));

	/* "3 blocks", "1 block" */
	vt.plural = (n, one, many = one + "s") => vt.count(n) + " " + (n === 1 ? one : many);

	/* "1 thread", "80,400 threads" */
	vt.counted = (n, one, several = one + "s") => vt.count(n) + " " + (n === 1 ? one : several);

	/* "15 %" */
	vt.percent = (part, whole) => {
		if (unknown(part) || unknown(whole))
			return "unknown";
		if (!whole)
			return "";
		const share = (100 * part) / whole;

		return part > 0 && share < 1 ? "<1 %" : part < whole && share > 99 ? ">99 %" : Math.round(share) + " %";
	};

	/* "4 min": seconds as the largest unit that fits */
	vt.duration = (seconds) => {
		if (unknown(seconds))
			return "unknown";
		for (const [size, name] of [[86400, "d"], [3600, "h"], [60, "min"]])
			if (seconds >= 1.5 * size)
				return Math.round(seconds / size) + " " + name;
		return seconds >= 10 ? Math.round(seconds) + " s" : seconds >= 1 ? seconds.toFixed(1) + " s" :
			Math.round(seconds * 1000) + " ms";
	};

	/* "0.3 ms", "70 ms", "1.4 s" */
	vt.milliseconds = (ms) => (unknown(ms) ? "unknown" : ms < 0.0995 ? Math.round(ms * 1000) + " µs" : ms < 9.95 ? ms.toFixed(1) + " ms" :
		ms < 999.5 ? Math.round(ms) + " ms" : (ms / 1000).toFixed(1) + " s");

	/* "train.py:57": the file without its directories */
	vt.place = (frame) => {
		if (frame.file)
			return frame.file.replace(/^.*\//, "") + (frame.line ? ":" + frame.line : "");
		return frame.module ? frame.module + (frame.module_offset ? "+" + frame.module_offset : "") : "";
	};

	vt.functionName = (frame) => {
		if (!frame.function)
			return frame.kind === "python" ? "<unknown>" : frame.pc || "??";
		return frame.kind === "python" ? frame.function : vt.cxxName(frame.function);
	};

	vt.stateNames = ["allocated", "awaiting-free", "cached", "unmapped"];
	vt.stateWords = { allocated: "in use", "awaiting-free": "awaiting free", cached: "cached", unmapped: "not mapped" };
}
