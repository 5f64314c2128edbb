/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where each segment is on the map. All rows are to one scale: a long segment takes several rows, short ones share a
 * row. Rows are in groups: those of a device, a pool and a stream.
 */
{
	const GAP_SHARE = 0.0025, SPARE = 1.1, MIN_ROW_BYTES = 2 ** 21;
	const MANY_ROWS = 40, WANTED_ROWS = 32, FEW_ROWS = 3;

	/* A reserved range of addresses without memory may be as large as the device: it is shown shortened. */
	const longestUnmapped = (report) => Math.max(MIN_ROW_BYTES,
		report.segments.reduce((sum, segment) => sum + segment.bytes, 0) / 64);

	/*
	 * starts[block]: where it begins in its segment, in bytes as shown; lengths[segment]: all of it. Only address space
	 * without memory is shown shorter than it is.
	 */
	const measure = (report) => {
		const { bytes, state, n } = report.blocks, longest = longestUnmapped(report);
		const unmapped = vt.stateNames.indexOf("unmapped");
		const starts = new Float64Array(n), lengths = new Float64Array(report.segments.length);

		report.segments.forEach((segment, s) => {
			let at = 0;

			for (let i = segment.first; i < segment.end; i++) {
				starts[i] = at;
				at += state[i] === unmapped ? Math.min(bytes[i], longest) : bytes[i];
			}
			/* A segment whose blocks are not known has its place, too. */
			lengths[s] = at || Math.min(segment.bytes || 0, longest);
		});
		return { starts, lengths };
	};

	const streamWords = (stream) => (stream === "0x0" ? "default stream" : "stream " + stream);

	vt.poolWords = (segment) => (segment.privatePool ? "private pool " + segment.privatePool + ", " : "") + segment.pool;

	/* [{ device, pool, privatePool, stream, title, segments: [index] }], the default pools first, then the larger ones */
	const group = (report) => {
		const groups = new Map();

		report.segments.forEach((segment, s) => {
			const key = JSON.stringify([segment.device, segment.privatePool, segment.pool, segment.stream]);

			if (!groups.has(key))
				groups.set(key, { device: segment.device, pool: segment.pool, privatePool: segment.privatePool,
					stream: segment.stream, bytes: 0, segments: [],
					title: `GPU ${segment.device} · ${vt.poolWords(segment)} pool · ${streamWords(segment.stream)}` });
			groups.get(key).segments.push(s);
			groups.get(key).bytes += segment.bytes;
		});
		for (const one of groups.values())
			one.segments.sort((a, b) => report.segments[a].address - report.segments[b].address);
		return Array.from(groups.values()).sort((a, b) => a.device - b.device ||
			(a.privatePool ? 1 : 0) - (b.privatePool ? 1 : 0) || b.bytes - a.bytes);
	};

	/* What is said of a pool, and of a segment. used: by tensors; what awaits its free is neither used nor free. */
	vt.segmentFigures = (report, segments) => {
		const { bytes, state } = report.blocks;
		const figures = { bytes: 0, used: 0, awaiting: 0, free: 0, holes: 0, largestHole: 0, holeBlock: -1, unmapped: 0, blocks: 0,
			segments: segments.length };
		const cached = vt.stateNames.indexOf("cached"), unmapped = vt.stateNames.indexOf("unmapped");
		const awaiting = vt.stateNames.indexOf("awaiting-free");

		for (const s of segments) {
			figures.bytes += report.segments[s].bytes;
			for (let i = report.segments[s].first; i < report.segments[s].end; i++) {
				if (state[i] === unmapped) {
					figures.unmapped += bytes[i];
				} else if (state[i] === cached) {
					figures.free += bytes[i];
					figures.holes++;
					if (bytes[i] > figures.largestHole) {
						figures.largestHole = bytes[i];
						figures.holeBlock = i;
					}
				} else if (state[i] === awaiting) {
					figures.awaiting += bytes[i];
				} else {
					figures.used += bytes[i];
					figures.blocks++;
				}
			}
		}
		return figures;
	};

	/* How many rows of so many bytes it would take. */
	const rowsOf = (groups, lengths, rowBytes) => {
		let rows = 0;

		for (const one of groups) {
			let left = 0;

			for (const s of one.segments) {
				if (lengths[s] > left) {
					const more = Math.ceil(lengths[s] / rowBytes);

					rows += more;
					left = more * rowBytes - lengths[s];
				} else {
					left -= lengths[s];
				}
			}
		}
		return rows;
	};

	const powerOf2 = (bytes) => 2 ** Math.ceil(Math.log2(Math.max(bytes, MIN_ROW_BYTES)));

	/* The longest segment as one row, unless that makes too many rows, or so few that little is seen. */
	const chooseRowBytes = (groups, lengths) => {
		const total = lengths.reduce((sum, one) => sum + one, 0);
		const longest = lengths.reduce((most, one) => Math.max(most, one), 1);
		const rows = rowsOf(groups, lengths, longest);

		return rows > MANY_ROWS ? powerOf2(total / WANTED_ROWS) : rows < FEW_ROWS ?
			Math.min(longest, powerOf2(total / 8)) : longest;
	};

	/* Rows of one group. A piece: bytes from..to of a segment, which are at x of the row. */
	const placeGroup = (layout, one, g) => {
		const gap = layout.rowBytes * GAP_SHARE;
		let row = null, x = Infinity;

		const nextRow = () => {
			row = { group: g, pieces: [] };
			layout.rows.push(row);
			x = 0;
		};
		for (const s of one.segments) {
			const length = layout.lengths[s];

			if (x > 0 && x + length > layout.rowBytes * SPARE)
				nextRow();
			layout.firstPiece[s] = layout.pieces.length;
			for (let from = 0; from < length || from === 0; from += layout.rowBytes) {
				const to = length <= layout.rowBytes * SPARE ? length : Math.min(length, from + layout.rowBytes);
				const piece = { segment: s, row: layout.rows.length - 1, x, from, to };

				row.pieces.push(piece);
				layout.pieces.push(piece);
				x += to - from;
				layout.width = Math.max(layout.width, x);
				if (to >= length)
					break;
				nextRow();
			}
			x += gap;
		}
	};

	/*
	 * { groups: with .figures, rows: [{ group, pieces }], pieces, firstPiece[segment], rowBytes, width: of the widest row,
	 *   starts, lengths }. rowBytes: of another map, whose scale this one shall have.
	 */
	vt.segmentLayout = (report, rowBytes) => {
		const groups = group(report), { starts, lengths } = measure(report);
		const layout = { groups, starts, lengths, rows: [], pieces: [], width: rowBytes ? rowBytes * SPARE : 1,
			firstPiece: new Int32Array(report.segments.length), rowBytes: rowBytes || chooseRowBytes(groups, lengths) };

		groups.forEach((one, g) => {
			one.figures = vt.segmentFigures(report, one.segments);
			placeGroup(layout, one, g);
		});
		return layout;
	};

	vt.segmentRowBytes = (report) => chooseRowBytes(group(report), measure(report).lengths);

	/* The last block of a segment that begins at or before a place in it; -1: its blocks are not known. */
	vt.blockAt = (report, layout, s, at) => {
		const { first, end } = report.segments[s];
		let low = first, high = end - 1;

		if (first >= end)
			return -1;
		while (low < high) {
			const middle = (low + high + 1) >> 1;

			if (layout.starts[middle] <= at)
				low = middle;
			else
				high = middle - 1;
		}
		return low;
	};

	/* Where a block ends, as shown. */
	vt.blockEnd = (report, layout, i) => {
		const s = report.blocks.segment[i];

		return i + 1 < report.segments[s].end ? layout.starts[i + 1] : layout.lengths[s];
	};

	/* The piece in which a block begins. */
	vt.pieceOf = (report, layout, i) => {
		const s = report.blocks.segment[i];
		let p = layout.firstPiece[s];

		while (p + 1 < layout.pieces.length && layout.pieces[p + 1].segment === s &&
			layout.pieces[p + 1].from <= layout.starts[i])
			p++;
		return layout.pieces[p];
	};
}
