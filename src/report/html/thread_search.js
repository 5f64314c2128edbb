/* SPDX-License-Identifier: Apache-2.0 */
/* Searching in thousands of threads at each key: they have few different frames, each of which is looked at once. */
{
	const frameText = (frame) => {
		const file = frame.file || frame.module || "";

		return `${frame.function || ""}\n${file}${frame.line ? ":" + frame.line : ""}`.toLowerCase();
	};

	const groupText = (group) => [
		...vt.groupFacts(group.threads).map((fact) => fact.text),
		...group.threads.map(vt.threadLabel),
	].join("\n").toLowerCase();

	/* Numbers for the texts of frames, which are equal for equal texts. */
	const createNumbers = () => {
		const numbers = new Map(), ofFrame = new Map(), texts = [];

		return { texts, of: (frame) => ofFrame.get(frame), add: (frame) => {
			const text = frameText(frame);

			if (!numbers.has(text)) {
				numbers.set(text, texts.length);
				texts.push(text);
			}
			ofFrame.set(frame, numbers.get(text));
			return numbers.get(text);
		} };
	};

	/*
	 * groups: of vt.groupThreads(). Returns find(words in lower case): { groups, isHit: (frame) => whether it has a word }.
	 * Each word is in what is said of a group, in the name of one of its threads, or in one of its frames.
	 */
	vt.createThreadSearch = (groups) => {
		const numbers = createNumbers();
		const entries = groups.map((group) => ({ group, text: groupText(group),
			frames: Uint32Array.from(new Set(group.frames.map(numbers.add))) }));

		return (words) => {
			const hits = words.map((word) => numbers.texts.map((text) => text.includes(word)));
			const has = (entry, word, i) => entry.text.includes(word) || entry.frames.some((number) => hits[i][number]);
			const found = entries.filter((entry) => words.every((word, i) => has(entry, word, i)));

			return { groups: found.map((entry) => entry.group),
				isHit: (frame) => hits.some((hit) => hit[numbers.of(frame)]) };
		};
	};
}
