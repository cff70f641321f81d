// What scrolls within its own box can be reached and scrolled by the keyboard.
const boxes = "article pre, .formula, .table-wrapper, .cell_output, .highlight";
function mark() {
  for (const box of document.querySelectorAll(boxes)) {
    if (box.scrollWidth > box.clientWidth) box.tabIndex = 0;
    else box.removeAttribute("tabindex");
  }
}
window.addEventListener("load", mark);
window.addEventListener("resize", mark);
