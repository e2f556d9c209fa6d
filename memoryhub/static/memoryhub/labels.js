// Adds accessible names and keyboard access to elements of third-party scripts and templates, and sends the browser's
// time zone.
"use strict";

// select2 replaces a field by an element without the field's label.
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

// Django's two-sided list has its help in spans with a label and no role.
function nameHints() {
    for (const hint of document.querySelectorAll("span.help-tooltip[aria-label]:not([role])")) {
        hint.setAttribute("role", "img");
    }
}

// Icons are ligatures of a font, which screen readers would read as words; hide them next to text.
function hideIcons() {
    for (const icon of document.querySelectorAll(".material-symbols-outlined")) {
        const around = icon.closest("a, button, label, summary");
        if (around && around !== icon && around.textContent.trim() !== icon.textContent.trim()) {
            icon.setAttribute("aria-hidden", "true");
        }
    }
}

// A link without href, or a heading, that opens something gets the role and keys of a button.
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

// On a phone, sections around the text are collapsed; open the one that the URL's fragment names.
function foldOnPhones() {
    if (!matchMedia("(max-width: 767px)").matches || location.hash) { return; }
    for (const part of document.querySelectorAll("details[data-folds-on-phone]")) { part.open = false; }
}

// Later pages use the browser's time zone, unless the person has chosen another one.
function tellZone() {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    const secure = location.protocol === "https:" ? "; secure" : "";
    document.cookie = `memoryhub_browser_zone=${zone}; path=/; max-age=31536000; samesite=lax${secure}`;
}

tellZone();
addEventListener("DOMContentLoaded", foldOnPhones);
// Those scripts run on load, after this one, so wait for them.
addEventListener("load", () => setTimeout(() => { nameBoxes(); nameHints(); hideIcons(); giveKeys(); }));
