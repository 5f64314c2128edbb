/* SPDX-License-Identifier: Apache-2.0 */
/* Amounts over time: a chart, its legend, and the same figures as a table. */
{
	const HEIGHT = 300, MARGIN = { left: 74, right: 12, top: 10, bottom: 24 };

	const lineColour = (i, n) => (i < n ? vt.colour("pick-" + (i % 16)) : vt.colour("faint"));

	/* Steps of an axis that people read: 1, 2 or 5 times a power; of bytes in powers of 1024. */
	vt.niceStep = (rough, base) => {
		const power = base ** Math.floor(Math.log(rough) / Math.log(base));
		const steps = base === 10 ? [1, 2, 5, 10] : [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

		return power * (steps.find((step) => power * step >= rough) || steps[steps.length - 1]);
	};

	const axis = (most, ticks, base) => {
		const step = vt.niceStep(Math.max(most, base === 10 ? 1e-3 : 1) / ticks, base), values = [];

		for (let at = 0; at <= most * 1.0001; at += step)
			values.push(at);
		return values;
	};

	/* Each line's lower and upper edge at each point: stacked, or its amount above 0. */
	const edges = (course, shown, stacked) => {
		const base = new Float64Array(course.seconds.length);

		return shown.map((line) => course.seconds.map((_, i) => {
			const amount = line.bytes[i];

			if (!stacked)
				return [0, amount];
			const low = base[i];

			base[i] += amount || 0;
			return [low, base[i]];
		}));
	};

	const drawAxes = (context, scale, width, height) => {
		context.strokeStyle = vt.colour("line");
		context.fillStyle = vt.colour("faint");
		context.font = "12px system-ui, sans-serif";
		context.textAlign = "right";
		context.textBaseline = "middle";
		for (const bytes of axis(scale.most, 5, 1024)) {
			context.beginPath();
			context.moveTo(MARGIN.left, scale.y(bytes) + 0.5);
			context.lineTo(width - MARGIN.right, scale.y(bytes) + 0.5);
			context.stroke();
			context.fillText(vt.bytes(bytes), MARGIN.left - 6, scale.y(bytes));
		}
		context.textAlign = "center";
		context.textBaseline = "top";
		for (const seconds of axis(scale.until, Math.max(2, width / 140), 10))
			context.fillText(vt.duration(seconds), Math.max(MARGIN.left, Math.min(width - 24, scale.x(seconds))),
				height - MARGIN.bottom + 6);
	};

	/* Gaps where an amount is not known. */
	const drawLine = (context, course, line, scale, colour) => {
		context.strokeStyle = colour;
		context.lineWidth = line.grows ? 2.5 : 1.5;
		context.beginPath();
		let down = false;

		course.seconds.forEach((seconds, i) => {
			if (line.bytes[i] === null) {
				down = false;
				return;
			}
			if (down)
				context.lineTo(scale.x(seconds), scale.y(line.bytes[i]));
			else
				context.moveTo(scale.x(seconds), scale.y(line.bytes[i]));
			down = true;
		});
		context.stroke();
		context.lineWidth = 1;
	};

	/* From first to last: points whose sums are known. */
	const fillBand = (context, { seconds }, band, scale, [first, last]) => {
		context.beginPath();
		for (let i = first; i <= last; i++)
			context.lineTo(scale.x(seconds[i]), scale.y(band[i][1]));
		for (let i = last; i >= first; i--)
			context.lineTo(scale.x(seconds[i]), scale.y(band[i][0]));
		context.closePath();
		context.fill();
	};

	const drawBand = (context, course, band, scale, colour) => {
		const { sums } = course, n = sums.length;

		context.fillStyle = colour;
		for (let first = 0, last; first < n; first = last + 1) {
			last = first;
			while (last + 1 < n && (sums[last + 1] === null) === (sums[first] === null))
				last++;
			if (sums[first] !== null)
				fillBand(context, course, band, scale, [first, last]);
		}
	};

	/* What no line shows, so that the bands add up to the sum. */
	const withOthers = (course) => {
		if (!course.sums)
			return course.lines;
		const others = course.sums.map((sum, i) => (sum === null ? null : Math.max(0, sum - course.lines.reduce((n, line) => n + (line.bytes[i] || 0), 0))));

		return others.some((bytes) => bytes > 0) ? [...course.lines, { label: "others", bytes: others, others: true }] : course.lines;
	};

	/*
	 * course: { seconds: [], sums: [] or null, lines: [{ label, grows, bytes: [] (null: not known) }] }; sums: then the
	 * lines are parts of a whole and can be stacked. Adds the chart and a table to container.
	 */
	vt.showCourse = (container, course, title) => {
		const lines = withOthers(course), hidden = new Set();
		let stacked = Boolean(course.sums), cursor = -1;
		const colourOf = (line) => (line.others ? vt.colour("faint") : lineColour(lines.indexOf(line), 16));
		const shown = () => lines.filter((line) => !hidden.has(line));

		const scales = (width, height) => {
			const bands = edges(course, shown(), stacked);
			const most = bands.reduce((n, band) => band.reduce((m, edge) => Math.max(m, edge[1] || 0), n), 0) || 1;
			const until = course.seconds[course.seconds.length - 1] || 1;

			return { most, until, bands,
				x: (seconds) => MARGIN.left + (seconds / until) * (width - MARGIN.left - MARGIN.right),
				y: (bytes) => height - MARGIN.bottom - (bytes / most) * (height - MARGIN.top - MARGIN.bottom) };
		};
		const drawCursor = (context, scale, height) => {
			if (cursor < 0)
				return;
			context.strokeStyle = vt.colour("edge");
			context.beginPath();
			context.moveTo(scale.x(course.seconds[cursor]) + 0.5, MARGIN.top);
			context.lineTo(scale.x(course.seconds[cursor]) + 0.5, height - MARGIN.bottom);
			context.stroke();
		};
		const chart = vt.canvas(HEIGHT, (context, width, height) => {
			const scale = scales(width, height);

			drawAxes(context, scale, width, height);
			shown().forEach((line, i) => (stacked ? drawBand(context, course, scale.bands[i], scale, colourOf(line)) :
				drawLine(context, course, line, scale, colourOf(line))));
			drawCursor(context, scale, height);
		}, title + ": how " + lines.length + " sources went over time. The table below has the figures. Left and right arrow keys " +
			"read the points.");

		const linesAt = (i) => ["after " + vt.duration(course.seconds[i]), ...shown().filter((line) => line.bytes[i]).slice(0, 14).map(
			(line) => [line.label, vt.bytes(line.bytes[i])]), course.sums && ["all", vt.bytes(course.sums[i])]];
		const moveTo = (i, event) => {
			cursor = i;
			chart.draw();
			if (event)
				vt.showTip(event, linesAt(i));
			else
				vt.tell(linesAt(i).filter(Boolean).map((line) => (Array.isArray(line) ? line.join(" ") : line)).join(", "));
		};

		chart.canvas.addEventListener("mousemove", (event) => {
			const scale = scales(chart.canvas.clientWidth, HEIGHT), x = event.offsetX;
			let nearest = 0;

			course.seconds.forEach((seconds, i) => {
				if (Math.abs(scale.x(seconds) - x) < Math.abs(scale.x(course.seconds[nearest]) - x))
					nearest = i;
			});
			moveTo(nearest, event);
		});
		chart.canvas.addEventListener("mouseleave", () => {
			cursor = -1;
			chart.draw();
			vt.hideTip();
		});
		chart.canvas.addEventListener("keydown", (event) => {
			const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];

			if (!by)
				return;
			event.preventDefault();
			moveTo(Math.max(0, Math.min(course.seconds.length - 1, cursor < 0 ? (by > 0 ? 0 : course.seconds.length - 1) : cursor + by)));
		});

		const toggle = (line) => {
			const swatch = vt.swatch(colourOf(line));
			const button = vt.el("button", { type: "button", "aria-pressed": "true", onclick: () => {
				if (!hidden.delete(line))
					hidden.add(line);
				button.setAttribute("aria-pressed", String(!hidden.has(line)));
				chart.draw();
			} }, swatch, line.label);

			vt.onRedraw(() => (swatch.style.background = colourOf(line)), swatch);
			return button;
		};
		const mode = course.sums && vt.el("button", { type: "button", "aria-pressed": "true", onclick: () => {
			stacked = !stacked;
			mode.setAttribute("aria-pressed", String(stacked));
			chart.draw();
		} }, "stacked");
		const last = course.seconds.length - 1;
		const first = (line) => line.bytes.find((bytes) => bytes !== null) ?? null;
		const change = (line) => (line.bytes[last] === null || first(line) === null ? null : line.bytes[last] - first(line));

		vt.append(container, [
			vt.el("h3", null, title),
			vt.el("div", { class: "tools" }, mode, lines.slice(0, 12).map(toggle)),
			chart.canvas,
			vt.table([
				{ title: "source", value: (line) => line.label, cell: (line) => [line.label, line.grows ?
					vt.el("span", { class: "alarm" }, " grows") : null] },
				{ title: "first", number: true, value: first, cell: (line) => vt.bytes(first(line)) },
				{ title: "last", number: true, value: (line) => line.bytes[last], cell: (line) => vt.bytes(line.bytes[last]) },
				{ title: "change", number: true, value: change, cell: (line) => vt.change(change(line)) },
			], lines, { limit: 12, caption: title, sortBy: 3 }).element,
		]);
		return chart;
	};

	const TITLES = { owner: "By owner", site: "By place that allocates", size: "By size of the blocks", line: "Memory outside PyTorch" };

	/* Those with something to draw. Lines of the ledger can contain each other: they have no sum. */
	const coursesOf = (growth) => (growth.courses || []).map((course) => ({ ...course,
		sums: course.by === "line" ? null : course.sums,
		lines: course.lines.filter((line) => line.bytes.some((bytes) => bytes > 0)),
	})).filter((course) => course.seconds.length > 1 && course.lines.length);

	vt.view({
		id: "course",
		title: "Over time",
		wanted: (report) => report.json.growth && coursesOf(report.json.growth).length > 0,
		render: (section, report) => {
			const growth = report.json.growth;

			for (const course of coursesOf(growth).filter((one) => one.left_out))
				section.append(vt.el("p", { class: "alarm" }, `${vt.count(course.left_out)} sources that came late are not shown: ` +
					(vt.lookup(TITLES, course.by) || course.by)));
			section.append(vt.el("p", { class: "note" }, `${vt.count(growth.looks)} looks in ${vt.duration(growth.seconds)}` +
				(growth.failed_looks ? `; ${vt.count(growth.failed_looks)} more do not count` : "")));
			for (const course of coursesOf(growth))
				vt.showCourse(section, course, vt.lookup(TITLES, course.by) || course.by);
		},
	});
}
