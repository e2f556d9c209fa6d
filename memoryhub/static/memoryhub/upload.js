/* Upload of a file in pieces, so that it may exceed one request, and a lost connection repeats one piece only.
   Several files, or a folder, are packed into a zip. Without it the form posts the files whole. */
"use strict";
(function () {
    const PIECE = 4 * 1024 * 1024;  /* data-piece of the form overrides it */
    const LARGEST_ZIP = 2 ** 32 - 2 ** 24;  /* of a zip without the extension for large ones */
    const SKIPPED = [".git", "node_modules", ".venv", ".trash"];
    const UTF_8 = 0x0800;
    const CRCS = Uint32Array.from({length: 256}, function (_, number) {
        for (let bit = 0; bit < 8; bit++) {
            number = number & 1 ? 0xedb88320 ^ (number >>> 1) : number >>> 1;
        }
        return number;
    });
    const form = document.getElementById("upload-form");
    const input = form && form.querySelector("input[name=file]");
    const folder = document.getElementById("id_folder");
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

    /* Little-endian fields of 2 and 4 bytes. */
    function record(...fields) {
        const size = fields.reduce(function (sum, [bytes]) { return sum + bytes; }, 0);
        const view = new DataView(new ArrayBuffer(size));
        let offset = 0;
        for (const [bytes, value] of fields) {
            bytes === 2 ? view.setUint16(offset, value, true) : view.setUint32(offset, value, true);
            offset += bytes;
        }
        return new Uint8Array(view.buffer);
    }

    async function checksum(file) {
        const reader = file.stream().getReader();
        let crc = ~0;
        for (let read = await reader.read(); !read.done; read = await reader.read()) {
            for (const byte of read.value) {
                crc = CRCS[(crc ^ byte) & 255] ^ (crc >>> 8);
            }
        }
        return ~crc >>> 0;
    }

    /* A zip whose members are not compressed, so that it refers to the files and holds none. */
    async function packed(files) {
        const parts = [], index = [];
        let offset = 0, indexed = 0;
        for (const file of files) {
            const name = new TextEncoder().encode(file.webkitRelativePath || file.name);
            const shared = [
                [2, 20], [2, UTF_8], [2, 0], [2, 0], [2, 0x21], [4, await checksum(file)], [4, file.size], [4, file.size],
                [2, name.length], [2, 0],
            ];
            const head = record([4, 0x04034b50], ...shared);
            const entry = record([4, 0x02014b50], [2, 20], ...shared, [2, 0], [2, 0], [2, 0], [4, 0], [4, offset]);
            parts.push(head, name, file);
            index.push(entry, name);
            offset += head.length + name.length + file.size;
            indexed += entry.length + name.length;
        }
        const count = files.length;
        const end = record([4, 0x06054b50], [2, 0], [2, 0], [2, count], [2, count], [4, indexed], [4, offset], [2, 0]);
        const top = (files[0].webkitRelativePath || "files").split("/")[0];
        return new File([...parts, ...index, end], top + ".zip");
    }

    async function chosen() {
        const files = [...input.files, ...folder.files].filter(function (file) {
            return !file.webkitRelativePath.split("/").some(function (part) { return SKIPPED.includes(part); });
        });
        const key = files.map(function (file) { return [file.webkitRelativePath, file.name, file.size].join("/"); }).join("\n");
        if (begun && begun.key === key) {
            return begun;
        }
        if (files.length > 1 && files.reduce(function (sum, file) { return sum + file.size + 500; }, 0) > LARGEST_ZIP) {
            throw new Error(form.dataset.large);
        }
        const isOne = files.length === 1 && !files[0].webkitRelativePath;
        return {key: key, size: 0, file: isOne ? files[0] : await packed(files)};
    }

    async function send() {
        const upload = await chosen();
        const file = upload.file;
        if (upload !== begun) {
            const values = new FormData(form);
            values.delete("file");
            values.set("file_name", file.name);
            values.set("in_pieces", "1");
            begun = {...upload, ...(await post(form.action, values))};
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

    document.getElementById("upload-folder").hidden = false;
    form.addEventListener("submit", async function (event) {
        if (!input.files.length && !folder.files.length) {
            return;
        }
        event.preventDefault();
        status.textContent = "";
        try {
            await send();
        } catch (error) {
            status.textContent = error instanceof TypeError ? form.dataset.broken : error.message;
        }
    });
})();
