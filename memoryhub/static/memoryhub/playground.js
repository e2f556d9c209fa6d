// Small conveniences of the playground, a receipt's page and a session's timeline; each page works without them.
(function () {
  "use strict";

  function isShown(row, what) {
    if (what === "entered") return row.dataset.entered === "yes";
    if (what === "left") return row.dataset.entered === "no";
    if (what === "changed") return row.dataset.changed === "yes";
    return true;
  }

  function filters(group) {
    const table = document.getElementById(group.dataset.hubFilter);
    if (!table) return;
    function show(what) {
      for (const button of group.querySelectorAll("[data-hub-show]")) {
        button.setAttribute("aria-pressed", String(button.dataset.hubShow === what));
      }
      for (const row of table.querySelectorAll("tr[data-entered]")) row.hidden = !isShown(row, what);
      for (const body of table.tBodies) {
        const rows = [...body.querySelectorAll("tr[data-entered]")];
        body.hidden = rows.length > 0 && rows.every((row) => row.hidden);
      }
      for (const panel of document.querySelectorAll("[data-hub-panel]")) {
        panel.hidden = (panel.dataset.hubPanel === "prompt") !== (what === "prompt");
      }
    }
    group.hidden = false;
    group.addEventListener("click", (event) => {
      const chosen = event.target.closest("[data-hub-show]");
      if (chosen) show(chosen.dataset.hubShow);
    });
    show(group.dataset.hubStart);
  }

  // Update users and sessions when another agent or user is chosen.
  function lists(form) {
    const agent = form.querySelector("[name=agent]");
    // Few users are offered as a list; otherwise the name is typed.
    function offerUsers(found, user) {
      const field = document.createElement(found.is_whole ? "select" : "input");
      Object.assign(field, { id: user.id, name: user.name, className: user.className });
      if (found.is_whole) field.append(new Option(found.own, ""), ...found.users.map((each) => new Option(each, each)));
      else field.setAttribute("list", "users");
      if (found.users.includes(user.value)) field.value = user.value; // chosen while the list was loading
      user.replaceWith(field);
    }
    async function load(event) {
      const user = form.querySelector("[name=user]");
      const query = new URLSearchParams({ agent: agent.value, user: event.target === agent ? "" : user.value });
      const answer = await fetch(`${form.dataset.hubLists}?${query}`, { headers: { Accept: "application/json" } });
      if (!answer.ok) return;
      const found = await answer.json();
      if (event.target === agent) offerUsers(found, user);
      document.getElementById("users").replaceChildren(...found.users.map((each) => new Option(each, each)));
      document.getElementById("id_session").replaceChildren(...found.sessions.map(([key, label]) => new Option(label, key)));
    }
    form.addEventListener("change", (event) => {
      if (["agent", "user"].includes(event.target.name)) load(event).catch(() => {}); // aborted, or no connection: keep the lists
    });
  }

  // Links to messages use a fragment, which the server does not receive: load the page with that message.
  function finds(timeline) {
    const key = /^#message-([0-9a-f-]{36})$/.exec(window.location.hash);
    if (!key || document.getElementById(window.location.hash.slice(1))) return;
    if (new URLSearchParams(window.location.search).get("at") === key[1]) return;
    window.location.replace(`${timeline.dataset.hubTimeline}?at=${key[1]}${window.location.hash}`);
  }

  document.querySelectorAll("[data-hub-lists]").forEach(lists);
  document.querySelectorAll("[data-hub-filter]").forEach(filters);
  document.querySelectorAll("[data-hub-timeline]").forEach(finds);
})();
