/* SPDX-License-Identifier: Apache-2.0 */
/* One process of a job, over the page: what the job's document has of it, and its own report if that is in the page. */
{
	/* A line of "ledger": a library, or a kind of memory; "device" would be its number there */
	vt.jobLineWords = (line) => vt.words("claimer", vt.words("range", line === "device_memory" ? "device" : line));

	const known = (value) => value !== null && value !== undefined;

	/* ---- facts ---- */

	const PROCESS_STATES = { R: "running", S: "sleeping", D: "in uninterruptible sleep", T: "stopped by a signal",
		t: "stopped by a debugger", Z: "ended, not collected", X: "ended" };

	const facts = (job, m) => [
		"pid " + m.pid + (m.host ? " on " + m.host : ""),
		m.core ? "from the core " + m.core : null,
		m.in_job ? null : "outside the job: it holds memory of its devices",
		m.role !== "rank" ? vt.jobRoleWords[m.role][0] : null,
		known(m.of) ? "works for pid " + m.of : null,
		known(m.rank) && known(m.world_size) ? "rank " + m.rank + " of " + vt.count(m.world_size) : null,
		known(m.local_rank) ? "local rank " + m.local_rank : null,
		m.job ? "job " + m.job : null,
		m.pod ? "pod " + m.pod : null,
		m.container ? "container " + m.container : null,
		known(m.visible_devices) ? "CUDA_VISIBLE_DEVICES=" + m.visible_devices : null,
		vt.lookup(PROCESS_STATES, m.process_state) || null,
		m.moved === true ? "went on within 200 ms" : m.moved === false ? "slept on for 200 ms" : null,
		known(m.tracer) ? "held by " + (m.tracer_name || "a debugger") + ", pid " + m.tracer : null,
		m.stopped_ms ? "stopped for " + vt.milliseconds(m.stopped_ms) : null,
		m.completeness !== "complete" ? "its report is " + (m.completeness === "nothing" ? "missing" : m.completeness) : null,
	];

	const said = (view, i) => {
		const m = view.job.members[i], lines = view.job.namedBy(i);

		return vt.el("div", { class: m.error || lines.some((one) => one.alarm) ? "answer alarms" : "answer", role: "region",
			"aria-label": "What is said of it" }, vt.el("ul", null,
			m.error ? vt.el("li", { class: "alarm" }, "Not read: " + m.error) : null,
			m.headline ? vt.el("li", null, m.headline) : null,
			m.missing ? vt.el("li", null, "Missing: " + m.missing) : null,
			lines.map((one) => vt.el("li", { class: one.alarm ? "alarm" : null }, (one.alarm ? "⚠ " : "") + one.text))));
	};

	/* ---- threads: as a report has them, those that do the same together ---- */

	const SOMEWHERE = "somewhere";

	const framesOf = (job, doing) => job.frames(doing).map((frame) => (frame.file || frame.module || frame.kind === "python" ? frame :
		{ ...frame, pc: SOMEWHERE }));

	const threadOf = (tid, doing, frames) => ({ tid, name: doing.name || null, state: doing.state, main: Boolean(doing.main),
		idle: Boolean(doing.idle), python: Boolean(doing.python), deadlock: Boolean(doing.deadlock), holds_gil: doing.gil ?? null,
		verdict: doing.verdict || null, verdict_code: doing.verdict_code || null, waits: doing.waits || null,
		waits_code: doing.waits_code || null, syscall: null, cpu: null, taken: null, wchan: doing.kernel || null, kernel_stack: null,
		stack: { frames, why: frames.length ? null : "it was not read" } });

	const threads = (section, job, i) => {
		const m = job.members[i], groups = new Map();

		m.threads_do.forEach((at, k) => {
			const doing = job.json.doings[at];

			if (!groups.has(at))
				groups.set(at, { idle: Boolean(doing.idle && !doing.main), tids: [], doing, frames: framesOf(job, doing) });
			groups.get(at).tids.push(m.threads[k]);
		});
		const all = Array.from(groups.values());

		/* Whether stacks are whole, and of one instant, a member does not say. */
		vt.showThreads(section, { thread_groups: all, threads: all.flatMap((group) => group.tids.map((tid) =>
			threadOf(tid, group.doing, group.frames))) });
	};

	/* ---- memory ---- */

	const memoryRows = (one) => [
		["in use by PyTorch", one.allocated_bytes],
		["cached by PyTorch", one.cached_bytes],
		["reserved by PyTorch", one.reserved_bytes],
		...Object.entries(one.ledger || {}).filter(([line, bytes]) => line !== "pytorch" && bytes > 0).map(([line, bytes]) =>
			[vt.jobLineWords(line), bytes]),
		["contexts, code", one.rest_bytes],
		["other than PyTorch's", one.ledger ? null : one.not_pytorch_bytes],
		["in all, by the driver's count", one.counted_bytes],
		["the device's total", one.device_total_bytes],
		["the device's free", one.device_free_bytes],
	].filter(([, bytes]) => known(bytes));

	/* To scale with the device, if that is known. */
	const memoryBar = (one) => {
		const lines = Array.from(vt.memberMemory({ memory: [one] }) || []), colours = vt.memoryColours(lines.map(([name]) => name));
		const sum = lines.reduce((n, [, bytes]) => n + bytes, 0), rest = Math.max(0, (one.device_total_bytes || 0) - sum);

		return sum ? vt.el("div", { class: "bar", "aria-hidden": "true" }, lines.map(([name, bytes]) => vt.el("span", { title: name + " " +
			vt.bytes(bytes), style: { "flex-grow": bytes / (sum + rest), background: "var(--" + colours.get(name) + ")" } })),
		vt.el("span", { style: { "flex-grow": rest / (sum + rest) } })) : null;
	};

	const memory = (section, m) => {
		for (const one of m.memory)
			vt.append(section, [vt.el("h3", null, "GPU " + one.ordinal + " ", vt.el("span", { class: "note" }, one.uuid || "")),
				memoryBar(one), memoryRows(one).length ? vt.el("table", { class: "figures" }, vt.el("tbody", null, memoryRows(one).map(([words, bytes]) =>
					vt.el("tr", null, vt.el("th", { scope: "row" }, words), vt.el("td", { class: "number" }, vt.bytes(bytes)))))) :
					vt.el("p", { class: "note" }, "Its memory was not read.")]);
		const r = m.requests || {};

		if (r.retries || r.failed || r.last_failed_bytes || r.waits)
			section.append(vt.el("p", null, [r.retries ? vt.count(r.retries) + " requests succeeded only after PyTorch had freed its cache" : null,
				r.failed ? vt.count(r.failed) + " failed" : null, r.last_failed_bytes ? "the last one was for " + vt.bytes(r.last_failed_bytes) : null,
				r.waits ? "its thread is held for vramtap watch" : null].filter(Boolean).join(", ") + "."));
	};

	const owners = (section, m) => {
		const o = m.owners, bytes = o.bytes || {}, whole = Object.values(bytes).reduce((a, b) => a + b, 0);
		const list = Object.entries(bytes).sort((a, b) => b[1] - a[1]);

		if (o.state !== "read") {
			section.append(vt.el("p", { class: "note" }, "Not read: " + o.state));
			return;
		}
		vt.append(section, [
			vt.el("div", { class: "bar", role: "img", "aria-label": list.map(([name, n]) => vt.words("category", name) + " " + vt.bytes(n)).join(", ") },
				list.map(([name, n]) => vt.el("span", { title: vt.words("category", name) + " " + vt.bytes(n), style: { "flex-grow": n / (whole || 1),
					background: "var(--" + vt.categoryColour(name) + ", var(--category-unknown))" } }))),
			vt.table([{ title: "Category", value: ([name]) => name, cell: ([name]) => [vt.swatch("var(--" + vt.categoryColour(name) +
				", var(--category-unknown))"), vt.words("category", name)] }, { title: "Bytes", number: true, value: ([, n]) => n, cell: ([, n]) => vt.bytes(n) },
			{ title: "Share", number: true, value: ([, n]) => n, cell: ([, n]) => vt.percent(n, whole) }], list,
			{ caption: "Owners by category", sortBy: 1 }).element,
			o.ran ? vt.el("p", { class: "note" }, "Blocks came or went while it was looked at.") : null,
			o.whole ? null : vt.el("p", { class: "note" }, "Not all objects were read."),
		]);
	};

	const sites = (section, m) => section.append(vt.table([{ title: "Where", value: (one) => one.title },
		{ title: "Bytes", number: true, value: (one) => one.bytes, cell: (one) => vt.bytes(one.bytes) },
		{ title: "Blocks", number: true, value: (one) => one.blocks, cell: (one) => vt.count(one.blocks) }], m.sites,
	{ caption: "Where most of its memory in use was allocated", sortBy: 1 }).element);

	const collectives = (section, m) => {
		const c = m.collectives;

		if (c.groups.length)
			section.append(vt.table([
				{ title: "Group", value: (g) => vt.groupName(g) },
				{ title: "Ranks", value: (g) => g.ranks || "?" },
				{ title: "Begun", number: true, value: (g) => g.last_enqueued, cell: (g) => vt.sequence(g.last_enqueued) },
				{ title: "Completed", number: true, value: (g) => g.last_completed, cell: (g) => vt.sequence(g.last_completed) },
				{ title: "Waits in", value: (g) => (g.oldest_pending ? g.oldest_pending.age_ms : 0), cell: (g) => vt.pendingText(g) },
			], c.groups, { caption: "Process groups" }).element);
		else
			section.append(vt.el("p", { class: "note" }, c.why_none ? "Not known: " + c.why_none : "It has none."));
	};

	const parts = (job, i) => {
		const m = job.members[i];

		return [
			{ id: "threads", title: "Threads", wanted: m.threads_do && m.threads_do.length, render: (s) => threads(s, job, i) },
			{ id: "memory", title: "Memory", wanted: m.memory && m.memory.length, render: (s) => memory(s, m) },
			{ id: "owners", title: "What its blocks in use are", wanted: m.owners, render: (s) => owners(s, m) },
			{ id: "sites", title: "Where it was allocated", wanted: m.sites && m.sites.length, render: (s) => sites(s, m) },
			{ id: "groups", title: "Process groups", wanted: m.collectives, render: (s) => collectives(s, m) },
		].filter((part) => part.wanted).map((part) => ({ ...part, id: "member-" + part.id }));
	};

	/* ---- its own report ---- */

	const attachment = (i) => document.querySelector(`script.vramtap-attachment[data-of="${i}"]`);

	const showReport = (into, i) => {
		let report = null;

		try {
			report = vt.report(JSON.parse(attachment(i).textContent), null);
		} catch (error) {
			into.replaceChildren(vt.el("p", { class: "alarm" }, "Its report cannot be read: " + error));
			return;
		}
		const json = report.json, box = vt.el("div");

		into.replaceChildren(vt.el("h3", null, vt.reportTitle(json)), ...vt.factLines(vt.reportFacts(json)),
			vt.answerOf(json) || "", box);
		vt.showParts(vt.reportParts(report), { into: box, nav: false });
	};

	/* brief: what the job has of it, which the report has, too */
	const ownReport = (job, i, brief) => {
		const m = job.members[i], into = vt.el("div");

		if (attachment(i)) {
			const button = vt.el("button", { type: "button", "aria-expanded": "false", onclick: () => {
				const open = button.getAttribute("aria-expanded") === "true";

				button.setAttribute("aria-expanded", String(!open));
				button.textContent = open ? "Show its full report" : "Hide its full report";
				brief.hidden = !open;
				if (open)
					into.replaceChildren();
				else
					showReport(into, i);
			} }, "Show its full report");

			return [vt.el("p", null, button), into];
		}
		return m.report ? vt.el("p", null, "Its full report is not in this page. Beside report.json it is ", vt.el("code", null, m.report),
			": ", vt.command("vramtap html " + quoted(m.report))) : vt.el("p", { class: "note" },
			m.completeness === "nothing" ? "There is no report of it." : "Its full report is not here: vramtap triage -o DIR saves it, and --html brings it along.");
	};

	const quoted = (text) => (/^[\w.,:=+@%/-]+$/.test(text) ? text : "'" + text.replace(/'/g, "'\\''") + "'");

	/* ---- the sheet ---- */

	let sheet = null, back = null;

	const others = () => ["head", "views", "content", "foot"].map((id) => document.getElementById(id));

	const close = () => {
		if (!sheet)
			return;
		sheet.remove();
		sheet = null;
		vt.hideTip();
		others().forEach((element) => (element.inert = false));
		document.documentElement.classList.remove("has-sheet");
		const to = back && (back.isConnected ? back : backAgain());

		if (to)
			to.focus({ preventScroll: true });
		vt.tell("Closed.");
	};

	/* What had the focus is drawn anew at times: then the row of the same process, else the picture. */
	const backAgain = () => (back.dataset.member && document.querySelector(`tr[data-member="${Number(back.dataset.member)}"]`)) ||
		document.querySelector(".matrix canvas");

	const step = (view, i, by) => {
		const list = view.match ? view.shown.filter((one) => view.match[one]) : view.shown, at = list.indexOf(i);

		return at >= 0 && list[at + by] !== undefined ? list[at + by] : null;
	};

	/* from: what gets the focus when it is closed; by: which way it came from the one before it */
	vt.openMember = (view, i, from, by = 0) => {
		const job = view.job, m = job.members[i], body = vt.el("div", { class: "sheet-body" });
		const goBy = (way, words) => {
			const next = step(view, i, way);

			return vt.el("button", { type: "button", disabled: next === null, onclick: () => vt.openMember(view, next, null, way) }, words);
		};
		const ways = [goBy(-1, "Previous"), goBy(1, "Next")];
		const closing = vt.el("button", { type: "button", onclick: close }, "Close");

		if (!sheet)
			back = from || document.activeElement;
		else
			sheet.remove();
		sheet = vt.el("div", { class: "sheet", role: "dialog", "aria-modal": "true", "aria-labelledby": "sheet-title",
			onkeydown: (event) => {
				if (event.key === "Escape" && !event.defaultPrevented)
					close();
			} }, vt.el("div", { class: "sheet-head" }, vt.el("h2", { id: "sheet-title" }, vt.swatch("var(--" + job.stateColour(i) + ")"),
			job.name(i) + ": " + job.state(i)[1] + (m.operation ? " " + m.operation : "")), ways, closing), body);
		document.body.append(sheet);
		others().forEach((element) => (element.inert = true));
		document.documentElement.classList.add("has-sheet");
		vt.append(body, [m.command_line ? vt.el("p", { class: "mono" }, m.command_line) : null,
			vt.el("div", { class: "facts" }, facts(job, m).filter(Boolean).map((fact) => vt.el("span", null, fact))), said(view, i)]);
		const inner = vt.el("div");

		vt.append(body, [ownReport(job, i, inner), inner]);
		vt.showParts(parts(job, i), { into: inner, nav: false });
		const chosen = by < 0 ? ways[0] : by > 0 ? ways[1] : closing;

		(chosen.disabled ? closing : chosen).focus({ preventScroll: true });
		vt.tell(job.name(i) + " is shown.");
	};
}
