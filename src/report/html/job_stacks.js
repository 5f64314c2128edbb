/* SPDX-License-Identifier: Apache-2.0 */
/* All stacks of a job as trees, outermost frames first, with the processes at each node. Branches open on demand. */
{
	const FIRST_OPEN = 40; /* nodes of a tree that are open at first */
	const MOST_CHILDREN = 50, LAST_FRAMES = 2;

	const ROLE_TITLES = { rank: "Ranks", loader: "Loader workers", checkpoint: "Checkpoint writers", launcher: "Launchers",
		other: "Other processes" };

	/* Neighbours of one role and kind of threads: [{ title, roots: [index] }]; children: of each node */
	const sectionsOf = (tree) => {
		const sections = [], children = tree.map(() => []);

		tree.forEach((node, k) => {
			const last = sections[sections.length - 1];

			if (!last || last.role !== node.role || last.main !== node.main_threads)
				sections.push({ role: node.role, main: node.main_threads, roots: [],
					title: ROLE_TITLES[node.role] + ": " + (node.main_threads ? "main threads" : "other threads") });
			if (node.parent === null)
				sections[sections.length - 1].roots.push(k);
			else
				children[node.parent].push(k);
		});
		return { sections, children };
	};

	const frame = (one) => vt.el(one.program ? "strong" : "span", { class: one.kind === "native" ? "native" : null,
		title: one.file || one.module || null }, vt.functionName(one), " ", vt.el("span", { class: "note" }, vt.place(one)));

	/* The program's code, and where paths fork or end; a button shows the libraries between. */
	const framesOf = (job, node) => {
		const frames = node.frames.map((i) => job.json.frames[i]), out = [];
		let hidden = [];

		const flush = () => {
			if (!hidden.length)
				return;
			const list = hidden, more = vt.el("button", { type: "button", class: "more", title: list.length + " frames of libraries",
				"aria-label": "show " + list.length + " frames", onclick: (event) => {
					event.stopPropagation();
					more.replaceWith(...list.flatMap((one, k) => (k ? [" › ", frame(one)] : [frame(one)])));
				} }, "…");

			out.push(more);
			hidden = [];
		};

		frames.forEach((one, k) => {
			if (k > 0 && k + LAST_FRAMES < frames.length && !one.program) {
				hidden.push(one);
				return;
			}
			flush();
			out.push(frame(one));
		});
		return out.flatMap((one, k) => (k ? [" › ", one] : [one]));
	};

	const does = (node) => (node.does ? vt.el("span", { class: "does" }, node.frames.length ? ": " : "", node.does,
		node.threads > vt.setSize(node.members) ? " (" + vt.count(node.threads) + " threads)" : "") : null);

	/* The tree of one section. */
	const build = (view, section, children) => {
		const tree = view.job.tree, whole = section.roots.reduce((n, k) => n + vt.setSize(tree[k].members), 0);
		let open = 0;

		const item = (k, level) => {
			const node = tree[k], below = children[k], size = vt.setSize(node.members);
			const group = vt.el("ul", { role: "group", hidden: true });
			const row = vt.el("div", { class: "row" }, vt.el("span", { class: "twist", "aria-hidden": "true" }, below.length ? "▸" : ""),
				vt.setButton(view, node.members, { tabindex: "-1" }, view.job.setCount(node.members, 4)),
				vt.el("span", { class: "share", "aria-hidden": "true" }, vt.el("i", { style: { width: (100 * size) / (whole || 1) + "%" } })),
				vt.el("span", { class: "way" }, framesOf(view.job, node), does(node)));
			const line = vt.el("li", { role: "treeitem", tabindex: "-1", "aria-level": level, class: node.outlier ? "odd" : null,
				"aria-expanded": below.length ? "false" : null, "data-node": k }, row, below.length ? group : null);

			line.vtToggle = (to) => {
				const now = line.getAttribute("aria-expanded") === "true";

				if (!below.length || to === now)
					return;
				line.setAttribute("aria-expanded", String(!now));
				row.firstChild.textContent = now ? "▸" : "▾";
				group.hidden = now;
				if (!now && !group.firstChild)
					fill(group, below, level + 1);
			};
			row.addEventListener("click", (event) => event.target.closest("button") || line.vtToggle());
			if (below.length && (open += below.length) <= FIRST_OPEN)
				line.vtToggle(true);
			return line;
		};
		const fill = (list, nodes, level, from = 0) => {
			list.append(...nodes.slice(from, from + MOST_CHILDREN).map((k) => item(k, level)));
			if (nodes.length > from + MOST_CHILDREN) {
				const more = vt.el("li", { role: "none" }, vt.el("button", { type: "button", onclick: () => {
					more.remove();
					fill(list, nodes, level, from + MOST_CHILDREN);
				} }, `show more (${vt.count(nodes.length - from - MOST_CHILDREN)} are left)`));

				list.append(more);
			}
		};
		const list = vt.el("ul", { role: "tree", class: "stacks", "aria-label": section.title, onkeydown: keys, onfocusin: (event) => {
			const at = event.target.closest("[role=treeitem]");

			list.querySelectorAll("[role=treeitem][tabindex='0']").forEach((one) => one.setAttribute("tabindex", "-1"));
			if (at)
				at.setAttribute("tabindex", "0");
		} });

		fill(list, section.roots, 1);
		if (list.firstChild)
			list.firstChild.setAttribute("tabindex", "0");
		return list;
	};

	const visible = (tree) => Array.from(tree.querySelectorAll("[role=treeitem]")).filter((one) => one.offsetParent !== null);

	const keys = (event) => {
		const tree = event.currentTarget, item = event.target.closest("[role=treeitem]");

		if (!item || event.target !== item)
			return;
		const list = visible(tree), at = list.indexOf(item), expanded = item.getAttribute("aria-expanded");
		const go = (to) => to && to.focus();
		const actions = {
			ArrowDown: () => go(list[at + 1]),
			ArrowUp: () => go(list[at - 1]),
			Home: () => go(list[0]),
			End: () => go(list[list.length - 1]),
			ArrowRight: () => (expanded === "false" ? item.vtToggle(true) : expanded && go(list[at + 1])),
			ArrowLeft: () => (expanded === "true" ? item.vtToggle(false) : go(item.parentElement.closest("[role=treeitem]"))),
			Enter: () => item.querySelector("button.set").click(),
		};

		if (Object.hasOwn(actions, event.key)) {
			event.preventDefault();
			actions[event.key]();
		}
	};

	/* ---- the same as a flame graph, by threads: a process has several on different ways ---- */

	const LEAST_PART = 4000; /* what is narrower is not drawn */

	/* Frames of a node, each in the one before; then what its threads do, or its children. */
	const flameOf = (job, children, whole, k) => {
		const node = job.tree[k], frames = node.frames.map((i) => job.json.frames[i]), same = { value: node.threads, members: node.members };
		const wide = (child) => job.tree[child].threads * LEAST_PART >= whole;
		const outliers = children[k].filter((child) => job.tree[child].outlier && !wide(child)).slice(0, MOST_CHILDREN);
		const below = [...children[k].filter(wide), ...outliers].map((child) => flameOf(job, children, whole, child));
		let inner = node.does ? [...below, { ...same, name: node.does, children: [] }] : below;

		for (const frame of frames.reverse())
			inner = [{ ...same, name: "", frame, children: inner }];
		return inner.length === 1 ? inner[0] : { ...same, name: "", children: inner };
	};

	const flameTree = (job, section, children) => {
		const whole = section.roots.reduce((n, k) => n + job.tree[k].threads, 0);

		return vt.flameTree({ name: section.title, value: whole, members: null, children: section.roots.map((k) =>
			flameOf(job, children, whole, k)) });
	};

	const flame = (view, section, children) => {
		const box = vt.el("div"), who = vt.el("p", null, vt.el("span", { class: "note" }, "A click on a frame names its processes here."));
		const graph = vt.flameGraph(box, flameTree(view.job, section, children), { label: "Flame graph of " + section.title,
			weights: [{ title: "threads", format: (n) => vt.plural(n, "thread") }] });
		const tell = () => {
			const node = graph.cursor() || graph.zoomed(), members = node && node.of && node.of.members;

			if (members)
				who.replaceChildren(vt.el("code", null, node.name), " ", vt.setButton(view, members, null, view.job.setCount(members, 12)));
		};

		graph.canvas.addEventListener("click", tell);
		graph.canvas.addEventListener("keydown", tell);
		box.append(who);
		return box;
	};

	const flameSwitch = (view, section, children) => {
		const place = vt.el("div"), button = vt.el("button", { type: "button", "aria-expanded": "false", onclick: () => {
			const open = button.getAttribute("aria-expanded") === "true";

			button.setAttribute("aria-expanded", String(!open));
			place.replaceChildren(...(open ? [] : [flame(view, section, children)]));
		} }, "flame graph");

		return { place, button };
	};

	vt.jobPart({
		id: "stacks",
		title: "Stacks",
		wanted: (view) => view.job.tree.length > 0,
		render: (section, view) => {
			const { sections, children } = sectionsOf(view.job.tree);

			section.append(vt.el("p", { class: "note" }, "Outermost frames first. In brackets how many processes are on a way; " +
				"a click on them marks them in the matrix. Arrow keys open and close branches."));
			for (const one of sections) {
				const { place, button } = flameSwitch(view, one, children);

				section.append(vt.el("h3", null, one.title, " ", button), place, build(view, one, children));
			}
		},
	});
}
