/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Paints rows of the segment map into pixels. A block takes the pixels that it covers. Where blocks are narrower than a
 * pixel, the column shows the shares of their colours, one above the other. So a picture of 100,000 blocks costs no more
 * than its pixels and one look at each block in view.
 */
{
	const N_SLOTS = 128, DIM = 128; /* a code is a slot, with DIM if the block does not match the filter */
	const LABEL_WIDTH = 56, MAX_LABELS = 500; /* CSS pixels */
	const SEPARATED_WIDTH = 4, HATCH = 6;

	const packed = ([red, green, blue]) => (0xff000000 | (blue << 16) | (green << 8) | red) >>> 0;

	/*
	 * The pixels of each code: { fill, edge (of a block's first column), line (of hatches) }, for the colours of a legend.
	 * colours: [{ slot, colour }], names as in style.css.
	 */
	vt.mapPalette = (colours) => {
		const back = vt.rgb(vt.colour("back")), palette = { back: packed(back), share: packed(vt.rgb(vt.colour("faint"))),
			rgb: new Map(), fill: new Uint32Array(2 * N_SLOTS), edge: new Uint32Array(2 * N_SLOTS),
			line: packed(vt.mix(vt.rgb(vt.colour("faint")), back, 0.45)) };

		palette.track = packed(vt.rgb(vt.colour("line")));
		for (const { slot, colour } of colours) {
			const rgb = vt.rgb(vt.colour(colour)), dim = vt.mix(rgb, back, 0.16);

			palette.rgb.set(slot, rgb);
			palette.fill[slot] = packed(rgb);
			palette.edge[slot] = packed(vt.mix(rgb, back, 0.55));
			palette.fill[slot | DIM] = packed(dim);
			palette.edge[slot | DIM] = packed(vt.mix(dim, back, 0.5));
		}
		return palette;
	};
	vt.mapDim = DIM;

	/* One row of pixels at a time: what each column shows. */
	const makeLine = (width) => ({
		width,
		pixels: new Uint32Array(width),
		hatched: new Uint8Array(width),
		stacks: [], /* [column, [code, share]...] */
		sums: new Float64Array(2 * N_SLOTS),
		codes: [], /* of the column that is being summed up */
		inside: 0, /* blocks that lie in it whole */
	});

	const addShare = (line, code, share) => {
		if (share <= 0)
			return;
		if (line.sums[code] === 0)
			line.codes.push(code);
		line.sums[code] += share;
	};

	const setColumn = (line, palette, column, code) => {
		line.pixels[column] = palette.fill[code];
		line.hatched[column] = (code & ~DIM) === vt.slotUnmapped ? 1 : 0;
	};

	/* Colours of holes are lowest. */
	const byHeight = (a, b) => b - a;

	/* The column is summed up: one colour, or several in their shares. */
	const endColumn = (line, palette, column) => {
		const { codes, sums } = line;

		if (column >= 0 && column < line.width && codes.length) {
			const most = codes.reduce((best, code) => (sums[code] > sums[best] ? code : best));

			setColumn(line, palette, column, most);
			if (line.inside && codes.length > 1)
				line.stacks.push([column, codes.slice().sort(byHeight).map((code) => [code, sums[code]])]);
		}
		for (const code of codes)
			sums[code] = 0;
		codes.length = 0;
		line.inside = 0;
	};

	/* The blocks of a piece that are in view. Returns the column behind it. */
	const paintPiece = (line, palette, map, view, piece, wide) => {
		const { report, layout, codes } = map, { left, scale } = view;
		const shift = piece.x - piece.from - left, { end } = report.segments[piece.segment];
		const low = Math.max(piece.from, -shift), high = Math.min(piece.to, line.width / scale - shift);
		let column = -1;

		if (low >= high)
			return;
		for (let i = vt.blockAt(report, layout, piece.segment, low); i >= 0 && i < end && layout.starts[i] < high; i++) {
			const x0 = Math.max(0, (Math.max(layout.starts[i], piece.from) + shift) * scale);
			const stop = i + 1 < end ? layout.starts[i + 1] : layout.lengths[piece.segment];
			const x1 = Math.min(line.width, (Math.min(stop, piece.to) + shift) * scale);
			const c0 = Math.floor(x0), c1 = Math.floor(x1), code = codes[i];

			if (c0 !== column)
				endColumn(line, palette, column);
			column = c1;
			if (c0 === c1) {
				addShare(line, code, x1 - x0);
				line.inside++;
				continue;
			}
			addShare(line, code, c0 + 1 - x0);
			endColumn(line, palette, c0);
			for (let c = c0 + 1; c < c1; c++)
				setColumn(line, palette, c, code);
			if (x1 - x0 >= SEPARATED_WIDTH && layout.starts[i] >= piece.from && x0 > 0)
				line.pixels[c0] = palette.edge[code];
			if (wide && x1 - x0 >= wide)
				map.labels.push([i, x0, x1, view.row]);
			if (x1 > c1)
				addShare(line, code, x1 - c1);
		}
		endColumn(line, palette, column);
	};

	const clearLine = (line, palette) => {
		line.pixels.fill(palette.back);
		line.hatched.fill(0);
		line.stacks.length = 0;
	};

	const paintStack = (target, palette, column, shares, top, height) => {
		const sum = shares.reduce((all, [, share]) => all + share, 0);
		let done = 0, y = top;

		for (const [code, share] of shares) {
			done += share;
			const end = top + Math.round((height * done) / sum);

			for (; y < end; y++)
				if (y >= 0 && y < target.height)
					target.pixels[y * target.width + column] = palette.fill[code];
		}
	};

	/* The line of columns becomes rows of pixels from top on. */
	const copyLine = (target, line, palette, top, height) => {
		const first = Math.max(0, top), end = Math.min(target.height, top + height);

		for (let y = first; y < end; y++)
			target.pixels.set(line.pixels, y * target.width);
		if (line.hatched.includes(1))
			for (let y = first; y < end; y++)
				for (let c = (y - top) % HATCH; c < line.width; c += HATCH)
					if (line.hatched[c])
						target.pixels[y * target.width + c] = palette.line;
		for (const [column, shares] of line.stacks)
			paintStack(target, palette, column, shares, top, height);
	};

	/* Below each piece, a thin line: how much of its segment is in use. */
	const paintShares = (target, palette, map, view, pieces, top, height) => {
		for (const piece of pieces) {
			const segment = map.figures[piece.segment];
			const x0 = (piece.x - view.left) * view.scale, length = (piece.to - piece.from) * view.scale;
			const from = Math.max(0, Math.round(x0)), to = Math.min(target.width, Math.round(x0 + length));
			const used = Math.min(to, Math.round(x0 + (length * segment.used) / Math.max(1, segment.used + segment.awaiting + segment.free)));

			for (let y = Math.max(0, top); y < Math.min(target.height, top + height); y++) {
				target.pixels.fill(palette.track, y * target.width + from, y * target.width + Math.max(from, to));
				target.pixels.fill(palette.share, y * target.width + from, y * target.width + Math.max(from, used));
			}
		}
	};

	/*
	 * map: { report, layout, codes, figures (of each segment) }; target: { pixels: Uint32Array, width, height }; view: {
	 * left: bytes, scale: pixels a byte, rows: [[row, top]], height: of a row, share: of the line below it, labels: narrowest
	 * block with a label, 0 none }; all in the target's pixels. Sets map.labels: [block, x0, x1, row].
	 */
	vt.paintMap = (map, palette, target, view) => {
		const line = makeLine(target.width);

		target.pixels.fill(palette.back);
		map.labels = [];
		for (const [row, top] of view.rows) {
			const { pieces } = map.layout.rows[row];

			clearLine(line, palette);
			view.row = row;
			for (const piece of pieces)
				paintPiece(line, palette, map, view, piece, map.labels.length < MAX_LABELS && view.labels);
			copyLine(target, line, palette, top, view.height);
			if (view.share)
				paintShares(target, palette, map, view, pieces, top + view.height + Math.ceil(view.share / 2), view.share);
		}
	};
	vt.mapLabelWidth = LABEL_WIDTH;
}
