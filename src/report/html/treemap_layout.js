/* SPDX-License-Identifier: Apache-2.0 */
/* Where the rectangles of a treemap are: only what can be seen is laid out, and what is too small is joined. */
{
	/*
	 * Rectangles with areas as the weights, as square as can be: four numbers for each (M. Bruls, K. Huizing, J. van Wijk,
	 * "Squarified Treemaps", 2000). The weights come in falling order, and fill the rectangle.
	 */
	vt.squarify = (weights, x, y, w, h) => {
		const n = weights.length, out = new Float64Array(4 * n), total = weights.reduce((a, b) => a + b, 0);
		const scale = total > 0 ? (w * h) / total : 0;

		for (let first = 0; first < n;) {
			const side = Math.min(w, h), square = side * side;
			const most = weights[first] * scale;
			let sum = most, end = first + 1, worst = Math.max(square / most, most / square);

			for (; end < n; end++) {
				const area = weights[end] * scale, all = sum + area;
				const ratio = Math.max((square * most) / (all * all), (all * all) / (square * area));

				if (ratio > worst)
					break;
				worst = ratio;
				sum = all;
			}
			const thick = side > 0 ? sum / side : 0, across = w >= h;

			for (let i = first, at = across ? y : x; i < end; i++) {
				const long = thick > 0 ? (weights[i] * scale) / thick : 0;

				out.set(across ? [x, at, thick, long] : [at, y, long, thick], 4 * i);
				at += long;
			}
			if (across) {
				x += thick;
				w -= thick;
			} else {
				y += thick;
				h -= thick;
			}
			first = end;
		}
		return out;
	};

	const MIN_AREA = 70; /* square pixels of what is drawn by itself */
	const GROUP_AREA = 3000; /* of groups of smaller ones, at least */
	const MAX_GROUPS = 40;
	const MAX_OWN = 500; /* rectangles in one that are no groups */
	const MAX_CELLS = 4000;
	const MAX_LEVELS = 6;
	const HEAD = 16;

	/* "28.0 to 28.5 KiB" */
	const sizeRange = (large, small) => {
		const most = vt.bytes(large), least = vt.bytes(small), unit = most.slice(most.indexOf(" "));

		return most === least ? most : (least.endsWith(unit) ? least.slice(0, -unit.length) : least) + " to " + most;
	};

	/* [how many, how large] */
	const groupLabel = (count, alone, large, small) => [vt.count(count) + (alone ? " smaller" : " of"), sizeRange(large, small)];

	/*
	 * Cuts a list, the largest first, into n pieces of about the same sum. sizeOf(i) of from <= i < to. Calls piece(first,
	 * end, bytes).
	 */
	const cutUp = (sizeOf, from, to, n, all, piece) => {
		let first = from, bytes = 0, done = 0, made = 0;

		for (let i = from; i < to; i++) {
			bytes += sizeOf(i);
			if (i === to - 1 || (made < n - 1 && done + bytes >= (all * (made + 1)) / n)) {
				piece(first, i + 1, bytes);
				made++;
				done += bytes;
				first = i + 1;
				bytes = 0;
			}
		}
	};

	const pieces = (count, area) => Math.max(1, Math.min(MAX_GROUPS, Math.floor(area / GROUP_AREA), count));

	const sumOf = (sizeOf, from, to) => {
		let all = 0;

		for (let i = from; i < to; i++)
			all += sizeOf(i);
		return all;
	};

	/* Kids from k on, in groups. */
	const groupKids = (parent, k, perByte) => {
		const { kids } = parent, sizeOf = (i) => kids[i].bytes, all = sumOf(sizeOf, k, kids.length);
		const n = pieces(kids.length - k, all * perByte), groups = [];

		cutUp(sizeOf, k, kids.length, n, all, (first, end, bytes) => {
			const some = kids.slice(first, end), blocks = some.reduce((sum, kid) => sum + kid.blocks, 0);
			const label = groupLabel(some.length, n === 1, some[0].bytes, some[some.length - 1].bytes);

			groups.push({ item: -1, bytes, node: some.length === 1 ? some[0] :
				vt.ownerGroup(label, parent, { kids: some, items: new Int32Array(0), bytes, blocks }) });
		});
		return groups;
	};

	/* The same of items. */
	const groupItems = (parent, k, perByte, sizes) => {
		const { items } = parent, sizeOf = (i) => sizes[items[i]], all = sumOf(sizeOf, k, items.length);
		const n = pieces(items.length - k, all * perByte), groups = [];

		cutUp(sizeOf, k, items.length, n, all, (first, end, bytes) => {
			const label = groupLabel(end - first, n === 1, sizeOf(first), sizeOf(end - 1));

			groups.push(end - first === 1 ? { node: null, item: items[first], bytes } : { item: -1, bytes,
				node: vt.ownerGroup(label, parent, { kids: [], items: items.subarray(first, end), bytes, blocks: end - first }) });
		});
		return groups;
	};

	/* What is drawn of a node in so many square pixels, the largest first. */
	const shownOf = (node, sizes, area) => {
		const { kids, items } = node, perByte = node.bytes > 0 ? area / node.bytes : 0, least = MIN_AREA / (perByte || 1);
		const shown = [];
		let k = 0, i = 0;

		while (shown.length < MAX_OWN) {
			const kid = k < kids.length ? kids[k].bytes : 0, item = i < items.length ? sizes[items[i]] : 0;

			if (Math.max(kid, item) < least || Math.max(kid, item) <= 0)
				break;
			shown.push(kid >= item ? { node: kids[k++], item: -1, bytes: kid } : { node: null, item: items[i++], bytes: item });
		}
		if (k < kids.length)
			shown.push(...groupKids(node, k, perByte));
		if (i < items.length)
			shown.push(...groupItems(node, i, perByte, sizes));
		return shown.filter((one) => one.bytes > 0).sort((a, b) => b.bytes - a.bytes);
	};

	/*
	 * The rectangles of a node, those around others before them: [{ node or null, item or -1, bytes, x, y, w, h, level,
	 * head: height of its heading, 0 none; open: others are in it }]
	 */
	vt.treemapCells = (tree, from, width, height) => {
		const cells = [], { bytes } = tree.owned;
		/* Level by level, so that the bound leaves out the deepest ones. */
		let todo = [{ node: from, x: 0, y: 0, w: width, h: height, level: 0 }];

		const open = (cell) => {
			const large = cell.w > 46 && cell.h > 34;

			if (!cell.node || cell.level >= MAX_LEVELS || cell.w < 12 || cell.h < 12 || cell.w * cell.h < 900 ||
				(cell.node.isGroup && cell.level > 1))
				return null;
			cell.head = large ? HEAD : 0;
			cell.open = true;
			return { node: cell.node, x: cell.x + 2, y: cell.y + 2 + cell.head, w: cell.w - 4, h: cell.h - 4 - cell.head,
				level: cell.level + 1 };
		};

		while (todo.length && cells.length < MAX_CELLS) {
			const next = [];

			for (const place of todo) {
				if (cells.length >= MAX_CELLS)
					break;
				const shown = shownOf(place.node, bytes, place.w * place.h);
				const boxes = vt.squarify(shown.map((one) => one.bytes), place.x, place.y, place.w, place.h);

				shown.forEach((one, i) => {
					const cell = { ...one, x: boxes[4 * i], y: boxes[4 * i + 1], w: boxes[4 * i + 2], h: boxes[4 * i + 3],
						level: place.level, head: 0, open: false };

					cells.push(cell);
					next.push(cell);
				});
			}
			todo = next.map(open).filter(Boolean);
		}
		return cells;
	};
}
