"use strict";
{
	const lang = document.documentElement.lang === "en" ? "en-GB" : document.documentElement.lang;
	const kinds = {time: {timeStyle: "short"}, day: {day: "numeric", month: "long", timeZone: "UTC"}};
	const units = [["second", 60], ["minute", 60], ["hour", 24], ["day", 7]];
	// ago says how far a moment of the last or next days is, and nothing of others.
	const ago = at => {
		let n = (at - Date.now()) / 1000;
		if (Math.abs(n) < 5) n = 0;
		for (const [unit, most] of units) {
			if (Math.abs(n) < most) return new Intl.RelativeTimeFormat(lang, {numeric: "auto"}).format(Math.trunc(n), unit);
			n /= most;
		}
	};
	const say = within => {
		for (const t of within.querySelectorAll("time")) {
			try {
				const at = new Date(t.dateTime), relative = "ago" in t.dataset;
				const exact = new Intl.DateTimeFormat(lang, kinds[t.dataset.only] ?? {dateStyle: relative || t.closest("td") ? "medium" : "long", timeStyle: relative ? "medium" : "short"}).format(at);
				t.title = relative ? exact : t.title || t.textContent;
				t.textContent = exact;
				const near = relative && ago(at);
				if (!near) {
					if (relative) t.textContent = new Intl.DateTimeFormat(lang, {dateStyle: "medium", timeStyle: "short"}).format(at);
					continue;
				}
				const hidden = document.createElement("span");
				hidden.className = "unseen";
				hidden.textContent = ", " + exact;
				t.replaceChildren(near, hidden);
			} catch {} // an unknown language keeps what the server wrote
		}
	};
	say(document);
	addEventListener("rows", e => say(e.detail));
	if (document.querySelector("time[data-ago]")) setInterval(() => say(document), 30_000);
}
