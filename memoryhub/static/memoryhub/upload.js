/* Upload of a file in pieces, so that it may exceed one request, and a lost connection repeats one piece only.
   Without it the form posts the file whole. */
"use strict";
(function () {
    const PIECE = 4 * 1024 * 1024;  /* data-piece of the form overrides it */
    const form = document.getElementById("upload-form");
    const input = form && form.querySelector("input[type=file]");
    if (!input) {
        return;
    }
    const status = document.getElementById("upload-status");
    const bar = document.getElementById("upload-progress");
    let begun = null;

    async function post(address, values) {
        values.append("csrfmiddlewaretoken", form.querySelector("input[name=csrfmiddlewaretoken]").value);
        const answer = await fetch(address, {method: "POST", body: values, headers: {"X-Requested-With": "fetch"}});
        const told = await answer.json();
        if (!answer.ok) {
            throw new Error(told.problems.join(" "));
        }
        return told;
    }

    async function send(file) {
        if (!begun || begun.file !== file) {
            const values = new FormData(form);
            values.delete("file");
            values.set("file_name", file.name);
            values.set("in_pieces", "1");
            begun = {file: file, size: 0, ...(await post(form.action, values))};
        }
        const piece = Number(form.dataset.piece) || PIECE;
        bar.hidden = false;
        bar.max = file.size;
        while (begun.size < file.size) {
            const values = new FormData();
            const end = Math.min(begun.size + piece, file.size);
            values.append("offset", begun.size);
            values.append("piece", file.slice(begun.size, end), "piece");
            if (end === file.size) {
                values.append("is_last", "1");
            }
            begun.size = (await post(begun.pieces, values)).size;
            bar.value = begun.size;
        }
        window.location.assign(begun.page);
    }

    form.addEventListener("submit", async function (event) {
        const file = input.files[0];
        if (!file) {
            return;
        }
        event.preventDefault();
        status.textContent = "";
        try {
            await send(file);
        } catch (error) {
            status.textContent = error instanceof TypeError ? form.dataset.broken : error.message;
        }
    });
})();
