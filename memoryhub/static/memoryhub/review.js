// Keys of the review queue: each presses the button that says so (aria-keyshortcuts). Without this file the buttons do.
"use strict";

const OFF = "memoryhub-review-keys-off";
const keys = document.getElementById("review-keys");
const use = document.getElementById("review-use-keys");
const isOff = () => { try { return localStorage.getItem(OFF) === "1"; } catch { return false; } };
let isGoing = false;

function isTyping(target) {
    return target instanceof Element && target.closest("input:not([type=radio]), textarea, select, [contenteditable=true]") !== null;
}

function goToEnd(field) {
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
    field.scrollTop = field.scrollHeight;
}

// A field is gone to; a box is opened and its field gone to; a button is pressed.
function press(what) {
    if (what.matches("input[type=text]")) { what.focus(); return; }
    if (what.tagName === "SUMMARY") {
        what.parentElement.open = true;
        goToEnd(what.parentElement.querySelector("textarea"));
        return;
    }
    what.click();
}

document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) { return; }
    if (event.key === "Escape" && isTyping(event.target)) { event.target.blur(); return; }
    if (isTyping(event.target) || keys.open) { return; }
    if (isOff() && event.key !== "?") { return; }
    const key = event.key.length === 1 ? event.key.toLowerCase() : "";
    const what = key && document.querySelector(`#review [aria-keyshortcuts="${CSS.escape(key)}"]`);
    if (what) {
        event.preventDefault();
        press(what);
    }
});

// One press, one decision: a second one while the first is on its way would be about what is not seen yet.
document.getElementById("review").addEventListener("submit", (event) => {
    if (event.target.method !== "post") { return; }
    if (isGoing) { event.preventDefault(); return; }
    isGoing = true;
});
addEventListener("pageshow", () => { isGoing = false; });

// Browsers leave out `autofocus` where they are busy; whoever only hears the page would not be told of the next one.
if (document.activeElement === document.body) {
    document.querySelector("#review [autofocus]")?.focus({preventScroll: true});
}

for (const button of document.querySelectorAll("[data-opens]")) {
    button.hidden = false;
    button.addEventListener("click", () => document.getElementById(button.dataset.opens).showModal());
}
use.checked = !isOff();
use.addEventListener("change", () => {
    try { localStorage.setItem(OFF, use.checked ? "0" : "1"); } catch { /* kept for this page alone */ }
});
