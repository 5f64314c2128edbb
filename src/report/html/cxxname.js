/* SPDX-License-Identifier: Apache-2.0 */
/* C++ names in the short form that people use, as vt_cxx_short_name() makes them. */
{
	/* Longest first. */
	const SYMBOLS = ["<=>", "<<=", ">>=", "->*", "()", "[]", "<<", ">>", "<=", ">=", "->", "<", ">"];

	/* After a balanced (...), <...> or {...} that begins at i; -1: it is not balanced. */
	const afterBrackets = (name, i) => {
		let round = 0, angle = 0, curly = 0;

		do {
			const c = name[i];

			round += (c === "(") - (c === ")");
			curly += (c === "{") - (c === "}");
			/* Comparisons are in parentheses; "->" is no bracket. */
			if (!round)
				angle += (c === "<") - (c === ">" && name[i - 1] !== "-");
			i++;
		} while (i < name.length && (round > 0 || angle > 0 || curly > 0));
		return round || angle || curly ? -1 : i;
	};

	/* The text of an operator's name at i, or null: its symbol may look like a bracket. */
	const operatorAt = (name, i) => {
		if (!name.startsWith("operator", i) || /\w/.test(name[i - 1] || "") || /\w/.test(name[i + 8] || ""))
			return null;
		const symbol = SYMBOLS.find((one) => name.startsWith(one, i + 8));

		/* A conversion, or new and delete: the space belongs to the name. */
		return "operator" + (symbol || (/^ [^(<]*/.exec(name.slice(i + 8)) || [""])[0]);
	};

	/* "{lambda(int)#1}" is kept as "{lambda#1}". */
	const bracesAt = (name, i) => {
		const end = afterBrackets(name, i);

		return end < 0 ? null : { text: name.slice(i, end).replace(/\(.*\)/, ""), end };
	};

	const KEPT = "(anonymous namespace)";

	const scan = (name) => {
		let out = "", start = 0, i = 0;

		while (i >= 0 && i < name.length) {
			const operator = operatorAt(name, i);

			if (operator) {
				out += operator;
				i += operator.length;
			} else if (name.startsWith(KEPT, i)) {
				out += KEPT;
				i += KEPT.length;
			} else if (name[i] === "{") {
				const braces = bracesAt(name, i);

				out += braces ? braces.text : "";
				i = braces ? braces.end : -1;
			} else if (name.startsWith("[abi:", i)) {
				i = name.indexOf("]", i) + 1 || name.length;
			} else if (name.startsWith(" [clone", i)) {
				break;
			} else if (name[i] === "<") {
				out += "<…>";
				i = afterBrackets(name, i);
			} else if (name[i] === "(") {
				/*
				 * Parameters end the name, unless it goes on (a local class, a lambda). decltype(...) is a return
				 * type.
				 */
				const ends = !/decltype ?$/.test(out);

				i = afterBrackets(name, i);
				if (i >= 0 && name.startsWith(" const::", i))
					i += " const".length;
				if (i >= 0 && ends && !name.startsWith("::", i))
					break;
			} else if (name.startsWith(" <", i)) {
				i++; /* operator< <int> */
			} else {
				out += name[i];
				if (name[i++] === " ")
					start = out.length; /* what was before is the return type */
			}
		}
		return i < 0 || out.length <= start ? name : out.slice(start);
	};

	const known = new Map();

	vt.cxxName = (name) => {
		if (!known.has(name)) {
			const plain = name.split("@")[0]; /* a symbol's version follows */

			known.set(name, /[(<]|::/.test(plain) ? scan(plain) : plain);
		}
		return known.get(name);
	};
}
