/* SPDX-License-Identifier: Apache-2.0 */
/* The tasks of asyncio: their tree, each with the chain of its coroutines. */
{
	const LINES = 100; /* of one list, at first */
	const LINES_BELOW = 20;
	const LINES_IN_ALL = 300;
	const OPEN_LINES = 12;
	const MOST_PLACE = 100; /* characters */

	const head = (line) => {
		const task = line.tasks[0], n = line.tasks.length, names = vt.taskNames(line.tasks);
		const frame = vt.tellingFrame(task.stack.frames) || task.stack.frames[0];

		return [
			vt.el("span", { class: "mark", "aria-hidden": "true" }, task.waits_for.length ? "○" : "●"),
			vt.el("b", { class: "thread-name" }, vt.short(n > 1 ? `${vt.count(n)} tasks: ${names}` : names)),
			vt.el("span", { class: "thread-facts" }, vt.short(vt.taskState(line)),
				line.repeated ? " · shown above" : null),
			vt.el("span", { class: "thread-place" }, frame ? [vt.short(vt.functionName(frame), MOST_PLACE), " ",
				vt.el("span", { class: "note" }, vt.short(vt.place(frame), MOST_PLACE))] : null),
		];
	};

	const contents = (line) => [
		line.tasks.length > 1 ? vt.el("div", { class: "note tids" }, line.tasks.map(vt.taskName).join(", ")) : null,
		vt.showStack(line.tasks[0].stack.frames),
		vt.stackNotes(line.tasks[0].stack),
	].filter(Boolean);

	const createLine = (line, searching, budget) => {
		const { element } = vt.createDisclosure(head(line), () => contents(line));

		if (searching && line.isHit)
			element.classList.add("found");
		if (line.waitsFor.length)
			element.append(createList(line.waitsFor, searching, budget, LINES_BELOW));
		return element;
	};

	/* budget: { lines: how many more are drawn now } */
	const createList = (lines, searching, budget, limit = LINES) => {
		const list = vt.el("ol", { class: "threads tasks" });

		const add = (from, most, some) => {
			const end = from + Math.min(lines.length - from, most, some.lines);

			some.lines -= end - from;
			list.append(...lines.slice(from, end).map((line) => createLine(line, searching, some)));
			if (end < lines.length)
				list.append(moreItem(lines.length - end, () => add(end, LINES, { lines: LINES_IN_ALL })));
		};

		add(0, limit, budget);
		return list;
	};

	const moreItem = (left, add) => {
		const item = vt.el("li", null, vt.el("button", { type: "button", onclick: () => {
			const before = item.previousElementSibling, list = item.parentElement;

			item.remove();
			add();
			vt.focusOn((before ? before.nextElementSibling : list.firstElementChild).querySelector("button"));
		} }, `show more (${vt.counted(left, "line is", "lines are")} left)`));

		return item;
	};

	const STATES = [["waiting", "wait"], ["ready", "ready"], ["running", "run now"]];

	const summary = (all, tasks) => {
		const tids = new Set(all.map((task) => task.tid));
		const states = STATES.map(([state, word]) => [all.filter((task) => task.state === state).length, word])
			.filter(([n]) => n).map(([n, word]) => `${vt.count(n)} ${word}`).join(", ");

		return [
			vt.counted(all.length, "task") + (tasks.cut ? " and more" : "") + (states ? ": " + states : ""),
			tids.size === 1 && all[0].tid ? `event loop in thread ${all[0].tid}` : null,
			tids.size > 1 ? `event loops in ${tids.size} threads` : null,
			!tasks.exact && all.length ? "perhaps not of one moment" : null,
		].filter(Boolean).join("; ");
	};

	/* Few lines are shown with their stacks. */
	const isSmall = (lines) => lines.length <= OPEN_LINES && lines.every((line) => line.waitsFor.length < OPEN_LINES);

	const createTree = (all) => {
		const status = vt.el("span", { class: "note", role: "status" });
		const tree = vt.buildTaskTree(all), place = vt.el("div");

		const fill = (lines, searching) => {
			place.replaceChildren(createList(lines, searching, { lines: LINES_IN_ALL }));
			if (!searching && isSmall(lines))
				Array.from(place.querySelectorAll(".thread-head")).slice(0, OPEN_LINES).forEach((one) => one.click());
		};
		const filter = () => {
			const words = input.value.toLowerCase().split(/\s+/).filter(Boolean), hits = new Set();
			const found = words.length ? vt.filterTaskTree(tree, words, hits) : tree;

			status.textContent = words.length ? vt.counted(hits.size, "task") : "";
			fill(found, words.length > 0);
		};
		const input = vt.el("input", { type: "search", placeholder: "task, function, file",
			"aria-label": "Filter tasks by name, state, function or file", oninput: filter });

		fill(tree, false);
		return [all.length > 1 ? vt.el("div", { class: "tools" }, input, status) : null, place].filter(Boolean);
	};

	vt.hasTasks = (json) => Boolean(json.tasks && (json.tasks.why || json.tasks.cut || json.tasks.tasks.length));

	/* json: a report, or one process of a document of stacks */
	vt.showTasks = (container, json) => {
		const all = json.tasks.tasks;

		if (json.tasks.why)
			container.append(vt.el("p", { class: "note" }, "There is no list: ", vt.short(json.tasks.why)));
		if (all.length || json.tasks.cut)
			container.append(vt.el("p", { class: "facts" }, summary(all, json.tasks)), ...createTree(all));
	};

	vt.view({
		id: "tasks",
		title: "Tasks of asyncio",
		wanted: (report) => vt.hasTasks(report.json),
		render: (section, report) => vt.showTasks(section, report.json),
	});
}
