"""Chromium without a window, steered over a pair of pipes with the DevTools protocol. Standard library only."""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

PROGRAMS = ("chromium-headless-shell", "chromium")
PACKAGE = "chromium-headless-shell"


class BrowserError(Exception):
    """The browser is absent, did not start, or stopped answering."""


def find(program=None):
    for name in [program] if program else PROGRAMS:
        path = shutil.which(name)
        if path:
            return path
    raise BrowserError(f"no {program or ' or '.join(PROGRAMS)} here: apt-get install {PACKAGE}")


class Browser:
    """One page. Use as a context: the browser and its profile are gone afterwards."""

    def __init__(self, program=None, timeout=60):
        path = find(program)
        self._timeout = timeout
        self._number = 0
        self._rest = b""
        self._session = None
        self.events = []
        self._folder = tempfile.TemporaryDirectory(prefix="moert-browser-", ignore_cleanup_errors=True)
        to_browser, self._write = os.pipe()
        self._read, from_browser = os.pipe()
        self._log = open(os.path.join(self._folder.name, "stderr"), "w+b")
        command = [path, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--disable-background-networking", "--no-first-run", "--hide-scrollbars", "--mute-audio",
                   f"--user-data-dir={self._folder.name}/profile", "--remote-debugging-pipe", "about:blank"]
        # The browser reads its descriptor 3 and writes 4. dup2 in the order that overwrites neither too early.
        shell = f'exec 5<&{to_browser} 6>&{from_browser} 3<&5 4>&6 5<&- 6>&-; exec "$@"'
        self._process = subprocess.Popen(["/bin/sh", "-c", shell, "sh", *command], stdin=subprocess.DEVNULL,
                                         stdout=self._log, stderr=self._log,
                                         pass_fds=(to_browser, from_browser))
        os.close(to_browser)
        os.close(from_browser)
        try:
            self._open_page()
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for descriptor in (self._read, self._write):
            os.close(descriptor)
        self._log.close()
        self._folder.cleanup()

    def _open_page(self):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def _died(self, what):
        self._log.seek(0)
        said = self._log.read().decode(errors="replace").strip().splitlines()[-5:]
        return BrowserError(f"the browser {what}; it said: " + (" | ".join(said) or "nothing"))

    def _message(self, until):
        while b"\0" not in self._rest:
            if not select.select([self._read], [], [], max(0, until - time.monotonic()))[0]:
                raise self._died(f"did not answer in {self._timeout} s")
            part = os.read(self._read, 1 << 20)
            if not part:
                raise self._died("could not start, or ended")
            self._rest += part
        message, self._rest = self._rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self._number += 1
        request = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            request["sessionId"] = self._session
        try:
            os.write(self._write, json.dumps(request).encode() + b"\0")
        except BrokenPipeError:
            raise self._died("could not start, or ended") from None
        until = time.monotonic() + self._timeout
        while True:
            message = self._message(until)
            if message.get("id") == self._number:
                if "error" in message:
                    raise BrowserError(f"{method}: {message['error']['message']}")
                return message["result"]
            if "method" in message:
                self.events.append(message)

    def wait_for(self, method):
        until = time.monotonic() + self._timeout
        while not any(event["method"] == method for event in self.events):
            message = self._message(until)
            if "method" in message:
                self.events.append(message)

    def show(self, path, width=1280, height=900, dark=False, script=True, media=""):
        """Loads a file. `events` then holds what happened since."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=False)
        self.call("Emulation.setEmulatedMedia", media=media, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.call("Emulation.setScriptExecutionDisabled", value=not script)
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        self.wait_for("Page.loadEventFired")

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in result:
            raise BrowserError(f"{expression}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def press(self, key):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key)

    def picture(self, whole=False):
        """PNG of the window, or of the whole page."""
        return base64.b64decode(self.call("Page.captureScreenshot", format="png",
                                          captureBeyondViewport=whole, **self._clip(whole))["data"])

    def _clip(self, whole):
        if not whole:
            return {}
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}}
