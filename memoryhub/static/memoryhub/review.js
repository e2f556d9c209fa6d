// Review queue without full page loads: a button's response replaces the item. Without this file each button reloads
// the page.
"use strict";

const review = document.getElementById("review");
let isGoing = false;

// Announce the next item to screen readers; browsers ignore `autofocus` in inserted elements.
function focusTitle() {
    review.querySelector("[autofocus]")?.focus({preventScroll: true});
}

// Update the queue's count in the sidebar.
function tellOpen(part) {
    const badge = document.querySelector('#nav-sidebar a[href$="/admin/review/"] span.bg-primary-100, #nav-sidebar a[href$="/admin/review/"] [class*=rounded]');
    if (badge && Number(badge.textContent) >= 0) { badge.textContent = Math.min(99, Number(part.dataset.open)); }
}

// A text that could not be sent (logged out, no connection) waits in this tab until its item is shown again.
const KEPT = "memoryhub-review-text";

function keepText() {
    const form = document.getElementById("edit-form");
    const field = form?.elements.namedItem("content");
    if (!field || field.value === field.defaultValue) { return; }
    try { sessionStorage.setItem(KEPT, JSON.stringify([form.elements.namedItem("item").value, field.value])); } catch { /* storage is disabled */ }
}

function restoreText() {
    const form = document.getElementById("edit-form");
    try {
        const [item, text] = JSON.parse(sessionStorage.getItem(KEPT)) ?? [];
        if (!form || item !== form.elements.namedItem("item").value) { return; }
        form.elements.namedItem("content").value = text;
        form.closest("details").open = true;
        sessionStorage.removeItem(KEPT);
    } catch { /* storage is disabled */ }
}

function show(text) {
    const part = new DOMParser().parseFromString(text, "text/html").querySelector("[data-address]");
    if (!part) { throw new Error("not the queue"); }
    review.replaceChildren(part);
    history.replaceState(null, "", part.dataset.address);
    window.hubKeys.showKeys(review);
    tellOpen(part);
    restoreText();
    focusTitle();
    review.scrollIntoView({block: "start"});
}

// What a decision would change is shown above the item; what is typed stays.
function showEffect(text) {
    const effect = new DOMParser().parseFromString(text, "text/html").getElementById("what-if");
    if (!effect) { throw new Error("not the queue"); }
    const place = document.getElementById("what-if");
    place.replaceChildren(...effect.childNodes);
    place.scrollIntoView({block: "nearest"});
}

review.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post") { return; }
    event.preventDefault();
    // Ignore presses while a request is pending: they would decide an item that is not displayed yet.
    if (isGoing) { return; }
    isGoing = true;
    const values = new FormData(form, event.submitter);
    try {
        const answer = await fetch(form.action, {method: "POST", body: values, headers: {"X-Requested-With": "fetch"}});
        if (!answer.ok || answer.redirected) { throw new Error("not the queue"); }
        const text = await answer.text();
        if (form.hasAttribute("data-keeps")) { keepText(); }  // the item stays, and so does its correction
        if (event.submitter?.hasAttribute("data-tries")) { showEffect(text); } else { show(text); }
    } catch (error) {
        keepText();
        location.reload();  // logged out, or no connection: the server's page shows it
    } finally {
        isGoing = false;
    }
});

// Keep what is opened clear of the bar of decisions, which covers the lower part of a phone's screen.
review.addEventListener("toggle", (event) => {
    const bar = review.querySelector(".review-actions");
    const isCovered = bar && event.target.getBoundingClientRect().bottom > bar.getBoundingClientRect().top;
    if (event.target.open && isCovered && !bar.contains(event.target)) { event.target.scrollIntoView({block: "start"}); }
}, {capture: true});

restoreText();
if (document.activeElement === document.body) { focusTitle(); }
