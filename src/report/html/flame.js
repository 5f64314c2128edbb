/* SPDX-License-Identifier: Apache-2.0 */
/* A flame graph of a tree of stacks, the outermost frame on top. Widths are to scale. */
{
	const ROW = 20, MIN_WIDTH = 0.5, MIN_TEXT = 26; /* CSS pixels */
	const MAX_ROWS = 200; /* drawn; a canvas much taller stays blank */
	const MAX_CRUMBS = 60;
	const MAX_NAME = 300;
	const KEYS = "Arrow keys go from frame to frame, Enter zooms to one, Escape zooms out.";

	/* Where each node is, in units of the chosen weight. Children follow each other, the largest first. */
	const place = (graph) => {
		const w = graph.weight, order = (a, b) => (a.kind === "none") - (b.kind === "none") || b.values[w] - a.values[w];
		const todo = [graph.root];

		graph.root.x = 0;
		graph.depth = 0;
		while (todo.length) {
			const node = todo.pop();
			let { x } = node;

			graph.depth = Math.max(graph.depth, node.depth);
			node.children.sort(order);
			for (const child of node.children) {
				child.x = x;
				x += child.values[w];
				todo.push(child);
			}
		}
	};

	const isAbove = (node, other) => {
		while (other && other.depth > node.depth)
			other = other.parent;
		return other === node;
	};

	/*
	 * With more rows than are drawn, those from the zoomed node's on: its callers are in the crumbs. The last row then
	 * says how many are below it.
	 */
	const firstRow = (graph) => (graph.depth < MAX_ROWS ? 0 : Math.max(0, Math.min(graph.zoomed.depth - 1, graph.depth + 1 - MAX_ROWS)));
	const endRow = (graph) => Math.min(graph.depth + 1, firstRow(graph) + MAX_ROWS);
	const rowsOf = (graph) => Math.min(graph.depth + 1, MAX_ROWS + 1);
	const topOf = (graph, node) => (node.depth - firstRow(graph)) * ROW;
	const isDrawn = (graph, node) => node.depth >= firstRow(graph) && node.depth < endRow(graph);

	/* { x, width } in CSS pixels; what is above the zoomed node has all the width */
	const spanOf = (graph, node) => {
		const { zoomed, weight, width } = graph, scale = width / Math.max(1e-12, zoomed.values[weight]);

		if (node.depth < zoomed.depth)
			return { x: 0, width: isAbove(node, zoomed) ? width : 0 };
		return { x: (node.x - zoomed.x) * scale, width: node.values[weight] * scale };
	};

	/* ---- drawing ---- */

	const fillOf = (graph, node) => {
		const base = node.kind === "python" ? "frame-python" : node.kind === "native" ? "frame-native" : "map-cached";
		const back = vt.rgb(vt.colour("back")), rgb = vt.rgb(vt.colour(base));
		const strong = node.strong || node.kind === "none" || node.kind === "root" ? 1 : 0.5;
		const faint = (graph.found && !graph.found.nodes.has(node) ? 0.2 : 1) * (node.depth < graph.zoomed.depth ? 0.5 : 1);

		return vt.mix(rgb, back, strong * faint);
	};

	const drawText = (graph, context, node, x, width, y) => {
		const room = Math.floor((width - 8) / (graph.letter * (node.strong ? 1.12 : 1)));
		const whole = node.name + (node.place ? "  " + node.place : "");

		context.font = node.strong ? graph.boldFont : graph.font;
		/* The end of a qualified name tells most; of text the begin does. */
		context.fillText(whole.length <= room ? whole : node.name.length <= room || node.kind === "none" || node.kind === "root" ?
			whole.slice(0, room - 1) + "…" : "…" + node.name.slice(1 - room), x + 4, y + ROW / 2, Math.max(1, width - 6));
	};

	const drawNode = (graph, context, node, x, width) => {
		const left = Math.max(0, x), right = Math.min(graph.width, x + width), y = topOf(graph, node), rgb = fillOf(graph, node);

		context.fillStyle = `rgb(${rgb.join()})`;
		context.fillRect(left, y, Math.max(MIN_WIDTH, right - left - (width > 3 ? 1 : 0)), ROW - 1);
		if (graph.found && graph.found.nodes.has(node)) {
			context.fillStyle = vt.colour("alarm");
			context.fillRect(left, y + ROW - 4, Math.max(1, right - left - 1), 3);
		}
		if (right - left >= MIN_TEXT) {
			context.fillStyle = vt.inkOn(rgb);
			drawText(graph, context, node, left, right - left, y);
		}
	};

	/* Children that are too narrow to be seen are drawn as one. Those that are drawn are added to wide. */
	const drawChildren = (graph, context, node, wide) => {
		let thin = null;

		for (const child of node.children) {
			const { x, width } = spanOf(graph, child);

			if (x > graph.width || x + width < 0)
				continue;
			if (width >= MIN_WIDTH) {
				drawNode(graph, context, child, x, width);
				wide.push(child);
			} else if (!thin) {
				thin = { x, end: x + width };
			} else {
				thin.end = x + width;
			}
		}
		if (thin && thin.end - thin.x >= MIN_WIDTH) {
			context.fillStyle = vt.colour("line");
			context.fillRect(thin.x, topOf(graph, node) + ROW, thin.end - thin.x, ROW - 1);
		}
	};

	const drawBelow = (graph, context) => {
		const todo = [graph.zoomed], end = endRow(graph);

		while (todo.length) {
			const node = todo.pop();

			if (node.depth + 1 < end)
				drawChildren(graph, context, node, todo);
		}
		if (graph.depth < end)
			return;
		context.font = graph.font;
		context.fillStyle = vt.colour("faint");
		context.fillText(`${vt.count(graph.depth + 1 - end)} rows deeper: zoom in`, 4, (end - firstRow(graph)) * ROW + ROW / 2);
	};

	const drawCursor = (graph, context) => {
		const { x, width } = spanOf(graph, graph.cursor), left = Math.max(1, x), right = Math.min(graph.width - 1, x + width);

		context.strokeStyle = vt.colour("edge");
		context.lineWidth = 2;
		context.strokeRect(left, topOf(graph, graph.cursor) + 1, Math.max(2, right - left - 2), ROW - 3);
	};

	const draw = (graph, context, width) => {
		const family = getComputedStyle(document.body).fontFamily;

		graph.width = width;
		graph.font = "12px " + family;
		graph.boldFont = "600 12px " + family;
		context.font = graph.font;
		graph.letter = graph.letter || context.measureText("abcdefghilmnorstu._:0123").width / 24;
		context.textBaseline = "middle";
		for (let node = graph.zoomed; node && isDrawn(graph, node); node = node.parent)
			drawNode(graph, context, node, spanOf(graph, node).x, spanOf(graph, node).width);
		drawBelow(graph, context);
		if (graph.cursor && isDrawn(graph, graph.cursor) && document.activeElement === graph.canvas)
			drawCursor(graph, context);
	};

	/* ---- finding ---- */

	const nodeAt = (graph, x, y) => {
		const depth = Math.floor(y / ROW) + firstRow(graph);
		let node = graph.zoomed;

		if (depth >= endRow(graph))
			return null;

		while (node && node.depth > depth)
			node = node.parent;
		while (node && node.depth < depth)
			node = node.children.find((child) => {
				const span = spanOf(graph, child);

				return x >= span.x && x < span.x + Math.max(MIN_WIDTH, span.width);
			});
		return node || null;
	};

	/* Nodes whose function or file has the text, and the sum of them; a frame within a frame that matches counts once. */
	const search = (graph, text) => {
		const word = text.trim().toLowerCase(), nodes = new Set(), todo = [[graph.root, false]];
		const sums = graph.root.values.map(() => 0);

		if (!word)
			return null;
		while (todo.length) {
			const [node, counted] = todo.pop();
			const hit = node.kind !== "root" && (node.name + " " + (node.file || "") + " " + node.place).toLowerCase().includes(word);

			if (hit)
				nodes.add(node);
			if (hit && !counted)
				node.values.forEach((value, i) => (sums[i] += value));
			for (const child of node.children)
				todo.push([child, counted || hit]);
		}
		return { nodes, sums };
	};

	/* ---- words ---- */

	const amount = (graph, node) => graph.weights[graph.weight].format(node.values[graph.weight]);

	const share = (graph, node) => vt.percent(node.values[graph.weight], graph.root.values[graph.weight]);

	const ownOf = (graph, node) => node.values.map((value, i) => value - node.children.reduce((sum, child) =>
		sum + child.values[i], 0))[graph.weight];

	const shorten = (name) => (name.length > MAX_NAME ? name.slice(0, MAX_NAME) + "…" : name);

	const tipLines = (graph, node) => [
		shorten(node.name),
		node.file && ["", node.file + (/:\d+$/.test(node.place) ? node.place.replace(/^.*:/, ":") : "")],
		...graph.weights.map((weight, i) => [weight.title, weight.format(node.values[i]) + (graph.root.values[i] ?
			`, ${vt.percent(node.values[i], graph.root.values[i])} of all` : "")]),
		node.children.length && ownOf(graph, node) > 0 && ["in it alone", graph.weights[graph.weight].format(ownOf(graph, node))],
	];

	/* ---- what the user does ---- */

	const sibling = (node, step) => {
		if (!node.parent)
			return node;
		const { children } = node.parent, other = children[children.indexOf(node) + step];

		return other || node;
	};

	const WALKS = {
		ArrowUp: (node) => node.parent || node,
		ArrowDown: (node) => node.children[0] || node,
		ArrowLeft: (node) => sibling(node, -1),
		ArrowRight: (node) => sibling(node, 1),
		Home: (node, graph) => graph.root,
	};

	const listen = (graph, api) => {
		const { canvas } = graph;
		const at = (event) => {
			const box = canvas.getBoundingClientRect();

			return nodeAt(graph, event.clientX - box.left, event.clientY - box.top);
		};

		canvas.addEventListener("pointermove", (event) => {
			const node = at(event);

			canvas.style.cursor = node ? "pointer" : "";
			if (node)
				vt.showTip(event, tipLines(graph, node));
			else
				vt.hideTip();
		});
		canvas.addEventListener("pointerleave", vt.hideTip);
		canvas.addEventListener("click", (event) => {
			const node = at(event);

			if (node)
				api.zoom(node);
		});
		for (const name of ["focus", "blur"])
			canvas.addEventListener(name, api.draw);
		canvas.addEventListener("keydown", (event) => {
			const cursor = graph.cursor || graph.zoomed;

			if (event.ctrlKey || event.metaKey || event.altKey)
				return;
			if (WALKS[event.key])
				api.focus(WALKS[event.key](cursor, graph));
			else if (event.key === "Enter")
				api.zoom(cursor);
			else if (event.key === "Escape" && graph.zoomed.parent)
				api.zoom(graph.zoomed.parent);
			else
				return;
			event.preventDefault();
			vt.hideTip();
		});
	};

	const showPath = (graph, crumbs, api) => {
		const path = [];

		for (let node = graph.zoomed; node; node = node.parent)
			path.unshift(node);
		/* Of a long way, both ends. */
		const shown = path.length > MAX_CRUMBS ? [path[0], ...path.slice(1 - MAX_CRUMBS)] : path;

		crumbs.replaceChildren(...shown.map((node, i) => vt.el("li", null, i === shown.length - 1 ?
			vt.el("span", { "aria-current": "true" }, `${shorten(node.name)}, ${amount(graph, node)}` + (node.parent ?
				`, ${share(graph, node)}` : "")) :
			vt.el("button", { type: "button", class: "link", onclick: () => api.zoom(node) }, shorten(node.name)))));
	};

	const makeTools = (graph, api, extra) => {
		const found = vt.el("span", { class: "note found", role: "status" });
		const switches = graph.weights.map((weight, i) => vt.el("button", { type: "button", "aria-pressed": String(i === 0),
			onclick: () => {
				switches.forEach((button, j) => button.setAttribute("aria-pressed", String(i === j)));
				api.setWeight(i);
			} }, weight.title));

		graph.showFound = () => {
			const of = graph.found, w = graph.weight;

			found.textContent = of ? of.nodes.size ? `${vt.count(of.nodes.size)} frame${of.nodes.size === 1 ? "" : "s"}: ` +
				`${graph.weights[w].format(of.sums[w])}, ${vt.percent(of.sums[w], graph.root.values[w]) || "0 %"}` :
				"no frame matches" : "";
		};
		return vt.el("div", { class: "tools" }, graph.weights.length > 1 ? switches : null, extra,
			vt.el("label", { class: "field" }, vt.el("span", { class: "note" }, "Find"), " ", vt.el("input", { type: "search",
				size: "22", placeholder: "function or file", "aria-label": "Find frames by function or file",
				oninput: (event) => api.search(event.target.value) })), found);
	};

	/*
	 * Draws a tree of vt.stackTree() into a container. options: weights: [{ title, format }], one for each of a node's
	 * values; label: for screen readers; tools: elements beside the search; onzoom: (node). Returns { canvas, setTree(tree), setWeight(index),
	 * search(text), zoom(node), focus(node), root(), zoomed(), place(node): on the canvas, draw() }.
	 */
	vt.flameGraph = (container, tree, { weights, label = "Flame graph", tools = null, onzoom = null }) => {
		const graph = { root: tree, zoomed: tree, cursor: null, weights, weight: 0, found: null, text: "", depth: 0, width: 600 };
		const crumbs = vt.el("ol", { class: "crumbs", "aria-label": "Zoomed to" });

		place(graph);
		const { canvas, draw: drawLater } = vt.canvas(() => rowsOf(graph) * ROW, (context, width) => draw(graph, context, width),
			`${label}. ${KEYS}`);
		const changed = () => {
			showPath(graph, crumbs, api);
			graph.found = search(graph, graph.text);
			graph.showFound();
			drawLater();
		};
		const api = {
			canvas,
			setTree: (other) => {
				Object.assign(graph, { root: other, zoomed: other, cursor: null });
				place(graph);
				changed();
			},
			setWeight: (i) => {
				graph.weight = i;
				place(graph);
				changed();
			},
			search: (text) => {
				graph.text = text;
				changed();
			},
			zoom: (node) => {
				graph.zoomed = node;
				graph.cursor = node;
				changed();
				vt.tell(`Zoomed to ${shorten(node.name)}, ${amount(graph, node)}`);
				if (onzoom)
					onzoom(node);
			},
			focus: (node) => {
				graph.cursor = node;
				if (!isAbove(graph.zoomed, node) && !isAbove(node, graph.zoomed))
					graph.zoomed = node.parent || node;
				if (!isDrawn(graph, node))
					graph.zoomed = node;
				changed();
				vt.tell(`${shorten(node.name)} ${node.place}, ${amount(graph, node)}, ${share(graph, node)}`);
			},
			root: () => graph.root,
			zoomed: () => graph.zoomed,
			cursor: () => graph.cursor,
			place: (node) => ({ ...spanOf(graph, node), y: topOf(graph, node), height: ROW }),
			draw: drawLater,
		};

		graph.canvas = canvas;
		canvas.setAttribute("role", "application");
		canvas.setAttribute("aria-roledescription", "flame graph");
		listen(graph, api);
		vt.append(container, [makeTools(graph, api, tools), crumbs, canvas]);
		changed();
		return api;
	};
}
