// Continues a batch of sleep runs that was just started, page by page, until it is stopped.
"use strict";

const form = document.getElementById("go-on-form");
const stop = form.querySelector("[data-stops]");

if (form.dataset.goesOn !== undefined) {
    const timer = setTimeout(() => form.submit(), 1000);
    stop.hidden = false;
    stop.addEventListener("click", () => { clearTimeout(timer); stop.hidden = true; });
    form.addEventListener("submit", () => clearTimeout(timer));
}
