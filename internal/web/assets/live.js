"use strict";
{
	const most = 50, body = document.querySelector("tbody");
	const source = new EventSource(document.querySelector("[data-live]").dataset.live);
	source.addEventListener("rows", e => {
		if (!body) return location.reload(); // the list was empty
		const added = new DOMParser().parseFromString("<table>" + e.data, "text/html").querySelector("tbody");
		dispatchEvent(new CustomEvent("rows", {detail: added}));
		body.prepend(...added.rows);
		while (body.rows.length > most) body.deleteRow(-1);
	});
	// The browser connects again by itself, unless the answer was no stream: then the page says why.
	source.addEventListener("error", () => {
		if (source.readyState === EventSource.CLOSED) setTimeout(() => location.reload(), 5000);
	});
}
