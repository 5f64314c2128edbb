/* SPDX-License-Identifier: Apache-2.0 */
/* A treemap of owners: a canvas with zoom, keys and search; above it the path to what is shown. */
{
	const FONT = "12px system-ui, sans-serif", HEAD_FONT = "600 12px system-ui, sans-serif";
	const LETTER = 6.8, HEAD_LETTER = 7.3; /* about as wide as a letter is */

	/* The category of most bytes of a node. */
	const categories = new WeakMap();

	const categoryOf = (tree, cell) => {
		const { ids } = tree.owned.category;

		if (cell.item >= 0)
			return ids[cell.item];
		if (!categories.has(cell.node)) {
			const sums = new Float64Array(tree.owned.category.values.length);

			cell.node.forEach((i) => (sums[ids[i]] += tree.owned.bytes[i]));
			categories.set(cell.node, sums.indexOf(Math.max(...sums)));
		}
		return categories.get(cell.node);
	};

	const litOf = (tree, cell, found) => {
		if (!found)
			return 1;
		if (cell.item >= 0)
			return found.lit[cell.item];
		if (!cell.node.isGroup)
			return cell.node.bytes ? cell.node.lit / cell.node.bytes : 0;
		let lit = 0;

		cell.node.forEach((i) => (lit += found.lit[i] * tree.owned.bytes[i]));
		return lit / cell.node.bytes;
	};

	const css = ([red, green, blue]) => `rgb(${red},${green},${blue})`;

	class Treemap {
		/* changed(): another node is shown. chosen(item): an item was chosen. */
		constructor({ changed, chosen, height }) {
			this.changed = changed;
			this.chosen = chosen;
			this.cells = [];
			this.laidOut = null; /* node and size of the cells */
			this.at = -1; /* the cell that keys are at */
			this.found = null;
			this.selected = -1;
			this.picture = vt.canvas(height, (context, width, tall) => this.draw(context, width, tall),
				"Treemap of the owners of memory. Arrow keys move among siblings, Enter goes in or chooses, Escape goes out.");
			this.canvas = this.picture.canvas;
			this.canvas.setAttribute("role", "application");
			this.canvas.setAttribute("aria-roledescription", "treemap");
			this.frames = { hover: vt.el("div", { class: "frame hover", hidden: true }), at: vt.el("div", { class: "frame at", hidden: true }),
				selected: vt.el("div", { class: "frame selected", hidden: true }) };
			this.path = vt.el("nav", { class: "path", "aria-label": "Where the treemap is" });
			this.element = vt.el("div", null, this.path, vt.el("div", { class: "treemap" }, this.canvas, Object.values(this.frames)));
			this.listen();
		}

		/* ---- what is shown ---- */

		show(tree) {
			this.tree = tree;
			this.go(tree.root);
		}

		go(node) {
			this.node = node;
			this.laidOut = null;
			this.at = -1;
			vt.hideTip();
			this.frames.hover.hidden = true;
			this.showPath();
			this.picture.draw();
			this.changed(node);
		}

		/* From a button that goes. */
		goFrom(node) {
			this.go(node);
			this.canvas.focus();
		}

		search(found) {
			this.found = found;
			vt.lightTree(this.tree, found);
			this.picture.draw();
			this.changed(this.node);
		}

		/* An item that was chosen elsewhere, too; -1 none. */
		select(item) {
			const node = item >= 0 ? this.tree.nodeOf[item] : null;

			this.selected = node ? item : -1;
			if (node && !hasItem(this.node, item, this.above(item)))
				this.go(node);
			else
				this.picture.draw();
		}

		showPath() {
			const above = [];

			for (let at = this.node; at; at = at.parent)
				above.unshift(at);
			this.path.replaceChildren(...above.flatMap((node, i) => [i ? vt.el("span", { class: "note", "aria-hidden": "true" }, " › ") : null,
				node === this.node ? vt.el("span", { "aria-current": "true" }, node.label) :
					vt.el("button", { type: "button", class: "link", onclick: () => this.goFrom(node) }, node.label)].filter(Boolean)),
			vt.el("span", { class: "note" }, `  ${vt.bytes(this.node.bytes)}, ${vt.plural(this.node.blocks, "block")}`));
		}

		labelOf(cell) {
			return vt.harmless(cell.item >= 0 ? this.tree.label(cell.item).replace(/^saved by (?=.)/, "") :
				cell.node.words && !cell.open ? cell.node.words[0] : cell.node.label);
		}

		/* ---- drawing ---- */

		layOut(width, tall) {
			const size = `${width} ${tall}`;

			if (this.laidOut === size)
				return;
			this.cells = vt.treemapCells(this.tree, this.node, width, tall);
			this.laidOut = size;
		}

		draw(context, width, tall) {
			const back = vt.rgb(vt.colour("back")), { values } = this.tree ? this.tree.owned.category : { values: [] };

			if (!this.tree)
				return;
			this.layOut(width, tall);
			this.fills = values.map((category) => vt.rgb(vt.colour(vt.ownerColour(category))));
			for (const cell of this.cells)
				this.drawCell(context, cell, back);
			this.placeFrames();
		}

		drawCell(context, cell, back) {
			const colour = this.fills[categoryOf(this.tree, cell)], share = litOf(this.tree, cell, this.found);
			const full = cell.open ? vt.mix(colour, back, 0.28) : colour, dim = vt.mix(full, back, 0.2);
			const gap = cell.w > 4 && cell.h > 4 ? 1 : 0.4, whole = share >= 1 || (cell.open && share > 0);

			context.fillStyle = css(whole ? full : dim);
			context.fillRect(cell.x, cell.y, cell.w - gap, cell.h - gap);
			if (!whole && share > 0) { /* as much of it as matches, from below */
				const high = Math.max(2, (cell.h - gap) * share);

				context.fillStyle = css(full);
				context.fillRect(cell.x, cell.y + cell.h - gap - high, cell.w - gap, high);
			}
			if (cell.w >= 30 && cell.h >= 14 && (!cell.open || cell.head))
				this.write(context, cell, vt.inkOn(whole || share > 0.6 ? full : dim), share > 0);
		}

		write(context, cell, ink, lit) {
			const letters = Math.floor((cell.w - 9) / (cell.open ? HEAD_LETTER : LETTER)), label = this.labelOf(cell).slice(0, 200), size = vt.bytes(cell.bytes);
			const both = label.length + size.length + 2 <= letters;

			if (letters < 3)
				return;
			context.font = cell.open ? HEAD_FONT : FONT;
			context.fillStyle = ink;
			context.globalAlpha = lit ? 1 : 0.6;
			context.textBaseline = "top";
			context.fillText(cutToFit(context, label, letters, cell.w - 7), cell.x + 4, cell.y + 2);
			if (both && cell.open)
				this.writeSize(context, size, cell.x + 4 + context.measureText(label).width + 7, cell.y + 2);
			else if (!cell.open && cell.h > 32 && (cell.node && cell.node.words ? letters > 6 : size.length <= letters))
				this.writeSize(context, cut(cell.node && cell.node.words ? cell.node.words[1] : size, letters), cell.x + 4, cell.y + 17);
			context.globalAlpha = 1;
		}

		writeSize(context, text, x, y) {
			context.font = FONT;
			context.globalAlpha *= 0.75;
			context.fillText(text, x, y);
		}

		/* ---- frames around cells ---- */

		placeFrame(frame, cell) {
			frame.hidden = !cell;
			if (!cell)
				return;
			for (const [name, value] of [["left", cell.x], ["top", cell.y], ["width", cell.w], ["height", cell.h]])
				frame.style[name] = value + "px";
		}

		placeFrames() {
			this.placeFrame(this.frames.at, document.activeElement === this.canvas ? this.cells[this.at] : null);
			this.placeFrame(this.frames.selected, this.cellOf(this.selected));
		}

		/* The nodes that an item is in. */
		above(item) {
			const above = new Set();

			for (let at = this.tree.nodeOf[item]; at; at = at.parent)
				above.add(at);
			return above;
		}

		/* The smallest cell that an item is in. */
		cellOf(item) {
			const above = item >= 0 ? this.above(item) : null;
			let best = null;

			for (const cell of above ? this.cells : [])
				if ((cell.item === item || (cell.node && hasItem(cell.node, item, above))) && (!best || cell.level >= best.level))
					best = cell;
			return best;
		}

		/* ---- pointing and choosing ---- */

		cellAt(event) {
			const box = this.canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;

			for (let i = this.cells.length - 1; i >= 0; i--) {
				const cell = this.cells[i];

				if (x >= cell.x && x < cell.x + cell.w && y >= cell.y && y < cell.y + cell.h)
					return cell;
			}
			return null;
		}

		tip(cell) {
			const { owned } = this.tree, { item } = cell, name = item >= 0 ? vt.itemName(owned, item) : cell.node.label;
			const category = owned.category.values[categoryOf(this.tree, cell)];

			return [name, [vt.bytes(cell.bytes), `${vt.percent(cell.bytes, this.node.bytes)} of ${this.node.label}, ` +
				`${vt.percent(cell.bytes, this.tree.root.bytes)} of all`],
			item < 0 && vt.plural(cell.node.blocks, "block"),
			[item >= 0 ? "category" : "mostly", category === "" ? vt.unownedWords(owned, item) : vt.categoryWords(category)],
			item >= 0 && owned.name[item] && !owned.certain[item] && "not certain: others may hold it, too",
			item >= 0 && vt.itemTensor(owned, item),
			this.found && cell.node && !cell.node.isGroup && ["matches", vt.bytes(cell.node.lit)]];
		}

		choose(cell) {
			if (cell.item >= 0)
				this.chosen(cell.item);
			else
				this.go(cell.node);
		}

		goOut() {
			const from = this.node;

			if (!from.parent)
				return false;
			this.go(from.parent);
			this.layOut(this.canvas.clientWidth, this.canvas.clientHeight);
			this.moveTo(this.cells.findIndex((cell) => cell.level === 0 && cell.node === from));
			return true;
		}

		/* The next sibling in a direction: the nearest, of those that are beside it rather. */
		neighbour(dx, dy) {
			const from = this.cells[this.at], cx = from.x + from.w / 2, cy = from.y + from.h / 2;
			let best = -1, least = Infinity;

			this.cells.forEach((cell, i) => {
				if (cell.level !== 0 || i === this.at)
					return;
				const x = cell.x + cell.w / 2 - cx, y = cell.y + cell.h / 2 - cy, ahead = x * dx + y * dy;
				const gap = dx ? Math.max(0, from.y - cell.y - cell.h, cell.y - from.y - from.h) :
					Math.max(0, from.x - cell.x - cell.w, cell.x - from.x - from.w);
				const far = ahead + 4 * gap + Math.abs(x * dy + y * dx) / 2;

				if (ahead > 1 && far < least) {
					least = far;
					best = i;
				}
			});
			return best;
		}

		moveTo(i) {
			if (i < 0)
				return;
			this.at = i;
			this.placeFrames();
			const cell = this.cells[i], box = this.canvas.getBoundingClientRect();

			vt.showTip({ clientX: box.left + cell.x + Math.min(cell.w / 2, 40), clientY: box.top + cell.y + Math.min(cell.h, 40) }, this.tip(cell));
			vt.tell(`${cell.item >= 0 ? vt.itemName(this.tree.owned, cell.item) : cell.node.label}, ${vt.bytes(cell.bytes)}`);
		}

		key(event) {
			const ways = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
			const used = () => event.preventDefault();

			if (event.ctrlKey || event.altKey || event.metaKey || !this.tree)
				return;
			if (ways[event.key]) {
				used();
				this.moveTo(this.at < 0 ? 0 : this.neighbour(...ways[event.key]));
			} else if (event.key === "Enter" && this.at >= 0) {
				used();
				this.choose(this.cells[this.at]);
			} else if (event.key === "Escape" || event.key === "Backspace") {
				if (this.goOut())
					used();
				else
					vt.hideTip();
			} else if (event.key === "Home") {
				used();
				this.go(this.tree.root);
			}
		}

		listen() {
			this.canvas.addEventListener("pointermove", (event) => {
				const cell = this.cellAt(event);

				this.placeFrame(this.frames.hover, cell);
				if (cell)
					vt.showTip(event, this.tip(cell));
			});
			this.canvas.addEventListener("pointerleave", () => {
				this.frames.hover.hidden = true;
				vt.hideTip();
			});
			this.canvas.addEventListener("click", (event) => {
				const cell = this.cellAt(event);

				if (cell)
					this.choose(cell);
			});
			this.canvas.addEventListener("focus", () => this.placeFrames());
			this.canvas.addEventListener("blur", () => {
				this.placeFrames();
				vt.hideTip();
			});
			this.canvas.addEventListener("keydown", (event) => this.key(event));
		}
	}

	const cutToFit = (context, text, letters, width) => {
		const guess = cut(text, letters), wide = guess.length * 9 > width ? context.measureText(guess).width : 0;
		const fits = wide > width ? cut(text, Math.max(1, Math.floor((letters * width) / wide) - 1)) : guess;

		return fits === text || fits.length > 2 ? fits : "";
	};

	const cut = (text, letters) => (text.length <= letters ? text : text.slice(0, letters - 1) + "…");

	/* above: the nodes that the item is in */
	const hasItem = (node, item, above) => above.has(node) || (node.isGroup &&
		(node.items.includes(item) || node.kids.some((kid) => hasItem(kid, item, above))));

	vt.treemap = (options) => new Treemap(options);
}
