/* SPDX-License-Identifier: Apache-2.0 */
/* Threads with equal stacks as groups, and what is said of them in words: as the text report has it. */
{
	const STATES = {
		R: "running",
		S: "sleeping",
		D: "in uninterruptible sleep",
		T: "stopped",
		t: "stopped by a tracer",
		Z: "ended (zombie)",
		X: "ended",
		I: "idle in the kernel",
	};

	/* What all of them have; null if they differ. */
	const common = (threads, field) => {
		const value = threads[0][field];

		return threads.every((thread) => thread[field] === value) ? value : null;
	};

	/* "sleeping, waits for a semaphore" */
	const doing = (threads) => {
		const state = vt.lookup(STATES, common(threads, "state")) || null;
		const waits = common(threads, "waits"), call = common(threads, "syscall");

		if (waits)
			/* "running on CPU 3" says it already. */
			return threads[0].waits_code === "running" || !state ? waits : state + ", " + waits;
		return call ? (state ? state + " " : "") + "in " + call : state;
	};

	/* [{ text, alarm }] */
	vt.groupFacts = (threads) => {
		const first = threads[0], what = doing(threads);

		return [
			first.main && { text: "main thread" },
			first.deadlock && { text: "in a deadlock", alarm: true },
			first.holds_gil && { text: "holds the GIL" },
			first.verdict && { text: first.verdict },
			what && { text: what, alarm: first.state === "D" },
		].filter(Boolean);
	};

	vt.threadLabel = (thread) => (thread.name ? thread.tid + " " + thread.name : String(thread.tid));

	vt.groupLabel = (threads) => {
		const n = vt.count(threads.length), name = threads[0].name;

		if (threads.length === 1)
			return vt.threadLabel(threads[0]);
		return name ? `${n} × ${name}${common(threads, "name") === null ? " …" : ""}` : n + " threads";
	};

	vt.countThreads = (groups) => groups.reduce((sum, group) => sum + group.threads.length, 0);

	/* The most telling first: [{ idle, threads, frames }] */
	vt.groupThreads = (json) => {
		const byTid = new Map(json.threads.map((thread) => [thread.tid, thread]));
		/* Without groups (memory ran out) every thread is shown by itself. */
		const groups = json.thread_groups && json.thread_groups.length ? json.thread_groups :
			json.threads.map((thread) => ({ idle: thread.idle && !thread.main, tids: [thread.tid] }));

		return groups.map((group) => {
			const threads = group.tids.map((tid) => byTid.get(tid)).filter(Boolean);

			return { idle: group.idle, threads, frames: threads.length ? threads[0].stack.frames : [] };
		}).filter((group) => group.threads.length);
	};

	const gilText = (json) => {
		const holder = json.threads.find((thread) => thread.holds_gil);

		if (holder)
			return "the GIL is held by " + vt.threadLabel(holder);
		return json.gil === "free" ? "the GIL is free" : null;
	};

	/* "29 threads in 4 groups with equal stacks; the GIL is free" */
	vt.threadsSummary = (json, groups) => [
		vt.counted(json.threads.length, "thread") + (groups.length < json.threads.length ?
			` in ${vt.counted(groups.length, "group")} with equal stacks` : ""),
		gilText(json),
		json.stacks_coherent === false && json.threads.length > 1 && groups.some((group) => group.frames.length) ?
			"stacks not of one instant" : null,
	].filter(Boolean).join("; ");

	const MOST_KINDS = 6;

	/* "pt_autograd_* ×2, cuda-EvtHandlr" */
	vt.threadKinds = (groups) => {
		const kinds = new Map();

		for (const thread of groups.flatMap((group) => group.threads)) {
			const kind = (thread.name || "without a name").replace(/(.)[0-9]+$/, "$1*");

			kinds.set(kind, (kinds.get(kind) || 0) + 1);
		}
		const names = [...kinds].map(([kind, n]) => kind + (n > 1 ? " ×" + n : ""));

		return names.slice(0, MOST_KINDS).join(", ") +
			(names.length > MOST_KINDS ? `, and ${names.length - MOST_KINDS} more kinds` : "");
	};
}
