/* SPDX-License-Identifier: Apache-2.0 */
/* Which page this is, by its documents. */
{
	const showReport = (documents) => {
		const report = vt.report(documents[0].json, documents[0].name);

		vt.current = report;
		vt.showReportHead(report);
		vt.showParts(vt.reportParts(report));
		return report.json;
	};

	const start = () => {
		const documents = vt.documents(), broken = documents.filter((one) => !one.json);

		if (broken.length || !documents.length) {
			vt.showHead("This page's data cannot be read", broken.map((one) => (one.name || "a document") + ": " + one.error));
			return;
		}
		const page = vt.pages.find((one) => {
			try {
				return one.wanted(documents);
			} catch {
				return false;
			}
		});
		const json = page ? page.show(documents) : showReport(documents);

		document.getElementById("foot").append("Made by vramtap" + (json && json.tool_version ? " " + json.tool_version : "") +
			". The figures are those of the JSON of the same moment.");
	};

	try {
		start();
	} catch (error) {
		console.error(error);
		vt.showHead("This page could not be drawn", [String(error)]);
	}
	document.documentElement.dataset.ready = "true";
	performance.mark("vramtap-ready");
}
