/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lines of memory: what a device's bytes are used for, and what pinned and shared memory of the host is. The same
 * lines as in the text report (report/text/memory.c, ledger.c, libpools.c, usage.c, host.c), as data for ledger.js.
 */
{
	/*
	 * One line: { label, bytes, blocks (null: no number), colour, hatched, note, parts: lines that it is the sum of,
	 * of: lines that are within it }.
	 */
	const line = (label, bytes, colour, more = {}) => ({ label, bytes, colour, blocks: null, hatched: false, note: null,
		parts: [], of: [], ...more });

	const amountLine = (label, amount, colour, more = {}) => line(label, amount.bytes, colour, { blocks: amount.blocks, ...more });

	/* Of a code in the JSON; "": a block in use whose owner nobody looked for, or that came about since. */
	vt.categoryWords = (category) => (category === "" ? "no owner known" : vt.words("category", category));
	vt.ownerColour = (category) => (category === "" ? "state-allocated" : vt.categoryColour(category));

	const sum = (list, of) => list.reduce((all, one) => all + of(one), 0);

	/* ---- PyTorch's own ---- */

	/* Blocks in use of a device by the category of their owners, the largest first; [] if no owner is known. */
	const categoriesOf = (report, device) => {
		const { blocks, segments, owners } = report, sums = new Map();
		let known = false;

		segments.forEach((segment) => {
			for (let i = segment.first; segment.device === device && i < segment.end; i++) {
				if (blocks.state[i] !== 0)
					continue;
				const category = blocks.owner[i] >= 0 ? owners.category[blocks.owner[i]] : "";
				const one = sums.get(category) || sums.set(category, { bytes: 0, blocks: 0 }).get(category);

				known = known || category !== "";
				one.bytes += blocks.bytes[i];
				one.blocks++;
			}
		});
		return known ? Array.from(sums, ([category, one]) => amountLine(vt.categoryWords(category), one,
			vt.ownerColour(category))).sort((a, b) => b.bytes - a.bytes) : [];
	};

	const torchLines = (report, allocator, ledger) => {
		const totals = allocator.totals, own = totals.private_pools;
		const lines = [
			amountLine("in use by PyTorch", totals.allocated, "state-allocated", {
				parts: categoriesOf(report, allocator.device),
				of: [own.allocated.bytes && amountLine("of which in private pools", own.allocated, null,
					{ note: "CUDA graphs, MemPool" }),
				totals.rounding_bytes && line("of which lost to rounding", totals.rounding_bytes)],
			}),
			totals.awaiting_free.bytes && amountLine("awaiting free", totals.awaiting_free, "state-awaiting-free",
				{ note: "freed, in use by another stream" }),
			amountLine("cached by PyTorch", totals.cached, "state-cached", {
				of: [own.cached.bytes && amountLine("of which in private pools", own.cached),
					totals.cached.blocks && line("largest hole", totals.largest_cached_bytes)],
			}),
		].filter(Boolean);
		const missing = ledger && ledger.claimed.pytorch.without_memory_bytes;

		if (missing)
			lines[lines.length - 1].of.push(line("of PyTorch's, without memory", missing, null, { note: "only in PyTorch's books" }));
		return lines;
	};

	/* ---- other libraries ---- */

	/* The pools of a library on a device; of those that keep something there (claimed), or of all. */
	const poolsOf = (json, device, library, claimed) => ((json.libpools && json.libpools.pools) || []).filter((pool) =>
		pool.library === library && !pool.host && pool.device === device && (!claimed || pool.claimed_bytes));

	/* Whether what is in use can be taken from the library's line: vt_libpool_sum_is_whole() */
	const isWhole = (pools, bytes) => pools.length > 0 && pools.every((pool) => pool.held_bytes !== null &&
		pool.used_bytes !== null && pool.state !== "changing") && sum(pools, (pool) => pool.used_bytes) <= bytes &&
		sum(pools, (pool) => pool.claimed_bytes) === sum(pools, (pool) => pool.held_bytes);

	const chunkCount = (pools, inUse, known) => (pools.every(known) ?
		sum(pools, (pool) => pool.chunks.filter((chunk) => chunk.in_use === inUse).length) : null);

	const largestHole = (pools) => pools.reduce((most, pool) => pool.chunks.reduce((largest, chunk) =>
		(chunk.in_use ? largest : Math.max(largest, chunk.bytes)), most), 0);

	const libraryLines = (pools, name, library, claimed) => {
		const used = sum(pools, (pool) => pool.used_bytes), held = sum(pools, (pool) => pool.held_bytes);
		const colour = "ledger-" + library, hole = largestHole(pools);

		if (library === "nccl")
			return [line("held by NCCL", claimed.bytes, colour, { blocks: claimed.ranges,
				note: vt.plural(pools.length, "communicator") })];
		if (!isWhole(pools, claimed.bytes))
			return [line("held by " + name, claimed.bytes, colour, { blocks: claimed.ranges,
				note: pools.length && pools.every((pool) => pool.held_bytes !== null && pool.used_bytes !== null) ?
					`its counters say ${vt.bytes(held)}, ${vt.bytes(used)} in use` : null })];
		return [
			line("in use by " + name, used, colour, { blocks: chunkCount(pools, true, (pool) => pool.used_chunks_known) }),
			line("cached by " + name, claimed.bytes - used, colour, { hatched: true,
				blocks: chunkCount(pools, false, (pool) => pool.state === "exact"),
				of: [hole && line("largest hole", hole), claimed.bytes > held && line("of which lost to rounding",
					claimed.bytes - held, null, { note: "the driver gives whole pages" })] }),
		];
	};

	const allLibraryLines = (json, ledger) => Object.keys(ledger.claimed).filter((one) => one !== "pytorch").flatMap((library) => {
		const claimed = ledger.claimed[library], name = vt.words("library", library);
		const missing = claimed.without_memory_bytes;
		const lines = claimed.ranges ? libraryLines(poolsOf(json, ledger.device, library, true), name, library, claimed) : [];

		if (missing && lines.length)
			lines[lines.length - 1].of.push(line(`of ${name}'s, without memory`, missing, null, { note: "only in its books" }));
		return lines;
	});

	/* ---- what nobody claims, by kind: the member of the ledger, its code and its colour ---- */

	const KINDS = [["device_memory", "device"], ["mapped", "mapped"], ["pool", "pool"], ["data", "data"], ["array", "array"],
		["graph", "graph"]];

	const KIND_NOTES = {
		pool: (ledger, one, known) => (known ? vt.bytes(one.asked_bytes) + " in use" : "in use; what the pools keep is not known"),
		graph: (ledger) => (ledger.graphs_in_use_bytes !== null ? vt.bytes(ledger.graphs_in_use_bytes) + " in use" : null),
		data: () => "or memory of another process (CUDA IPC)",
	};

	const KIND_PARTS = {
		device: (ledger) => ledger.recorded.bytes && line("of which recorded", ledger.recorded.bytes, null,
			{ blocks: ledger.recorded.ranges }),
		mapped: (ledger) => ledger.shareable.bytes && line("of which made to be shared", ledger.shareable.bytes, null,
			{ blocks: ledger.shareable.ranges, note: ledger.claimed.nccl && ledger.claimed.nccl.ranges ? null : "as NCCL's buffers are" }),
	};

	const kindLines = (json, ledger) => KINDS.filter(([key]) => !ledger[key] || ledger[key].bytes).map(([key, kind]) => {
		const one = ledger[key];

		if (!one)
			return line(vt.words("range", kind), null, "ledger-" + kind, { note: "not known" });
		return line(vt.words("range", kind), one.bytes, "ledger-" + kind, { blocks: one.ranges,
			note: KIND_NOTES[kind] ? KIND_NOTES[kind](ledger, one, json.ledger.pools_known) : null,
			of: [KIND_PARTS[kind] && KIND_PARTS[kind](ledger)] });
	}).sort((a, b) => b.bytes - a.bytes);

	/* ---- the rest: contexts, other processes ---- */

	const localLine = (ledger) => {
		const local = ledger.local_memory;

		return local && line("of which local memory of kernels", local.bytes, null, { note: `${vt.bytes(local.stack_bytes)} of ` +
			`stack for each of ${vt.count(local.multiprocessors * local.threads)} threads` });
	};

	/* "alice, rank 3, pod trainer-0: python train.py" */
	const describe = (process) => [process.life === "zombie" && "has ended, but its memory stays",
		process.life === "gone" && "is gone, but its memory stays", process.user,
		process.rank >= 0 && process.rank !== null && "rank " + process.rank, process.pod && "pod " + process.pod,
		process.container && "container " + process.container, process.own_pid > 0 && "there pid " + process.own_pid,
		process.graphics && "graphics", process.mps && "MPS"].filter(Boolean).join(", ") +
		(process.command_line ? ": " + process.command_line : "");

	const processLine = (process) => line(process.ours ? "this process" : `pid ${process.pid}` +
		(process.name ? ` (${process.name})` : ""), process.bytes, null, { note: process.ours ? null : describe(process) || null });

	const othersOf = (gpu) => ((gpu && gpu.processes) || []).filter((process) => !process.ours).map(processLine);

	const nobody = (usage) => (usage.whole ? "no process" : "no process seen from here");

	/* bytes: used by neither this process nor its context */
	const notOursLines = (json, gpu, bytes) => {
		const nobodys = gpu ? gpu.no_process_bytes ?? null : null;

		if (nobodys === null || nobodys < 0 || nobodys > bytes)
			return [line("not of this process", bytes, "ledger-others", { note: "other processes, managed memory, the driver's own",
				of: othersOf(gpu) })];
		return [
			bytes > nobodys && line("other processes", bytes - nobodys, "ledger-others", { of: othersOf(gpu) }),
			line(nobody(json.cuda.usage), nobodys, "ledger-nobody", { note: "managed memory, the driver's own" }),
		].filter(Boolean);
	};

	const restLines = (json, ledger, gpu) => {
		const own = ledger.rest_of_process_bytes ?? null, whole = json.ledger.whole, missed = "and allocations that could not be listed";
		const rest = ledger.rest_bytes - (own || 0), managed = ledger.managed ? Math.min(ledger.managed.asked_bytes, rest) : 0;
		let lines;

		if (ledger.rest_bytes === null || ledger.rest_bytes === undefined)
			return [];
		if (own === null)
			lines = [line("contexts, code, other processes", rest, "ledger-context", {
				note: whole ? "used, in no allocation of this process" : missed, of: [localLine(ledger), ...othersOf(gpu)] })];
		else
			lines = [line("contexts, code of this process", own, "ledger-context", {
				note: whole ? "by the kernel driver's count, in no allocation" : missed, of: [localLine(ledger)] }),
			...notOursLines(json, gpu, rest)];
		if (managed)
			lines[lines.length - 1].of.push(line("of which managed, at most", managed, null, { blocks: ledger.managed.ranges }));
		return lines;
	};

	/* Without the driver's list, the kernel driver's count may still tell this process's part from the others'. */
	const elseLines = (memory, gpu, reserved, other) => {
		const ours = gpu && gpu.processes ? gpu.processes.filter((process) => process.ours) : [];
		const bytes = ours.length && ours.every((process) => process.bytes !== null) ? sum(ours, (process) => process.bytes) : null;
		const agrees = bytes !== null && gpu.memory && gpu.memory.used_bytes === memory.used_bytes &&
			bytes <= memory.used_bytes && bytes >= reserved;

		return agrees ? [
			line("else of this process", bytes - reserved, "ledger-context", { note: "other libraries, CUDA context" }),
			line("of others", memory.used_bytes - bytes, "ledger-others", { of: othersOf(gpu) }),
		] : [line("everything else", other, "ledger-rest", { note: "other libraries, CUDA context, other processes",
			of: othersOf(gpu) })];
	};

	/* ---- the driver's pools, if PyTorch has no memory and there is no list ---- */

	const driverPoolLines = (memory, pools) => {
		const reserved = sum(pools, (pool) => pool.reserved_bytes);

		return [...pools.flatMap((pool) => {
			const whose = pool.kind === "current" ? "the process's pool" : "the driver's pool";

			return [line("in use from " + whose, pool.used_bytes, "ledger-pool"),
				line("kept by " + whose, pool.reserved_bytes - pool.used_bytes, "ledger-pool", { hatched: true })];
		}), memory.used_bytes >= reserved && line("everything else", memory.used_bytes - reserved, "ledger-rest",
			{ note: "other libraries, CUDA context, other processes" })].filter(Boolean);
	};

	/* ---- a device ---- */

	const INEXACT = {
		unstable: "no exact totals: PyTorch's allocator was changing",
		truncated: "no totals: the walk of PyTorch's allocator stopped early",
	};

	const usedLine = (memory) => line("used by all processes", memory.used_bytes, "ledger-rest");

	const linesOf = (report, device, allocator, ledger, gpu) => {
		const { json } = report, memory = device.memory;
		const driver = (device.memory_pools || []).filter((pool) => pool.reserved_high_bytes || pool.reserved_bytes);
		const known = ledger && ledger.pytorch_known;

		if (allocator && !allocator.totals)
			return memory ? [usedLine(memory)] : [];
		const torch = allocator ? torchLines(report, allocator, json.ledger && json.ledger.whole ? ledger : null) : [];

		if (known)
			return [...torch, ...allLibraryLines(json, ledger), ...kindLines(json, ledger), ...restLines(json, ledger, gpu)];
		if (!memory)
			return torch;
		if (allocator)
			return allocator.totals.everything_else_bytes === null ? torch :
				[...torch, ...elseLines(memory, gpu, allocator.totals.reserved_bytes, allocator.totals.everything_else_bytes)];
		return driver.length && !ledger ? driverPoolLines(memory, driver) : [usedLine(memory)];
	};

	/* [key, value, alarm] for below the table */
	const factsOf = (json, device, allocator) => {
		const stats = allocator && allocator.statistics, facts = [];
		const peak = (one) => (one && one.peak > 0 ? one.peak : null);

		if (stats) {
			facts.push(["peak in use", peak(stats.allocated_bytes), "bytes"], ["peak reserved", peak(stats.reserved_bytes), "bytes"]);
			if (!allocator.totals)
				facts.push(["in use, PyTorch's own counter", stats.allocated_bytes.current, "bytes"],
					["reserved, PyTorch's own counter", stats.reserved_bytes.current, "bytes"]);
			facts.push(["retries", stats.alloc_retries, "count"], ["out-of-memory errors", stats.ooms, "alarm"]);
		}
		for (const library of new Set(((json.libpools && json.libpools.pools) || []).map((pool) => pool.library))) {
			const name = vt.words("library", library);
			const pools = poolsOf(json, device.ordinal, library, false);
			const all = (field) => (pools.length && pools.every((pool) => pool[field] !== null) ? sum(pools, (pool) => pool[field]) : null);

			facts.push([`${name}: peak in use`, all("peak_bytes"), "bytes"], [`${name}: may hold`, all("limit_bytes"), "bytes"]);
		}
		for (const pool of allocator ? [] : device.memory_pools || [])
			facts.push(["driver's pool: peak in use", pool.used_high_bytes || null, "bytes"],
				["driver's pool: peak reserved", pool.reserved_high_bytes || null, "bytes"]);
		return facts.filter(([, value]) => value !== null && value !== undefined && value >= 0);
	};

	const neverUsed = (allocator) => allocator.totals && !allocator.segments.length && allocator.statistics &&
		allocator.statistics.reserved_bytes.peak === 0;

	/* Adds what the lines leave, and what is free; says what does not fit. */
	const complete = (ledger) => {
		const used = ledger.memory ? ledger.memory.used_bytes ?? null : null, found = sum(ledger.lines, (one) => one.bytes);

		if (used !== null && found < used)
			ledger.lines.push(line("in no line above", used - found, "ledger-unexplained",
				{ note: "read at different moments, or nobody tells whose it is" }));
		if (used !== null && found > used)
			ledger.problems.push(`The lines are ${vt.bytes(found - used)} more than the device says is used: ` +
				"they were read at different moments, or are only in books.");
		if (ledger.memory)
			ledger.lines.push(line("free", used === null ? null : ledger.memory.total_bytes - used, "ledger-free"));
		return ledger;
	};

	const removeNothing = (lines) => {
		for (const one of lines) {
			one.of = one.of.filter(Boolean);
			removeNothing(one.parts);
		}
		return lines;
	};

	const deviceLedger = (report, device) => {
		const { json } = report, allocators = (json.pytorch && json.pytorch.allocators) || [];
		const allocator = allocators.find((one) => one.device === device.ordinal && !neverUsed(one));
		const ledger = json.ledger && json.ledger.devices.find((one) => one.device === device.ordinal);
		const gpu = json.cuda.usage && json.cuda.usage.devices.find((one) => one.ordinal === device.ordinal);
		const problems = [];

		if (allocator && !allocator.totals)
			problems.push((vt.lookup(INEXACT, allocator.result) || "not shown: PyTorch's allocator failed a check") +
				(allocator.why ? ` (${allocator.why})` : ""));
		if (!device.memory)
			problems.push("memory not known: " + (device.why_no_memory || "not read"));
		return complete({
			title: "GPU " + device.ordinal, name: (device.name || "unknown device").replace(/^NVIDIA /, ""),
			about: [gpu && gpu.pci, device.uuid], memory: device.memory,
			lines: removeNothing(linesOf(report, device, allocator, ledger, gpu)),
			facts: factsOf(json, device, allocator), problems,
			marks: allocator && allocator.totals && allocator.statistics ? [
				["peak in use", allocator.statistics.allocated_bytes.peak], ["peak reserved", allocator.statistics.reserved_bytes.peak],
			] : [],
		});
	};

	/* A device that only the kernel driver tells of: which number it has in the process is not known. */
	const usageLedger = (json, gpu) => {
		const processes = (gpu.processes || []).filter((process) => process.bytes !== null);
		const counted = sum(processes, (process) => process.bytes), lines = processes.map(processLine);

		lines.forEach((one, i) => (one.colour = processes[i].ours ? "state-allocated" : "ledger-others"));
		if (gpu.no_process_bytes > 0)
			lines.push(line(nobody(json.cuda.usage), gpu.memory.used_bytes - counted, "ledger-nobody"));
		return complete({ title: gpu.uuid || "GPU ?", name: (gpu.name || "").replace(/^NVIDIA /, ""), about: [gpu.pci],
			memory: { total_bytes: gpu.memory.total_bytes, used_bytes: gpu.memory.used_bytes }, lines, facts: [], problems: [], marks: [] });
	};

	/* One that cannot be made out does not hide the others: { title, error } */
	const attempt = (title, make) => {
		try {
			return make();
		} catch (error) {
			console.error(error);
			return { title, error: String(error) };
		}
	};

	/*
	 * Of each device that is used: { title, name, about, memory: { total_bytes, used_bytes } or null, lines, facts: [name, value,
	 * unit], problems: sentences, marks: [name, bytes] }. With memory, the lines are all of the device.
	 */
	vt.deviceLedgers = (report) => {
		const { json } = report, cuda = json.cuda || {}, usage = cuda.usage;
		const allocators = (json.pytorch && json.pytorch.allocators) || [];
		const isUsed = (device) => device.context_active || device.memory ||
			allocators.some((one) => one.device === device.ordinal && !neverUsed(one));

		return [...(cuda.devices || []).filter(isUsed).map((device) => attempt("GPU " + device.ordinal, () => deviceLedger(report, device))),
			...((usage && usage.devices) || []).filter((gpu) => gpu.ordinal === null && gpu.memory && gpu.processes &&
				gpu.processes.some((process) => process.ours)).map((gpu) => attempt(gpu.uuid || "GPU ?", () => usageLedger(json, gpu)))];
	};

	/* ---- the host ---- */

	const pinnedLines = (json) => {
		const { pinned } = json.host, books = json.pytorch && json.pytorch.pinned_host_memory, totals = books && books.totals;
		const torch = pinned.pytorch_bytes || 0, cached = pinned.pytorch_cached_bytes;
		const exact = totals && totals.allocated.bytes + totals.awaiting_free.bytes + totals.cached.bytes === torch;
		const lines = exact ? [
			amountLine("in use by PyTorch", totals.allocated, "state-allocated"),
			amountLine("awaiting free", totals.awaiting_free, "state-awaiting-free", { note: "freed, in use by a stream" }),
			amountLine("cached by PyTorch", totals.cached, "state-cached", { note: "not in use; kept for the next tensor",
				of: [totals.cached.blocks > 1 && line("largest", totals.largest_cached_bytes)] }),
		] : [line("held by PyTorch", torch, "state-allocated", { note: cached !== null ? null : "how much is in use is not known",
			of: [cached && line("of which not in use", cached)] })];

		for (const [library, bytes] of Object.entries(pinned.libraries))
			lines.push(line("held by " + vt.words("library", library), bytes, "ledger-" + library));
		lines.push(line("unattributed", pinned.unattributed_bytes || 0, "ledger-unexplained",
			{ note: "in the driver's list, and in no library's books" }));
		return removeNothing(lines.filter((one) => one.bytes));
	};

	const SHARED = [["torch_bytes", "tensors of PyTorch", "state-allocated"], ["nccl_bytes", "NCCL", "ledger-nccl"],
		["other_bytes", "others", "ledger-unexplained"]];

	const sharedAbout = (shared) => [!shared.whole && (shared.by_mappings ? "about that much" : "at least that much"),
		shared.whole && shared.by_mappings && "at most that much", vt.plural(shared.files, "file"),
		shared.child_processes > 0 && "with " + vt.plural(shared.child_processes, "child process", "child processes")];

	/* The same for memory of the host: pinned, shared, and /dev/shm; [] if there is none. */
	vt.hostLedgers = (json) => {
		const host = json.host, all = [];
		const add = (title, about, bytes, lines, more = {}) => all.push({ title, name: vt.bytes(bytes), about, memory: null, lines,
			facts: [], problems: [], marks: [], ...more });

		if (!host)
			return all;
		if (host.pinned && host.pinned.bytes)
			add("Pinned host memory", [!host.pinned.listed && "at least that much"], host.pinned.bytes, pinnedLines(json));
		if (host.shared && host.shared.files)
			add("Shared memory", sharedAbout(host.shared), host.shared.bytes, SHARED.filter(([key]) => host.shared[key]).map(
				([key, label, colour]) => line(label, host.shared[key], colour)));
		const shm = host.dev_shm, full = shm && shm.total_bytes && shm.used_bytes >= Math.floor(shm.total_bytes / 10) * 9;

		if (shm && shm.total_bytes && (full || (host.shared && host.shared.files)))
			add("/dev/shm", [], shm.total_bytes, [line("used", shm.used_bytes, "ledger-rest"),
				line("free", shm.total_bytes - shm.used_bytes, "ledger-free")], { name: vt.bytes(shm.total_bytes) + ", " +
				vt.percent(shm.used_bytes, shm.total_bytes) + " full", problems: full ? ["It is nearly full."] : [] });
		return all;
	};
}
