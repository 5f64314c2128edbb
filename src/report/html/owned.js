/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All memory in use that may have an owner, as one list of columns: PyTorch's blocks, and the arrays of other
 * libraries. Memory whose owner is not known is in it as what it is.
 */
{
	/* Texts of n things as numbers: { ids: Int32Array, values }. Neighbours mostly have the same. */
	const intern = (n, textOf) => {
		const ids = new Int32Array(n), values = [], known = new Map();
		let last = null, id = -1;

		for (let i = 0; i < n; i++) {
			const text = textOf(i) || "";

			if (text !== last) {
				last = text;
				id = known.get(text) ?? -1;
				if (id < 0) {
					id = values.push(text) - 1;
					known.set(text, id);
				}
			}
			ids[i] = id;
		}
		return { ids, values };
	};

	const amount = (bytes) => (bytes > 0 ? Math.min(bytes, 2 ** 64) : 0);

	/* Indices, the largest first. */
	const bySize = (bytes) => {
		const n = bytes.length, bits = 2 ** Math.ceil(Math.log2(n + 1)), keys = new Float64Array(n), order = new Int32Array(n);
		let most = 0;

		for (let i = 0; i < n; i++)
			most = Math.max(most, amount(bytes[i]));
		/* Sizes in units so large that a size and an index fit in a number. */
		const unit = 2 ** Math.max(0, Math.ceil(Math.log2(Math.max(1, most) * bits)) - 52);

		/* Numbers sort several times as fast as what takes a function to compare. */
		for (let i = 0; i < n; i++)
			keys[i] = Math.floor(amount(bytes[i]) / unit) * bits + (n - 1 - i);
		keys.sort();
		for (let i = 0; i < n; i++)
			order[n - 1 - i] = n - 1 - (keys[i] % bits);
		return order;
	};

	const blocksInUse = ({ blocks }) => {
		const list = [];

		for (let i = 0; i < blocks.n; i++)
			if (blocks.state[i] === 0 || blocks.owner[i] >= 0)
				list.push(i);
		return list;
	};

	const make = (report) => {
		const { blocks, owners, segments, json } = report, list = blocksInUse(report), m = list.length;
		const arrays = (json.owners && json.owners.arrays) || [], n = m + arrays.length;
		const ownerOf = Int32Array.from(list, (block) => blocks.owner[block]);
		const field = (name) => {
			const column = owners[name];

			return (i) => (i >= m ? arrays[i - m].owner[name] : ownerOf[i] >= 0 ? column[ownerOf[i]] : null);
		};
		const texts = (name) => intern(n, field(name)), certain = field("certain"), name = field("name");
		const owned = {
			n, report,
			field: (column, i) => field(column)(i), /* of the owner; null: there is none, or it is not known */
			array: (i) => (i < m ? null : arrays[i - m]), /* of json.owners.arrays */
			block: new Int32Array(n).fill(-1), /* -1: it is an array's */
			bytes: new Float64Array(n),
			device: new Int32Array(n), /* -1: not known */
			certain: new Uint8Array(n),
			name: new Array(n),
			/* ids and values; category "": no owner was looked for, or it came about since */
			category: texts("category"), module: texts("module"), variable: texts("variable"), type: texts("type"),
		};

		for (let i = 0; i < n; i++) {
			owned.block[i] = i < m ? list[i] : -1;
			owned.bytes[i] = i < m ? blocks.bytes[list[i]] : arrays[i - m].bytes;
			owned.device[i] = i < m ? segments[blocks.segment[list[i]]].device : arrays[i - m].device ?? -1;
			owned.certain[i] = certain(i) ? 1 : 0;
			owned.name[i] = name(i) || "";
		}
		owned.order = bySize(owned.bytes);
		owned.rank = new Int32Array(n); /* of an item in it */
		owned.order.forEach((i, rank) => (owned.rank[i] = rank));
		owned.itemOf = new Int32Array(blocks.n).fill(-1); /* of a block; -1 none */
		list.forEach((block, i) => (owned.itemOf[block] = i));
		return owned;
	};

	const made = new WeakMap();

	vt.owned = (report) => {
		if (!made.has(report))
			made.set(report, make(report));
		return made.get(report);
	};

	/* Why nothing is known of an item without a name. */
	vt.unownedWords = (owned, i) => {
		const state = owned.report.json.owners ? owned.report.json.owners.state : "off", why = owned.field("unowned", i);

		if (owned.array(i) !== null)
			return why ? vt.words("unowned array", why) : "nobody found";
		if (owned.report.blocks.owner[owned.block[i]] >= 0)
			return why ? vt.words("unowned", why) : "nobody found";
		return state === "read" ? "no owner known" : vt.words("owners", state);
	};

	vt.itemName = (owned, i) => owned.name[i] || vt.unownedWords(owned, i);

	vt.itemAddress = (owned, i) => (owned.array(i) ? owned.array(i).address : "0x" + owned.report.blocks.address[owned.block[i]].toString(16));

	vt.itemTensor = (owned, i) => [owned.field("dtype", i), owned.field("shape", i)].filter(Boolean).join(" ");

	/* { name, bytes } of what would be freed if the item's best known holder let go; null: not known */
	vt.itemFreed = (owned, i) => {
		const array = owned.array(i), o = array ? -1 : owned.report.blocks.owner[owned.block[i]], { owners } = owned.report;

		if (array)
			return array.owner.frees ? { name: array.owner.frees.name, bytes: array.owner.frees.bytes } : null;
		return o >= 0 && owners.freed[o] !== null ? { name: owners.freed[o], bytes: owners.freed_bytes[o] } : null;
	};
}
