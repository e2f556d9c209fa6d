// The review queue without loading the frame anew: a button's answer takes the place of the item. Without this file
// each button loads the page.
"use strict";

const review = document.getElementById("review");
let isGoing = false;

// Whoever only hears the page is told of the next item; browsers leave out `autofocus` in what a script puts in.
function focusTitle() {
    review.querySelector("[autofocus]")?.focus({preventScroll: true});
}

// Keep the number beside the queue's name in the sidebar true.
function tellOpen(part) {
    const badge = document.querySelector('#nav-sidebar a[href$="/admin/review/"] span.bg-primary-100, #nav-sidebar a[href$="/admin/review/"] [class*=rounded]');
    if (badge && Number(badge.textContent) >= 0) { badge.textContent = Math.min(99, Number(part.dataset.open)); }
}

function show(text) {
    const part = new DOMParser().parseFromString(text, "text/html").querySelector("[data-address]");
    if (!part) { throw new Error("not the queue"); }
    review.replaceChildren(part);
    history.replaceState(null, "", part.dataset.address);
    window.hubKeys.showKeys(review);
    tellOpen(part);
    focusTitle();
    review.scrollIntoView({block: "start"});
}

review.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.method !== "post") { return; }
    event.preventDefault();
    // One press, one decision: a second one while the first is on its way would be about what is not seen yet.
    if (isGoing) { return; }
    isGoing = true;
    const values = new FormData(form, event.submitter);
    try {
        const answer = await fetch(form.action, {method: "POST", body: values, headers: {"X-Requested-With": "fetch"}});
        if (!answer.ok || answer.redirected) { throw new Error("not the queue"); }
        show(await answer.text());
    } catch (error) {
        location.reload();  // logged out, or no connection: the server says so itself
    } finally {
        isGoing = false;
    }
});

if (document.activeElement === document.body) { focusTitle(); }
