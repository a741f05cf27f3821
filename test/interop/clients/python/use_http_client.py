# SPDX-License-Identifier: Apache-2.0
import http.client
import urllib.parse

import cases


class Library:
    def __init__(self):
        base = urllib.parse.urlsplit(cases.BASE)
        self.connection = http.client.HTTPConnection(base.hostname, base.port, timeout=cases.PATIENCE)

    def request(self, method, path, headers={}, body=None):
        # Without a length http.client sends an iterator in chunks.
        self.connection.request(method, path, body, headers)
        response = self.connection.getresponse()
        fields = {name.lower(): value for name, value in response.getheaders()}
        return response.status, fields, response.read()


cases.serve(Library)
