"use strict";
{
	// Links back to an address of this site keep what is after #.
	for (const a of document.querySelectorAll("a[data-keep]")) if (location.hash) a.hash = location.hash;

	// On the way to a site, redirects bring it to the first page. It stays in this browser until the last one.
	const life = 3600, prefix = "fragment ", last = document.querySelector("a[data-last]");
	const {fragment: name, cookie} = document.querySelector("[data-fragment]")?.dataset ?? {};
	const open = key => { try { return JSON.parse(localStorage.getItem(key)) ?? {}; } catch { return {}; } };
	const tell = kept => {
		const before = document.cookie.split("; ").find(c => c.startsWith(cookie + "="))?.slice(cookie.length + 1).split(".") ?? [];
		const names = before.filter(n => n && n !== name).slice(-3).concat(kept ? name : []);
		document.cookie = `${cookie}=${names.join(".")}; path=/; max-age=${names.length ? life : 0}; samesite=lax${location.protocol === "https:" ? "; secure" : ""}`;
	};
	if (name) try {
		for (const key of Object.keys(localStorage)) {
			if (key.startsWith(prefix) && !(Date.now() - open(key).at < life * 1000)) localStorage.removeItem(key);
		}
		const {hash} = open(prefix + name);
		if (last) {
			localStorage.removeItem(prefix + name);
			tell(false);
		} else if (location.hash.length > 1 && location.hash.length < 8192) {
			if (!hash) localStorage.setItem(prefix + name, JSON.stringify({at: Date.now(), hash: location.hash}));
			tell(true);
			history.replaceState(history.state, "", location.pathname + location.search);
		}
		if (last) location.replace(last.href + (hash?.startsWith("#") ? hash : ""));
	} catch {
		if (last) location.replace(last.href); // the browser stores nothing for us
	}
}
