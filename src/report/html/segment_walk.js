/* SPDX-License-Identifier: Apache-2.0 */
/* From block to block on the segment map, with keys. */
{
	const { RULER, clamp, rowHeight, rowTop, blockAtPoint, placeOf } = vt.mapView;

	const isShown = (map, i) => map.codes[i] < vt.mapDim;

	/* The next block, in the order of the map, that matches the filter. */
	const neighbour = (map, i, step) => {
		const order = map.order, n = order.length;

		for (let at = map.rank[i] + step; at >= 0 && at < n; at += step)
			if (isShown(map, order[at]))
				return order[at];
		return i;
	};

	/* The block above or below it. */
	const across = (map, i, step) => {
		const place = placeOf(map, i), row = place.row + step;

		if (row < 0 || row >= map.layout.rows.length)
			return i;
		const y = RULER + rowTop(map, row) - map.view.top + rowHeight(map) / 2;
		const { pieces } = map.layout.rows[row], x = clamp(place.x + Math.min(place.width, 2) / 2, 0, map.width - 1);
		const found = blockAtPoint(map, x, y).block;

		if (found >= 0)
			return found;
		const piece = pieces[pieces.length - 1];

		const last = piece ? vt.blockAt(map.report, map.layout, piece.segment, piece.to - 1) : -1;

		return last >= 0 ? last : i;
	};

	/* The first block of the segment before or behind it. */
	const otherSegment = (map, i, step) => {
		const { segments } = map.report, s = map.report.blocks.segment[i];
		let at = map.rank[step > 0 ? segments[s].end - 1 : segments[s].first] + step;

		at = clamp(at, 0, map.order.length - 1);
		return segments[map.report.blocks.segment[map.order[at]]].first;
	};

	/* Blocks in the order of the map, and where each is in it. */
	const orderBlocks = (map) => {
		const { report, layout } = map, rank = new Int32Array(report.blocks.n), order = new Int32Array(report.blocks.n);
		let at = 0;

		for (const one of layout.groups)
			for (const s of one.segments)
				for (let i = report.segments[s].first; i < report.segments[s].end; i++) {
					rank[i] = at;
					order[at++] = i;
				}
		map.rank = rank;
		map.order = order.subarray(0, at);
	};

	const WALKS = {
		ArrowRight: (map, i) => neighbour(map, i, 1),
		ArrowLeft: (map, i) => neighbour(map, i, -1),
		ArrowDown: (map, i) => across(map, i, 1),
		ArrowUp: (map, i) => across(map, i, -1),
		PageDown: (map, i) => otherSegment(map, i, 1),
		PageUp: (map, i) => otherSegment(map, i, -1),
		Home: (map, i) => map.report.segments[map.report.blocks.segment[i]].first,
		End: (map, i) => map.report.segments[map.report.blocks.segment[i]].end - 1,
	};

	/* The block that a key leads to; undefined: it is no such key. */
	vt.walkMap = (map, key) => {
		if (!vt.lookup(WALKS, key))
			return undefined;
		return map.selected < 0 ? neighbour(map, map.order[0], isShown(map, map.order[0]) ? 0 : 1) :
			WALKS[key](map, map.selected);
	};

	/* The next block that matches the filter, round the end. */
	vt.nextOnMap = (map, step) => {
		const { order, selected } = map, n = order.length;
		const from = selected >= 0 ? map.rank[selected] : step > 0 ? -1 : n;

		for (let k = 1; k <= n; k++) {
			const i = order[(from + k * step + 2 * n) % n];

			if (isShown(map, i))
				return i;
		}
		return -1;
	};

	vt.orderMap = orderBlocks;
}
