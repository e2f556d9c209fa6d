// Asks before unsaved text is lost by a button of another form, a link or closing the window. Ctrl+Enter saves.
"use strict";

let question = null;
let left = null;  // the form that is being saved or was given up; a script may replace it by the next item's

// The form with the text to keep; looked up anew, as a script may replace it.
const typedForm = () => document.querySelector("#submit-row button[type=submit], [data-saves]")?.form ?? null;
const saveButton = (form) => form.querySelector("[name=_continue], [data-saves]");

// Compared with the initial HTML, so that text restored by the browser's Back button counts as unsaved.
function isChanged(field) {
    if (!field.name || field.type === "hidden" || field.type === "submit" || field.type === "button") { return false; }
    if (field.type === "checkbox" || field.type === "radio") { return field.checked !== field.defaultChecked; }
    if (field.tagName !== "SELECT") { return field.value !== field.defaultValue; }
    const options = [...field.options];
    if (!field.multiple && !options.some((option) => option.defaultSelected)) { return field.selectedIndex > 0; }
    return options.some((option) => option.selected !== option.defaultSelected);
}

function isUnsaved(typed, without = "") {
    // A refused form has the unsaved text as its initial values.
    return typed.querySelector(".errornote, .errorlist") !== null || typed.hasAttribute("data-unsaved")
        || [...typed.elements].some((field) => field.name !== without && isChanged(field));
}

function ask(event) {
    const {target: form, submitter} = event;
    const typed = typedForm();
    if (!typed || submitter?.hasAttribute("data-tries")) { return; }
    // Another button of the same form sends the reason, but not the text.
    const isElsewhere = submitter?.hasAttribute("formaction");
    if (form === typed && (!isElsewhere || !isUnsaved(typed, "reason"))) { left = typed; return; }
    if (form.method !== "post" || left === typed || !isUnsaved(typed)) { return; }
    event.preventDefault();
    event.stopImmediatePropagation();
    if (form.dataset.savedBy === typed.id) { typed.requestSubmit(saveButton(typed)); return; }
    question.returnValue = "";
    question.onclose = () => {
        if (question.returnValue === "save") { typed.requestSubmit(saveButton(typed)); }
        if (question.returnValue === "discard") { left = typed; form.requestSubmit(submitter); }
    };
    question.showModal();
}

document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.isComposing) { return; }
    const form = event.target.form;
    const button = form?.method === "post" && (saveButton(form) ?? form.querySelector("button[type=submit], input[type=submit]"));
    if (button) { event.preventDefault(); form.requestSubmit(button); }
});

addEventListener("DOMContentLoaded", () => {
    question = document.getElementById("unsaved");
    if (!question) { return; }
    for (const button of question.querySelectorAll("button")) {
        button.addEventListener("click", () => question.close(button.value));
    }
    document.addEventListener("submit", ask, {capture: true});
    addEventListener("beforeunload", (event) => {
        const typed = typedForm();
        if (typed && left !== typed && isUnsaved(typed)) { event.preventDefault(); }
    });
    addEventListener("pageshow", () => { left = null; });
});
