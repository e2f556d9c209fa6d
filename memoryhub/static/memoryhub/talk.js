// Streams the answer into the talk page. Optional: without this file the form is answered with a whole page.
"use strict";

const talk = document.getElementById("talk");
const status = document.getElementById("talk-status");
let isAnswering = false;

// Yield the events of a response as pairs of name and data.
async function* eventsOf(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
        const {value, done} = await reader.read();
        if (done) { return; }
        const parts = (text + value).split("\n\n");
        text = parts.pop();
        for (const part of parts) {
            const found = /^event: (\w+)\ndata: (.*)$/.exec(part);
            if (found) { yield [found[1], JSON.parse(found[2])]; }
        }
    }
}

// What was typed while the answer came is kept.
function show(html) {
    const typed = talk.querySelector("[name=message]").value;
    talk.innerHTML = html;
    window.htmx?.process(talk);
    const field = talk.querySelector("[name=message]");
    if (typed) { field.value = typed; }
    field.focus({preventScroll: true});
    field.scrollIntoView({block: "nearest"});
}

// The seconds that an answer is waited for, from the fifth on; without motion in steps of five.
const QUIET_SECONDS = 5;
let sentAt = 0;
let clock = null;

function startClock() {
    const step = matchMedia("(prefers-reduced-motion: reduce)").matches ? QUIET_SECONDS : 1;
    sentAt = performance.now();
    clock = setInterval(() => {
        const place = talk.querySelector("[data-elapsed]");
        const seconds = Math.floor((performance.now() - sentAt) / 1000);
        if (place && seconds >= QUIET_SECONDS) { place.textContent = place.dataset.elapsed.replace("{seconds}", seconds); }
    }, 1000 * step);
}

function stopClock() {
    clearInterval(clock);
    talk.querySelector("[data-waits]")?.remove();
}

const handlers = {
    start({turn, remembered}) {
        document.getElementById("talk-messages").insertAdjacentHTML("beforeend", turn);
        document.getElementById("talk-remembered").innerHTML = remembered;
        talk.querySelector("[name=message]").value = "";
    },
    delta({text}) {
        const answer = talk.querySelector("[data-answer]");
        if (!answer.dataset.answer) {
            stopClock();
            answer.textContent = "";
        }
        answer.dataset.answer = "begun";
        answer.append(text);
        answer.scrollIntoView({block: "nearest"});
    },
    end({html, address}) {
        show(html);
        if (address) { history.replaceState(null, "", address); }
        const hasFailed = talk.querySelector("#talk-messages > .hub-problem:last-child, #talk-messages ~ .hub-problem");
        status.textContent = hasFailed ? "" : status.dataset.complete;
    },
};

function showLost() {
    const notice = document.createElement("p");
    notice.className = "hub-problem mb-4";
    notice.setAttribute("role", "alert");
    notice.textContent = talk.dataset.lost;
    document.getElementById("talk-messages").append(notice);
}

// Another agent has other users.
talk.addEventListener("change", (event) => {
    const user = talk.querySelector("[name=user_id]");
    if (event.target.name === "agent" && user) { user.value = ""; }
});

talk.addEventListener("submit", async (event) => {
    const form = event.target;
    if (form.id !== "talk-form") { return; }
    event.preventDefault();
    if (isAnswering) { return; }
    isAnswering = true;
    status.textContent = status.dataset.answering;
    startClock();
    let hasEnded = false;
    try {
        const answer = await fetch(form.action, {method: "POST", body: new FormData(form), headers: {"X-Requested-With": "fetch"}});
        if (answer.redirected || !answer.ok) { location.reload(); return; }  // logged out, or deleted
        if (answer.headers.get("Content-Type").startsWith("text/event-stream")) {
            for await (const [name, data] of eventsOf(answer.body)) {
                handlers[name](data);
                hasEnded = name === "end";
            }
        } else {
            show(await answer.text());
            hasEnded = true;
        }
        if (!hasEnded) { showLost(); }
    } catch {
        showLost();
    } finally {
        stopClock();
        isAnswering = false;
    }
});
