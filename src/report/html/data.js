/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The documents of the page, and a report as the pictures need it. The JSON is that of vramtap's --json
 * (doc/report.schema.json); large reports have their blocks in columns (packed.h). Both become the same
 * typed arrays here.
 */
{
	/* [{ name, json }]; json is null and error set if a document cannot be read */
	vt.documents = () => Array.from(document.querySelectorAll("script.vramtap-document"), (element) => {
		try {
			return { name: element.dataset.name || null, json: JSON.parse(element.textContent) };
		} catch (error) {
			return { name: element.dataset.name || null, json: null, error: String(error) };
		}
	});

	const words = JSON.parse(document.getElementById("words").textContent);

	/* vt.words("category", "python"): "other Python variables"; a code of a newer vramtap is shown as it is */
	vt.words = (kind, code) => vt.lookup(vt.lookup(words, kind), code) || code;

	const STATES = new Map(vt.stateNames.map((name, i) => [name, i]));
	const LETTERS = { a: 0, w: 1, c: 2, u: 3 };
	const OWNER_FIELDS = ["category", "unowned", "certain", "name", "variable", "module", "type", "dtype", "shape",
		"tensors", "freed", "freed_bytes", "holders"];

	const listOf = (value) => (Array.isArray(value) ? value : []);

	const blocksOf = (segment) => listOf(segment.blocks);

	const countBlocks = (segments) => segments.reduce((n, segment) =>
		n + (segment.packed ? segment.packed.bytes.length : blocksOf(segment).length), 0);

	/* The columns of owners, to which plain reports add one owner after the other. */
	const emptyOwners = () => Object.fromEntries(OWNER_FIELDS.map((field) => [field, []]));

	const addOwner = (owners, owner) => {
		for (const field of OWNER_FIELDS)
			owners[field].push(owner[field] ?? null);
		const i = owners.name.length - 1;

		owners.freed[i] = owner.frees ? owner.frees.name : null;
		owners.freed_bytes[i] = owner.frees ? owner.frees.bytes : 0;
		return i;
	};

	const addPlain = (blocks, segment, at, owners, why) => {
		let address = Number(segment.address);

		for (const block of blocksOf(segment)) {
			address = Number(block.address);
			blocks.address[at] = address;
			blocks.bytes[at] = block.bytes;
			blocks.state[at] = STATES.get(block.state) ?? 0;
			blocks.requested[at] = block.requested_bytes || 0;
			blocks.trace[at] = block.backtrace ?? (block.no_backtrace ? -1 - why(block.no_backtrace) : -1);
			blocks.owner[at] = block.owner ? addOwner(owners, block.owner) : -1;
			blocks.age[at] = block.age_s ?? -1;
			blocks.tid[at] = block.tid || 0;
			at++;
		}
		return at;
	};

	const addPacked = (blocks, segment, at) => {
		const packed = segment.packed, letters = packed.states.join("");
		let address = Number(segment.address);

		for (let i = 0; i < packed.bytes.length; i++, at++) {
			blocks.address[at] = address;
			blocks.bytes[at] = packed.bytes[i];
			address += packed.bytes[i];
			blocks.state[at] = LETTERS[letters[i]] ?? 0;
			blocks.requested[at] = packed.requested ? packed.requested[i] : 0;
			blocks.trace[at] = packed.backtraces ? packed.backtraces[i] : -1;
			blocks.owner[at] = packed.owners ? packed.owners[i] : -1;
			blocks.age[at] = packed.ages && packed.ages[i] >= 0 ? packed.ages[i] / 1000 : -1;
			blocks.tid[at] = packed.tids ? packed.tids[i] : 0;
		}
		return at;
	};

	const emptyBlocks = (n) => ({
		n,
		address: new Float64Array(n),
		bytes: new Float64Array(n),
		state: new Uint8Array(n), /* index in vt.stateNames */
		requested: new Float64Array(n), /* 0 unknown */
		trace: new Int32Array(n), /* index in report.traces; -1 none; -1 - n: none, report.noTrace[n] says why */
		owner: new Int32Array(n), /* index in the columns of report.owners; -1 none */
		age: new Float64Array(n), /* seconds; -1 unknown */
		tid: new Int32Array(n), /* of the thread that allocated it; 0 unknown */
		segment: new Int32Array(n), /* index in report.segments */
	});

	/*
	 * { json, name, blocks, segments: [{ device, address, bytes, stream, pool, privatePool, expandable, first, end }],
	 *   owners: columns by field, traces, frames, sites, noTrace, withoutBlocks: segments whose blocks are not known }
	 */
	const read = (json, name) => {
		const allocators = listOf(json.pytorch && json.pytorch.allocators);
		const all = allocators.flatMap((allocator) => listOf(allocator.segments));
		const blocks = emptyBlocks(countBlocks(all)), segments = [];
		const noTrace = listOf(json.packed && json.packed.no_backtrace);
		const owners = json.packed ? { ...emptyOwners(), ...json.packed.owners } : emptyOwners();
		const why = (code) => {
			const known = noTrace.indexOf(code);

			return known >= 0 ? known : noTrace.push(code) - 1;
		};
		let at = 0;

		if (!json.packed)
			noTrace.push("not-recorded");
		for (const allocator of allocators) {
			for (const segment of listOf(allocator.segments)) {
				const first = at;

				at = segment.packed ? addPacked(blocks, segment, at) : addPlain(blocks, segment, at, owners, why);
				blocks.segment.fill(segments.length, first, at);
				segments.push({ device: allocator.device, address: Number(segment.address), bytes: segment.bytes,
					stream: segment.stream, pool: segment.pool, privatePool: segment.private_pool,
					expandable: segment.expandable, first, end: at });
			}
		}
		const recorded = (json.pytorch && json.pytorch.recorded) || {};

		return { json, name, blocks, segments, owners, noTrace, traces: listOf(recorded.backtraces),
			frames: listOf(recorded.frames), sites: listOf(recorded.sites),
			withoutBlocks: all.filter((segment) => !segment.packed && !Array.isArray(segment.blocks)).length };
	};

	/* If the blocks cannot be read, all else may still be told: problem says why. */
	vt.report = (json, name) => {
		try {
			return read(json, name);
		} catch (error) {
			console.error(error);
			return { json, name, blocks: emptyBlocks(0), segments: [], owners: emptyOwners(), noTrace: [], traces: [], frames: [],
				sites: [], withoutBlocks: 0, problem: String(error) };
		}
	};

	/* Paragraphs: what is not certain to be all, or of one moment. No sum of such blocks is exact. */
	vt.incompleteLists = ({ json, withoutBlocks }) => [
		...((json.pytorch && json.pytorch.allocators) || []).filter((one) => one.result !== "complete").map((one) =>
			`GPU ${one.device}: blocks may be missing or out of date, the list is ${one.result || "of unknown completeness"}` +
				(one.why ? `: ${one.why}.` : ".")),
		withoutBlocks && `${vt.plural(withoutBlocks, "segment")} without a list of blocks: what is in them is not known.`,
	].filter(Boolean).map((text) => vt.el("p", { class: "alarm" }, text));

	/* The frames of a backtrace, innermost first; [] none. */
	vt.traceFrames = (report, trace) => (trace >= 0 && report.traces[trace] ?
		report.traces[trace].frames.map((i) => report.frames[i]) : []);

	/* What a tip says about a block. */
	vt.blockLines = (report, i) => {
		const b = report.blocks, segment = report.segments[b.segment[i]], owner = b.owner[i];
		const frames = vt.traceFrames(report, b.trace[i]), own = frames.filter(vt.isProgram);

		return [
			vt.bytes(b.bytes[i]) + " " + vt.stateWords[vt.stateNames[b.state[i]]],
			owner >= 0 && [vt.words("category", report.owners.category[owner]), report.owners.name[owner] || "no owner found"],
			owner >= 0 && report.owners.shape[owner] && ["tensor", (report.owners.dtype[owner] || "") + " " +
				report.owners.shape[owner]],
			["address", "0x" + b.address[i].toString(16) + ", GPU " + segment.device],
			["stream", segment.stream === "0x0" ? "default" : segment.stream],
			b.requested[i] > 0 && ["requested", vt.bytes(b.requested[i])],
			b.age[i] >= 0 && ["age", vt.duration(b.age[i])],
			...(own.length ? own : frames).slice(0, 6).map((frame) => ["·", vt.frameText(frame)]),
		];
	};
}
