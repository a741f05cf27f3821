# SPDX-License-Identifier: Apache-2.0
"""Keeps the names that customers give to accounts they pay to."""

from bank import Database, Refusal, Service, key


class Contacts(Service):
    database = None

    def own(self, username):
        if self.claims()["user"] != username:
            raise Refusal(403, "these are somebody else's contacts")

    def known(self, username):
        self.own(username)
        with self.database.cursor() as cursor:
            cursor.execute("SELECT label, account FROM contacts WHERE username = %s ORDER BY label LIMIT 20", (username,))
            rows = cursor.fetchall()
        self.json(200, {"contacts": [{"label": label, "account": account} for label, account in rows]})

    def add(self, username):
        self.own(username)
        label, account = self.sent("label", "account")
        with self.database.cursor() as cursor:
            cursor.execute(
                "INSERT INTO contacts (username, label, account) VALUES (%s, %s, %s)"
                " ON CONFLICT (username, label) DO UPDATE SET account = EXCLUDED.account",
                (username, label, account),
            )
        self.json(201, {})

    routes = {("GET", "contacts"): known, ("POST", "contacts"): add}


if __name__ == "__main__":
    Contacts.database = Database()
    Contacts.public_key = key("PUBLIC_KEY")
    Contacts.run()
