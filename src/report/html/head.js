/* SPDX-License-Identifier: Apache-2.0 */
/* The head: which process, when and where; the answer; what to do about it, and next. */
{
	const MOST_ADVICE = 5; /* shown at once */

	const headline = (line) => vt.el("li", { class: line.alarm ? "alarm" : null }, line.alarm ? "⚠ " : null,
		vt.short(line.text, 1000));

	/* [{ command, setting, text }] as commands with a button that copies them */
	vt.nextSteps = (steps) => {
		const shown = steps.filter((step) => step.command || step.setting || step.text);

		return shown.length ? vt.el("div", { class: "next" }, shown.map((step, i) => [
			vt.el("span", { class: "note" }, i ? "or" : "Next"),
			vt.el("span", null, step.command || step.setting ? [vt.command(step.command || step.setting), " "] : null,
				step.text ? vt.el("span", { class: "note" }, step.text) : null)])) : null;
	};

	/* The text of a remedy has its setting and its command in it: these can be copied. */
	const remedyParts = (remedy) => {
		let parts = [remedy.text];

		for (const copied of [remedy.command, remedy.setting].filter(Boolean)) {
			parts = parts.flatMap((part) => {
				const at = typeof part === "string" ? part.indexOf(copied) : -1;

				return at < 0 ? [part] : [part.slice(0, at), vt.command(copied), part.slice(at + copied.length)];
			});
		}
		return parts;
	};

	const evidenceOf = (advice) => (advice.verdict && advice.text.startsWith(advice.verdict + ": ") ?
		advice.text.slice(advice.verdict.length + 2) : "");

	/* The threads that the evidence names. */
	const threadsOf = (one, json) => ["tid", "holder_tid"].map((key) => (one.evidence || {})[key]).filter((tid) =>
		json && json.threads && json.threads.some((thread) => thread.tid === tid));

	const advice = (one, json) => vt.el("li", { class: one.alarm ? "alarm" : null },
		vt.el("div", { class: "verdict" }, evidenceOf(one) ? one.verdict : one.text, " ",
			vt.el("span", { class: "certainty", title: "how sure this is" }, one.certainty)),
		evidenceOf(one) ? vt.el("div", { class: "note" }, vt.short(evidenceOf(one), 1000),
			threadsOf(one, json).map((tid) => [" ", vt.leadsTo(`→ ${tid}`, () => vt.goToThread(json, tid))])) : null,
		one.remedy && one.remedy.text ? vt.el("div", { class: "remedy" }, remedyParts(one.remedy)) : null);

	/* [{ verdict, text, alarm, certainty, remedy, evidence }], what to do first, first; json: whose threads it names */
	vt.adviceList = (list, json) => {
		if (!list.length)
			return null;
		const items = vt.el("ol", { class: "advice", "aria-label": "What to do" },
			list.slice(0, MOST_ADVICE).map((one) => advice(one, json)));
		const rest = list.slice(MOST_ADVICE);
		const more = rest.length ? vt.el("button", { type: "button", onclick: () => {
			items.append(...rest.map((one) => advice(one, json)));
			more.remove();
			vt.focusOn(items.children[MOST_ADVICE]);
		} }, `${rest.length} more`) : null;

		return [items, more];
	};

	/* lines: [{ alarm, text }]; then what to do, and the next steps. json: see vt.adviceList() */
	vt.answer = (lines, steps, list = [], json = null) => vt.el("div", { role: "region", "aria-label": "The answer",
		class: lines.some((line) => line.alarm) ? "answer alarms" : "answer" },
	lines.length ? vt.el("ul", null, lines.map(headline)) : null, vt.adviceList(list, json), vt.nextSteps(steps));

	const factLine = (facts) => vt.el("div", { class: "facts" }, facts.filter(Boolean).map((fact) =>
		vt.el("span", null, vt.short(fact))));

	/* facts: strings, or lists of strings: lines. Elements. */
	vt.factLines = (facts) => (facts.some(Array.isArray) ? facts : [facts]).map(factLine);

	vt.showHead = (title, facts, ...rest) => {
		document.getElementById("head").replaceChildren(vt.el("h1", { title: title.length > 80 ? title : null }, title),
			...vt.factLines(facts), ...rest.filter(Boolean));
	};

	const time = (json) => (typeof json.time === "string" ? json.time.replace("T", " ").replace(/\.\d+/, "").replace("Z", " UTC") : null);

	const known = (value) => value !== null && value !== undefined;

	/* "Rank 3: python3 train.py": the interpreter without its directory, which says little and is long. */
	vt.reportTitle = (json) => {
		const process = json.process || {}, command = (process.command_line || "").replace(/^\/\S*\/(?=[^\s/])/, "");

		return (known(process.rank) ? "Rank " + process.rank + ": " : "") + (command || process.name || "a process");
	};

	/* For how long the threads stood still while the streams were asked. */
	vt.stoppedForStreams = (json) =>
		((json.streams && json.streams.looks) || []).reduce((sum, look) => sum + look.stopped_ms, 0);

	const costFact = (json) => {
		const inside = [json.cuda, json.pytorch].some((part) => part && part.method === "inside");
		const timing = json.timing || {};
		const stopped = (timing.stopped_ms || 0) + vt.stoppedForStreams(json);

		if (json.origin === "core" || !timing.total_ms)
			return null;
		return `read from ${inside ? "inside" : "outside"} in ${vt.milliseconds(timing.total_ms)}` +
			(timing.borrowed_tid ? `, one thread borrowed for ${vt.milliseconds(timing.borrowed_us / 1000)}` : "") +
			(stopped ? `, threads stopped for ${vt.milliseconds(stopped)}` : "") +
			(timing.gil_held_ms ? `, GIL held for ${vt.milliseconds(timing.gil_held_ms)}` : "");
	};

	/* What tells the process; and what it runs, and how it was read. */
	vt.reportFacts = (json) => {
		const process = json.process || {}, versions = json.versions || {}, core = json.core;

		return [[
			(core ? `core ${core.path} of ` : "") + "pid " + process.pid,
			process.own_pid ? "there pid " + process.own_pid : null,
			known(process.rank) && process.world_size ? `rank ${process.rank} of ${process.world_size}` : null,
			process.uptime_s ? "up " + vt.duration(process.uptime_s) : null,
			process.user,
			json.where && json.where.host ? "on " + json.where.host : null,
			process.job ? "job " + process.job : null,
			process.pod ? "pod " + process.pod : null,
			process.container ? "container " + process.container : null,
			time(json),
		], [
			versions.pytorch ? "PyTorch " + versions.pytorch : null,
			versions.cpython ? "CPython " + versions.cpython : null,
			versions.cpython_free_threaded ? "free-threaded" : null,
			versions.cuda_driver ? "CUDA " + versions.cuda_driver : null,
			versions.driver ? "driver " + versions.driver : null,
			costFact(json),
			json.held_by ? "held by " + json.held_by : null,
		]];
	};

	const MOST_MISSING = 3;

	/* Above the headlines: a partial report must never look complete. */
	const partial = (json) => {
		const missing = (json.diagnostics || []).filter((one) => one.level === "missing");

		if (json.completeness === "complete")
			return null;
		return vt.el("div", { class: "partial" },
			vt.el("b", null, json.completeness === "nothing" ? "Nothing could be learned. " : "This report is partial. "),
			missing.slice(0, MOST_MISSING).map((one, i) => [i ? "; " : "", vt.short(one.text)]),
			missing.length > MOST_MISSING ? `; ${missing.length - MOST_MISSING} more things are missing` : null,
			missing.length ? ". " : null, vt.el("a", { href: "#details" }, "Details"));
	};

	/* The answer of a report, or of one process of a document of stacks. */
	vt.answerOf = (json) => {
		const answer = vt.answer(json.headlines || [], json.next || [], json.advice || [], json);
		const noCuda = json.process && json.process.uses_cuda === false && json.cuda ?
			vt.el("div", { class: "note" }, "This process does not use CUDA: libcuda is not mapped.") : null;
		const note = partial(json);

		if (note)
			answer.prepend(note);
		if (noCuda)
			answer.prepend(noCuda);
		return answer.childElementCount ? answer : null;
	};

	vt.showReportHead = (report) => {
		const { json, name, problem } = report, title = vt.attempt("The title", () => vt.reportTitle(json));
		const facts = vt.attempt("What process this is", () => vt.reportFacts(json));

		vt.showHead(typeof title === "string" ? title : name || "A report", Array.isArray(facts) ? facts : [name], ...[title, facts].filter(
			(one) => one instanceof Node), vt.attempt("The answer", () => vt.answerOf(json)),
		problem ? vt.el("p", { class: "alarm" }, "The blocks of memory could not be read: " + problem) : null);
	};
}
