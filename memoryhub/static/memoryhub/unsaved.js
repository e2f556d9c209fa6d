// Asks before unsaved text is lost by a button of another form, a link or closing the window.
"use strict";

let question = null;
let typed = null;
let isLeaving = false;

// Compared with the initial HTML, so that text restored by the browser's Back button counts as unsaved.
function isChanged(field) {
    if (!field.name || field.type === "hidden" || field.type === "submit" || field.type === "button") { return false; }
    if (field.type === "checkbox" || field.type === "radio") { return field.checked !== field.defaultChecked; }
    if (field.tagName !== "SELECT") { return field.value !== field.defaultValue; }
    const options = [...field.options];
    if (!field.multiple && !options.some((option) => option.defaultSelected)) { return field.selectedIndex > 0; }
    return options.some((option) => option.selected !== option.defaultSelected);
}

function isUnsaved(without = "") {
    // A refused form has the unsaved text as its initial values.
    return typed.querySelector(".errornote, .errorlist") !== null
        || [...typed.elements].some((field) => field.name !== without && isChanged(field));
}

function ask(event) {
    const {target: form, submitter} = event;
    // Another button of the same form sends the reason, but not the text.
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
