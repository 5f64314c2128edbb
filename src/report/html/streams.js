/* SPDX-License-Identifier: Apache-2.0 */
/* Which streams have unfinished work: a row for each that may have; the idle ones as a count, as in the text report. */
{
	const known = (value) => value !== null && value !== undefined;

	const nameOf = (s) => (s.kind === "default" ? "default stream" : s.kind === "pool" ? "PyTorch stream " + s.number + (s.nccl ? ", NCCL's" : "") +
		(s.priority ? ", priority " + s.priority : "") : s.handle === "0x2" ? "threads' default streams" : "another stream");

	const STATES = { unknown: "not asked", idle: "idle", busy: "busy both times", "busy-once": "busy", capturing: "captures a CUDA graph" };

	const answered = (s) => s.looks.filter((look) => look === "busy" || look === "idle");

	const moving = (s) => (!s.looks.includes("idle") ? "busy, moving" : answered(s)[0] === "busy" ? "busy, then idle" : "idle, then busy");

	const launches = (s) => (!known(s.launches_ended) || !s.looks.includes("busy") ? "" : s.launches_ended ?
		`; between the looks ${vt.count(s.launches_ended)} of its launches ended` :
		"; none of its launches is known to have ended between the looks");

	const stateOf = (s) => (known(s.error) ? "CUDA error " + s.error : (s.state === "moving" ? moving(s) :
		s.state === "busy" && s.looks[2] === "busy" ? "busy each time" : STATES[s.state] || s.state) + launches(s));

	const waiting = (s) => (s.awaiting_free ? s.awaiting_free.bytes : 0); /* reports of before have none */

	const isShown = (s) => waiting(s) > 0 || (s.state !== "idle" && (s.state !== "unknown" || known(s.error) || s.kind === "external"));

	/* Why it was not asked at that moment. */
	const WHY = {
		"in-driver": "a thread was, or may have been, inside the CUDA driver at each try",
		"not-stopped": "not all threads could be stopped at once",
		late: "the CUDA driver did not answer within 5 ms",
		refused: "the CUDA driver cannot be asked without harm",
		"no-helper": "vramtap's thread in the process had ended",
		"not-inside": "vramtap could not get inside the process again",
	};

	const whyNot = (looks) => {
		const [first, second] = looks.map((look) => WHY[look.state]);

		return !first && !second ? null : first === second ? `They could not be asked: ${first}.` : first && second ?
			`They could not be asked: ${first}; later ${second}.` : `They could not be asked ${first ? "the first" : "a second"} time: ${first || second}.`;
	};

	const whyNotLater = (looks) => (looks[2] && WHY[looks[2].state] ? `After the last look they could not be asked: ${WHY[looks[2].state]}.` : null);

	const table = (streams) => vt.table([
		{ title: "GPU", number: true, value: (s) => s.device },
		{ title: "Stream", value: nameOf },
		{ title: "State", value: stateOf, cell: (s) => vt.el("span", { class: known(s.error) ? "alarm" : null }, stateOf(s)) },
		{ title: "Handle", value: (s) => (["0x0", "0x2"].includes(s.handle) ? "" : s.handle) },
		{ title: "In use", number: true, value: (s) => s.bytes, cell: (s) => (s.bytes ? vt.bytes(s.bytes) : "") },
		{ title: "Freed, waits for it", number: true, value: waiting, cell: (s) => (waiting(s) ? vt.bytes(waiting(s)) : "") },
	], streams, { caption: "Streams that have, or may have, unfinished work" }).element;

	const asked = (looks, apart) => (looks.filter((look) => look.state === "asked" || look.state === "late").length > 2 ?
		`Asked three times in ${vt.milliseconds(apart)}.` : `Asked twice, ${vt.milliseconds(apart)} apart.`);

	vt.view({
		id: "streams",
		title: "Streams",
		wanted: ({ json }) => Boolean(json.streams),
		render: (section, { json }) => {
			const { streams, looks, apart_ms: apart, pools_known: poolsKnown } = json.streams;
			const shown = streams.filter(isShown), idle = streams.filter((s) => s.state === "idle" && !isShown(s)).length;

			vt.append(section, [
				known(apart) ? vt.el("p", { class: "note" }, asked(looks, apart) + (streams.some((s) => s.state === "busy") ?
					` Busy ${looks.length > 2 ? "each time" : "both times"}: the work that was unfinished need not be the same.` : "")) : null,
				shown.length ? table(shown) : null,
				!idle ? null : vt.el("p", null, shown.length ? vt.count(idle) + (idle === 1 ? " other is idle" : " others are idle") :
					idle === 1 ? "The one stream that can be asked is idle" : `All ${vt.count(idle)} streams that can be asked are idle`),
				whyNot(looks) ? vt.el("p", { class: "note" }, whyNot(looks)) : null,
				whyNotLater(looks) ? vt.el("p", { class: "note" }, whyNotLater(looks)) : null,
				vt.el("p", { class: "note" }, poolsKnown ? "Streams that programs and other libraries make are not known." :
					"Others are not known, nor are PyTorch's: its libc10_cuda.so has no symbol table."),
			]);
		},
	});
}
