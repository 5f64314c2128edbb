/* SPDX-License-Identifier: Apache-2.0 */
/* A table of owners that may have 100,000 rows: it sorts numbers, and has elements for what is shown only. */
{
	const MOST = 3200; /* rows that are shown at once */

	const textRanks = (owned, textOf) => {
		const texts = Array.from({ length: owned.n }, (_, i) => textOf(i)), order = Array.from(texts.keys());
		const ranks = new Float64Array(owned.n);

		order.sort((a, b) => (texts[a] < texts[b] ? -1 : texts[a] > texts[b] ? 1 : 0));
		order.forEach((i, rank) => (ranks[i] = rank && texts[i] === texts[order[rank - 1]] ? ranks[order[rank - 1]] : rank));
		return ranks;
	};

	const nameCell = (owned, i) => (owned.name[i] ? vt.el("code", null, owned.name[i]) :
		vt.el("span", { class: "note" }, `${vt.unownedWords(owned, i)}, ${vt.itemAddress(owned, i)}`));

	const freedCell = (owned, i) => {
		const freed = vt.itemFreed(owned, i);

		if (owned.category.values[owned.category.ids[i]] === "garbage")
			return "gc.collect(), probably";
		if (!freed || !freed.name)
			return "";
		return freed.bytes ? [vt.bytes(freed.bytes), freed.name === owned.name[i] ? null :
			vt.el("span", { class: "note" }, " with ", freed.name)] : vt.el("span", { class: "note" }, "others hold it, too");
	};

	/* value: to sort by; text: the same, of texts */
	const COLUMNS = [
		{ title: "name", text: (owned, i) => vt.itemName(owned, i), cell: nameCell },
		{ title: "category", text: (owned, i) => owned.category.values[owned.category.ids[i]],
			cell: (owned, i) => [vt.swatch(`var(--${vt.ownerColour(owned.category.values[owned.category.ids[i]])})`),
				owned.category.values[owned.category.ids[i]].replace(/_/g, " ") || "unknown"] },
		{ title: "size", number: true, value: (owned, i) => owned.bytes[i], cell: (owned, i) => vt.bytes(owned.bytes[i]) },
		{ title: "certain", text: (owned, i) => (owned.certain[i] ? "yes" : owned.name[i] ? "probably" : ""),
			cell: (owned, i) => (owned.certain[i] ? "yes" : owned.name[i] ? "probably" : "") },
		{ title: "tensor", text: (owned, i) => vt.itemTensor(owned, i), cell: (owned, i) => vt.itemTensor(owned, i) },
		{ title: "would be freed", number: false, value: (owned, i) => (vt.itemFreed(owned, i) || { bytes: -1 }).bytes, cell: freedCell },
	];

	class OwnerList {
		constructor({ chosen, limit, wanted = COLUMNS.map((column) => column.title) }) {
			this.chosen = chosen;
			this.limit = limit;
			this.columns = COLUMNS.filter((column) => wanted.includes(column.title));
			this.by = this.columns.findIndex((column) => column.title === "size");
			this.down = true;
			this.selected = -1;
			this.body = vt.el("tbody", { onclick: (event) => this.choose(event), onkeydown: (event) => this.key(event) });
			this.more = vt.el("button", { type: "button", onclick: () => {
				const first = this.body.rows.length;

				this.fill(this.shown * 4);
				vt.focusOn(this.body.rows[first]);
			} });
			this.rest = vt.el("span", { class: "note" });
			this.heads = this.columns.map((column, i) => vt.el("th", { scope: "col", class: column.number ? "number" : null },
				vt.el("button", { type: "button", onclick: () => this.sort(i) }, column.title)));
			this.element = vt.el("div", { class: "scrolls owner-list" }, vt.el("table", null, vt.el("caption", { class: "unseen" }, "Owners"),
				vt.el("thead", null, vt.el("tr", null, this.heads)), this.body), this.more, " ", this.rest);
			this.orders = new Map();
		}

		show(owned, wanted) {
			if (this.owned !== owned)
				this.orders.clear();
			this.owned = owned;
			this.wanted = wanted;
			this.fill(this.limit);
		}

		sort(i) {
			const numeric = Boolean(this.columns[i].value);

			this.down = this.by === i ? !this.down : numeric;
			this.by = i;
			this.fill(this.limit);
		}

		/* All items, the smallest first; of equal ones the larger blocks are where the largest come. */
		orderBy(i) {
			const { owned } = this, { value, text } = this.columns[i];

			if (!this.orders.has(i)) {
				const ranks = text ? textRanks(owned, (item) => text(owned, item)) :
					Float64Array.from({ length: owned.n }, (_, item) => value(owned, item));

				this.orders.set(i, Int32Array.from(owned.order).reverse().sort((a, b) => ranks[a] - ranks[b]));
			}
			return this.orders.get(i);
		}

		/* The first of the items that are wanted. */
		first(count) {
			const order = this.columns[this.by].title === "size" ? this.owned.order : this.orderBy(this.by), list = [];
			const backwards = this.columns[this.by].title === "size" ? !this.down : this.down;
			let all = 0;

			for (let k = 0; k < order.length; k++) {
				const i = order[backwards ? order.length - 1 - k : k];

				if (this.wanted(i) && all++ < count)
					list.push(i);
			}
			return { list, all };
		}

		fill(count) {
			const { list, all } = this.first(Math.min(count, MOST)), left = all - list.length;

			this.shown = Math.min(count, MOST);
			this.heads.forEach((head, i) => (i === this.by ? head.setAttribute("aria-sort", this.down ? "descending" : "ascending") :
				head.removeAttribute("aria-sort")));
			this.body.replaceChildren(...list.map((i) => this.row(i)));
			this.more.hidden = left <= 0 || this.shown >= MOST;
			this.more.textContent = `show more (${vt.count(left)} are left)`;
			this.rest.textContent = left > 0 && this.shown >= MOST ? `${vt.count(left)} more: search for them` : "";
		}

		row(i) {
			return vt.el("tr", { tabindex: "0", "data-item": i, class: i === this.selected ? "lit" : null, "aria-current": i === this.selected ? "true" : null },
				this.columns.map((column) => vt.el("td", column.number ? { class: "number" } : null, column.cell(this.owned, i))));
		}

		select(item) {
			this.selected = item;
			for (const row of this.body.rows) {
				const mine = Number(row.dataset.item) === item;

				row.classList.toggle("lit", mine);
				if (mine)
					row.setAttribute("aria-current", "true");
				else
					row.removeAttribute("aria-current");
			}
		}

		choose(event) {
			const row = event.target.closest("tr");

			if (row)
				this.chosen(Number(row.dataset.item));
		}

		key(event) {
			const row = event.target.closest("tr"), next = row && { ArrowDown: row.nextSibling, ArrowUp: row.previousSibling }[event.key];

			if (event.key === "Enter" && event.target === row)
				this.choose(event);
			if (!next)
				return;
			event.preventDefault();
			next.focus();
		}
	}

	vt.ownerList = (options) => new OwnerList(options);
}
