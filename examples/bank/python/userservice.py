# SPDX-License-Identifier: Apache-2.0
"""Knows the customers and their passwords, and signs the tokens by which all services know them."""

import hashlib
import os
import secrets
import time

import jwt
import psycopg2.errors

from bank import ALGORITHM, Database, Refusal, Service, key

# Few, because this bank has nothing to lose.
ITERATIONS = 1000
# How long a token is good for, in seconds.
LIFETIME = 3600


def hashed(password, salt):
    return hashlib.pbkdf2_hmac("sha256", password.encode(), salt, ITERATIONS)


class UserService(Service):
    database = None
    private_key = None

    def sign_up(self, _):
        username, password, name = self.sent("username", "password", "name")
        account = str(1_000_000_000 + secrets.randbelow(9_000_000_000))
        salt = os.urandom(16)
        try:
            with self.database.cursor() as cursor:
                cursor.execute(
                    "INSERT INTO users (username, account, name, salt, password) VALUES (%s, %s, %s, %s, %s)",
                    (username, account, name, salt, hashed(password, salt)),
                )
        except psycopg2.errors.UniqueViolation as error:
            raise Refusal(409, f"there is a {username} already") from error
        self.json(201, {"account": account})

    def log_in(self, _):
        username, password = self.sent("username", "password")
        with self.database.cursor() as cursor:
            cursor.execute("SELECT account, name, salt, password FROM users WHERE username = %s", (username,))
            row = cursor.fetchone()
        if row is None or not secrets.compare_digest(bytes(row[3]), hashed(password, bytes(row[2]))):
            raise Refusal(401, "the name or the password is wrong")
        now = int(time.time())
        claims = {"user": username, "account": row[0], "name": row[1], "iat": now, "exp": now + LIFETIME}
        self.json(200, {"token": jwt.encode(claims, self.private_key, algorithm=ALGORITHM)})

    routes = {("POST", "users"): sign_up, ("POST", "login"): log_in}


if __name__ == "__main__":
    UserService.database = Database()
    UserService.private_key = key("PRIVATE_KEY")
    UserService.run()
