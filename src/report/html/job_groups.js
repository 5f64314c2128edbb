/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How far the process groups of a job are: ranks with equal progress share a row, as in the text report. And what NCCL's
 * RAS answered.
 */
{
	/* As vt_flight_group_name() has it. */
	vt.groupName = (g) => (g.description && g.description !== "undefined" ? g.description : g.group);
	vt.sequence = (number) => (number === null || number === undefined ? "?" : vt.count(number));

	/* "12 s", "1 h 3 min" */
	const age = (ms) => {
		const s = Math.floor(ms / 1000), days = Math.floor(s / 86400), hours = Math.floor(s / 3600) % 24, minutes = Math.floor(s / 60) % 60;

		return days ? days + " d " + hours + " h" : hours ? hours + " h " + minutes + " min" : minutes ? minutes + " min" : s + " s";
	};

	/* "all_reduce number 4 for 12 s: [64, 32] Float, not started; 2 more after it" */
	vt.pendingText = (g) => {
		const op = g.oldest_pending;

		return op ? op.name + " number " + op.number + " for " + age(op.age_ms) + (op.input ? ": " + op.input : "") +
			(op.started === null || op.started === undefined ? "" : op.started ? ", started" : ", not started") +
			(g.pending > 1 ? "; " + vt.count(g.pending - 1) + " more after it" : "") : "";
	};

	/* ---- the groups of all members, as src/job/groups.c finds them ---- */

	const parseRanks = (text) => (text || "").split(",").filter(Boolean).map((part) => part.split("-").map(Number)).filter((pair) => pair[0] >= 0)
		.map(([from, to]) => [from, to ?? from]);

	/* Groups of one name may have different ranks, but Gloo's ranks are a guess. */
	const keyOf = (g) => JSON.stringify([g.backend, g.group, g.backend === "gloo" ? null : g.ranks]);

	const isTold = (m) => m.in_job && m.role === "rank" && m.collectives && m.collectives.told_at_ms;

	const addRest = (job, group, byRank) => {
		const there = new Set(group.members.map((one) => one.member));

		for (const [from, to] of group.differ ? [] : parseRanks(group.any.ranks))
			for (let rank = from; rank <= Math.min(to, from + job.n); rank++) {
				const i = byRank.get(rank);

				if (i !== undefined && !there.has(i) && job.members[i].collectives.groups.some((g) => g.backend === group.any.backend))
					group.members.push({ member: i, state: null });
			}
		group.members.sort((a, b) => a.member - b.member);
	};

	const find = (job) => {
		const groups = new Map(), byRank = new Map();

		for (const i of job.ranks.filter((one) => isTold(job.members[one]))) {
			for (const g of job.members[i].collectives.groups) {
				const group = groups.get(keyOf(g)) || { any: g, members: [], differ: false };

				groups.set(keyOf(g), group);
				group.differ = group.differ || g.ranks !== group.any.ranks;
				group.members.push({ member: i, state: g });
			}
			byRank.set(job.members[i].rank, i);
		}
		const all = Array.from(groups.values());
		const waits = (group) => group.members.some(({ state }) => state && state.pending && !state.oldest_pending.point_to_point);

		all.forEach((group) => addRest(job, group, byRank));
		return all.map((group) => ({ ...group, waits: waits(group) })).sort((a, b) => b.waits - a.waits ||
			b.members.length - a.members.length || (a.any.group < b.any.group ? -1 : 1));
	};

	const progressOf = (g) => (g ? JSON.stringify([g.last_enqueued, g.last_completed, g.pending, g.oldest_pending &&
		[g.oldest_pending.number, g.oldest_pending.point_to_point, g.oldest_pending.started, g.oldest_pending.name,
			g.oldest_pending.input]]) : "");

	/* [{ list: members with equal progress, state: that of the first }] */
	const rowsOf = (group) => {
		const rows = new Map();

		for (const { member, state } of group.members) {
			const key = progressOf(state);

			if (!rows.has(key))
				rows.set(key, { list: [], state });
			rows.get(key).list.push(member);
		}
		return Array.from(rows.values());
	};

	/* ---- shown ---- */

	const begun = (row) => (row.state ? row.state.last_enqueued : 0);

	/* Completed and begun on a common scale: who lags is seen at once. */
	const progress = (row, least, most) => {
		const share = (value) => ((value - least) / Math.max(1, most - least)) * 100;
		const s = row.state || { last_enqueued: 0, last_completed: 0 }, done = s.last_completed ?? least, all = s.last_enqueued ?? done;

		return vt.el("div", { class: "progress", "aria-hidden": "true" },
			vt.el("i", { class: "done", style: { width: share(done) + "%" } }),
			vt.el("i", { class: "begun", style: { width: Math.max(0, share(all) - share(done)) + "%" } }));
	};

	/* Being behind is no mistake for a moment: what the findings say counts. */
	const LATE = new Set(["missed-collective", "behind", "not-started", "gpu-waits-for-rank", "different-collective",
		"mismatched-collective"]);

	const alarmed = (job) => {
		const found = new Uint8Array(job.n);

		for (const one of job.verdicts.filter((verdict) => verdict.alarm && LATE.has(verdict.code)))
			for (const [from, to] of one.members)
				found.fill(1, from, to + 1);
		return found;
	};

	const MOST_ROWS = 40;

	const groupTable = (view, group) => {
		const rows = rowsOf(group), numbers = rows.flatMap((row) => (row.state ? [row.state.last_enqueued, row.state.last_completed] : [0]))
			.filter((n) => n !== null && n !== undefined);
		const most = Math.max(0, ...numbers), least = Math.max(0, Math.min(...numbers) - 1);
		const furthest = rows.reduce((n, row) => Math.max(n, begun(row) ?? 0), 0), alarms = alarmed(view.job);
		const lags = (row) => group.waits && begun(row) !== null && begun(row) < furthest;
		const isAlarm = (row) => row.list.some((i) => alarms[i]);
		const line = (row) => vt.el("tr", { class: lags(row) && isAlarm(row) ? "lags" : null },
			vt.el("td", null, vt.setButton(view, vt.setOf(row.list), null, view.job.setCount(vt.setOf(row.list)))),
			vt.el("td", { class: "number" }, vt.sequence(begun(row))),
			vt.el("td", { class: "number" }, row.state ? vt.sequence(row.state.last_started) : "0"),
			vt.el("td", { class: "number" }, row.state ? vt.sequence(row.state.last_completed) : "0"),
			vt.el("td", null, progress(row, least, most)),
			vt.el("td", null, lags(row) ? vt.el("strong", { class: isAlarm(row) ? "alarm" : null }, "behind ") : null, row.state ?
				vt.pendingText(row.state) : "has begun nothing in it"));
		const body = vt.el("tbody", null, rows.slice(0, MOST_ROWS).map(line));

		return [
			vt.el("h3", null, vt.groupName(group.any) + " ", vt.el("span", { class: "note" }, [group.any.backend, group.any.ranks &&
				!group.differ ? "ranks " + group.any.ranks : null, vt.groupName(group.any) !== group.any.group ? group.any.group : null]
				.filter(Boolean).join(", "))),
			vt.el("div", { class: "scrolls" }, vt.el("table", { class: "groups" }, vt.el("caption", { class: "unseen" }, "Progress of " +
				vt.groupName(group.any)), vt.el("thead", null, vt.el("tr", null, ["Ranks", "Begun", "Started", "Completed", "", "Waits in"]
				.map((title, k) => vt.el("th", { scope: "col", class: k > 0 && k < 4 ? "number" : null }, title)))), body)),
			rows.length > MOST_ROWS ? vt.el("p", { class: "note" }, vt.count(rows.length - MOST_ROWS) + " more: in the JSON report") : null,
		];
	};

	/* Members whose groups are unknown although they were wanted, by reason. */
	const unknown = (view) => {
		const reasons = new Map();

		view.job.members.forEach((m, i) => {
			const why = m.collectives && m.collectives.why_none;

			if (why && !reasons.has(why))
				reasons.set(why, []);
			if (why)
				reasons.get(why).push(i);
		});
		return Array.from(reasons, ([why, list]) => vt.el("p", { class: "note" }, view.job.setCount(vt.setOf(list)) + ": not known: " + why));
	};

	vt.jobPart({
		id: "groups",
		title: "Process groups",
		wanted: (view) => view.job.members.some((m) => m.collectives && (m.collectives.groups.length || m.collectives.why_none)),
		render: (section, view) => vt.append(section, [find(view.job).map((group) => groupTable(view, group)), unknown(view)]),
	});

	/* ---- NCCL's RAS ---- */

	const ABOUT = { dead: "RAS has lost them", silent: "did not answer RAS in time", absent: "not heard of, and not known why",
		error: "report the error", status: "have the status", count: "have launched" };

	const aboutText = (group) => (group.about === "count" ? "have launched " + vt.count(group.count) + " operations" +
		(group.what ? " of " + group.what : "") + (group.moved === true ? ", more than before" : group.moved === false ?
		", as many as before" : "") : (vt.lookup(ABOUT, group.about) || group.about) + (group.what ? " " + group.what : ""));

	const ranksText = (group) => {
		const numbers = group.ranks.map((one) => one.rank), whose = (one) => (one.pid ? "pid " + one.pid : "?") + (one.host ? "@" + one.host : "");

		return numbers.every((one) => one !== null) ? vt.setOf(numbers.slice().sort((a, b) => a - b)).map(([from, to]) =>
			(to > from ? from + "-" + to : from)).join(",") : group.ranks.slice(0, 16).map(whose).join(", ") +
			(group.ranks.length > 16 ? ", …" : "");
	};

	const rasHead = (ras) => (ras.nccl_version ? "NCCL " + ras.nccl_version + ", " : "") + (ras.pid ? "pid " + ras.pid : "a process") +
		(ras.host ? " on " + ras.host : "") + ": " + vt.count(ras.communicators) + " communicator" +
		(ras.communicators === 1 ? "" : "s");

	const rasState = (ras) => (!ras.understood ? "vramtap does not know all parts of its answer" : ras.groups.length ? null :
		"all ranks answer, without errors, and have launched the same");

	const rasAnswer = (ras) => [
		vt.el("h3", null, rasHead(ras)),
		rasState(ras) ? vt.el("p", null, rasState(ras)) : null,
		ras.groups.length ? vt.table([
			{ title: "Communicator", value: (g) => g.communicator || "", cell: (g) => (g.communicator || "the whole job") +
				(g.size ? ", " + vt.count(g.size) + " ranks" : "") },
			{ title: "Said", value: aboutText, cell: (g) => vt.el("span", { class: ["count", "status"].includes(g.about) ? null : "alarm" },
				aboutText(g)) },
			{ title: "Number", number: true, value: (g) => g.n, cell: (g) => vt.count(g.n) },
			{ title: "Ranks of the communicator", value: ranksText },
		], ras.groups, { caption: "What RAS says" }).element : null,
		ras.lines.length ? vt.el("pre", null, ras.lines.join("\n")) : null,
		ras.address || ras.file ? vt.el("p", { class: "note" }, [ras.address && "It listens at " + ras.address + ".", ras.file &&
			"The answer as it came: " + ras.file].filter(Boolean).join(" ")) : null,
	];

	vt.jobPart({
		id: "ras",
		title: "NCCL's RAS",
		wanted: (view) => Boolean(view.job.json.ras && view.job.json.ras.length),
		render: (section, view) => vt.append(section, view.job.json.ras.map(rasAnswer)),
	});
}
