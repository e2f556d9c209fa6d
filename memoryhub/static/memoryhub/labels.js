// Names and keys for what other people's scripts and templates draw without, for screen readers and keyboards; and the
// browser's time zone.
"use strict";

// select2 puts a box of its own in a field's place, and the field's label does not reach it.
function nameBoxes() {
    for (const field of document.querySelectorAll("select.select2-hidden-accessible")) {
        const box = field.nextElementSibling;
        const label = field.labels[0]?.textContent.trim();
        if (!box || !label) { continue; }
        for (const part of box.querySelectorAll("[role=combobox], [role=textbox], [role=searchbox]")) {
            part.removeAttribute("aria-labelledby");
            part.setAttribute("aria-label", label);
        }
    }
}

// Django's list of two sides explains itself in spans that have a label and no role.
function nameHints() {
    for (const hint of document.querySelectorAll("span.help-tooltip[aria-label]:not([role])")) {
        hint.setAttribute("role", "img");
    }
}

// An icon is a word of its font, and is read out as that word: beside other words it says nothing.
function hideIcons() {
    for (const icon of document.querySelectorAll(".material-symbols-outlined")) {
        const around = icon.closest("a, button, label, summary");
        if (around && around !== icon && around.textContent.trim() !== icon.textContent.trim()) {
            icon.setAttribute("aria-hidden", "true");
        }
    }
}

// A link without an address, or a heading, that opens something is a button, and takes the keys of one.
function giveKeys() {
    for (const link of document.querySelectorAll("a:not([href])[x-on\\:click], #nav-sidebar-apps h2[x-on\\:click]")) {
        if (link.tagName === "A") { link.setAttribute("role", "button"); }
        link.tabIndex = 0;
        link.addEventListener("keydown", (event) => {
            if (event.key === "Enter" || event.key === " ") {
                event.preventDefault();
                link.click();
            }
        });
    }
}

// On a phone what stands before or after the text is folded; whoever was led to a part of the page finds it open.
function foldOnPhones() {
    if (!matchMedia("(max-width: 767px)").matches || location.hash) { return; }
    for (const part of document.querySelectorAll("details[data-folds-on-phone]")) { part.open = false; }
}

// The next page shows times by this clock, unless the person has chosen another zone.
function tellZone() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `memoryhub_browser_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
}

tellZone();
addEventListener("DOMContentLoaded", foldOnPhones);
// They draw when the page has loaded; this script was here first, so it waits until they have.
addEventListener("load", () => setTimeout(() => { nameBoxes(); nameHints(); hideIcons(); giveKeys(); }));
