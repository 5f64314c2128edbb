/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which part of the segment map is in view, and where things are then, in CSS pixels of the canvas. A map is what
 * segment_map.js makes; map.view is { zoom, left: bytes, top: pixels }.
 */
{
	const RULER = 20, HEAD = 22, GAP = 7; /* of the scale above, of a group's title, below a row */
	const MAX_ZOOMED_ROW = 52;
	const WIDEST_BLOCK_BYTES = 512, WIDEST_BLOCK = 60; /* the closest look: so many pixels for PyTorch's smallest block */
	const LEAST = 14; /* pixels of a block that is shown closer */

	const clamp = (value, low, high) => Math.max(low, Math.min(high, value));

	/* Rows are taller when one looks closer, but not as much as blocks become wider. */
	const rowHeight = (map, zoom = map.view.zoom) => Math.round(Math.min(MAX_ZOOMED_ROW, map.baseRow * Math.sqrt(zoom)));

	const contentHeight = (map, zoom = map.view.zoom) => map.layout.groups.length * HEAD +
		map.layout.rows.length * (rowHeight(map, zoom) + GAP);

	/* Below the ruler, before the view's own shift. */
	const rowTop = (map, row, zoom = map.view.zoom) => (map.layout.rows[row].group + 1) * HEAD +
		row * (rowHeight(map, zoom) + GAP);

	const scaleOf = (map, zoom = map.view.zoom) => (map.width * zoom) / map.layout.width;

	const maxZoom = (map) => Math.max(1, (WIDEST_BLOCK / WIDEST_BLOCK_BYTES) * (map.layout.width / map.width));

	/* The last row that begins above y, of the content. */
	const rowAt = (map, y) => {
		let low = 0, high = map.layout.rows.length - 1;

		while (low < high) {
			const middle = (low + high + 1) >> 1;

			if (rowTop(map, middle) <= y)
				low = middle;
			else
				high = middle - 1;
		}
		return low;
	};

	const limitView = (map) => {
		const { view } = map;

		view.zoom = clamp(view.zoom, 1, maxZoom(map));
		view.left = clamp(view.left, 0, map.layout.width - map.width / scaleOf(map));
		view.top = clamp(view.top, 0, Math.max(0, contentHeight(map) - (map.height - RULER)));
	};

	/* What is at (x, y) of the canvas stays there. */
	const zoomAt = (map, factor, x, y) => {
		const { view } = map, at = view.left + x / scaleOf(map), inside = y - RULER + view.top;
		const row = rowAt(map, inside), share = (inside - rowTop(map, row)) / (rowHeight(map) + GAP);

		view.zoom = clamp(view.zoom * factor, 1, maxZoom(map));
		view.left = at - x / scaleOf(map);
		view.top = rowTop(map, row) + share * (rowHeight(map) + GAP) - (y - RULER);
		limitView(map);
	};

	/* The block at (x, y); of several at that pixel the largest. -1 none. also: how many others are there */
	const blockAtPoint = (map, x, y) => {
		const inside = y - RULER + map.view.top, row = rowAt(map, inside);
		const found = { block: -1, also: 0, piece: null };

		if (y < RULER || inside < rowTop(map, row) || inside > rowTop(map, row) + rowHeight(map) + GAP)
			return found;
		const at = map.view.left + Math.floor(x) / scaleOf(map), next = at + 1 / scaleOf(map);
		const piece = map.layout.rows[row].pieces.find((one) => one.x < next && one.x + one.to - one.from > at);

		if (!piece)
			return found;
		const shift = piece.from - piece.x, { end } = map.report.segments[piece.segment];
		const low = Math.max(piece.from, at + shift), high = Math.min(piece.to, next + shift);

		found.piece = piece;
		for (let i = vt.blockAt(map.report, map.layout, piece.segment, low); i >= 0 && i < end && (map.layout.starts[i] < high); i++) {
			if (found.block >= 0)
				found.also++;
			if (found.block < 0 || map.report.blocks.bytes[i] > map.report.blocks.bytes[found.block])
				found.block = i;
		}
		return found;
	};

	/* { x, y, width, height } of a block's first piece on the canvas, in view or not */
	const placeOf = (map, i) => {
		const piece = vt.pieceOf(map.report, map.layout, i), { starts } = map.layout;
		const x = (piece.x + starts[i] - piece.from - map.view.left) * scaleOf(map);
		const end = Math.min(vt.blockEnd(map.report, map.layout, i), piece.to);

		return { x, y: RULER + rowTop(map, piece.row) - map.view.top, row: piece.row,
			width: (end - starts[i]) * scaleOf(map), height: rowHeight(map) };
	};

	const isInView = (map, place) => place.x >= 0 && place.x + Math.min(place.width, map.width / 2) <= map.width &&
		place.y >= RULER && place.y + place.height <= map.height;

	/* Brings a block into view; closer: also so near that it can be seen. */
	const reveal = (map, i, closer) => {
		const { view } = map;

		if (closer && placeOf(map, i).width < LEAST)
			view.zoom = clamp((view.zoom * LEAST) / Math.max(1e-9, placeOf(map, i).width), 1, maxZoom(map));
		const place = placeOf(map, i);

		if (closer || !isInView(map, place)) {
			view.left += (place.x + Math.min(place.width, map.width) / 2 - map.width / 2) / scaleOf(map);
			view.top += place.y + place.height / 2 - RULER - (map.height - RULER) / 2;
		}
		limitView(map);
	};

	vt.mapView = { RULER, HEAD, GAP, clamp, rowHeight, contentHeight, rowTop, rowAt, scaleOf, limitView, zoomAt, blockAtPoint,
		placeOf, isInView, reveal };
}
