// Keys of a page: each presses the button that names it (aria-keyshortcuts). Optional: the buttons work without this file.
"use strict";

const OFF = "memoryhub-review-keys-off";
const isOff = () => { try { return localStorage.getItem(OFF) === "1"; } catch { return false; } };

function isTyping(target) {
    return target instanceof Element && target.closest("input:not([type=radio]):not([type=checkbox]), textarea, select, [contenteditable=true]") !== null;
}

// Return the pressed key unless it is input of a field or dialog, or part of a browser shortcut.
function pageKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.repeat) { return ""; }
    if (isTyping(event.target) || document.querySelector("dialog[open]")) { return ""; }
    if (isOff() && event.key !== "?") { return ""; }
    return event.key.length === 1 ? event.key.toLowerCase() : event.key;
}

function goToEnd(field) {
    field.focus();
    field.setSelectionRange(field.value.length, field.value.length);
    field.scrollTop = field.scrollHeight;
}

// Focus a field, open a box and focus its field, or press a button.
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
    // While an input method composes, Escape is its own.
    if (event.key === "Escape" && isTyping(event.target) && !event.isComposing) { event.target.blur(); return; }
    const key = pageKey(event);
    const what = key.length === 1 && [...document.querySelectorAll(`[aria-keyshortcuts="${CSS.escape(key)}"]`)].find((each) => each.offsetParent);
    if (what) {
        event.preventDefault();
        press(what);
    }
});

document.addEventListener("click", (event) => {
    const opener = event.target instanceof Element && event.target.closest("[data-opens]");
    if (opener) { document.getElementById(opener.dataset.opens).showModal(); }
});

// Called for a page, and again for what is loaded into it.
function showKeys(root) {
    for (const button of root.querySelectorAll("[data-opens]")) { button.hidden = false; }
    const use = root.querySelector("[data-use-keys]");
    if (!use) { return; }
    use.checked = !isOff();
    use.addEventListener("change", () => {
        try { localStorage.setItem(OFF, use.checked ? "0" : "1"); } catch { /* storage is disabled: valid for this page only */ }
    });
}

window.hubKeys = {pageKey, showKeys};
if (document.readyState === "loading") {
    addEventListener("DOMContentLoaded", () => showKeys(document));
} else {
    showKeys(document);
}
