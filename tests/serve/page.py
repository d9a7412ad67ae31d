"""The playground in Chromium: page.py ADDRESS ADDRESS_WITH_KEY KEY DIRECTORY [CHECK...]

The first server needs no API key, the second one does. DIRECTORY is empty and receives downloads. CHECK: "fork", "states", …
(default: all). Without Selenium or Chromium, the script is skipped with exit status 77.
"""

import os
import shutil
import sys
import time
import traceback

try:
    from selenium import webdriver
    from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
    from selenium.webdriver.chrome.service import Service
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
except ImportError:
    print("skipped: Selenium is not installed")
    sys.exit(77)

PATIENCE = 20  # seconds until a condition counts as never met
ENDLESS = 1000000  # tokens that no test waits for


class Page:
    """The page in a browser, and what the tests do with it."""

    def __init__(self, driver):
        self.driver = driver

    def open(self, address):
        """Opens the page as on a first visit."""
        self.driver.get(address)
        self.driver.execute_script("localStorage.clear(); sessionStorage.clear()")
        self.reload()

    def reload(self):
        self.driver.refresh()

    def ready(self):
        self.wait("the model", lambda: "parameters" in self.text("#model"))

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector):
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def script(self, code, *arguments):
        return self.driver.execute_script(code, *arguments)

    def text(self, selector):
        """The text of an element, also of one that is not visible; "" without an element."""
        return self.script("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def shown(self, selector):
        found = self.all(selector)
        return bool(found) and found[0].is_displayed()

    def wait(self, what, condition):
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            try:
                value = condition()
                if value:
                    return value
            except (StaleElementReferenceException, IndexError):
                pass
            time.sleep(0.02)
        raise AssertionError(f"waited for {what} in vain")

    def fill(self, selector, text):
        element = self.one(selector)
        element.clear()
        element.send_keys(text)

    def settings(self, **values):
        for name, value in values.items():
            self.fill(f"#settings [name={name}]", str(value))

    def click(self, selector):
        element = self.one(selector)
        self.script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def keys(self, *keys):
        """Presses the last key while the other keys are down."""
        chain = ActionChains(self.driver)
        for key in keys[:-1]:
            chain.key_down(key)
        chain.send_keys(keys[-1])
        for key in keys[:-1]:
            chain.key_up(key)
        chain.perform()

    def size(self, width, height):
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600},
        )

    def errors(self):
        """What the console reports as an error since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] == "SEVERE"]

    # ---- branches

    def status(self, letter):
        return self.script(
            "return document.querySelector(`[data-branch='${arguments[0]}']`)?.dataset.status", letter
        )

    def tokens(self, letter):
        """The texts of the tokens of a branch."""
        return self.script(
            "return [...document.querySelectorAll(`[data-branch='${arguments[0]}'] .tokens .token`)]"
            ".map((token) => token.textContent)",
            letter,
        )

    def count(self, letter):
        return self.script("return document.querySelectorAll(`[data-branch='${arguments[0]}'] .token`).length", letter)

    def token(self, letter, index):
        return self.all(f"[data-branch={letter}] .tokens .token")[index]

    def finished(self, letter):
        self.wait(f"the end of branch {letter}", lambda: self.status(letter) in ("stop", "length"))
        # The last tokens are drawn in the next frame.
        self.wait("the figures", lambda: "token" in self.text(f"[data-branch={letter}] .cached"))

    def generate(self, prompt="the cat", tokens=12, **settings):
        """Runs a prompt to its end in branch A."""
        self.fill("#prompt-text", prompt)
        self.settings(max_tokens=tokens, **settings)
        self.click("#run")
        self.finished("A")

    def overflow(self):
        return self.script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")


def same(found, expected, what):
    assert found == expected, f"{what}: {found!r}, expected {expected!r}"


def check_streaming(page, servers):
    """Tokens appear one after another, with statistics and a chart."""
    page.script(
        "window.counts = new Set(); new MutationObserver(() => counts.add(document.querySelectorAll('.tokens .token').length))"
        ".observe(document.getElementById('branches'), {childList: true, subtree: true})"
    )
    page.generate(prompt="the <b>cat</b>", tokens=1500, seed=7)
    same(page.status("A"), "length", "status after all tokens")
    same(page.count("A"), 1500, "number of tokens")
    assert page.script("return counts.size") > 3, "the tokens appear at once"
    same(page.text("[data-branch=A] .given"), "the <b>cat</b>", "the prompt before the answer")
    assert not page.all(".text b"), "the prompt is read as HTML"
    assert float(page.text("[data-branch=A] .speed").replace(",", "")) > 0, "no speed"
    assert page.text("[data-branch=A] .first").endswith("s"), "no time of the first token"
    assert f"at {page.text('[data-branch=A] .context')}" in page.text("#memory-cache"), "the chart does not follow"
    assert page.all("#chart .mark"), "no mark of the branch in the chart"
    assert "key-value cache" in page.one("#chart svg").get_attribute("aria-label"), "the chart has no description"
    same(page.text("[data-branch=A] .full-text"), "".join(page.tokens("A")), "the text for screen readers")
    assert "finished" in page.text("#status"), "the end is not announced"
    first = page.tokens("A")[:50]
    page.generate(prompt="the <b>cat</b>", tokens=50)
    same(page.tokens("A"), first, "the tokens of the same seed")
    page.click("[data-branch=A] .go")
    page.wait("more tokens", lambda: page.count("A") == 100)
    same(page.tokens("A")[:50], first, "the tokens before continuing")


def check_stop(page, servers):
    """The Stop buttons end a response."""
    page.settings(max_tokens=ENDLESS)
    for button in ("#stop", "[data-branch=A] .halt"):
        page.click("#run")
        page.wait("tokens", lambda: page.status("A") == "running" and page.count("A") > 20)
        page.click(button)
        page.wait("the end", lambda: page.status("A") == "stopped")
        assert not page.one("#stop").is_enabled(), "Stop without an answer"
        assert "stopped" in page.text("#status"), "the stop is not announced"
    time.sleep(0.3)
    before = page.count("A")
    time.sleep(0.2)
    same(page.count("A"), before, "tokens after the stop")
    page.generate(tokens=5)  # the server is free


def check_keyboard(page, servers):
    """Run, stop, and the details of tokens without a pointer."""
    page.fill("#prompt-text", "the dog")
    page.settings(max_tokens=ENDLESS)
    page.one("#prompt-text").click()
    page.keys(Keys.CONTROL, Keys.ENTER)
    page.wait("tokens", lambda: page.count("A") > 5)
    page.keys(Keys.ESCAPE)
    page.wait("the end", lambda: page.status("A") == "stopped")

    page.script("document.querySelector('[data-branch=A] .close').focus()")
    page.keys(Keys.TAB)
    index = "return document.activeElement.dataset.index"
    same(page.script(index), "0", "the token that Tab reaches")
    assert page.shown("#popover"), "no details on focus"
    label = page.driver.switch_to.active_element.get_attribute("aria-label")
    assert page.text("#popover-probability").rstrip("%") in label and "%" in label, f"no probability in {label!r}"
    assert len(page.all("#popover .choice")) >= 5, "too few alternatives"
    page.keys(Keys.ARROW_RIGHT)
    page.keys(Keys.ARROW_RIGHT)
    page.keys(Keys.ARROW_LEFT)
    same(page.script(index), "1", "the token that arrows reach")
    page.keys(Keys.ENTER)
    assert page.script("return document.activeElement.closest('#popover') !== null"), "Enter does not open the choices"
    page.keys(Keys.ESCAPE)
    assert not page.shown("#popover"), "Esc does not close the details"
    same(page.script(index), "1", "the focus after the details")
    page.keys(Keys.TAB)
    same(page.script(index), None, "the token after one more Tab")


def check_details(page, servers):
    """Details on hover and on a tap; they go away."""
    page.generate()
    ActionChains(page.driver).move_to_element(page.token("A", 3)).perform()
    page.wait("details on hover", lambda: page.shown("#popover"))
    ActionChains(page.driver).move_to_element(page.one("h1")).perform()
    page.wait("no details", lambda: not page.shown("#popover"))
    page.token("A", 4).click()
    page.wait("details on click", lambda: page.shown("#popover"))
    ActionChains(page.driver).move_to_element(page.one("h1")).perform()
    time.sleep(0.4)  # longer than the delay after which details on hover go away
    assert page.shown("#popover"), "details of a tapped token do not stay"
    page.one("h1").click()
    page.wait("no details", lambda: not page.shown("#popover"))


def check_fork(page, servers):
    """Another token, the same token, and branches side by side that can be closed."""
    page.generate(prompt="user: the cat?\nassistant: the cat sleeps.\nuser:", tokens=20)  # long enough for the cache
    first = page.tokens("A")
    page.token("A", 6).click()
    choice = page.wait("alternatives", lambda: page.one("#popover button.choice"))
    name = choice.find_element(By.CSS_SELECTOR, ".choice-name").text.replace("␣", " ").replace("↵", "\n")
    choice.click()
    page.finished("B")
    assert not page.shown("#popover"), "the details stay open"
    second = page.tokens("B")
    same(second[:6], first[:6], "tokens before the fork")
    assert second[6].endswith(name), f"{second[6]!r} is not the token {name!r} that was chosen"
    same(len(second), 27, "tokens after the fork")
    same(page.tokens("A"), first, "the first branch")
    assert "from A at token 7" in page.text("[data-branch=B] .lineage"), page.text("[data-branch=B] .lineage")
    tops = [page.one(f"[data-branch={letter}]").rect["y"] for letter in "AB"]
    same(tops[0], tops[1], "positions of branches side by side")

    page.token("A", 9).click()
    page.wait("details", lambda: page.shown("#popover-fork"))
    page.click("#popover-fork")
    page.finished("C")
    same(page.tokens("C")[:10], first[:10], "tokens before the second fork")
    same(len(page.tokens("C")), 30, "tokens after the second fork")
    assert int(page.text("[data-branch=C] .cached").split()[0]) > 0, "the start of the second fork is not cached"
    page.click("[data-branch=A] .close")
    same([card.get_attribute("data-branch") for card in page.all(".branch")], ["C", "B"], "branches")
    page.click("#run-beside")
    page.finished("D")
    same(len(page.all(".branch")), 3, "branches after Run beside")


def check_states(page, servers):
    """Save, continue, download, upload, delete."""
    page.generate(tokens=10, seed=3)
    saved = page.text("[data-branch=A] .context")
    page.click("[data-branch=A] .save")
    page.wait("the state", lambda: len(page.all(".saved")) == 1)
    assert saved in page.text(".state-size") and "B" in page.text(".state-size"), page.text(".state-size")
    assert "the cat" in page.text(".state-text"), page.text(".state-text")
    page.click("[data-branch=A] .go")  # the continuation without the state, with the same seed
    page.wait("more tokens", lambda: page.count("A") == 20)
    expected = page.tokens("A")[10:]

    page.reload()
    page.ready()
    page.wait("the state after a reload", lambda: len(page.all(".saved")) == 1)
    page.click(".saved .use")
    assert page.shown("#source"), "the prompt does not follow the state"
    page.generate(prompt="", tokens=10)
    same(page.tokens("A"), expected, "the continuation of the state")

    page.click(".saved .download")
    page.wait("the file", lambda: [name for name in os.listdir(servers.directory) if name.endswith(".state")])
    (name,) = os.listdir(servers.directory)
    page.one("#upload").send_keys(os.path.join(servers.directory, name))
    page.wait("the upload", lambda: len(page.all(".saved")) == 2)
    page.click(".saved .use")
    page.click("#run")
    page.finished("A")
    same(page.tokens("A"), expected, "the continuation of the uploaded state")
    page.click(".saved .delete")
    page.wait("one state", lambda: len(page.all(".saved")) == 1)
    page.click(".saved .delete")
    page.wait("no state", lambda: not page.all(".saved"))


def check_reload(page, servers):
    """The prompt, the settings and the theme are remembered."""
    values = {"temperature": "0.35", "top_k": "7", "stop": "x\\n"}
    page.fill("#prompt-text", "a line\nand another")
    page.settings(**values)
    page.script("document.getElementById('theme').value = 'dark'")
    page.script("document.getElementById('theme').dispatchEvent(new Event('change'))")
    page.reload()
    page.ready()
    same(page.one("#prompt-text").get_property("value"), "a line\nand another", "prompt")
    for name, value in values.items():
        same(page.one(f"#settings [name={name}]").get_property("value"), value, name)
    same(page.script("return document.documentElement.dataset.theme"), "dark", "theme")
    page.click("#reset-settings")
    same(page.one("#temperature").get_property("value"), "0.8", "temperature after the reset")


def check_chat(page, servers):
    """Messages, a response, a fork of it, and a reply."""
    page.click("#mode input[value=chat]")
    page.settings(max_tokens=8)
    page.fill(".message-text", "the hen?")
    page.click("#run")
    page.finished("A")
    assert "the hen?" in page.text("[data-branch=A] .conversation"), "the message is not shown"
    count = len(page.tokens("A"))
    assert count > 0, "no answer"
    page.token("A", 0).click()
    page.wait("details", lambda: page.shown("#popover-fork"))
    page.click("#popover-fork")
    page.finished("B")
    page.click("[data-branch=A] .reply")
    roles = [role.get_property("value") for role in page.all(".role")]
    same(roles, ["user", "assistant", "user"], "roles")
    page.reload()
    page.ready()
    same(len(page.all(".message")), 3, "messages after a reload")


def check_errors(page, servers):
    """Messages of the server and of the network are shown."""
    page.settings(temperature=-1)
    page.click("#run")
    page.wait("the refusal", lambda: page.status("A") == "failed")
    page.wait("its message", lambda: "temperature" in page.text("[data-branch=A] .error"))
    assert page.shown("[data-branch=A] .error"), "the message is hidden"
    same(page.one("#temperature").get_attribute("aria-invalid"), "true", "the mark of the wrong setting")
    page.settings(temperature=1, max_tokens=5)
    page.click("[data-branch=A] .go")
    page.finished("A")
    assert not page.shown("[data-branch=A] .error"), "the message stays"

    def offline(state):
        page.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            {"offline": state, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1},
        )

    page.driver.execute_cdp_cmd("Network.enable", {})
    offline(True)
    page.click("#run")
    page.wait("the failure", lambda: page.status("A") == "failed")
    offline(False)
    page.wait("its message", lambda: "cannot be reached" in page.text("[data-branch=A] .error"))
    page.errors()


def check_key(page, servers):
    """A server with a key requests it until it is correct."""
    page.open(servers.locked)
    for key, message in (("wrong", "needs"), (servers.key, "refused")):
        page.wait("the question", lambda: page.shown("#key-dialog") and message in page.text("#key-message"))
        page.fill("#key", key)
        page.keys(Keys.ENTER)
    page.ready()
    page.reload()
    page.ready()  # the key is remembered
    page.generate()
    page.errors()


def check_narrow(page, servers):
    """A phone: nothing is wider than the screen, and branches are stacked."""
    page.size(360, 740)
    same(page.overflow(), 0, "overflow of the empty page")
    if not page.shown("#max_tokens"):
        page.click("#settings summary")
    page.generate(prompt="w" * 200, tokens=60, temperature=2)
    same(page.overflow(), 0, "overflow with a branch")
    page.token("A", 3).click()
    page.wait("details", lambda: page.shown("#popover"))
    same(page.overflow(), 0, "overflow with details")
    box = page.one("#popover").rect
    assert box["width"] <= 360 and box["x"] >= 0, f"details are outside: {box}"
    page.one("#popover button.choice").click()
    page.finished("B")
    same(page.overflow(), 0, "overflow with two branches")
    first, second = (page.one(f"[data-branch={letter}]").rect for letter in "AB")
    assert second["y"] >= first["y"] + first["height"], "branches are not stacked"
    page.click("[data-branch=A] .save")
    page.wait("the state", lambda: page.all(".saved"))
    page.click(".saved .use")
    page.click("#mode input[value=chat]")
    same(page.overflow(), 0, "overflow with a state and messages")
    page.click(".saved .delete")


class Servers:
    def __init__(self, address, locked, key, directory):
        self.address, self.locked, self.key, self.directory = address, locked, key, os.path.abspath(directory)


def start_browser(directory):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-proxy-server"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(service=Service(shutil.which("chromedriver")), options=options)
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": directory})
    return driver


def run(check, page, servers):
    """Returns whether the check passed. The console must have no errors except those that the check reads itself."""
    try:
        page.size(1400, 900)
        page.open(servers.address)
        page.ready()
        page.errors()
        check(page, servers)
        same(page.errors(), [], "errors in the console")
        return True
    except (AssertionError, WebDriverException):
        print(f"FAILED: {check.__name__}: {check.__doc__}", file=sys.stderr)
        traceback.print_exc()
        return False


def main():
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        print("skipped: Chromium or its driver is not installed")
        return 77
    servers = Servers(*sys.argv[1:5])
    chosen = [f"check_{name}" for name in sys.argv[5:]]
    checks = [check for name, check in globals().items() if name.startswith("check_") and name in (chosen or [name])]
    driver = start_browser(servers.directory)
    try:
        results = [run(check, Page(driver), servers) for check in checks]
    finally:
        driver.quit()
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
