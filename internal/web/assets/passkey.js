"use strict";
(() => {
	const form = document.querySelector("form[data-passkey]");
	if (!form) return;
	const data = form.dataset, create = data.passkey === "create", shown = Date.now();
	const notice = form.querySelector("[role=alert]");
	const tell = text => {
		notice.hidden = !text;
		notice.querySelector("p").textContent = text ?? "";
		if (text) notice.focus();
	};
	if (!window.PublicKeyCredential) {
		if (create || !document.querySelector("main form:not([data-passkey])")) {
			form.hidden = false;
			form.querySelector("button").hidden = true;
			tell(data.unsupported);
		}
		return;
	}
	form.hidden = false;

	const bytes = text => Uint8Array.from(atob(text.replace(/-/g, "+").replace(/_/g, "/")), c => c.charCodeAt(0));
	const text = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer))).replace(/\+/g, "-").replace(/\//g, "_").replace(/=+$/, "");
	const publicKey = JSON.parse(data.options);
	publicKey.challenge = bytes(publicKey.challenge);
	if (publicKey.user) publicKey.user.id = bytes(publicKey.user.id);
	for (const c of [...(publicKey.allowCredentials ?? []), ...(publicKey.excludeCredentials ?? [])]) c.id = bytes(c.id);

	const send = c => {
		const r = c.response, response = {clientDataJSON: text(r.clientDataJSON)};
		if (create) {
			response.attestationObject = text(r.attestationObject);
			response.transports = r.getTransports?.() ?? [];
		} else {
			response.authenticatorData = text(r.authenticatorData);
			response.signature = text(r.signature);
			if (r.userHandle) response.userHandle = text(r.userHandle);
		}
		form.elements.credential.value = JSON.stringify({
			id: c.id, rawId: text(c.rawId), type: c.type, authenticatorAttachment: c.authenticatorAttachment ?? undefined, response, clientExtensionResults: {},
		});
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
		if (data.offer && await PublicKeyCredential.isConditionalMediationAvailable?.()) ask("conditional");
	};
	form.addEventListener("submit", e => {
		e.preventDefault();
		tell();
		ask();
	});
	// Whoever comes back to a page whose challenge is over gets a fresh one, unless something has been typed.
	const refresh = () => {
		const typed = [...document.querySelectorAll("input:not([type=hidden]):not([type=checkbox])")].some(i => i.value !== i.defaultValue);
		if (!document.hidden && !typed && Date.now() - shown > data.life * 1000) location.replace(data.again);
	};
	document.addEventListener("visibilitychange", refresh);
	window.addEventListener("focus", refresh);
	offer();
})();
