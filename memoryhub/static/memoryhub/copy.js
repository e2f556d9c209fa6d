/* Buttons that copy: data-copy names the element, data-copied is the text to show afterwards. They may be hidden initially. */
"use strict";

(function () {
    function textOf(element) {
        return "value" in element ? element.value : element.textContent;
    }

    function select(element) {
        const folded = element.closest("details");
        if (folded) {
            folded.open = true;  /* collapsed text cannot be selected */
        }
        if (element.select) {
            element.select();
            return;
        }
        const range = document.createRange();
        range.selectNodeContents(element);
        const selection = window.getSelection();
        selection.removeAllRanges();
        selection.addRange(range);
    }

    async function copy(element) {
        /* Without TLS, a page has no clipboard API. */
        if (navigator.clipboard && window.isSecureContext) {
            try {
                await navigator.clipboard.writeText(textOf(element));
                return true;
            } catch (refused) {
                /* execCommand below needs no permission. */
            }
        }
        select(element);
        return document.execCommand("copy");
    }

    for (const button of document.querySelectorAll("[data-copy][hidden]")) {
        button.hidden = false;
    }

    document.addEventListener("click", async function (event) {
        const button = event.target.closest("[data-copy]");
        if (!button) {
            return;
        }
        const element = document.getElementById(button.dataset.copy);
        if (element && (await copy(element))) {
            const status = document.getElementById("copy-status");
            if (status) {
                status.textContent = button.dataset.copied;
            }
            button.textContent = "✓ " + button.dataset.copied;
        }
    });
})();
