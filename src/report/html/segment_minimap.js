/* SPDX-License-Identifier: Apache-2.0 */
/* The whole segment map in small, in a corner of it, when only a part is in view. */
{
	const WIDTH = 150, HEIGHT = 90, MIN_MAP_WIDTH = 300, MIN_ZOOM = 1.5;
	const { RULER, GAP, clamp, rowHeight, rowTop, rowAt, scaleOf, limitView } = vt.mapView;

	const minimapBox = (map) => {
		const rows = map.layout.rows.length, step = Math.max(1, Math.floor(HEIGHT / rows));
		const width = Math.min(WIDTH, Math.round(map.width / 4)), height = Math.min(HEIGHT, rows * step);

		return { width, height, x: map.width - width - 7, y: RULER + 6, step };
	};

	const minimapPicture = (map, box) => {
		const key = [box.width, map.painted].join(), rows = map.layout.rows.length;

		if (map.minimapKey !== key) {
			const canvas = document.createElement("canvas"), height = rows * box.step;
			const context = canvas.getContext("2d", { alpha: false });

			canvas.width = box.width;
			canvas.height = height;
			const image = context.createImageData(box.width, height), { labels } = map;

			vt.paintMap(map, map.palette, { pixels: new Uint32Array(image.data.buffer), width: box.width, height }, {
				left: 0, scale: box.width / map.layout.width, rows: map.layout.rows.map((_, row) => [row, row * box.step]),
				height: Math.max(1, box.step - (box.step > 2 ? 1 : 0)), share: 0, labels: 0 });
			map.labels = labels;
			context.putImageData(image, 0, 0);
			map.minimap = canvas;
			map.minimapKey = key;
		}
		return map.minimap;
	};

	/* The share of the rows that lies above y of the content. */
	const rowShare = (map, y) => {
		const row = rowAt(map, y);

		return (row + clamp((y - rowTop(map, row)) / (rowHeight(map) + GAP), 0, 1)) / map.layout.rows.length;
	};

	const drawMinimap = (map, context) => {
		const box = minimapBox(map), { view } = map;
		const x0 = view.left / map.layout.width, x1 = x0 + map.width / scaleOf(map) / map.layout.width;
		const y0 = rowShare(map, view.top), y1 = rowShare(map, view.top + map.height - RULER);

		map.minimapAt = view.zoom > MIN_ZOOM && map.width > MIN_MAP_WIDTH ? box : null;
		if (!map.minimapAt)
			return;
		context.fillStyle = vt.colour("back");
		context.fillRect(box.x - 4, box.y - 4, box.width + 8, box.height + 8);
		context.strokeStyle = vt.colour("line");
		context.lineWidth = 1;
		context.strokeRect(box.x - 3.5, box.y - 3.5, box.width + 7, box.height + 7);
		context.drawImage(minimapPicture(map, box), box.x, box.y, box.width, box.height);
		context.strokeStyle = vt.colour("edge");
		context.lineWidth = 1.5;
		context.strokeRect(box.x + x0 * box.width - 1, box.y + y0 * box.height - 1, Math.max(3, (x1 - x0) * box.width + 2),
			Math.max(3, (y1 - y0) * box.height + 2));
	};

	const inMinimap = (map, x, y) => {
		const box = map.minimapAt;

		return box && x >= box.x - 4 && x <= box.x + box.width + 4 && y >= box.y - 4 && y <= box.y + box.height + 4;
	};

	const goToMinimap = (map, x, y) => {
		const { view } = map, box = map.minimapAt, row = clamp(((y - box.y) / box.height) * map.layout.rows.length, 0,
			map.layout.rows.length - 0.01);

		view.left = ((x - box.x) / box.width) * map.layout.width - map.width / scaleOf(map) / 2;
		view.top = rowTop(map, Math.floor(row)) + (row % 1) * (rowHeight(map) + GAP) - (map.height - RULER) / 2;
		limitView(map);
	};

	vt.minimap = { draw: drawMinimap, covers: inMinimap, go: goToMinimap };
}
