/* SPDX-License-Identifier: Apache-2.0 */
/* Colours as numbers, and colours for names that have none of their own. */
{
	let probe = null;
	const parsed = new Map();

	const parse = (colour) => {
		probe = probe || document.createElement("canvas").getContext("2d");
		probe.fillStyle = "#888888";
		probe.fillStyle = colour; /* becomes #rrggbb */
		const value = parseInt(probe.fillStyle.slice(1, 7), 16) || 0;

		return [value >> 16, (value >> 8) & 255, value & 255];
	};

	/* [red, green, blue] of an opaque CSS colour */
	vt.rgb = (colour) => {
		if (!parsed.has(colour))
			parsed.set(colour, parse(colour));
		return parsed.get(colour);
	};

	/* share of one, the rest of another */
	vt.mix = (one, other, share) => one.map((value, i) => Math.round(value * share + other[i] * (1 - share)));

	/* What is readable on a colour: "#000" or "#fff" */
	vt.inkOn = ([red, green, blue]) => (0.299 * red + 0.587 * green + 0.114 * blue > 140 ? "#000" : "#fff");

	const N_PICKS = 16; /* --pick-0 ... in style.css */

	const hash = (text) => {
		let value = 0x811c9dc5;

		for (let i = 0; i < text.length; i++)
			value = Math.imul(value ^ text.charCodeAt(i), 0x01000193) >>> 0;
		return value;
	};

	/*
	 * Names, the most important first: Map of the first ones to names of colours, all different. A name keeps its colour
	 * from report to report, unless a more important one has the same.
	 */
	vt.pickColours = (names) => {
		const picks = new Map(), taken = new Set();

		for (const name of names.slice(0, N_PICKS)) {
			let i = hash(name) % N_PICKS;

			while (taken.has(i))
				i = (i + 1) % N_PICKS;
			taken.add(i);
			picks.set(name, "pick-" + i);
		}
		return picks;
	};

	/* "category-graph-pool" of "graph_pool" */
	vt.categoryColour = (category) => "category-" + category.replace(/_/g, "-");
}
