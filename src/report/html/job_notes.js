/* SPDX-License-Identifier: Apache-2.0 */
/* What was not read of a job, or only in part, and why. */
{
	const why = (m) => m.error || m.missing || "nothing is known about it";

	/* [[reason, indices]] of the members of one completeness */
	const reasons = (job, completeness) => {
		const lists = new Map();

		job.members.forEach((m, i) => {
			if (m.completeness !== completeness)
				return;
			if (!lists.has(why(m)))
				lists.set(why(m), []);
			lists.get(why(m)).push(i);
		});
		return Array.from(lists);
	};

	const line = (view, completeness, [text, list]) => vt.el("li", { class: completeness === "nothing" ? "alarm" : null },
		vt.setButton(view, vt.setOf(list), null, view.job.setCount(vt.setOf(list))), ": " + text);

	const summary = (job) => {
		const count = (level) => job.members.filter((m) => m.completeness === level).length;
		const nothing = count("nothing"), partial = count("partial"), parts = job.json.diagnostics.some((one) => one.level === "missing");
		const whole = job.json.found && job.json.found.completeness;

		return whole === "complete" ? "Complete." : whole === "nothing" ? "Nothing could be learned." : !nothing && !partial ?
			"Partial: some parts are missing." : `Partial: of ${job.n} processes, ${nothing} could not be read and ${partial} only in part` +
			(parts ? "; some parts are missing." : ".");
	};

	vt.jobPart({
		id: "notes",
		title: "Not read, and notes",
		render: (section, view) => {
			const job = view.job, said = new Set();
			const diagnostics = (job.json.diagnostics || []).filter((one) => !said.has(one.level + one.text) && said.add(one.level + one.text));

			vt.append(section, [vt.el("p", null, summary(job)), vt.el("ul", { class: "notes" },
				["nothing", "partial"].map((level) => reasons(job, level).map((reason) => line(view, level, reason))),
				diagnostics.map((one) => vt.el("li", { class: one.level === "missing" ? "alarm" : null }, one.text)))]);
		},
	});
}
