/* SPDX-License-Identifier: Apache-2.0 */
/* The part "Owners": what the memory in use is, as a treemap with a search, and as tables. */
{
	const BY = [["category", "category"], ["module", "module"], ["variable", "variable"], ["type", "type of holder"]];

	const field = (label, input) => vt.el("label", { class: "field" }, vt.el("span", { class: "note" }, label), " ", input);

	/* ---- what would be freed, what has no owner, JAX ---- */

	const freedColumns = [
		{ title: "size", number: true, value: (row) => row.bytes, cell: (row) => vt.bytes(row.bytes) },
		{ title: "blocks", number: true, value: (row) => row.blocks, cell: (row) => vt.count(row.blocks) },
		{ title: "what", value: (row) => row.name, cell: (row) => [row.words || vt.el("code", null, row.name),
			row.items ? vt.el("span", { class: "note" }, ` (${vt.count(row.items)} items)`) : null,
			row.mostly_activations ? vt.el("span", { class: "note" }, ", mostly what graphs saved") : null,
			row.outdated ? vt.el("span", { class: "note" }, ", of graphs that no backward() can use") : null] },
		{ title: "certain", value: (row) => (row.certain ? "yes" : "probably") },
	];

	/* Of PyTorch's blocks and all libraries' arrays. */
	const sumsOf = (owners, field, key, code) => [owners, ...(owners.libraries || [])].flatMap((one) => one[field] || [])
		.filter((one) => one[key] === code).reduce((all, one) => ({ bytes: all.bytes + one.bytes, blocks: all.blocks + one.blocks }),
			{ bytes: 0, blocks: 0 });

	const freedPart = (owners) => {
		const garbage = sumsOf(owners, "categories", "category", "garbage"), rows = owners.frees || [];
		const all = garbage.bytes ? [{ ...garbage, name: "gc.collect()", words: "garbage: gc.collect() frees it", certain: false }, ...rows] : rows;

		return all.length ? [vt.el("h3", null, "What would be freed if it went"),
			vt.table(freedColumns, all, { limit: 10, caption: "What would be freed if it went", sortBy: 0 }).element] : null;
	};

	const unownedRows = (owners) => [
		...(owners.unowned || []).map((one) => ({ ...one, words: vt.words("unowned", one.why), of: "PyTorch" })),
		...(owners.libraries || []).flatMap((library) => library.unowned.map((one) => ({ ...one,
			words: vt.words("unowned array", one.why), of: vt.words("library", library.library) }))),
	];

	const unownedPart = (owners) => {
		const rows = unownedRows(owners);

		return rows.length ? [vt.el("h3", null, "Without an owner, and why"), vt.table([
			{ title: "size", number: true, value: (row) => row.bytes, cell: (row) => vt.bytes(row.bytes) },
			{ title: "blocks", number: true, value: (row) => row.blocks, cell: (row) => vt.count(row.blocks) },
			{ title: "why", value: (row) => row.words },
			{ title: "memory of", value: (row) => row.of },
		], rows, { caption: "Memory in use without an owner", sortBy: 0 }).element] : null;
	};

	const jaxPart = (owners) => (owners.jax_arrays && owners.jax_arrays.length ? [vt.el("h3", null, "What holds JAX's arrays"), vt.table([
		{ title: "size", number: true, value: (row) => row.bytes, cell: (row) => vt.bytes(row.bytes) },
		{ title: "category", value: (row) => row.category, cell: (row) => vt.categoryWords(row.category) },
		{ title: "name", value: (row) => row.name || "", cell: (row) => [row.name ? vt.el("code", null, row.name) : "nobody found",
			!row.certain && row.name ? vt.el("span", { class: "note" }, ", perhaps others") : null] },
		{ title: "array", value: (row) => `${row.dtype} ${row.shape}`, cell: (row) => `${row.dtype} ${row.shape}` +
			(row.one_device ? "" : ", on several devices") + (row.host ? ", memory of the host" : "") },
	], owners.jax_arrays, { limit: 20, caption: "JAX's arrays", sortBy: 0 }).element] : null);

	const notes = (owners) => [
		owners.state !== "read" && !(owners.arrays || []).length && `Owners are not known: ${vt.words("owners", owners.state)}.`,
		owners.state === "read" && owners.whole === false && `Not all objects were read (${owners.bound ? vt.words("bound", owners.bound) :
			"too many for the memory or the time"}): owners may be missing.`,
		owners.ran && sumsOf(owners, "categories", "category", "unknown").bytes > 0 &&
			"The process ran: blocks that came or went in these moments have no owner.",
	].filter(Boolean).map((text) => vt.el("p", { class: "note" }, text));

	/* ---- one item ---- */

	/* An array of another library's has no place in PyTorch's segments. */
	const arrayPairs = (owned, i) => {
		const array = owned.array(i), { owner } = array, freed = vt.itemFreed(owned, i), holders = (owner.holders || []).filter(Boolean);

		return [
			["owner", owner.name ? vt.el("code", null, owner.name) : vt.unownedWords(owned, i)],
			["category", vt.categoryWords(owner.category) + (owner.name && !owner.certain ? ", not certain" : "")],
			["size", `${vt.bytes(array.bytes)} (${vt.count(array.bytes)} B)`],
			["array", vt.itemTensor(owned, i)],
			["type", owner.type],
			["also held by", holders.length ? holders.map((one) => vt.el("div", null, vt.el("code", null, one))) : null],
			["would free", freed && freed.bytes && freed.name ? `${vt.bytes(freed.bytes)}, with ${freed.name}` : null],
			["memory", `of ${vt.words("library", array.library)}` + (array.device !== null ? `, GPU ${array.device}` : "") +
				(array.pool ? "" : ", in no pool")],
			["address", vt.el("code", null, array.address)],
		].filter(([, value]) => value).map(([name, value]) => [vt.el("dt", null, name), vt.el("dd", null, value)]);
	};

	const showItem = (panel, owned, i, choose) => {
		const block = owned.block[i], { report } = owned;

		panel.hidden = false;
		if (block < 0) {
			panel.replaceChildren(vt.el("dl", { class: "pairs" }, arrayPairs(owned, i)));
			return;
		}
		vt.showBlock(panel, report, block, (other) => {
			if (owned.itemOf[other] >= 0)
				choose(owned.itemOf[other]);
			else
				inSegments(report, other);
		});
		panel.prepend(vt.el("p", { class: "tools" }, vt.el("button", { type: "button", onclick: () => inSegments(report, block) },
			"show in the map of segments")));
	};

	const inSegments = (report, block) => document.dispatchEvent(new CustomEvent("vramtap-select", { detail: { block, report, from: "owners" } }));

	/* ---- beside the treemap: what is in the node that it shows ---- */

	const MAX_BESIDE = 200;

	class Contents {
		constructor({ go, chosen }) {
			this.go = go;
			this.title = vt.el("h3");
			this.groups = vt.table([
				{ title: "name", value: (row) => row.label, cell: (row) => [row.colour ? vt.swatch(row.colour) : null, row.label] },
				{ title: "size", number: true, value: (row) => row.bytes, cell: (row) => vt.bytes(row.bytes) },
				{ title: "share", number: true, value: (row) => row.bytes, cell: (row) => vt.percent(row.bytes, row.of) },
				{ title: "blocks", number: true, value: (row) => row.blocks, cell: (row) => vt.count(row.blocks) },
			], [], { limit: 40, caption: "What is in it", onrow: (row) => (row.node ? go(row.node) : chosen(row.item)), sortBy: 1 });
			this.matches = vt.ownerList({ chosen, limit: 60, wanted: ["name", "size"] });
			this.element = vt.el("div", { class: "contents" }, this.title, this.groups.element, this.matches.element);
		}

		show(tree, node, found) {
			this.groups.element.hidden = Boolean(found);
			this.matches.element.hidden = !found;
			if (found)
				this.showMatches(tree, found);
			else
				this.showGroups(tree, node);
		}

		showMatches(tree, found) {
			this.title.textContent = found.blocks ? "Matches, the largest first" : "Nothing matches";
			this.matches.show(tree.owned, (i) => found.lit[i] === 1 && tree.nodeOf[i] !== null);
		}

		showGroups(tree, node) {
			const { owned } = tree, left = node.items.length + node.kids.length - MAX_BESIDE;
			const kids = node.kids.slice(0, MAX_BESIDE).map((kid) => ({ node: kid, label: kid.label, bytes: kid.bytes, blocks: kid.blocks, of: node.bytes }));
			const items = node.items.slice(0, MAX_BESIDE).map((item) => ({ item, label: tree.label(item), bytes: owned.bytes[item],
				blocks: 1, of: node.bytes, colour: `var(--${vt.ownerColour(owned.category.values[owned.category.ids[item]])})` }));
			const rows = [...kids, ...items].sort((a, b) => b.bytes - a.bytes).slice(0, MAX_BESIDE);

			this.title.textContent = (node.parent ? vt.harmless(node.label) : vt.incompleteLists(owned.report).length ?
				"Memory in use, as far as it is known" : "All memory in use") + (left > 0 ? `: the ${vt.count(MAX_BESIDE)} largest` : "");
			this.groups.update(rows);
		}
	}

	/* ---- the part ---- */

	const legendOf = (owned, choose) => {
		const sums = new Map();

		for (let i = 0; i < owned.n; i++) {
			const category = owned.category.values[owned.category.ids[i]];

			sums.set(category, (sums.get(category) || 0) + owned.bytes[i]);
		}
		return vt.el("div", { class: "legend", role: "group", "aria-label": "Categories; a click searches for one" },
			Array.from(sums).sort((a, b) => b[1] - a[1]).map(([category, bytes]) => vt.el("button", { type: "button", class: "key",
				title: category ? "Search for these" : null, onclick: () => category && choose(category) },
			vt.swatch(`var(--${vt.ownerColour(category)})`), vt.el("span", { class: "name" }, vt.categoryWords(category)), " ",
			vt.el("span", { class: "note" }, vt.bytes(bytes)))));
	};

	const tall = (width) => (width < 600 ? 360 : 520);

	class Owners {
		constructor(section, report) {
			this.owned = vt.owned(report);
			this.found = null;
			this.trees = new Map();
			this.device = -1;
			this.by = "category";
			const chosen = (item) => this.select(item);

			this.treemap = vt.treemap({ height: tall, chosen, changed: (node) => this.contents.show(this.treemap.tree, node, this.found) });
			this.contents = new Contents({ go: (node) => this.treemap.go(node), chosen });
			this.details = vt.el("aside", { class: "panel details", "aria-label": "The chosen owner", hidden: true });
			this.list = vt.ownerList({ chosen, limit: 25 });
			this.build(section);
			this.showTree();
		}

		build(section) {
			const { owned } = this, owners = owned.report.json.owners || { state: "off" };

			this.told = vt.el("span", { class: "note found", role: "status" });
			this.input = vt.el("input", { type: "search", size: "26", placeholder: "part of a name, or * and ?", spellcheck: "false",
				"aria-label": "Search owners by name, variable, module, type or category; * is any text, ? any letter",
				oninput: () => this.search(this.input.value), onkeydown: (event) => {
					if (event.key === "Escape")
						this.search(this.input.value = "");
				} });
			vt.append(section, [vt.incompleteLists(owned.report), notes(owners), vt.el("div", { class: "tools" }, this.byButtons(), this.deviceChoice(), field("Search", this.input), this.told),
				legendOf(owned, (category) => this.search(this.input.value = category)),
				vt.el("div", { class: "owners-beside" }, this.treemap.element, vt.el("div", null, this.details, this.contents.element)),
				vt.el("h3", null, "Owners, the largest first"), this.list.element, freedPart(owners), unownedPart(owners), jaxPart(owners)]);
		}

		byButtons() {
			const buttons = BY.map(([by, title]) => vt.el("button", { type: "button", "aria-pressed": String(by === this.by), onclick: (event) => {
				this.by = by;
				buttons.forEach((button) => button.setAttribute("aria-pressed", String(button === event.currentTarget)));
				this.showTree();
			} }, title));

			return vt.el("span", { class: "owners-by", role: "group", "aria-label": "Group by" }, vt.el("span", { class: "note" }, "By"), buttons);
		}

		deviceChoice() {
			const devices = Array.from(new Set(this.owned.device)).sort((a, b) => a - b);

			return devices.length > 1 ? field("on", vt.el("select", { onchange: (event) => {
				this.device = Number(event.target.value);
				this.showTree();
			} }, vt.el("option", { value: "-1" }, "all GPUs"), devices.filter((one) => one >= 0).map((one) =>
				vt.el("option", { value: String(one) }, "GPU " + one)))) : null;
		}

		wanted(i) {
			return this.device < 0 || this.owned.device[i] === this.device;
		}

		showTree() {
			const key = `${this.by} ${this.device}`;

			if (!this.trees.has(key))
				this.trees.set(key, vt.ownerTree(this.owned, this.by, (i) => this.wanted(i)));
			this.treemap.found = this.found;
			vt.lightTree(this.trees.get(key), this.found);
			this.treemap.show(this.trees.get(key));
			this.tellFound();
			this.showList();
		}

		showList() {
			const { found } = this;

			this.list.show(this.owned, (i) => (!found || found.lit[i] === 1) && this.wanted(i));
		}

		search(pattern) {
			this.found = vt.matchOwners(this.owned, pattern.trim());
			this.treemap.search(this.found);
			this.tellFound();
			this.showList();
		}

		tellFound() {
			const { found } = this, sums = { blocks: 0, bytes: 0 };

			for (let i = 0; found && i < found.lit.length; i++)
				if (found.lit[i] && this.wanted(i)) {
					sums.blocks++;
					sums.bytes += this.owned.bytes[i];
				}
			this.told.textContent = found ? `${vt.plural(sums.blocks, "block")}, ${vt.bytes(sums.bytes)}` +
				(found.exact || !found.blocks ? "" : " (in other letters)") : "";
		}

		select(item) {
			this.treemap.select(item);
			this.list.select(item);
			this.contents.matches.select(item);
			showItem(this.details, this.owned, item, (other) => this.select(other));
			vt.tell(`${vt.itemName(this.owned, item)}, ${vt.bytes(this.owned.bytes[item])}`);
		}
	}

	const views = new WeakMap(); /* of sections */

	/* A block that another part chose, once this one is drawn. */
	document.addEventListener("vramtap-select", ({ detail }) => {
		const section = document.getElementById("owners"), view = section && views.get(section);

		if (!view || detail.from === "owners" || (detail.report && detail.report !== view.owned.report))
			return;
		const item = view.owned.itemOf[detail.block];

		if (item >= 0)
			view.select(item);
	});

	const hasAny = ({ blocks, json }) => blocks.state.includes(0) || (json.owners && ((json.owners.arrays || []).length > 0 ||
		(json.owners.jax_arrays || []).length > 0));

	vt.view({
		id: "owners",
		title: "Owners",
		wanted: hasAny,
		render: (section, report) => views.set(section, new Owners(section, report)),
	});
}
