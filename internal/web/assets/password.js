"use strict";
for (const button of document.querySelectorAll("button[data-reveal]")) {
	const input = document.getElementById(button.dataset.reveal);
	const show = yes => {
		input.type = yes ? "text" : "password";
		button.setAttribute("aria-pressed", yes);
	};
	button.hidden = false;
	button.addEventListener("click", () => show(input.type === "password"));
	// Browsers keep what stands in a field of text, and show it again to whoever comes back.
	input.form.addEventListener("submit", () => show(false));
	window.addEventListener("pagehide", () => show(false));
}
