// Runs before the page is drawn, so that it never flashes in the wrong colours.
(function () {
  "use strict";
  var chosen = null;
  try { chosen = localStorage.getItem("spom-theme"); } catch (error) { /* files may have no storage */ }
  var dark = matchMedia("(prefers-color-scheme: dark)");
  function show(theme) { document.documentElement.dataset.theme = theme; }
  show(chosen || (dark.matches ? "dark" : "light"));
  dark.addEventListener("change", function (event) {
    if (!chosen) { show(event.matches ? "dark" : "light"); document.dispatchEvent(new Event("theme")); }
  });
  window.spomTheme = function (theme) {
    chosen = theme;
    try { localStorage.setItem("spom-theme", theme); } catch (error) { /* as above */ }
    show(theme);
    document.dispatchEvent(new Event("theme"));
  };
})();
