/* SPDX-License-Identifier: Apache-2.0 */
/* By what blocks are coloured on the map: each block has a slot, each slot a colour and a line of the legend. */
{
	const CACHED = 0, UNMAPPED = 1, AWAITING = 2, OTHER = 3, FIRST = 4;
	const HOLES = { cached: CACHED, unmapped: UNMAPPED, "awaiting-free": AWAITING };

	const AGES = [[1, "newer than 1 s"], [10, "newer than 10 s"], [60, "newer than 1 min"], [300, "newer than 5 min"],
		[1800, "newer than 30 min"], [7200, "newer than 2 h"], [86400, "newer than 1 d"], [Infinity, "older"]];

	/* Numbers for keys: { numbers: of each item, -1 for null; keys } */
	const number = (items) => {
		const numbers = new Int32Array(items.length), known = new Map(), keys = [];

		for (let i = 0; i < items.length; i++) {
			const key = items[i];
			let n = key === null || key === undefined ? -1 : known.get(key);

			if (n === undefined) {
				n = keys.push(key) - 1;
				known.set(key, n);
			}
			numbers[i] = n;
		}
		return { numbers, keys };
	};

	/* The same for blocks, of which each has an index of such an item in a column; below 0 none. */
	const numberBy = (column, items) => {
		const { numbers, keys } = number(items), all = new Int32Array(column.length);

		for (let i = 0; i < all.length; i++)
			all[i] = column[i] < 0 ? -1 : numbers[column[i]];
		return { keys, numbers: all };
	};

	const numberAges = (ages) => {
		const numbers = new Int32Array(ages.length);

		for (let i = 0; i < ages.length; i++) {
			let n = ages[i] < 0 ? -1 : 0;

			while (n >= 0 && ages[i] >= AGES[n][0])
				n++;
			numbers[i] = n;
		}
		return numbers;
	};

	const anyAge = (ages) => {
		for (let i = 0; i < ages.length; i++)
			if (ages[i] >= 0)
				return true;
		return false;
	};

	/* What blocks of one owner have in common: the module, or where the name begins. */
	const ownerKeys = ({ owners }) => owners.name.map((name, i) => owners.module[i] || owners.variable[i] || name);

	/* Of each backtrace, the title of its site. */
	const siteTitles = (report) => report.traces.map((trace) => (trace.title === null || trace.title === undefined ?
		"(a thread that ran no Python)" : vt.frameText(report.frames[trace.title])));

	/*
	 * title; number(report): what blocks in use are coloured by, { numbers: of each block, -1 none; keys }; colours: (keys,
	 * the largest first) => Map of keys to names of colours; words(key); none: of those without a key; wanted(report):
	 * whether it tells anything.
	 */
	const MODES = {
		category: {
			title: "category",
			number: (report) => numberBy(report.blocks.owner, report.owners.category),
			colours: (keys) => new Map(keys.map((key) => [key, vt.categoryColour(key)])),
			words: (key) => vt.words("category", key),
			none: "in use, owner not known",
			wanted: (report) => report.owners.name.length > 0,
		},
		owner: {
			title: "owner",
			number: (report) => numberBy(report.blocks.owner, ownerKeys(report)),
			colours: vt.pickColours,
			none: "in use, owner not known",
			wanted: (report) => report.owners.name.length > 0,
		},
		site: {
			title: "site",
			number: (report) => numberBy(report.blocks.trace, siteTitles(report)),
			colours: vt.pickColours,
			none: "in use, no backtrace",
			wanted: (report) => report.traces.length > 0,
		},
		stream: {
			title: "stream",
			number: (report) => numberBy(report.blocks.segment, report.segments.map((segment) => segment.stream)),
			colours: vt.pickColours,
			words: (key) => (key === "0x0" ? "default stream" : "stream " + key),
			none: "",
		},
		age: {
			title: "age",
			number: ({ blocks }) => ({ keys: AGES.map((_, i) => i), numbers: numberAges(blocks.age) }),
			colours: (keys) => new Map(keys.map((key) => [key, "age-" + key])),
			words: (key) => AGES[key][1],
			none: "in use, age not recorded",
			wanted: (report) => anyAge(report.blocks.age),
		},
		state: {
			title: "state",
			number: ({ blocks }) => ({ keys: ["allocated"], numbers: new Int32Array(blocks.n) }),
			colours: () => new Map([["allocated", "state-allocated"]]),
			words: () => "in use",
			none: "",
		},
	};

	/* [[mode, title]] of what this report can be coloured by */
	vt.mapModes = (report) => Object.entries(MODES).filter(([, mode]) => !mode.wanted || mode.wanted(report))
		.map(([name, mode]) => [name, mode.title]);

	/* Of the blocks in use, for each number, and last for those without. */
	const sumUp = (report, { numbers, keys }) => {
		const { n, bytes, state } = report.blocks, sums = keys.concat(null).map((key, i) => ({ key, number: i < keys.length ? i : -1,
			bytes: 0, blocks: 0 }));

		for (let i = 0; i < n; i++) {
			if (state[i] === 0) {
				const sum = sums[numbers[i] < 0 ? keys.length : numbers[i]];

				sum.bytes += bytes[i];
				sum.blocks++;
			}
		}
		return sums;
	};

	const holeLines = (report) => {
		const lines = [{ slot: AWAITING, title: "awaiting free", colour: "state-awaiting-free", bytes: 0, blocks: 0 },
			{ slot: CACHED, title: "free, cached", colour: "map-cached", bytes: 0, blocks: 0 },
			{ slot: UNMAPPED, title: "not mapped", colour: "map-unmapped", bytes: 0, blocks: 0 }];
		const of = vt.stateNames.map((name) => lines.find((line) => line.slot === HOLES[name]));
		const { n, bytes, state } = report.blocks;

		for (let i = 0; i < n; i++) {
			if (of[state[i]]) {
				of[state[i]].bytes += bytes[i];
				of[state[i]].blocks++;
			}
		}
		return lines.filter((line) => line.blocks);
	};

	/* The line of what has no colour of its own. */
	const otherLine = (mode, others, without) => {
		const line = { slot: OTHER, colour: "category-unknown", bytes: without.bytes, blocks: without.blocks, title: mode.none };

		for (const sum of others) {
			line.bytes += sum.bytes;
			line.blocks += sum.blocks;
		}
		if (others.length)
			line.title = `${vt.count(others.length)} more` + (without.blocks ? ", and " + mode.none : "");
		return line;
	};

	/* { slots: one a block, legend: [{ slot, title, colour, bytes, blocks }] }; by: a mode's name, or one like those above */
	vt.blockColours = (report, by) => {
		const mode = MODES[by] || by, numbered = mode.number(report), sums = sumUp(report, numbered), without = sums.pop();
		const order = sums.filter((sum) => sum.blocks).sort((a, b) => b.bytes - a.bytes);
		const colours = mode.colours(order.map((sum) => sum.key)), slotOf = new Uint8Array(numbered.keys.length).fill(OTHER);
		const legend = order.filter((sum) => colours.has(sum.key)).map((sum, i) => {
			slotOf[sum.number] = FIRST + i;
			return { slot: FIRST + i, colour: colours.get(sum.key), bytes: sum.bytes, blocks: sum.blocks,
				title: mode.words ? mode.words(sum.key) : sum.key };
		});
		const other = otherLine(mode, order.filter((sum) => !colours.has(sum.key)), without);
		const { n, state } = report.blocks, slots = new Uint8Array(n), holes = vt.stateNames.map((name) => HOLES[name]);

		if (by === "age")
			legend.sort((a, b) => a.colour.localeCompare(b.colour));
		if (other.blocks)
			legend.push(other);
		for (let i = 0; i < n; i++)
			slots[i] = state[i] !== 0 ? holes[state[i]] : numbered.numbers[i] < 0 ? OTHER : slotOf[numbered.numbers[i]];
		return { slots, legend: [...legend, ...holeLines(report)] };
	};

	vt.slotUnmapped = UNMAPPED;
}
