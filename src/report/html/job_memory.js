/* SPDX-License-Identifier: Apache-2.0 */
/* The memory of a job: of each rank as bars, least, median and most, and the devices with those that hold their memory. */
{
	/* ---- lines of a rank, as src/job/lines.c has them: all its devices together ---- */

	const HOST_LINES = new Set(["managed", "host", "other"]); /* sizes, not memory of the device */

	const known = (value) => value !== null && value !== undefined;

	const add = (lines, name, bytes) => {
		if (bytes > 0)
			lines.set(name, (lines.get(name) || 0) + bytes);
	};

	const addPyTorch = (lines, one, all) => {
		const inUse = known(one.allocated_bytes) ? Math.min(one.allocated_bytes, all) : all;

		add(lines, "in use by PyTorch", inUse);
		add(lines, "cached by PyTorch", all - inUse);
	};

	/* Map of words to bytes of the devices; null: not known */
	vt.memberMemory = (m) => {
		const lines = new Map();
		let any = false;

		for (const one of m.memory || []) {
			if (one.ledger) {
				addPyTorch(lines, one, one.ledger.pytorch || 0);
				for (const [line, bytes] of Object.entries(one.ledger))
					if (line !== "pytorch" && !HOST_LINES.has(line))
						add(lines, vt.jobLineWords(line), bytes);
				add(lines, "contexts, code", one.rest_bytes || 0);
			} else if (known(one.reserved_bytes)) {
				addPyTorch(lines, one, one.reserved_bytes);
				add(lines, "other than PyTorch's", one.not_pytorch_bytes || 0);
			}
			any = any || Boolean(one.ledger) || known(one.reserved_bytes);
		}
		return any ? lines : null;
	};

	const ownersOf = (m) => (m.owners && m.owners.state === "read" && m.owners.bytes ? new Map(Object.entries(m.owners.bytes)) : null);

	/* ---- what is drawn ---- */

	const sumOf = (lines) => {
		let sum = 0;

		for (const bytes of lines.values())
			sum += bytes;
		return sum;
	};

	const FIXED = { "in use by PyTorch": "state-allocated", "cached by PyTorch": "state-cached", "contexts, code": "category-native",
		"other than PyTorch's": "category-unknown" };

	/* { bars: [{ member, lines, sum }], names: the largest first, colours, top } */
	const dataOf = (job, of, colourOf, words = (name) => name) => {
		const bars = job.ranks.map((i) => ({ member: i, lines: of(job.members[i]) })).filter((bar) => bar.lines);
		const sums = new Map();

		for (const bar of bars) {
			bar.sum = sumOf(bar.lines);
			for (const [name, bytes] of bar.lines)
				sums.set(name, (sums.get(name) || 0) + bytes);
		}
		const names = Array.from(sums.keys()).sort((a, b) => sums.get(b) - sums.get(a));

		return { bars, names, words, colours: colourOf(names), sums, top: bars.reduce((most, bar) => Math.max(most, bar.sum), 1) };
	};

	/* Of lines of vt.memberMemory() */
	const lineColours = vt.memoryColours = (names) => {
		const picks = vt.pickColours(names.filter((name) => !FIXED[name]));

		return new Map(names.map((name) => [name, FIXED[name] || picks.get(name) || "category-unknown"]));
	};

	const categoryColours = (names) => new Map(names.map((name) => [name, vt.categoryColour(name)]));

	/* Whether a finding about memory names it. */
	const oddOnes = (job) => {
		const odd = new Uint8Array(job.n);

		for (const one of job.verdicts)
			if (one.code.startsWith("imbalance"))
				for (const [from, to] of one.members)
					odd.fill(1, from, to + 1);
		return odd;
	};

	const LEFT = 64, BOTTOM = 16, WIDEST = 56;

	/* Of one bar, and the space after it */
	const barWidth = (width, n) => Math.min(WIDEST, (width - LEFT) / Math.max(1, n));

	const drawScale = (context, width, tall, top) => {
		const step = vt.niceStep(Math.max(1, top) / 4, 1024), high = tall - BOTTOM - 6;

		context.font = "11px " + vt.colour("sans");
		context.textBaseline = "middle";
		context.textAlign = "right";
		for (let bytes = 0; bytes <= top; bytes += step) {
			const y = tall - BOTTOM - (bytes / top) * high;

			context.fillStyle = vt.colour("line");
			context.fillRect(LEFT, y, width - LEFT, 1);
			context.fillStyle = vt.colour("faint");
			context.fillText(vt.bytes(bytes), LEFT - 6, y);
		}
	};

	/* With more ranks than pixels, the largest of those at one pixel is seen, an odd one before all others. */
	const columnsOf = (bars, odd, wide) => {
		const n = Math.min(bars.length, Math.max(1, Math.floor(wide)));
		const columns = new Array(n).fill(null);

		bars.forEach((bar, k) => {
			const at = Math.min(n - 1, Math.floor((k * n) / bars.length)), before = columns[at];

			if (!before || odd[bar.member] > odd[before.member] || (odd[bar.member] === odd[before.member] && bar.sum > before.sum))
				columns[at] = bar;
		});
		return columns;
	};

	const drawBars = (context, width, tall, data, columns, odd, mask) => {
		const high = tall - BOTTOM - 6, wide = barWidth(width, columns.length), gap = wide >= 4 ? 1 : 0;

		columns.forEach((bar, k) => {
			const x = Math.round(LEFT + k * wide), across = Math.max(1, Math.round(LEFT + (k + 1) * wide) - x - gap);
			let y = tall - BOTTOM;

			context.globalAlpha = mask && !mask[bar.member] ? 0.2 : 1;
			for (const name of data.names) {
				const part = ((bar.lines.get(name) || 0) / data.top) * high;

				if (part <= 0)
					continue;
				context.fillStyle = vt.colour(data.colours.get(name));
				context.fillRect(x, y - part, across, part);
				y -= part;
			}
			context.globalAlpha = 1;
			if (odd[bar.member]) {
				context.fillStyle = vt.colour("alarm");
				context.fillRect(x, tall - BOTTOM + 2, Math.max(3, across), 5);
			}
		});
	};

	const barLines = (job, data, bar, odd) => [
		job.name(bar.member) + (odd[bar.member] ? ": unlike the others" : ""),
		...Array.from(bar.lines).sort((a, b) => b[1] - a[1]).slice(0, 12).map(([name, bytes]) => [data.words(name), vt.bytes(bytes)]),
		["together", vt.bytes(bar.sum)],
	];

	/* Bars of all ranks; arrow keys move, Enter shows the rank. */
	const chart = (view, choices) => {
		const job = view.job, odd = oddOnes(job);
		let data = choices[0].data, order = "rank", at = -1, columns = [];

		const sorted = () => (order === "rank" ? data.bars : data.bars.slice().sort((a, b) => b.sum - a.sum || a.member - b.member));
		const picture = vt.canvas(220, (context, width, tall) => {
			const mask = vt.viewMask(view);

			columns = columnsOf(sorted(), odd, width - LEFT);
			drawScale(context, width, tall, data.top);
			drawBars(context, width, tall, data, columns, odd, mask);
			if (at >= 0 && at < columns.length) {
				const wide = barWidth(width, columns.length);

				context.strokeStyle = vt.colour("focus");
				context.lineWidth = 2;
				context.strokeRect(LEFT + at * wide - 1, 3, Math.max(3, wide) + 1, tall - BOTTOM - 2);
			}
		}, "Memory of each rank. Arrow keys move from bar to bar, Enter shows the rank.");
		const canvas = picture.canvas;
		const moveTo = (k) => {
			at = Math.max(0, Math.min(columns.length - 1, k));
			picture.draw();
			if (columns[at])
				vt.tell(barLines(job, data, columns[at], odd).map((line) => (Array.isArray(line) ? line.join(" ") : line)).join("; "));
		};
		const open = () => columns[at] && vt.openMember(view, columns[at].member, canvas);
		const keys = { ArrowLeft: () => moveTo(at - 1), ArrowRight: () => moveTo(at + 1), Home: () => moveTo(0),
			End: () => moveTo(columns.length - 1), Enter: open };
		const under = (event) => {
			const box = canvas.getBoundingClientRect(), x = event.clientX - box.left - LEFT;

			const k = Math.floor(x / barWidth(box.width, columns.length));

			return x < 0 || k >= columns.length ? -1 : k;
		};

		canvas.setAttribute("role", "application");
		canvas.addEventListener("keydown", (event) => {
			if (Object.hasOwn(keys, event.key)) {
				event.preventDefault();
				keys[event.key]();
			}
		});
		canvas.addEventListener("mousemove", (event) => {
			const k = under(event);

			if (k < 0)
				vt.hideTip();
			else
				vt.showTip(event, barLines(job, data, columns[k], odd));
		});
		canvas.addEventListener("mouseleave", vt.hideTip);
		canvas.addEventListener("click", (event) => {
			at = under(event);
			vt.hideTip();
			open();
		});
		/* Out of view it is drawn when it comes back. */
		let inView = true, stale = false;

		new IntersectionObserver(([entry]) => {
			inView = entry.isIntersecting;
			if (inView && stale)
				picture.draw();
			stale = stale && !inView;
		}, { rootMargin: "200px" }).observe(canvas);
		view.on((what) => {
			if (what !== "shown" && inView)
				picture.draw();
			stale = stale || !inView;
		});
		const legend = vt.el("div", { class: "legend" });
		const fill = () => legend.replaceChildren(...data.names.slice(0, 16).map((name) => vt.el("span", null,
			vt.swatch("var(--" + data.colours.get(name) + ")"), data.words(name) + " ", vt.el("span", { class: "note" }, vt.bytes(data.sums.get(name))))));
		const choose = (change) => {
			change();
			at = -1;
			fill();
			picture.draw();
		};
		const select = (label, words, onchange) => (words.length > 1 ? vt.el("select", { "aria-label": label,
			onchange: (event) => choose(() => onchange(event.target.selectedIndex)) }, words.map((one) => vt.el("option", null, one))) : null);

		fill();
		return [vt.el("div", { class: "tools" }, select("What", choices.map((one) => one.words), (k) => (data = choices[k].data)),
			select("Order", ["by rank", "the most first"], (k) => (order = k ? "most" : "rank"))), legend, canvas];
	};

	/* ---- least, median, most ---- */

	const field = (name) => (m) => {
		const list = (m.memory || []).filter((one) => known(one[name]));

		return list.length ? list.reduce((sum, one) => sum + one[name], 0) : null;
	};

	const amounts = (job, of) => job.ranks.map((i) => ({ member: i, bytes: of(job.members[i]) })).filter((one) => one.bytes !== null)
		.sort((a, b) => a.bytes - b.bytes || a.member - b.member);

	const spreadRows = (job, choices) => {
		const rows = [["reserved", field("reserved_bytes")], ["in use", field("allocated_bytes")], ["cached", field("cached_bytes")],
			["in all, by the driver's count", field("counted_bytes")]];

		for (const { data, of } of choices)
			for (const name of data.names)
				if (!["in use by PyTorch", "cached by PyTorch"].includes(name))
					rows.push([data.words(name), (m) => {
						const lines = of(m);

						return lines ? lines.get(name) || 0 : null;
					}]);
		return rows.map(([words, of]) => ({ words, list: amounts(job, of) })).filter((row) => row.list.length > 1);
	};

	const spread = (view, choices) => {
		const job = view.job, rows = spreadRows(job, choices);
		const cell = (row, k) => vt.el("td", { class: "number" }, vt.bytes(row.list[k].bytes) + " ", vt.el("button", { type: "button",
			class: "plain", onclick: () => vt.openMember(view, row.list[k].member) }, "(" + job.name(row.list[k].member) + ")"));

		return rows.length ? [vt.el("h3", null, "Least, median, most"), vt.el("div", { class: "scrolls" }, vt.el("table", { class: "spread" },
			vt.el("caption", { class: "unseen" }, "Memory of ranks: least, median, most"),
			vt.el("thead", null, vt.el("tr", null, ["", "Least", "Median", "Most", "Ranks"].map((title, k) => vt.el("th", { scope: "col",
				class: k ? "number" : null }, title)))),
			vt.el("tbody", null, rows.map((row) => vt.el("tr", null, vt.el("th", { scope: "row" }, row.words), cell(row, 0),
				cell(row, Math.floor((row.list.length - 1) / 2)), cell(row, row.list.length - 1),
				vt.el("td", { class: "number" }, vt.count(row.list.length)))))))] : null;
	};

	/* ---- devices ---- */

	const MOST_HOLDERS = 8;

	/* Processes that the driver lists, and that are no members. */
	const strangers = (job, device) => {
		const members = new Set(device.holders.map((i) => job.members[i].pid));

		return (job.json.usage || []).filter((one) => (one.host || "") === (device.host || "")).flatMap((one) => one.usage.devices)
			.filter((one) => device.uuid && one.uuid === device.uuid).flatMap((one) => one.processes || [])
			.filter((one) => one.life === "unknown" || !members.has(one.pid));
	};

	const holderBytes = (job, device, k) => {
		if (device.holders_bytes)
			return device.holders_bytes[k];
		const memory = (job.members[device.holders[k]].memory || []).find((one) => (device.uuid && one.uuid ? one.uuid === device.uuid :
			one.ordinal === device.ordinal)) || (job.members[device.holders[k]].memory || [])[0];

		return memory && known(memory.reserved_bytes) ? memory.reserved_bytes : null;
	};

	const size = (bytes) => (known(bytes) ? vt.bytes(bytes) : "?");

	const holders = (view, device) => {
		const job = view.job, list = device.holders.slice(0, MOST_HOLDERS).map((i, k) => {
			const m = job.members[i], odd = m.role !== "rank" || !m.in_job;

			return [k ? ", " : "", vt.el("button", { type: "button", class: "plain", onclick: () => vt.openMember(view, i) }, job.name(i)),
				odd && m.name ? " (" + m.name + (m.in_job ? ")" : ", outside the job)") : "", " " + size(holderBytes(job, device, k))];
		});
		const others = strangers(job, device);

		return [list, device.holders.length > MOST_HOLDERS ? ", " + vt.count(device.holders.length - MOST_HOLDERS) + " more" : null,
			others.slice(0, MOST_HOLDERS).map((one) => ", pid " + one.pid + (one.name ? " (" + one.name + (one.life === "gone" ? ", gone" :
				one.life === "zombie" ? ", has ended" : "") + ")" : "") + " " + size(one.bytes)),
			others.length > MOST_HOLDERS ? ", " + vt.count(others.length - MOST_HOLDERS) + " more" : null,
			device.no_process_bytes > 0 ? ", no process " + vt.bytes(device.no_process_bytes) : null];
	};

	const devices = (view) => {
		const job = view.job, counted = job.devices.some((one) => one.holders_bytes);
		const table = vt.table([
			{ title: "Device", value: (one) => (one.host || "") + " " + one.name, cell: (one) => vt.el("span", { class: "whole" },
				(one.host || "") + " " + one.name) },
			{ title: "Total", number: true, value: (one) => one.total_bytes, cell: (one) => size(one.total_bytes) },
			{ title: "Free", number: true, value: (one) => one.free_bytes, cell: (one) => size(one.free_bytes) },
			{ title: "Other", number: true, value: (one) => one.outside_bytes, cell: (one) => size(one.outside_bytes) },
			{ title: counted ? "Used by" : "Reserved by PyTorch of", value: (one) => one.holders.length, cell: (one) => holders(view, one) },
		], job.devices, { limit: 50, caption: "Devices" });

		return [vt.el("h3", null, "Devices"), table.element, job.devices.some((one) => one.assumed) ? vt.el("p", { class: "note" },
			"These are the ranks' own numbers; --inject shows whether they are the same devices.") : null];
	};

	vt.jobPart({
		id: "memory",
		title: "Memory",
		wanted: (view) => view.job.members.some((m) => m.memory && m.memory.length) || view.job.devices.length > 0,
		render: (section, view) => {
			const job = view.job, choices = [
				{ words: "what holds the memory", of: vt.memberMemory, data: dataOf(job, vt.memberMemory, lineColours) },
				{ words: "what the memory in use is", of: ownersOf, data: dataOf(job, ownersOf, categoryColours,
					(name) => vt.words("category", name)) },
			].filter((choice) => choice.data.bars.length);

			vt.append(section, [choices.length ? [chart(view, choices), spread(view, choices)] : vt.el("p", { class: "note" },
				"The memory of no rank was read."), job.devices.length ? devices(view) : null]);
		},
	});
}
