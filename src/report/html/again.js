/* SPDX-License-Identifier: Apache-2.0 */
/* Further looks at the process: what each thread did between them. */
{
	const HOW = {
		"unknown": "ran",
		"still": "has not moved",
		"same": "same place",
		"moved": "moved",
		"ended": "ended",
		"new": "new",
	};

	const basename = (path) => path.replace(/^.*\//, "");

	const doing = (place) => place.verdict || place.waits || (place.syscall ? "in " + place.syscall : null) ||
		(place.state === "R" ? "running" : "");

	/* "train.py:116 hang_lock" */
	const where = (place) => {
		const file = place.file ? basename(place.file) + (place.line ? ":" + place.line : "") + " " : "";

		return place.function ? file + place.function : place.library;
	};

	/* "waits for a Python lock (train.py:116 hang_lock)" */
	const placeText = (place) => {
		const what = doing(place), at = where(place);

		return what && at ? `${what} (${at})` : what || at || "";
	};

	const placeLines = (thread, again) => {
		const counts = thread.places.length > 1 || again.looks > 2;
		const lines = thread.places.map((place) => vt.el("div", null,
			counts ? vt.el("span", { class: "note" }, `${place.looks} of ${thread.looks}: `) : null,
			vt.short(placeText(place))));

		if (thread.looks_elsewhere)
			lines.push(vt.el("div", { class: "note" }, `${thread.looks_elsewhere} at further places`));
		return lines;
	};

	/* The looks stop nothing; the question to the streams after the last one does. */
	const cost = (json) => {
		const later = json.streams && json.streams.looks[2];

		return later && later.stopped_ms > 0 ? `then threads stopped for ${vt.milliseconds(later.stopped_ms)}` : "no thread stopped";
	};

	const summary = (json, again) => [
		`${vt.count(again.looks)} looks in ${vt.milliseconds(again.span_ms)}, ${cost(json)}`,
		again.cpu_ns === null ? null : `${Math.round(again.cpu_ns / 1e6)} ms of processor time`,
		again.pytorch_blocks === null ? null : `${vt.counted(again.pytorch_blocks, "block")} handed out and taken back`,
		again.launches_ended ? `${vt.counted(again.launches_ended, "launch", "launches")} on the GPU ended` : null,
		again.interrupted ? "ended before all looks were made" : null,
	].filter(Boolean).join("; ");

	const columns = (json, again) => [
		{ title: "thread", value: (thread) => thread.tid,
			cell: (thread) => vt.leadsTo(vt.el(thread.main ? "b" : "span", null, vt.threadLabel(thread)),
				() => vt.goToThread(json, thread.tid)) },
		{ title: "moved", value: (thread) => thread.how,
			cell: (thread) => vt.el("span", { class: again.alarm && thread.tid === again.thread ? "alarm" : null },
				vt.lookup(HOW, thread.how) || thread.how) },
		vt.numberColumn("processor", (thread) => thread.cpu_ns, (ns) => vt.count(ns / 1e6) + " ms"),
		{ title: "where it was seen", value: (thread) => thread.places.map(placeText).join(),
			cell: (thread) => placeLines(thread, again) },
	];

	const isIdle = (thread) => thread.idle && !thread.main && thread.how !== "new";

	/* json: a report, or one process of a document of stacks */
	vt.showAgain = (container, json) => {
		const again = json.again, idle = again.threads.filter(isIdle).length;

		container.append(vt.el("p", { class: "facts" }, summary(json, again)), vt.table(columns(json, again),
			again.threads.filter((thread) => !isIdle(thread)), { caption: "What each thread did", limit: 40 }).element);
		if (idle)
			container.append(vt.el("p", { class: "note" }, `○ ${vt.count(idle)} idle in thread pools`));
	};

	vt.view({
		id: "again",
		title: "Further looks",
		wanted: (report) => Boolean(report.json.again),
		render: (section, report) => vt.showAgain(section, report.json),
	});
}
