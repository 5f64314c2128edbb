/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The picture of who waits for whom, and the same as a list. As each node has one line that goes on, the picture is a
 * forest, where a ring has one line that leads back.
 */
{
	const MOST_NODES = 240; /* drawn; the list has all */

	/* ---- where the nodes are: waiting on the left, what they wait for on the right ---- */

	const COLUMN = 290, ROW = 62, MARGIN = 8;
	const WIDTH = 226, OUTSIDE_WIDTH = 330, HEIGHT = 46;
	const TURN = 10, RING = 2 * TURN + 2; /* room beside a ring for the line that leads back */

	const widthOf = (node) => (node.kind === "outside" ? OUTSIDE_WIDTH : WIDTH);

	/* The nodes where the lines end; of a ring, the one whose line leads back to its first. */
	const findEnds = (nodes) => {
		const seen = new Map(), ends = [];

		nodes.forEach((start, i) => {
			let at = start, last = null;

			while (at && !seen.has(at)) {
				seen.set(at, i);
				last = at;
				at = at.next;
			}
			if (last && (!at || seen.get(at) === i)) {
				ends.push(last);
				last.back = at; /* null, or where the ring begins */
			}
		});
		return ends;
	};

	/* Sets x and y of all nodes; returns the size. */
	const place = (nodes) => {
		const before = new Map(nodes.map((node) => [node, []])), ends = findEnds(nodes);
		const left = MARGIN + (ends.some((end) => end.back) ? RING : 0);
		let y = MARGIN, width = 0;

		for (const node of nodes)
			if (node.next && node.next !== node.back)
				before.get(node.next).push(node);
		const deepest = (node) => 1 + Math.max(0, ...before.get(node).map(deepest));
		const put = (node, depth) => {
			const waiting = before.get(node);

			waiting.forEach((one) => put(one, depth - 1));
			node.x = left + depth * COLUMN;
			node.y = waiting.length ? (waiting[0].y + waiting[waiting.length - 1].y) / 2 : y;
			if (!waiting.length)
				y += ROW;
			width = Math.max(width, node.x + widthOf(node) + left);
		};

		for (const end of ends) {
			put(end, deepest(end) - 1);
			if (end.back) {
				end.below = y - TURN;
				y += TURN;
			}
		}
		return { width, height: y };
	};

	/* ---- the picture ---- */

	const svg = (tag, attributes, ...children) => {
		const element = document.createElementNS("http://www.w3.org/2000/svg", tag);

		for (const [name, value] of Object.entries(attributes))
			if (value !== null && value !== undefined)
				element.setAttribute(name, value);
		vt.append(element, children);
		return element;
	};

	let measure = null;

	const LONGEST = 200; /* characters that are measured */

	const cut = (whole, width, font) => {
		const text = whole.length > LONGEST ? whole.slice(0, LONGEST) + "…" : whole;

		measure = measure || document.createElement("canvas").getContext("2d");
		measure.font = font;
		if (measure.measureText(text).width <= width)
			return text;
		let n = text.length;

		while (n > 1 && measure.measureText(text.slice(0, n) + "…").width > width)
			n--;
		return text.slice(0, n) + "…";
	};

	/* One or two lines. */
	const wrap = (whole, width, font) => {
		const text = whole.slice(0, LONGEST);

		measure = measure || document.createElement("canvas").getContext("2d");
		measure.font = font;
		let at = text.length;

		while (at > 0 && measure.measureText(text.slice(0, at)).width > width)
			at = text.lastIndexOf(" ", at - 1);
		return at === whole.length ? [text] : at <= 0 ? [cut(text, width, font)] :
			[text.slice(0, at), cut(whole.slice(at + 1), width, font)];
	};

	const nodeLabel = (node) => {
		if (node.kind !== "thread")
			return node.label;
		const n = node.threads.length;

		return n === 1 ? vt.threadLabel(node.threads[0]) : `${vt.count(n)} × ${node.threads[0].name || "threads"}`;
	};

	/* The second line of a node. */
	const nodeDetail = (node) => {
		if (node.kind !== "thread")
			return node.detail || "";
		const thread = node.threads[0], frame = vt.tellingFrame(thread.stack.frames);
		const where = frame ? vt.functionName(frame) + " " + vt.place(frame) : "";

		return node.next ? where : [thread.verdict || thread.waits, where].filter(Boolean).join(" · ");
	};

	const fullText = (node) => [
		nodeLabel(node),
		nodeDetail(node),
		node.threads && node.threads.length > 1 ? "tids " + node.threads.map((thread) => thread.tid).join(", ") : null,
	].filter(Boolean).join("\n");

	const nodeLines = (node, room, fonts) => (node.kind === "outside" ? wrap(nodeLabel(node), room, "12px " + fonts) : [
		cut(nodeLabel(node), room, "600 13px " + fonts),
		cut(nodeDetail(node), room, "12px " + fonts),
	].filter(Boolean));

	const nodeText = (node, left) => {
		const fonts = getComputedStyle(document.body).fontFamily;
		const lines = nodeLines(node, widthOf(node) - 2 * left, fonts), y = lines.length === 1 ? [28] : [19, 36];
		const styles = node.kind === "outside" ? ["what", "what"] : ["name", "detail"];

		return lines.map((line, i) => svg("text", { x: left, y: y[i], class: styles[i] }, line));
	};

	const drawNode = (node, go) => {
		const isThread = node.kind === "thread", text = fullText(node);
		const element = svg("g", { class: `node ${node.kind}${node.alarm ? " alarm" : ""}`,
			transform: `translate(${node.x} ${node.y})`,
			tabindex: isThread ? "0" : null, role: isThread ? "link" : "img",
			"aria-label": text.replace(/\n/g, ", ") },
		svg("title", {}, text),
		svg("rect", { width: widthOf(node), height: HEIGHT, rx: isThread ? 5 : HEIGHT / 2 }),
		nodeText(node, isThread ? 10 : 18));

		if (isThread) {
			element.addEventListener("click", () => go(node.threads[0].tid));
			element.addEventListener("keydown", (event) => {
				if (event.key !== "Enter")
					return;
				event.preventDefault(); /* or it presses what has the focus then */
				go(node.threads[0].tid);
			});
		}
		return element;
	};

	const forward = (from, to) => {
		const half = (to.x - from.x) / 2;

		return `M ${from.x} ${from.y} C ${from.x + half} ${from.y} ${to.x - half} ${to.y} ${to.x - 1} ${to.y}`;
	};

	/* Below all others of its ring: to the right, down, to the left, up, and to the right again, with round corners. */
	const backward = (from, to, below) => [
		`M ${from.x} ${from.y} h ${TURN} q ${TURN} 0 ${TURN} ${TURN} V ${below} q 0 ${TURN} ${-TURN} ${TURN}`,
		`H ${to.x - TURN} q ${-TURN} 0 ${-TURN} ${-TURN} V ${to.y + TURN} q 0 ${-TURN} ${TURN} ${-TURN} h ${TURN - 1}`,
	].join(" ");

	const drawLine = (node) => {
		const from = { x: node.x + WIDTH, y: node.y + HEIGHT / 2 };
		const to = { x: node.next.x, y: node.next.y + HEIGHT / 2 };
		const path = node.back === node.next ? backward(from, to, node.below) : forward(from, to);
		const alarm = node.alarm && node.next.alarm ? "alarm" : "", kind = node.says === "is held by" ? "held" : "waits";

		return svg("path", { d: path, class: `line ${kind} ${alarm}`, "marker-end": `url(#waits-arrow${alarm})` });
	};

	const arrow = (alarm) => svg("marker", { id: "waits-arrow" + alarm, class: "arrow " + alarm, viewBox: "0 0 8 8",
		refX: 7, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto" },
	svg("path", { d: "M 0 0.6 L 7.4 4 L 0 7.4 z" }));

	const draw = (nodes, go) => {
		const { width, height } = place(nodes);
		const picture = svg("svg", { class: "waits", width, height, viewBox: `0 0 ${width} ${height}`, role: "group",
			"aria-label": "Who waits for whom; the list below says the same" },
		svg("defs", {}, arrow(""), arrow("alarm")),
		nodes.filter((node) => node.next).map(drawLine));

		for (const node of nodes)
			picture.append(drawNode(node, go));
		return picture;
	};

	/* ---- the same as a list ---- */

	const sentence = (node) => {
		const parts = [nodeLabel(node)], seen = new Set();
		let at = node;

		for (; at.next && !seen.has(at); at = at.next) {
			seen.add(at);
			parts.push(at.says === "is held by" ? "held by" : at.says, nodeLabel(at.next));
			if (at.next === node)
				break;
		}
		if (!at.next && nodeDetail(at) && at.kind === "thread")
			parts.push("(" + nodeDetail(at) + ")");
		return (node.alarm ? "Deadlock: " : "") + parts.join(" ");
	};

	const asList = (nodes, go) => {
		const list = vt.el("ul"), waiting = nodes.filter((node) => node.kind === "thread" && node.next);
		const item = (node) => vt.el("li", { class: node.alarm ? "alarm" : null },
			vt.leadsTo(sentence(node), () => go(node.threads[0].tid)));
		const fill = () => list.firstChild || list.append(...waiting.map(item));

		return vt.el("details", { class: "waits-list", ontoggle: fill },
			vt.el("summary", null, "The same as a list"), list);
	};

	/* The first of them, without lines to others. */
	const pickNodes = (nodes) => {
		const copies = new Map(nodes.slice(0, MOST_NODES).map((node) => [node, { ...node }]));

		for (const copy of copies.values())
			copy.next = copies.get(copy.next) || null;
		return [...copies.values()];
	};

	const legend = (nodes) => vt.el("div", { class: "legend" },
		nodes.some((node) => node.alarm) ? vt.el("span", { class: "alarm" }, "⚠ a ring: none of them will go on") : null,
		vt.el("span", null, "→ waits for"),
		nodes.some((node) => node.says === "is held by") ? vt.el("span", null, "⇢ is held by") : null,
		vt.el("span", { class: "note" }, "a click on a thread shows its stack"));

	/* Whether there is anything to draw: somebody waits for another, or for something outside. */
	const graphs = new WeakMap();

	const graphOf = (json) => {
		if (!graphs.has(json))
			graphs.set(json, json.threads ? vt.buildWaits(json) : []);
		return graphs.get(json);
	};

	vt.hasWaits = (json) => graphOf(json).length > 0;

	/* go: (tid) => what a click on a thread does */
	vt.showWaits = (container, json, go = (tid) => vt.goToThread(json, tid)) => {
		const nodes = graphOf(json), shown = pickNodes(nodes);

		const left = nodes.length - shown.length;

		vt.append(container, [legend(nodes), vt.el("div", { class: "waits-picture scrolls" }, draw(shown, go)),
			left ? vt.el("p", { class: "note" }, `${vt.count(left)} more are in the list.`) : null, asList(nodes, go)]);
	};

	vt.view({
		id: "waits",
		title: "Who waits for whom",
		wanted: (report) => vt.hasWaits(report.json),
		render: (section, report) => vt.showWaits(section, report.json),
	});
}
