# SPDX-License-Identifier: Apache-2.0
import requests

import cases


class Library:
    def __init__(self):
        self.session = requests.Session()
        self.session.trust_env = False

    def request(self, method, path, headers={}, body=None):
        response = self.session.request(
            method, cases.BASE + path, headers=headers, data=body, timeout=cases.PATIENCE
        )
        # Its dictionary of headers knows no case.
        return response.status_code, response.headers, response.content


cases.serve(Library)
