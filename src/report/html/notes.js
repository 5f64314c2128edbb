/* SPDX-License-Identifier: Apache-2.0 */
/* What a person may want to know besides the answer: what is missing, the process, versions, what the report cost. */
{
	const known = (value) => value !== null && value !== undefined;

	/* ---- what is missing ---- */

	const showDiagnostics = (json) => {
		const all = json.diagnostics || [], isMissing = (one) => one.level === "missing";
		const list = [...all.filter(isMissing), ...all.filter((one) => !isMissing(one))];

		return list.length ? vt.el("ul", { class: "notes" }, list.map((one) => vt.el("li", null,
			isMissing(one) ? vt.el("b", { class: "alarm" }, "missing: ") : null, vt.short(one.text, 1000), " ",
			vt.el("span", { class: "note" }, `(${one.stage}: ${one.code})`)))) : null;
	};

	/* ---- the process ---- */

	const limitText = (limit) => (limit ? `${vt.bytes(limit.used_bytes)} of ${vt.bytes(limit.limit_bytes)} ` +
		`(${vt.percent(limit.used_bytes, limit.limit_bytes)})` : null);

	const rankText = (process) => (known(process.rank) ? [
		process.rank + (process.world_size ? " of " + process.world_size : ""),
		known(process.local_rank) ? "local rank " + process.local_rank : null,
	].filter(Boolean).join(", ") : null);

	const processFacts = (json) => {
		const process = json.process, children = process.cuda_children || [], tracer = process.tracer;

		return vt.facts([
			["pid", (process.pid ?? "unknown") + (process.own_pid ? `, in its container ${process.own_pid}` : "")],
			["command line", process.command_line ? vt.el("code", { class: "long" }, process.command_line) : null],
			["executable", process.executable ? vt.el("code", null, process.executable) : null],
			["user", process.user ? `${process.user} (${process.uid})` : process.uid],
			["rank", rankText(process)],
			["job", process.job],
			["pod", process.pod],
			["container", process.container],
			["up for", process.uptime_s ? vt.duration(process.uptime_s) : null],
			["threads", vt.count(process.threads)],
			["traced by", tracer ? [tracer.pid, tracer.name].filter(Boolean).join(" ") : null],
			["parent", process.parent],
			["CUDA processes that it started", children.join(", ")],
			["memory of its cgroup", limitText(process.memory_limit)],
			["address space (ulimit -v)", limitText(process.address_limit)],
		]);
	};

	const signalText = (signal) => (signal ? [
		signal.name || signal.number,
		signal.killed ? "which killed it" : "where a debugger held it",
		`in thread ${signal.tid}`,
		signal.address ? "at " + signal.address : null,
	].filter(Boolean).join(", ") : null);

	const coreFacts = (json) => {
		const core = json.core;

		return core ? vt.facts([
			["file", vt.el("code", null, core.path)],
			["size", vt.bytes(core.size_bytes)],
			["missing at its end", core.missing_bytes ? vt.bytes(core.missing_bytes) : null],
			["read of it", vt.bytes(core.read_bytes)],
			["signal", signalText(core.signal)],
		]) : null;
	};

	const versionFacts = (json) => {
		const versions = json.versions || {};
		const guess = versions.pytorch_layout_known === false ? ", found by signature alone" : "";

		return vt.facts([
			["PyTorch", versions.pytorch],
			["layout of its allocator", versions.pytorch_layout ? versions.pytorch_layout + guess : null],
			["CPython", versions.cpython ? versions.cpython +
				(versions.cpython_free_threaded ? " free-threaded" : "") : null],
			["driver", versions.driver],
			["CUDA of the driver", versions.cuda_driver],
			["CUDA runtime", versions.cuda_runtime],
		]);
	};

	/* ---- what it cost ---- */

	/* " (10:21 CET)" */
	const localTime = (json) => {
		const where = json.where;

		if (!json.time || !where || !where.zone || !where.utc_offset_min)
			return "";
		const there = new Date(Date.parse(json.time) + where.utc_offset_min * 60000);

		return ` (${there.toISOString().slice(11, 16)} ${where.zone})`;
	};

	const cost = (ms) => (ms ? vt.milliseconds(ms) : null);

	const readFrom = (json) => {
		if (json.origin === "core")
			return "a core";
		return [json.cuda, json.pytorch].some((part) => part && part.method === "inside") ? "inside the process, and outside" :
			"outside the process";
	};

	const borrowed = (json) => {
		const timing = json.timing || {}, tid = timing.borrowed_tid;

		return tid ? [vt.milliseconds(timing.borrowed_us / 1000) + ": ", vt.leadsTo(String(tid), () => vt.goToThread(json, tid))] :
			null;
	};

	const reportFacts = (json) => {
		const timing = json.timing || {};

		return vt.facts([
			["made", json.time ? json.time.slice(0, 19).replace("T", " ") + " UTC" + localTime(json) : null],
			["on", json.where && json.where.host],
			["read from", readFrom(json)],
			["held by", json.held_by],
			["took", cost(timing.total_ms)],
			["threads stopped for", cost(timing.stopped_ms)],
			["of that for the blocks", cost(timing.blocks_stopped_ms)],
			["threads stopped for streams", cost(vt.stoppedForStreams(json))],
			["one thread borrowed for", borrowed(json)],
			["GIL held for", cost(timing.gil_held_ms)],
			["GIL waited for", cost(timing.gil_wait_ms)],
			["helper started in", cost(timing.attach_ms)],
			["allocator walked in", cost(timing.walk_ms)],
			["owners found in", cost(timing.owners_ms)],
			["stacks read in", cost(timing.stacks_ms)],
		]);
	};

	/* ---- collectives ---- */

	/* "all_reduce number 4 for 12 s: [64, 32] Float, not started; 2 more after it" */
	const oldestText = (group) => {
		const oldest = group.oldest_pending, seconds = (ms) => vt.duration(ms / 1000);

		if (!oldest)
			return "";
		return `${oldest.name} number ${oldest.number} for ${seconds(oldest.age_ms)}` +
			(oldest.input ? `: ${oldest.input}` : "") +
			(oldest.started === null ? "" : oldest.started ? ", started" : ", not started") +
			(oldest.timeout_ms ? `; PyTorch gives up after ${seconds(oldest.timeout_ms)}` : "") +
			(group.pending > 1 ? `; ${vt.count(group.pending - 1)} more after it` : "");
	};

	const number = (value) => (known(value) ? vt.count(value) : "?");

	const GROUP_COLUMNS = [
		vt.textColumn("process group", vt.groupName),
		vt.textColumn("ranks", (group) => group.ranks || "?"),
		vt.textColumn("backend", (group) => group.backend),
		{ title: "begun", number: true, value: (group) => group.last_enqueued, cell: (group) => number(group.last_enqueued) },
		{ title: "completed", number: true, value: (group) => group.last_completed,
			cell: (group) => number(group.last_completed) },
		vt.textColumn("waits in", oldestText),
	];

	const showCollectives = (json) => {
		const collectives = json.pytorch && json.pytorch.collectives;

		if (!collectives)
			return null;
		if (!collectives.groups.length)
			return collectives.why_none ? vt.el("p", { class: "note" }, collectives.why_none) : null;
		return vt.table(GROUP_COLUMNS, collectives.groups, { caption: "Process groups, by PyTorch's flight recorder" }).element;
	};

	/* ---- the recorder, and what grew ---- */

	const sampleText = (recorder) => {
		const now = recorder.sample_now_bytes, wanted = recorder.sample_bytes;

		if (!now)
			return null;
		return vt.bytes(now) + (now === wanted ? "" :
			`, for want of room; asked for: ${wanted ? vt.bytes(wanted) : "every allocation"}`);
	};

	const agreementText = (agreement) => (agreement.differing_blocks ? `${vt.count(agreement.differing_blocks)} of ` +
		`${vt.count(agreement.compared_blocks)} blocks` : null);

	const some = (n) => (n ? vt.count(n) : null);

	const recorderFacts = (json) => {
		const recorder = json.recorder, on = recorder && recorder.state_code === "on";

		return recorder ? vt.facts([
			["state", recorder.state + (on ? " for " + vt.duration(recorder.on_for_s) : "")],
			["frames", recorder.frames.join(" and ")],
			["allocations seen", on ? vt.count(recorder.allocations) : null],
			["one record for each", sampleText(recorder)],
			["memory of it", on ? vt.bytes(recorder.memory_bytes) + " of at most " + vt.bytes(recorder.max_memory_bytes) : null],
			["lost", some(recorder.lost)],
			["given up for want of room", some(recorder.evicted)],
			["without a stack for want of room", some(recorder.stacks_dropped)],
			["differ from PyTorch's history", agreementText(recorder.history_agreement)],
			["driver's allocations seen by", recorder.driver.seen_by],
		]) : null;
	};

	const BY = { line: "kind of memory", site: "place", size: "blocks of a size", owner: "variable" };

	const GROWTH_COLUMNS = [
		vt.textColumn("what", (one) => one.label, (label) => vt.el("code", null, vt.short(label))),
		vt.textColumn("is a", (one) => vt.lookup(BY, one.by) || one.by),
		vt.textColumn("GPU", (one) => one.device),
		vt.bytesColumn("before", (one) => one.before_bytes),
		vt.bytesColumn("after", (one) => one.after_bytes),
		vt.bytesColumn("grown by", (one) => one.grown_bytes),
		vt.numberColumn("blocks before", (one) => one.before_blocks),
		vt.numberColumn("after", (one) => one.after_blocks),
	];
	const GROWN_BY = 5;

	const showGrowth = (json) => {
		const growth = json.growth;

		if (!growth)
			return null;
		return [
			vt.el("p", { class: "note" }, `${vt.counted(growth.looks, "look")} in ${vt.duration(growth.seconds)}`,
				growth.failed_looks ? `, ${vt.count(growth.failed_looks)} failed` : null,
				growth.grows.length ? null : "; nothing grows"),
			growth.grows.length ? vt.table(GROWTH_COLUMNS, growth.grows, { caption: "What grows", sortBy: GROWN_BY }).element :
				null,
		];
	};

	/* Titles and what fills them; those without anything are not shown. */
	const WIDE = [
		["Missing, and notes", showDiagnostics],
		["Process groups", showCollectives],
		["What grew", showGrowth],
	];
	const NARROW = [
		["Process", processFacts],
		["Core", coreFacts],
		["Versions", versionFacts],
		["This report", reportFacts],
		["Recorder", recorderFacts],
	];

	const panels = (list, json, kind) => list.map(([title, show]) => {
		const content = vt.attempt(title, () => show(json));

		return content ? vt.el("div", { class: kind }, vt.el("h3", null, title), content) : null;
	});

	/* json: a report, or one process of a document of stacks */
	vt.showDetails = (container, json) => vt.append(container, [panels(WIDE, json, "wide"),
		vt.el("div", { class: "panels" }, panels(NARROW, json, "panel"))]);

	vt.view({
		id: "details",
		title: "Details",
		render: (section, report) => vt.showDetails(section, report.json),
	});
}
