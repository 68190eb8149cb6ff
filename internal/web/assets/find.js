"use strict";
// The slash goes to the search box, except where it is a character.
addEventListener("keydown", e => {
	if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || e.target.closest("input,textarea,select")) return;
	const box = document.getElementById("find");
	if (!box) return;
	e.preventDefault();
	box.select();
});
