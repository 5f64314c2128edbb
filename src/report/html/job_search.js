/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Searching for processes of a job: "rank:17 host:node3 state:loader place:forward". All words must fit; "-" before one:
 * must not. A word without a key fits any text of the process. "*" is any text; "..." keeps blanks.
 */
{
	const words = (query) => Array.from(query.matchAll(/(-?)(?:([a-z]+):)?(?:"([^"]*)"?|(\S+))/gi), ([, not, key, quoted, plain]) =>
		({ not: Boolean(not), key: key ? key.toLowerCase() : null, text: (quoted ?? plain).toLowerCase() }));

	const escape = (text) => text.replace(/[.+?^${}()|[\]\\]/g, "\\$&");

	/* A test for texts: a part of them, or with * all of them. */
	const textTest = (text) => {
		if (!text.includes("*"))
			return (value) => value.includes(text);
		const pattern = new RegExp("^" + text.split("*").map(escape).join(".*") + "$", "s");

		return (value) => pattern.test(value);
	};

	/* "17", "0-7,12": a test for numbers; null: it is none */
	const numberTest = (text) => {
		const ranges = text.split(",").filter(Boolean).map((part) => /^(\d+)(?:-(\d+))?$/.exec(part));

		if (!ranges.length || ranges.some((range) => !range))
			return null;
		const pairs = ranges.map((range) => [Number(range[1]), Number(range[2] ?? range[1])]);

		return (value) => value !== null && value !== undefined && pairs.some(([from, to]) => value >= from && value <= to);
	};

	const none = () => false;
	const number = (of) => (job, text) => {
		const test = numberTest(text);

		return test ? (i) => test(of(job.members[i])) : none;
	};
	const text = (of) => (job, word) => {
		const test = textTest(word);

		return (i) => {
			const value = of(job.members[i], job, i);

			return Boolean(value) && test(String(value).toLowerCase());
		};
	};

	/* Doings are shared by many processes: each is looked at once. */
	const byDoing = (job, test) => {
		const known = new Map();

		return (i) => {
			const doing = job.telling(i);

			if (!known.has(doing))
				known.set(doing, Boolean(doing) && test(doing));
			return known.get(doing);
		};
	};

	const place = (job, word) => {
		const test = textTest(word);

		return byDoing(job, (doing) => job.frames(doing).some((frame) =>
			[frame.function, frame.file && frame.file + (frame.line ? ":" + frame.line : ""), frame.module].some((value) =>
				value && test(value.toLowerCase()))));
	};

	const does = (job, word) => {
		const test = textTest(word);

		return byDoing(job, (doing) => test(vt.doesText(doing).toLowerCase()));
	};

	/* By its number at the top, from 1, or by its code. */
	const verdict = (job, word) => {
		const test = textTest(word), at = numberTest(word);
		const sets = job.verdicts.filter((one, k) => (at ? at(k + 1) : test(one.code))).map((one) => one.members);

		return (i) => sets.some((set) => vt.setHas(set, i));
	};

	const is = (job, word) => {
		const tests = { outlier: (i) => job.odd[i], alarm: (i) => job.alarmed[i], complete: completeness(job, "complete"),
			partial: completeness(job, "partial"), unread: completeness(job, "nothing"), core: (i) => job.members[i].core,
			outside: (i) => !job.members[i].in_job };

		return vt.lookup(tests, word) || none;
	};
	const completeness = (job, word) => (i) => job.members[i].completeness === word;

	const KEYS = {
		rank: number((m) => m.rank),
		pid: number((m) => m.pid),
		worker: number((m) => m.worker),
		gpu: (job, word) => (i) => (job.members[i].memory || []).some((memory) => String(memory.ordinal) === word ||
			(memory.uuid || "").toLowerCase().includes(word)),
		host: text((m) => m.host),
		role: text((m) => m.role),
		state: text((m, job, i) => job.state(i)[0]),
		op: text((m) => m.operation),
		job: text((m) => m.job),
		command: text((m) => m.command_line || m.name),
		error: text((m) => m.error || m.missing),
		place,
		does,
		verdict,
		is,
	};

	/* For words without a key: made when a process is first looked at. */
	const haystack = (job, i) => {
		const m = job.members[i];

		if (job.texts[i] === undefined)
			job.texts[i] = [job.name(i), m.pid, m.host, m.role, ...job.state(i), m.operation, m.command_line || m.name,
				vt.placeText(job.place(i)), m.error].filter(Boolean).join("\n").toLowerCase();
		return job.texts[i];
	};

	const anywhere = (job, word) => {
		const test = textTest(word.includes("*") ? "*" + word + "*" : word);

		return (i) => test(haystack(job, i));
	};

	const testOf = (job, word) => {
		const make = word.key && Object.hasOwn(KEYS, word.key) ? KEYS[word.key] : null;
		const test = make ? make(job, word.text) : anywhere(job, (word.key ? word.key + ":" : "") + word.text);

		return word.not ? (i) => !test(i) : test;
	};

	/* One byte for each member, set of those in the lists: 1 fits; null: there is no word. */
	vt.jobSearch = (job, query, lists) => {
		const tests = words(query).map((word) => testOf(job, word));

		if (!tests.length)
			return null;
		const match = new Uint8Array(job.n);

		for (const list of lists)
			for (const i of list)
				match[i] = tests.every((test) => test(i)) ? 1 : 0;
		return match;
	};

	vt.jobSearchHelp = "rank:0-7  host:node3  state:loader  place:forward  op:all_reduce  pid:4711  gpu:2  role:loader  " +
		"does:\"waits for\"  verdict:1  is:outlier  -state:collective";
}
