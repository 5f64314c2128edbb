/* SPDX-License-Identifier: Apache-2.0 */
/* Two maps of segments side by side, of one scale: what a process had before, and what it has after. */
{
	const HEIGHT = 420;

	const inUse = (report) => {
		const { n, address, bytes, state } = report.blocks, known = new Map();

		for (let i = 0; i < n; i++)
			if (state[i] === 0)
				known.set(address[i], bytes[i]);
		return known;
	};

	/* Which blocks in use the other report has, too: at the same address, of the same size. */
	const changes = (report, other, word, colour) => {
		const { n, address, bytes } = report.blocks, known = inUse(other), numbers = new Int32Array(n);

		for (let i = 0; i < n; i++)
			numbers[i] = known.get(address[i]) === bytes[i] ? 0 : 1;
		return { numbers, keys: ["in both, at the same place", word], colours: new Map([["in both, at the same place",
			"change-stayed"], [word, colour]]) };
	};

	const changeMode = (report, other, i) => {
		const { numbers, keys, colours } = changes(report, other, i ? "only after" : "only before", i ? "change-new" :
			"change-gone");

		return { title: "what changed", number: () => ({ numbers, keys }), colours: () => colours, none: "" };
	};

	/* The block in use at an address; -1 none */
	const blockAtAddress = (report, address) => {
		const s = report.segments.findIndex((one) => address >= one.address && one.first < one.end &&
			address < report.blocks.address[one.end - 1] + report.blocks.bytes[one.end - 1]);

		if (s < 0)
			return -1;
		for (let i = report.segments[s].first; i < report.segments[s].end; i++)
			if (address < report.blocks.address[i] + report.blocks.bytes[i])
				return i;
		return -1;
	};

	const legendLine = (line) => vt.el("span", null, vt.swatch(vt.colour(line.colour)), line.title, " ",
		vt.el("span", { class: "note" }, vt.bytes(line.bytes)));

	/* reports: two; name: (report, index) => what is written above its map */
	vt.mapsBeside = (section, reports, name) => {
		const rowBytes = Math.max(...reports.map(vt.segmentRowBytes)), maps = [], legends = [], panels = [];
		const choose = (i, block) => {
			const other = 1 - i, address = block < 0 ? -1 : reports[i].blocks.address[block];
			const same = block < 0 ? -1 : blockAtAddress(reports[other], address);

			for (const [side, chosen] of [[i, block], [other, same]]) {
				maps[side].select(chosen);
				panels[side].hidden = chosen < 0;
				if (chosen >= 0)
					vt.showBlock(panels[side], reports[side], chosen, (next) => choose(side, next));
			}
			if (block >= 0)
				vt.tell(vt.blockText(reports[i], block));
		};
		const columns = reports.map((report, i) => {
			const picture = vt.el("div");

			legends[i] = vt.el("div", { class: "legend" });
			panels[i] = vt.el("aside", { class: "panel details", hidden: true, tabindex: "-1", "aria-label": "The chosen block" });
			maps[i] = vt.segmentMap(picture, report, { rowBytes, height: HEIGHT, label: "Map of the segments, " + name(report, i),
				onselect: (block) => choose(i, block), onopen: () => panels[i].focus(),
				onview: (view) => maps[1 - i].setView(view) });
			return vt.el("div", null, vt.el("h3", null, name(report, i)), legends[i], picture, panels[i]);
		});
		const modes = vt.mapModes(reports[1]).filter(([mode]) => vt.mapModes(reports[0]).some(([other]) => other === mode));
		const list = vt.el("select", { onchange: () => show(list.value) }, [["change", "what changed"], ...modes].map(
			([value, title]) => vt.el("option", { value }, title)));
		const show = (mode) => maps.forEach((map, i) => {
			map.setColours(mode === "change" ? vt.blockColours(reports[i], changeMode(reports[i], reports[1 - i], i)) : mode);
			legends[i].replaceChildren(...map.legend().map(legendLine));
		});

		show("change");
		vt.onRedraw(() => legends.forEach((legend, i) => legend.replaceChildren(...maps[i].legend().map(legendLine))), legends[0]);
		vt.append(section, [vt.el("div", { class: "tools" }, vt.el("label", { class: "field" }, vt.el("span", { class: "note" },
			"Colour by"), " ", list), vt.zoomTools(maps[0])), vt.el("div", { class: "beside" }, columns),
		vt.el("p", { class: "note" }, "Both are of one scale, and zoom and move together. A block that is chosen in one is shown " +
			"in the other, too: what is at its address there.")]);
		section.vtMaps = maps;
	};
}
