# SPDX-License-Identifier: Apache-2.0
"""A headless browser that opens vramtap's pages: Debian's Chromium through Selenium.

with Browser() as browser: browser.open(path) fails on an error in the console and on any request but for the file itself;
browser.run("return ...") runs a script in the page. VRAMTAP_SHOTS=DIR keeps screenshots there.
"""
import json
import os
import shutil
import sys
import time

from harness import Skip, check, equal

try:
    import selenium  # noqa: F401
except ImportError:  # another interpreter's: Debian's has it
    sys.path.append("/usr/lib/python3/dist-packages")

SHOTS = os.environ.get("VRAMTAP_SHOTS")


def need_browser():
    try:
        from selenium import webdriver
    except ImportError:
        raise Skip("python3-selenium is missing") from None
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not chromium or not driver:
        raise Skip("chromium and chromium-driver are missing")
    return webdriver, chromium, driver


class Browser:
    def __init__(self, width=1400, height=1000, dark=False):
        webdriver, chromium, driver = need_browser()
        options = webdriver.ChromeOptions()
        options.binary_location = chromium
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                         "--disable-background-networking", "--no-first-run", f"--window-size={width},{height}"):
            options.add_argument(argument)
        if dark:
            options.add_argument("--blink-settings=preferredColorScheme=0")
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        self.driver = webdriver.Chrome(service=webdriver.chrome.service.Service(driver), options=options)
        self.driver.set_page_load_timeout(120)
        self.driver.set_script_timeout(60)
        self.url = None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.driver.quit()

    def open(self, path):
        """Opens a page that vramtap wrote, and waits until its scripts have run. Returns milliseconds until then."""
        self.driver.get_log("performance")
        self.url = "file://" + os.path.abspath(path)
        self.driver.get(self.url)
        equal(self.run("return document.documentElement.dataset.ready"), "true", "the page's scripts ran")
        self.settle()
        self.check_quiet()
        return self.run("return performance.getEntriesByName('vramtap-ready')[0].startTime")

    def settle(self):
        """Two frames later, what was asked for is drawn."""
        self.driver.execute_async_script("const done = arguments[0];"
                                         "requestAnimationFrame(() => requestAnimationFrame(() => done()))")

    def check_quiet(self):
        """No message in the console, and no request but for the file: to be called after clicks, too."""
        equal([entry["message"] for entry in self.driver.get_log("browser")], [], "the console")
        urls = []
        for entry in self.driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            if message["method"] == "Network.requestWillBeSent":
                urls.append(message["params"]["request"]["url"])
        others = [url for url in urls if url.split("#")[0] != self.url and not url.startswith("data:")]
        equal(others, [], "requests")

    def run(self, script, *args):
        return self.driver.execute_script(script, *args)

    def show_all(self):
        """Draws every part, as printing does."""
        self.run("dispatchEvent(new Event('beforeprint'))")
        self.settle()
        self.check_quiet()

    def text(self, selector):
        """What a user can read. Chromium lays out an element with content-visibility: auto, and gives it a text, with the next frame."""
        self.settle()
        return self.run("return Array.from(document.querySelectorAll(arguments[0]), (one) => one.innerText)", selector)

    def element(self, selector):
        return self.driver.find_element("css selector", selector)

    def elements(self, selector):
        return self.driver.find_elements("css selector", selector)

    def resize(self, width, height):
        self.driver.set_window_size(width, height)
        self.settle()

    def shot(self, name):
        if SHOTS:
            os.makedirs(SHOTS, exist_ok=True)
            self.driver.save_screenshot(os.path.join(SHOTS, name + ".png"))

    def wait(self, script, what, seconds=10):
        end = time.monotonic() + seconds
        while not self.run("return " + script):
            check(time.monotonic() < end, f"{what} within {seconds} s")
            time.sleep(0.02)


def each_key_once(pairs):
    keys = [key for key, _ in pairs]
    check(len(set(keys)) == len(keys), "keys that are there twice", sorted({key for key in keys if keys.count(key) > 1}))
    return dict(pairs)


def documents(path):
    """The JSON documents in a page, as another program would find them there."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    scripts = [part.split(">", 1) for part in text.split('<script type="application/json" ')[1:]]
    parsed = [(head, json.loads(body.split("</script>", 1)[0], object_pairs_hook=each_key_once)) for head, body in scripts]
    check(any(head.startswith('id="words"') for head, _ in parsed), "the words of codes", [head for head, _ in parsed])
    return [document for head, document in parsed if head.startswith('class="vramtap-document"')]
