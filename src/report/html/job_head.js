/* SPDX-License-Identifier: Apache-2.0 */
/* The page of a job: its head says where to start and what was found, the parts show the rest. */
{
	const MAX_CHAINS = 3, MAX_VERDICTS = 8, MAX_DOTS = 64;

	const DOUBTS = { "left-out": "it may run, and be left out here",
		unseen: "a rank that was not found or read may be awaited, too",
		groups: "those that wait may be in a process group of their own",
		gpu: "GPUs are waited for, and they may only be busy",
		workers: "its rank may wait for another of its workers",
		slow: "it runs: it may only be slow" };

	/* ---- facts, as the text has them ---- */

	const shortCommand = (text) => text.replace(/^[^ ]*\/(?=[^ ])/, "");

	const firstOf = (job) => job.members.find((m) => m.in_job) || job.members[0] || null;

	const isOneJob = (job, first) => !job.members.some((m) => m.role === "rank" && m.in_job && (m.job || "") !== (first.job || ""));

	const countOf = (n, one, many) => (n ? vt.count(n) + " " + (n === 1 ? one : many) : null);

	/* How many of each role, of cores, and outside the job */
	const count = (job) => {
		const n = { core: 0, outside: 0, rank: 0, loader: 0, checkpoint: 0, launcher: 0, other: 0 };

		for (const m of job.members)
			n[!m.in_job ? "outside" : m.core ? "core" : m.role]++;
		return n;
	};

	const rankCount = (job, first, n) => (n ? countOf(n, "rank", "ranks") + (first && isOneJob(job, first) && first.world_size &&
		n <= first.world_size ? " of " + vt.count(first.world_size) : "") : null);

	const skew = (job) => {
		const ms = job.json.found ? job.json.found.skew_ms : null;

		return ms !== null && ms !== undefined && job.n > 1 ? "stopped within " + vt.milliseconds(ms) + " of each other" +
			(job.hosts.length > 1 ? " on each" : "") : null;
	};

	vt.jobTitle = (job) => {
		const first = firstOf(job);

		if (!first)
			return "A job without processes";
		return [isOneJob(job, first) ? null : "several jobs, one of them", first.job,
			first.command_line ? shortCommand(first.command_line) : first.name].filter(Boolean).join(" · ");
	};

	vt.jobFacts = (job) => {
		const n = count(job), time = job.json.time;

		return [
			rankCount(job, firstOf(job), n.rank),
			countOf(n.core, "core", "cores"),
			...vt.jobRoles.slice(1).map((role) => countOf(n[role], ...vt.jobRoleWords[role])),
			countOf(n.outside, "process outside the job", "processes outside the job"),
			countOf(job.hosts.length, "host", "hosts"),
			skew(job),
			job.hosts.length === 1 && job.hosts[0] ? job.hosts[0] : null,
			time ? time.replace("T", " ").replace(/\.\d+/, "").replace("Z", " UTC") : null,
		];
	};

	/* ---- START HERE ---- */

	/* The first members of a set, a coloured square each. */
	vt.jobDots = (job, set) => {
		const list = vt.setList(set, MAX_DOTS), left = vt.setSize(set) - list.length;

		return list.length ? vt.el("span", { class: "dots", "aria-hidden": "true" }, list.map((i) =>
			vt.el("i", { style: { background: "var(--" + job.stateColour(i) + ")" } })),
		left ? vt.el("span", { class: "note" }, "+" + vt.count(left)) : null) : null;
	};

	const link = (view, one, i) => vt.el("li", { class: i ? null : "cause" }, one.members.length ?
		vt.setButton(view, one.members, null, one.text) : vt.el("span", { class: "set" }, one.text),
	vt.jobDots(view.job, one.members));

	const hasHosts = (job) => job.hosts.length > 1;

	const notes = (job, cause) => [
		cause.circle ? "they wait for each other in a circle: none can go on" : null,
		cause.certain ? null : "likely, not certain: " + (vt.lookup(DOUBTS, cause.doubt) || cause.doubt || "not all is known"),
		hasHosts(job) && cause.remedy && cause.remedy.host ? "on " + cause.remedy.host : null,
	].filter(Boolean).map((text) => vt.el("p", { class: "note" }, text));

	/* All of them, unlike the next steps of a report: one after the other. */
	const steps = (list) => (list.length ? vt.el("ul", { class: "steps" }, list.map((step) => vt.el("li", null,
		step.command ? [vt.command(step.command), " "] : null, vt.el("span", { class: "note" }, step.text)))) : null);

	/* { links, remedy, ... } of "causes" */
	const chain = (view, cause, i) => vt.el("div", { class: "chain", role: "group",
		"aria-label": (i ? "Also" : "Start here") + ": " + cause.links.map((one) => one.text).join(", and ") },
	vt.el("strong", { class: "alarm" }, i ? "Also" : "START HERE"),
	vt.el("ol", { class: cause.circle ? "links circle" : "links" }, cause.links.map((one, k) => link(view, one, k))),
	notes(view.job, cause),
	steps((cause.remedy && cause.remedy.steps) || []));

	const more = (list, shown, what, add) => {
		const button = vt.el("button", { type: "button", onclick: () => {
			button.replaceWith(...list.slice(shown).map(add));
		} }, `show ${vt.count(list.length - shown)} more ${what}`);

		return list.length > shown ? button : null;
	};

	const verdict = (view, one) => vt.el("li", { class: one.alarm ? "alarm" : null }, one.alarm ? "⚠" : null,
		one.members.length ? vt.setButton(view, one.members, null, one.text) : vt.el("span", { class: "set" }, one.text));

	const answer = (view) => {
		const job = view.job, alarms = job.causes.length || job.verdicts.some((one) => one.alarm);
		const addVerdict = (one) => verdict(view, one);

		return vt.el("div", { class: alarms ? "answer alarms" : "answer", role: "region", "aria-label": "The answer" },
			job.causes.slice(0, MAX_CHAINS).map((cause, i) => chain(view, cause, i)),
			more(job.causes, MAX_CHAINS, "causes", (cause) => chain(view, cause, 1)),
			vt.el("ul", { class: "verdicts" }, job.verdicts.slice(0, MAX_VERDICTS).map(addVerdict),
				more(job.verdicts, MAX_VERDICTS, "findings", addVerdict)),
			job.verdicts.length || job.causes.length ? null : vt.el("p", { class: "note" }, "Nothing stands out."));
	};

	/* ---- parts ---- */

	const parts = [];

	/* { id, title, wanted: (view) => boolean, render: (section, view) }; in the order of the files */
	vt.jobPart = (part) => parts.push(part);

	vt.page({
		wanted: (documents) => documents[0].json.schema === "vramtap-triage",
		show: (documents) => {
			const job = vt.job(documents[0].json), view = vt.jobView(job);

			vt.current = view;
			vt.showHead(vt.jobTitle(job), vt.jobFacts(job), answer(view));
			vt.showParts(parts.filter((part) => !part.wanted || part.wanted(view)).map((part) => ({ id: "job-" + part.id,
				title: part.title, render: (section) => part.render(section, view) })));
			return job.json;
		},
	});
}
