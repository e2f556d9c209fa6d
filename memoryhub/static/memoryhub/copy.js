/* Buttons that copy: data-copy names the element, data-copied is what to say afterwards. They may come hidden. */
"use strict";

(function () {
    function textOf(element) {
        return "value" in element ? element.value : element.textContent;
    }

    function select(element) {
        const folded = element.closest("details");
        if (folded) {
            folded.open = true;  /* what is folded cannot be selected */
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
        /* A page that was not loaded over TLS has no clipboard of its own. */
        if (navigator.clipboard && window.isSecureContext) {
            try {
                await navigator.clipboard.writeText(textOf(element));
                return true;
            } catch (refused) {
                /* The older way below needs no permission. */
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
