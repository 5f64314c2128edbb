/* SPDX-License-Identifier: Apache-2.0 */
/* Faults of the GPUs of a job, and what they say of their own health: each once, as in the text report. */
{
	const row = (view, fault) => vt.el("tr", null,
		vt.el("td", null, fault.members.length ? vt.setButton(view, fault.members, null, view.job.setCount(fault.members)) : null),
		vt.el("td", { class: fault.alarm ? "alarm" : null }, fault.text,
			fault.xid ? vt.el("div", { class: "note" }, [fault.last && fault.last.replace("T", " ").replace(/\.\d+Z?$/, " UTC"), fault.said]
				.filter(Boolean).join(": ")) : null));

	/* Why a lost context has no fault here. */
	const whyNot = (job) => (job.members.some((m) => m.context_lost) ? (job.json.usage || []).map((u) => u.faults).filter((f) => f && f.state === "refused")
		.map((f) => f.why)[0] : null);

	vt.jobPart({
		id: "faults",
		title: "Faults and health of the GPUs",
		wanted: (view) => Boolean(view.job.faults.length || whyNot(view.job)),
		render: (section, view) => vt.append(section, [
			view.job.faults.length ? vt.el("div", { class: "scrolls" }, vt.el("table", { class: "groups" },
				vt.el("caption", { class: "unseen" }, "Faults and health of the GPUs"),
				vt.el("thead", null, vt.el("tr", null, ["Ranks", "Fault"].map((title) => vt.el("th", { scope: "col" }, title)))),
				vt.el("tbody", null, view.job.faults.map((fault) => row(view, fault))))) : null,
			whyNot(view.job) ? vt.el("p", { class: "note" }, whyNot(view.job)) : null,
		]),
	});
}
