/* SPDX-License-Identifier: Apache-2.0 */
/* Requests that failed for want of memory: the one that the report was made for, and those that the recorder kept. */
{
	const VERDICTS = {
		"too-large": "the request is larger than the device",
		"limited": "PyTorch may not use more of the device, which had enough free",
		"elsewhere": "a cached block is large enough, but is kept for another stream or a private pool, or is not to be split",
		"fragmented": "what is cached and what is free would do together, but not in one piece",
		"full": "what is cached and what is free would not do together",
	};

	const eventsOf = (json) => (json.recorder && json.recorder.out_of_memory) || [];

	const stackOf = (json, event) => {
		const recorded = json.pytorch && json.pytorch.recorded;
		const trace = recorded && event.backtrace !== null ? recorded.backtraces[event.backtrace] : null;

		return trace ? trace.frames.map((i) => recorded.frames[i]) : [];
	};

	const whose = (event) => event.tid + (event.thread ? ` (${event.thread})` : "");

	/* ---- the one that the report was made for ---- */

	const asked = (event) => [
		vt.el("b", null, vt.bytes(event.requested_bytes), ` (${vt.count(event.requested_bytes)} bytes)`),
		` by thread ${whose(event)}`,
		event.device === null ? null : `, on GPU ${event.device}`,
	];

	const needed = (caught) => (caught.needed_bytes ? `a free block of ${vt.bytes(caught.needed_bytes)}, or ` +
		`${vt.bytes(caught.segment_bytes)} of the device for a new segment` : null);

	const pytorch = (caught) => {
		const holes = caught.holes, held = vt.bytes(caught.held_bytes) + " in use";

		if (caught.verdict === "undecided")
			return null;
		if (!holes.blocks)
			return held + ", no cached block fits such a request";
		return `${held}, ${vt.bytes(holes.bytes)} cached in ${vt.counted(holes.blocks, "free block")} of ` +
			`${vt.counted(holes.segments, "segment")}, the largest ${vt.bytes(holes.largest_bytes)}`;
	};

	const factsOf = (caught, event) => [
		["asked for", asked(event)],
		["why it failed", vt.lookup(VERDICTS, caught.verdict)],
		["needed", needed(caught)],
		["on the device", event.total_bytes ? `${vt.bytes(event.free_bytes)} free of ${vt.bytes(event.total_bytes)}` : null],
		["PyTorch", pytorch(caught)],
		["others", caught.others_bytes === null ? null : vt.bytes(caught.others_bytes)],
		["limit", caught.limit_bytes ? `PyTorch may use ${vt.bytes(caught.limit_bytes)} of the device` : null],
		["PyTorch says", caught.message ? vt.el("span", { class: "preline" }, caught.message) : null],
		["kept for", event.waited_ms > 0 ? vt.milliseconds(event.waited_ms) : null],
		["since then", caught.last > caught.first ? `${caught.last - caught.first} more failed before it was read` : null],
	];

	const showCaught = (section, json, event) => {
		const frames = stackOf(json, event);

		section.append(vt.facts(factsOf(json.caught, event)));
		if (!frames.length)
			return;
		section.append(vt.el("div", { class: "thread-tools" }, vt.el("h3", null, "Where it was asked for"),
			vt.copyButton(() => vt.stackText(frames), "Copy the stack of the request", "copy stack")), vt.showStack(frames));
	};

	/* ---- all of them ---- */

	const titleText = (json, event) => {
		const frame = vt.tellingFrame(stackOf(json, event));

		return frame ? vt.functionName(frame) + "  " + vt.place(frame) : "";
	};

	const columns = (json) => [
		vt.numberColumn("number", (event) => event.number),
		vt.numberColumn("ago", (event) => event.age_s, vt.duration),
		vt.bytesColumn("asked for", (event) => event.requested_bytes),
		vt.textColumn("by thread", whose),
		vt.textColumn("GPU", (event) => event.device),
		vt.bytesColumn("free then", (event) => event.free_bytes),
		vt.textColumn("where", (event) => titleText(json, event), (title) => vt.el("code", null, vt.short(title))),
		vt.textColumn("CUDA error", (event) => event.error || null),
	];

	const showAll = (section, json, events) => {
		const count = events.reduce((most, event) => Math.max(most, event.number), 0), place = vt.el("div");
		const show = (event) => {
			const frames = stackOf(json, event);

			place.replaceChildren(frames.length ? vt.showStack(frames) :
				vt.el("p", { class: "note" }, "Its stack was not recorded."));
		};

		section.append(vt.el("p", { class: "facts" }, vt.counted(count, "time") + " since recording began"),
			vt.table(columns(json), events, { caption: "Requests that failed", sortBy: 0, onrow: show }).element, place);
	};

	vt.view({
		id: "oom",
		title: "Out of memory",
		wanted: (report) => Boolean(report.json.caught) || eventsOf(report.json).length > 0,
		render: (section, report) => {
			const json = report.json, events = eventsOf(json);
			const caught = json.caught ? events.find((event) => event.number === json.caught.first) : null;

			if (caught)
				showCaught(section, json, caught);
			if (events.length > (caught ? 1 : 0))
				showAll(section, json, events);
		},
	});
}
