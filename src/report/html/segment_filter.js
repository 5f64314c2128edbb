/* SPDX-License-Identifier: Apache-2.0 */
/* The filter of the segment map: which blocks are meant by a text, sizes, a state, a stream, a colour. */
{
	const UNITS = { "": 1, b: 1, k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 };

	/* "1.5 MiB", "512K", "4096": bytes; null if it is no size */
	vt.parseBytes = (text) => {
		const found = /^\s*([0-9]+(?:\.[0-9]*)?)\s*([kmgt]?)(i?b)?\s*$/i.exec(text);

		return found ? parseFloat(found[1]) * UNITS[found[2].toLowerCase()] : null;
	};

	/* What a text is looked for in, in small letters: a text for each owner, and one for each backtrace. */
	const textsOf = (report) => {
		const { name, category, module, type, dtype, shape } = report.owners;

		return {
			owners: name.map((one, i) => [one, vt.words("category", category[i]), module[i], type[i], dtype[i], shape[i]]
				.filter(Boolean).join(" ").toLowerCase()),
			traces: report.traces.map((trace) => (trace.frames.map((f) => vt.frameText(report.frames[f])).join(" ")
				.toLowerCase())),
		};
	};
	const texts = new WeakMap();

	/* Before the first letter is typed. */
	vt.prepareFilter = (report) => {
		if (!texts.has(report))
			texts.set(report, textsOf(report));
	};

	/* Plain loops: they are several times as fast as what takes a function for each element. */
	const hits = (list, word) => {
		const found = new Uint8Array(list.length);

		for (let i = 0; i < list.length; i++)
			if (list[i].includes(word))
				found[i] = 1;
		return found;
	};

	const textTest = (report, text) => {
		vt.prepareFilter(report);
		const { owners, traces } = texts.get(report), { owner, trace } = report.blocks, word = text.toLowerCase();
		const ownerHits = hits(owners, word), traceHits = hits(traces, word);

		return (i) => (owner[i] >= 0 && ownerHits[owner[i]] === 1) || (trace[i] >= 0 && traceHits[trace[i]] === 1);
	};

	const testsOf = (report, { text, least, most, state, stream, slots, slotOf }) => {
		const { bytes, state: states, segment } = report.blocks, wanted = vt.stateNames.indexOf(state);

		return [
			state && ((i) => states[i] === wanted),
			least !== null && ((i) => bytes[i] >= least),
			most !== null && ((i) => bytes[i] <= most),
			stream && ((i) => report.segments[segment[i]].stream === stream),
			slots.size > 0 && ((i) => slots.has(slotOf(i))),
			text.trim() && textTest(report, text.trim()),
		].filter(Boolean);
	};

	/*
	 * filter: { text, least, most (bytes, null none), state, stream, slots: Set of the map's, slotOf(block) }. Returns {
	 * passes: 1 for each block that is meant, else 0; blocks, bytes: of those }; null: no block is left out.
	 */
	vt.filterBlocks = (report, filter) => {
		const tests = testsOf(report, filter), { n, bytes } = report.blocks;
		const found = { passes: new Uint8Array(n), blocks: 0, bytes: 0 };

		if (!tests.length)
			return null;
		found.passes.fill(1);
		for (const test of tests)
			for (let i = 0; i < n; i++)
				if (found.passes[i] && !test(i))
					found.passes[i] = 0;
		for (let i = 0; i < n; i++) {
			if (found.passes[i]) {
				found.blocks++;
				found.bytes += bytes[i];
			}
		}
		return found;
	};
}
