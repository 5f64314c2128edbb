/* SPDX-License-Identifier: Apache-2.0 */
/* The frame of the page: parts register themselves, and are drawn when they come into view. */
{
	const views = [];

	/*
	 * Another kind of page than that of a report: { wanted: (documents) => whether it is this one, show: (documents) =>
	 * fills the page, returns the JSON of the main document }. Documents are as vt.documents() returns them.
	 */
	vt.pages = [];
	vt.page = (page) => vt.pages.push(page);

	/*
	 * A part of the page of a report: { id, title, wanted: (report) => whether there is anything to show,
	 * render: (section, report) => fills the section }. Parts are shown in the order of their files.
	 */
	vt.view = (view) => views.push(view);

	const drawn = new WeakSet();

	const draw = (section) => {
		if (drawn.has(section))
			return;
		drawn.add(section);
		try {
			section.vtRender();
		} catch (error) {
			/* The other parts are still worth having. */
			section.append(vt.el("p", { class: "alarm" }, "This part could not be drawn: " + error));
			console.error(error);
		}
	};

	/* A part that is needed before it comes into view. */
	vt.drawPart = draw;

	/* Calls back once, when the element comes near the view: what was asked for last counts. */
	const awaited = new WeakMap();
	const near = new IntersectionObserver((entries) => {
		for (const entry of entries) {
			if (!entry.isIntersecting)
				continue;
			near.unobserve(entry.target);
			awaited.get(entry.target)();
		}
	}, { rootMargin: "400px" });

	vt.whenNear = (element, then) => {
		near.unobserve(element);
		awaited.set(element, then);
		near.observe(element);
	};


	let observer = null, current = null;

	const observe = (sections, links) => {
		if (observer)
			observer.disconnect();
		observer = new IntersectionObserver((entries) => {
			for (const entry of entries)
				if (entry.isIntersecting)
					draw(entry.target);
		}, { rootMargin: "600px" });
		for (const section of sections)
			observer.observe(section);
		current = () => {
			const at = sections.filter((section) => section.getBoundingClientRect().top < 120).pop() || sections[0];

			links.forEach((link, i) => (sections[i] === at ? link.setAttribute("aria-current", "true") :
				link.removeAttribute("aria-current")));
		};
		current();
	};

	/*
	 * Shows parts below each other: [{ id, title, report: null or whose it is, render: (section) => void }]. into: where, default the page's main part;
	 * nav: whether the page's links lead to them.
	 */
	vt.showParts = (parts, { into = document.getElementById("content"), nav = true } = {}) => {
		const sections = parts.map((part) => {
			const section = vt.el("section", { id: part.id, "aria-labelledby": part.id + "-title",
				style: { "min-height": "60px" } }, vt.el("h2", { id: part.id + "-title" }, part.title));

			section.vtReport = part.report;
			section.vtRender = () => part.render(section);
			return section;
		});
		const links = parts.map((part) => vt.el("a", { href: "#" + part.id }, part.title));

		into.replaceChildren(...sections);
		if (nav) {
			document.getElementById("views").replaceChildren(...links, themeButton());
			observe(sections, links);
		} else {
			sections.forEach(draw);
		}
		return sections;
	};

	/* The parts of one report. */
	const isWanted = (view, report) => {
		try {
			return !view.wanted || view.wanted(report);
		} catch {
			return true; /* the part says what is wrong */
		}
	};

	vt.reportParts = (report) => views.filter((view) => isWanted(view, report)).map((view) =>
		({ id: view.id, title: view.title, report, render: (section) => view.render(section, report) }));

	const themeButton = () => vt.el("button", { type: "button", style: { "margin-left": "auto" }, onclick: () => {
		const root = document.documentElement;
		const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;

		root.dataset.theme = dark ? "light" : "dark";
		vt.redraw();
	} }, "light / dark");

	addEventListener("scroll", () => current && current(), { passive: true });
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => vt.redraw());
	addEventListener("beforeprint", () => document.querySelectorAll("main section").forEach((section) =>
		section.vtRender && draw(section)));
}
