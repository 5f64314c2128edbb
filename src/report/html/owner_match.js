/* SPDX-License-Identifier: Apache-2.0 */
/* Owners by a pattern, as --owner has it (model/owners_match.c). */
{
	const STAR = 42, ANY = 63;

	/* "[*]" alone is any index, and the pattern may still be anywhere. */
	const hasWildcard = (pattern) => {
		for (let i = 0; i < pattern.length; i++)
			if (pattern[i] === "?" || (pattern[i] === "*" && !(pattern[i - 1] === "[" && pattern[i + 1] === "]")))
				return true;
		return false;
	};

	/* anywhere: else all of the text */
	const glob = (pattern, text, anywhere) => {
		let again = anywhere ? 0 : -1, p = 0, t = 0, retry = 0;

		for (;;) {
			const c = p < pattern.length ? pattern.charCodeAt(p) : -1;

			if (c === STAR) {
				again = ++p;
				retry = t;
			} else if (c < 0 && (anywhere || t >= text.length)) {
				return true;
			} else if (t < text.length && (c === ANY || c === text.charCodeAt(t))) {
				p++;
				t++;
			} else if (again >= 0 && retry < text.length) {
				p = again;
				t = ++retry;
			} else {
				return false;
			}
		}
	};

	const test = (pattern) => {
		const anywhere = !hasWildcard(pattern), parts = pattern.split(/[*?]/).filter(Boolean);

		if (!/[*?]/.test(pattern))
			return (text) => text.includes(pattern);
		/* What is between the wildcards is found faster than the whole. */
		return (text) => text !== "" && parts.every((part) => text.includes(part)) && (text.includes(pattern) ||
			glob(pattern, text, anywhere));
	};

	/* Which of a few texts match, for the many that have them. */
	const hits = (values, matches) => Uint8Array.from(values, (text) => (matches(text) ? 1 : 0));

	const search = (owned, name, pattern, fold) => {
		const { n, bytes, variable, module, type, category } = owned;
		const want = fold(pattern), matches = test(want), each = (values) => hits(values.map(fold), matches);
		const variables = each(variable.values), modules = each(module.values), types = each(type.values);
		const categories = hits(category.values, (text) => text !== "" && glob(want, text, false));
		const found = { lit: new Uint8Array(n), blocks: 0, bytes: 0, exact: true };

		for (let i = 0; i < n; i++) {
			if (variables[variable.ids[i]] || modules[module.ids[i]] || types[type.ids[i]] || categories[category.ids[i]] ||
				matches(name[i])) {
				found.lit[i] = 1;
				found.blocks++;
				found.bytes += bytes[i];
			}
		}
		return found;
	};

	/*
	 * { lit: 1 for each item that matches, blocks, bytes: of those, exact }. If nothing does, the case of letters does not
	 * matter (exact: false). null: no pattern.
	 */
	vt.matchOwners = (owned, pattern) => {
		if (!pattern)
			return null;
		const found = search(owned, owned.name, pattern, (text) => text), small = (text) => text.toLowerCase();

		if (found.blocks)
			return found;
		owned.smallNames = owned.smallNames || owned.name.map(small);
		return { ...search(owned, owned.smallNames, pattern, small), exact: false };
	};
}
