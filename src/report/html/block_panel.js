/* SPDX-License-Identifier: Apache-2.0 */
/* All that is known of one block, beside a picture of it. */
{
	vt.hex = (address) => "0x" + address.toString(16);
	vt.streamWords = (stream) => (stream === "0x0" ? "default" : stream);

	/* Of a block's owner, without " in train (job.py:12)", which many have in common; null not known */
	vt.ownerName = (report, i) => {
		const owner = report.blocks.owner[i], name = owner >= 0 ? report.owners.name[owner] : null;

		return name ? name.replace(/ in [^()]* \([^()]*\)$/, "") : null;
	};

	const MAX_NAME = 160;

	/* Of a name without end, the end: it tells most. */
	const shorten = (name) => (name.length > MAX_NAME ? "…" + name.slice(1 - MAX_NAME) : name);

	/* "act.5, 29.0 KiB in use" */
	vt.blockText = (report, i) => {
		const { bytes, state } = report.blocks, name = vt.ownerName(report, i);

		return (name ? shorten(name) + ", " : "") + vt.bytes(bytes[i]) + " " + vt.stateWords[vt.stateNames[state[i]]];
	};

	const exact = (bytes) => (bytes >= 1024 ? `${vt.bytes(bytes)} (${vt.count(bytes)} B)` : vt.bytes(bytes));

	const ownerRows = (report, o) => {
		const owners = report.owners, tensors = owners.tensors[o];
		const tensor = [owners.dtype[o], owners.shape[o]].filter(Boolean).join(" ");

		return [
			["owner", owners.name[o] ? vt.el("code", null, owners.name[o]) : "not known" +
				(owners.unowned[o] ? ": " + vt.words("unowned", owners.unowned[o]) : "")],
			["category", [vt.swatch(vt.colour(vt.categoryColour(owners.category[o]))), vt.words("category", owners.category[o]) +
				(owners.name[o] && !owners.certain[o] ? ", not certain" : "")]],
			["module", owners.module[o]],
			["tensor", tensor && tensor + (tensors > 1 ? `, the largest of ${vt.count(tensors)}` : "")],
		];
	};

	const holderRows = (report, o) => {
		const owners = report.owners, holders = (owners.holders[o] || []).filter(Boolean);

		return [
			["held by", owners.type[o]],
			["also held by", holders.length ? holders.map((holder) => vt.el("div", null, vt.el("code", null, holder))) : null],
			["would free", owners.freed_bytes[o] ? [vt.bytes(owners.freed_bytes[o]) + ", with ",
				vt.el("code", null, owners.freed[o] || owners.name[o] || "its last reference")] : null],
		];
	};

	const sizeRows = (report, i) => {
		const b = report.blocks, requested = b.requested[i];

		return [
			["size", exact(b.bytes[i]) + " " + vt.stateWords[vt.stateNames[b.state[i]]]],
			["requested", b.state[i] === 0 && requested ? (b.bytes[i] > requested ? exact(requested) +
				`, ${vt.bytes(b.bytes[i] - requested)} lost to rounding` : "the same") : null],
		];
	};

	const placeRows = (report, i) => {
		const b = report.blocks, segment = report.segments[b.segment[i]];

		return [
			["age", b.age[i] >= 0 ? vt.duration(b.age[i]) : null],
			["thread", b.tid[i] || null],
			["stream", vt.streamWords(segment.stream)],
			["pool", `${vt.poolWords(segment)}, GPU ${segment.device}`],
			["address", vt.el("code", null, vt.hex(b.address[i]))],
			["segment", [vt.el("code", null, vt.hex(segment.address)), `, ${vt.bytes(segment.bytes)}` +
				(segment.expandable ? ", expandable" : "") +
				`, block ${vt.count(i - segment.first + 1)} of ${vt.count(segment.end - segment.first)}`]],
		];
	};

	const stackPart = (report, i) => {
		const trace = report.blocks.trace[i], frames = vt.traceFrames(report, trace);

		if (frames.length)
			return [vt.el("h4", null, "Allocated by"), vt.showStack(frames)];
		if (report.blocks.state[i] !== 0)
			return null;
		return vt.el("p", { class: "note" }, trace < 0 && report.traces.length ? "No backtrace: " +
			vt.words("untraced", report.noTrace[-1 - trace] || "not-recorded") + "." :
			"It was not recorded where this block was allocated.");
	};

	/* A button that goes to a neighbour; onchoose(block) */
	const neighbourRow = (report, name, i, end, onchoose) => [name, i === null ? end :
		vt.el("button", { type: "button", class: "link", "data-way": name, onclick: () => onchoose(i) }, vt.blockText(report, i))];

	/* Fills an element with what is known of a block. onchoose(block): a neighbour was chosen. */
	vt.showBlock = (element, report, i, onchoose) => {
		const segment = report.segments[report.blocks.segment[i]], owner = report.blocks.owner[i];
		const rows = [...sizeRows(report, i), ...(owner >= 0 ? ownerRows(report, owner) : []), ...placeRows(report, i),
			neighbourRow(report, "before it", i > segment.first ? i - 1 : null, "the segment's start", onchoose),
			neighbourRow(report, "behind it", i + 1 < segment.end ? i + 1 : null, "the segment's end", onchoose),
			...(owner >= 0 ? holderRows(report, owner) : [])];

		const focused = element.contains(document.activeElement) ? document.activeElement : null;

		element.replaceChildren();
		vt.append(element, [vt.el("dl", { class: "pairs" }, rows.filter(([, value]) => value !== null && value !== undefined &&
			value !== "").map(([name, value]) => [vt.el("dt", null, name), vt.el("dd", null, value)])), stackPart(report, i)]);
		if (focused)
			vt.focusOn(element.querySelector(`[data-way="${focused.dataset.way}"]`) || element);
	};
}
