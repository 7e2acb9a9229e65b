/** Applies the kept theme, and tells the style sheet that scripts run, before the first paint. A
 * classic script in the head of each page. */

const kept = localStorage.getItem("theme");
if (kept === "light" || kept === "dark") document.documentElement.dataset.theme = kept;
document.documentElement.dataset.scripts = "";
