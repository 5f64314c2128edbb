/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Items as a tree: by category, module, variable or type first, then along the path of their names. Items stay
 * numbers: there is a node for each beginning that paths have in common, and none for an item.
 */
{
	const MAX_DEPTH = 30; /* of a tree; names are the target's */

	/* "layers[3].mlp" is "layers", "[3]", ".mlp". Dots and brackets in brackets are none: m['a.b'].c */
	const cuts = (text) => {
		const found = [];
		let depth = 0;

		for (let i = 0; i < text.length; i++) {
			const c = text.charCodeAt(i);

			if (!depth && i && (c === 46 || c === 91))
				found.push(i);
			if (c === 91)
				depth++;
			else if (c === 93 && depth)
				depth--;
		}
		return found;
	};

	const splitPath = (text) => {
		const all = [];
		let start = 0;

		for (const end of [...cuts(text), text.length]) {
			if (end > start)
				all.push(text.slice(text[start] === "." ? start + 1 : start, end));
			start = end;
		}
		return all;
	};

	/* "losses in main (train.py:3)": how a name of that variable begins and ends */
	const variableParts = (variable) => {
		const at = variable.indexOf(" in ");

		return at > 0 ? { variable, stem: variable.slice(0, at), suffix: variable.slice(at) } :
			{ variable, stem: variable, suffix: "" };
	};

	/* What is between the beginning and the end; null: the name is another one's. */
	const between = (name, parts) => {
		const body = parts.suffix && name.endsWith(parts.suffix) ? name.slice(0, -parts.suffix.length) : name;

		return parts.stem && body.startsWith(parts.stem) ? body.slice(parts.stem.length) : null;
	};

	/*
	 * Names that say how a thing is held by another: "saved by MulBackward0 ← losses[0]", "x of a closure, kept by f". The
	 * holder comes first in the path.
	 */
	const HELD = [" ← ", ", kept by "];

	const heldBy = (name) => {
		for (const word of HELD) {
			const at = name.lastIndexOf(word);

			if (at > 0)
				return { what: name.slice(0, at), holder: name.slice(at + word.length) };
		}
		return null;
	};

	/* [path, what is left for the item itself] of a name */
	const namePath = (name, parts) => {
		const held = heldBy(name), own = held ? held.holder : name, rest = between(own, parts);
		const path = rest === null ? splitPath(own) : [parts.variable, ...splitPath(rest)];

		return held ? [path, held.what] : [path.slice(0, -1), path[path.length - 1] || name];
	};

	/* Of a parameter, its gradient, its state: what follows the module's path in the name. */
	const afterModule = (name, module, suffix) => {
		const at = name.indexOf(module), body = suffix && name.endsWith(suffix) ? name.slice(0, -suffix.length) : name;
		const rest = at < 0 ? name : body.slice(at + module.length).replace(/^\./, "");

		/* "optimizer.state[model.fc.weight]['exp_avg']" */
		return (rest.indexOf("]") < rest.indexOf("[") || !rest.includes("[") ? rest.replace("]", "") : rest) || name;
	};

	/* ---- nodes ---- */

	class Node {
		constructor(label, parent) {
			this.label = label;
			this.parent = parent;
			this.byLabel = null; /* Map of nodes below */
			this.kids = []; /* the same, the largest first once the tree is made */
			this.items = []; /* those that end here, the largest first */
			this.bytes = 0;
			this.blocks = 0;
			this.lit = 0; /* bytes of matches */
		}

		add(item, bytes) {
			this.items.push(item);
			this.bytes += bytes;
			this.blocks++;
		}

		below(label) {
			this.byLabel = this.byLabel || new Map();
			let node = this.byLabel.get(label);

			if (!node) {
				node = new Node(label, this);
				this.byLabel.set(label, node);
				this.kids.push(node);
			}
			return node;
		}

		/* Calls f with each item in it. */
		forEach(f) {
			for (const item of this.items)
				f(item);
			for (const kid of this.kids)
				kid.forEach(f);
		}
	}

	const joinLabels = (label, next) => label + (next[0] === "[" ? "" : /^\w+(\[|$)/.test(next) ? "." : ", ") + next;

	/* A node with nothing but one kid is one with it: "model.layers". */
	const joinOnly = (node, nodeOf) => {
		while (node.kids.length === 1 && !node.items.length) {
			const [kid] = node.kids;

			Object.assign(node, { label: joinLabels(node.label, kid.label), kids: kid.kids, items: kid.items, bytes: kid.bytes,
				blocks: kid.blocks });
			node.kids.forEach((one) => (one.parent = node));
			node.items.forEach((item) => (nodeOf[item] = node));
		}
	};

	/* Nodes have the sums of their own items so far. */
	const finish = (node, nodeOf, owned, level = 0) => {
		node.byLabel = null;
		if (level > 1)
			joinOnly(node, nodeOf);
		for (const kid of node.kids) {
			finish(kid, nodeOf, owned, level + 1);
			node.bytes += kid.bytes;
			node.blocks += kid.blocks;
		}
		node.kids.sort((a, b) => b.bytes - a.bytes);
		node.items = Int32Array.from(node.items, (i) => owned.rank[i]).sort().map((rank) => owned.order[rank]);
	};

	/* ---- what is first in a path, by what the tree is ---- */

	const FIRST = {
		category: (owned, i) => owned.category.values[owned.category.ids[i]],
		module: (owned, i) => owned.module.values[owned.module.ids[i]],
		variable: (owned, i) => owned.variable.values[owned.variable.ids[i]],
		type: (owned, i) => owned.type.values[owned.type.ids[i]],
	};
	const WITHOUT = { module: "in no module", variable: "from no variable", type: "held by nothing that is known" };

	const firstPath = (owned, by, i) => {
		const value = FIRST[by](owned, i);

		if (by === "category")
			return [value === "" ? vt.unownedWords(owned, i) : vt.categoryWords(value)];
		if (!value)
			return [WITHOUT[by]];
		return by === "module" ? splitPath(value) : [value];
	};

	/* Where an item without a name comes from, if that was recorded. */
	const originPath = (owned, i) => {
		const { report } = owned, block = owned.block[i], trace = block >= 0 ? report.traces[report.blocks.trace[block]] : null;
		const segment = block >= 0 ? report.segments[report.blocks.segment[block]] : null;

		if (trace && trace.title !== null && trace.title !== undefined)
			return [vt.frameText(report.frames[trace.title])];
		return segment ? [`pool ${segment.pool}, stream ${segment.stream === "0x0" ? "default" : segment.stream}`] : [];
	};

	const unnamedPath = (owned, by, i) => {
		const words = vt.unownedWords(owned, i);

		return by === "category" && owned.category.values[owned.category.ids[i]] === "" ? originPath(owned, i) :
			[words, ...originPath(owned, i)];
	};

	/* The rest of the path, and what is left for the item. */
	const restPath = (owned, by, i, parts) => {
		const module = owned.module.values[owned.module.ids[i]], name = owned.name[i];

		if (!name)
			return [unnamedPath(owned, by, i), vt.itemAddress(owned, i)];
		if (module && by !== "variable")
			return [by === "module" ? [] : splitPath(module), afterModule(name, module, parts.suffix)];
		const [path, left] = namePath(name, parts);

		return [by === "variable" && path[0] === parts.variable ? path.slice(1) : path, left];
	};

	const lastCut = (text) => {
		let depth = 0, last = -1;

		for (let i = 0; i < text.length; i++) {
			const c = text.charCodeAt(i);

			if (c === 46) {
				if (!depth)
					last = i;
			} else if (c === 91) {
				if (!depth)
					last = i;
				depth++;
			} else if (c === 93 && depth) {
				depth--;
			}
		}
		return last;
	};

	/*
	 * The beginning of a name: items with the same one, and the same facts, are at one node. null: the path has to be
	 * worked out.
	 */
	const beginning = (owned, by, i, parts) => {
		const name = owned.name[i];

		if (name === "")
			return null;
		if (by !== "variable" && owned.module.values[owned.module.ids[i]] !== "")
			return "";
		const rest = between(name, parts);

		if (rest === null || (rest.includes(" ") && heldBy(name)))
			return null;
		/* "" is behind the variable, which an item without a rest is itself */
		return rest === "" ? "\u0001" : rest.slice(0, Math.max(lastCut(rest), 0));
	};

	/* Of the facts that a path begins with. */
	const factsKey = ({ category, variable, type, module }, i) => ((category.ids[i] * variable.values.length + variable.ids[i]) *
		type.values.length + type.ids[i]) * module.values.length + module.ids[i];

	/*
	 * The tree of the items that are wanted(item): { root, nodeOf: node of each item, label(item): what its path leaves for
	 * the item }.
	 */
	vt.ownerTree = (owned, by, wanted = () => true) => {
		const root = new Node("all", null), nodeOf = new Array(owned.n).fill(null), known = new Map();
		const parts = owned.variable.values.map(variableParts), partsOf = (i) => parts[owned.variable.ids[i]];
		const make = (i) => [...firstPath(owned, by, i), ...restPath(owned, by, i, partsOf(i))[0]].slice(0, MAX_DEPTH)
			.reduce((node, label) => node.below(label), root);
		let last = null; /* neighbours mostly are of one node */
		const nodeFor = (i) => {
			const text = beginning(owned, by, i, partsOf(i)), key = factsKey(owned, i);

			if (text === null)
				return make(i);
			if (last && last.key === key && last.text === text)
				return last.node;
			const same = known.get(key) || known.set(key, new Map()).get(key);
			const node = same.get(text) || make(i);

			same.set(text, node);
			last = { key, text, node };
			return node;
		};

		for (let i = 0; i < owned.n; i++) {
			if (wanted(i)) {
				nodeOf[i] = nodeFor(i);
				nodeOf[i].add(i, owned.bytes[i]);
			}
		}
		finish(root, nodeOf, owned);
		return { root, nodeOf, by, owned, label: (i) => restPath(owned, by, i, partsOf(i))[1] };
	};

	const clearLit = (node) => {
		node.lit = 0;
		node.kids.forEach(clearLit);
	};

	const sumLit = (node) => {
		for (const kid of node.kids)
			node.lit += sumLit(kid);
		return node.lit;
	};

	/* Sets how much of each node is lit; found: as of vt.matchOwners(), or null. */
	vt.lightTree = (tree, found) => {
		clearLit(tree.root);
		for (let i = 0; found && i < found.lit.length; i++)
			if (found.lit[i] && tree.nodeOf[i])
				tree.nodeOf[i].lit += tree.owned.bytes[i];
		sumLit(tree.root);
	};

	/* Some of a node's kids and items as a node of their own. words: how many, and how large */
	vt.ownerGroup = (words, parent, { kids, items, bytes, blocks }) =>
		Object.assign(new Node(words.join(" "), parent), { words, kids, items, bytes, blocks, isGroup: true });
}
