/* SPDX-License-Identifier: Apache-2.0 */
/* One group of threads in the list: a head that opens its stack. */
{
	const TIDS_IN_HEAD = 4;
	const MOST_PLACE = 100; /* characters */

	const tids = (threads) => threads.map((thread) => thread.tid).join(", ");

	/* ---- the head ---- */

	const mark = (group) => {
		const first = group.threads[0];
		const alarm = first.deadlock || "DTtZ".includes(first.state), warns = first.verdict && !group.idle;

		return vt.el("span", { class: "mark" + (alarm ? " alarm" : warns ? " warns" : ""), "aria-hidden": "true" }, group.idle ? "○" : "●");
	};

	const facts = (threads) => {
		const known = vt.groupFacts(threads).map((fact, i) => [i ? " · " : null,
			vt.el("span", { class: fact.alarm ? "alarm" : null }, vt.short(fact.text))]);
		const first = tids(threads.slice(0, TIDS_IN_HEAD)) + (threads.length > TIDS_IN_HEAD ? ", …" : "");

		return vt.el("span", { class: "thread-facts" }, known,
			threads.length > 1 ? vt.el("span", { class: "note" }, " · tids " + first) : null);
	};

	/* frame: what tells where a closed group is, or undefined */
	const place = (frame, isHit) => (frame ? [
		vt.el("span", { class: isHit(frame) ? "hit" : null }, vt.short(vt.functionName(frame), MOST_PLACE)),
		" ",
		vt.el("span", { class: "note" }, vt.short(vt.place(frame), MOST_PLACE)),
	] : []);

	/* ---- what it opens ---- */

	const kernelLine = (line) => {
		const [name, ...rest] = line.split("+");

		return vt.el("li", { class: "frame native" }, vt.el("span", { class: "function" }, name),
			vt.el("span", { class: "place" }, rest.length ? "+" + rest.join("+") : null));
	};

	const kernelStack = (thread) => {
		const kernel = thread.kernel_stack || (thread.wchan ? [thread.wchan] : []);

		return kernel.length ? vt.el("details", { class: "kernel", open: thread.state === "D" },
			vt.el("summary", null, "in the kernel: ", vt.el("code", null, kernel[0].split("+")[0])),
			vt.el("ol", { class: "stack" }, kernel.map(kernelLine))) : null;
	};

	const TAKEN = { asleep: "read while asleep, without a stop", running: "read while it ran" };

	/* What the head has no room for. */
	const notes = (threads) => {
		const first = threads[0], cpu = threads.length === 1 && first.cpu !== null && first.state !== "R";

		return vt.el("div", { class: "note" },
			[cpu ? `last on CPU ${first.cpu}` : null, vt.lookup(TAKEN, first.taken)].filter(Boolean).join(" · "),
			threads.length > TIDS_IN_HEAD ? vt.el("div", { class: "tids" }, "tids " + tids(threads)) : null);
	};

	const copyText = (group) => {
		const threads = group.threads, several = threads.length > 1 ? ` (tids ${tids(threads)})` : "";
		const known = vt.groupFacts(threads).map((fact) => fact.text).join(" · ");

		return `${vt.groupLabel(threads)}${several}: ${known}\n${vt.stackText(group.frames)}`;
	};

	const copyButton = (group) => (group.frames.length ? vt.copyButton(() => copyText(group),
		"Copy the stack of " + vt.groupLabel(group.threads), "copy stack") : null);

	const contents = (group, view, isHit) => [
		vt.el("div", { class: "thread-tools" }, notes(group.threads), kernelStack(group.threads[0]), copyButton(group)),
		vt.showStack(group.frames, { isHit }),
		vt.stackNotes(group.threads[0].stack, view),
	].filter(Boolean);

	/* ---- both ---- */

	let n = 0; /* for ids */

	/* head: what is in the button; fill: () => what it opens. Returns { element, button, body, open(wanted) }. */
	vt.createDisclosure = (head, fill) => {
		const body = vt.el("div", { class: "thread-body", id: "opened-" + ++n, hidden: true });
		const button = vt.el("button", { type: "button", class: "thread-head", onclick: () => open(body.hidden),
			"aria-expanded": "false", "aria-controls": body.id }, head);
		const open = (wanted) => {
			body.replaceChildren(...(wanted ? fill() : []));
			body.hidden = !wanted;
			button.setAttribute("aria-expanded", String(wanted));
		};

		return { element: vt.el("li", { class: "thread" }, button, body), button, body, open };
	};

	/*
	 * view: as in the JSON. Returns a disclosure that has mark(isHit, now), too: it shows what a search found, in an open
	 * stack now or when that comes near; isHit is null if nothing is searched.
	 */
	vt.createThreadRow = (group, view) => {
		const where = vt.el("span", { class: "thread-place" });
		const name = vt.el("b", { class: "thread-name" }, vt.short(vt.groupLabel(group.threads)));
		let isHit = () => false;
		const row = vt.createDisclosure([mark(group), name, facts(group.threads), where], () => contents(group, view, isHit));

		row.mark = (hit, now) => {
			isHit = hit || (() => false);
			where.replaceChildren(...place(group.frames.find(isHit) || vt.tellingFrame(group.frames), isHit));
			if (row.body.hidden)
				return;
			if (now)
				row.open(true);
			else
				vt.whenNear(row.element, () => row.body.hidden || row.open(true));
		};
		row.mark(null, true);
		return row;
	};
}
