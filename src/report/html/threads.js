/* SPDX-License-Identifier: Apache-2.0 */
/* The list of threads. vt.showThreads() is for other pages, too. */
{
	const OPEN_AT_FIRST = 12; /* groups */
	const SHOWN_AT_FIRST = 60;
	const FILLED_AT_ONCE = 6; /* open stacks, after a search; the others when they come near */

	/* The folded line of those that wait for work in pools. */
	const createIdle = (groups, rowOf) => {
		const n = vt.counted(vt.countThreads(groups), "thread");
		const head = [vt.el("span", { class: "mark", "aria-hidden": "true" }, "○"),
			vt.el("span", { class: "thread-idle" }, `${n} idle in thread pools: ${vt.threadKinds(groups)}`)];
		const line = vt.createDisclosure(head, () => [vt.el("ol", { class: "threads" },
			groups.map((group) => rowOf(group).element))]);

		line.body.classList.add("inner");
		return line;
	};

	/* Arrow keys go from head to head. */
	const moveByKey = (list) => (event) => {
		const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;

		if (!step || !event.target.classList.contains("thread-head"))
			return;
		const heads = Array.from(list.querySelectorAll(".thread-head"));
		const next = heads[heads.indexOf(event.target) + step];

		event.preventDefault();
		if (next)
			next.focus();
	};

	class ThreadList {
		constructor(json) {
			this.json = json;
			this.groups = vt.groupThreads(json);
			this.working = this.groups.filter((group) => !group.idle);
			this.found = null; /* by the last search */
			this.shown = SHOWN_AT_FIRST;
			this.rows = new Map();
			const resting = this.groups.filter((group) => group.idle);

			this.idle = resting.length ? createIdle(resting, (group) => this.restingRow(group)) : null;
			this.build();
			this.working.slice(0, OPEN_AT_FIRST).forEach((group) => this.rowOf(group).open(true));
			this.fill();
		}

		build() {
			this.list = vt.el("ol", { class: "threads" });
			this.list.addEventListener("keydown", moveByKey(this.list));
			this.status = vt.el("span", { class: "note", role: "status" });
			this.input = vt.el("input", { type: "search", placeholder: "function, file, thread",
				"aria-label": "Filter threads by function, file, name, tid or what they do",
				oninput: () => this.filter(), onfocus: () => this.search(),
				onkeydown: (event) => this.clearByKey(event) });
			this.more = vt.el("button", { type: "button", hidden: true, onclick: () => {
				const next = this.listed()[this.shown];

				this.shown *= 4;
				this.fill();
				vt.focusOn(this.rowOf(next).button);
			} });
			this.element = vt.el("div", null, vt.el("p", { class: "facts" }, vt.threadsSummary(this.json, this.groups)),
				this.groups.length > 1 ? this.tools() : null, this.list, this.more);
		}

		tools() {
			return vt.el("div", { class: "tools" }, this.input,
				vt.el("button", { type: "button", onclick: () => this.openAll(true) }, "expand all"),
				vt.el("button", { type: "button", onclick: () => this.openAll(false) }, "collapse all"), this.status);
		}

		rowOf(group) {
			if (!this.rows.has(group))
				this.rows.set(group, Object.assign(vt.createThreadRow(group, this.json.view), { marked: null }));
			return this.rows.get(group);
		}

		/* The row of one in a pool, which a search may have marked. */
		restingRow(group) {
			const row = this.rowOf(group);

			if (row.marked)
				row.mark(null, true);
			row.marked = null;
			return row;
		}

		/* The groups that the list is of; those in pools have a line of their own unless something is searched. */
		listed() {
			return this.found ? this.found.groups : this.working;
		}

		fill() {
			const rows = this.listed().slice(0, this.shown).map((group) => this.rowOf(group));
			const idle = this.idle && !this.found ? [this.idle.element] : [], left = this.listed().length - this.shown;

			this.list.replaceChildren(...rows.map((row) => row.element), ...idle);
			this.more.hidden = left <= 0;
			this.more.textContent = `show more (${vt.counted(left, "group is", "groups are")} left)`;
			rows.filter((row) => row.marked !== this.found).forEach((row, i) => {
				row.marked = this.found;
				row.mark(this.found && this.found.isHit, i < FILLED_AT_ONCE);
			});
		}

		/* Made when it is first needed. */
		search() {
			this.find = this.find || vt.createThreadSearch(this.groups);
			return this.find;
		}

		filter() {
			const words = this.input.value.toLowerCase().split(/\s+/).filter(Boolean);

			this.found = words.length ? this.search()(words) : null;
			this.shown = SHOWN_AT_FIRST;
			this.status.textContent = this.found ? vt.counted(vt.countThreads(this.found.groups), "thread") + " in " +
				vt.counted(this.found.groups.length, "group") : "";
			/* The rows of those in pools may have been in a list of what was found. */
			if (this.idle && !this.found)
				this.idle.open(false);
			this.fill();
		}

		clear() {
			this.input.value = "";
			this.filter();
		}

		clearByKey(event) {
			if (event.key !== "Escape" || !this.input.value)
				return;
			event.preventDefault();
			this.clear();
		}

		openAll(wanted) {
			for (const group of this.listed().slice(0, this.shown))
				this.rowOf(group).open(wanted);
			if (this.idle && !wanted)
				this.idle.open(false);
		}

		/* Shows a thread: opened, in view, with the focus. */
		go(tid) {
			const group = this.groups.find((one) => one.threads.some((thread) => thread.tid === tid));

			if (!group)
				return;
			if (this.found && !this.found.groups.includes(group))
				this.clear();
			this.shown = Math.max(this.shown, this.listed().indexOf(group) + 1);
			this.fill();
			if (group.idle && !this.found)
				this.idle.open(true);
			const row = this.rowOf(group);

			row.open(true);
			row.element.scrollIntoView({ block: "center" });
			row.button.focus({ preventScroll: true });
		}
	}

	/* One for each document: a picture beside the list leads to its threads. */
	const lists = new WeakMap();

	const listOf = (json) => {
		if (!lists.has(json))
			lists.set(json, new ThreadList(json));
		return lists.get(json);
	};

	/* json: a report, or one process of a document of stacks. */
	vt.showThreads = (container, json) => container.append(listOf(json).element);

	/* Shows one of the threads of a document. section: the element that shows or will show them. */
	vt.goToThread = (json, tid, section = document.getElementById("threads")) => {
		if (section && section.vtRender)
			vt.drawPart(section);
		listOf(json).go(tid);
	};

	vt.view({
		id: "threads",
		title: "Threads",
		wanted: (report) => Boolean(report.json.threads && report.json.threads.length),
		render: (section, report) => vt.showThreads(section, report.json),
	});
}
