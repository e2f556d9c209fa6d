// A round through an agent's actors that was just begun goes on by itself, page by page, until somebody stops it.
"use strict";

const form = document.getElementById("go-on-form");
const stop = form.querySelector("[data-stops]");

if (form.dataset.goesOn !== undefined) {
    const timer = setTimeout(() => form.submit(), 1000);
    stop.hidden = false;
    stop.addEventListener("click", () => { clearTimeout(timer); stop.hidden = true; });
    form.addEventListener("submit", () => clearTimeout(timer));
}
