"use strict";
{
	const lang = document.documentElement.lang;
	let words;
	try {
		words = new Intl.DateTimeFormat(lang === "en" ? "en-GB" : lang, {dateStyle: "long", timeStyle: "short"});
	} catch {} // an unknown language keeps what the server wrote
	for (const t of words ? document.querySelectorAll("time") : []) {
		t.title = t.textContent;
		t.textContent = words.format(new Date(t.dateTime));
	}
}
