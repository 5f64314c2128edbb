/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of a job as a matrix: one cell each, coloured by what it does. With several hosts the processes of one
 * are side by side. The size of cells follows from their number.
 */
{
	const LARGEST = 36, SMALLEST = 3, MOST_HEIGHT = 460;
	const LABELS = 64; /* so many hosts have their names beside their cells */
	const LABEL_WIDTH = 92, NUMBERS_FROM = 24, OUTLINE_FROM = 9;

	/* ---- where the cells are ---- */

	const byHost = (job, list) => {
		const groups = new Map();

		for (const i of list) {
			if (!groups.has(job.host[i]))
				groups.set(job.host[i], []);
			groups.get(job.host[i]).push(i);
		}
		return Array.from(groups.values());
	};

	/* Blocks of cells; size: of a cell */
	const arrange = (groups, columns, lines, width, size, labels) => {
		const gap = groups.length > 1 ? Math.max(4, Math.round(size / 2)) : 0;
		const wide = labels + columns * size + gap, tall = lines * size + (groups.length > 1 ? (size < 6 ? 2 : 4) : 0);
		const across = Math.max(1, Math.floor((width + gap) / wide));

		return { size, columns, labels, wide, tall, across, height: Math.ceil(groups.length / across) * tall + 2 };
	};

	/* The layout with the largest cells that fit. */
	const layOut = (job, list, order, width) => {
		const hosts = order === "host" ? byHost(job, list) : [list], alone = hosts.length < 2;
		const groups = alone ? [list] : hosts, most = Math.max(1, ...groups.map((group) => group.length));
		const labels = !alone && groups.length <= LABELS ? LABEL_WIDTH : 0;
		let layout = null;

		for (let size = LARGEST; size >= SMALLEST; size--) {
			const fit = Math.max(1, Math.floor((width - labels) / size));
			const columns = Math.min(fit, alone ? fit : most <= 8 || most % 8 === 0 ? Math.min(most, 8) : Math.min(most, 16));

			layout = arrange(groups, columns, Math.ceil(most / columns), width, size, labels);
			if (layout.height <= MOST_HEIGHT)
				break;
		}
		return place(layout, groups);
	};

	/* The corner of each cell, in the order of the groups. */
	const place = (layout, groups) => {
		const cells = groups.flat(), x = new Float32Array(cells.length), y = new Float32Array(cells.length);
		const first = [], at = new Map();
		let k = 0;

		groups.forEach((group, g) => {
			const left = (g % layout.across) * layout.wide + layout.labels, top = Math.floor(g / layout.across) * layout.tall + 1;

			first.push(k);
			group.forEach((i, j) => {
				at.set(i, k);
				x[k] = left + (j % layout.columns) * layout.size;
				y[k++] = top + Math.floor(j / layout.columns) * layout.size;
			});
		});
		return { ...layout, groups, cells, x, y, first, at };
	};

	/* The cell at a point; -1 none. */
	const cellAt = (layout, px, py) => {
		const across = Math.floor(px / layout.wide), down = Math.floor((py - 1) / layout.tall);
		const g = down * layout.across + across, group = layout.groups[g];
		const column = Math.floor((px - across * layout.wide - layout.labels) / layout.size);
		const line = Math.floor((py - 1 - down * layout.tall) / layout.size), j = line * layout.columns + column;

		if (across >= layout.across || !group || column < 0 || column >= layout.columns || line < 0 || j >= group.length)
			return -1;
		return layout.first[g] + j;
	};

	/* The next cell in a direction; the same if there is none. */
	const neighbour = (layout, k, dx, dy) => {
		let best = k, least = Infinity;

		if (dx)
			return Math.max(0, Math.min(layout.cells.length - 1, k + dx));
		for (let other = 0; other < layout.cells.length; other++) {
			const down = (layout.y[other] - layout.y[k]) * dy, far = Math.abs(layout.x[other] - layout.x[k]);

			if (down > 0.5 && down * 1000 + far < least) {
				least = down * 1000 + far;
				best = other;
			}
		}
		return best;
	};

	/* ---- drawing ---- */

	const LITTLE = new Uint8Array(Uint32Array.of(1).buffer)[0] === 1;

	/* As the pixels of an ImageData are in memory. */
	const pixelOf = ([red, green, blue]) => (LITTLE ? (255 << 24) | (blue << 16) | (green << 8) | red :
		(red << 24) | (green << 16) | (blue << 8) | 255) >>> 0;

	/* Of each state: as it is, and pale */
	const pixelsOf = () => {
		const back = vt.rgb(vt.colour("back"));

		return vt.jobStates.map(([name]) => {
			const colour = vt.rgb(vt.colour("does-" + name));

			return [pixelOf(colour), pixelOf(vt.mix(colour, back, 0.18))];
		});
	};

	/* Pixel by pixel: ten thousands of rectangles would take longer. */
	const drawCells = (context, view, layout, mask) => {
		const { size, cells, x, y } = layout, inner = size >= 10 ? size - 2 : size >= 4 ? size - 1 : size, does = view.job.does;
		const { width, height } = context.canvas, ratio = devicePixelRatio || 1, colours = pixelsOf();
		const image = context.createImageData(width, height), pixels = new Uint32Array(image.data.buffer);

		pixels.fill(pixelOf(vt.rgb(vt.colour("back"))));
		for (let k = 0; k < cells.length; k++) {
			const i = cells[k], colour = colours[does[i]][mask && !mask[i] ? 1 : 0];
			const left = Math.round(x[k] * ratio), right = Math.min(width, Math.round((x[k] + inner) * ratio));
			const bottom = Math.min(height, Math.round((y[k] + inner) * ratio));

			for (let line = Math.round(y[k] * ratio); line < bottom; line++)
				pixels.fill(colour, line * width + left, line * width + right);
		}
		context.putImageData(image, 0, 0);
	};

	/* Outliers have a frame, which is seen in whatever colour. */
	const drawOutliers = (context, view, layout, mask) => {
		const { size, cells, x, y } = layout, job = view.job;

		cells.forEach((i, k) => {
			if (!job.odd[i] || (mask && !mask[i]))
				return;
			context.fillStyle = vt.colour("edge");
			if (size >= OUTLINE_FROM) {
				context.lineWidth = 2;
				context.strokeStyle = vt.colour("edge");
				context.strokeRect(x[k], y[k], size - 2, size - 2);
			} else {
				context.fillRect(x[k] - 2, y[k] - 2, size + 3, size + 3);
				context.fillStyle = vt.colour(job.stateColour(i));
				context.fillRect(x[k], y[k], size - 1, size - 1);
			}
		});
	};

	const drawTexts = (context, view, layout, mask) => {
		const { size, cells, x, y, groups, labels } = layout, job = view.job;

		context.textBaseline = "middle";
		if (size >= NUMBERS_FROM) {
			context.font = "12px " + vt.colour("sans");
			context.textAlign = "center";
			cells.forEach((i, k) => {
				const m = job.members[i], number = m.role === "loader" ? m.worker : m.rank;

				context.fillStyle = mask && !mask[i] ? vt.colour("faint") : vt.inkOn(vt.rgb(vt.colour(job.stateColour(i))));
				context.fillText(String(number ?? ""), x[k] + size / 2 - 1, y[k] + size / 2, size - 4);
			});
		}
		context.font = "12px " + vt.colour("sans");
		context.textAlign = "left";
		context.fillStyle = vt.colour("faint");
		groups.forEach((group, g) => {
			if (labels)
				context.fillText(cut(job.hosts[job.host[group[0]]]), x[layout.first[g]] - labels,
					y[layout.first[g]] + size / 2, labels - 8);
		});
	};

	/* The end of a name tells hosts apart. */
	const cut = (name) => (name.length > 13 ? "…" + name.slice(-12) : name);

	/* ---- what is said of a process ---- */

	vt.memberLines = (job, i) => {
		const m = job.members[i], place = job.place(i), memory = (m.memory || []).filter((one) => "reserved_bytes" in one);
		const sum = (field) => memory.reduce((bytes, one) => bytes + one[field], 0);

		return [
			job.name(i) + (m.in_job ? "" : ", outside the job") + ": " + job.state(i)[1] + (m.operation ? " " + m.operation : ""),
			["where", "pid " + m.pid + (m.host ? " on " + m.host : "")],
			job.mainDoing(i) && ["does", vt.doesText(job.telling(i))],
			place && ["place", vt.placeText(place)],
			memory.length > 0 && ["memory", vt.bytes(sum("allocated_bytes")) + " in use, " + vt.bytes(sum("cached_bytes")) + " cached"],
			m.error && ["not read", m.error],
			...job.namedBy(i).filter((one) => one.alarm).slice(0, 3).map((one) => "⚠ " + one.text),
		];
	};

	/* ---- the tools above ---- */

	const legend = (view, search) => {
		const box = vt.el("div", { class: "legend", role: "group", "aria-label": "States; a button shows those in one" });

		const fill = () => {
			const counts = new Array(vt.jobStates.length).fill(0);

			for (const i of view.shown)
				counts[view.job.does[i]]++;
			box.replaceChildren(...vt.jobStates.map(([name, words], state) => (counts[state] ? vt.el("button", { type: "button",
				"aria-pressed": String(view.query === "state:" + name), onclick: () =>
					search(view.query === "state:" + name ? "" : "state:" + name) },
			vt.swatch("var(--does-" + name + ")"), words + " ", vt.el("span", { class: "note" }, vt.count(counts[state]))) : null)).filter(Boolean));
		};

		view.on((what) => what !== "lit" && fill());
		fill();
		return box;
	};

	const searchField = (view) => {
		const said = vt.el("span", { class: "note", role: "status" });
		const field = vt.el("input", { type: "search", size: "40", placeholder: "rank:0-7 host:node3 state:loader place:forward",
			"aria-label": "Search processes: " + vt.jobSearchHelp, title: vt.jobSearchHelp, oninput: () => run() });
		let waiting = 0;

		const run = () => {
			cancelAnimationFrame(waiting);
			waiting = requestAnimationFrame(() => view.search(field.value));
		};
		const count = () => {
			const n = view.match ? view.shown.reduce((sum, i) => sum + view.match[i], 0) : 0;

			said.textContent = view.match ? vt.count(n) + " of " + vt.count(view.shown.length) + " found" : "";
		};

		view.on((what) => what !== "lit" && count());
		return { field, said, search: (query) => {
			field.value = query;
			run();
		} };
	};

	const choices = (job) => vt.jobRoles.map((role, k) => {
		const list = vt.setList([[0, job.n - 1]]).filter((i) => job.role[i] === k && job.members[i].in_job);

		return { name: vt.jobRoleWords[role][1], list };
	}).filter((choice) => choice.list.length);

	/* Which processes: ranks, loader workers, ..., all */
	const roleChoice = (view) => {
		const all = choices(view.job);

		if (all.length !== 1 || all[0].list.length !== view.job.n)
			all.push({ name: "all processes", list: vt.setList([[0, view.job.n - 1]]) });
		if (!view.shown.length)
			view.shown = all[0].list;
		const select = vt.el("select", { "aria-label": "Which processes", onchange: () => view.show(all[select.selectedIndex].list) },
			all.map((choice) => vt.el("option", null, choice.name + " (" + vt.count(choice.list.length) + ")")));

		return all.length > 1 ? select : null;
	};

	const ORDERS = [["host", "by host and rank"], ["outlier", "outliers first"], ["state", "by state"]];

	const ordered = (view, order) => {
		const job = view.job, key = order === "outlier" ? (i) => (job.odd[i] ? 0 : job.alarmed[i] ? 1 : 2) :
			(i) => job.does[i];

		return order === "host" ? view.shown : view.shown.map((i) => [key(i), i]).sort((a, b) => a[0] - b[0] || a[1] - b[1])
			.map(([, i]) => i);
	};

	/* ---- outliers, before all others ---- */

	const MOST_OUTLIERS = 12;

	const outliers = (view) => {
		const job = view.job, list = vt.setList([[0, job.n - 1]]).filter((i) => job.odd[i]);

		return list.length ? vt.el("div", { class: "outliers", role: "group", "aria-label": "What differs" },
			vt.el("span", { class: "note" }, "Differs: "), list.slice(0, MOST_OUTLIERS).map((i) => vt.el("button", { type: "button",
				title: job.place(i) ? vt.placeText(job.place(i)) : null, onclick: () => vt.openMember(view, i) },
			vt.swatch("var(--" + job.stateColour(i) + ")"), job.name(i) + " ", vt.el("span", { class: "note" },
				job.mainDoing(i) ? vt.doesText(job.telling(i)) : job.state(i)[1]))),
			list.length > MOST_OUTLIERS ? vt.el("span", { class: "note" }, "and " + vt.count(list.length - MOST_OUTLIERS) +
				" more: is:outlier") : null) : null;
	};

	/* ---- the picture ---- */

	const matrix = (view) => {
		const cursor = vt.el("div", { class: "cursor", hidden: true });
		let layout = null, laid = "", order = "host", version = 0, at = -1;

		const lay = (width) => {
			if (laid !== width + " " + order + " " + version) {
				const kept = layout && at >= 0 ? layout.cells[at] : -1;

				laid = width + " " + order + " " + version;
				layout = layOut(view.job, ordered(view, order), order, width);
				at = layout.at.get(kept) ?? -1;
			}
			return layout.height;
		};
		const picture = vt.canvas(lay, (context) => {
			const mask = vt.viewMask(view);

			drawCells(context, view, layout, mask);
			drawOutliers(context, view, layout, mask);
			drawTexts(context, view, layout, mask);
			showCursor();
		}, "Processes, one cell each. Arrow keys move, Enter shows a process, n and p go to the next one that is marked.");
		const canvas = picture.canvas;

		const showCursor = () => {
			cursor.hidden = at < 0;
			if (at >= 0) {
				cursor.style.transform = `translate(${layout.x[at] - 3}px, ${layout.y[at] - 3}px)`;
				cursor.style.width = cursor.style.height = layout.size + 4 + "px";
			}
		};
		const moveTo = (k) => {
			at = k;
			showCursor();
			if (at >= 0)
				vt.tell(vt.memberLines(view.job, layout.cells[at]).filter(Boolean).map((line) =>
					(Array.isArray(line) ? line.join(" ") : line)).join("; "));
		};
		const isMarked = (i) => {
			const mask = vt.viewMask(view);

			return mask ? mask[i] : view.job.odd[i];
		};
		const nextMarked = (step) => {
			const n = layout.cells.length, mask = vt.viewMask(view);

			for (let k = 1; k <= n; k++) {
				const other = (((at < 0 && step < 0 ? 0 : at) + k * step) % n + n) % n, i = layout.cells[other];

				if (mask ? mask[i] : view.job.odd[i])
					return other;
			}
			return at;
		};
		const open = () => at >= 0 && vt.openMember(view, layout.cells[at], canvas);
		const last = () => layout.cells.length - 1;
		const keys = {
			ArrowLeft: () => moveTo(at < 0 ? 0 : neighbour(layout, at, -1, 0)),
			ArrowRight: () => moveTo(at < 0 ? 0 : neighbour(layout, at, 1, 0)),
			ArrowUp: () => moveTo(at < 0 ? 0 : neighbour(layout, at, 0, -1)),
			ArrowDown: () => moveTo(at < 0 ? 0 : neighbour(layout, at, 0, 1)),
			Home: () => moveTo(0),
			End: () => moveTo(last()),
			n: () => moveTo(nextMarked(1)),
			p: () => moveTo(nextMarked(-1)),
			Enter: open,
			" ": open,
			Escape: () => {
				vt.hideTip();
				view.pin(view.pinned);
			},
		};
		const under = (event) => {
			const box = canvas.getBoundingClientRect();

			return cellAt(layout, event.clientX - box.left, event.clientY - box.top);
		};

		canvas.setAttribute("role", "application");
		canvas.addEventListener("keydown", (event) => {
			if (layout && Object.hasOwn(keys, event.key) && !event.ctrlKey && !event.metaKey && !event.altKey) {
				event.preventDefault();
				keys[event.key]();
			}
		});
		canvas.addEventListener("focus", () => at < 0 && layout && layout.cells.length && moveTo(Math.max(0, layout.cells.findIndex(isMarked))));
		canvas.addEventListener("mousemove", (event) => {
			const k = layout ? under(event) : -1;

			canvas.style.cursor = k < 0 ? "default" : "pointer";
			if (k < 0)
				vt.hideTip();
			else
				vt.showTip(event, vt.memberLines(view.job, layout.cells[k]));
		});
		canvas.addEventListener("mouseleave", vt.hideTip);
		canvas.addEventListener("click", (event) => {
			const k = layout ? under(event) : -1;

			vt.hideTip();
			if (k >= 0) {
				moveTo(k);
				open();
			}
		});
		view.on((what) => {
			version += what === "shown" ? 1 : 0;
			picture.draw();
		});
		return { element: vt.el("div", { class: "matrix" }, canvas, cursor), setOrder: (to) => {
			order = to;
			picture.draw();
		} };
	};

	vt.jobPart({
		id: "ranks",
		title: "Ranks",
		wanted: (view) => view.job.n > 0,
		render: (section, view) => {
			const roles = roleChoice(view), { field, said, search } = searchField(view), picture = matrix(view);
			const order = vt.el("select", { "aria-label": "Order", onchange: () => picture.setOrder(ORDERS[order.selectedIndex][0]) },
				ORDERS.map(([, words]) => vt.el("option", null, words)));

			vt.append(section, [vt.el("div", { class: "tools" }, field, roles, order, said), legend(view, search), outliers(view),
				picture.element, vt.jobTable(view)]);
		},
	});
}
