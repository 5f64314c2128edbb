/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who waits for whom: threads, the locks that they wait for, those that hold them; and what is outside of the
 * process. A thread waits for one thing, and a lock has one holder: from each node one line goes on.
 */
{
	/* What threads with these verdicts wait for. */
	const BY_VERDICT = {
		"collective-nccl": "other ranks",
		"collective-gloo": "other ranks",
		"collective": "other ranks",
		"tcpstore": "other ranks",
		"loader-worker": "a DataLoader worker",
		"child-process": "a child process",
		"compilation": "compiling processes",
		"multiprocessing-lock": "a lock between processes",
		"vfork": "a child process",
		"nfs": "an NFS server",
		"fuse": "a FUSE file system",
		"lustre": "a Lustre server",
		"nvidia-driver": "NVIDIA's kernel driver",
		"userfaultfd": "userfaultfd",
		"disk": "a disk",
		"page-fault-disk": "a disk",
		"journal": "a file system's journal",
	};

	/* Of these the words say what it is. */
	const BY_WAIT = {
		"child-process": "outside",
		"any-child-process": "outside",
		"process": "outside",
		"vfork": "outside",
		"system-call": "outside",
		"lock": "lock",
		"held-lock": "lock",
		"condition": "lock",
		"semaphore": "lock",
		"read-write-lock": "lock",
		"barrier": "lock",
		"openmp-barrier": "lock",
		"initialisation": "lock",
		"futex": "lock",
	};

	/* Worth a picture even if nobody else waits for it. */
	const STRONG = ["child-process", "any-child-process", "process", "vfork"];

	/* "waits for a lock": "a lock" */
	const withoutVerb = (words) => words.replace(/^waits (?:for|on|at|in|until) /, "");

	const DEVICE = /^cu.*(?:Synchronize|Memcpy|Free)/;

	const waitsForDevice = (thread) => thread.verdict_code === "in-function" &&
		DEVICE.test(thread.verdict_function || "");

	/* What is between a thread and the one that it waits for; null: nothing is. */
	const heldThing = (thread) => {
		const words = thread.verdict || thread.waits || "something";

		if (thread.waits_code === "thread-end")
			return null;
		if (thread.verdict_code === "gil")
			return { key: "gil " + thread.waits_for_tid, kind: "lock", label: "the GIL" };
		if (thread.waits_code === "held-lock" || thread.waits_code === "own-lock")
			return { key: "lock " + (thread.waits_address || thread.waits_for_tid), kind: "lock", label: "a lock",
				detail: thread.waits_address };
		return { key: `words ${words} ${thread.waits_for_tid}`, kind: "lock", label: withoutVerb(words) };
	};

	/* What it waits for of which nobody is known to hold it; null: it is not told. */
	const freeThing = (thread) => {
		const outside = vt.lookup(BY_VERDICT, thread.verdict_code) || (waitsForDevice(thread) ? "the GPU" : null);
		const kind = vt.lookup(BY_WAIT, thread.waits_code);
		const words = kind === "lock" && thread.verdict ? thread.verdict : thread.waits;

		if (outside)
			return { key: "outside " + outside, kind: "outside", label: outside, strong: !waitsForDevice(thread) };
		return kind ? { key: kind + " " + (thread.waits_address || thread.waits), kind, label: withoutVerb(words),
			detail: thread.waits_address, strong: STRONG.includes(thread.waits_code) } : null;
	};

	/* { thing: { key, kind, label, detail, strong } or null, holder: tid or null }, or null: it is not told */
	const waitOf = (thread) => {
		if (thread.waits_for_tid)
			return { thing: heldThing(thread), holder: thread.waits_for_tid };
		const thing = thread.idle && !thread.main ? null : freeThing(thread);

		return thing ? { thing, holder: null } : null;
	};

	/* Threads with the same are one node, if they wait for the same. */
	const placeKey = (thread) => {
		const frame = vt.tellingFrame(thread.stack.frames);

		return frame ? vt.functionName(frame) + " " + vt.framePlace(frame) : "group " + (thread.group ?? thread.tid);
	};

	/* Of each thing, at how many places threads wait for it. */
	const countUsers = (waits) => {
		const users = new Map();

		for (const [thread, { thing }] of waits)
			if (thing)
				users.set(thing.key, (users.get(thing.key) || new Set()).add(placeKey(thread)));
		return new Map([...users].map(([key, places]) => [key, places.size]));
	};

	/* Nodes by their key, made when they are first needed. */
	class Nodes {
		constructor(held) {
			this.held = held; /* tids that somebody waits for */
			this.byKey = new Map();
		}

		at(key, fields) {
			if (!this.byKey.has(key))
				this.byKey.set(key, { key, next: null, alarm: false, says: "waits for", ...fields });
			return this.byKey.get(key);
		}

		/* wait: undefined if it is not told */
		thread(thread, wait) {
			const alone = this.held.has(thread.tid) || thread.deadlock || !wait;
			const key = alone ? "thread " + thread.tid :
				`at ${placeKey(thread)} ${wait.thing ? wait.thing.key : wait.holder}`;
			const node = this.at(key, { kind: "thread", threads: [] });

			if (!node.threads.includes(thread))
				node.threads.push(thread);
			node.alarm = node.alarm || thread.deadlock;
			return node;
		}
	}

	const connect = (nodes, thread, wait, holder, holderWait) => {
		const from = nodes.thread(thread, wait), thing = wait.thing;
		const to = holder ? nodes.thread(holder, holderWait) : null;

		if (!thing) {
			from.next = to;
			from.says = "waits for the end of";
			return;
		}
		from.next = nodes.at(thing.key, { kind: thing.kind, label: thing.label, detail: thing.detail });
		if (!to)
			return;
		from.next.next = to;
		from.next.says = "is held by";
		from.next.alarm = from.next.alarm || (thread.deadlock && holder.deadlock);
	};

	/*
	 * json: a report, or one process of a document of stacks. Returns nodes: { key, kind: "thread", "lock" or "outside",
	 * threads or label and detail, next: node or null, alarm, says: what the line to next means }. Threads that wait for
	 * the same at the same place, and for which nobody waits, are one node. None, if nothing is worth a picture: nobody
	 * waits for another thread or for something outside, and no two places for the same.
	 */
	vt.buildWaits = (json) => {
		const byTid = new Map(json.threads.map((thread) => [thread.tid, thread]));
		const waits = new Map(json.threads.map((thread) => [thread, waitOf(thread)]).filter(([, wait]) => wait));
		const held = new Set([...waits.values()].map((wait) => wait.holder).filter((tid) => byTid.has(tid)));
		const users = countUsers(waits), nodes = new Nodes(held);
		const tells = ({ thing, holder }) => holder !== null || thing.strong ||
			(thing.kind === "lock" && users.get(thing.key) > 1);

		if (![...waits.values()].some(tells))
			return [];
		for (const [thread, wait] of waits) {
			const holder = byTid.get(wait.holder);

			if (tells(wait) || wait.thing.kind === "outside" || held.has(thread.tid))
				connect(nodes, thread, wait, holder, waits.get(holder));
		}
		for (const tid of held)
			nodes.thread(byTid.get(tid), waits.get(byTid.get(tid)));
		return [...nodes.byKey.values()];
	};
}
