/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks as a tree, outermost frame first: what a flame graph draws. A node is { name, place, file, kind: "python",
 * "native", "none" (no frame) or "root", strong, values: one for each weight, children, parent, depth }.
 */
{
	const makeNode = (parent, fields) => ({ name: "", place: "", file: null, kind: "none", strong: false, children: [], parent,
		depth: parent ? parent.depth + 1 : 0, values: [], known: new Map(), ...fields });

	/* Calls of one line of one function are one node; native code without lines has no more than the function. */
	const keyOf = (frame) => (frame.function ? [frame.kind, frame.function, frame.file || frame.module, frame.line].join("\0") :
		frame.kind + "\0" + (frame.module_offset || frame.pc) + "\0" + frame.module);

	const frameFields = (frame) => ({ name: vt.functionName(frame), place: vt.place(frame), file: frame.file || frame.module,
		kind: frame.kind === "native" ? "native" : "python", strong: vt.isProgram(frame) || frame.telling === true });

	const childOf = (node, key, fields) => {
		if (!node.known.has(key)) {
			node.known.set(key, makeNode(node, fields()));
			node.children.push(node.known.get(key));
		}
		return node.known.get(key);
	};

	const addValues = (node, values) => values.forEach((value, i) => (node.values[i] = (node.values[i] || 0) + value));

	/*
	 * stacks: [{ frames: innermost first, or title: of what has none; values: [one for each weight] }]; name: of all of them
	 * together.
	 */
	vt.stackTree = (name, stacks) => {
		const root = makeNode(null, { name, kind: "root" });

		for (const { frames, title, values } of stacks) {
			let node = root;

			addValues(root, values);
			for (let i = frames.length - 1; i >= 0; i--) {
				node = childOf(node, keyOf(frames[i]), () => frameFields(frames[i]));
				addValues(node, values);
			}
			if (!frames.length)
				addValues(childOf(root, "\0none " + title, () => ({ name: title })), values);
		}
		return root;
	};

	/*
	 * A tree that was made elsewhere: { name, frame (its name and place then), value or values, children }, the sums of
	 * children in their parents.
	 */
	const nodeOf = (plain, parent) => makeNode(parent, { name: plain.name, kind: parent ? "none" : "root",
		...(plain.frame ? frameFields(plain.frame) : {}), values: plain.values || [plain.value], of: plain });

	vt.flameTree = (plain) => {
		const root = nodeOf(plain, null), todo = [root];

		/* Not by recursion: stacks are thousands of frames deep. */
		while (todo.length) {
			const node = todo.pop();

			node.children = (node.of.children || []).map((child) => nodeOf(child, node));
			for (const child of node.children)
				todo.push(child);
		}
		return root;
	};

	/* Which frames of a stack are shown: [[name, title, (frames) => frames]] */
	vt.frameChoices = [
		["python", "Python frames", (frames) => {
			const python = frames.filter((frame) => frame.kind === "python");

			return python.length ? python : frames;
		}],
		["program", "the program's own frames", (frames) => {
			const own = frames.filter(vt.isProgram), python = frames.filter((frame) => frame.kind === "python");

			return own.length ? own : python.length ? python : frames;
		}],
		["all", "all frames", (frames) => frames],
	];
}
