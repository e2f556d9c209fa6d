/* Editors of documents and summaries: counts tokens and updates previews while typing, and loads sections when they are opened.
   Without it the count is shown after saving, and sections are links to separate pages. */
"use strict";
(function () {
    const PAUSE_MS = 400;

    function counted(counter) {
        const text = document.getElementById(counter.dataset.counts);
        const token = document.querySelector("input[name=csrfmiddlewaretoken]");
        if (!text || !token) {
            return;
        }
        const label = counter.querySelector("[data-length-label]");
        const bar = counter.querySelector(".pro-bar");
        let timer = null;
        let asking = null;

        async function count() {
            if (asking) {
                asking.abort();
            }
            asking = new AbortController();
            const values = new FormData();
            values.append("text", text.value);
            try {
                const answer = await fetch(counter.dataset.url, {
                    method: "POST",
                    body: values,
                    headers: {"X-CSRFToken": token.value, "X-Requested-With": "fetch"},
                    signal: asking.signal,
                });
                if (answer.ok) {
                    show(await answer.json());
                }
            } catch (error) {
                // Aborted by further typing, or no connection: retried at the next pause.
            }
        }

        function show(counts) {
            label.textContent = counts.label;
            if (bar) {
                bar.firstElementChild.setAttribute("width", counts.percent + "%");
                bar.classList.toggle("pro-bar-over", counts.over);
            }
        }

        text.addEventListener("input", function () {
            clearTimeout(timer);
            timer = setTimeout(count, PAUSE_MS);
        });
        if (text.value !== text.defaultValue || document.getElementById("conflict")) {
            count();
        }
    }

    function loaded(details) {
        const part = details.lastElementChild;
        let failure = null;

        details.addEventListener("toggle", async function () {
            if (!details.open || details.dataset.loaded) {
                return;
            }
            details.dataset.loaded = "yes";
            try {
                const answer = await fetch(details.dataset.loads, {headers: {"X-Requested-With": "fetch"}});
                // After a log-out the response is a redirect to the login page, which must not be inserted.
                if (!answer.ok || answer.redirected) {
                    throw new Error("not the part");
                }
                // Rendered by this server with escaped texts.
                part.innerHTML = await answer.text();
            } catch (error) {
                delete details.dataset.loaded;
                tellFailure();
            }
        });

        // The link to the separate page remains.
        function tellFailure() {
            if (!failure) {
                failure = document.createElement("p");
                failure.textContent = details.dataset.failed;
                part.prepend(failure);
            }
        }
    }

    /* Previews the editor's Markdown next to it, at each pause of typing. */
    function previewed(button) {
        const text = document.getElementById(button.dataset.of);
        const token = document.querySelector("input[name=csrfmiddlewaretoken]");
        if (!text || !token) {
            return;
        }
        const shown = document.createElement("div");
        shown.className = "pro-preview";
        shown.tabIndex = 0;
        shown.setAttribute("role", "region");
        shown.setAttribute("aria-label", button.dataset.label);
        let timer = null;

        async function show() {
            const values = new FormData();
            values.append("text", text.value);
            const answer = await fetch(button.dataset.url, {
                method: "POST",
                body: values,
                headers: {"X-CSRFToken": token.value, "X-Requested-With": "fetch"},
            });
            if (answer.ok && !answer.redirected) {
                // Rendered by this server, which escapes HTML in the text.
                shown.innerHTML = await answer.text();
            }
        }

        function later() {
            clearTimeout(timer);
            timer = setTimeout(() => show().catch(() => {}), PAUSE_MS);
        }

        button.hidden = false;
        button.addEventListener("click", function () {
            const opens = !shown.isConnected;
            button.setAttribute("aria-pressed", String(opens));
            text.parentElement.classList.toggle("pro-beside", opens);
            if (opens) {
                text.after(shown);
                text.addEventListener("input", later);
                show().then(() => shown.scrollIntoView({block: "nearest"})).catch(() => {});
            } else {
                shown.remove();
                text.removeEventListener("input", later);
            }
        });
    }

    function begin() {
        document.querySelectorAll("#preview-button").forEach(previewed);
        document.querySelectorAll("[data-counts]").forEach(counted);
        document.querySelectorAll("details[data-loads]").forEach(loaded);
    }

    if (document.readyState === "loading") {
        document.addEventListener("DOMContentLoaded", begin);
    } else {
        begin();
    }
})();
