/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tasks of asyncio as a tree: who waits for whom. Those that nobody waits for come first; tasks that are alike are one
 * line. Thousands of tasks have few different lines.
 */
{
	const MOST_DEPTH = 30; /* of the tree */

	const frameKey = (frame) => [frame.function, frame.file, frame.line, frame.locals];

	/*
	 * Numbers that are equal for tasks that are alike: in the same state, at the same place, and with a like tree of
	 * those that they wait for.
	 */
	const findShapes = (tasks) => {
		const numbers = new Map(), shapes = new Array(tasks.length).fill(null);

		const shapeOf = (i, depth) => {
			if (shapes[i] !== null)
				return shapes[i];
			const task = tasks[i];

			shapes[i] = -1 - i; /* of a ring, or too deep: like no other */
			if (depth === MOST_DEPTH)
				return shapes[i];
			const key = JSON.stringify([task.state, task.tid, task.awaits, task.stack.why,
				task.stack.frames.map(frameKey), task.waits_for.map((number) => shapeOf(number, depth + 1))]);

			numbers.set(key, numbers.get(key) ?? numbers.size);
			return (shapes[i] = numbers.get(key));
		};

		tasks.forEach((_, i) => shapeOf(i, 0));
		return shapes;
	};

	/* Those of the numbers that are alike, the most first. */
	const alike = (numbers, shapes, drawn) => {
		const byShape = new Map();

		for (const number of new Set(numbers)) {
			const key = shapes[number] + (drawn.has(number) ? " again" : "");

			if (!byShape.has(key))
				byShape.set(key, []);
			byShape.get(key).push(number);
		}
		return [...byShape.values()].sort((a, b) => b.length - a.length);
	};

	/*
	 * tasks: as in the JSON. Returns the lines that nobody waits for: { tasks, awaited: tasks, waitsFor: lines, repeated }.
	 * A task that several wait for is in full below the first of them; repeated is true elsewhere, as it is where a ring
	 * begins again.
	 */
	vt.buildTaskTree = (tasks) => {
		const awaited = new Set(tasks.flatMap((task) => task.waits_for)), shapes = findShapes(tasks), drawn = new Set();

		const lines = (numbers, depth) => alike(numbers, shapes, drawn).map((some) => {
			const repeated = drawn.has(some[0]), waitsFor = some.flatMap((number) => tasks[number].waits_for);

			some.forEach((number) => drawn.add(number));
			return { tasks: some.map((number) => tasks[number]), repeated,
				awaited: waitsFor.map((number) => tasks[number]),
				waitsFor: repeated || depth === MOST_DEPTH ? [] : lines(waitsFor, depth + 1) };
		});
		const roots = lines(tasks.map((_, i) => i).filter((i) => !awaited.has(i)), 0);

		/* What is left is in rings, or too deep. */
		tasks.forEach((_, i) => drawn.has(i) || roots.push(...lines([i], 0)));
		return roots;
	};

	/* ---- in words ---- */

	const NAMES = 4; /* of several tasks */

	const STATES = { running: "runs now", ready: "ready, the event loop has not run it yet" };

	vt.taskName = (task) => task.name || "(a task without a name)";

	vt.taskNames = (tasks) => tasks.slice(0, NAMES).map(vt.taskName).join(", ") +
		(tasks.length > NAMES ? ` and ${vt.count(tasks.length - NAMES)} more` : "");

	vt.taskState = (line) => vt.lookup(STATES, line.tasks[0].state) ||
		"waits for " + (line.awaited.length ? vt.taskNames(line.awaited) : "a " + (line.tasks[0].awaits || "Future"));

	/* ---- searching ---- */

	const frameText = (frame) => `${frame.function || ""} ${frame.file || ""}${frame.line ? ":" + frame.line : ""}`;

	/* What all tasks of a line have in common; not the names of others, for which they wait. */
	const lineText = (line) => [vt.lookup(STATES, line.tasks[0].state) || "waits for a " + line.tasks[0].awaits,
		...line.tasks[0].stack.frames.map(frameText)].join("\n").toLowerCase();

	/*
	 * The lines that have all words (in lower case), with the tasks that do, or lead to such lines. Adds these tasks to
	 * the set.
	 */
	vt.filterTaskTree = (lines, words, hits) => lines.map((line) => {
		line.text = line.text || lineText(line);
		const own = words.filter((word) => !line.text.includes(word));
		const tasks = line.tasks.filter((task) => own.every((word) => vt.taskName(task).toLowerCase().includes(word)));
		const below = vt.filterTaskTree(line.waitsFor, words, hits), isHit = tasks.length > 0;

		tasks.forEach((task) => hits.add(task));
		if (!isHit && !below.length)
			return null;
		return { ...line, tasks: isHit ? tasks : line.tasks, waitsFor: isHit ? line.waitsFor : below, isHit };
	}).filter(Boolean);
}
