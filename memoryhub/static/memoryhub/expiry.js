// Buttons that fill the fields of a day and a time; without a script they are hidden, and the fields are typed into.
"use strict";

function fill(box, button) {
    const values = [button.dataset.day, button.dataset.time];
    for (const [part, value] of values.entries()) {
        const field = document.getElementById(`${box.dataset.fills}_${part}`);
        field.value = value;
        field.dispatchEvent(new Event("change", { bubbles: true }));
    }
}

document.addEventListener("DOMContentLoaded", () => {
    for (const box of document.querySelectorAll("[data-fills]")) {
        box.hidden = false;
        for (const button of box.querySelectorAll("[data-day]")) {
            button.addEventListener("click", () => fill(box, button));
        }
    }
});
