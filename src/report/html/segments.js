/* SPDX-License-Identifier: Apache-2.0 */
/* The part "Segments": the map with its tools, what is known of the chosen block, and the same as tables. */
{
	const MAX_HOLES = 1000;
	const PLACEHOLDER = "Click a block, or walk there with the arrow keys, to see what it is.";

	const field = (label, input) => vt.el("label", { class: "field" }, vt.el("span", { class: "note" }, label), " ", input);

	const option = ([value, title]) => vt.el("option", { value }, title);

	const sizeInput = (label, changed) => vt.el("input", { type: "text", size: "6", placeholder: "1 MiB", "aria-label": label,
		oninput: changed });

	/* ---- tables ---- */

	const segmentCells = (report, s) => {
		const segment = report.segments[s];

		return { gpu: segment.device, pool: vt.poolWords(segment), stream: vt.streamWords(segment.stream),
			address: segment.address };
	};

	const COMMON = [
		{ title: "GPU", number: true, value: (row) => row.gpu },
		{ title: "pool", value: (row) => row.pool },
		{ title: "stream", value: (row) => row.stream },
	];
	const hexCell = (row) => vt.el("code", null, vt.hex(row.address));

	const largestHoles = (report) => {
		const { state, bytes } = report.blocks, cached = vt.stateNames.indexOf("cached"), holes = [];

		for (let i = 0; i < state.length; i++)
			if (state[i] === cached)
				holes.push(i);
		const sizes = Float64Array.from(holes, (i) => bytes[i]).sort(), least = sizes[Math.max(0, sizes.length - MAX_HOLES)];

		return holes.filter((i) => bytes[i] >= least).sort((a, b) => bytes[b] - bytes[a]).slice(0, MAX_HOLES);
	};

	const besides = (report, i) => {
		const { first, end } = report.segments[report.blocks.segment[i]];

		return [i > first ? vt.blockText(report, i - 1) : "the segment's start",
			i + 1 < end ? vt.blockText(report, i + 1) : "the segment's end"];
	};

	const holesTable = (report, choose) => vt.table([
		{ title: "size", number: true, value: (row) => row.bytes, cell: (row) => vt.bytes(row.bytes) },
		...COMMON,
		{ title: "address", value: (row) => row.address, cell: hexCell },
		{ title: "before it", value: (row) => row.beside[0] },
		{ title: "behind it", value: (row) => row.beside[1] },
	], largestHoles(report).map((i) => ({ block: i, bytes: report.blocks.bytes[i], beside: besides(report, i),
		...segmentCells(report, report.blocks.segment[i]), address: report.blocks.address[i] })),
	{ limit: 12, caption: "The largest holes: free blocks in the cache", onrow: (row) => choose(row.block), sortBy: 0 });

	const figureColumns = [
		{ title: "size", number: true, value: (row) => row.bytes, cell: (row) => vt.bytes(row.bytes) },
		{ title: "in use", number: true, value: (row) => row.used, cell: (row) => vt.bytes(row.used) },
		{ title: "share", number: true, value: (row) => row.used / row.bytes, cell: (row) => vt.percent(row.used, row.bytes) },
		{ title: "blocks in use", number: true, value: (row) => row.blocks, cell: (row) => vt.count(row.blocks) },
		{ title: "free", number: true, value: (row) => row.free, cell: (row) => vt.bytes(row.free) },
		{ title: "holes", number: true, value: (row) => row.holes, cell: (row) => vt.count(row.holes) },
		{ title: "largest hole", number: true, value: (row) => row.largestHole, cell: (row) => (row.holes ?
			vt.bytes(row.largestHole) : "") },
		{ title: "awaiting free", number: true, value: (row) => row.awaiting, cell: (row) => vt.bytes(row.awaiting) },
	];

	/* -1: no block of it is known */
	const firstBlock = ({ first, end }) => (first < end ? first : -1);

	const segmentsTable = (report, map, choose) => vt.table([
		{ title: "segment", value: (row) => row.address, cell: hexCell }, ...COMMON, ...figureColumns,
	], report.segments.map((segment, s) => ({ ...map.figures[s], ...segmentCells(report, s), block: firstBlock(segment) })),
	{ limit: 12, caption: "Segments", onrow: (row) => choose(row.block), sortBy: 4 });

	const poolsTable = (report, map, choose) => vt.table([
		...COMMON, { title: "segments", number: true, value: (row) => row.segments }, ...figureColumns,
	], map.groups.map((one) => ({ ...one.figures, gpu: one.device, pool: vt.poolWords(one),
		stream: vt.streamWords(one.stream), block: firstBlock(report.segments[one.segments[0]]) })),
	{ limit: 12, caption: "Pools", onrow: (row) => choose(row.block), sortBy: 4 });

	/* Buttons of which one is pressed: [[title, make the element]] */
	const tabs = (choices) => {
		const place = vt.el("div"), made = [];
		const show = (n) => {
			made[n] = made[n] || choices[n][1]();
			place.replaceChildren(made[n]);
			buttons.forEach((button, i) => button.setAttribute("aria-pressed", String(i === n)));
		};
		const buttons = choices.map(([title], n) => vt.el("button", { type: "button", onclick: () => show(n) }, title));

		show(0);
		return vt.el("div", null, vt.el("div", { class: "tools" }, buttons), place);
	};

	/* ---- the tools ---- */

	const legendLine = (line, filter, changed) => vt.el("button", { type: "button", class: "key", "aria-pressed": "false",
		title: "Show only these", onclick: (event) => {
			const slots = filter.slots, on = !slots.has(line.slot);

			slots[on ? "add" : "delete"](line.slot);
			event.currentTarget.setAttribute("aria-pressed", String(on));
			changed();
		} }, vt.swatch(vt.colour(line.colour)), vt.el("span", { class: "name" }, line.title), " ",
	vt.el("span", { class: "note" }, vt.bytes(line.bytes)));

	/* changed: () => the filter is another one; next: (step) => to the next block that it means */
	const filterTools = (report, filter, changed, next) => {
		const streams = Array.from(new Set(report.segments.map((segment) => segment.stream)));
		const set = (name, value) => {
			filter[name] = value;
			changed();
		};
		const size = (name) => (event) => {
			const bytes = event.target.value.trim() ? vt.parseBytes(event.target.value) : null;

			event.target.setAttribute("aria-invalid", String(Boolean(event.target.value.trim()) && bytes === null));
			set(name, bytes);
		};

		return [
			field("Find", vt.el("input", { type: "search", size: "22", placeholder: "owner, shape, function", onfocus: () => vt.prepareFilter(report),
				"aria-label": "Find blocks by owner, category, module, shape or function",
				oninput: (event) => set("text", event.target.value),
				onkeydown: (event) => event.key === "Enter" && next(event.shiftKey ? -1 : 1) })),
			field("size from", sizeInput("The smallest size", size("least"))),
			field("to", sizeInput("The largest size", size("most"))),
			field("state", vt.el("select", { onchange: (event) => set("state", event.target.value) }, option(["", "any"]),
				vt.stateNames.map((name) => option([name, vt.stateWords[name]])))),
			streams.length > 1 ? field("stream", vt.el("select", { onchange: (event) => set("stream", event.target.value) },
				option(["", "any"]), streams.map((stream) => option([stream, vt.streamWords(stream)])))) : null,
		];
	};

	vt.zoomTools = (map) => vt.el("span", { class: "zooms" }, [["−", 1 / 1.6, "Zoom out"], ["+", 1.6, "Zoom in"],
		["show all", 0, "Show all"]].map(([text, factor, label]) => vt.el("button", { type: "button", "aria-label": label,
		onclick: () => map.zoom(factor) }, text)));

	/* ---- the part ---- */

	const render = (section, report) => {
		const picture = vt.el("div", { class: "picture" }), panel = vt.el("aside", { class: "panel details",
			"aria-label": "The chosen block", tabindex: "-1", onkeydown: (event) => event.key === "Escape" && map.canvas.focus() },
		vt.el("p", { class: "note" }, PLACEHOLDER));
		const legend = vt.el("div", { class: "legend", role: "group", "aria-label": "Colours; a click shows only these" });
		const found = vt.el("span", { class: "note found", role: "status" });
		const filter = { text: "", least: null, most: null, state: "", stream: "", slots: new Set(),
			slotOf: (i) => map.slot(i) };

		const show = (i) => {
			if (i >= 0)
				vt.showBlock(panel, report, i, choose);
			else
				panel.replaceChildren(vt.el("p", { class: "note" }, PLACEHOLDER));
		};
		const announce = (i) => {
			if (i < 0)
				return;
			document.dispatchEvent(new CustomEvent("vramtap-select", { detail: { block: i, report, from: "segments" } }));
			vt.tell(vt.blockText(report, i));
		};
		/* Chosen in a list: the map shows it from near. */
		const choose = (i) => {
			map.select(i, { closer: true });
			show(i);
			announce(i);
		};
		const map = vt.segmentMap(picture, report, {
			label: "Map of the segments",
			onselect: (i) => {
				show(i);
				announce(i);
			},
			onopen: () => panel.focus(),
		});

		const filterChanged = () => {
			const meant = vt.filterBlocks(report, filter);

			map.setFilter(meant && meant.passes);
			found.textContent = meant ? `${vt.count(meant.blocks)} block${meant.blocks === 1 ? "" : "s"}, ` +
				vt.bytes(meant.bytes) : "";
		};
		const showLegend = () => {
			filter.slots.clear();
			legend.replaceChildren(...map.legend().map((line) => legendLine(line, filter, filterChanged)));
		};
		const modes = vt.mapModes(report);
		const colour = vt.el("select", { onchange: () => {
			const chosen = filter.slots.size > 0;

			map.setColours(colour.value);
			showLegend();
			if (chosen)
				filterChanged();
		} }, modes.map(option));

		showLegend();
		vt.onRedraw(() => {
			legend.querySelectorAll(".swatch").forEach((swatch, i) => (swatch.style.background =
				vt.colour(map.legend()[i].colour)));
		}, legend);
		vt.append(section, [
			vt.el("div", { class: "tools" }, field("Colour by", colour), filterTools(report, filter, filterChanged, (step) => choose(map.next(step))), found),
			vt.el("div", { class: "keys" }, legend, vt.zoomTools(map)),
			vt.el("div", { class: "pictured" }, picture, panel),
			vt.el("p", { class: "note" }, "To scale: rows have one length, and the line below a segment is the share of it that " +
				"is in use; addresses without memory are shortened. Where blocks are narrower than a pixel, a column shows their shares. Drag to move; zoom with the " +
				"wheel (with Ctrl, or after a click), + and −; arrow keys go from block to block."),
			vt.incompleteLists(report),
			tabs([["Largest holes", () => holesTable(report, choose).element],
				["Segments", () => segmentsTable(report, map, choose).element],
				["Pools", () => poolsTable(report, map, choose).element]]),
		]);
		section.vtMap = map;
		section.vtChoose = (i) => {
			map.select(i, { closer: true });
			show(i);
		};
		if (section.vtPending >= 0)
			section.vtChoose(section.vtPending);
	};

	/* Another part chose a block: the map may not be drawn yet. */
	document.addEventListener("vramtap-select", ({ detail }) => {
		const sections = Array.from(document.querySelectorAll("section[id=segments]"));
		const section = sections.find((one) => !detail.report || one.vtReport === detail.report);

		if (!section || detail.from === "segments")
			return;
		section.vtPending = detail.block;
		if (section.vtChoose)
			section.vtChoose(detail.block);
		section.scrollIntoView();
	});

	vt.view({ id: "segments", title: "Segments", wanted: (report) => report.segments.length > 0, render });
}
