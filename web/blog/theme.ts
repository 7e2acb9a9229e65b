/** Applies the kept theme before the first paint. A classic script in the head of each page. */

const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
