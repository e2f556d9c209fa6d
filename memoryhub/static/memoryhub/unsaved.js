// What was typed into a form is not lost to a button of another form, a link or a closed window: it is asked about.
"use strict";

let question = null;
let typed = null;
let isLeaving = false;

// Compared with what the page came with, so that text restored by the browser's Back counts as well.
function isChanged(field) {
    if (!field.name || field.type === "hidden" || field.type === "submit" || field.type === "button") { return false; }
    if (field.type === "checkbox" || field.type === "radio") { return field.checked !== field.defaultChecked; }
    if (field.tagName !== "SELECT") { return field.value !== field.defaultValue; }
    const options = [...field.options];
    if (!field.multiple && !options.some((option) => option.defaultSelected)) { return field.selectedIndex > 0; }
    return options.some((option) => option.selected !== option.defaultSelected);
}

function isUnsaved(without = "") {
    // A form that was refused holds what was typed as its first values.
    return typed.querySelector(".errornote, .errorlist") !== null
        || [...typed.elements].some((field) => field.name !== without && isChanged(field));
}

function ask(event) {
    const {target: form, submitter} = event;
    // A button of the same form that does something else sends the reason along, and nothing of the text.
    const isElsewhere = submitter?.hasAttribute("formaction");
    if (form === typed && (!isElsewhere || !isUnsaved("reason"))) { isLeaving = true; return; }
    if (form.method !== "post" || isLeaving || !isUnsaved()) { return; }
    event.preventDefault();
    event.stopImmediatePropagation();
    question.returnValue = "";
    question.onclose = () => {
        if (question.returnValue === "save") { typed.requestSubmit(typed.querySelector("[name=_continue]")); }
        if (question.returnValue === "discard") { isLeaving = true; form.requestSubmit(submitter); }
    };
    question.showModal();
}

addEventListener("DOMContentLoaded", () => {
    question = document.getElementById("unsaved");
    typed = document.querySelector("#submit-row button[type=submit], [data-saves]")?.form;
    if (!question || !typed) { return; }
    for (const button of question.querySelectorAll("button")) {
        button.addEventListener("click", () => question.close(button.value));
    }
    document.addEventListener("submit", ask, {capture: true});
    addEventListener("beforeunload", (event) => { if (!isLeaving && isUnsaved()) { event.preventDefault(); } });
    addEventListener("pageshow", () => { isLeaving = false; });
});
