# SPDX-License-Identifier: Apache-2.0
"""The bank's pages. Each call to another service is a requests.get or requests.post of its own, on a connection of its own."""

import html
import os
from http.cookies import SimpleCookie
from urllib.parse import parse_qs

import requests

from bank import Refusal, Service, key

# In seconds, for each call.
PATIENCE = 5
# Money from outside comes from this account.
OUTSIDE = "0000000000"

FORMS = """
<form action="/payment" method="post"><h2>Pay</h2><input name="account" placeholder="to account"><input name="amount" placeholder="cents">
<input name="label" placeholder="keep as"><input name="uuid" placeholder="any unique word"><button>Pay</button></form>
<form action="/deposit" method="post"><h2>Deposit</h2><input name="amount" placeholder="cents"><input name="uuid" placeholder="any unique word">
<button>Deposit</button></form>"""

ENTRY = """<!doctype html><html><body><h1>The bank</h1>
<form action="/login" method="post"><input name="username"><input name="password" type="password"><button>Log in</button></form>
<form action="/signup" method="post"><input name="username"><input name="password" type="password"><input name="name"><button>Sign up</button></form>
</body></html>
"""


def call(service, method, path, token=None, **arguments):
    """Asks a service and returns its JSON. Its refusal becomes ours, its absence a 502."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    try:
        answer = requests.request(
            method, f"http://{os.environ[service + '_ADDR']}{path}", headers=headers, timeout=PATIENCE, **arguments
        )
        value = answer.json()
    except (requests.RequestException, ValueError) as error:
        raise Refusal(502, f"{service.lower()} does not answer: {error}") from error
    if answer.status_code >= 500:
        raise Refusal(502, f"{service.lower()} failed: {value}")
    if answer.status_code >= 400:
        raise Refusal(answer.status_code, value.get("problem", "refused"))
    return value


def money(cents):
    return f"{cents // 100}.{cents % 100:02d}"


def table(name, rows):
    lines = "".join("<tr>" + "".join(f"<td>{html.escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<h2>{name.capitalize()}</h2><table id="{name}">{lines}</table>'


class Frontend(Service):
    def token(self):
        cookie = SimpleCookie(self.headers.get("Cookie", "")).get("token")
        return cookie.value if cookie else None

    def customer(self):
        token = self.token()
        if token is None:
            raise Refusal(401, "log in first")
        return token, self.claims(token)

    def form(self, *names):
        values = {name: value[0] for name, value in parse_qs(self.body.decode()).items()}
        if any(name not in values for name in names):
            raise Refusal(400, f"need {', '.join(names)}")
        return [values[name] for name in names], values

    def home(self, _):
        if self.token() is None:
            self.answer(200, "text/html", ENTRY)
            return
        token, claims = self.customer()
        account = claims["account"]
        balance = call("BALANCEREADER", "GET", f"/balances/{account}", token)["balance"]
        history = call("HISTORY", "GET", f"/history/{account}", token)["transactions"]
        contacts = call("CONTACTS", "GET", f"/contacts/{claims['user']}", token)["contacts"]
        signed = ((t["to"], money(-t["amount"])) if t["from"] == account else (t["from"], money(t["amount"])) for t in history)
        self.answer(
            200,
            "text/html; charset=utf-8",
            f"<!doctype html><html><body><h1>{html.escape(claims['name'])}</h1>"
            f'<p>Account <b id="account">{account}</b> holds <b id="balance">{money(balance)}</b></p>'
            f'{table("history", signed)}{table("contacts", ((c["label"], c["account"]) for c in contacts))}{FORMS}</body></html>\n',
        )

    def sign_up(self, _):
        (username, password, name), _ = self.form("username", "password", "name")
        call("USERSERVICE", "POST", "/users", json={"username": username, "password": password, "name": name})
        self.enter(username, password)

    def log_in(self, _):
        (username, password), _ = self.form("username", "password")
        self.enter(username, password)

    def enter(self, username, password):
        token = call("USERSERVICE", "POST", "/login", json={"username": username, "password": password})["token"]
        self.answer(303, "text/plain", "welcome\n", Location="/", Set_Cookie=f"token={token}; HttpOnly; Path=/")

    def pay(self, _):
        token, claims = self.customer()
        (account, amount, uuid), more = self.form("account", "amount", "uuid")
        self.transfer(token, uuid, claims["account"], account, amount)
        if "label" in more:
            call("CONTACTS", "POST", f"/contacts/{claims['user']}", token, json={"label": more["label"], "account": account})
        self.answer(303, "text/plain", "paid\n", Location="/")

    def deposit(self, _):
        token, claims = self.customer()
        (amount, uuid), _ = self.form("amount", "uuid")
        self.transfer(token, uuid, OUTSIDE, claims["account"], amount)
        self.answer(303, "text/plain", "deposited\n", Location="/")

    def transfer(self, token, uuid, source, target, amount):
        if not amount.isdigit():
            raise Refusal(400, "the amount is a number of cents")
        call("LEDGERWRITER", "POST", "/transactions", token, json={"uuid": uuid, "from": source, "to": target, "amount": int(amount)})

    routes = {
        ("GET", ""): home,
        ("POST", "signup"): sign_up,
        ("POST", "login"): log_in,
        ("POST", "payment"): pay,
        ("POST", "deposit"): deposit,
    }


if __name__ == "__main__":
    Frontend.public_key = key("PUBLIC_KEY")
    Frontend.run()
