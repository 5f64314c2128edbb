/* SPDX-License-Identifier: Apache-2.0 */
/* What each device's memory is used for: a bar to scale, and the lines of it (lines.js) as a table below. Both point at each other. */
{
	const MANY = 2; /* devices whose tables are open */
	const LABEL = 90; /* pixels of "peak reserved" */

	/* Lines with something in the bar, in its order; the bytes before each. */
	const barParts = (ledger) => {
		const all = ledger.lines.flatMap((one) => (one.parts.length ? one.parts : [one])).filter((one) => one.bytes > 0);
		let at = 0;

		return all.map((one) => {
			const start = at;

			at += one.bytes;
			return { line: one, start };
		});
	};

	const scaleOf = (ledger, parts) => {
		const last = parts[parts.length - 1];

		return Math.max(ledger.memory ? ledger.memory.total_bytes : 0, last ? last.start + last.line.bytes : 0);
	};

	const tipOf = (one, scale, of) => [one.label, [vt.bytes(one.bytes), `${vt.count(one.bytes)} bytes, ` +
		`${vt.percent(one.bytes, scale) || "0 %"} of ${of}`], one.blocks !== null && vt.plural(one.blocks, "block"), one.note];

	const swatch = (line) => vt.el("span", { class: "swatch" + (line.hatched ? " hatched" : "") + (line.colour === "ledger-free" ? " free" : ""),
		"aria-hidden": "true", style: { "background-color": `var(--${line.colour})` } });

	/* Where lines are in the bar and in the table, and what happens when one is pointed at. */
	class Picture {
		constructor(ledger) {
			this.ledger = ledger;
			this.parts = barParts(ledger);
			this.scale = scaleOf(ledger, this.parts) || 1;
			this.of = ledger.memory ? "the device" : "it";
			this.rows = new Map(); /* line: element */
			this.bar = this.makeBar();
			this.within = vt.el("span", { class: "within", hidden: true });
			this.bar.append(this.within);
		}

		percent(bytes) {
			return (100 * bytes) / this.scale + "%";
		}

		makeSegment({ line }, i) {
			const colour = `var(--${line.colour})`;
			const show = (event) => this.point(line, event);

			return vt.el("span", { role: "img", tabindex: i ? "-1" : "0", class: line.hatched ? "hatched" : null,
				"aria-label": `${line.label}: ${vt.bytes(line.bytes)}, ${vt.percent(line.bytes, this.scale)}`,
				style: { "background-color": colour, flex: `${line.bytes} ${line.bytes} 0` },
				onmousemove: show, onmouseleave: () => this.leave(), onblur: () => this.leave(),
				onfocus: (event) => {
					const box = event.target.getBoundingClientRect();

					show({ clientX: box.left, clientY: box.bottom - 12 });
				} });
		}

		makeBar() {
			this.segments = this.parts.map((part, i) => this.makeSegment(part, i));
			return vt.el("div", { class: "bar", role: "group", "aria-label": `${this.ledger.title}, memory to scale. Arrow keys move ` +
				"among its parts.", onkeydown: (event) => this.key(event) }, this.segments);
		}

		key(event) {
			const at = this.segments.indexOf(document.activeElement);
			const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: this.segments.length - 1 }[event.key];

			if (to === undefined || at < 0)
				return;
			event.preventDefault();
			const next = this.segments[Math.min(Math.max(to, 0), this.segments.length - 1)];

			this.segments.forEach((one) => one.setAttribute("tabindex", one === next ? "0" : "-1"));
			next.focus();
		}

		/* Marks what the line is in the bar: its own segments, or as much as it is of its parent's. */
		point(line, event, parent = null) {
			const mine = (one) => one === line || line.parts.includes(one) || one === parent || (parent && parent.parts.includes(one));

			this.leave();
			this.bar.classList.add("shows");
			this.parts.forEach((part, i) => this.segments[i].classList.toggle("lit", mine(part.line)));
			if (this.rows.has(line))
				this.rows.get(line).classList.add("lit");
			if (parent)
				this.showWithin(line, this.parts.find((part) => mine(part.line)));
			if (event)
				vt.showTip(event, tipOf(line, this.scale, this.of));
		}

		showWithin(line, part) {
			this.within.hidden = !part;
			if (!part)
				return;
			this.within.style.left = this.percent(part.start);
			this.within.style.width = this.percent(line.bytes);
		}

		leave() {
			vt.hideTip();
			this.within.hidden = true;
			this.bar.classList.remove("shows");
			this.segments.forEach((one) => one.classList.remove("lit"));
			this.rows.forEach((row) => row.classList.remove("lit"));
		}

		makeRow(line, kind, parent = null) {
			const inBar = !line.parts.length && kind !== "within-part";
			const row = vt.el("tr", { class: kind, onmouseenter: () => this.point(line, null, parent), onmouseleave: () => this.leave() },
				vt.el("td", null, inBar ? swatch(line) : null, line.label, line.note ? vt.el("span", { class: "note" }, line.note) : null),
				vt.el("td", { class: "number" }, vt.bytes(line.bytes)),
				vt.el("td", { class: "number exact" }, vt.count(line.bytes)),
				vt.el("td", { class: "number" }, line.blocks === null ? "" : vt.count(line.blocks)),
				vt.el("td", { class: "number" }, kind === "within-part" ? "" : vt.percent(line.bytes, this.scale) || "0 %"));

			this.rows.set(line, row);
			return row;
		}

		makeRows() {
			return this.ledger.lines.flatMap((line) => [this.makeRow(line, null),
				...line.parts.map((part) => this.makeRow(part, "part")),
				...line.of.map((part) => this.makeRow(part, "within-part", line))]);
		}

		sumRow(label, bytes) {
			return vt.el("tr", null, vt.el("td", null, label), vt.el("td", { class: "number" }, vt.bytes(bytes)),
				vt.el("td", { class: "number exact" }, vt.count(bytes)), vt.el("td"),
				vt.el("td", { class: "number" }, vt.percent(bytes, this.scale)));
		}

		table() {
			const { memory, title } = this.ledger;
			const heads = [["", null], ["size", "number"], ["bytes", "number exact"], ["blocks", "number"],
				[memory ? "of GPU" : "of it", "number"]];

			return vt.el("div", { class: "scrolls" }, vt.el("table", null, vt.el("caption", { class: "unseen" }, `Memory: ${title}`),
				vt.el("thead", null, vt.el("tr", null, heads.map(([text, name]) => vt.el("th", { scope: "col", class: name }, text)))),
				vt.el("tbody", null, this.makeRows()),
				memory ? vt.el("tfoot", null, this.sumRow("used by all processes", memory.used_bytes),
					this.sumRow("the device", memory.total_bytes)) : null));
		}

		/*
		 * How high it once was: at the scale of the bar, whose first lines are PyTorch's. The first label is before its mark
		 * if there is room, the second behind it.
		 */
		marks(width) {
			const shown = this.ledger.marks.filter(([, bytes]) => bytes > 0 && bytes <= this.scale);
			const place = ([name, bytes], i) => {
				const at = (bytes / this.scale) * width, before = i < shown.length - 1 || at > width - LABEL;

				return vt.el("span", { class: before ? "before" : "behind", style: before ? { right: width - at + "px" } : { left: at + "px" } },
					before && at < LABEL ? "" : name);
			};

			return shown.length && width ? vt.el("div", { class: "marks", "aria-hidden": "true", style: { width: width + "px" } },
				shown.map(place)) : null;
		}
	}

	const factText = ([name, value, unit]) => vt.el("span", { class: unit === "alarm" && value > 0 ? "alarm" : null },
		`${name} ${unit === "bytes" ? vt.bytes(value) : vt.count(value)}`);

	const legend = (picture) => vt.el("div", { class: "legend", "aria-hidden": "true" }, picture.parts.slice(0, 12).map(({ line }) =>
		vt.el("span", null, swatch(line), line.label)));

	const isNumber = (value) => typeof value === "number";

	const heading = (ledger) => {
		const { memory } = ledger, about = ledger.about.filter(Boolean);

		return vt.el("h3", null, vt.el("span", null, ledger.title), vt.el("span", { class: "note" }, ledger.name),
			memory ? vt.el("span", null, `${vt.bytes(memory.used_bytes)} of ${vt.bytes(memory.total_bytes)} used`,
				vt.el("span", { class: "note" }, ` by all processes, ${vt.bytes(isNumber(memory.used_bytes) ?
					memory.total_bytes - memory.used_bytes : null)} free`)) : null,
			about.length ? vt.el("span", { class: "note" }, about.join(", ")) : null);
	};

	/* A bar and its table; folded: the table is behind a click. */
	const show = (ledger, folded, width) => {
		const picture = new Picture(ledger), table = picture.table();

		return vt.el("div", { class: "ledger" }, heading(ledger), picture.parts.length ? [picture.bar, picture.marks(width)] : null,
			folded ? legend(picture) : null,
			ledger.problems.map((text) => vt.el("p", { class: "alarm" }, text)),
			!ledger.lines.length ? null : folded ? vt.el("details", null, vt.el("summary", null, "the lines"), table) : table,
			ledger.facts.length ? vt.el("p", { class: "facts" }, ledger.facts.map(factText)) : null);
	};

	const showDevice = (ledger, folded, width) => {
		if (ledger.error)
			return vt.el("p", { class: "alarm" }, `${ledger.title} could not be shown: ${ledger.error}`);
		return show(ledger, folded, width);
	};

	vt.view({
		id: "ledger",
		title: "Memory",
		wanted: ({ json }) => (json.cuda && json.cuda.devices.some((device) => device.context_active || device.memory)) ||
			vt.hostLedgers(json).length > 0,
		render: (section, report) => {
			const devices = vt.deviceLedgers(report), { json } = report, host = vt.attempt("Memory of the host", () => vt.hostLedgers(json));

			if (json.cuda && !json.cuda.devices)
				section.append(vt.el("p", { class: "alarm" }, "Which devices it uses is not known: the report has no list of them."));
			section.append(...devices.map((ledger) => vt.attempt(ledger.title, () => showDevice(ledger, devices.length > MANY,
				section.clientWidth))));
			if (host instanceof Node) {
				section.append(host);
				return;
			}
			if (json.host && !host.length)
				section.append(vt.el("p", { class: "note" }, "Host: no pinned memory, no shared memory of this process was found."));
			section.append(...host.map((ledger) => show(ledger, false, 0)));
		},
	});
}
