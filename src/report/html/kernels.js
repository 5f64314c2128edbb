/* SPDX-License-Identifier: Apache-2.0 */
/* What runs on the devices, as the CUDA debugger told; and faults of the devices, as the kernel's log has them. */
{
	const known = (value) => value !== null && value !== undefined;

	/* "40", "(16, 32)" */
	const dim = (list) => {
		const n = list[2] > 1 ? 3 : list[1] > 1 ? 2 : 1;

		return n > 1 ? "(" + list.slice(0, n).join(", ") + ")" : String(list[0]);
	};

	/* "spin_until<<<40, 128>>> on 40 SMs" */
	vt.kernelText = (k) => vt.cxxName(k.name || "") + (k.grid_dim && k.block_dim ? `<<<${dim(k.grid_dim)}, ${dim(k.block_dim)}>>>` : "") +
		(k.sms ? " on " + vt.plural(k.sms, "SM") : "");

	/* "net.cu:80", "+0xc0": from the begin of the kernel's code; "0x7f00" */
	const placeText = (place) => (place.file && place.line ? place.file.replace(/^.*\//, "") + ":" + place.line :
		known(place.offset) ? "+0x" + place.offset.toString(16) : place.pc);

	const MOST_PLACES = 3;

	/* Instructions of one line count together. "704 threads at spin.cu:5, 704 at spin.cu:8" */
	vt.kernelPlaces = (k) => {
		const threads = new Map();

		for (const place of k.places)
			threads.set(placeText(place), (threads.get(placeText(place)) || 0) + place.threads);
		return Array.from(threads).slice(0, MOST_PLACES).map(([text, n], i) => vt.count(n) + (i ? "" : n === 1 ? " thread" : " threads") +
			" at " + text).join(", ") + (threads.size > MOST_PLACES ? ", …" : "");
	};

	/* By Triton's cache, which can have more than one of this name. */
	const sourceText = (k) => "by Triton's cache made from " + (k.sources.length > 1 ? "one of " : k.sources_whole ? "" : "maybe ") +
		k.sources.map((one) => one.file + ":" + one.line).join(", ") + (k.sources.length > 1 && !k.sources_whole ? ", …" : "");

	const kernelTable = (kernels) => vt.table([
		{ title: "GPU", number: true, value: (k) => k.device },
		{ title: "Kernel", value: (k) => k.name || "", cell: (k) => [vt.el("span", { title: k.name },
			vt.short(vt.kernelText(k))), k.sources ? vt.el("div", { class: "note" }, sourceText(k)) : null] },
		{ title: "Threads", value: (k) => k.threads, cell: (k) => vt.kernelPlaces(k) },
		{ title: "State", value: (k) => k.status || "" },
	], kernels, { caption: "Kernels that run" }).element;

	vt.view({
		id: "kernels",
		title: "What runs on the GPU",
		wanted: ({ json }) => Boolean(json.kernels && ["told", "none"].includes(json.kernels.state)),
		render: (section, { json }) => {
			const { kernels, more, exceptions, took_ms: took, debugger: path, state } = json.kernels;
			const lost = json.faults && json.faults.context_lost;

			vt.append(section, [
				path ? vt.el("p", { class: "note" }, path.replace(/^.*\//, "") + " held the process for " + vt.milliseconds(took) + ".") : null,
				exceptions.map((text) => vt.el("p", { class: "alarm" }, "⚠ " + text)),
				state === "none" ? vt.el("p", null, "No kernel of this process ran at that moment.") :
					lost ? vt.el("p", null, "The context is lost: these are where the device stopped.") : null,
				kernels.length ? kernelTable(kernels) : null,
				more ? vt.el("p", { class: "note" }, vt.count(more) + " more") : null,
			]);
		},
	});

	/* ---- faults ---- */

	const ownerText = (xid) => (xid.owner === "ours" ? ", of this process" : !xid.pid ? "" : (xid.owner === "others" ?
		", of another process, pid " + xid.pid : ", of pid " + xid.pid + " in the machine's numbers") + (xid.name ? ` (${xid.name})` : ""));

	/* "Xid 31 (GPU memory page fault), of this process, on GPU 0, 3 times" */
	const faultText = (xid) => "Xid " + xid.code + (xid.meaning ? ` (${xid.meaning})` : "") + ownerText(xid) + (known(xid.device) ?
		", on GPU " + xid.device : xid.pci ? ", on the GPU at " + xid.pci : "") + (xid.times > 1 ? `, ${vt.count(xid.times)} times` : "");

	const isAlarm = (xid) => xid.owner === "ours" || (xid.owner === "nobodys" && ["reset", "reboot"].includes(xid.action));

	vt.view({
		id: "faults",
		title: "Faults of the GPU",
		wanted: ({ json }) => Boolean(json.faults && (json.faults.xids.length || (json.faults.context_lost && json.faults.why))),
		render: (section, { json }) => vt.append(section, [
			vt.el("ul", { class: "notes" }, json.faults.xids.map((xid) => vt.el("li", { class: isAlarm(xid) ? "alarm" : null },
				faultText(xid), vt.el("div", { class: "note" }, [xid.last && xid.last.replace("T", " ").replace(/\.\d+Z?$/, " UTC"), xid.text]
					.filter(Boolean).join(": "))))),
			json.faults.why ? vt.el("p", { class: "note" }, json.faults.why) : null,
		]),
	});
}
