/* SPDX-License-Identifier: Apache-2.0 */
/* The map of segments: a picture that can be zoomed, panned and walked through block by block. */
{
	const MIN_ROW = 7, MAX_ROW = 32, MIN_HEIGHT = 220; /* CSS pixels, when all is shown */
	const KEYS = "Arrow keys go from block to block, Page Up and Page Down from segment to segment, plus and minus zoom, " +
		"Shift with arrow keys moves the view, Enter shows the block's details, Escape leaves it.";

	const { RULER, HEAD, GAP, clamp, rowHeight, contentHeight, scaleOf, limitView, zoomAt, blockAtPoint, placeOf, isInView,
		reveal } = vt.mapView;

	const MOVES = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
	const ZOOMS = { "+": 1.6, "=": 1.6, "-": 1 / 1.6, _: 1 / 1.6, 0: 0 };

	const tipLines = (map, { block, also, piece }) => {
		const { figures, report } = map, figure = figures[piece.segment], segment = report.segments[piece.segment];

		return [...vt.blockLines(report, block),
			["segment", `0x${segment.address.toString(16)}, ${vt.bytes(segment.bytes)}, ` +
				`${vt.percent(figure.used, segment.bytes)} in use` +
				(figure.holes ? `, largest hole ${vt.bytes(figure.largestHole)}` : "")],
			also ? ["", `The largest of ${vt.count(also + 1)} blocks at this point: zoom in to see them.`] : null];
	};

	/* ---- what the user does ---- */

	const listen = (map, canvas, api) => {
		let drag = null;
		const point = (event) => {
			const box = canvas.getBoundingClientRect();

			return [event.clientX - box.left, event.clientY - box.top];
		};
		const hover = (event) => {
			const [x, y] = point(event), found = vt.minimap.covers(map, x, y) ? { block: -1 } : blockAtPoint(map, x, y);

			if (found.block >= 0)
				vt.showTip(event, tipLines(map, found));
			else
				vt.hideTip();
			if (found.block !== map.hovered) {
				map.hovered = found.block;
				map.draw();
			}
		};
		const unhover = () => {
			vt.hideTip();
			map.hovered = -1;
			map.draw();
		};

		canvas.addEventListener("pointerdown", (event) => {
			const [x, y] = point(event);

			if (event.button !== 0)
				return;
			drag = { x, y, left: map.view.left, top: map.view.top, moved: false, mini: vt.minimap.covers(map, x, y) };
			if (drag.mini)
				vt.minimap.go(map, x, y);
			canvas.setPointerCapture(event.pointerId);
			map.draw();
		});
		canvas.addEventListener("pointermove", (event) => {
			const [x, y] = point(event);

			if (!drag) {
				hover(event);
				return;
			}
			drag.moved = drag.moved || Math.hypot(x - drag.x, y - drag.y) > 4;
			if (drag.mini)
				vt.minimap.go(map, x, y);
			else if (drag.moved)
				Object.assign(map.view, { left: drag.left - (x - drag.x) / scaleOf(map), top: drag.top - (y - drag.y) });
			if (drag.moved) {
				vt.hideTip();
				api.viewChanged();
			}
		});
		canvas.addEventListener("pointerup", (event) => {
			if (drag && !drag.moved && !drag.mini)
				api.choose(blockAtPoint(map, ...point(event)).block);
			drag = null;
		});
		canvas.addEventListener("pointercancel", () => (drag = null));
		canvas.addEventListener("pointerleave", unhover);
		canvas.addEventListener("dblclick", (event) => {
			zoomAt(map, event.shiftKey ? 0.25 : 4, ...point(event));
			api.viewChanged();
		});
		canvas.addEventListener("wheel", (event) => {
			const unit = event.deltaMode === 1 ? 16 : event.deltaMode === 2 ? map.height : 1, { zoom } = map.view;
			const [right, down] = [event.deltaX * unit, event.deltaY * unit];

			/* A page that scrolls under the pointer shall go on scrolling: the wheel is the map's after a click on it. */
			if (!event.ctrlKey && !event.metaKey && document.activeElement !== canvas)
				return;
			if (Math.abs(right) > Math.abs(down) || event.shiftKey)
				map.view.left += (right || down) / scaleOf(map);
			else
				zoomAt(map, Math.exp(-clamp(down, -200, 200) / 300), ...point(event));
			if (zoom === 1 && map.view.zoom === 1 && !event.ctrlKey)
				return;
			event.preventDefault();
			vt.hideTip();
			api.viewChanged();
		}, { passive: false });
		canvas.addEventListener("keydown", (event) => {
			if (!api.key(event))
				return;
			event.preventDefault();
			vt.hideTip();
			map.hovered = -1;
		});
	};

	const pressKey = (map, api, event) => {
		if (event.ctrlKey || event.metaKey || event.altKey)
			return false;
		if (event.shiftKey && MOVES[event.key]) {
			const [x, y] = MOVES[event.key];

			map.view.left += (x * map.width) / 5 / scaleOf(map);
			map.view.top += y * (rowHeight(map) + GAP);
			api.viewChanged();
		} else if (vt.walkMap(map, event.key) !== undefined) {
			api.choose(vt.walkMap(map, event.key));
		} else if (ZOOMS[event.key] !== undefined) {
			api.zoom(ZOOMS[event.key]);
		} else if (event.key === "Enter" && map.selected >= 0) {
			api.open(map.selected);
		} else if (event.key === "Escape" && map.selected >= 0) {
			api.choose(-1);
		} else {
			return false;
		}
		return true;
	};

	/*
	 * Draws the segments of a report into a container. options:
	 *   colour      mode of vt.mapModes(), "category" by default; or { slots, legend } as of vt.blockColours()
	 *   rowBytes    scale of another map (its .rowBytes), so that two compare
	 *   height      the most, CSS pixels
	 *   label       for screen readers
	 *   onselect    (block) a block was chosen by the user; -1 none
	 *   onopen      (block) Enter on it
	 *   onview      (view) the view was moved by the user: for another map's setView()
	 * Returns { canvas, rowBytes, select(block, { closer }), selected(), next(step), setColours(mode or colours), legend(),
	 * setFilter(passes of vt.filterBlocks(), or null), zoom(factor; 0 shows all), setView(view), view(), place(block), draw() }.
	 */
	vt.segmentMap = (container, report, options = {}) => {
		const layout = vt.segmentLayout(report, options.rowBytes);
		const map = { report, layout, selected: -1, hovered: -1, view: { zoom: 1, left: 0, top: 0 }, painted: 0, width: 600,
			height: 300, baseRow: MAX_ROW, paletteStale: true, codes: new Uint8Array(report.blocks.n), slots: null,
			legend: [], passes: null, labels: [],
			figures: report.segments.map((_, s) => vt.segmentFigures(report, [s])) };
		const most = options.height || 560;
		const height = (width) => {
			const rows = layout.rows.length, heads = layout.groups.length * HEAD + RULER;

			map.width = width;
			map.baseRow = clamp(Math.floor((most - heads) / rows) - GAP, MIN_ROW, MAX_ROW);
			map.height = clamp(contentHeight(map, 1) + RULER + 2, MIN_HEIGHT, most);
			return map.height;
		};
		const { canvas, draw: drawLater } = vt.canvas(height, (context) => vt.drawMap(map, canvas, context),
			(options.label || "Map of the segments") + ". " + KEYS);

		const recode = () => {
			const { codes, slots, passes } = map;

			for (let i = 0; i < codes.length; i++)
				codes[i] = passes && !passes[i] ? slots[i] | vt.mapDim : slots[i];
			map.painted++;
			drawLater();
		};
		const api = {
			canvas,
			rowBytes: layout.rowBytes,
			viewChanged: () => {
				limitView(map);
				drawLater();
				if (options.onview)
					options.onview({ ...map.view });
			},
			choose: (i) => {
				api.select(i);
				if (options.onselect)
					options.onselect(i);
			},
			open: (i) => options.onopen && options.onopen(i),
			key: (event) => pressKey(map, api, event),
			select: (i, { closer = false } = {}) => {
				map.selected = i;
				if (i >= 0)
					reveal(map, i, closer);
				drawLater();
			},
			selected: () => map.selected,
			next: (step) => vt.nextOnMap(map, step),
			setColours: (colours) => {
				Object.assign(map, typeof colours === "string" ? vt.blockColours(report, colours) : colours);
				map.paletteStale = true;
				recode();
			},
			legend: () => map.legend,
			slot: (i) => map.slots[i],
			setFilter: (passes) => {
				map.passes = passes;
				recode();
			},
			zoom: (factor) => {
				const place = map.selected >= 0 ? placeOf(map, map.selected) : null, middle = [map.width / 2, map.height / 2];
				const at = place && isInView(map, place) ? [place.x + place.width / 2, place.y + place.height / 2] : middle;

				if (factor)
					zoomAt(map, factor, ...at);
				else
					Object.assign(map.view, { zoom: 1, left: 0, top: 0 });
				api.viewChanged();
			},
			setView: (view) => {
				Object.assign(map.view, view);
				drawLater();
			},
			view: () => ({ ...map.view }),
			place: (i) => placeOf(map, i),
			figures: map.figures,
			groups: layout.groups,
			draw: drawLater,
		};

		map.draw = drawLater;
		vt.orderMap(map);
		vt.onRedraw(() => (map.paletteStale = true), canvas);
		canvas.setAttribute("role", "application");
		canvas.setAttribute("aria-roledescription", "map of memory");
		canvas.classList.add("map");
		listen(map, canvas, api);
		api.setColours(options.colour || (vt.mapModes(report).some(([mode]) => mode === "category") ? "category" : "state"));
		container.append(canvas);
		return api;
	};
}
