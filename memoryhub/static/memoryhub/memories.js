// Keyboard control of lists of memories, also of the news and the talk page: j and k move between rows, other keys press a row's buttons.
// After an action the page returns to the same position, even if the row is no longer listed.
"use strict";

const PLACE = "memoryhub-list-place";
let current = -1;

function rows() {
    return [...document.querySelectorAll("#result_list tr.data-row, [data-rows] .data-row")];
}

function scroller() {
    let each = document.querySelector("#result_list, [data-rows]");
    while (each && each !== document.body) {
        if (each.scrollHeight > each.clientHeight && /auto|scroll/.test(getComputedStyle(each).overflowY)) { return each; }
        each = each.parentElement;
    }
    return document.scrollingElement;
}

function goTo(number) {
    const all = rows();
    if (all.length === 0) { return; }
    all[current]?.classList.remove("list-current");
    current = Math.max(0, Math.min(all.length - 1, number));
    all[current].classList.add("list-current");
    all[current].querySelector("th a, .news-open")?.focus({preventScroll: true});
    all[current].scrollIntoView({block: "nearest"});
}

function remember(row) {
    try {
        // The address that the action returns to.
        const place = {at: document.querySelector("#row-form [name=next]").value, row: rows().indexOf(row), top: scroller().scrollTop};
        sessionStorage.setItem(PLACE, JSON.stringify(place));
    } catch { /* storage is disabled: the page starts at its row or top */ }
}

function restore() {
    let place = null;
    try {
        place = JSON.parse(sessionStorage.getItem(PLACE));
        sessionStorage.removeItem(PLACE);
    } catch { return; }
    if (place?.at !== location.pathname + location.search) { return; }
    scroller().scrollTop = place.top;
    goTo(place.row);
}

document.addEventListener("keydown", (event) => {
    const key = window.hubKeys.pageKey(event);
    const row = rows()[current];
    if (key === "j" || key === "k") {
        goTo(current + (key === "j" ? 1 : -1));
    } else if (key === "x" && row) {
        row.querySelector("input.action-select")?.click();
    } else if (["a", "e", "p", "r", "v"].includes(key) && row) {
        row.querySelector(`[data-key=${key}]`)?.click();
    } else {
        return;
    }
    event.preventDefault();
});

// Restore the text of a memory's page.
document.addEventListener("click", (event) => {
    const button = event.target instanceof Element && event.target.closest("[data-cancels]");
    if (!button) { return; }
    const box = button.closest("details");
    for (const field of box.querySelectorAll("textarea")) { field.value = field.defaultValue; }
    box.open = false;
    box.querySelector("summary").focus();
});

addEventListener("DOMContentLoaded", () => {
    const list = document.querySelector("#result_list, [data-rows]");
    list?.addEventListener("click", (event) => {
        const button = event.target.closest(".row-button");
        if (button) { remember(button.closest(".data-row")); }
    });
    if (list) { restore(); }
    const form = document.getElementById("changelist-search");
    if (!form) { return; }
    // Choices next to the search field apply at once; a search by meaning needs a query.
    form.querySelector(".list-agent").addEventListener("change", () => form.requestSubmit());
    form.querySelector(".list-by").addEventListener("change", () => {
        if (form.elements.namedItem("q").value.trim()) { form.requestSubmit(); }
    });
});
