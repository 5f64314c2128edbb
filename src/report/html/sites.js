/* SPDX-License-Identifier: Apache-2.0 */
/* The part "Allocated by": where the memory in use was allocated, as far as it was recorded. */
{
	const MAX_TRACES = 50; /* of one site; JSON has all */
	const MAX_CALLERS = 4;
	const WEIGHTS = [{ title: "bytes in use", format: vt.bytes }, { title: "blocks", format: (n) => vt.count(n) }];

	/* [[reason, { bytes, blocks }]] of memory without a backtrace */
	const without = (report) => Object.entries((report.json.pytorch.recorded || {}).without || {})
		.filter(([, amount]) => amount.blocks).map(([reason, amount]) => [reason.replace(/_/g, "-"), amount]);

	/* ---- what recorded it ---- */

	const sources = (report) => {
		const { recorder } = report.json, by = (source) => report.traces.some((trace) => trace.source === source && trace.blocks);
		const ours = by("vramtap") || (recorder && recorder.state_code === "on");

		return [ours ? "vramtap" + (recorder && recorder.on_for_s ? ` for ${vt.duration(recorder.on_for_s)}` : "") : null,
			by("pytorch") ? "PyTorch" : null].filter(Boolean).join(" and by ");
	};

	const samplingNote = ({ recorder }) => (recorder && recorder.sample_now_bytes ? vt.el("p", { class: "note" },
		`Allocations below ${vt.bytes(recorder.sample_now_bytes)} are sampled, one per that many bytes: totals of places count ` +
		"recorded blocks only.") : null);

	/* Nothing is recorded, or nothing of what was is in use. */
	const nothing = (report) => {
		const { json } = report, { recorder } = json;
		const step = (json.next || []).find((one) => one.code === "record" && one.command);
		const command = step ? step.command : json.origin === "process" ? `vramtap record ${json.process.pid} on` : null;

		if (recorder && recorder.state_code === "on")
			return vt.el("p", null, `vramtap has recorded for ${vt.duration(recorder.on_for_s)}: nothing that it saw allocated ` +
				"is still in use.");
		return [vt.el("p", null, "It was not recorded where the blocks in use were allocated."),
			command ? vt.el("p", null, vt.el("span", { class: "note" }, "To record it from now on: "), vt.command(command)) : null];
	};

	/* ---- the graph ---- */

	const treeOf = (report, select, all) => {
		const stacks = report.traces.filter((trace) => trace.blocks).map((trace) => ({ values: [trace.bytes, trace.blocks],
			title: "a thread that ran no Python", frames: select(trace.frames.map((i) => report.frames[i])) }));

		for (const [reason, amount] of all ? without(report) : [])
			stacks.push({ frames: [], title: "no backtrace: " + vt.words("untraced", reason), values: [amount.bytes, amount.blocks] });
		return vt.stackTree(all ? "all in use" : "all recorded", stacks);
	};

	const addGraph = (place, report) => {
		const rest = without(report).length > 0;
		let select = vt.frameChoices[0][2], all = true;
		const list = vt.el("select", { "aria-label": "Which frames", onchange: () => {
			select = vt.frameChoices.find(([name]) => name === list.value)[2];
			graph.setTree(treeOf(report, select, all));
		} }, vt.frameChoices.map(([value, title]) => vt.el("option", { value }, title)));
		const button = vt.el("button", { type: "button", "aria-pressed": "true", onclick: () => {
			all = !all;
			button.setAttribute("aria-pressed", String(all));
			graph.setTree(treeOf(report, select, all));
		} }, "memory without a backtrace");
		const graph = vt.flameGraph(place, treeOf(report, select, all), { weights: WEIGHTS, tools: [list, rest ? button : null],
			label: "Flame graph of the backtraces of memory in use" });

		return graph;
	};

	const kinds = () => vt.el("div", { class: "legend" }, [["frame-python", 1, "Python, the program's own"],
		["frame-python", 0.5, "other Python"], ["frame-native", 0.5, "native"], ["map-cached", 1, "no backtrace"]].map(
		([colour, share, title]) => vt.el("span", null, vt.swatch(`rgb(${vt.mix(vt.rgb(vt.colour(colour)),
			vt.rgb(vt.colour("back")), share).join()})`), title)));

	/* ---- the table ---- */

	/* "← Net.forward net.py:30 ← train train.py:80": the program's own frames further out, of the largest backtrace */
	const callers = (report, site) => {
		const { frames, title } = report.traces[site.backtraces[0]], outer = [];
		let last = title === null ? "" : vt.frameText(report.frames[title]);

		for (const i of frames.slice(frames.indexOf(title) + 1)) {
			const text = vt.frameText(report.frames[i]);

			if (vt.isProgram(report.frames[i]) && text !== last)
				outer.push("← " + text);
			last = vt.isProgram(report.frames[i]) ? text : last;
		}
		return outer.slice(0, MAX_CALLERS).join(" ") + (outer.length > MAX_CALLERS ? " …" : "");
	};

	const siteName = (report, site) => (site.title === null ? "(a thread that ran no Python)" :
		vt.frameText(report.frames[site.title]));

	const siteCell = (report, site) => {
		const ways = site.backtraces.length, frame = site.title === null ? null : report.frames[site.title];

		return [vt.el("div", null, frame ? [vt.el(vt.isProgram(frame) ? "strong" : "span", null, vt.functionName(frame)), " ",
			vt.el("span", { class: "note" }, vt.place(frame))] : siteName(report, site)),
		vt.el("div", { class: "note small" }, callers(report, site) + (ways > 1 ? ` and ${vt.count(ways - 1)} more ` +
			`way${ways === 2 ? "" : "s"}` : ""))];
	};

	const age = (seconds) => (seconds === null || seconds === undefined ? "" : vt.duration(seconds));

	const rowsOf = (report) => report.sites.map((site) => ({ site, name: siteName(report, site), bytes: site.bytes,
		blocks: site.blocks, largest: site.largest_bytes, oldest: site.oldest_age_s, newest: site.newest_age_s }))
		.concat(without(report).map(([reason, amount]) => ({ site: null, name: "no backtrace: " + vt.words("untraced", reason),
			bytes: amount.bytes, blocks: amount.blocks, largest: null, oldest: null, newest: null })));

	const addTable = (place, report, choose) => {
		const rows = rowsOf(report), total = rows.reduce((sum, row) => sum + row.bytes, 0);
		const ages = rows.some((row) => typeof row.oldest === "number");

		place.append(vt.table([
			{ title: "place", value: (row) => row.name, cell: (row) => (row.site ? siteCell(report, row.site) :
				vt.el("span", { class: "note" }, row.name)) },
			{ title: "bytes in use", number: true, value: (row) => row.bytes, cell: (row) => vt.bytes(row.bytes) },
			{ title: "share", number: true, value: (row) => row.bytes, cell: (row) => vt.percent(row.bytes, total) },
			{ title: "blocks", number: true, value: (row) => row.blocks, cell: (row) => vt.count(row.blocks) },
			{ title: "largest", number: true, value: (row) => row.largest, cell: (row) => (row.largest === null ? "" :
				vt.bytes(row.largest)) },
			...(ages ? [{ title: "oldest", number: true, value: (row) => row.oldest, cell: (row) => age(row.oldest) },
				{ title: "newest", number: true, value: (row) => row.newest, cell: (row) => age(row.newest) }] : []),
		], rows, { limit: 15, caption: "Places that allocated what is in use", sortBy: 1, onrow: (row) => row.site &&
			choose(row.site) }).element);
	};

	/* ---- the backtraces of one site ---- */

	const traceText = (trace) => `${vt.bytes(trace.bytes)} in ${vt.count(trace.blocks)} block${trace.blocks === 1 ? "" : "s"}, ` +
		`the largest ${vt.bytes(trace.largest_bytes)}` + (typeof trace.oldest_age_s === "number" ?
		`, ${age(trace.newest_age_s)} to ${age(trace.oldest_age_s)} old` : "") + `, recorded by ${trace.source === "pytorch" ?
		"PyTorch" : "vramtap"}` + (trace.merge_uncertain ? "; where the outer native frames belong is not known" : "") +
		(trace.native_guess ? "; native frames may be missing" : "");

	const largestBlock = (report, site) => {
		const { trace, bytes, n } = report.blocks, of = new Set(site.backtraces);
		let found = -1;

		for (let i = 0; i < n; i++)
			if (trace[i] >= 0 && of.has(trace[i]) && (found < 0 || bytes[i] > bytes[found]))
				found = i;
		return found;
	};

	const showSite = (panel, report, site) => {
		const block = largestBlock(report, site), left = site.backtraces.length - MAX_TRACES;

		panel.hidden = false;
		panel.replaceChildren();
		vt.append(panel, [
			vt.el("h3", null, siteName(report, site)),
			block >= 0 ? vt.el("button", { type: "button", onclick: () => document.dispatchEvent(new CustomEvent("vramtap-select",
				{ detail: { block, report, from: "sites" } })) }, "its largest block on the map") : null,
			site.backtraces.slice(0, MAX_TRACES).map((i) => [
				vt.el("p", { class: "note" }, traceText(report.traces[i]) + ":"),
				vt.showStack(vt.traceFrames(report, i)),
				report.traces[i].python_cut || report.traces[i].native_cut ? vt.el("p", { class: "note" },
					"… and more frames, not recorded") : null]),
			left > 0 ? vt.el("p", { class: "note" }, `${vt.count(left)} more backtraces are in the JSON report.`) : null,
		]);
		panel.focus();
	};

	/* ---- what JAX said ---- */

	const addJax = (section, sites) => {
		const stacks = sites.map((site) => ({ values: [site.bytes, site.count], title: "no backtrace", frames: site.frames.map(
			(frame, i) => ({ ...frame, kind: "python", program: site.title !== null && i >= site.title })) }));

		section.append(vt.el("h3", null, "JAX's arrays and programs"));
		return vt.flameGraph(section, vt.stackTree("all of JAX", stacks), { label: "Flame graph of JAX's arrays",
			weights: [{ title: "bytes", format: vt.bytes }, { title: "count", format: (n) => vt.count(n) }] });
	};

	/* ---- the part ---- */

	const renderTorch = (section, report) => {
		const place = vt.el("div"), panel = vt.el("div", { class: "panel", tabindex: "-1", hidden: true, role: "region",
			"aria-label": "Backtraces of the chosen place" });

		vt.append(section, [vt.el("p", { class: "note" }, `Recorded by ${sources(report)}. Widths are to scale; the outermost ` +
			"frame is on top. A click zooms, Escape zooms out."), kinds(), place, samplingNote(report.json)]);
		section.vtGraph = addGraph(place, report);
		addTable(section, report, (site) => showSite(panel, report, site));
		section.append(panel);
	};

	const jaxSites = (report) => ((report.json.jax && report.json.jax.sites) || []).filter((site) => site.bytes);

	vt.view({
		id: "sites",
		title: "Allocated by",
		wanted: (report) => report.blocks.n > 0 || jaxSites(report).length > 0,
		render: (section, report) => {
			if (report.sites.length)
				renderTorch(section, report);
			else if (report.blocks.n)
				vt.append(section, [nothing(report)]);
			if (jaxSites(report).length)
				addJax(section, jaxSites(report));
		},
	});
}
