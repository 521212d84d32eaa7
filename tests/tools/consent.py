"""Somebody at a browser who signs in and allows a program what it asks for."""

import re
from html import unescape
from urllib.parse import parse_qsl, urljoin, urlsplit

import requests


def allow(url, email, password):
    """Answers with the parameters that the program's own address was called with."""
    browser = requests.Session()
    browser.post(urljoin(url, "/auth/login"), json={"email": email, "password": password}).raise_for_status()
    page = browser.get(url, allow_redirects=False)
    if page.status_code == 200:
        field = lambda name: unescape(re.search(rf'name="{name}" value="([^"]*)"', page.text).group(1))
        form = {"request": field("request"), "seal": field("seal"), "decision": "allow"}
        page = browser.post(urljoin(url, "/auth/oauth2/authorize"), data=form, allow_redirects=False)
    assert page.status_code == 303, f"{page.status_code} {page.text}"
    return dict(parse_qsl(urlsplit(page.headers["location"]).query))
