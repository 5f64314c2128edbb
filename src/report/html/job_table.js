/* SPDX-License-Identifier: Apache-2.0 */
/* The processes of a job as a table that sorts. Only the rows in view are in the page. */
{
	const ROW = 26, SPARE = 6, MOST_HEIGHT = 460;

	const sumOf = (field) => (m) => {
		const known = (m.memory || []).filter((one) => field in one);

		return known.length ? known.reduce((bytes, one) => bytes + one[field], 0) : null;
	};
	const inUse = sumOf("allocated_bytes"), reserved = sumOf("reserved_bytes"), counted = sumOf("counted_bytes");
	const bytes = (value) => (value === null ? "" : vt.bytes(value));

	/* value: (member, index, job) => to sort by; cell: what is shown of it */
	const columns = (job) => [
		{ title: "Process", width: "12em", value: (m, i) => i, cell: (m, i) => job.name(i) },
		{ title: "Host", width: "10em", value: (m) => m.host || "", cell: (m) => m.host || "" },
		{ title: "pid", width: "6em", number: true, value: (m) => m.pid, cell: (m) => String(m.pid) },
		{ title: "State", width: "14em", value: (m, i) => job.does[i], cell: (m, i) => [vt.swatch("var(--" + job.stateColour(i) + ")"),
			job.state(i)[1]] },
		{ title: "Does", width: "20em", value: (m, i) => vt.doesText(job.telling(i)), cell: (m, i) =>
			(m.error ? m.error : vt.doesText(job.telling(i))) },
		{ title: "Place", width: "18em", value: (m, i) => vt.placeText(job.place(i)), cell: (m, i) => vt.placeText(job.place(i)) },
		{ title: "In use", width: "7em", number: true, value: inUse, cell: (m) => bytes(inUse(m)) },
		{ title: "Reserved", width: "7em", number: true, value: reserved, cell: (m) => bytes(reserved(m)) },
		job.members.some((m) => counted(m) !== null) ? { title: "By the driver", width: "8em", number: true, value: counted,
			cell: (m) => bytes(counted(m)) } : null,
		{ title: "Report", width: "7em", value: (m) => m.completeness, cell: (m) => m.completeness },
	].filter(Boolean);

	const sorted = (job, list, column, down) => {
		const keys = new Map(list.map((i) => [i, column.value(job.members[i], i)]));
		const before = (a, b) => {
			const x = keys.get(a), y = keys.get(b);

			return x === y ? a - b : x === null ? 1 : y === null ? -1 : (x < y) === down ? 1 : -1;
		};

		return list.slice().sort(before);
	};

	vt.jobTable = (view) => {
		const job = view.job, all = columns(job);
		const body = vt.el("tbody"), caption = vt.el("caption", { class: "unseen" }, "Processes");
		let list = view.shown, by = 0, down = false, first = -1, active = 0, asked = 0;

		const row = (i, k) => vt.el("tr", { tabindex: k === active ? "0" : "-1", "aria-rowindex": k + 2, "data-member": i,
			class: job.odd[i] ? "odd" : null, onclick: () => vt.openMember(view, i), onfocus: () => {
				active = k;
			} }, all.map((column) => vt.el("td", { class: column.number ? "number" : null },
			column.cell(job.members[i], i))));
		const space = (rows) => (rows > 0 ? [vt.el("tr", { class: "space", "aria-hidden": "true" }, vt.el("td", { colspan: all.length,
			style: { height: rows * ROW + "px" } }))] : []);

		const draw = (again) => {
			const from = Math.max(0, Math.floor(box.scrollTop / ROW) - SPARE);
			const to = Math.min(list.length, from + Math.ceil(MOST_HEIGHT / ROW) + 2 * SPARE);

			asked = 0;
			if (from === first && !again)
				return;
			first = from;
			body.replaceChildren(...space(from), ...list.slice(from, to).map((i, k) => row(i, from + k)), ...space(list.length - to));
		};
		const fill = () => {
			const found = view.match ? view.shown.filter((i) => view.match[i]) : view.shown;

			list = by === 0 && !down ? found : sorted(job, found, all[by], down);
			active = 0;
			box.scrollTop = 0;
			table.setAttribute("aria-rowcount", list.length + 1);
			box.style.height = Math.min(MOST_HEIGHT, (list.length + 1) * ROW + 18) + "px";
			none.hidden = list.length > 0;
			draw(true);
		};
		const sort = (column) => {
			down = column === by ? !down : Boolean(all[column].number);
			by = column;
			heads.forEach((head, k) => (k === by ? head.setAttribute("aria-sort", down ? "descending" : "ascending") :
				head.removeAttribute("aria-sort")));
			fill();
		};
		const heads = all.map((column, k) => vt.el("th", { scope: "col", class: column.number ? "number" : null,
			style: { width: column.width } }, vt.el("button", { type: "button", onclick: () => sort(k) }, column.title)));
		const table = vt.el("table", { class: "rows" }, caption, vt.el("thead", null, vt.el("tr", { "aria-rowindex": "1" }, heads)), body);
		const none = vt.el("p", { class: "note", hidden: true }, "No process fits.");
		const goTo = (k) => {
			active = Math.max(0, Math.min(list.length - 1, k));
			if (active * ROW < box.scrollTop)
				box.scrollTop = active * ROW;
			if ((active + 2) * ROW > box.scrollTop + box.clientHeight)
				box.scrollTop = (active + 3) * ROW - box.clientHeight;
			draw(true);
			const focused = body.querySelector(`tr[aria-rowindex="${active + 2}"]`);

			if (focused)
				focused.focus({ preventScroll: true });
		};
		const page = Math.floor(MOST_HEIGHT / ROW) - 2;
		const keys = { ArrowDown: () => goTo(active + 1), ArrowUp: () => goTo(active - 1), PageDown: () => goTo(active + page),
			PageUp: () => goTo(active - page), Home: () => goTo(0), End: () => goTo(list.length - 1),
			Enter: () => vt.openMember(view, list[active]) };
		const box = vt.el("div", { class: "scrolls window", onscroll: () => {
			asked = asked || requestAnimationFrame(() => draw(false));
		}, onkeydown: (event) => {
			if (Object.hasOwn(keys, event.key) && event.target.closest("tbody")) {
				event.preventDefault();
				keys[event.key]();
			}
		} }, table);

		view.on((what) => what !== "lit" && fill());
		fill();
		return vt.el("div", null, box, none);
	};
}
