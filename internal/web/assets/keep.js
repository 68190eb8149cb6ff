"use strict";
for (const button of document.querySelectorAll("button[data-copy]")) {
	const label = button.textContent;
	button.hidden = !navigator.clipboard;
	button.addEventListener("click", async () => {
		const codes = document.getElementById(button.dataset.copy).querySelectorAll("code");
		try {
			await navigator.clipboard.writeText([...codes].map(c => c.closest(".secret") ? c.textContent.replaceAll(" ", "") : c.textContent).join("\n"));
			button.textContent = button.dataset.copied;
		} catch {
			return; // the browser does not allow it, so nothing was copied
		}
		setTimeout(() => { button.textContent = label; }, 5000);
	});
}
for (const button of document.querySelectorAll("button[data-print]")) {
	button.hidden = false;
	button.addEventListener("click", () => print());
}
