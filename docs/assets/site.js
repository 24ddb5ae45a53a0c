// Wide tables scroll inside a wrapper that the theme makes; the keyboard has to reach it.
document$.subscribe(() => {
  for (const wrapper of document.querySelectorAll(".md-typeset__scrollwrap")) {
    if (wrapper.scrollWidth > wrapper.clientWidth) wrapper.tabIndex = 0;
  }
});
