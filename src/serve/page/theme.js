// Runs before the page is painted, so that it never flashes in the other theme.
(function () {
  const dark = window.matchMedia("(prefers-color-scheme: dark)");

  function chosen() {
    try {
      return localStorage.getItem("bochner.theme") || "system";
    } catch {
      return "system"; // storage is blocked
    }
  }

  function show() {
    const theme = chosen();
    document.documentElement.dataset.theme = theme === "system" ? (dark.matches ? "dark" : "light") : theme;
  }

  dark.addEventListener("change", show);
  document.addEventListener("DOMContentLoaded", () => {
    const select = document.getElementById("theme");
    select.value = chosen();
    select.addEventListener("change", () => {
      try {
        localStorage.setItem("bochner.theme", select.value);
      } catch {
        document.documentElement.dataset.theme = select.value;
        return;
      }
      show();
    });
  });
  show();
})();
