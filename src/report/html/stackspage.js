/* SPDX-License-Identifier: Apache-2.0 */
/* The page of vramtap stacks: the threads of one or several processes. */
{
	/* The parts of one process, as vt.showParts() takes them. */
	const partsOf = (json) => [
		[vt.hasWaits(json), "waits", "Who waits for whom", vt.showWaits],
		[json.again, "again", "Further looks", vt.showAgain],
		[json.threads.length, "threads", "Threads", vt.showThreads],
		[vt.hasTasks(json), "tasks", "Tasks of asyncio", vt.showTasks],
		[true, "details", "Details", vt.showDetails],
	].filter(([wanted]) => wanted).map(([, id, title, show]) => ({ id, title, render: (section) => show(section, json) }));

	const showOne = (json) => {
		vt.showHead(vt.reportTitle(json), vt.reportFacts(json), vt.answerOf(json));
		vt.showParts(partsOf(json));
	};

	/* ---- several ---- */

	const MOST_LINES = 3; /* of an answer, in the table */
	const MOST_HOSTS = 4;

	const nameOf = (one) => (one.error ? "" : vt.reportTitle(one));

	const rankOf = (one) => (one.process ? one.process.rank : null);

	const answerOf = (one) => (one.error ? [{ alarm: true, text: one.error.text }] : one.headlines || []);

	const answerLine = (line) => vt.el("div", { class: line.alarm ? "alarm" : null }, line.alarm ? "⚠ " : null, vt.short(line.text));

	const columns = (choose, processes) => [
		{ title: "pid", number: true, value: (one) => one.pid,
			cell: (one) => (one.error ? String(one.pid) : vt.leadsTo(String(one.pid), () => choose(one))) },
		processes.some((one) => rankOf(one) !== null) && vt.numberColumn("rank", rankOf),
		vt.textColumn("process", nameOf, (name) => vt.el("span", { class: "clamped" }, name)),
		vt.numberColumn("threads", (one) => (one.threads ? one.threads.length : null)),
		{ title: "answer", value: (one) => answerOf(one).map((line) => line.text).join(),
			cell: (one) => answerOf(one).slice(0, MOST_LINES).map(answerLine) },
	].filter(Boolean);

	/* Shows one of them below the table. */
	const show = (place, one) => {
		const parts = vt.el("div");

		place.replaceChildren(vt.el("h2", { class: "clamped" }, `${one.pid}: ${nameOf(one)}`),
			...vt.factLines(vt.reportFacts(one)), vt.answerOf(one) || "", parts);
		vt.showParts(partsOf(one), { into: parts, nav: false });
	};

	const hasAlarm = (one) => (one.headlines || []).some((line) => line.alarm);

	const headFacts = (json, good) => {
		const hosts = new Set(good.map((one) => one.where && one.where.host).filter(Boolean));

		return [
			...[...hosts].slice(0, MOST_HOSTS).map((host) => "on " + host),
			hosts.size > MOST_HOSTS ? `and ${vt.count(hosts.size - MOST_HOSTS)} more hosts` : null,
			json.time ? json.time.slice(0, 19).replace("T", " ") + " UTC" : null,
		];
	};

	const showSeveral = (json) => {
		const processes = json.processes, good = processes.filter((one) => !one.error);
		const place = vt.el("div", { id: "chosen", tabindex: "-1" });
		const choose = (one) => {
			show(place, one);
			place.scrollIntoView();
			place.focus({ preventScroll: true });
			vt.tell(`Process ${one.pid} is shown.`);
		};

		vt.showHead(`Stacks of ${vt.count(processes.length)} processes`, headFacts(json, good));
		vt.showParts([{ id: "processes", title: "Processes", render: (section) => section.append(vt.table(
			columns(choose, processes), processes, { caption: "Processes", limit: 60 }).element) },
		{ id: "process", title: "The chosen process", render: (section) => {
			section.querySelector("h2").remove();
			section.append(place);
			if (good.length)
				show(place, good.find(hasAlarm) || good[0]);
		} }]);
	};

	vt.page({
		wanted: (documents) => documents.length === 1 && documents[0].json.schema === "vramtap-stacks",
		show: (documents) => {
			const json = documents[0].json, processes = json.processes;

			if (processes.length === 1 && !processes[0].error)
				showOne(processes[0]);
			else
				showSeveral(json);
			return json;
		},
	});
}
