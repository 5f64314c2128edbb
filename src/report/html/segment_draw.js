/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the segment map: the painted rows, and over them titles, labels, the scale and what is chosen. */
{
	const SHARE = 2; /* CSS pixels of the line below a row */
	const { RULER, HEAD, GAP, rowHeight, rowTop, rowAt, scaleOf, limitView, placeOf } = vt.mapView;

	const paint = (map, canvas, context) => {
		const ratio = canvas.width / map.width, { view } = map;
		const key = [canvas.width, canvas.height, view.zoom, view.left, view.top, map.painted].join();

		if (!map.image || map.image.width !== canvas.width || map.image.height !== canvas.height) {
			map.image = context.createImageData(canvas.width, canvas.height);
			map.pixels = new Uint32Array(map.image.data.buffer);
		}
		if (map.imageKey !== key) {
			const rows = [], height = Math.max(1, Math.round(rowHeight(map) * ratio));

			for (let row = rowAt(map, view.top); row < map.layout.rows.length; row++) {
				const top = RULER + rowTop(map, row) - view.top;

				if (top > map.height)
					break;
				rows.push([row, Math.round(top * ratio)]);
			}
			vt.paintMap(map, map.palette, { pixels: map.pixels, width: canvas.width, height: canvas.height }, {
				left: view.left, scale: scaleOf(map) * ratio, rows, height, share: Math.round(SHARE * ratio),
				labels: rowHeight(map) >= 14 ? vt.mapLabelWidth * ratio : 0 });
			map.imageKey = key;
		}
		context.putImageData(map.image, 0, 0);
	};

	/* What matters most comes first: there may be no room for the rest. */
	const groupText = ({ title, figures }) => [title, `${vt.percent(figures.used, figures.bytes) || "0 %"} of ` +
		`${vt.bytes(figures.bytes)} in use` + (figures.awaiting ? ` · ${vt.bytes(figures.awaiting)} awaiting free` : "") + (figures.holes ? ` · largest hole ${vt.bytes(figures.largestHole)} of ` +
		`${vt.bytes(figures.free)} in ${vt.count(figures.holes)}` : "") +
		` · ${vt.count(figures.segments)} segment${figures.segments === 1 ? "" : "s"}`];

	const drawHeads = (map, context) => {
		const step = rowHeight(map) + GAP;
		let row = 0;

		context.font = map.font;
		context.textBaseline = "middle";
		map.layout.groups.forEach((one, g) => {
			const y = RULER + g * HEAD + row * step - map.view.top;
			let x = 0;

			while (row < map.layout.rows.length && map.layout.rows[row].group === g)
				row++;
			if (y < RULER - HEAD || y > map.height)
				return;
			for (const [i, text] of groupText(one).entries()) {
				context.fillStyle = vt.colour(i ? "faint" : "text");
				context.fillText(text, x, y + HEAD / 2 + 1);
				x += context.measureText(text).width + 12;
			}
		});
	};

	/* Whole steps of binary units, about 110 pixels apart. */
	const rulerStep = (map) => 2 ** Math.ceil(Math.log2(Math.max(1, 110 / scaleOf(map))));

	/* In whole units of the step: "2,036 KiB" */
	const tickText = (bytes, step) => {
		const unit = Math.floor(Math.log2(step) / 10);

		return `${vt.count(bytes / 1024 ** unit)} ${["B", "KiB", "MiB", "GiB", "TiB"][unit]}`;
	};

	const drawRuler = (map, context) => {
		const step = rulerStep(map), scale = scaleOf(map);

		context.fillStyle = vt.colour("back");
		context.fillRect(0, 0, map.width, RULER);
		context.fillStyle = vt.colour("faint");
		context.font = map.font;
		context.textBaseline = "middle";
		for (let tick = Math.ceil(map.view.left / step); (tick * step - map.view.left) * scale < map.width; tick++) {
			const x = Math.round((tick * step - map.view.left) * scale);

			context.fillRect(x, RULER - 5, 1, 4);
			if (x < map.width - 50)
				context.fillText(tick ? tickText(tick * step, step) : "0", x + 3, RULER / 2 - 1);
		}
		context.fillRect(0, RULER - 1, map.width, 1);
	};

	const blockName = (report, i) => vt.harmless(vt.ownerName(report, i) || "") || vt.bytes(report.blocks.bytes[i]);

	const drawLabels = (map, context) => {
		const ratio = map.image.width / map.width, height = rowHeight(map);

		context.font = map.font;
		context.textBaseline = "middle";
		for (const [i, x0, x1, row] of map.labels) {
			const code = map.codes[i], rgb = map.palette.rgb.get(code % vt.mapDim);
			const room = Math.floor((x1 - x0) / ratio / map.letter) - 1, name = blockName(map.report, i);
			const y = RULER + rowTop(map, row) - map.view.top + height / 2 + 1;

			if (code >= vt.mapDim || !rgb)
				continue;
			context.fillStyle = code === vt.slotUnmapped ? vt.colour("faint") : vt.inkOn(rgb);
			/* The end of a name tells most. */
			context.fillText(name.length > room ? "…" + name.slice(1 - room) : name, x0 / ratio + 4, y);
		}
	};

	const outline = (map, context, i, colour, thick) => {
		const { x, y, width, height } = placeOf(map, i), wide = Math.max(5, width), left = x - (wide - width) / 2;

		if (x > map.width || x + width < 0)
			return;
		context.lineWidth = thick + 2;
		context.strokeStyle = vt.colour("back");
		context.strokeRect(left - 1, y - 1, wide + 2, height + 2);
		context.lineWidth = thick;
		context.strokeStyle = vt.colour(colour);
		context.strokeRect(left - 1, y - 1, wide + 2, height + 2);
		if (thick > 1 && width < 12) { /* an arrow that points at it */
			context.fillStyle = vt.colour(colour);
			context.beginPath();
			context.moveTo(x + width / 2, y - 2);
			context.lineTo(x + width / 2 - 5, y - 9);
			context.lineTo(x + width / 2 + 5, y - 9);
			context.fill();
		}
	};

	vt.drawMap = (map, canvas, context) => {
		if (map.paletteStale) {
			map.palette = vt.mapPalette(map.legend);
			map.font = "11.5px " + getComputedStyle(document.body).fontFamily;
			context.font = map.font;
			map.letter = context.measureText("abcdefghilmnorstu._[]0123").width / 25;
			map.paletteStale = false;
			map.painted++;
		}
		limitView(map);
		paint(map, canvas, context);
		drawHeads(map, context);
		drawLabels(map, context);
		if (map.hovered >= 0 && map.hovered !== map.selected)
			outline(map, context, map.hovered, "edge", 1);
		if (map.selected >= 0)
			outline(map, context, map.selected, "edge", 2);
		drawRuler(map, context);
		vt.minimap.draw(map, context);
	};
}
