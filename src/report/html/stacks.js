/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stack of a thread: the program's own frames stand out, and long runs of library frames between them are one
 * line that opens. vt.showStack() is for other pages, too.
 */
{
	const INNER = 5; /* frames that are always shown: where the thread is */
	const LEAST_FOLD = 3;
	const LEAST_SAME = 4; /* calls of one place by itself */
	const MOST_LINES = 300; /* shown at once */

	const isOwn = (frame) => frame.program === true || frame.telling === true;

	const isSamePlace = (a, b) => a.function === b.function && a.file === b.file && a.line === b.line &&
		a.module === b.module && (a.function || a.pc === b.pc);

	/* "torch", "threading", "libc": what a frame belongs to, for people */
	const library = (frame) => {
		if (frame.kind === "native")
			return (frame.module || "code in no file").replace(/\.so\b.*$/, "").replace(/(.)-[0-9a-f]{8,}$/, "$1");
		const file = frame.file || "?";
		const found = /\/(?:site|dist)-packages\/([^/]+)/.exec(file) || /\/lib\/python3[^/]*\/([^/]+)/.exec(file) ||
			/<frozen ([^.>]+)/.exec(file) || /([^/]+)$/.exec(file);

		return found ? found[1].replace(/\.py$/, "") : file;
	};

	/* The important part of a path: what follows site-packages and the like. */
	const shortPath = (path) => {
		const found = /\/(?:site|dist)-packages\/(.+)$/.exec(path) || /\/lib\/python3[^/]*\/(.+)$/.exec(path);

		return found ? found[1] : path;
	};

	vt.framePlace = (frame) => {
		if (frame.file)
			return shortPath(frame.file) + (frame.line ? ":" + frame.line : "");
		if (frame.module)
			return frame.module + (frame.module_offset ? "+" + frame.module_offset : "");
		return frame.kind === "native" ? frame.pc + ", in no file" : "";
	};

	/* The frame that says most: the innermost of the program itself, else of a library of its own; else undefined. */
	vt.tellingFrame = (frames) => frames.find((frame) => frame.program) ||
		frames.find((frame) => frame.kind === "python") || frames.find((frame) => frame.telling);

	/* "… 14 frames of torch, libtorch_cpu and others" */
	const foldLabel = (frames, same) => {
		if (same)
			return `… ${vt.count(frames.length)} more calls of the same`;
		const libraries = new Map();

		for (const frame of frames)
			libraries.set(library(frame), (libraries.get(library(frame)) || 0) + 1);
		const names = [...libraries].sort((a, b) => b[1] - a[1]).map((one) => one[0]);

		return `… ${vt.count(frames.length)} frames of ${names.slice(0, 2).join(", ")}` +
			(names.length > 2 ? " and others" : "");
	};

	/* From i on, the end of what is like frame i: other people's code, or calls of one place by itself. */
	const runEnd = (frames, i) => {
		let end = i + 1;

		while (end < frames.length && (isOwn(frames[i]) ? isSamePlace(frames[end], frames[i]) : !isOwn(frames[end])))
			end++;
		return end;
	};

	/* Lines: { frame } or { fold: [frames], same }. */
	const addRun = (lines, frames, i, end) => {
		const own = isOwn(frames[i]);
		/* Of the innermost run, also what the program called: the last one. */
		const first = own ? i + 1 : i === 0 ? INNER : i, last = !own && i === 0 && end < frames.length ? end - 1 : end;
		const folds = last - first >= (own ? LEAST_SAME - 1 : LEAST_FOLD);

		for (let k = i; k < end; k++) {
			if (!folds || k < first || k >= last)
				lines.push({ frame: frames[k] });
			else if (k === first)
				lines.push({ fold: frames.slice(first, last), same: own });
		}
	};

	const chooseLines = (frames) => {
		const lines = [];

		for (let i = 0; i < frames.length;) {
			const end = runEnd(frames, i);

			addRun(lines, frames, i, end);
			i = end;
		}
		return lines;
	};

	const MOST_OPEN = 12; /* variables that are shown at once */

	const localsOf = (frame) => {
		const locals = frame.locals, n = locals ? locals.variables.length : 0;
		const variable = (one) => [vt.el("dt", null, one.name), vt.el("dd", null, one.value === null ? "?" : one.value)];

		return n ? vt.el("details", { class: "locals", open: isOwn(frame) && n <= MOST_OPEN },
			vt.el("summary", null, vt.counted(n, "local variable")),
			vt.el("dl", null, locals.variables.map(variable), locals.cut ? vt.el("dt", null, "…") : null)) : null;
	};

	const functionOf = (frame) => (frame.function || frame.kind === "python" ? vt.functionName(frame) : "??") +
		(frame.inlined ? " (inlined)" : "");

	/* The file in full. */
	const fileOf = (frame) => (frame.file ? frame.file + (frame.line ? ":" + frame.line : "") : null);

	const frameTitle = (frame) => [frame.function, fileOf(frame),
		frame.module ? `${frame.module}+${frame.module_offset}` : null].filter(Boolean).join("\n");

	const frameClass = (frame, isHit) => [
		"frame",
		frame.program ? "program" : frame.kind === "native" && !frame.telling ? "native" : null,
		isHit(frame) ? "hit" : null,
	].filter(Boolean).join(" ");

	const frameLine = (frame, isHit) => vt.el("li", { class: frameClass(frame, isHit), title: frameTitle(frame) },
		vt.el("span", { class: "function" }, vt.short(functionOf(frame))),
		vt.el("span", { class: "place" }, vt.short(vt.framePlace(frame))), localsOf(frame));

	const foldLine = (line, isHit) => {
		let shown = null;
		const item = vt.el("li", { class: "fold" });
		const toggle = () => {
			if (shown) {
				shown.forEach((one) => one.remove());
				shown = null;
			} else {
				shown = line.fold.map((frame) => frameLine(frame, isHit));
				item.after(...shown);
			}
			button.setAttribute("aria-expanded", String(Boolean(shown)));
		};
		const button = vt.el("button", { type: "button", "aria-expanded": "false", onclick: toggle },
			foldLabel(line.fold, line.same));

		item.append(button);
		return { item, open: toggle };
	};

	/*
	 * frames: as in the JSON, innermost first. isHit: (frame) => whether a search found it; those are marked, and never
	 * folded away.
	 */
	vt.showStack = (frames, { isHit = () => false } = {}) => {
		const lines = chooseLines(frames), list = vt.el("ol", { class: "stack" });

		const add = (some) => {
			for (const line of some) {
				if (line.frame) {
					list.append(frameLine(line.frame, isHit));
					continue;
				}
				const fold = foldLine(line, isHit);

				list.append(fold.item);
				/* Of calls of the same, one is shown anyway. */
				if (!line.same && line.fold.some(isHit))
					fold.open();
			}
		};

		add(lines.slice(0, MOST_LINES));
		if (lines.length > MOST_LINES) {
			const more = vt.el("button", { type: "button", onclick: () => {
				const before = item.previousElementSibling;

				item.remove();
				add(lines.slice(MOST_LINES));
				vt.focusOn(before.nextElementSibling);
			} }, `… ${vt.count(lines.length - MOST_LINES)} more lines`);
			const item = vt.el("li", { class: "fold" }, more);

			list.append(item);
		}
		return list;
	};

	/* What the text report says below a stack; null nothing. view: as in the JSON */
	vt.stackNotes = (stack, view) => {
		const hasNative = view === "python" || stack.frames.some((frame) => frame.kind === "native"), notes = [];

		if (!stack.frames.length && view === "python" && !stack.why)
			notes.push("no Python frames");
		if (stack.why)
			notes.push((!stack.frames.length ? "no stack: " : hasNative ? "ends here: " : "no native frames: ") + stack.why);
		else if (stack.truncated)
			notes.push("there are more frames");
		if (stack.merge_uncertain)
			notes.push("where the Python frames belong between the native ones is not known");
		return notes.length ? vt.el("div", { class: "note" }, notes.map((note) => vt.el("div", null, `(${note})`))) : null;
	};

	const MOST_PADDED = 60;

	/* As the text report has it, in full. */
	vt.stackText = (frames) => {
		const names = frames.map(functionOf), width = Math.max(...names.map((name) => name.length), 0);

		return frames.map((frame, i) => `  ${names[i].padEnd(Math.min(width, MOST_PADDED))}  ` +
			`${fileOf(frame) || vt.framePlace(frame)}\n`).join("");
	};
}
