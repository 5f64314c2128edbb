/* SPDX-License-Identifier: Apache-2.0 */
/* The page of vramtap diff: what changed, two maps side by side, and both reports. */
{
	const amount = (one, key) => one[key].bytes;

	/* A bar to the left or right of a line: shrank or grew, to the scale of the largest change. */
	const changeBar = (bytes, most) => {
		const share = most ? (50 * Math.abs(bytes)) / most : 0;

		return vt.el("span", { class: "change-bar", "aria-hidden": "true" }, vt.el("span", { class: bytes < 0 ? "shrank" : "grew",
			style: { width: share + "%", left: (bytes < 0 ? 50 - share : 50) + "%" } }));
	};

	/* Rows with before, after, change_bytes as doc/diff.schema.json has them. */
	const changeTable = (rows, title, name, more = []) => {
		const most = rows.reduce((n, row) => Math.max(n, Math.abs(row.change_bytes)), 0);

		return [vt.el("h3", null, title), vt.table([
			{ title, value: name },
			...more,
			{ title: "before", number: true, value: (row) => amount(row, "before"), cell: (row) => vt.bytes(amount(row, "before")) },
			{ title: "after", number: true, value: (row) => amount(row, "after"), cell: (row) => vt.bytes(amount(row, "after")) },
			{ title: "change", number: true, value: (row) => row.change_bytes, cell: (row) => vt.change(row.change_bytes) },
			{ title: "", value: (row) => row.change_bytes, cell: (row) => changeBar(row.change_bytes, most) },
			{ title: "blocks", number: true, value: (row) => row.change_blocks,
				cell: (row) => vt.count(row.before.blocks) + " → " + vt.count(row.after.blocks) },
		], rows, { caption: title, limit: 20, sortBy: 3 + more.length }).element];
	};

	const words = (code) => code.replace(/_/g, " ");

	const deviceRows = (device) => {
		const rows = ["allocated", "awaiting_free", "cached"].map((key) => ({ name: words(key), ...device[key] }));

		for (const [key, row] of Object.entries(device.ledger || {}))
			rows.push({ name: words(key), ...row });
		for (const key of ["everything_else", "free"])
			if (device[key])
				rows.push({ name: words(key), ...device[key] });
		return rows.filter((row) => row.before && (row.change_bytes || row.before.bytes || row.after.bytes));
	};

	const siteName = (site) => {
		const frame = site.title || (site.frames && site.frames[0]);

		return frame ? vt.functionName(frame) + "  " + vt.place(frame) : "a thread that ran no Python";
	};

	const showChanges = (section, json) => {
		for (const device of json.devices.filter((one) => deviceRows(one).length))
			vt.append(section, changeTable(deviceRows(device), "GPU " + device.device, (row) => row.name));
		if (json.categories.length)
			vt.append(section, changeTable(json.categories, "What the blocks in use are", (row) => vt.words("category", row.category)));
		if (json.owners.length)
			vt.append(section, changeTable(json.owners, "Held by", (row) => row.path || row.variable,
				[{ title: "what it is", value: (row) => vt.words("category", row.category) }]));
		if (json.sites.length)
			vt.append(section, changeTable(json.sites, "Allocated by", siteName));
		if (json.groups.length)
			vt.append(section, changeTable(json.groups, "Blocks in use by size", (row) => "GPU " + row.device + ": " +
				vt.bytes(row.block_bytes)));
		if (json.kept)
			section.append(vt.el("p", null, `${vt.bytes(json.kept.bytes)} in ${vt.count(json.kept.blocks)} blocks is where it was` +
				(json.kept_certain ? ": not freed in between." : ": not freed in between, or handed out again in the same way.")));
	};

	/* A part that shows one of several reports below a row of buttons. */
	vt.reportChooser = (section, reports, name) => {
		const place = vt.el("div");
		const buttons = reports.map((report, i) => vt.el("button", { type: "button", "aria-pressed": "false", onclick: () => show(i) },
			name(report, i)));
		const show = (i) => {
			buttons.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
			vt.current = reports[i];
			vt.showParts(vt.reportParts(reports[i]), { into: place, nav: false });
		};

		vt.append(section, [vt.el("div", { class: "tools" }, buttons), place]);
		return show;
	};

	const timeOf = (side) => (side.time_s ? new Date(side.time_s * 1000).toISOString().replace("T", " ").slice(0, 19) + " UTC" : "");

	vt.page({
		wanted: (documents) => documents[0].json.schema === "vramtap-diff",
		show: (documents) => {
			const json = documents[0].json, reports = documents.slice(1).map((one) => vt.report(one.json, one.name));
			const names = ["before", "after"], name = (report, i) => names[i] + (report.name ? ": " + report.name : "");

			vt.showHead("What changed in " + (json.same_process ? json.seconds ? vt.duration(json.seconds) : "no time" :
				"memory between two processes"), [
				"before: pid " + json.before.pid + " " + timeOf(json.before), "after: pid " + json.after.pid + " " + timeOf(json.after),
				json.after.host ? "host " + json.after.host : null, json.after.command_line || json.after.name,
				json.why_other_process, json.completeness === "complete" ? null : "the comparison is " + json.completeness,
			], vt.answer([...json.headlines, ...json.notes.map((note) => ({ text: note.text }))], []));
			const parts = [{ id: "changes", title: "Changes", render: (section) => showChanges(section, json) }];

			if (reports.length === 2 && vt.segmentMap && reports.every((report) => report.blocks.n))
				parts.push({ id: "maps", title: "Segments before and after", render: (section) => vt.mapsBeside(section, reports, name) });
			if (reports.length)
				parts.push({ id: "reports", title: "Both reports", render: (section) => vt.reportChooser(section, reports, name)(0) });
			vt.showParts(parts);
			return json;
		},
	});
}
