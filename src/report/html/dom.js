/* SPDX-License-Identifier: Apache-2.0 */
/* Elements, tables, tips, copying. */
{
	/*
	 * Texts of the target can have characters that change the text beside them (terminal escapes, the direction of
	 * writing) or cover other lines (accents by the hundred). The first are written as the text report writes them. What
	 * nobody reads to its end is cut.
	 */
	const LONGEST = 16384;
	const HARMFUL = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]|(?<=\p{M}{4})\p{M}+/u;
	const EVERY_HARMFUL = new RegExp(HARMFUL.source, "gu");
	const bytes = new TextEncoder();

	const escaped = (text) => text.replace(EVERY_HARMFUL, (found) => (/\p{M}/u.test(found) ? "…" :
		Array.from(bytes.encode(found), (byte) => "\\x" + byte.toString(16).padStart(2, "0")).join("")));

	vt.harmless = (text) => {
		if (text.length > LONGEST)
			return vt.harmless(text.slice(0, LONGEST)) + `… (${vt.count(text.length - LONGEST)} more characters)`;
		return HARMFUL.test(text) ? escaped(text) : text;
	};

	/*
	 * vt.el("td", { class: "number", onclick: f }, "text", element, ...): strings become text, never markup. null and
	 * undefined children and properties are left out.
	 */
	vt.el = (tag, properties, ...children) => {
		const element = document.createElement(tag);

		for (const [name, value] of Object.entries(properties || {})) {
			if (value === null || value === undefined || value === false)
				continue;
			if (name.startsWith("on"))
				element.addEventListener(name.slice(2), value);
			else if (name === "style")
				for (const [property, to] of Object.entries(value))
					element.style.setProperty(property, to);
			else
				element.setAttribute(name, value === true ? "" : vt.harmless(String(value)));
		}
		vt.append(element, children);
		return element;
	};

	vt.append = (element, children) => {
		for (const child of children.flat(Infinity))
			if (child !== null && child !== undefined && child !== false)
				element.append(child instanceof Node ? child : vt.harmless(String(child)));
	};

	/* What make() makes; if that is not possible, a paragraph that says so. The rest of the page is still worth having. */
	vt.attempt = (what, make) => {
		try {
			return make();
		} catch (error) {
			console.error(error);
			return vt.el("p", { class: "alarm" }, `${what} could not be shown: ${error}`);
		}
	};

	/* Of a text that would take the whole page, the beginning; the title has more of it. */
	vt.short = (text, most = 300) => (typeof text !== "string" || text.length <= most ? text :
		vt.el("span", { title: text }, text.slice(0, most) + "…"));

	/* A button that looks like a link: it leads to something in the page. */
	vt.leadsTo = (text, go) => vt.el("button", { type: "button", class: "plain", onclick: go }, text);

	/* A colour of style.css: vt.colour("category-parameter") */
	const colours = new Map();

	vt.colour = (name) => {
		if (!colours.has(name))
			colours.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || "#888");
		return colours.get(name);
	};

	/*
	 * For those that draw: the theme changed, or the size. element: what is drawn. Its functions go with it: another report
	 * may be shown in its place, and one that is not shown now may come back.
	 */
	const redraws = new Set(), drawn = new Set(), drawsOf = new WeakMap();

	vt.onRedraw = (draw, element = null) => {
		if (!element) {
			redraws.add(draw);
			return;
		}
		if (!drawsOf.has(element)) {
			drawsOf.set(element, []);
			drawn.add(new WeakRef(element));
		}
		drawsOf.get(element).push(draw);
	};
	vt.redraw = () => {
		colours.clear();
		for (const draw of redraws)
			draw();
		for (const reference of drawn) {
			const element = reference.deref();

			if (element)
				drawsOf.get(element).forEach((draw) => draw());
			else
				drawn.delete(reference);
		}
	};

	vt.swatch = (colour) => vt.el("span", { class: "swatch", style: { background: colour }, "aria-hidden": "true" });

	/* For screen readers: what an action did. */
	vt.tell = (text) => {
		document.getElementById("told").textContent = vt.harmless(text);
	};

	/* ---- tips: one for the whole page ---- */

	const tip = document.getElementById("tip");

	/* lines: strings, or [key, value] pairs; at the pointer */
	vt.showTip = (event, lines) => {
		tip.replaceChildren(...lines.filter(Boolean).map((line) => vt.el("div", null, Array.isArray(line) ?
			[vt.el("span", { class: "note" }, line[0] + " "), line[1]] : line)));
		tip.hidden = false;
		const box = tip.getBoundingClientRect();

		tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - box.width - 8)) + "px";
		tip.style.top = Math.max(4, event.clientY + 18 + box.height > innerHeight ? event.clientY - box.height - 10 :
			event.clientY + 18) + "px";
	};
	vt.hideTip = () => {
		tip.hidden = true;
	};

	/* ---- copying: without a permission where there is none (file: pages) ---- */

	const copy = async (text) => {
		try {
			await navigator.clipboard.writeText(text);
		} catch {
			const area = vt.el("textarea", { class: "unseen" }, text);

			document.body.append(area);
			area.select();
			document.execCommand("copy");
			area.remove();
		}
	};

	/* text: () => what to copy; says: for a screen reader */
	vt.copyButton = (text, says, label = "copy") => {
		const button = vt.el("button", { type: "button", class: "copy", "aria-label": says, onclick: async () => {
			await copy(text());
			button.textContent = "copied";
			vt.tell("Copied.");
			setTimeout(() => (button.textContent = label), 2000);
		} }, label);

		return button;
	};

	vt.command = (text) => vt.el("span", { class: "command" }, vt.el("code", null, text),
		vt.copyButton(() => text, "Copy: " + text));

	/* ---- facts: a name and a value in each row; nothing for values that are not known ---- */

	/* rows: [[name, value or null]]; null if there are none */
	vt.facts = (rows) => {
		const known = rows.filter((row) => row && row[1] !== null && row[1] !== undefined && row[1] !== "");

		return known.length ? vt.el("dl", { class: "known" }, known.map(([name, value]) => vt.el("div", null,
			vt.el("dt", null, name), vt.el("dd", null, value)))) : null;
	};

	/* What had the focus is gone: what came in its place gets it, or keys would begin at the top of the page. */
	vt.focusOn = (element) => {
		if (!element)
			return;
		if (element.tabIndex < 0 && !element.hasAttribute("tabindex"))
			element.setAttribute("tabindex", "-1");
		element.focus({ preventScroll: true });
	};

	/* ---- columns of tables, see vt.table(): what is not known is left out ---- */

	const known = (show) => (value) => (value === null || value === undefined ? "" : show(value));

	vt.numberColumn = (title, value, show = vt.count) => ({ title, number: true, value, cell: (row) => known(show)(value(row)) });
	vt.bytesColumn = (title, value) => vt.numberColumn(title, value, vt.bytes);
	vt.textColumn = (title, value, show = String) => ({ title, value, cell: (row) => known(show)(value(row)) });

	/* ---- tables that sort ---- */

	/*
	 * columns: { title, number (right-aligned), value: (row) => to sort by, cell: (row) => what to show (default: value) }.
	 * Shows the first limit rows; a button shows more. Returns { element, update(rows), sort(column, descending) }.
	 */
	vt.table = (columns, rows, { limit = 100, caption, onrow, sortBy = null, descending = true } = {}) => {
		const body = vt.el("tbody");
		const more = vt.el("button", { type: "button", onclick: () => {
			const first = body.rows.length;

			fill(shown * 4);
			vt.focusOn(body.rows[first]);
		} });
		let by = sortBy, down = descending, shown = limit;

		const order = () => {
			if (by === null)
				return rows;
			const value = columns[by].value;

			return rows.slice().sort((a, b) => {
				const x = value(a), y = value(b);
				const difference = x === y ? 0 : x === null || x === undefined ? -1 : y === null || y === undefined ? 1 :
					x < y ? -1 : 1;

				return down ? -difference : difference;
			});
		};
		const fill = (n) => {
			const focused = body.contains(document.activeElement);

			shown = Math.max(limit, n);
			body.replaceChildren(...order().slice(0, shown).map((row) => {
				const line = vt.el("tr", onrow ? { tabindex: "0", onclick: () => onrow(row), onkeydown: (event) => {
					if (event.key === "Enter")
						onrow(row);
				} } : null, columns.map((column) => vt.el("td", column.number ? { class: "number" } : null,
					(column.cell || column.value)(row))));

				return line;
			}));
			if (focused)
				vt.focusOn(body.rows[0] || element);
			more.hidden = rows.length <= shown;
			more.textContent = `show more (${vt.count(rows.length - shown)} are left)`;
		};
		const heads = columns.map((column, i) => vt.el("th", { scope: "col", class: column.number ? "number" : null },
			vt.el("button", { type: "button", onclick: () => sort(i, by === i ? !down : Boolean(column.number)) }, column.title)));
		const sort = (i, descends) => {
			by = i;
			down = descends;
			heads.forEach((head, j) => (j === i ? head.setAttribute("aria-sort", descends ? "descending" : "ascending") :
				head.removeAttribute("aria-sort")));
			fill(shown);
		};
		const element = vt.el("div", { class: "scrolls" },
			vt.el("table", null, caption ? vt.el("caption", { class: "unseen" }, caption) : null,
				vt.el("thead", null, vt.el("tr", null, heads)), body), more);

		if (by === null)
			fill(limit);
		else
			sort(by, down);
		return { element, sort, update: (changed) => {
			rows = changed;
			fill(limit);
		} };
	};

	/* ---- a canvas of sharp pixels that follows its width ---- */

	/* What is drawn is text of the target, too. */
	const harmlessContext = (canvas) => {
		const context = canvas.getContext("2d", { alpha: false }), fillText = context.fillText.bind(context);

		context.fillText = (text, ...place) => fillText(vt.harmless(String(text)), ...place);
		return context;
	};

	/* draw(context, width, height in CSS pixels); height: a number, or of the width. Returns { canvas, draw }. */
	vt.canvas = (height, draw, label) => {
		const canvas = vt.el("canvas", { tabindex: "0", role: "img", "aria-label": label });
		const context = harmlessContext(canvas);
		let asked = 0;

		const now = () => {
			asked = 0;
			const width = canvas.clientWidth, tall = typeof height === "function" ? height(width) : height;
			const ratio = devicePixelRatio || 1;

			if (!width)
				return;
			canvas.style.height = tall + "px";
			if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(tall * ratio)) {
				canvas.width = Math.round(width * ratio);
				canvas.height = Math.round(tall * ratio);
			}
			context.setTransform(ratio, 0, 0, ratio, 0, 0);
			context.fillStyle = vt.colour("back");
			context.fillRect(0, 0, width, tall);
			draw(context, width, tall);
		};
		const later = () => {
			if (!asked)
				asked = requestAnimationFrame(now);
		};

		new ResizeObserver(later).observe(canvas);
		vt.onRedraw(later, canvas);
		return { canvas, draw: later };
	};
}
