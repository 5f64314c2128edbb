/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The document of a job (doc/triage.schema.json) as the parts of its page need it: members in typed arrays, sets as
 * ranges of indices, names as the text report writes them.
 */
{
	/* What a process does, those that look wrong first: [name in JSON, words] */
	vt.jobStates = [
		["gone", "gone, or not read"],
		["crashed", "crashed"],
		["out-of-memory", "out of memory"],
		["stuck", "stuck in the kernel"],
		["stopped", "stopped by a signal"],
		["traced", "held by a debugger"],
		["lock", "waits for a lock"],
		["allocator", "in the allocator"],
		["loader", "waits for its loader"],
		["store", "waits for the store"],
		["device", "in the driver, or waits for the GPU"],
		["runs", "runs"],
		["collective", "in a collective"],
		["idle", "waits for work"],
		["waits", "waits for something else"],
		["unknown", "not known"],
	];
	const STATE_OF = new Map(vt.jobStates.map(([name], i) => [name, i]));
	const UNKNOWN = vt.jobStates.length - 1;

	vt.jobRoles = ["rank", "loader", "checkpoint", "launcher", "other"];
	vt.jobRoleWords = { rank: ["rank", "ranks"], loader: ["loader worker", "loader workers"],
		checkpoint: ["checkpoint writer", "checkpoint writers"], launcher: ["launcher", "launchers"],
		other: ["other process", "other processes"] };
	const ROLE_OF = new Map(vt.jobRoles.map((name, i) => [name, i]));

	/* ---- sets: [[from, to], ...], ascending ---- */

	vt.setSize = (set) => set.reduce((n, [from, to]) => n + to - from + 1, 0);

	vt.setHas = (set, i) => set.some(([from, to]) => i >= from && i <= to);

	/* The members of a set, the first most ones. */
	vt.setList = (set, most = Infinity) => {
		const list = [];

		for (const [from, to] of set)
			for (let i = from; i <= to && list.length < most; i++)
				list.push(i);
		return list;
	};

	/* One byte for each of n members: 1 is in the set. */
	vt.setMask = (set, n) => {
		const mask = new Uint8Array(n);

		for (const [from, to] of set)
			mask.fill(1, from, to + 1);
		return mask;
	};

	/* Ascending indices as a set. */
	vt.setOf = (list) => {
		const set = [];

		for (const i of list) {
			const last = set[set.length - 1];

			if (last && i <= last[1] + 1)
				last[1] = i;
			else
				set.push([i, i]);
		}
		return set;
	};

	/* ---- names ---- */

	const isRank = (m) => m.role === "rank" && m.rank !== null && m.rank !== undefined && m.in_job;
	const isWorker = (m) => m.role === "loader" && m.worker !== null && m.worker !== undefined && m.in_job;
	const range = (one, many, first, last) => (last > first ? many + first + "-" + last : one + first);

	/* Ranks from i on: the text, and the index after them. */
	const takeRanks = (members, list, i) => {
		const first = members[list[i]].rank;
		let last = first;

		for (; i < list.length && isRank(members[list[i]]) && members[list[i]].rank <= last + 1; i++)
			last = members[list[i]].rank;
		return [range("", "", first, last), i];
	};

	const takeRun = (members, list, i) => {
		const first = members[list[i]];
		let last = first;

		for (i++; i < list.length; i++) {
			const next = members[list[i]];

			if (!isWorker(next) || next.rank !== first.rank || next.worker > last.worker + 1 || next.worker < last.worker)
				break;
			last = next;
		}
		return { first: first.worker, last: last.worker, rank: first.rank, lastRank: first.rank, end: i };
	};

	/* "workers 3-5 of rank 2", "worker 1 of ranks 0-7" */
	const takeWorkers = (members, list, i) => {
		const run = takeRun(members, list, i);
		const known = run.rank !== null && run.rank !== undefined;

		while (known && run.end < list.length && isWorker(members[list[run.end]])) {
			const next = takeRun(members, list, run.end);

			if (next.rank !== run.lastRank + 1 || next.first !== run.first || next.last !== run.last)
				break;
			run.lastRank = next.rank;
			run.end = next.end;
		}
		return [range("worker ", "workers ", run.first, run.last) +
			(known ? range(" of rank ", " of ranks ", run.rank, run.lastRank) : ""), run.end];
	};

	/* As vt_job_add_set() has it: the first items; ranks that are alone have no word before them. */
	const listText = (members, list, most) => {
		const ranks = list.reduce((n, i) => n + (isRank(members[i]) ? 1 : 0), 0);
		let before = ranks === list.length ? "" : ranks > 1 ? "ranks " : "rank ", text = "";

		for (let i = 0, items = 0; i < list.length; items++) {
			const m = members[list[i]], rank = isRank(m);
			let item = "pid " + m.pid + "@" + (m.host || ""), end = i + 1;

			if (items >= most)
				return text + ",…";
			if (rank)
				[item, end] = takeRanks(members, list, i);
			else if (isWorker(m))
				[item, end] = takeWorkers(members, list, i);
			text += (text ? (rank ? "," : ", ") : "") + (rank ? before : "") + item;
			if (rank)
				before = "";
			i = end;
		}
		return text;
	};

	/* The frames that a stack of the job has, innermost first. */
	const framesOf = (json, doing) => (doing && json.stacks[doing.stack] ? json.stacks[doing.stack].map((i) => json.frames[i]) :
		[]);

	const STATE_WORDS = { R: "runs", S: "sleeps", D: "in uninterruptible sleep in the kernel", T: "stopped by a signal",
		t: "stopped by a debugger", Z: "has ended" };

	/* As vt_job_add_does() has it. */
	vt.doesText = (doing) => (!doing ? "nothing is known" : doing.verdict ? doing.verdict :
		doing.waits && doing.state !== "R" ? doing.waits : vt.lookup(STATE_WORDS, doing.state) || "unknown");

	const column = (members, Type, of) => Type.from(members, of);

	const hostsOf = (members) => {
		const names = [], known = new Map(), host = new Int32Array(members.length);

		members.forEach((m, i) => {
			const name = m.host || "";

			if (!known.has(name)) {
				known.set(name, names.length);
				names.push(name);
			}
			host[i] = known.get(name);
		});
		return { names, host };
	};

	/*
	 * { json, members, n, does: index in vt.jobStates, role, host: index in hosts, odd, ranks: [indices], ... }
	 */
	vt.job = (json) => {
		const members = json.members, found = json.found || {}, hosts = hostsOf(members);
		const job = {
			json,
			members,
			n: members.length,
			verdicts: found.verdicts || [],
			causes: found.causes || [],
			devices: found.devices || [],
			faults: found.faults || [],
			tree: found.tree || [],
			hosts: hosts.names,
			host: hosts.host,
			does: column(members, Uint8Array, (m) => STATE_OF.get(m.does) ?? UNKNOWN),
			role: column(members, Uint8Array, (m) => ROLE_OF.get(m.role) ?? ROLE_OF.get("other")),
			odd: column(members, Uint8Array, (m) => (m.outlier ? 1 : 0)),
			places: new Map(), /* of doings */
			texts: new Array(members.length), /* to search in */
		};

		/* Those that an alarm names */
		job.alarmed = new Uint8Array(job.n);
		for (const { members: set } of job.verdicts.filter((verdict) => verdict.alarm))
			for (const [from, to] of set)
				job.alarmed.fill(1, from, to + 1);
		job.ranks = vt.setList([[0, job.n - 1]]).filter((i) => members[i].role === "rank" && members[i].in_job);
		job.name = (i) => (isRank(members[i]) ? "rank " : "") + listText(members, [i], 1);
		/* The text of a set or a list; most: items */
		job.listText = (list, most = 8) => listText(members, list, most);
		job.setText = (set, most = 8) => listText(members, vt.setList(set), most);
		/* "0-2,4-7 [7]" */
		job.setCount = (set, most = 8) => job.setText(set, most) + " [" + vt.count(vt.setSize(set)) + "]";
		job.state = (i) => vt.jobStates[job.does[i]];
		job.stateColour = (i) => "does-" + vt.jobStates[job.does[i]][0];
		job.frames = (doing) => framesOf(json, doing);
		job.namedBy = (i) => job.verdicts.filter((verdict) => vt.setHas(verdict.members, i));
		job.mainDoing = (i) => json.doings[(members[i].threads_do || [])[0]] || null;
		job.telling = (i) => tellingDoing(job, i);
		job.place = (i) => {
			const doing = job.telling(i);

			return doing ? placeOf(job, doing) : null;
		};
		return job;
	};

	/* The main thread, or the one that the main thread waits for. */
	const tellingDoing = (job, i) => {
		const main = job.mainDoing(i);

		if (!main || main.verdict_code !== "backward-waits")
			return main;
		const other = job.members[i].threads_do.map((at) => job.json.doings[at]).find((doing) =>
			!doing.main && !doing.idle && doing.name.startsWith("pt_autograd_"));

		return other || main;
	};

	/* As place_of() in state.c: the innermost frame of the program, else of Python, else one with a name. */
	const placeOf = (job, doing) => {
		if (!job.places.has(doing)) {
			const frames = job.frames(doing);

			job.places.set(doing, frames.find((frame) => frame.program) || frames.find((frame) => frame.kind === "python") ||
				frames.find((frame) => frame.function) || null);
		}
		return job.places.get(doing);
	};

	/* "train.py:88 train_step" */
	vt.placeText = (frame) => (frame ? (vt.place(frame) + " " + vt.functionName(frame)).trim() : "");

	/* ---- what all parts of the page share: what is searched for, what is lit, which rank is open ---- */

	vt.jobView = (job) => {
		const listeners = [];
		const view = { job, query: "", match: null, lit: null, pinned: null, shown: job.ranks };
		const changed = (what) => listeners.forEach((listener) => listener(what));

		/* listener(what): "match", "lit", "shown" */
		view.on = (listener) => listeners.push(listener);
		const match = () => {
			view.match = vt.jobSearch(job, view.query, view.shown === job.ranks ? [job.ranks] : [view.shown, job.ranks]);
		};

		/* view.match: one byte for each member, valid of those that are shown and of ranks; null: all fit */
		view.search = (query) => {
			view.query = query.trim();
			match();
			changed("match");
		};
		/* Those of which matrix and table are: indices in order */
		view.show = (list) => {
			view.shown = list;
			match();
			changed("shown");
		};
		/* A set while something is hovered or focused; null: what is pinned, if anything is. */
		view.light = (set) => {
			const lit = set || view.pinned;

			if (lit === view.lit)
				return;
			view.lit = lit;
			changed("lit");
		};
		view.pin = (set) => {
			view.pinned = view.pinned === set ? null : set;
			view.light(null);
			changed("lit");
		};
		return view;
	};

	/* What stands out, one byte for each member: those that are lit, else those that were found; null: all. */
	vt.viewMask = (view) => (view.lit ? vt.setMask(view.lit, view.job.n) : view.match);

	/* A button about a set of members: while it is hovered or focused they are lit, a click keeps them so. */
	vt.setButton = (view, set, properties, ...children) => {
		const button = vt.el("button", { type: "button", "aria-pressed": "false", ...properties, class: "set " +
			((properties && properties.class) || ""), onmouseenter: () => view.light(set), onmouseleave: () => view.light(null),
		onfocus: () => view.light(set), onblur: () => view.light(null), onclick: () => {
			view.pin(set);
			vt.tell(view.pinned ? vt.count(vt.setSize(set)) + " processes are marked." : "No process is marked.");
		} }, children);

		view.on(() => button.setAttribute("aria-pressed", String(view.pinned === set)));
		return button;
	};
}
