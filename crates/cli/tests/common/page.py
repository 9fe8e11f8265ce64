"""What a reader does with a page of `cohabit report`, in Chromium: page.py PAGE NAME, NAME being what each task is called.

Ends with status 0 and `ok`, or with what is wrong. Status 77: there is no browser here.
"""

import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../../benches"))
import browser  # noqa: E402

# That its script has come to its end, and what it left for later is done.
READY = "new Promise((done) => { const look = () => document.documentElement.dataset.ready ? setTimeout(() => done(true), 50) : setTimeout(look, 10); look(); })"
INFO = "document.querySelector('.info').innerText"
WHEN = "document.querySelector('.when output').innerText"
# Whether a dot of the map is white, by writer and reader of four tasks.
DOT = """((row, column) => { const canvas = document.querySelector('.cells'), side = canvas.width;
  const margin = [52, 44].map((one) => Math.round(one * Math.min(2, devicePixelRatio))), map = side - Math.max(...margin);
  const dot = canvas.getContext('2d').getImageData(margin[0] + (column + 0.5) * map / 4, margin[1] + (row + 0.5) * map / 4, 1, 1).data;
  return dot[0] === 255 && dot[1] === 255 && dot[2] === 255; })"""


def check(holds, what):
    if not holds:
        sys.exit(f"page: {what}")


def place(view, row, column):
    left, top, side = view.run("(() => { const over = document.querySelector('.over'); over.scrollIntoView(); const frame = over.getBoundingClientRect(); return [frame.left, frame.top, frame.width]; })()")
    dots = view.run("document.querySelector('.over').width")
    margin = [round(one * min(2, view.run("devicePixelRatio"))) for one in (52, 44)]
    cell = (dots - max(margin)) / 4
    return left + (margin[0] + (column + 0.5) * cell) * side / dots, top + (margin[1] + (row + 0.5) * cell) * side / dots


def main(page, name):
    view = browser.Browser()
    view.open(page)
    check(view.run(READY), "its script did not come to its end")
    title = view.run("document.title")
    check(title.startswith("cohabit: "), f"the title is {title!r}")
    check([view.run(f"{DOT}({row}, {column})") for row, column in ((0, 1), (1, 0), (2, 3), (3, 3))] == [False, False, False, True], "cells are not drawn where they are")
    view.mouse("mouseMoved", *place(view, 0, 1))
    told = view.run(INFO)
    check("thread 0" in told and "thread 1" in told and name in told and "900 messages" in told and "the other way 100" in told, f"the pointer shows {told!r}")
    view.run("document.querySelector('.over').focus()")
    view.key("ArrowDown")
    view.key("ArrowDown")
    view.key("ArrowRight")
    view.key("ArrowRight")
    told = view.run(INFO)
    check("thread 2" in told and "thread 3" in told and "50 messages" in told, f"keys show {told!r}")
    check(view.run("getComputedStyle(document.activeElement).outlineStyle") == "solid", "the focus is not seen")
    for order in ("placed", "number"):
        view.run(f"(() => {{ const order = document.querySelectorAll('.controls select')[1]; order.value = '{order}'; order.dispatchEvent(new Event('change')); }})()")
        check(view.run(INFO) == told, "another order shows another pair")
    view.run("document.querySelector('.line').focus()")
    view.key("ArrowRight")
    view.key("ArrowRight")
    view.key("ArrowRight")
    view.key("ArrowRight", shift=True)
    view.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    said = view.run(WHEN)
    check("the matrix is of 3.00 ms to 5.00 ms" in said, f"a part of the run is chosen and {said!r} said")
    check([view.run(f"{DOT}({row}, {column})") for row, column in ((0, 1),)] == [True], "the matrix is not of the part that is chosen")
    view.key("Escape")
    check("the whole run" in view.run(WHEN), "Escape does not choose the whole run")
    view.paper(page + ".pdf")
    with open(page + ".pdf", "rb") as file:
        check(file.read(5) == b"%PDF-", "it does not print")
    check(view.run("document.title") == title and not view.run("window.taken"), "a name was run")
    view.call("Emulation.setScriptExecutionDisabled", value=True)
    view.open(page)
    tree = view.call("DOM.getDocument", depth=0)["root"]["nodeId"]
    words = view.call("DOM.getOuterHTML", nodeId=tree)["outerHTML"]
    check("data-ready" not in words and "<noscript><p" in words, "scripts run where they are off")
    pictures = view.call("DOM.querySelectorAll", nodeId=tree, selector="noscript img.picture")["nodeIds"]
    check(len(pictures) == 2, f"{len(pictures)} pictures stand in for the canvas")
    check(view.call("DOM.getBoxModel", nodeId=pictures[0])["model"]["height"] > 100, "the picture is not shown without scripts")
    view.close()
    check(not view.errors, "; ".join(view.errors))
    print("ok")


if __name__ == "__main__":
    if not browser.found():
        print("no chromium here (scripts/setup.sh browser installs it)")
        sys.exit(77)
    main(*sys.argv[1:])
