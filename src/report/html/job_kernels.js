/* SPDX-License-Identifier: Apache-2.0 */
/* What the GPUs of a job run: ranks that run the same share a row, as in the text report. */
{
	const isKnown = (kernels) => kernels.state === "told" || kernels.state === "none";

	/* "f, 2 x g<…>", "nothing" */
	const names = (kernels) => {
		const counts = new Map();

		for (const k of kernels.kernels)
			counts.set(vt.cxxName(k.name || ""), (counts.get(vt.cxxName(k.name || "")) || 0) + 1);
		return Array.from(counts, ([name, n]) => (n > 1 ? n + " x " : "") + name).join(", ") + (kernels.more ? ` and ${vt.count(kernels.more)} more` : "");
	};

	const details = (kernels) => kernels.kernels.map((k) => vt.kernelText(k) + (k.file ? " at " + k.file.replace(/^.*\//, "") + ":" + k.line : ""))
		.join(", ") + (kernels.more ? ` and ${vt.count(kernels.more)} more` : "");

	const keyOf = (kernels) => (isKnown(kernels) ? kernels.state + " " + names(kernels) : "not known: " + (kernels.why || ""));

	const text = (kernels, whole) => (!isKnown(kernels) ? "not known: " + (kernels.why || "") : kernels.state === "none" ? "nothing" :
		whole ? details(kernels) : names(kernels));

	const rowsOf = (job) => {
		const rows = new Map();

		job.members.forEach((m, i) => {
			if (!m.kernels)
				return;
			if (!rows.has(keyOf(m.kernels)))
				rows.set(keyOf(m.kernels), []);
			rows.get(keyOf(m.kernels)).push(i);
		});
		return Array.from(rows.values());
	};

	const row = (view, list) => {
		const all = list.map((i) => view.job.members[i].kernels), whole = all.every((one) => details(one) === details(all[0]));
		const raised = Array.from(new Set(all.flatMap((one) => one.exceptions)));

		return vt.el("tr", null, vt.el("td", null, vt.setButton(view, vt.setOf(list), null, view.job.setCount(vt.setOf(list)))),
			vt.el("td", { class: isKnown(all[0]) ? null : "note" }, vt.short(text(all[0], whole), 1000),
				raised.map((one) => vt.el("strong", { class: "alarm" }, " exception: " + one))));
	};

	vt.jobPart({
		id: "kernels",
		title: "What the GPUs run",
		wanted: (view) => view.job.members.some((m) => m.kernels),
		render: (section, view) => {
			const most = Math.max(0, ...view.job.members.map((m) => (m.kernels ? m.kernels.took_ms : 0)));

			vt.append(section, [
				most ? vt.el("p", { class: "note" }, "cuda-gdb held each process for " + vt.milliseconds(most) + " at most.") : null,
				vt.el("div", { class: "scrolls" }, vt.el("table", { class: "groups" }, vt.el("caption", { class: "unseen" }, "What the GPUs run"),
					vt.el("thead", null, vt.el("tr", null, ["Ranks", "Run"].map((title) => vt.el("th", { scope: "col" }, title)))),
					vt.el("tbody", null, rowsOf(view.job).map((list) => row(view, list))))),
			]);
		},
	});
}
