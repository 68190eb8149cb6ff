"use strict";
(() => {
	const bytes = text => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0));
	const text = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
	const read = json => {
		const publicKey = JSON.parse(json);
		publicKey.challenge = bytes(publicKey.challenge);
		if (publicKey.user) publicKey.user.id = bytes(publicKey.user.id);
		for (const c of [...(publicKey.allowCredentials ?? []), ...(publicKey.excludeCredentials ?? [])]) c.id = bytes(c.id);
		return publicKey;
	};
	const write = c => {
		const r = c.response, response = {clientDataJSON: text(r.clientDataJSON)};
		if (r.attestationObject) {
			response.attestationObject = text(r.attestationObject);
			response.transports = r.getTransports?.() ?? [];
		} else {
			response.authenticatorData = text(r.authenticatorData);
			response.signature = text(r.signature);
			if (r.userHandle) response.userHandle = text(r.userHandle);
		}
		return JSON.stringify({
			id: c.id, rawId: text(c.rawId), type: c.type, authenticatorAttachment: c.authenticatorAttachment ?? undefined, response, clientExtensionResults: {},
		});
	};

	const known = window.PublicKeyCredential, signals = document.querySelector("[data-signals]");
	for (const [method, argument] of Object.entries(JSON.parse(signals?.dataset.signals ?? "{}"))) {
		(async () => known[method](argument))().catch(() => {}); // browsers without it are told nothing
	}
	const upgrade = document.querySelector("input[name=upgrade]");
	if (upgrade) (async () => {
		if ((await known.getClientCapabilities()).conditionalCreate) upgrade.value = "yes";
	})().catch(() => {});
	const made = document.querySelector("form[data-upgrade]");
	if (made) (async () => {
		const options = {publicKey: read(made.dataset.upgrade), mediation: "conditional", signal: AbortSignal.timeout(3000)};
		made.elements.credential.value = write(await navigator.credentials.create(options));
	})().catch(() => {}).then(() => made.submit());

	const form = document.querySelector("form[data-passkey]");
	if (!form) return;
	const data = form.dataset, create = data.passkey === "create", shown = Date.now();
	const notice = form.querySelector("[role=alert]");
	const tell = text => {
		notice.hidden = !text;
		notice.querySelector("p").textContent = text ?? "";
		if (text) notice.focus();
	};
	if (!known) {
		if (create || !document.querySelector("main form:not([data-passkey])")) {
			form.hidden = false;
			form.querySelector("button").hidden = true;
			tell(data.unsupported);
		}
		return;
	}
	form.hidden = false;

	const publicKey = read(data.options);
	const send = c => {
		form.elements.credential.value = write(c);
		const remember = document.getElementById("remember");
		if (remember?.checked && form.elements.remember) form.elements.remember.value = "yes";
		form.submit();
	};

	let asking, asked = Promise.resolve();
	const ask = mediation => {
		asking?.abort();
		const mine = asking = new AbortController();
		asked = asked.then(async () => {
			if (mine.signal.aborted) return;
			try {
				const options = {publicKey, signal: mine.signal};
				if (mediation) options.mediation = mediation;
				send(await navigator.credentials[create ? "create" : "get"](options));
			} catch (e) {
				if (mine.signal.aborted || mediation) return; // given up for another one, or never asked for
				tell(e.name === "InvalidStateError" ? data.known : e.name === "NotAllowedError" ? data.cancelled : data.failed);
				offer();
			}
		});
	};
	const offer = async () => {
		if (data.offer && await known.isConditionalMediationAvailable?.()) ask("conditional");
	};
	form.addEventListener("submit", e => {
		e.preventDefault();
		tell();
		ask();
	});
	// A page whose challenge is over is loaded again when the person comes back to it, unless something has been typed.
	const refresh = () => {
		const typed = [...document.querySelectorAll("input:not([type=hidden]):not([type=checkbox])")].some(i => i.value !== i.defaultValue);
		if (!document.hidden && !typed && Date.now() - shown > data.life * 1000) location.replace(data.again);
	};
	document.addEventListener("visibilitychange", refresh);
	window.addEventListener("focus", refresh);
	offer();
})();
