"""Checks of every page that a test opens: no script fails, nothing is asked of others, everybody can use it."""

from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

AXE = (files("axe_playwright_python") / "axe.min.js").read_text(encoding="utf-8")
SEVERE = ("serious", "critical")
OWN_SCHEMES = ("data:", "blob:", "about:")

ACCEPTED: list[tuple[str, str, str]] = []
"""Findings in unfold's own markup that cannot be mended here: the rule, what its selector holds, and why."""

RUN_AXE = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"]});
    return found.violations.map(each => ({
        id: each.id, impact: each.impact, help: each.help,
        nodes: each.nodes.map(node => ({target: node.target.flat().join(" "), html: node.html.slice(0, 200),
                                        why: (node.failureSummary || "").slice(0, 300)})),
    }));
}"""


@dataclass
class Watch:
    """What went wrong in a browser's pages while nobody looked."""

    home: str
    problems: list[str] = field(default_factory=list)

    def over(self, context: Any) -> None:
        """Watch every page of a context."""
        context.on("request", self._requested)
        context.on("response", self._answered)
        context.on("console", self._said)
        context.on("weberror", lambda error: self.problems.append(f"a script failed: {error.error}"))

    def check(self) -> None:
        """Fail with what went wrong so far."""
        problems, self.problems[:] = list(self.problems), []
        assert not problems, "\n".join(problems)

    def _requested(self, request: Any) -> None:
        if not request.url.startswith((f"{self.home}/", *OWN_SCHEMES)):
            self.problems.append(f"a page asked for {request.url}, which is not of this server")

    def _answered(self, response: Any) -> None:
        # What a page is answered with is for the test to say; what a page loads must be there.
        least = 500 if response.request.is_navigation_request() else 400
        if response.status >= least:
            self.problems.append(f"{response.request.method} {response.url} was answered with {response.status}")

    def _said(self, message: Any) -> None:
        # Answers are watched above, with their addresses.
        if message.type == "error" and not message.text.startswith("Failed to load resource"):
            self.problems.append(f"the console says: {message.text} ({message.location.get('url', '')})")


def findings(page: Any) -> list[str]:
    """Return what keeps people from using the page as it stands, in words: rule, place, what helps."""
    page.evaluate(AXE)
    return [
        f"{each['impact']} {each['id']} ({each['help']}) at {node['target']}: {node['html']}\n    {node['why']}"
        for each in page.evaluate(RUN_AXE)
        if each["impact"] in SEVERE
        for node in each["nodes"]
        if not any(rule == each["id"] and part in node["target"] for rule, part, _ in ACCEPTED)
    ]


def accessible(page: Any) -> None:
    """Fail where axe-core finds something serious on the page as it stands."""
    found = findings(page)
    assert not found, f"{page.url} keeps people out:\n" + "\n".join(found)


LEAST_TARGET_PX = 24
LEAST_FIELD_PX = 16

SMALL_TARGETS = """least => [...document.querySelectorAll("a[href], button, summary, [role=button], input, select, textarea")]
    .filter(each => each.type !== "hidden" && !each.closest("[aria-hidden=true]") && each.checkVisibility({visibilityProperty: true}))
    .map(each => [each, each.getBoundingClientRect()])
    .filter(([each, at]) => at.width > 2 && at.height > 2 && Math.min(at.width, at.height) < least - 0.5)
    .map(([each, at]) => `${each.outerHTML.slice(0, 120)} is ${Math.round(at.width)} × ${Math.round(at.height)} px`)"""
SMALL_FIELDS = """least => [...document.querySelectorAll("input, select, textarea")]
    .filter(each => !["hidden", "checkbox", "radio"].includes(each.type) && each.checkVisibility())
    .filter(each => parseFloat(getComputedStyle(each).fontSize) < least)
    .map(each => `the text in ${each.outerHTML.slice(0, 120)} is below ${least} px: phones zoom in`)"""


def fits_fingers(page: Any) -> None:
    """Fail where something is too small to be touched, or a phone would zoom into a field."""
    small = page.evaluate(SMALL_TARGETS, LEAST_TARGET_PX) + page.evaluate(SMALL_FIELDS, LEAST_FIELD_PX)
    assert not small, f"{page.url}:\n" + "\n".join(small)


# After a form was sent, the next page may have begun and have no body yet.
IS_WIDER = """() => new Promise(tell => {
    const look = () => document.readyState === "loading"
        ? setTimeout(look, 20) : tell(document.scrollingElement.scrollWidth > window.innerWidth);
    look();
})"""


def scrolls_sideways(page: Any) -> bool:
    """Return whether the page is wider than its window."""
    return bool(page.evaluate(IS_WIDER))
