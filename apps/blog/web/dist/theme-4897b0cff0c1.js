"use strict";(()=>{var t=localStorage.getItem("theme");(t==="light"||t==="dark")&&(document.documentElement.dataset.theme=t);document.documentElement.dataset.scripts="";})();
