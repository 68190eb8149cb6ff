"use strict";
{
	const lang = document.documentElement.lang;
	const kinds = {time: {timeStyle: "short"}, day: {day: "numeric", month: "long", timeZone: "UTC"}};
	const say = within => {
		for (const t of within.querySelectorAll("time")) {
			try {
				const words = new Intl.DateTimeFormat(lang === "en" ? "en-GB" : lang, kinds[t.dataset.only] ?? {dateStyle: t.closest("td") ? "medium" : "long", timeStyle: "short"}).format(new Date(t.dateTime));
				t.title = t.textContent;
				t.textContent = words;
			} catch {} // an unknown language keeps what the server wrote
		}
	};
	say(document);
	addEventListener("rows", e => say(e.detail));
}
