# SPDX-License-Identifier: Apache-2.0
import httpx

import cases


class Library:
    def __init__(self):
        self.client = httpx.Client(timeout=cases.PATIENCE, trust_env=False)

    def request(self, method, path, headers={}, body=None):
        response = self.client.request(method, cases.BASE + path, headers=headers, content=body)
        # Its dictionary of headers knows no case.
        return response.status_code, response.headers, response.content


cases.serve(Library)
