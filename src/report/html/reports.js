/* SPDX-License-Identifier: Apache-2.0 */
/* The page of several reports: of one process over time, or of several processes. */
{
	/* Of all that a list says; null: not all is known. */
	const sum = (list, of) => list.reduce((all, one) => {
		const bytes = of(one);

		return all === null || bytes === null || bytes === undefined ? null : all + bytes;
	}, 0);

	/* Only totals are exact: of a walk that stopped early, or of a list that changed, there are none. */
	const sumTotals = ({ json }, of) => {
		const { allocators } = json.pytorch || {};

		if (!allocators) /* without PyTorch there is none of its memory */
			return json.pytorch || (json.versions && json.versions.pytorch) ? null : 0;
		return sum(allocators, ({ totals }) => (totals ? of(totals) : null));
	};

	const inUse = (report) => sumTotals(report, (totals) => totals.allocated.bytes);
	const reserved = (report) => sumTotals(report, (totals) => totals.reserved_bytes);

	/* By anybody, of the devices that the process uses. */
	const used = ({ json }) => {
		const devices = json.cuda && json.cuda.devices, allocators = (json.pytorch && json.pytorch.allocators) || [];
		const isUsed = (device) => device.memory || device.context_active || allocators.some((one) => one.device === device.ordinal &&
			one.segments.length);

		return devices ? sum(devices.filter(isUsed), (device) => (device.memory ? device.memory.used_bytes : null)) : null;
	};

	/* Bytes in use by what key says of an owner; null: not all blocks are known. */
	const sumBy = (report, key) => {
		const sums = new Map();

		if (inUse(report) === null)
			return null;
		for (let i = 0; i < report.blocks.n; i++) {
			if (report.blocks.state[i] !== 0)
				continue;
			const owner = report.blocks.owner[i];
			const name = owner < 0 ? "no owner found" : key(report.owners, owner) || "no owner found";

			sums.set(name, (sums.get(name) || 0) + report.blocks.bytes[i]);
		}
		return sums;
	};

	/* The course of the largest of each report, as vt.showCourse takes it. */
	const courseOf = (reports, seconds, sums) => {
		const largest = new Map();

		for (const one of sums.filter(Boolean))
			for (const [name, bytes] of one)
				largest.set(name, Math.max(largest.get(name) || 0, bytes));
		const names = [...largest].sort((a, b) => b[1] - a[1]).slice(0, 24).map((one) => one[0]);

		return { seconds, sums: sums.map((one) => (one ? sum([...one.values()], (bytes) => bytes) : null)),
			lines: names.map((label) => ({ label, bytes: sums.map((one) => (one ? one.get(label) || 0 : null)) })) };
	};

	/* Seconds; null: it has no time */
	const timeOf = (report) => {
		const ms = typeof report.json.time === "string" ? Date.parse(report.json.time) : NaN;

		return Number.isNaN(ms) ? null : ms / 1000;
	};

	const processOf = (report) => report.json.process || {};

	const who = (report) => (report.json.where && report.json.where.host ? report.json.where.host : "") + " " +
		processOf(report).pid + " " + processOf(report).name;

	const startOf = (report) => {
		const time = timeOf(report), up = processOf(report).uptime_s;

		return time !== null && typeof up === "number" ? time - up : null;
	};

	const CLOCKS = 2; /* seconds by which what two clocks say of a start may differ */

	/* Numbers of processes are used again: the start tells them apart. */
	const isSame = (a, b) => who(a) === who(b) && (startOf(a) === null || startOf(b) === null ||
		Math.abs(startOf(a) - startOf(b)) <= CLOCKS);

	const processesOf = (reports) => reports.reduce((list, one) => (list.some((other) => isSame(one, other)) ? list : [...list, one]), []);

	const startText = (report) => (startOf(report) === null ? "" : ", started " + new Date(startOf(report) * 1000).toISOString()
		.slice(0, 19).replace("T", " "));

	const showTable = (section, reports, choose) => section.append(vt.table([
		{ title: "report", value: (report) => report.name || "" },
		{ title: "time", value: timeOf, cell: (report) => String(report.json.time || "unknown").replace("T", " ").slice(0, 19) },
		{ title: "process", value: who, cell: (report) => vt.reportTitle(report.json) + ", pid " + processOf(report).pid },
		{ title: "in use", number: true, value: inUse, cell: (report) => vt.bytes(inUse(report)) },
		{ title: "reserved", number: true, value: reserved, cell: (report) => vt.bytes(reserved(report)) },
		{ title: "devices used", number: true, value: used, cell: (report) => vt.bytes(used(report)) },
		{ title: "first line", value: (report) => ((report.json.headlines || [])[0] || {}).text || "" },
	], reports, { caption: "Reports", onrow: (report) => choose(reports.indexOf(report)) }).element);

	const showCourses = (section, all) => {
		const reports = all.filter((report) => timeOf(report) !== null), left = all.length - reports.length;

		if (left)
			section.append(vt.el("p", { class: "note" }, `${vt.plural(left, "report")} without a time left out.`));
		if (reports.length > 1)
			showTimed(section, reports);
	};

	const showTimed = (section, reports) => {
		const seconds = reports.map((report) => timeOf(report) - timeOf(reports[0]));
		const totals = { seconds, sums: null, lines: [
			{ label: "used on the devices, by anybody", bytes: reports.map(used) },
			{ label: "reserved by PyTorch", bytes: reports.map(reserved) },
			{ label: "in use by PyTorch", bytes: reports.map(inUse) }] };

		vt.showCourse(section, totals, "In total");
		vt.showCourse(section, courseOf(reports, seconds, reports.map((report) =>
			sumBy(report, (owners, i) => vt.words("category", owners.category[i])))), "By category");
		vt.showCourse(section, courseOf(reports, seconds, reports.map((report) =>
			sumBy(report, (owners, i) => owners.variable[i] || owners.name[i]))), "By owner");
	};

	vt.page({
		wanted: (documents) => documents.length > 1 && documents.every((one) => one.json.schema === "vramtap-report"),
		show: (documents) => {
			const reports = documents.map((one) => vt.report(one.json, one.name)).sort((a, b) => (timeOf(a) ?? Infinity) - (timeOf(b) ?? Infinity) || 0);
			const processes = processesOf(reports), same = processes.length === 1;
			const last = reports[reports.length - 1], name = (report) => report.name || report.json.time;
			let choose = null;

			vt.showHead(same ? vt.reportTitle(last.json) : processes.length + " processes", same ? vt.reportFacts(last.json) :
				processes.map((report) => who(report) + startText(report)), same ? vt.answerOf(last.json) : null);
			const parts = [{ id: "all", title: "Reports", render: (section) => showTable(section, reports, (i) => {
				choose(i);
				document.getElementById("one").scrollIntoView();
			}) }];

			if (same)
				parts.push({ id: "over-time", title: "Over time", render: (section) => showCourses(section, reports) });
			if (vt.segmentMap && reports.length === 2 && reports.every((report) => report.blocks.n))
				parts.push({ id: "maps", title: "Segments", render: (section) => vt.mapsBeside(section, reports, name) });
			parts.push({ id: "one", title: "One report", render: (section) => (choose = vt.reportChooser(section, reports, name))(
				reports.length - 1) });
			vt.drawPart(vt.showParts(parts)[parts.length - 1]);
			return last.json;
		},
	});
}
