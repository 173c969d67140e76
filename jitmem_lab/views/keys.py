"""The browser's part of a view: its keys, clicks on rows and steps, and the address bar."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import panel as pn
import param

from ..render import escape
from .style import page

KEYS = {
    "n, j or →": "next task of the list",
    "p, k or ←": "previous task of the list",
    "f": "next failure",
    "F": "previous failure",
    "s": "next step of the episode, whole and open, its prompt too",
    "S": "previous step",
    "/": "to the filter; Enter applies it, Escape leaves it",
    "w": "long texts whole, or cut",
    "r": "look for new runs and episodes",
    "?": "show or hide these keys",
}
"""What the keys do in the inspector."""
COMPARE_KEYS = {
    "n, j or →": "next task, or next trace",
    "p, k or ←": "the one before",
    "/": "to the words of the task; Enter applies them, Escape leaves them",
    "w": "long texts whole, or cut",
    "r": "look for new runs and episodes",
    "?": "show or hide these keys",
}
"""What they do in a comparison."""


SCRIPT = r"""
// Keys, clicks on rows and steps, and the address bar of one view.

const DOES = {
  n: "next", j: "next", ArrowRight: "next",
  p: "previous", k: "previous", ArrowLeft: "previous",
  s: "step on", S: "step back",
  f: "next failure", F: "previous failure",
  w: "whole", r: "reload", "?": "keys",
}

function* hosts(root) {
  yield root
  for (const node of root.querySelectorAll("*")) {
    if (node.shadowRoot) yield* hosts(node.shadowRoot)
  }
}

function find(root, selector) {
  for (const host of hosts(root)) {
    const found = host.querySelector(selector)
    if (found) return found
  }
  return null
}

function view_of(el) {
  let node = el
  while (node && !(node.classList && node.classList.contains("jm-view"))) {
    node = node.parentElement || (node.getRootNode() && node.getRootNode().host)
  }
  return node || null
}

function is_field(node) {
  return node && (["INPUT", "TEXTAREA", "SELECT"].includes(node.tagName) || node.isContentEditable)
}

export function render({model, el}) {
  const inside = (event) => {
    const view = view_of(el)
    return view && event.composedPath().includes(view)
  }

  const pressed = (event) => {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return
    if (!model.everywhere && !inside(event)) return
    const target = event.composedPath()[0]
    if (is_field(target)) {
      const filter = target.getRootNode().host?.classList.contains("jm-filter")
      if (filter && (event.key === "Escape" || event.key === "Enter")) target.blur()
      const tick = target.type === "checkbox" || target.type === "radio"
      if (!tick || event.key.startsWith("Arrow")) return
    }
    if (event.key === "/") {
      const view = view_of(el)
      const field = view && find(view.shadowRoot || view, ".jm-filter")
      const input = field && (field.shadowRoot || field).querySelector("input")
      if (input) {
        input.focus()
        input.select()
        event.preventDefault()
      }
    } else if (DOES[event.key]) {
      event.preventDefault()
      model.send_msg({do: DOES[event.key]})
    }
  }

  // A row is known by the position that it shows, never by its number on a page that may be sorted.
  const clicked = (event) => {
    if (!inside(event)) return
    for (const node of event.composedPath()) {
      if (!node.classList) continue
      if (node.classList.contains("tabulator-row")) {
        const cell = node.querySelector('[tabulator-field="position"]')
        const position = cell && Number(cell.textContent.replace(/\D/g, ""))
        if (cell && cell.textContent.trim() !== "") model.send_msg({open: position})
        return
      }
      const step = node.tagName === "H3" && node.parentElement?.dataset.step
      if (step) {
        model.send_msg({step: Number(step)})
        return
      }
    }
  }

  const went = () => model.send_msg({search: window.location.search})

  const tell = () => {
    if (model.search === "" || model.search === window.location.search) return
    const url = window.location.pathname + model.search + window.location.hash
    const other = (text) => {
      const query = new URLSearchParams(text)
      query.delete("step")
      return query.toString()
    }
    // What is not yet in the address, or only a step, is no place to go back to.
    const had = new URLSearchParams(window.location.search).has("position")
    if (!had || other(model.search) === other(window.location.search)) {
      window.history.replaceState({}, "", url)
    } else {
      window.history.pushState({}, "", url)
    }
  }

  // The episode may be put in place only after this is asked for: look again for a while.
  let looking = 0
  const look = (tries, turn) => {
    if (turn !== looking || tries === 0 || model.step === null || model.step === undefined) return
    const view = view_of(el)
    const step = view && find(view.shadowRoot || view, `[data-step="${model.step}"]`)
    if (step && !step.classList.contains("chosen")) {
      step.classList.add("chosen")
      const column = step.closest(".column")
      const top = (node) => node.getBoundingClientRect().top
      if (column) column.scrollTop += top(step) - top(column) - 8
    }
    setTimeout(() => look(tries - 1, turn), 50)
  }

  // Before a table is built it forgets which page and row it was turned to.
  const built = setInterval(() => {
    const view = view_of(el)
    if (view && find(view.shadowRoot || view, ".tabulator-row")) {
      clearInterval(built)
      model.send_msg({do: "built"})
    }
  }, 50)

  document.addEventListener("keydown", pressed)
  document.addEventListener("click", clicked)
  window.addEventListener("popstate", went)
  model.on("search", tell)
  model.on("shown", () => look(30, ++looking))
  model.on("remove", () => {
    clearInterval(built)
    looking = -1
    document.removeEventListener("keydown", pressed)
    document.removeEventListener("click", clicked)
    window.removeEventListener("popstate", went)
  })
  tell()
  look(30, ++looking)
  return document.createElement("div")
}
"""


def keys_html(keys: Mapping[str, str] = KEYS) -> str:
    """The keys as a table."""
    rows = "".join(
        f"<tr><td><b>{escape(key)}</b></td><td>{escape(does)}</td></tr>" for key, does in keys.items()
    )
    return page(f'<div class="note"><table>{rows}</table></div>')


class Browser(pn.custom.JSComponent):
    """Sends what was done in the browser, and keeps the address bar.

    Args:
        told: Takes each message: `{"do": …}` for a key, `{"open": position}`, `{"step": number}`, and
            `{"search": …}` for Back and Forward.
    """

    everywhere = param.Boolean(
        default=False, doc="Whether keys count in the whole page, as they may if served."
    )
    search = param.String(default="", doc="The query that the address bar shall show; empty leaves it alone.")
    step = param.Integer(default=None, allow_None=True, doc="The step that shall be in sight.")
    shown = param.Integer(default=0, doc="Changes when the episode shown does.")

    _esm: ClassVar[str] = SCRIPT

    def __init__(self, told: Callable[[dict[str, Any]], None], **params: Any) -> None:
        super().__init__(width=0, height=0, margin=0, **params)
        self._told = told

    def _handle_msg(self, data: Any) -> None:
        if isinstance(data, dict):
            self._told(data)
